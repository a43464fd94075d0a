"""One scenario in two simulators: HTLCs that lock hop by hop along their routes and resolve, by our engine and SimPy.

Both keep the same channels, ask each hop for the same latency and policy, refuse what does not fit, and check after
every step that the channel adds up; they must end with the same balances, to the msat.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import numpy as np

from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.forwarding_checks import MAX_ACCEPTED_HTLCS
from leyden.lightning.engine.network_conditions import (
    BACKWARD_HOPS,
    HOP_STEP,
    INDEX_MASK,
    NetworkConditions,
    attempt_seed,
)
from leyden.lightning.failure_codes import FailureCode
from leyden.lightning.routing.pathfinding import Route
from leyden.lightning.topology.graph import Graph
from tests.benchmarks.measuring import BenchmarkError

# Every node is online and no HTLC is stuck, so that only events and balances are measured.
CONDITIONS = NetworkConditions(stuck_share=0.0, up_share=1.0)
_FINAL = 800_200


def engine_on(graph: Graph) -> Engine:
    """A fresh engine."""
    return Engine(graph, 0, lambda name: sha256(name.encode()).digest(), conditions=CONDITIONS)


def routes(graph: Graph, count: int) -> list[Route]:
    """Walks of two to six hops from node to node, never straight back, with their fees."""
    engine, chance = engine_on(graph), np.random.default_rng(3)
    found: list[Route] = []
    while len(found) < count:
        node, edges = int(chance.integers(len(graph.names))), []
        for _ in range(int(chance.integers(2, 7))):
            onward = [edge for edge in engine.out_edges(node) if not edges or edge != edges[-1] ^ 1]
            if not onward:
                break
            edges.append(onward[int(chance.integers(len(onward)))])
            node = engine.policies.target[edges[-1]]
        if len(edges) > 1:
            found.append(engine.policies.route(edges, 100_000))
    return found


def ours(graph: Graph, sent: list[Route]) -> tuple[float, int, list[int]]:
    """Seconds of CPU, events, and the balances at the end."""
    engine = engine_on(graph)
    sent = [route._replace(checked_policies=engine.policies) for route in sent]
    began = time.process_time()
    for number, route in enumerate(sent):
        engine.run(10 * number)
        engine.send(None, 0, route, _FINAL, number)
    while (due := engine.next_event_ms()) is not None:
        engine.run(due + 60_000)
    return time.process_time() - began, engine.event_count, engine.balance


class _Channels:
    """The state of the SimPy model: the same balances, policies, conditions and blocks."""

    def __init__(self, graph: Graph) -> None:
        engine = engine_on(graph)
        self.balance, self.capacity, self.reserve = engine.balance, engine.capacity, engine.reserve
        self.in_flight, self.slots, self.engine = engine.in_flight, engine.slots, engine
        self.policies, self.spans, self.conditions = engine.policies, engine.conditions.latencies_ms, engine.conditions
        self.steps = 0

    def lock(self, edge: int, carried: int, seed: int, now: int) -> int:
        """0, or the code of the refusal."""
        self.steps += 1
        rest, conditions, engine = self.balance[edge] - carried, self.conditions, self.engine
        if rest < self.reserve[edge >> 1] or self.slots[edge] >= MAX_ACCEPTED_HTLCS:
            return FailureCode.TEMPORARY_CHANNEL_FAILURE
        if seed in conditions.stuck or not (conditions.always_up or conditions.is_up(self.policies.target[edge], now)):
            return FailureCode.TEMPORARY_CHANNEL_FAILURE
        if now >= engine.next_block:
            engine.now = now
        if _FINAL - engine.block_height() < 2:
            return FailureCode.EXPIRY_TOO_SOON
        self.balance[edge] = rest
        self.in_flight[edge >> 1] += carried
        self.slots[edge] += 1
        self.check(edge)
        return 0

    def unlock(self, edge: int, carried: int, settled: bool) -> None:
        self.steps += 1
        self.in_flight[edge >> 1] -= carried
        self.balance[edge ^ 1 if settled else edge] += carried
        self.slots[edge] -= 1
        self.check(edge)

    def check(self, edge: int) -> None:
        if self.balance[edge] + self.balance[edge ^ 1] + self.in_flight[edge >> 1] != self.capacity[edge >> 1]:
            raise BenchmarkError("the SimPy model loses money")


def simpys(graph: Graph, sent: list[Route]) -> tuple[float, int, list[int]]:
    """The same, each HTLC a process. Raises `BenchmarkError` where SimPy is not installed."""
    try:
        import simpy  # type: ignore[import-untyped]
    except ImportError:
        raise BenchmarkError("simpy is not installed: pip install simpy") from None
    channels = _Channels(graph)
    world = simpy.Environment()
    source, target, spans = channels.policies.source, channels.policies.target, channels.spans

    def route_process(route: Route, seed: int) -> Iterator[Any]:
        edges, amounts = route.edges, route.amounts
        place, code = 0, 0
        while place < len(edges):
            draw = seed + place * HOP_STEP & INDEX_MASK
            code = channels.lock(edges[place], amounts[place], draw, world.now)
            if code:
                break
            yield world.timeout(spans[target[edges[place]]][draw >> 4])
            place += 1
        if not place:
            yield world.timeout(1)
        while place:
            place -= 1
            draw = seed + (place + BACKWARD_HOPS) * HOP_STEP & INDEX_MASK
            yield world.timeout(spans[source[edges[place]]][draw >> 4])
            channels.unlock(edges[place], amounts[place], not code)

    def senders() -> Iterator[Any]:
        for number, route in enumerate(sent):
            world.process(route_process(route, attempt_seed(number, 0)))
            yield world.timeout(10)

    world.process(senders())
    began = time.process_time()
    world.run()
    return time.process_time() - began, channels.steps, channels.balance
