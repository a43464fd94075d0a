"""Creating and reading charges over HTTP, beside applications that only echo JSON, or only do what none can spare."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.bench import Bench, charge_body, charge_requests
from tests.benchmarks.measuring import COST, RATE, Goal, Row, compared
from tests.benchmarks.serving import Load, Served, echo, floor, leyden, load, request

PART = "http"
CONNECTIONS = (1, 16, 64)
SHORT = (2,)


def rows(bench: Bench) -> Iterator[Row]:
    """The server's CPU for a request, and requests a second; then the same with many charges stored."""
    cases = SHORT if bench.scale.short else CONNECTIONS
    names = ("echo", "echoed charge", "named", "floor", "create", "get")
    loads: dict[str, list[list[Load]]] = {name: [[] for _ in cases] for name in names}
    for _ in range(bench.scale.repeats):
        with echo() as ceiling, floor() as least, leyden("--data", str(bench.folder())) as served:
            answers = [served.ask("POST", "/v0/charges", charge_body()) for _ in range(20)]
            charge_ids = [answer["data"]["id"] for answer in answers]
            sends = {
                "echo": (ceiling, [request("POST", "/echo", charge_body())]),
                "echoed charge": (ceiling, [request("POST", "/echo", answer) for answer in answers]),
                "floor": (least, [request("POST", "/floor", charge_body(number)) for number in range(100)]),
                "create": (served, charge_requests()),
                "get": (served, [request("GET", f"/v0/charges/{charge_id}") for charge_id in charge_ids]),
                "named": (ceiling, [request("GET", f"/echo/{charge_id}") for charge_id in charge_ids]),
            }
            for where, requests in sends.values():
                load(where, requests, connections=4, count=bench.scale.of(500, 8))
            for place, connections in enumerate(cases):
                count = bench.scale.of(1_500 if connections == 1 else 4_000, 40)
                for name, (where, requests) in sends.items():
                    loads[name][place].append(load(where, requests, connections=connections, count=count))

    def cpu(name: str) -> list[list[float]]:
        return [[one.cpu_s for one in case] for case in loads[name]]

    def rate(name: str) -> list[list[float]]:
        return [[one.rate for one in case] for case in loads[name]]

    at = f"at {', '.join(map(str, cases))} connections"
    ceiling_name, create, get = "bare JSON echo", "POST /v0/charges", "GET /v0/charges/{id}"
    least_name = "only parse, sign, append and answer"
    yield compared(
        PART, f"{create}, CPU a request {at}", COST, cpu("create"), least_name, cpu("floor"), goal=Goal("at most", 1.6)
    )
    yield compared(PART, f"{create}, CPU a request {at}", COST, cpu("create"), ceiling_name, cpu("echo"))
    yield compared(PART, f"{least_name}, CPU a request {at}", COST, cpu("floor"), ceiling_name, cpu("echo"))
    # The echo that answers as much as is answered here.
    same = "echo of the charge answered"
    yield compared(PART, f"{create}, CPU a request {at}", COST, cpu("create"), same, cpu("echoed charge"))
    yield compared(PART, f"{create}, requests {at}", RATE, rate("create"), ceiling_name, rate("echo"))
    yield compared(
        PART, f"{get}, CPU a request {at}", COST, cpu("get"), ceiling_name, cpu("echo"), goal=Goal("at most", 1.6)
    )
    yield compared(PART, f"{get}, CPU a request {at}", COST, cpu("get"), "bare GET, path echoed", cpu("named"))
    yield compared(PART, f"{get}, requests {at}", RATE, rate("get"), ceiling_name, rate("echo"))
    yield _with_many_stored(bench)
    yield _waiting_for_the_disk(bench)


def _waiting_for_the_disk(bench: Bench) -> Row:
    connections, count = (2, 40) if bench.scale.short else (50, 4_000)
    rates: dict[str, list[float]] = {"always": [], "os": []}
    for _ in range(bench.scale.repeats):
        for policy, found in rates.items():
            with leyden("--data", str(bench.folder()), "--durability", policy) as served:
                _create(served, bench.scale.of(500, 20))
                found.append(load(served, charge_requests(), connections=connections, count=count).rate)
    what = f"POST /v0/charges, --durability always, requests at {connections} connections"
    goal = Goal("at least", 0.85)
    return compared(PART, what, RATE, [rates["always"]], "--durability os", [rates["os"]], goal=goal)


def _with_many_stored(bench: Bench) -> Row:
    count = bench.scale.of(4_000, 30)
    few: list[float] = []
    many: list[float] = []
    with leyden("--data", str(bench.stocked())) as full:
        _create(full, bench.scale.of(500, 20))
        for _ in range(bench.scale.repeats):
            with leyden("--data", str(bench.folder()), "--rate", "0") as fresh:
                _create(fresh, bench.scale.of(500, 20))
                few.append(_create(fresh, count))
                many.append(_create(full, count))
    what = f"POST /v0/charges with {bench.stock.counts[1]:,} stored, CPU a request"
    return compared(PART, what, COST, [many], "with none", [few], goal=Goal("at most", 1.1))


def _create(served: Served, count: int) -> float:
    return load(served, charge_requests(), connections=16, count=count).cpu_s
