"""Payments over a network of 6,000 nodes: how many a second of CPU, and how many events of the engine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from hashlib import sha256

import numpy as np

from sim.lightning.conditions import Weather
from sim.lightning.engine import Engine
from sim.lightning.generate import generate
from sim.lightning.graph import Graph
from sim.lightning.payer import Order, Payers
from tests.benchmarks.bench import Bench
from tests.benchmarks.measuring import RATE, BenchmarkError, Row, alone

PART = "network"
_NODES = 6_006


def rows(bench: Bench) -> Iterator[Row]:
    """Random pairs, then everybody to one node; each round on fresh channels, with learning and HTLCs in flight."""
    graph = generate(f"scale-free:{bench.scale.of(_NODES, 200)}", 1)
    hub = int(graph.degree.argmax())
    for what, count, target in (
        ("payments between random pairs", bench.scale.of(400, 10), None),
        ("payments to one recipient", bench.scale.of(10_000, 50), hub),
    ):
        found = [run(graph, count, target) for _ in range(bench.scale.repeats)]
        yield alone(PART, what, RATE, [sorted(found)[len(found) // 2]])


def run(graph: Graph, count: int, target: int | None) -> float:
    """Payments per CPU-second, of 1,000 sat in the median, one every 10 ms of the network's time."""
    engine = Engine(graph, 0, lambda name: sha256(name.encode()).digest(), weather=Weather())
    payers = Payers(engine)
    ended: list[Order] = []
    payers.ended = ended.append
    chance, nodes = np.random.default_rng(5), len(graph.names)
    ends = chance.integers(0, nodes, (2, count)).tolist()
    amounts = (1_000_000 * np.exp(chance.standard_normal(count))).astype(np.int64).tolist()
    began = time.process_time()
    for number in range(count):
        engine.run(10 * number)
        payer, to = ends[0][number], ends[1][number] if target is None else target
        order = Order(number, payer, (to + 1) % nodes if to == payer else to, amounts[number])
        order.gives_up_at = engine.now + 60_000
        payers.start(order)
    while (due := engine.next_due()) is not None:
        engine.run(due)
    spent = time.process_time() - began
    engine.audit()
    if len(ended) != count or sum(order.outcome == "SUCCEEDED" for order in ended) < count // 2:
        raise BenchmarkError(f"of {count} payments {len(ended)} ended, too few of them well")
    return count / spent
