"""Tables: everything in a world as DataFrames, typed alike however many rows there are.

In every table: the world's label is the column `world`; amounts are `Int64` millisatoshis (a float rounds large ones)
with a float column in satoshis beside them; instants are UTC, to the millisecond; a state is a category among all that
the contract has; rows stand in the order in which they came to be. A frame is a copy: what is done to it, and what
happens in the world later, changes nothing in the other.
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
    """Every Charge, those of Static Charges included."""
    return frame(world, "charges")


def static_charges(world: World) -> pd.DataFrame:
    """Every Static Charge; `slots` are the payments taken, `allowed_slots` missing where there is no limit."""
    return frame(world, "static_charges")


def payments(world: World) -> pd.DataFrame:
    """Every payment of every wallet. `reason` is what no payer is told, `script` what the payer was asked to do."""
    return frame(world, "payments")


def attempts(world: World) -> pd.DataFrame:
    """Every attempt of every part of a payment. `hop` is where the answer came from (0: the payer itself), `code` and
    `name` what the payer was told (BOLT 4), `retried` and `learned` what it made of that."""
    return frame(world, "attempts")


def htlcs(world: World) -> pd.DataFrame:
    """Every HTLC that was offered: the hops of the attempts, hop 0 being the payer's own channel."""
    return frame(world, "htlcs")


def deliveries(world: World) -> pd.DataFrame:
    """Every message for a receiver, and what became of it."""
    return frame(world, "deliveries")


def callbacks(world: World) -> pd.DataFrame:
    """Every attempt to deliver a message: when, and either `http_status` or `error`."""
    return frame(world, "callbacks")


def balances(world: World) -> pd.DataFrame:
    """Who holds how much now: what each project's invoices received, what the shop's node did, and in a network each
    side of each channel."""
    return frame(world, "balances")


def journal(world: World) -> pd.DataFrame:
    """Everything that happened, in order; `facts` are JSON with sorted names."""
    return frame(world, "journal")


def frame(world: World, name: str) -> pd.DataFrame:
    """The table of this name (`leyden.lab.table_rows.TABLES`). Raises `ValueError` when there is none."""
    if name not in TABLES:
        raise ValueError(f"there is no table {name!r}: choose one of {', '.join(TABLES)}")
    columns, _, find = TABLES[name]
    rows = list(find(world))
    made: dict[str, Any] = {"world": pd.array([world.label] * len(rows), dtype="str")}
    for column, kind in columns:
        values = [row[column] for row in rows]
        made[column] = _typed(world, kind, values)
        if kind == MSAT:
            made[f"{column.removesuffix('_msat')}_sat"] = _floats(values) / 1_000
    return pd.DataFrame(made)


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
