"""A table as plain data: what a snapshot of a store holds, and what a store begins with."""

from __future__ import annotations

from typing import Any, NamedTuple

from leyden.server.store.index import Groups

Row = dict[str, Any]


class TableSnapshot(NamedTuple):
    """A table as plain data. The rows are shared with the table, the containers are not."""

    rows: dict[int, Row]
    next_id: int | None
    exists: bool
    key: str | None
    keys: dict[Any, int]
    indexes: dict[str, Groups]
