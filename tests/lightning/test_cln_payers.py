"""Payers as in Core Lightning: the numbers are those of its own tests of askrene.

Read from ElementsProject/lightning at commit 090f4b0e6981d458b07a8e95d3eccf5a7c0b9542: tests/test_askrene.py
(`test_getroutes`, `test_fees_dont_exceed_constraints`, `test_max_htlc`, `test_min_htlc`,
`test_constraint_impression_ordering`) and the table of costs in plugins/askrene/child/mcf.c. There the source pays fees
for its own channels; here a payer with one large channel is before it.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.lightning.engine.engine import Engine
from leyden.lightning.failure_codes import FailureCode
from leyden.lightning.payer.payment_session import PaymentSession
from leyden.lightning.payer_models.cln import FAILED, PAID, PASSED, ClnPayer
from leyden.lightning.payer_models.flow_costs import PIVOTS, channel_steps
from leyden.lightning.payer_models.min_cost_flow import Steps, min_cost_flow, paths_of
from leyden.lightning.routing.pathfinding import Route
from leyden.lightning.topology.graph import from_edges
from tests.support.examples import examples

BILLION_SAT = 10_000_000_000


def channel(a: str, b: str, capacity_sat: int = 1_000_000, ppm: int = 1, **options: int) -> dict[str, object]:
    """A channel whose first side has all: those of the generator of Core Lightning's tests."""
    given = {"a_balance_sat": capacity_sat, "ppm": ppm, "base_msat": 0, "cltv_delta": 6, "htlc_min_msat": 0}
    return {"a": a, "b": b, "capacity_sat": capacity_sat, **given, **options}


def engine_of(*channels: dict[str, object]) -> Engine:
    edges = [channel("me", "0", BILLION_SAT), *channels]
    return Engine(from_edges(edges), 0, lambda name: sha256(name.encode()).digest())


def routes(model: ClnPayer, target: str, amount_msat: int, max_fee_msat: int) -> list[Route]:
    names = model.engine.graph.names
    session = PaymentSession("p", names.index("me"), names.index(target), amount_msat)
    model.begin(session)
    session.fee_limit_msat = max_fee_msat
    return sorted(model.routes(session, amount_msat), key=lambda route: route.amounts[-1])


CHANNELS = (
    channel("0", "1", ppm=10_000), channel("0", "2", 9_000), channel("1", "3", ppm=20_000), channel("0", "2", 10_000),
    channel("2", "4", cltv_delta=2_000),
)  # fmt: skip


@pytest.mark.parametrize(
    ("target", "amount", "max_fee", "expected"),
    [
        ("1", 1_000, 1_000, [([0, 2], [1_010, 1_000])]),
        ("3", 100_000, 5_000, [([0, 2, 6], [103_020, 102_000, 100_000])]),
        ("3", 100_000, 100, []),
        ("2", 1_000_000, 5_000, [([0, 8], [1_000_001, 1_000_000])]),
        ("2", 10_000_000, 1_000, [([0, 4], [4_500_004, 4_500_000]), ([0, 8], [5_500_005, 5_500_000])]),
        ("4", 100_000, 100, []),  # 2,000 blocks are too many with the last HTLC's
    ],
)
def test_routes_are_those_of_askrenes_test(target, amount, max_fee, expected):
    model = ClnPayer(engine_of(*CHANNELS))
    found = routes(model, target, amount, max_fee)
    assert [(route.edges, route.amounts) for route in found] == expected


def test_no_edge_gets_more_than_what_is_known_of_it():
    ends = [("0", "1"), ("0", "2"), ("1", "3"), ("2", "3")]
    model = ClnPayer(engine_of(*(channel(a, b, 100_000, 10_000) for a, b in ends)))
    payer = model.engine.graph.names.index("me")
    model.learn(payer, 2, FAILED, 45_000_000)
    found = routes(model, "3", 100_000_000, 100_000_000)
    assert len(found) == 2
    (limited,) = [route for route in found if 2 in route.edges]
    assert limited.amounts[1] <= 45_000_000
    assert sum(route.amounts[-1] for route in found) == 100_000_000


def test_limits_of_htlcs_split_an_amount():
    channels = (channel("0", "1", 500_000, htlc_max_msat=1_000_000), channel("0", "1", 20_000))
    found = routes(ClnPayer(engine_of(*channels)), "1", 20_000_000, 20_000_000)
    assert [(route.edges, route.amounts) for route in found] == [
        ([0, 2], [1_000_001, 1_000_000]),
        ([0, 4], [19_000_019, 19_000_000]),
    ]
    model = ClnPayer(engine_of(*channels))
    model.learn(model.engine.graph.names.index("me"), 4, FAILED, 0)
    assert routes(model, "1", 20_000_000, 20_000_000) == []


def test_a_channel_with_a_larger_minimum_is_not_used():
    channels = (channel("0", "1", 500_000, htlc_min_msat=2_000), channel("0", "1", 20_000))
    assert [route.edges for route in routes(ClnPayer(engine_of(*channels)), "1", 1_000, 20_000)] == [[0, 4]]
    assert routes(ClnPayer(engine_of(channels[0])), "1", 1_999, 20_000) == []


@pytest.mark.parametrize(
    ("order", "high"),
    [(((PAID, 300_000), (FAILED, 600_000)), 600_000), (((FAILED, 600_000), (PAID, 300_000)), 300_000)],
)
def test_what_was_learned_applies_in_its_order(order, high):
    model = ClnPayer(engine_of(channel("0", "1", 1_000)))
    for kind, amount in order:
        model.learn(0, 2, kind, amount)
    assert model.bounds(0, 2) == (0, high)
    assert bool(routes(model, "1", 400_000, 100_000)) is (high >= 400_000)


def test_the_slopes_of_a_channels_cost_are_those_of_askrenes_table():
    """plugins/askrene/child/mcf.c: m_1 = 1.38 k, m_2 = 3.05 k, m_3 = 9.24 k, each by (b - a)."""
    known = (np.array([msat]) for msat in (0, 10**9, 10**9))
    capacities, costs = channel_steps(*known, 10**9, 10**6)
    assert capacities.tolist() == [[0, 500, 300, 150]]
    assert (costs[0] * 1_001 / 1_000_000).tolist() == pytest.approx([0, 1.386, 3.054, 9.242], abs=0.001)
    assert [high - low for low, high in pairwise(PIVOTS)] == pytest.approx([0.5, 0.3, 0.15])


# What errors teach


def failure(code: int, hop: int) -> SimpleNamespace:
    return SimpleNamespace(code=code, reporter_hop=hop, edges=[0, 2, 4], amounts=[102, 101, 100])


def test_errors_teach_what_they_do_in_xpay():
    """plugins/xpay/xpay.c, `update_knowledge_from_error`."""
    model = ClnPayer(engine_of(channel("0", "1"), channel("1", "2")))
    session = PaymentSession("p", 0, 3, 100)
    assert model.failed(session, failure(FailureCode.TEMPORARY_CHANNEL_FAILURE, 1)).retried
    assert [model.bounds(0, edge)[0] for edge in (0, 2, 4)] == [102, 0, 0]
    assert model.bounds(0, 2)[1] == 100  # one msat less than what failed
    assert session.policy_retries == frozenset()
    assert model.failed(session, failure(FailureCode.UNKNOWN_NEXT_PEER, 2)).retried
    assert session.policy_retries == {4}
    assert model.bounds(0, 4) == (0, 1_000_000_000)
    assert not model.failed(session, failure(FailureCode.INCORRECT_OR_UNKNOWN_PAYMENT_DETAILS, 3)).retried
    assert model.bounds(0, 4) == (100, 1_000_000_000)
    assert model.failed(session, failure(FailureCode.MPP_TIMEOUT, 3)).retried


def test_what_the_payers_own_node_refuses_limits_its_own_channel():
    model = ClnPayer(engine_of(channel("0", "1")))
    session = PaymentSession("p", 0, 2, 50_000)
    assert routes(model, "1", 50_000, 1_000)
    refused = SimpleNamespace(
        code=FailureCode.TEMPORARY_CHANNEL_FAILURE, reporter_hop=0, edges=[0, 2], amounts=[50_000, 50_000]
    )
    assert model.failed(session, refused).retried
    assert routes(model, "1", 50_000, 1_000) == []
    assert routes(model, "1", 40_000, 1_000)


def test_what_is_older_than_an_hour_is_forgotten_when_a_payment_starts():
    model = ClnPayer(engine_of(channel("0", "1", 1_000)))
    model.learn(0, 2, FAILED, 600_000)
    model.engine.now = 1_800_000
    model.learn(0, 2, PASSED, 200_000)
    for now, expected in ((3_600_000, (200_000, 600_000)), (3_600_001, (200_000, 1_000_000)), (5_400_001, (0, 10**6))):
        model.engine.now = now
        model.begin(PaymentSession("p", 0, 2, 1_000))
        assert model.bounds(0, 2) == expected
    assert model.dump() == []


# Minimum-cost flows


STEPS = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 9)), max_size=3)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), STEPS), max_size=14), st.integers(1, 9))
@examples(150)
def test_the_cost_of_a_flow_is_the_least_one(channels, units):
    channels = [(a, b, steps) for a, b, steps in channels if a != b]
    ends = [end for a, b, _ in channels for end in (b, a)]
    edges, network = {}, nx.MultiDiGraph()
    network.add_nodes_from(range(6))
    for number, (a, b, steps) in enumerate(channels):
        ordered = sorted(steps, key=lambda step: step[1])
        edges[2 * number] = Steps([capacity for capacity, _ in ordered], [cost for _, cost in ordered])
        for capacity, cost in ordered:
            network.add_edge(a, b, capacity=capacity, weight=cost)
    network.nodes[0]["demand"], network.nodes[5]["demand"] = -units, units
    out = {node: [edge for edge in range(len(ends)) if ends[edge ^ 1] == node] for node in range(6)}
    found = min_cost_flow(0, 5, units, edges.get, out.__getitem__, ends)
    try:
        least = nx.min_cost_flow_cost(_single(network))
    except nx.NetworkXUnfeasible:
        assert found is None
        return
    assert found is not None
    assert sum(_cost(edges[edge], amount) for edge, amount in found.items()) == least
    paths = paths_of(0, 5, found, ends)
    assert sum(amount for _, amount in paths) == units
    for path, _ in paths:
        assert [ends[path[0] ^ 1], ends[path[-1]]] == [0, 5]
        assert all(ends[one] == ends[other ^ 1] for one, other in pairwise(path))


def _single(network: nx.MultiDiGraph) -> nx.DiGraph:
    """The network with a node on each edge, so that no two edges have the same ends."""
    found = nx.DiGraph()
    found.add_nodes_from(network.nodes(data=True))
    for number, (a, b, facts) in enumerate(network.edges(data=True)):
        found.add_edge(a, f"on {number}", **facts)
        found.add_edge(f"on {number}", b, capacity=facts["capacity"], weight=0)
    return found


def _cost(steps: Steps, amount: int) -> int:
    total = 0
    for capacity, cost in zip(steps.capacities, steps.costs, strict=True):
        taken = min(amount, capacity)
        total, amount = total + taken * cost, amount - taken
    assert not amount
    return total
