"""A crowd: how long a request waits while many charges expire and nobody receives their callbacks."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from statistics import quantiles
from urllib.parse import urlsplit

from tests.benchmarks.bench import FROZEN, Bench, charge_body
from tests.benchmarks.measuring import COST, BenchmarkError, Goal, Row, alone, compared
from tests.benchmarks.serving import KEY, Served, leyden, load, request

PART = "crowd"
_PAUSE_S = 0.005  # between two requests
_LONGEST_S = 10.0  # then the server is stopped in the middle of the work
_ROUNDS = 3  # a server for each
_LOADS = 5  # to make the charges


def rows(bench: Bench) -> Iterator[Row]:
    """The 99th percentile of a GET in the crowd beside that without it; then the stop in the middle of the work."""
    many = bench.scale.of(100_000, 60)
    folder = bench.folder()
    busy: list[float] = []
    idle: list[float] = []
    stops: list[float] = []
    with _dead_url() as url:
        _make(folder / "stock", url, many)
        for number in range(min(bench.scale.repeats, _ROUNDS)):
            data = folder / str(number)
            shutil.copytree(folder / "stock", data)
            with leyden("--data", str(data), *FROZEN) as served:
                target = f"/v0/charges/{served.ask('GET', '/v0/charges?limit=1')['data'][0]['id']}"
                idle.append(_p99(served, target, bench.scale.of(500, 5)))
                advance = threading.Thread(target=_advance, args=(served,))
                advance.start()
                busy.append(_p99(served, target, 2, advance.is_alive))
                began = time.perf_counter()
            stops.append(time.perf_counter() - began)
            advance.join(60)
            shutil.rmtree(data)
    what = f"GET /v0/charges/{{id}}, p99 while {many:,} charges expire and their callbacks fail"
    goal = Goal("at most", 0.05, absolute=True)
    yield compared(PART, what, COST, [busy], "idle, p99", [idle], goal=goal)
    goal = Goal("at most", 5, absolute=True)
    yield alone(PART, f"stop with {many:,} callbacks due, the longest", COST, [max(stops)], goal=goal)


@contextmanager
def _dead_url() -> Iterator[str]:
    """A URL on this machine at which nothing listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/hook"


def _make(folder: Path, url: str, count: int) -> None:
    body = {**charge_body(), "expiresIn": 3_600, "callbackUrl": url}
    with leyden("--data", str(folder), *FROZEN) as served:
        for _ in range(_LOADS):
            load(served, [request("POST", "/v0/charges", body)], connections=16, count=count // _LOADS)


def _advance(served: Served) -> None:
    try:
        served.ask("POST", "/sandbox/v1/clock/advance", {"by": "61m"})
    except (BenchmarkError, OSError, HTTPException):
        """The server was stopped meanwhile."""


def _p99(served: Served, target: str, at_least: int, goes_on: Callable[[], bool] = lambda: False) -> float:
    """The 99th percentile of the seconds from request to answer: of `at_least` requests, and of more while `goes_on`,
    for ten seconds at most. One request follows another on one connection."""
    where = urlsplit(served.url)
    connection = HTTPConnection(where.hostname or "", where.port, timeout=60)
    times: list[float] = []
    end = time.perf_counter() + _LONGEST_S
    while len(times) < at_least or (goes_on() and time.perf_counter() < end):
        began = time.perf_counter()
        connection.request("GET", target, headers={"apikey": KEY})
        answer = connection.getresponse()
        answer.read()
        times.append(time.perf_counter() - began)
        if answer.status != 200:
            raise BenchmarkError(f"GET {target} was answered {answer.status}")
        time.sleep(_PAUSE_S)
    connection.close()
    return quantiles(times, n=100, method="inclusive")[-1]
