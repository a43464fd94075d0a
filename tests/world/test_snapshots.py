"""Forks: the same random numbers with other actions, or the same past with another seed; forks are independent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.errors import ApiError, ForkError
from leyden.server.errors import StoreError
from leyden.server.version import VERSION
from leyden.world.snapshots.snapshots import dump_world
from tests.support.channel_audit import audit
from tests.support.deep import deep
from tests.support.examples import examples
from tests.support.strategies import URL, Action, actions, full_state, perform

some = st.lists(actions, max_size=12)
few = st.lists(actions, max_size=6)


def after(past: list[Action]) -> Sandbox:
    sandbox = Sandbox(seed=7, start="2030-01-01T09:00Z")
    for action in past:
        perform(sandbox, action)
    return sandbox


# Properties


@given(some, few)
def test_a_fork_and_its_parent_are_independent(past: list[Action], future: list[Action]) -> None:
    parent = after(past)
    before = full_state(parent)
    fork = parent.fork()
    assert full_state(fork) == before
    for action in future:
        perform(fork, action)
    fork.run("10m")
    assert full_state(parent) == before
    there = full_state(fork)
    for action in future:
        perform(parent, action)
    parent.advance("1h")
    assert full_state(fork) == there


@given(some, few)
def test_the_same_actions_on_a_fork_and_its_parent_give_the_same_state(
    past: list[Action], future: list[Action]
) -> None:
    parent = after(past)
    fork = parent.fork()
    for action in future:
        perform(parent, action)
        perform(fork, action)
    assert fork.journal_hash == parent.journal_hash
    assert full_state(fork) == full_state(parent)


@given(some, few)
def test_a_fork_continues_as_its_parent_would(past: list[Action], future: list[Action]) -> None:
    fork = after(past).fork().fork()
    for action in future:
        perform(fork, action)
    assert full_state(fork) == full_state(after(past + future))


@given(some, few)
def test_a_loaded_snapshot_is_the_same_sandbox(past: list[Action], future: list[Action]) -> None:
    parent = after(past)
    again = Sandbox.from_snapshot(json.loads(json.dumps(parent.snapshot())))
    assert full_state(again) == full_state(parent)
    for action in future:
        perform(parent, action)
        perform(again, action)
    assert full_state(again) == full_state(parent)


@given(some, few)
def test_a_restored_sandbox_has_its_former_state(past: list[Action], future: list[Action]) -> None:
    sandbox = after(past)
    shop = sandbox.receiver("shop")
    before, snapshot = full_state(sandbox), sandbox.snapshot()
    for action in future:
        perform(sandbox, action)
    assert full_state(sandbox.restore(snapshot)) == before
    shop.answers([500])
    assert sandbox.receiver("shop").script[0]["status"] == 500, "the pending script is restored"


@deep("test_a_fork_continues_as_its_parent_would")
@given(some, some)
def test_the_frames_of_forks_can_be_concatenated(past: list[Action], future: list[Action]) -> None:
    parent = after(past)
    fork = parent.fork("other")
    for action in future:
        perform(fork, action)
    for name in ("payments", "attempts", "htlcs", "deliveries", "callbacks", "balances", "journal"):
        here, there = parent.table(name), fork.table(name)
        both = pd.concat([here, there], ignore_index=True)
        assert both.dtypes.equals(here.dtypes)
        assert len(both) == len(here) + len(there)
        assert set(both["world"]) <= {"main", "other"}


@given(some, few)
def test_a_diff_has_only_rows_that_differ(past: list[Action], future: list[Action]) -> None:
    parent = after(past)
    fork = parent.fork()
    assert parent.diff(fork).empty
    for action in future:
        perform(fork, action)
    one, other = parent.diff(fork), fork.diff(parent)
    assert one[["table", "id", "field"]].apply(tuple, axis=1).sort_values().tolist() == (
        other[["table", "id", "field"]].apply(tuple, axis=1).sort_values().tolist()
    )
    assert list(one.columns) == ["table", "id", "field", "here", "there"]


# Comparisons


def test_three_payments_around_the_last_second() -> None:
    sandbox = Sandbox(seed=7, start="2030-01-01T09:00Z")
    late = sandbox.charges.create(amount="250000", description="Late", expiresIn=60)
    ends = {}
    for edge in ("-1s", "0s", "+1s"):
        world = sandbox.fork(label=edge)
        world.advance_to(late.expires_at, offset=edge)
        world.wallet("bob").pay(late)
        world.run()
        ends[edge] = world.charges[late.id].status
    assert ends == {"-1s": "completed", "0s": "expired", "+1s": "expired"}
    assert late.status == "pending"
    assert sandbox.now == "2030-01-01T09:00:00.000Z"


def test_the_fork_example_takes_under_ten_lines() -> None:
    lines = """
        sb = Sandbox(seed=7, start="2030-01-01T09:00Z")
        coffee = sb.charges.create(amount="250000", description="Coffee")
        sb.wallet("ana").pay(coffee); sb.run()
        late = sb.charges.create(amount="250000", description="Late", expiresIn=60)
        before = sb.fork("one second earlier")
        sb.advance_to(late.expires_at); sb.wallet("bob").pay(late); sb.run()
        before.advance_to(late.expires_at, offset="-1s"); before.wallet("bob").pay(late); before.run()
        table = sb.diff(before)
    """.strip().splitlines()
    assert len(lines) < 10
    story: dict[str, object] = {"Sandbox": Sandbox}
    exec("\n".join(line.strip() for line in lines), story)
    table = story["table"]
    assert isinstance(table, pd.DataFrame)
    shown = {(row.table, row.field): (row.here, row.there) for row in table.itertuples()}
    assert shown["charges", "status"] == ("expired", "completed")
    assert shown["payments", "outcome"] == ("INCORRECT_PAYMENT_DETAILS", "SUCCEEDED")
    assert shown["charges", "confirmed_at"] == (None, pd.Timestamp("2030-01-01T09:00:59Z"))
    assert set(table["id"]) == {story["late"].id} | set(table["id"][table["table"] != "charges"])  # type: ignore[attr-defined]
    assert story["coffee"].id not in set(table["id"])  # type: ignore[attr-defined]


def test_a_fork_with_another_seed_has_the_same_past() -> None:
    sandbox = Sandbox(seed=7)
    sandbox.charges.create(amount="1000", description="tea")
    first, other, again = (sandbox.fork(reseed=seed) for seed in (1, 2, 1))
    assert first.journal_hash == other.journal_hash == sandbox.journal_hash
    ids = [world.charges.create(amount="1000", description="next").id for world in (sandbox, first, other, again)]
    assert len(set(ids)) == 3
    assert ids[1] == ids[3]
    assert (first.label, sandbox.fork().label, sandbox.label) == ("seed 1", "fork", "main")


def test_resources_belong_to_the_sandbox_that_created_them() -> None:
    sandbox = Sandbox(seed=7)
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips", allowedSlots=1)
    fork = sandbox.fork()
    fork.wallet("ana").scan(tips, amount=2000)
    fork.run()
    assert (tips.slots, fork.static_charges[tips.id].slots) == (0, 1)
    only_there = fork.charges.create(amount="1000", description="only there")
    with pytest.raises(ApiError, match="404"):
        sandbox.charges[only_there.id]
    refused = sandbox.wallet("bob").pay(only_there)
    sandbox.run()
    assert "no invoice with this payment hash" in str(refused.reason)


def test_an_attempt_in_flight_is_in_flight_in_both() -> None:
    sandbox = Sandbox(seed=7)
    sandbox.receiver("shop").answers(["timeout", 200])
    charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=URL)
    sandbox.wallet("ana").pay(charge)
    sandbox.run("1s")
    fork = sandbox.fork()
    for world in (sandbox, fork):
        world.run()
        assert list(world.callbacks["error"].fillna("")) == ["timeout", ""]
        assert list(world.callbacks["http_status"].fillna(0)) == [0, 200]
        assert len(world.receiver("shop").inbox) == 2
    assert fork.journal_hash == sandbox.journal_hash


def test_a_fork_of_a_sandbox_in_a_directory_is_in_memory(tmp_path: Path) -> None:
    with Sandbox(seed=7, data=tmp_path) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
        fork = sandbox.fork()
        fork.run()
        assert (charge.status, fork.charges[charge.id].status) == ("pending", "expired")
        assert not fork.world.store.is_durable
        with pytest.raises(ForkError, match="from_snapshot"):
            sandbox.restore(sandbox.snapshot())


def test_a_fork_inside_a_transaction_is_refused() -> None:
    sandbox = Sandbox()
    with sandbox.world.exclusive(), pytest.raises(StoreError, match="inside a commit"):
        sandbox.fork()


@pytest.mark.parametrize("network", ["line:4", "star:12", "scale-free:60"])
def test_a_network_is_forked_with_its_payments_in_flight(network: str) -> None:
    sandbox = Sandbox(seed=7, network=network)
    for payer in ("ana", "bob"):
        sandbox.wallet(payer).pay(sandbox.charges.create(amount="20000000", description="TV"))
    sandbox.step()
    sandbox.step()
    assert sandbox.world.engine is not None
    assert sandbox.world.engine.shards
    before = full_state(sandbox)
    fork, again = sandbox.fork(), Sandbox.from_snapshot(json.loads(json.dumps(sandbox.snapshot())))
    other = sandbox.fork(reseed=1)
    assert full_state(fork) == full_state(again) == before
    for world in (fork, again, other):
        world.run("1h")
    assert full_state(sandbox) == before, "the channels of the parent are unchanged"
    sandbox.run("1h")
    assert full_state(fork) == full_state(again) == full_state(sandbox)
    assert other.journal_hash != sandbox.journal_hash
    for world in (sandbox, fork, again, other):
        assert world.world.engine is not None
        audit(world.world.engine)


def test_what_if_the_shop_had_no_inbound_liquidity() -> None:
    sandbox = Sandbox(seed=7, network="scale-free:60")
    dry = sandbox.fork(label="inbound dry")
    dry.network["shop"].drain(inbound=0.98)
    for world in (sandbox, dry):
        world.wallet("bob").pay(world.charges.create(amount="400000000", description="TV"))
        world.run("10m")
    assert sandbox.payments["outcome"].tolist() == ["SUCCEEDED"]
    assert "SUCCEEDED" not in dry.payments["outcome"].tolist()
    tries = dry.attempts[["at", "hop", "code", "retried", "learned"]]
    assert len(tries) > len(sandbox.attempts)
    assert set(sandbox.diff(dry)["table"]) >= {"charges", "payments", "attempts", "balances"}
    sandboxes: dict[str, Sandbox] = {}
    exec(dry.script(), sandboxes)
    assert full_state(sandboxes["sb"]) == full_state(dry)


# Cases


def test_a_case_is_a_file(tmp_path: Path) -> None:
    sandbox = after([("create", "1000", 60, URL), ("pay", 0, "hold", 0), ("advance", 1), ("traffic", "30/min")])
    path = sandbox.save(tmp_path / "case.json")
    opened = Sandbox.load(path, label="again")
    assert (opened.label, full_state(opened)) == ("again", full_state(sandbox))
    assert json.loads(path.read_text())["leyden"]
    sandbox.run()
    opened.run()
    assert opened.journal_hash == sandbox.journal_hash
    assert opened.script() == sandbox.script().replace(")", ', label="again")', 1)


def test_a_file_without_a_sandbox_is_refused(tmp_path: Path) -> None:
    (tmp_path / "case.json").write_text("not JSON", encoding="utf-8")
    with pytest.raises(ForkError, match="is no saved sandbox"):
        Sandbox.load(tmp_path / "case.json")
    with pytest.raises(ForkError, match="give what `snapshot"):
        Sandbox.from_snapshot({})


def test_a_case_of_another_format_is_refused() -> None:
    with pytest.raises(ForkError, match="format 3 and only 1 to 2"):
        Sandbox.from_snapshot({**Sandbox().snapshot(), "format": 3})


@pytest.mark.parametrize("overlays", [(), ("strict",), ("payable-at-expiry", "callback-envelope")])
def test_a_case_contains_the_specification_it_was_created_with(overlays: tuple[str, ...]) -> None:
    sandbox = Sandbox(seed=7, overlays=overlays)
    again = Sandbox.from_snapshot(sandbox.snapshot())
    assert again.world.config.contract is sandbox.world.config.contract


def test_a_case_contains_an_edited_specification(tmp_path: Path) -> None:
    packaged = Path(__file__).parents[2] / "specs" / "charges.openapi.yaml"
    edited = tmp_path / "mine.yaml"
    edited.write_text(packaged.read_text().replace("default: 600", "default: 601"))
    sandbox = Sandbox(seed=7, spec=edited)
    snapshot = json.loads(json.dumps(sandbox.snapshot()))
    edited.unlink()
    again = Sandbox.from_snapshot(snapshot)
    for world in (sandbox, again, sandbox.fork()):
        charge = world.charges.create(amount="1000", description="tea")
        assert (charge.expires_at - charge.created_at).total_seconds() == 601
    assert dump_world(again.world) == dump_world(sandbox.world)


def test_a_case_is_opened_in_another_process(tmp_path: Path) -> None:
    sandbox = after([("create", "1000", 60, URL), ("static", 1), ("scan", 0, 2000), ("answers", [500])])
    path = sandbox.save(tmp_path / "case.json")
    code = f"from leyden import Sandbox; sb = Sandbox.load({str(path)!r}); sb.run(); print(sb.journal_hash)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    sandbox.run()
    assert printed.strip() == sandbox.journal_hash


# Cost


@examples(10, bounded=4)
@given(st.integers(1, 40))
def test_a_fork_shares_what_never_changes(count: int) -> None:
    sandbox = Sandbox(seed=7)
    for _ in range(count):
        sandbox.charges.create(amount="1000", description="tea")
    fork = sandbox.fork()
    ours, theirs = (world.world.store.snapshot()["charges"].rows for world in (sandbox, fork))
    assert all(ours[place] is theirs[place] for place in ours)
    mine, other = (world.world.journal.entries() for world in (sandbox, fork))
    assert all(one.facts is two.facts for one, two in zip(mine, other, strict=True))


def test_a_stream_whose_limit_is_below_its_arrivals_ends(sandbox: Sandbox) -> None:
    """A saved sandbox may have any limit."""
    sandbox.traffic(rate="2/min", count=20)
    sandbox.advance("3m")
    state = json.loads(json.dumps(dump_world(sandbox.world)))
    [[_, row]] = state["tables"]["traffic"]["rows"]
    state["leyden"], arrived, row["limit"] = VERSION, row["arrived"], 0
    assert arrived > 1
    with Sandbox.from_snapshot(state) as again:
        again.advance("2h")
        assert len(again.charges) <= arrived + 1


def test_a_fault_with_more_idle_hits_than_hits_is_refused(sandbox: Sandbox) -> None:
    """Its number of hits would be below 0."""
    sandbox.faults.add("reorder")
    state = json.loads(json.dumps(dump_world(sandbox.world)))
    [[_, row]] = state["tables"]["faults"]["rows"]
    state["leyden"], row["idle"] = VERSION, row["hits"] + 1
    with pytest.raises(ForkError, match="idle is 1, more than its 0 hits"):
        Sandbox.from_snapshot(state)


def test_the_number_of_the_run_is_saved(tmp_path: Path) -> None:
    """An inbox says in which run it is, and the seed of the next run depends on it."""
    sandbox = Sandbox(seed=1)
    sandbox.receiver("shop")
    sandbox.ask("POST", "/sandbox/v1/reset", {})
    charge = sandbox.charges.create(amount="1000", description="x", callbackUrl="http://shop.localhost/a")
    sandbox.wallet("ana").pay(charge)
    sandbox.run("1m")
    loaded = Sandbox.load(sandbox.save(tmp_path / "saved.json"))
    runs = [one.ask("GET", "/sandbox/v1/inboxes/shop")["run"] for one in (sandbox, loaded, sandbox.fork())]
    assert runs == [2, 2, 2]
    for one in (sandbox, loaded):
        one.ask("POST", "/sandbox/v1/reset", {})
    assert [one.ask("GET", "/sandbox/v1/inboxes")["data"] for one in (sandbox, loaded)] == [[], []]
    assert sandbox.world.config.seed == loaded.world.config.seed
    assert sandbox.world.config.run == loaded.world.config.run == 3


def test_a_file_of_a_former_version_is_in_its_first_run() -> None:
    snapshot = Sandbox(seed=1).snapshot()
    del snapshot["config"]["run"]
    assert Sandbox.from_snapshot(snapshot).world.config.run == 1
    snapshot["config"]["run"] = -1
    with pytest.raises(ForkError, match="/config/run"):
        Sandbox.from_snapshot(snapshot)
