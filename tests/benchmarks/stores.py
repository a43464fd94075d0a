"""The store's single operations at growing sizes, beside stock TinyDB and sqlite3."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import orjson
from tinydb import TinyDB
from tinydb.middlewares import CachingMiddleware
from tinydb.storages import JSONStorage, MemoryStorage
from tinydb.table import Table

from leyden.server.store.store import Store
from tests.benchmarks.bench import Bench
from tests.benchmarks.measuring import COST, Goal, Row, Samples, compared, settled_memory

PART = "store"
OPERATIONS = ("insert", "update", "get")
_BATCHES = 5
_SLOWEST_S = 2.0  # a case whose single operation is expected to take longer is left out

Doc = dict[str, Any]


def document(number: int, status: str = "pending") -> Doc:
    """A row of about a charge's size."""
    return {
        "id": f"{number:08d}-5f0c-4d11-8f55-2f6f2a6f0b1e",
        "project": "default",
        "amount_msat": 250_000,
        "description": "Flat white, table 7",
        "status": status,
        "created_at": 1_893_488_400_000 + number,
        "request": "lnbcrt2500n1" + "q" * 300,
    }


Operation = Callable[[int, Doc], object]


@dataclass(frozen=True, slots=True)
class Contender:
    """A store with rows in it. An operation is given a row's number and the row, and is one commit."""

    insert: Operation
    update: Operation
    get: Operation
    close: Callable[[], None]


Maker = Callable[[Path, int], Contender]


def _leyden(store: Store, size: int) -> Contender:
    table = store.table("charges", key="id")
    with store.commit():
        for number in range(size):
            table.put(document(number))
    return Contender(
        insert=lambda number, row: table.put(row),
        update=lambda number, row: table.put(row),
        get=lambda number, row: table.row(row["id"]),
        close=store.close,
    )


def _stock(db: TinyDB, size: int) -> Contender:
    table: Table = db.table("charges")
    table.insert_multiple(document(number) for number in range(size))
    return Contender(
        insert=lambda number, row: table.insert(row),
        update=lambda number, row: table.update({"status": row["status"]}, doc_ids=[number + 1]),
        get=lambda number, row: table.get(doc_id=number + 1),
        close=db.close,
    )


def _sqlite(path: Path, size: int, synchronous: str) -> Contender:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous}")
    connection.execute("CREATE TABLE charges (id TEXT PRIMARY KEY, row BLOB)")
    put = "INSERT INTO charges VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET row = ?2"
    find = "SELECT row FROM charges WHERE id = ?"
    connection.execute("BEGIN")
    rows = (document(number) for number in range(size))
    connection.executemany(put, ((row["id"], orjson.dumps(row)) for row in rows))
    connection.execute("COMMIT")
    return Contender(
        insert=lambda number, row: connection.execute(put, (row["id"], orjson.dumps(row))),
        update=lambda number, row: connection.execute(put, (row["id"], orjson.dumps(row))),
        get=lambda number, row: orjson.loads(connection.execute(find, (row["id"],)).fetchone()[0]),
        close=connection.close,
    )


OURS = "file"
MAKERS: dict[str, Maker] = {
    OURS: lambda folder, size: _leyden(Store.open(folder / "leyden"), size),
    "memory": lambda folder, size: _leyden(Store.memory(), size),
    "sqlite3 WAL, synchronous normal": lambda folder, size: _sqlite(folder / "normal.db", size, "NORMAL"),
    "sqlite3 WAL, synchronous full": lambda folder, size: _sqlite(folder / "full.db", size, "FULL"),
    "stock TinyDB, JSON file": lambda folder, size: _stock(TinyDB(folder / "tiny.json", storage=JSONStorage), size),
    "stock TinyDB, JSON file, cached": lambda folder, size: _stock(
        TinyDB(folder / "cached.json", storage=CachingMiddleware(JSONStorage)),  # type: ignore[no-untyped-call]
        size,
    ),
    "stock TinyDB, memory": lambda folder, size: _stock(TinyDB(storage=MemoryStorage), size),
}


def rows(bench: Bench) -> Iterator[Row]:
    """Insert, update and get at every size; the store's own growth last."""
    sizes = (100, 1_000, 10_000, 100_000) if not bench.scale.short else (30, 60)
    found: dict[tuple[str, str], list[Samples | None]] = {(name, op): [] for name in MAKERS for op in OPERATIONS}
    for at, size in enumerate(sizes):
        contenders = {
            name: make(bench.folder(), size)
            for name, make in MAKERS.items()
            if not at or not _hopeless([found[name, op][-1] for op in OPERATIONS], size / sizes[at - 1])
        }
        settled_memory()
        try:
            for name, op, samples in _measured(bench, contenders, size):
                found[name, op].append(samples)
        finally:
            for contender in contenders.values():
                contender.close()
        for name in MAKERS.keys() - contenders.keys():
            for op in OPERATIONS:
                found[name, op].append(None)
    at_sizes = f"at {', '.join(f'{size:,}' for size in sizes)} rows"
    goals = {
        ("insert", "sqlite3 WAL, synchronous normal"): Goal("at least", 2),
        ("insert", "stock TinyDB, JSON file"): Goal("at least", 10_000, at=min(2, len(sizes) - 1)),
    }
    for op in OPERATIONS:
        for name in MAKERS:
            if name not in (OURS, "memory"):
                ours, theirs, goal = found[OURS, op], found[name, op], goals.get((op, name))
                yield compared(PART, f"{op} {at_sizes}", COST, ours, name, theirs, times_less=True, goal=goal)
        yield compared(
            PART, f"{op} in memory {at_sizes}", COST, found["memory", op], "in a file", found[OURS, op], times_less=True
        )
        largest, smallest = found[OURS, op][-1:], found[OURS, op][:1]
        yield compared(PART, f"{op} at {sizes[-1]:,} rows", COST, largest, f"at {sizes[0]:,}", smallest)


def _hopeless(before: list[Samples | None], growth: float) -> bool:
    return any(samples is None or min(samples) * growth > _SLOWEST_S for samples in before)


def _measured(bench: Bench, contenders: dict[str, Contender], size: int) -> Iterator[tuple[str, str, list[float]]]:
    """Rounds of every operation on every contender in turn.

    A round's sample is the median of five short batches, so that one interruption does not count; an operation that is
    slow has but one batch, of as many calls as fit a twentieth of a second.
    """
    most = min(bench.scale.of(500, 10), (size - 1) // _BATCHES)
    samples: dict[tuple[str, str], list[float]] = {(name, op): [] for name in contenders for op in OPERATIONS}
    inserted = dict.fromkeys(contenders, size)
    for number in range(bench.scale.repeats):
        status = f"round {number}"  # sqlite3 does not write a row that is what it was
        for name, contender in contenders.items():
            for op in OPERATIONS:
                first = inserted[name] if op == "insert" else 0
                run = getattr(contender, op)
                once = _seconds(run, first, 1, status)
                batches = _BATCHES if most * once < 0.05 else 1
                count = max(1, min(most, int(0.05 / once)))
                starts = [first + 1 + batch * count for batch in range(batches)]
                samples[name, op].append(median(_seconds(run, start, count, status) for start in starts))
                if op == "insert":
                    inserted[name] += 1 + batches * count
    for (name, op), values in samples.items():
        yield name, op, values


def _seconds(run: Operation, first: int, count: int, status: str) -> float:
    """Seconds for one call, over `count` rows from number `first`. In real time: disk waits count."""
    rows = [(number, document(number, status)) for number in range(first, first + count)]
    began = time.perf_counter()
    for number, row in rows:
        run(number, row)
    return (time.perf_counter() - began) / count
