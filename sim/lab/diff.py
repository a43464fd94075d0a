"""Differences between two worlds, one row per field."""

from __future__ import annotations

from typing import Any

import pandas as pd

from leyden.lab.differences import differences
from leyden.lab.table_rows import TIME
from leyden.world.world import World

COLUMNS = ("table", "id", "field", "here", "there")


def diff(here: World, there: World) -> pd.DataFrame:
    """One row for each field that differs: `table`, `id`, `field`, and its values `here` and `there`.

    A row that only one world has is listed with all its fields that are not None. Amounts are msat, instants UTC
    timestamps. The `id` of a row with a key of several columns (`payment`, `attempt`) is their values joined by colons.
    `differences` says what is compared.
    """
    found = [
        (one.table, one.id, one.field, _shown(one.kind, one.here), _shown(one.kind, one.there))
        for one in differences(here, there)
    ]
    return pd.DataFrame(
        {
            column: pd.Series([row[place] for row in found], dtype="str" if place < 3 else "object")
            for place, column in enumerate(COLUMNS)
        }
    )


def _shown(kind: str, value: Any) -> Any:
    return pd.Timestamp(value, unit="ms", tz="UTC") if kind == TIME and value is not None else value
