"""TinyDB's storage interface: `read` returns every row of every table and `write` replaces them. Leyden's own table
uses neither."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import ItemsView, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, cast

from tinydb.storages import Storage

from leyden.server.store.tables.row_map import Row
from leyden.server.store.tables.table_data import TableData


class TinyDBStorage(Storage):
    """The methods that make a storage of rows (`RowStorage`) a complete TinyDB storage, for TinyDB's stock tables
    too."""

    tables: dict[str, TableData]

    @abstractmethod
    def table_data(self, name: str) -> TableData:
        """The data of a table."""

    @abstractmethod
    def commit(self) -> AbstractContextManager[None]:
        """Group the writes of a `with` block."""

    def read(self) -> dict[str, dict[str, Any]] | None:
        """The tables by name, and in each the rows by their id as text. A row is copied when it is read."""
        tables = {name: _TableView(data) for name, data in self.tables.items() if data.exists}
        return cast("dict[str, dict[str, Any]]", tables) or None

    def write(self, data: Mapping[str, Mapping[Any, Mapping[str, Any]]]) -> None:
        """Replace all rows by `data` in one commit. A table that `read` returned is left as it is."""
        with self.commit():
            for name, table in self.tables.items():
                if table.exists and name not in data:
                    table.drop()
            for name, rows in data.items():
                table = self.table_data(name)
                if not (isinstance(rows, _TableView) and rows.data is table):
                    _replace_rows(table, {int(doc_id): dict(row) for doc_id, row in rows.items()})


class _TableView(Mapping[str, Row]):
    """A table in the form that TinyDB's stock classes expect. Rows are copies: those classes change them in place."""

    def __init__(self, data: TableData) -> None:
        self.data = data

    def __getitem__(self, doc_id: str) -> Row:
        number = parse_doc_id(doc_id)
        if number is None:
            raise KeyError(doc_id)
        return deep_copy(self.data.rows[number])

    def __iter__(self) -> Iterator[str]:
        return iter([str(doc_id) for doc_id in self.data.rows])

    def __len__(self) -> int:
        return len(self.data.rows)

    def items(self) -> ItemsView[str, Row]:
        """All rows as they are now: the table may change during the iteration."""
        return {str(doc_id): deep_copy(row) for doc_id, row in self.data.rows.items()}.items()


def parse_doc_id(doc_id: object) -> int | None:
    """A document id as a number; None for what TinyDB would not find."""
    # TinyDB compares ids by their text: "7" is 7, and True is not 1.
    if type(doc_id) is int:
        return doc_id
    text = str(doc_id)
    try:
        return number if str(number := int(text)) == text else None
    except ValueError:
        return None


def deep_copy(row: Row) -> Row:
    """A copy that may be changed at any depth."""
    return {field: _copy_value(value) for field, value in row.items()}


def _copy_value(value: Any) -> Any:
    if isinstance(value, dict):
        return deep_copy(value)
    if isinstance(value, list):
        return [_copy_value(item) for item in value]
    return value


def _replace_rows(table: TableData, rows: dict[int, Row]) -> None:
    remaining = [doc_id for doc_id in table.rows if doc_id in rows]
    if remaining != list(rows)[: len(remaining)]:
        table.clear()  # the order of the rows changed: write all of them again, in the new order
    table.create()
    for doc_id in [doc_id for doc_id in table.rows if doc_id not in rows]:
        table.delete(doc_id)
    for doc_id, row in rows.items():
        # Compared by their text: 1, 1.0 and True are equal, so a change from one to another would be lost.
        if doc_id not in table.rows or repr(table.rows[doc_id]) != repr(row):
            table.set(doc_id, row)
