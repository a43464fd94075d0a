"""Sandboxes created over HTTP: what one takes to create and to reset, and what many of them hold in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from tests.benchmarks.bench import FROZEN, Bench, charge_body
from tests.benchmarks.measuring import COST, SIZE, BenchmarkError, Goal, Row, alone
from tests.benchmarks.serving import LONGEST_S, Served, leyden

PART = "sandboxes"
_PATH = "/sandbox/v1/sandboxes"
_CHARGES = 10  # in each


def rows(bench: Bench) -> Iterator[Row]:
    """CPU of the server for each sandbox, then the memory of all with ten charges each."""
    rounds = bench.scale.repeats
    each_round = -(-bench.scale.of(1_000, 5) // rounds)
    creates: list[float] = []
    with leyden(*FROZEN) as served, _Client(served) as client:
        client.ask("DELETE", f"{_PATH}/{client.create()['id']}")  # what is loaded on first use is loaded now
        boxes: list[dict[str, Any]] = []
        for _ in range(rounds):
            before_s = served.cpu_s
            boxes += [client.create() for _ in range(each_round)]
            creates.append((served.cpu_s - before_s) / each_round)
        for box in boxes:
            for number in range(_CHARGES):
                client.ask("POST", "/v0/charges", charge_body(number), box["apiKey"])
            client.ask("POST", "/sandbox/v1/clock/advance", {"by": "1s"}, box["apiKey"])
        total = served.memory_bytes
        before_s = served.cpu_s
        for box in boxes:
            client.ask("POST", f"{_PATH}/{box['id']}/reset", {})
        reset_s = (served.cpu_s - before_s) / len(boxes)
    creates.sort()
    goal = Goal("at most", 0.005, absolute=True)
    yield alone(PART, "create a sandbox, CPU a request", COST, [creates[len(creates) // 2]], goal=goal)
    yield alone(PART, f"reset a sandbox with {_CHARGES} charges, CPU a request", COST, [reset_s], goal=goal)
    goal = Goal("at most", 300 << 20, absolute=True)
    what = f"memory of a server with {len(boxes):,} sandboxes, {_CHARGES} charges and an advance in each"
    yield alone(PART, what, SIZE, [total], goal=goal)


class _Client:
    """One connection for all requests: a new one for each would be most of the cost."""

    def __init__(self, served: Served) -> None:
        where = urlsplit(served.url)
        self._connection = HTTPConnection(where.hostname or "", where.port, timeout=LONGEST_S)

    def __enter__(self) -> _Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def create(self) -> Any:
        return self.ask("POST", _PATH, {"seed": 7})

    def ask(self, method: str, target: str, body: Any = None, key: str = "") -> Any:
        headers = {"content-type": "application/json", **({"apikey": key} if key else {})}
        self._connection.request(method, target, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status not in (200, 201):
            raise BenchmarkError(f"{method} {target} was answered {answer.status}: {text[:200]!r}")
        return json.loads(text)
