"""A table as plain data: what a snapshot of a store holds, and what a store begins with."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from leyden.server.store.tables.index import Groups
from leyden.server.store.tables.row_map import RowMap
from leyden.server.store.tables.tally import Tally


class TableSnapshot(NamedTuple):
    """A table as plain data. The rows are shared with the table, the containers are not."""

    rows: RowMap
    next_id: int | None
    exists: bool
    key: str | None
    keys: dict[Any, int]
    indexes: dict[str, Groups]
    tallies: Mapping[tuple[str, ...], Tally] = MappingProxyType({})
