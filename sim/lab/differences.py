"""The fields that differ between two worlds, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from leyden.lab.table_rows import TABLES, Table
from leyden.world.world import World

# The present states are compared; the journal holds the past.
_COMPARED = tuple(name for name in TABLES if name != "journal")
# Fields that differ whenever the clocks do.
_IGNORED = frozenset({("balances", "at")})


class Difference(NamedTuple):
    """One field of a row that differs. `kind` is the kind of its column."""

    table: str
    id: str
    field: str
    kind: str
    here: Any
    there: Any


def differences(here: World, there: World) -> Iterator[Difference]:
    """Each field that differs. A row that only one world has comes with all its fields that are not None. The `id` of a
    row with a key of several columns (`payment`, `attempt`) is their values joined by colons."""
    for name in _COMPARED:
        table = TABLES[name]
        ours, theirs = _by_key(table, here), _by_key(table, there)
        if ours == theirs:
            continue
        for key in [*ours, *(key for key in theirs if key not in ours)]:
            mine, other = ours.get(key, {}), theirs.get(key, {})
            if mine == other:
                continue
            for field, kind in table.columns:
                values = mine.get(field), other.get(field)
                if values[0] != values[1] and (name, field) not in _IGNORED:
                    yield Difference(name, key, field, kind, *values)


def _by_key(table: Table, world: World) -> dict[str, Mapping[str, Any]]:
    return {":".join(str(row[part]) for part in table.key if row[part] is not None): row for row in table.rows(world)}
