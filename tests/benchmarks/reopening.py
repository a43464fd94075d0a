"""Reopening a big store, and reading from it: lists, filters, pages."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import orjson

from leyden.server.store.journal import JOURNAL_NAME
from leyden.server.store.store import Store
from tests.benchmarks.bench import FROZEN, Bench, charge_requests
from tests.benchmarks.measuring import COST, Goal, Row, compared, in_turn
from tests.benchmarks.serving import Served, leyden, load, request

PART = "reopen"


def rows(bench: Bench) -> Iterator[Row]:
    """Opening beside merely parsing the file; each kind of list beside the same in a small store."""
    many = bench.stock.counts[1]
    folder = bench.stocked()
    inside = next(folder.iterdir())
    found = in_turn(bench.scale.repeats, {"open": lambda: _open(inside), "parse": lambda: _parse(inside)})
    text = f"open a store of {many:,} charges, CPU"
    goal = Goal("at most", 1, absolute=True)
    yield compared(PART, text, COST, [found["open"]], "parsing its lines alone", [found["parse"]], goal=goal)
    starts: list[float] = []
    for _ in range(bench.scale.repeats):
        with leyden("--data", str(folder), *FROZEN[2:]) as served:
            starts.append(served.ready_s)
    empty: list[float] = []
    for _ in range(bench.scale.repeats):
        with leyden(*FROZEN) as served:
            empty.append(served.ready_s)
    yield compared(PART, f"start to first answer on {many:,} charges", COST, [starts], "on none", [empty])
    few = bench.scale.of(1_000, 220)
    with leyden("--data", str(folder)) as full, leyden(*FROZEN) as small:
        load(small, charge_requests(), connections=16, count=few)
        small.ask("POST", "/sandbox/v1/clock/advance", {"by": "2m"})
        count = bench.scale.of(50, 3)
        for what, targets in _looks(full, small).items():
            times = in_turn(
                bench.scale.repeats,
                {
                    "full": partial(_read_page, full, targets[0], count),
                    "small": partial(_read_page, small, targets[1], count),
                },
            )
            text = f"{what}, {many:,} stored"
            yield compared(PART, text, COST, [times["full"]], f"{few:,} stored", [times["small"]])


def _open(folder: Path) -> float:
    began = time.process_time()
    store = Store.open(folder)
    for name in list(store.db.tables()):
        store.table(name, key=None)
    took = time.process_time() - began
    store.close()
    return took


def _parse(folder: Path) -> float:
    gc.disable()  # as the store does
    began = time.process_time()
    with (folder / JOURNAL_NAME).open("rb") as lines:
        kept = [orjson.loads(line) for line in lines]
    took = time.process_time() - began
    gc.enable()
    del kept
    return took


def _looks(*servers: Served) -> dict[str, list[str]]:
    """What a person looks at, and the target of that on each server."""
    pages = [served.ask("GET", "/v0/charges?limit=100") for served in servers]
    return {
        "newest 100": ["/v0/charges?limit=100"] * 2,
        "next 100": [f"/v0/charges?limit=100&after={page['next']}" for page in pages],
        "100 by status": ["/v0/charges?limit=100&status=expired"] * 2,
        "10 by internalId": ["/v0/charges?limit=10&internalId=order-42"] * 2,
        "100 by time": ["/v0/charges?limit=100&createdBefore=2030-01-01T09:00:01Z"] * 2,
        "no match": ["/v0/charges?limit=100&createdBefore=2029-01-01T00:00:00Z"] * 2,
    }


def _read_page(served: Served, target: str, count: int) -> float:
    """Seconds from request to answer, one after another on one connection."""
    return 1 / load(served, [request("GET", target)], connections=1, count=count).rate
