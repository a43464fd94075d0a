"""Force closes: a channel whose HTLC ran out is gone, its HTLCs and balances are resolved on the chain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from leyden import Sandbox
from leyden.lab.drawings import network
from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.network_conditions import NetworkConditions, SampledConditions
from leyden.lightning.engine.on_chain import TIMEOUT_BLOCKS, TO_SELF_DELAY_BLOCKS
from leyden.lightning.network.network_tables import balances_of, htlcs_of
from leyden.lightning.topology.graph import from_edges
from leyden.sandbox.resources import Charge, Payment
from tests.support.channel_audit import audit

START = "2030-01-01T09:00:00Z"
# ana reaches the shop over n1; bob too, and over n2.
EDGES = [
    ("ana", "n1", 10_000_000),
    ("n1", "shop", 10_000_000),
    ("ana", "n2", 10_000_000),
    {"a": "n2", "b": "shop", "capacity_sat": 10_000_000, "base_msat": 5_000},
]
TO_N1, TO_SHOP = 0, 1  # channels


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(seed=7, start=START, network=from_edges(EDGES, shop="shop"), conditions="ideal") as sandbox:
        yield sandbox


def pay(sandbox: Sandbox, **how: str) -> tuple[Charge, Payment]:
    charge = sandbox.charges.create(amount="250000000", description="tea", expiresIn=30 * 86_400)
    return charge, sandbox.wallet("ana").pay(charge, **how)


def engine(sandbox: Sandbox) -> Engine:
    found = sandbox.world.engine
    assert found is not None
    return found


def height(sandbox: Sandbox) -> int:
    return engine(sandbox).conditions.height(sandbox.world.clock.now())


def to_height(sandbox: Sandbox, block: int) -> None:
    sandbox.world.move(lambda clock: clock.advance_to(engine(sandbox).conditions.block_time(block)))


def conserved(sandbox: Sandbox) -> None:
    audit(engine(sandbox))
    rows = balances_of(sandbox.world.payments)
    for one, other in zip(rows[::2], rows[1::2], strict=True):
        parts = one["local_msat"] + one["remote_msat"] + one["in_flight_msat"]
        assert parts + one["on_chain_msat"] + other["on_chain_msat"] == one["capacity_msat"]
        assert (one["local_msat"], one["remote_msat"]) == (other["remote_msat"], other["local_msat"])


def statuses(sandbox: Sandbox) -> list[str]:
    return [row["status"] for row in balances_of(sandbox.world.payments)[::2]]


def test_the_channel_of_a_dropped_htlc_is_force_closed_when_that_expires_and_used_no_more(sandbox):
    """BOLT 2, an offering node: "if an HTLC which it offered is in either node's current commitment transaction, AND is
    past this timeout deadline: [...] MUST fail the channel"."""
    sandbox.network.intercept("drop", node="n1", times=1)
    dropped, payment = pay(sandbox)
    sandbox.run("1m")
    [htlc] = htlcs_of(sandbox.world.payments)
    to_height(sandbox, htlc["cltv_expiry"] - 1)
    assert statuses(sandbox) == ["open"] * 4
    to_height(sandbox, htlc["cltv_expiry"])
    assert statuses(sandbox) == ["closing", "open", "open", "open"]
    assert payment.status == "in_flight"
    conserved(sandbox)
    [entry] = sandbox.world.journal.entries(kind="channel_force_closed")
    assert (entry.subject, entry.facts["channel"], entry.facts["peer"]) == ("ana", TO_N1, "n1")
    assert entry.facts["height"] == htlc["cltv_expiry"]
    charge, later = pay(sandbox)
    sandbox.run("1m")
    assert (later.outcome, later.row["attempts"][0]["route"]) == ("SUCCEEDED", ["n2", "shop"])
    assert charge.status == "completed"
    assert "force closes" not in charge.timeline().text
    assert dropped.timeline().text.count("ana force closes its channel with n1  ") == 1
    sandbox.run("20d")
    assert (payment.outcome, payment.row["attempts"][0]["code"]) == ("TIMEOUT", 0x4008)
    conserved(sandbox)


def test_the_incoming_htlc_is_failed_when_the_outgoing_one_was_resolved_on_the_chain(sandbox):
    """BOLT 5: "once the resolving transaction has reached reasonable depth: MUST fail the corresponding incoming HTLC";
    before that BOLT 2: "MUST NOT fail the incoming HTLC"."""
    sandbox.network.intercept("drop", hop=2, times=1)
    _, payment = pay(sandbox)
    sandbox.run("20d")
    first, second = htlcs_of(sandbox.world.payments)
    times = engine(sandbox).conditions
    assert times.height(second["resolved_at"]) == second["cltv_expiry"] + TIMEOUT_BLOCKS
    assert second["resolved_at"] < first["resolved_at"] < times.block_time(first["cltv_expiry"])
    assert [row["status"] for row in (first, second)] == ["failed", "failed"]
    assert payment.row["attempts"][0]["source"] == "n1"
    assert statuses(sandbox)[:2] == ["open", "closed"]
    conserved(sandbox)


def test_a_channel_that_was_closed_by_agreement_has_its_balances_on_the_chain_too(sandbox):
    """BOLT 2, "closing_signed": only "once all HTLCs are cleared" the closing transaction is signed."""
    sandbox.network.intercept("delay", node="n1", delay="10m")
    _, payment = pay(sandbox)
    sandbox.run("1m")
    before = balances_of(sandbox.world.payments)[0]
    assert before["in_flight_msat"] > 0
    sandbox.network.close_channel(TO_N1)
    shown = [repr(sandbox.network["ana"])]
    [own] = [row for row in balances_of(sandbox.world.payments, "ana") if row["channel"] == TO_N1]
    assert (own["status"], own["local_msat"], own["on_chain_msat"]) == ("closing", before["local_msat"], 0)
    conserved(sandbox)
    sandbox.run("1h")
    shown.append(repr(sandbox.network["ana"]))
    assert payment.status == "succeeded"
    for account in ("ana", "n1", "shop"):
        rows = balances_of(sandbox.world.payments, account)
        assert sum(row["local_msat"] for row in rows) == sandbox.network[account].outbound_msat
        assert sum(row["remote_msat"] for row in rows) == sandbox.network[account].inbound_msat
    [own] = [row for row in balances_of(sandbox.world.payments, "ana") if row["channel"] == TO_N1]
    assert (own["status"], own["local_msat"], own["share"]) == ("closed", 0, 0)
    assert own["on_chain_msat"] == own["before_msat"] + own["change_msat"] > 0
    assert sandbox.ask("GET", "/sandbox/v1/network/nodes/ana")["channels"][0]["onChain"] == str(own["on_chain_msat"])
    assert ["1 open channel, 1 closing," in shown[0], "1 open channel, 1 closed," in shown[1]] == [True, True]
    conserved(sandbox)


def test_the_balance_of_the_closing_node_is_on_the_chain_after_its_delay(sandbox):
    """BOLT 3: `to_local` is spendable after `to_self_delay`, `to_remote` at once."""
    sandbox.network.intercept("drop", node="n1", times=1)
    pay(sandbox)
    sandbox.run("1m")
    closed_at = htlcs_of(sandbox.world.payments)[0]["cltv_expiry"]
    seen = []
    for blocks in (0, 1, TO_SELF_DELAY_BLOCKS, TO_SELF_DELAY_BLOCKS + 1):
        to_height(sandbox, closed_at + blocks)
        own, peer = balances_of(sandbox.world.payments)[:2]
        seen.append((own["on_chain_msat"] > 0, peer["on_chain_msat"] > 0, own["status"]))
        conserved(sandbox)
    assert seen == [
        (False, False, "closing"),
        (False, True, "closing"),
        (False, True, "closing"),
        (True, True, "closed"),
    ]
    own, peer = balances_of(sandbox.world.payments)[:2]
    assert (own["local_msat"], own["on_chain_msat"]) == (0, 5_000_000_000)  # the HTLC has come back
    assert "force closed: 1 of the channels (0), 10000000000 msat on the chain" in repr(sandbox.network)
    node = sandbox.ask("GET", "/sandbox/v1/network/nodes/ana")
    assert [(row["local"], row["onChain"], row["closed"]) for row in node["channels"]] == [
        ("0", "5000000000", True),
        (str(balances_of(sandbox.world.payments)[4]["local_msat"]), "0", False),
    ]
    assert "1 force closed with 10.0M sat on the chain" in network(sandbox.world).text


def test_an_htlc_that_is_held_over_a_closed_channel_can_still_be_settled_on_the_chain(sandbox):
    """BOLT 2: "upon discovering the `payment_preimage` from an on-chain HTLC spend: MUST fulfill the incoming HTLC"."""
    held_charge, held = pay(sandbox, outcome="hold")
    sandbox.run("1m")
    with sandbox.world.exclusive():
        engine(sandbox).force_close(2 * TO_SHOP, "as a test")
    held.settle()
    assert held_charge.status == "completed"
    sandbox.run("5s")
    assert held.status == "held"  # the payer learns the preimage from the chain
    sandbox.run("3h")
    assert held.outcome == "SUCCEEDED"
    _, second = htlcs_of(sandbox.world.payments)
    assert height(sandbox) > engine(sandbox).conditions.height(second["resolved_at"]) > second["cltv_expiry"] - 83
    conserved(sandbox)


def test_a_held_htlc_that_is_failed_over_a_closed_channel_comes_back_after_its_expiry(sandbox):
    """BOLT 5: the offerer of an HTLC has to wait until it "has timed out" to spend it."""
    _, held = pay(sandbox, outcome="hold")
    sandbox.run("1m")
    with sandbox.world.exclusive():
        engine(sandbox).force_close(2 * TO_SHOP, "as a test")
    held.cancel()
    sandbox.run("20d")
    assert held.status == "failed"
    _, second = htlcs_of(sandbox.world.payments)
    assert engine(sandbox).conditions.height(second["resolved_at"]) == second["cltv_expiry"] + TIMEOUT_BLOCKS
    conserved(sandbox)


def test_a_preimage_that_a_node_does_not_take_in_time_is_claimed_on_the_chain(sandbox):
    """BOLT 2, a fulfilling node: "if an HTLC it has fulfilled is in either node's current commitment transaction, AND
    is past this fulfillment deadline: [...] MUST fail the channel": 18 blocks before the expiry."""
    charge, held = pay(sandbox, outcome="hold")
    sandbox.run("1m")
    sandbox.network["n1"].offline()
    held.settle()
    sandbox.run("20d")
    assert (held.outcome, charge.status) == ("SUCCEEDED", "completed")
    closes = {entry.facts["channel"]: entry for entry in sandbox.world.journal.entries(kind="channel_force_closed")}
    first, second = htlcs_of(sandbox.world.payments)
    assert (closes[TO_SHOP].subject, closes[TO_SHOP].facts["height"]) == ("shop", second["cltv_expiry"] - 18)
    assert (closes[TO_N1].subject, closes[TO_N1].facts["height"]) == ("n1", first["cltv_expiry"] - 18)
    assert closes[TO_SHOP].facts["because"].startswith("an HTLC with n1 was not resolved by block ")
    assert closes[TO_N1].facts["because"].startswith("an HTLC with ana was not resolved by block ")
    conserved(sandbox)


def test_a_failure_that_never_came_back_is_replaced_by_that_of_the_node_that_closed(sandbox):
    """BOLT 5: the offerer of an HTLC that "has timed out" on the chain fails the incoming one by itself. The failure of
    the shop was never passed on: n1 was offline from before it until both channels were closed."""
    _, held = pay(sandbox, outcome="hold")
    sandbox.run("1m")
    sandbox.network["n1"].offline()
    held.cancel()
    sandbox.run("20d")
    [attempt] = held.row["attempts"]
    assert (attempt["name"], attempt["source"], attempt["hop"]) == ("permanent_channel_failure", "ana", 0)
    first, _ = htlcs_of(sandbox.world.payments)
    assert attempt["reason"] == f"the channel to n1 was closed: its HTLC ran out at block {first['cltv_expiry']}"
    conserved(sandbox)


def test_force_closes_survive_a_restart_a_fork_and_a_rollback(tmp_path):
    graph = from_edges(EDGES, shop="shop")
    with Sandbox(seed=7, start=START, network=graph, conditions="ideal", data=tmp_path / "kept") as sandbox:
        sandbox.network.intercept("drop", node="n1", times=1)
        pay(sandbox)
        sandbox.run("1m")
        expiry = htlcs_of(sandbox.world.payments)[0]["cltv_expiry"]
        to_height(sandbox, expiry - 1)
        other = engine(sandbox)
        before = (other.closed, dict(other.force_closed))
        with suppress(RuntimeError), sandbox.world.exclusive():
            other.run(other.conditions.block_time(expiry))
            assert other.force_closed
            raise RuntimeError
        assert (other.closed, other.force_closed) == before
        early = sandbox.fork()
        to_height(sandbox, expiry)
        fork, state = sandbox.fork(), balances_of(sandbox.world.payments)
    with Sandbox(data=tmp_path / "kept") as again:
        for one in (fork, again, early):
            with one:
                to_height(one, expiry)
                assert balances_of(one.world.payments) == state
                one.run("20d")
                assert statuses(one)[0] == "closed"
                conserved(one)


def test_a_stuck_htlc_goes_on_when_its_node_is_back():
    conditions = SampledConditions(4, 0, lambda name: name.encode().ljust(32), NetworkConditions(stuck_share=0.5))
    mean_ms = sum(conditions.stuck.values()) / len(conditions.stuck)
    assert mean_ms == pytest.approx(3 * 3_600_000, rel=0.02)
    graph = from_edges(EDGES, shop="shop")
    with Sandbox(seed=7, start=START, network=graph, conditions="ideal,stuck=1,stuck_time=4s") as sandbox:
        charge, payment = pay(sandbox)
        sandbox.run("2m")
        assert (payment.outcome, charge.status) == ("SUCCEEDED", "completed")


def test_a_stuck_htlc_closes_its_channel_in_about_one_of_100000_attempts():
    """With the default values: one HTLC in a thousand is stuck, for longer than 83 blocks in one of a hundred cases."""
    conditions = NetworkConditions(stuck_share=1.0)
    stuck = SampledConditions(2, 0, lambda name: name.encode().ljust(32), conditions).stuck.values()
    longer = sum(ms > 83 * 600_000 for ms in stuck) / len(stuck)
    assert 0.008 < longer < 0.012
