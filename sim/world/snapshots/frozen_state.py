"""The state of a world at one moment, which later changes leave alone, and its JSON in slices of work.

It shares rows, journal entries and timers with the world, because none of them ever changes. So a large world is frozen
in a few milliseconds, and written while other requests run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import merge
from typing import Any

import orjson

from leyden.server.store.tables.table_snapshot import TableSnapshot
from leyden.world.event_journal import HashedEventJournal
from leyden.world.persistence.encoded_state import BATCH, array
from leyden.world.ports import Slices

_SORTED_AT_ONCE = 1_024


class FrozenState:
    """`head` are the parts that are small. `clock` is the snapshot of the clock without its `timers`."""

    def __init__(
        self,
        head: Mapping[str, Any],
        tables: Mapping[str, TableSnapshot],
        journal: HashedEventJournal,
        clock: Mapping[str, Any],
        timers: list[Any],
    ) -> None:
        self._head = head
        self._tables = tables
        self.journal = journal
        self.clock = clock
        self._timers = timers

    def values(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {
            **self._head,
            "tables": {
                name: {**_of_table(table), "rows": [list(pair) for pair in table.rows.items()]}
                for name, table in self._tables.items()
            },
            "journal": self.journal.snapshot(),
            "clock": {**self.clock, "timers": [list(timer) for timer in sorted(self._timers)]},
        }

    def outline(self) -> dict[str, Any]:
        """`values()` without what may be large."""
        return {**dict.fromkeys(self._head), "format": self._head["format"], "tables": {}, "journal": {}, "clock": {}}

    def detach(self) -> FrozenState:
        """Copy the small parts, so that another thread may read this while the world changes. Returns the same."""
        self._head = orjson.loads(orjson.dumps(self._head))
        return self

    def restorable(self) -> dict[str, Any]:
        """The state for `restore_world`: as `values()`, and the rows and the journal are shared instead of copied."""
        return {
            **self._head,
            "tables": {name: {**_of_table(table), "rows": table.rows} for name, table in self._tables.items()},
            "journal": self.journal,
            "clock": {**self.clock, "timers": sorted(self._timers)},
        }

    async def encoded(self, slices: Slices) -> tuple[bytes, ...]:
        """The JSON of `values()`, in pieces. The work is divided into these slices."""
        pieces = []
        for piece in self._pieces():
            if piece:
                pieces.append(piece)
            if slices.is_over():
                await slices.pause()
        return tuple(pieces)

    def _entries(self) -> Iterator[tuple[Any, ...]]:
        after = self.journal.dropped
        while entries := self.journal.entries(after, BATCH):
            yield from map(tuple, entries)
            after = entries[-1].sequence

    def _pieces(self) -> Iterator[bytes]:
        """Each is the work of one step; it may be empty."""
        yield orjson.dumps(self._head)[:-1] + b',"tables":{'
        separator = b""
        for name, table in self._tables.items():
            yield b"%b%b:%b" % (separator, orjson.dumps(name), orjson.dumps(_of_table(table))[:-1])
            yield from array(b"rows", table.rows.items())
            separator = b","
            yield b"}"
        while not self.journal.extend_hash(BATCH):
            yield b""
        start = orjson.dumps(self.journal.outline())[:-1]
        yield b'},"journal":' + start
        yield from array(b"entries", self._entries())
        yield b'},"clock":' + orjson.dumps(self.clock)[:-1]
        runs = []
        for at in range(0, len(self._timers), _SORTED_AT_ONCE):
            runs.append(sorted(self._timers[at : at + _SORTED_AT_ONCE]))
            yield b""
        yield from array(b"timers", merge(*runs))
        yield b"}}"


def _of_table(table: TableSnapshot) -> dict[str, Any]:
    return {"exists": table.exists, "next_id": table.next_id}
