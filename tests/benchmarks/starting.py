"""From nothing to the first answer, and what a server holds in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from tests.benchmarks.bench import FROZEN, Bench
from tests.benchmarks.measuring import COST, SIZE, Goal, Row, Samples, alone, compared
from tests.benchmarks.serving import Served, echo, leyden

PART = "start"


def rows(bench: Bench) -> Iterator[Row]:
    """Start-up and idle memory beside the echo's; then what charges add."""
    starts: dict[str, list[Served]] = {"echo": [], "memory": [], "file": []}
    idle: dict[str, list[float]] = {name: [] for name in starts}
    for _ in range(bench.scale.repeats):
        servers: dict[str, Callable[[], AbstractContextManager[Served]]] = {
            "echo": echo,
            "memory": lambda: leyden(*FROZEN),
            "file": lambda: leyden("--data", str(bench.folder()), *FROZEN),
        }
        for name, server in servers.items():
            with server() as served:
                starts[name].append(served)
                idle[name].append(served.memory_bytes)

    def ready(name: str) -> list[Samples | None]:
        return [[served.ready_s for served in starts[name]]]

    yield compared(
        PART, "start to first answer", COST, ready("memory"), "bare echo", ready("echo"), goal=Goal("at most", 1.5)
    )
    yield compared(PART, "start to first answer, with --data", COST, ready("file"), "bare echo", ready("echo"))
    goal = Goal("at most", 60 << 20, absolute=True)
    yield compared(PART, "memory idle", SIZE, [idle["memory"]], "bare echo", [idle["echo"]], goal=goal)
    stock = bench.stock
    few, many = stock.counts
    yield alone(PART, f"memory after {few:,}, {many:,} charges", SIZE, stock.memory_bytes)
    each = [(stock.memory_bytes[0] - stock.idle_bytes) / few, (stock.memory_bytes[1] - stock.idle_bytes) / many]
    yield alone(PART, f"memory for each of {few:,}, {many:,} charges", SIZE, each)
