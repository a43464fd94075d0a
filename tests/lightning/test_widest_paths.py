"""The widest path is the one that a search by width finds, and an advice needs the outages of few nodes."""

from __future__ import annotations

from collections import deque
from hashlib import sha256
from heapq import heappop, heappush

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.network_conditions import SampledConditions
from leyden.lightning.routing.edge_costs import EdgeCosts
from leyden.lightning.routing.widest_paths import shortest_path, widest_path
from leyden.lightning.topology.generate import generate
from tests.support.examples import examples


def secret(name: str) -> bytes:
    return sha256(name.encode()).digest()


def width_of_widest(costs: EdgeCosts, widths: list[int], start: int, end: int) -> int:
    """The smallest width of the widest path, by Dijkstra's algorithm; 0 if there is none."""
    best, heap = {start: max(widths) + 1}, [(-max(widths) - 1, start)]
    while heap:
        negative, node = heappop(heap)
        if node == end:
            return -negative
        for edge in costs.outgoing.edges_of(node):
            width, reached = min(-negative, widths[edge]), costs.target[edge]
            if width > best.get(reached, 0):
                best[reached] = width
                heappush(heap, (-width, reached))
    return 0


def least_hops(costs: EdgeCosts, usable: list[bool], start: int, end: int) -> int | None:
    """The hops of the shortest path over usable edges, by a search in breadth; None if there is none."""
    hops, waiting = {start: 0}, deque([start])
    while waiting:
        node = waiting.popleft()
        for edge in costs.outgoing.edges_of(node):
            if usable[edge] and costs.target[edge] not in hops:
                hops[costs.target[edge]] = hops[node] + 1
                waiting.append(costs.target[edge])
    return hops.get(end)


@given(st.integers(0, 5), st.data())
@examples(200, bounded=80)
def test_the_shortest_path_has_the_fewest_hops(seed: int, data: st.DataObject) -> None:
    graph = generate("scale-free:20", seed)
    costs = Engine(graph, 0, secret).router.costs
    start, end = data.draw(st.lists(st.integers(0, 19), min_size=2, max_size=2, unique=True))
    count = len(graph.source)
    usable = data.draw(st.lists(st.sampled_from([True, False, False, False]), min_size=count, max_size=count))
    path = shortest_path(costs, np.array(usable), start, end)
    assert (len(path) or None) == least_hops(costs, usable, start, end)
    assert all(usable[edge] for edge in path)
    nodes = [start, *(costs.target[edge] for edge in path)]
    assert [costs.source[edge] for edge in path] == nodes[:-1]
    assert nodes[-1] == (end if path else start)


@given(st.integers(0, 5), st.data())
@examples(200, bounded=80)
def test_the_widest_path_is_as_wide_as_that_of_a_search(seed: int, data: st.DataObject) -> None:
    graph = generate("scale-free:20", seed)
    costs = Engine(graph, 0, secret).router.costs
    start, end = data.draw(st.lists(st.integers(0, 19), min_size=2, max_size=2, unique=True))
    count = len(graph.source)
    widths = data.draw(st.lists(st.sampled_from([0, 0, 1, 2, 3, 7, 10**17]), min_size=count, max_size=count))
    path = widest_path(costs, np.array(widths), start, end)
    expected = width_of_widest(costs, widths, start, end)
    if not expected:
        assert path == []
        return
    nodes = [start, *(costs.target[edge] for edge in path)]
    assert nodes[-1] == end
    assert [costs.source[edge] for edge in path] == nodes[:-1]
    assert min(widths[edge] for edge in path) == expected
    assert len(path) == least_hops(costs, [width >= expected for width in widths], start, end)
    for most in (1, 5, expected, expected + 1):
        narrower = widest_path(costs, np.array(widths), start, end, most)
        assert len(narrower) == least_hops(costs, [width >= min(most, expected) for width in widths], start, end)


def test_a_reason_needs_the_outages_of_few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: set[int] = set()
    is_up = SampledConditions.is_up

    def counted(conditions: SampledConditions, node: int, at_ms: int) -> bool:
        drawn.add(node)
        return is_up(conditions, node, at_ms)

    monkeypatch.setattr(SampledConditions, "is_up", counted)
    with Sandbox(seed=3, network="scale-free:1000", conditions="uptime=0.999") as sandbox:
        sandbox.network["shop"].drain(inbound=0.999)
        charge = sandbox.charges.create(amount="200000000", description="tea")
        payment = sandbox.wallet("ana").pay(charge)
        sandbox.run("5m")
        assert payment.outcome == "NO_ROUTE"
    assert len(drawn) < 200
