"""From nothing to the first answer, and what a server holds in memory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from tests.benchmarks.bench import FROZEN, Bench, charge_body
from tests.benchmarks.measuring import COST, SIZE, BenchmarkError, Goal, Row, Samples, alone, compared, in_turn
from tests.benchmarks.serving import Served, echo, leyden, load, receiver, request

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
    yield alone(PART, f"memory of each of {few:,}, {many:,} pending charges with journal entries", SIZE, each)
    yield _completed(bench)
    yield _empty_test_run(bench)


def _empty_test_run(bench: Bench) -> Row:
    """What the pytest plugin adds to a run of one empty test, without the other plugins that are installed here."""
    folder = bench.folder()
    (folder / "test_nothing.py").write_text("def test_nothing(): pass\n")
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    variables = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def cpu_s(*options: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*pytest, *options], cwd=folder, env=variables, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    runs = {"with": lambda: cpu_s("-p", "leyden.pytest_plugin"), "without": cpu_s}
    found = in_turn(bench.scale.of(5 * bench.scale.repeats, 1), runs)
    what = "CPU of an empty pytest run with the plugin"
    return compared(PART, what, COST, [found["with"]], "without", [found["without"]], goal=Goal("at most", 1.15))


def _completed(bench: Bench) -> Row:
    """What a charge takes when it has been paid and its callback has been delivered to a program outside."""
    count, at_once = bench.scale.of(10_000, 40), bench.scale.of(500, 20)
    first = count // 2
    with receiver() as url, leyden(*FROZEN) as served:
        body = {**charge_body(99), "callbackUrl": f"{url}/hook"}
        # What is loaded on first use is loaded then, and what has a bound, such as the request log, is full.
        for _ in range(first // at_once):
            _complete(served, body, at_once)
        before = served.memory_bytes
        for _ in range(count // at_once):
            _complete(served, body, at_once)
        each = (served.memory_bytes - before) / count
        found = served.ask("GET", "/sandbox/v1")["charges"]
        delivered = served.ask("POST", "/sandbox/v1/deliveries/wait", {"timeout": 0})["count"]
        if not found.get("completed") == delivered == first + count:
            raise BenchmarkError(f"of {first + count} charges, these are completed: {found}; {delivered} callbacks")
    what = f"memory of each of {count:,} completed charges after {first:,} others, with payment, callback, journal"
    return alone(PART, what, SIZE, [each], goal=Goal("at most", 4 << 10, absolute=True))


def _complete(served: Served, body: dict[str, object], count: int) -> None:
    load(served, [request("POST", "/v0/charges", body)], connections=16, count=count)
    payments = [
        request("POST", "/sandbox/v1/payments", {"request": charge["invoice"]["request"]})
        for charge in _pending(served)
    ]
    load(served, payments, connections=16, count=count)
    served.ask("POST", "/sandbox/v1/clock/advance", {"by": "1m"})


def _pending(served: Served) -> Iterator[dict[str, Any]]:
    after = ""
    while after is not None:
        page = served.ask("GET", f"/v0/charges?limit=100&status=pending{after and f'&after={after}'}")
        yield from page["data"]
        after = page.get("next")
