"""The rows of one table for the checks of rows, and the error that names the row that somebody changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from leyden.server.errors import StoreError
from leyden.server.printable import cut


class RowError(StoreError):
    """A row that no sandbox writes; `table` and `doc_id` say which."""

    def __init__(self, table: str, doc_id: int, row: object, why: str) -> None:
        name = next((row[key] for key in ("id", "payment_hash") if key in row), None) if isinstance(row, dict) else None
        super().__init__(
            f"the table {table}, row {doc_id}{'' if name is None else f' ({cut(str(name), 60)!r})'}: {why}"
        )
        self.table = table
        self.doc_id = doc_id


class Rows(NamedTuple):
    """One table: its rows by document id, and by their keys."""

    name: str
    rows: Mapping[int, Any]
    by_key: Mapping[str, Any]

    def refuse(self, row: Any, why: str) -> NoReturn:
        """Raise `RowError` for a row of this table."""
        doc_id = next((doc_id for doc_id, one in self.rows.items() if one is row or one == row), 0)
        raise RowError(self.name, doc_id, row, why)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows.values())
