"""Tables: everything in a world as DataFrames, with the same dtypes for any number of rows.

In every table the column `world` is the world's label. Amounts are `Int64` millisatoshis (a float rounds large ones),
with a float column in satoshis beside them. Instants are UTC, to the millisecond. A state is a category among all that
the contract has. Rows are in order of creation. A frame is a copy, independent of the world.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from leyden.lab.table_rows import COUNT, FLAG, MSAT, SHARE, TABLES, TIME, states_of
from leyden.world.world import World

_NOT_A_TIME = np.iinfo(np.int64).min


def charges(world: World) -> pd.DataFrame:
    """All Charges, those of Static Charges included."""
    return frame(world, "charges")


def static_charges(world: World) -> pd.DataFrame:
    """All Static Charges; `slots` is the number of used slots, `allowed_slots` is missing when there is no limit."""
    return frame(world, "static_charges")


def payments(world: World) -> pd.DataFrame:
    """All payments of all wallets. `reason` is the cause that no payer sees, `script` the requested outcome."""
    return frame(world, "payments")


def attempts(world: World) -> pd.DataFrame:
    """All attempts of all parts of a payment. `hop` is the origin of the failure (0: the payer itself), `code` and
    `name` the failure that the payer sees (BOLT 4), `retried` and `learned` its reaction."""
    return frame(world, "attempts")


def htlcs(world: World) -> pd.DataFrame:
    """All offered HTLCs: the hops of the attempts. Hop 0 is the payer's own channel."""
    return frame(world, "htlcs")


def deliveries(world: World) -> pd.DataFrame:
    """All messages for receivers, with their status."""
    return frame(world, "deliveries")


def callbacks(world: World) -> pd.DataFrame:
    """All attempts to deliver a message, each with `http_status` or `error`."""
    return frame(world, "callbacks")


def balances(world: World) -> pd.DataFrame:
    """The present balances: of each project, of the shop's node, and in a network of each side of each channel."""
    return frame(world, "balances")


def journal(world: World) -> pd.DataFrame:
    """All events, in order; `facts` is JSON with sorted names."""
    return frame(world, "journal")


def frame(world: World, name: str) -> pd.DataFrame:
    """The table of this name (`leyden.lab.table_rows.TABLES`). Raises `ValueError` when there is none."""
    if name not in TABLES:
        raise ValueError(f"there is no table {name!r}: choose one of {', '.join(TABLES)}")
    columns, _, find = TABLES[name]
    rows = list(find(world))
    series: dict[str, Any] = {"world": pd.array([world.label] * len(rows), dtype="str")}
    for column, kind in columns:
        values = [row[column] for row in rows]
        series[column] = _typed(world, kind, values)
        if kind == MSAT:
            series[f"{column.removesuffix('_msat')}_sat"] = _floats(values) / 1_000
    return pd.DataFrame(series)


def _typed(world: World, kind: str, values: Sequence[Any]) -> Any:
    if kind in (MSAT, COUNT):
        missing = np.array([value is None for value in values], dtype=bool)
        whole = np.array([0 if value is None else value for value in values], dtype=np.int64)
        return pd.arrays.IntegerArray(whole, missing)
    if kind == TIME:
        instants = np.array([_NOT_A_TIME if value is None else value for value in values], dtype=np.int64)
        return pd.DatetimeIndex(instants.view("datetime64[ms]")).tz_localize("UTC")
    if kind == FLAG:
        return pd.array(values, dtype="boolean")
    if kind == SHARE:
        return _floats(values)
    states = states_of(world, kind)
    if states is not None:
        return pd.Categorical(values, categories=list(states), ordered=False)
    return pd.array(values, dtype="str")


def _floats(values: Sequence[Any]) -> Any:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
