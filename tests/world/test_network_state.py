"""A network in a data directory: after a restart every balance and every HTLC is as before."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.errors import GraphError, LeydenError
from leyden.lightning.topology.graph import from_edges
from leyden.server.errors import StoreError
from leyden.server.store.end_mark import END_NAME
from leyden.server.store.store import Store
from tests.support.channel_audit import audit
from tests.support.examples import examples
from tests.support.forked import Process, forked_leyden
from tests.support.lists import listed
from tests.support.served import Client, run_command

START = "2030-01-01T09:00:00Z"
NETWORK = "scale-free:30"


def persistent_state(sandbox: Sandbox) -> dict[str, Any]:
    """The whole state except the rows that only a data directory has."""
    world = sandbox.world
    written = sandbox.snapshot()
    return {
        "tables": {name: table["rows"] for name, table in written["tables"].items() if table["rows"]},
        "network": written["network"],
        "now": sandbox.now,
        "ahead": sorted((timer.due_ms, timer.kind, timer.key) for timer in world.clock.upcoming(1_000)),
        "random_streams": world.streams.snapshot(),
    }


def sorted_state(facts: dict[str, Any]) -> dict[str, Any]:
    """The same state with unordered lists sorted."""
    network = dict(facts["network"])
    network["mission_control"] = [
        [payer, oldest, sorted(beliefs)] for payer, oldest, beliefs in network["mission_control"]
    ]
    return facts | {"network": network}


def act(sandbox: Sandbox, action: tuple[Any, ...]) -> None:
    word, *more = action
    if word == "pay":
        amount, payer, outcome = more
        charge = sandbox.charges.create(amount=str(amount), description="tea", expiresIn=60)
        sandbox.wallet(payer).pay(charge, outcome=outcome)
    elif word == "advance":
        sandbox.advance(more[0])
    elif word == "drain":
        sandbox.network["shop"].drain(inbound=more[0])
    elif word == "open":
        if sandbox.network[more[0]].number != sandbox.network["shop"].number:
            sandbox.network[more[0]].open_channel("shop", 2_000_000_000)
    elif word == "close":
        open_ones = [
            row for row in sandbox.network["shop"].channels if row["channel"] not in sandbox.world.engine.closed
        ]
        if len(open_ones) > 1:
            sandbox.network.close_channel(open_ones[-1]["channel"])
    elif word == "intercept":
        sandbox.network.intercept("delay", delay="3s", times=1)


ACTIONS = st.one_of(
    st.tuples(
        st.just("pay"),
        st.sampled_from([1_000, 250_000, 90_000_000, 500_000_000]),
        st.sampled_from(["ana", "bob", "cyd"]),
        st.sampled_from(["settle", "settle", "hold", "wrong_secret"]),
    ),
    st.tuples(st.just("advance"), st.sampled_from(["1ms", "90ms", "400ms", "2s", "1m", "2h"])),
    st.tuples(st.just("drain"), st.sampled_from([0.5, 1.0])),
    st.tuples(st.just("open"), st.sampled_from(["n3", "n7"])),
    st.tuples(st.just("close")),
    st.tuples(st.just("intercept")),
    st.tuples(st.just("reopen")),
)


@given(seed=st.integers(0, 3), actions=st.lists(ACTIONS, min_size=3, max_size=14))
@examples(25, bounded=6)
def test_a_network_that_is_reopened_at_any_time_continues_as_an_uninterrupted_one(
    seed: int, actions: list[Any]
) -> None:
    with tempfile.TemporaryDirectory() as data, Sandbox(seed=seed, start=START, network=NETWORK) as steady:
        kept = Sandbox(seed=seed, start=START, network=NETWORK, data=data)
        try:
            for action in [
                ("pay", 90_000_000, "ana", "settle"),
                ("advance", "90ms"),
                *actions,
                ("reopen",),
                ("advance", "3h"),
            ]:
                if action[0] == "reopen":
                    kept.close()
                    kept = Sandbox(data=data)
                else:
                    act(kept, action)
                    act(steady, action)
                audit(kept.world.engine)
                assert sorted_state(persistent_state(kept)) == sorted_state(persistent_state(steady)), action
        finally:
            kept.close()


def test_charges_and_channels_agree_wherever_the_journal_is_truncated(tmp_path: Path) -> None:
    """The state after a kill during any write. There are no external requests meanwhile, so every run ends the same."""
    whole = tmp_path / "whole"
    with Sandbox(seed=3, start=START, network=NETWORK, data=whole) as sandbox:
        for payer in ("ana", "bob", "cyd"):
            charge = sandbox.charges.create(amount="90000000", description="tea", expiresIn=600)
            sandbox.wallet(payer).pay(charge)
        [journal] = whole.rglob("*.journal")
        start_size = journal.stat().st_size
        sandbox.run()
        end = sorted_state(persistent_state(sandbox))
        assert [charge.status for charge in sandbox.charges].count("completed") > 1
    size = journal.stat().st_size
    in_flight = 0
    for step in range(25):
        part = tmp_path / f"cut-{step}"
        shutil.copytree(whole, part)
        [journal] = part.rglob("*.journal")
        journal.with_name(END_NAME).unlink()  # it was written after these commits
        with journal.open("r+b") as file:
            file.truncate(start_size + (size - start_size) * step // 24)
        with Sandbox(data=part) as sandbox:
            world = sandbox.world
            audit(world.engine)
            in_flight += len(world.engine.shards)
            for row in world.service.charges.charges:
                invoice = world.node.invoices.row(row["payment_hash"])
                assert (row["status"] == "completed") == (invoice["state"] == "SETTLED")
            sandbox.run()
            assert sorted_state(persistent_state(sandbox)) == end, step
    assert in_flight > 10


def test_a_served_network_continues_after_a_kill(tmp_path: Path) -> None:
    def serve(*options: str) -> tuple[Process, Client]:
        process = forked_leyden("serve", "--port", "0", "--data", str(tmp_path), *options)
        assert process.stdout is not None
        return process, Client(process.stdout.readline().split()[-1])

    process, client = serve("--network", NETWORK, "--seed", "3", "--rate", "1")
    try:
        created = [
            client.ok("POST", "/v0/charges", {"amount": "1000000", "description": "tea", "expiresIn": 600})["data"]
            for _ in range(4)
        ]
        for charge in created:
            client.ok("POST", "/sandbox/v1/payments", {"request": charge["invoice"]["request"]})
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=20)
    process, client = serve("--rate", "100")
    try:
        for _ in range(2_000):
            payments = listed(client.ok, "/sandbox/v1/payments")
            if all(payment["status"] in ("succeeded", "failed") for payment in payments):
                break
            time.sleep(0.005)
        ended = [client.ok("GET", f"/v0/charges/{charge['id']}")["data"]["status"] for charge in created]
        assert len(payments) == 4
        assert [payment["status"] for payment in payments].count("succeeded") == ended.count("completed") > 0
    finally:
        process.terminate()
        process.communicate(timeout=20)
    [folder] = [path.parent for path in tmp_path.rglob("*.journal")]
    with Sandbox(data=folder) as sandbox:
        audit(sandbox.world.engine)
        assert sandbox.world.node.balance_msat == 1_000_000 * ended.count("completed")


def test_a_directory_has_one_network(tmp_path: Path) -> None:
    with Sandbox(seed=5, start=START, network="line:4", data=tmp_path / "line"):
        pass
    with Sandbox(data=tmp_path / "line", network="line:4") as sandbox:
        assert len(sandbox.network) == 4
    with pytest.raises(StoreError, match="created with network line:4: leave network out"):
        Sandbox(data=tmp_path / "line", network="direct")
    done = run_command("serve", "--port", "0", "--data", str(tmp_path / "other"), "--network", "nonsense")
    assert done.returncode == 2
    with Sandbox(seed=5, start=START, data=tmp_path / "direct"):
        pass
    with pytest.raises(StoreError, match="created with network direct"):
        Sandbox(data=tmp_path / "direct", network="line:4")
    graph = from_edges([("a", "b", 900_000), ("b", "c", 900_000)])
    with Sandbox(seed=5, start=START, network=graph, data=tmp_path / "own") as sandbox:
        sandbox.network["shop"].drain(inbound=0.5)
        inbound = sandbox.network["shop"].inbound_msat
    with Sandbox(data=tmp_path / "own") as sandbox:
        assert sandbox.network["shop"].inbound_msat == inbound
    with pytest.raises(StoreError, match="a map of 3 nodes"):
        Sandbox(data=tmp_path / "own", network=from_edges([("a", "b", 900_000)]))


def test_a_topology_generated_by_another_version_is_refused(tmp_path: Path) -> None:
    with Sandbox(seed=5, start=START, network="line:4", data=tmp_path):
        pass
    with Store.open(tmp_path) as store:
        table = store.table("world", key="id")
        config = table.existing("config")
        assert len(config["map_fingerprint"]) == 16
        table.put({**config, "map_fingerprint": "0" * 16})
    with pytest.raises(StoreError, match="another version of Leyden"):
        Sandbox(data=tmp_path)


def test_a_network_after_a_reset_is_stored_in_its_new_state(tmp_path: Path) -> None:
    with Sandbox(seed=5, start=START, network=NETWORK, data=tmp_path) as sandbox:
        act(sandbox, ("open", "n3"))
        act(sandbox, ("drain", 1.0))
        act(sandbox, ("pay", 1_000, "ana", "settle"))
        sandbox.world.reset()
        act(sandbox, ("pay", 1_000, "bob", "settle"))
        sandbox.advance("90ms")
        left = sorted_state(persistent_state(sandbox))
    with Sandbox(data=tmp_path) as sandbox:
        assert sorted_state(persistent_state(sandbox)) == left


def test_conditions_are_those_of_the_network_of_the_directory(tmp_path: Path) -> None:
    Sandbox(data=tmp_path, network="star:6", conditions="ideal").close()
    for arguments in ({"conditions": "ideal"}, {"network": "star:6", "conditions": "ideal"}, {}):
        with Sandbox(data=tmp_path, **arguments) as sandbox:
            assert sandbox.world.config.network == "star:6,ideal"
    created = "created with network star:6,ideal: leave"
    with pytest.raises(StoreError, match=f"{created} conditions out, or use a new directory"):
        Sandbox(data=tmp_path, conditions="latency=1s")
    with pytest.raises(StoreError, match=f"{created} network and conditions out, or use a new directory"):
        Sandbox(data=tmp_path, network="star:6", conditions={"latency": "1s"})


def test_conditions_of_a_directory_without_a_network_are_refused(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(GraphError, match="needs a network: give network='scale-free:400', or leave it out"):
            Sandbox(data=tmp_path, conditions="ideal")
        Sandbox(data=tmp_path).close()


def test_a_sandbox_that_was_saved_and_loaded_again_and_again_is_written_as_one_that_ran_on() -> None:
    """With the order of every list: the payers forget what they know after an hour, and learn anew."""

    def act_at(sandbox: Sandbox, step: int) -> None:
        for payer in ("ana", "bob", "cyd", "dan", "eve"):
            charge = sandbox.charges.create(amount=("50000000", "400000000")[step % 2], description="x", expiresIn=600)
            with suppress(LeydenError):
                sandbox.wallet(payer).pay(charge)
            sandbox.advance("20m")

    loaded, steady = (Sandbox(seed=4, network=NETWORK) for _ in range(2))
    for step in range(8):
        for sandbox in (loaded, steady):
            act_at(sandbox, step)
        saved = json.loads(json.dumps(loaded.snapshot()))
        assert json.dumps(saved["network"]) == json.dumps(steady.snapshot()["network"]), step
        assert json.dumps(saved["tables"]) == json.dumps(steady.snapshot()["tables"]), step
        loaded = Sandbox.from_snapshot(saved)
