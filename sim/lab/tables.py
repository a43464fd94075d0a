"""Tables: everything in a world as DataFrames, with the same dtypes for any number of rows.

In every table the column `world` is the world's label. Amounts are `Int64` millisatoshis (a float rounds large ones),
with a float column in satoshis beside them. Instants are UTC, to the millisecond. A state is a category among all that
the contract has. Rows are in order of creation. A frame is a copy, independent of the world.

charges          all Charges, those of Static Charges included
static_charges   `slots` is the number of used slots, `allowed_slots` is missing when there is no limit
payments         of all wallets; the wallet pays at `starts_at`, which is `created_at` or later; `reason` is the cause
                 that no payer sees, `script` the requested outcome
attempts         of all parts of a payment; `hop` is the origin of the failure (0: the payer itself), `code` and
                 `failure` the failure that the payer sees (BOLT 4), `retried` and `learned` its reaction
htlcs            the hops of the attempts; hop 0 is the payer's own channel
deliveries       all messages for receivers, with their status
callbacks        all attempts to deliver a message, each with `http_status` or `error`
balances         at present: of each project, of the shop's node, and in a network of each side of each channel
outages          the times in which a node of the network was offline; `until` is missing while it lasts, `cause` is
                 "condition" (the node forwards nothing, but its own wallets pay) or the id of an interceptor
                 (nothing passes the node)
journal          all events; `facts` is JSON with sorted names, and `facts_of` makes columns of them

`leyden.lab.table_columns` has every column with its type, unit and meaning.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from leyden.arguments import hint, is_utf8
from leyden.errors import ArgumentError
from leyden.lab.table_rows import COUNT, FLAG, MSAT, SHARE, TABLES, TIME, Row, states_of
from leyden.server.printable import quoted
from leyden.world.world import World


def frame(world: World, name: str) -> pd.DataFrame:
    """The table of this name. Raises `ValueError` when there is none."""
    if not isinstance(name, str) or name not in TABLES:
        raise ArgumentError(f"there is no table {quoted(name)}: {hint(name, TABLES)}")
    return frame_of(world, name, TABLES[name].rows(world))


def frame_of(world: World, name: str, rows: Sequence[Row]) -> pd.DataFrame:
    """The table of this name with these rows."""
    table = TABLES[name]
    series: dict[str, Any] = {"world": pd.array([world.label] * len(rows), dtype="str")}
    for column, kind in table.columns:
        values = [row[column] for row in rows]
        series[column] = _typed(world, kind, values)
        if kind == MSAT:
            series[f"{column.removesuffix('_msat')}_sat"] = np.array(values, dtype=np.float64) / 1_000
    return pd.DataFrame(series)


def facts_of(journal: pd.DataFrame, kind: str, lost: str = "") -> pd.DataFrame:
    """The events of one kind in a journal, with a column for each of their facts beside `sequence`, `at` and `subject`.

    A fact with the name of one of these gets `fact_` before it. Raises `ValueError`, with the kinds that there are, for
    any other. `lost` says which events the journal no longer has.
    """
    own = journal[journal["kind"] == kind] if isinstance(kind, str) and is_utf8(kind) else journal[:0]
    if own.empty:
        kinds = ", ".join(sorted(journal["kind"].unique())) or "no events yet"
        raise ArgumentError(f"the journal has no event {quoted(kind, 60)}: it has {kinds}{lost and f'; {lost}'}")
    about = own[["world", "sequence", "at", "subject"]].reset_index(drop=True)
    facts = pd.DataFrame([json.loads(text) for text in own["facts"]], index=about.index)
    return about.join(facts.rename(columns={name: f"fact_{name}" for name in about.columns}))


def _typed(world: World, kind: str, values: Sequence[Any]) -> Any:
    if kind in (MSAT, COUNT):
        return pd.array(values, dtype="Int64")
    if kind == TIME:
        return pd.DatetimeIndex(np.array(values, dtype="datetime64[ms]")).tz_localize("UTC")
    if kind == FLAG:
        return pd.array(values, dtype="boolean")
    if kind == SHARE:
        return np.array(values, dtype=np.float64)
    states = states_of(world, kind)
    return pd.array(values, dtype="str") if states is None else pd.Categorical(values, categories=list(states))
