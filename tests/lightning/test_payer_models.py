"""Payers as in an implementation, chosen by the condition `payer`: a run reproduces, and copies go on as it does."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from leyden import Sandbox
from leyden.errors import ForkError, GraphError
from leyden.lightning.routing.payer_names import LEYDEN, PAYER_NAMES
from leyden.lightning.topology.graph import from_edges
from tests.support.deep import deep_or, sampled
from tests.support.network_walk import NetworkWalk

MODELS = [name for name in PAYER_NAMES if name != LEYDEN]
START = "2030-01-01T09:00:00Z"


def pay(sandbox: Sandbox, payer: str, sat: int, run: str = "3m") -> object:
    charge = sandbox.charges.create(amount=str(sat * 1_000), description="tea", expiresIn=86_400)
    payment = sandbox.wallet(payer).pay(charge)
    sandbox.run(run)
    return payment


def run_of(sandbox: Sandbox) -> None:
    for number in range(6):
        pay(sandbox, f"wallet {number % 3}", 150_000 + 60_000 * number)


@pytest.mark.parametrize("payer", MODELS)
def test_a_run_reproduces_and_so_does_its_script(payer: str) -> None:
    hashes = []
    for _ in range(2):
        with Sandbox(seed=4, start=START, network="scale-free:120", conditions={"payer": payer}) as sandbox:
            run_of(sandbox)
            hashes.append(sandbox.journal_hash)
            script, shown = sandbox.script(), sandbox.network.conditions
    assert hashes[0] == hashes[1]
    assert f"payer={payer}" in shown
    names: dict[str, object] = {}
    exec(script, names)
    again = next(each for each in names.values() if isinstance(each, Sandbox))
    assert again.journal_hash == hashes[0]


@pytest.mark.parametrize("payer", MODELS)
def test_payers_know_different_things_from_those_of_the_simulation(payer: str) -> None:
    attempts = {}
    for name in (LEYDEN, payer):
        with Sandbox(seed=4, start=START, network=f"scale-free:120,ideal,payer={name}") as sandbox:
            run_of(sandbox)
            attempts[name] = [[row["route"] for row in each["attempts"]] for each in sandbox.world.payments.rows]
    assert attempts[LEYDEN] != attempts[payer]
    with Sandbox(seed=4, start=START, network="scale-free:120,ideal") as sandbox:
        run_of(sandbox)
        routes = [[row["route"] for row in each["attempts"]] for each in sandbox.world.payments.rows]
    assert attempts[LEYDEN] == routes


@pytest.mark.parametrize("payer", MODELS)
def test_copies_of_a_network_go_on_with_what_its_payers_know(payer: str) -> None:
    with Sandbox(seed=4, start=START, network="scale-free:120", conditions={"payer": payer}) as sandbox:
        run_of(sandbox)
        saved = json.loads(json.dumps(sandbox.snapshot()))
        assert saved["network"]["mission_control"]
        with sandbox.fork() as fork, Sandbox.from_snapshot(saved) as copy:
            for each in (sandbox, fork, copy):
                run_of(each)
            assert sandbox.journal_hash == fork.journal_hash == copy.journal_hash
            known = [each.world.payments.mission_control.dump() for each in (sandbox, fork, copy)]
            assert known[0] == known[1] == known[2]


@pytest.mark.parametrize("payer", MODELS)
def test_a_directory_keeps_what_payers_know(payer: str, tmp_path: Path) -> None:
    options = {"network": "scale-free:120", "conditions": {"payer": payer}}
    with Sandbox(seed=4, start=START, data=tmp_path / "kept", **options) as sandbox:
        run_of(sandbox)
        known = sandbox.world.payments.mission_control.dump()
    assert known
    with Sandbox(data=tmp_path / "kept") as sandbox:
        assert sorted(sandbox.world.payments.mission_control.dump()) == sorted(known)


@pytest.mark.parametrize(("seed", "payer"), sampled([*product(range(2), MODELS)], 3))
def test_a_network_that_is_saved_or_kept_at_any_time_opens_and_continues(payer: str, seed: int, tmp_path: Path) -> None:
    walk = NetworkWalk(seed, tmp_path if seed % 2 else None, f"payer={payer}")
    try:
        for number in range(24):
            walk.act()
            if number % 4 == 3:
                walk.check_saved(and_future=number % 8 == 7)
                if walk.folder is not None:
                    walk.check_directory(and_future=number % 8 == 7)
    finally:
        walk.close()


@pytest.mark.parametrize("payer", MODELS)
@pytest.mark.parametrize(
    "change",
    [lambda rows: rows.append([999, 0, []]), lambda rows: rows[0][2][0].append(5), lambda rows: rows[0][2][0].pop()],
)
def test_knowledge_that_somebody_changed_is_refused(payer: str, change: object) -> None:
    with Sandbox(seed=4, start=START, network="scale-free:120", conditions={"payer": payer}) as sandbox:
        run_of(sandbox)
        saved = json.loads(json.dumps(sandbox.snapshot()))
    change(saved["network"]["mission_control"])  # type: ignore[operator]
    with pytest.raises(ForkError, match="mission_control"):
        Sandbox.from_snapshot(saved)


def test_another_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(GraphError, match="payer='lnb' is none: give leyden, lnd, lnd-bimodal"):
        Sandbox(network="star:12", conditions={"payer": "lnb"})


# The payer's own channels


TWO_WAYS = [
    ("ana", "near", 10_000_000), ("near", "shop", 10_000_000),
    ("ana", "far", 10_000_000), ("far", "other", 10_000_000), ("other", "shop", 10_000_000),
]  # fmt: skip


@pytest.mark.parametrize("payer", MODELS)
def test_an_own_channel_to_a_peer_that_is_offline_is_not_tried(payer: str) -> None:
    """LND: `getBandwidth` (routing/bandwidth.go) gives such a channel no bandwidth, so that no path uses it."""
    network = from_edges(TWO_WAYS, shop="shop")
    with Sandbox(seed=7, start=START, network=network, conditions=f"ideal,payer={payer}") as sandbox:
        offline = sandbox.network["near"].offline()
        payment = pay(sandbox, "ana", 100_000)
        assert payment.outcome == "SUCCEEDED"
        assert [row["route"] for row in payment.row["attempts"]] == [["far", "other", "shop"]]
        sandbox.network["far"].offline()
        assert pay(sandbox, "ana", 100_000).outcome == "INSUFFICIENT_BALANCE"
        offline.remove()
        payment = pay(sandbox, "ana", 100_000)
        assert [row["route"] for row in payment.row["attempts"]] == [["near", "shop"]]


@pytest.mark.parametrize("payer", PAYER_NAMES)
def test_a_route_over_a_node_that_is_offline_is_tried_once_in_a_payment(payer: str) -> None:
    ways = [
        ("ana", "hub", 5_000_000),
        {"a": "hub", "b": "down", "capacity_sat": 5_000_000, "base_msat": 0, "ppm": 0},
        {"a": "down", "b": "shop", "capacity_sat": 5_000_000, "base_msat": 0, "ppm": 0},
        {"a": "hub", "b": "up", "capacity_sat": 5_000_000, "base_msat": 1_000, "ppm": 100},
        {"a": "up", "b": "shop", "capacity_sat": 5_000_000, "base_msat": 1_000, "ppm": 100},
    ]
    network = from_edges(ways, shop="shop")
    with Sandbox(seed=1, start=START, network=network, conditions=f"ideal,payer={payer}") as sandbox:
        sandbox.network["down"].offline()
        payment = pay(sandbox, "ana", 100_000)
        assert [row["name"] for row in payment.row["attempts"]] == ["unknown_next_peer", None]
        assert payment.outcome == "SUCCEEDED"


@pytest.mark.parametrize("payer", ["lnd", "lnd-bimodal"])
def test_what_the_payers_own_node_answers_teaches_nothing_as_in_lnd(payer: str) -> None:
    """LND: `processPaymentOutcomeSelf` (routing/result_interpretation.go)."""
    network = from_edges(TWO_WAYS, shop="shop")
    with Sandbox(seed=7, start=START, network=network, conditions=f"ideal,payer={payer}") as sandbox:
        sandbox.network.intercept("offline", node="near", hop=0, times=2)
        payment = pay(sandbox, "ana", 100_000)
        assert payment.outcome == "SUCCEEDED"
        assert [row["learned"] for row in payment.row["attempts"]] == ["nothing", "nothing", "route was good"]
        assert {tuple(row["route"]) for row in payment.row["attempts"]} == {("near", "shop")}


@pytest.mark.parametrize("payer", MODELS)
def test_the_reason_of_a_payment_without_an_attempt_names_what_a_payer_may_avoid(payer: str) -> None:
    edges = [("ana", "hub", 10_000_000), ("hub", "shop", 5_000_000), ("ana", "other", 10_000_000)]
    network = from_edges(edges, shop="shop")
    with Sandbox(seed=7, start=START, network=network, conditions=f"ideal,payer={payer}") as sandbox:
        sandbox.network["hub"].offline()
        payment = pay(sandbox, "ana", 100_000)
        assert (payment.outcome, payment.row["attempts"]) == ("NO_ROUTE", [])
        assert payment.row["reason"].startswith("the payer's channel to hub was offline, and no route")


@pytest.mark.parametrize(("payer", "fees"), [*product(PAYER_NAMES, ["2021", "2024"])])
def test_no_payer_sends_an_amount_that_a_channel_of_the_public_graph_refuses(payer: str, fees: str) -> None:
    """Policies and capacities are public, so that each attempt keeps them; the fees are at least those asked for."""
    network = f"scale-free:80,fees={fees},payer={payer}"
    with Sandbox(seed=9, start=START, network=network) as sandbox:
        for number in range(deep_or(bounded=14, full=150)):
            sat = (3, 700, 2_000, 40_000, 150_000, 300_000, 480_000)[number % 7]
            pay(sandbox, f"wallet {number % 2}", sat)
        graph, rows = sandbox.world.engine.graph, list(sandbox.world.payments.rows)
        attempts = [each for row in rows for each in row["attempts"]]
        assert attempts
        for attempt in attempts:
            assert attempt["name"] not in ("amount_below_minimum", "fee_insufficient", "incorrect_cltv_expiry")
            asked = 0
            for place, (channel, origin, _, amount, _) in reversed(list(enumerate(attempt["hops"]))):
                edge = 2 * channel + (graph.names[graph.source[2 * channel]] != origin)
                assert graph.htlc_min_msat[edge] <= amount <= graph.htlc_max_msat[edge], (attempt, place)
                assert amount >= asked
                asked = amount + graph.base_msat[edge] + amount * graph.ppm[edge] // 1_000_000
