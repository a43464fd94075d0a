"""Differences between two worlds, one row per field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from leyden.lab.table_rows import TABLES, TIME, Table
from leyden.world.world import World

COLUMNS = ("table", "id", "field", "here", "there")

# The present states are compared; the journal holds the past.
_COMPARED = tuple(name for name in TABLES if name != "journal")
# Fields that differ whenever the clocks do.
_IGNORED = frozenset({("balances", "at")})


def diff(here: World, there: World) -> pd.DataFrame:
    """One row for each field that differs: `table`, `id`, `field`, and its values `here` and `there`.

    A row that only one world has is listed with all its fields that are not None. Amounts are msat, instants UTC
    timestamps. The `id` of a row with a key of several columns (`payment`, `attempt`) is their values joined by colons.
    """
    found: list[tuple[str, str, str, Any, Any]] = []
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
                    found.append((name, key, field, _shown(kind, values[0]), _shown(kind, values[1])))
    return pd.DataFrame(
        {
            column: pd.Series([row[place] for row in found], dtype="str" if place < 3 else "object")
            for place, column in enumerate(COLUMNS)
        }
    )


def _by_key(table: Table, world: World) -> dict[str, Mapping[str, Any]]:
    return {":".join(str(row[part]) for part in table.key if row[part] is not None): row for row in table.rows(world)}


def _shown(kind: str, value: Any) -> Any:
    return pd.Timestamp(value, unit="ms", tz="UTC") if kind == TIME and value is not None else value
