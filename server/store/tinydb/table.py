"""A TinyDB table over the rows of the store, with TinyDB's results, ids and errors. One row costs constant time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, cast

from tinydb.queries import QueryLike
from tinydb.storages import Storage
from tinydb.table import Document, Table

from leyden.server.store.rows import RowStorage
from leyden.server.store.table import RowTable
from leyden.server.store.tables.row_map import Row
from leyden.server.store.tinydb.storage import deep_copy, parse_doc_id

Change = Mapping[str, Any] | Callable[[MutableMapping[str, Any]], None]


class IndexedTable(RowTable, Table):
    """A `RowTable` that is a TinyDB `Table` too.

    `insert`, `update` and `remove` by `doc_ids`, `upsert` of a `Document` and `get(doc_id=...)` do not depend on the
    table's size. An operation with a query reads every row, as in TinyDB. An operation that fails changes nothing, as
    with TinyDB's file storage. Every result is a copy of the row; its nested values must not be changed.
    """

    _storage: RowStorage

    def __init__(
        self,
        storage: Storage,
        name: str,
        cache_size: int = Table.default_query_cache_capacity,
        persist_empty: bool = False,
        key: str | None = None,
        indexes: Iterable[str] = (),
    ) -> None:
        """Raises `TypeError` for a storage that keeps whole tables, such as TinyDB's own, and what `declare` raises."""
        if not isinstance(storage, RowStorage):
            raise TypeError(
                f"IndexedTable needs a storage that keeps rows (RowStorage, JournalStorage), not {storage!r};"
                " with that one use tinydb.table.Table"
            )
        Table.__init__(self, storage, name, cache_size)
        RowTable.__init__(self, storage, name)
        if not self._data.exists and self._next_id is not None:
            self._next_id = None  # operations that failed had used ids before the table was dropped
        self.declare(key, indexes)
        if persist_empty:
            self.truncate()

    # TinyDB's operations on single rows

    def insert(self, document: Mapping[str, Any]) -> int:
        """As TinyDB's."""
        if document.__class__ is dict:
            doc_id = self._get_next_id()
            if doc_id not in self._data.rows:
                self._set(doc_id, dict(document))
                return doc_id
            self._data.next_id = doc_id  # a caller used this id already: TinyDB raises its own error for it below
        return super().insert(document)

    def get(self, cond: QueryLike | None = None, doc_id: int | None = None, doc_ids: list[int] | None = None) -> Any:
        """As TinyDB's."""
        rows = self._data.rows
        if doc_id is not None:
            known = parse_doc_id(doc_id)
            row = None if known is None else rows.get(known)
            return None if row is None else self.document_class(row, doc_id)
        if doc_ids is not None:
            hits = {known for known in map(parse_doc_id, doc_ids) if known is not None and known in rows}
            ordered = sorted(hits) if self._data.ascending else [known for known in rows if known in hits]
            return [self.document_class(rows[known], known) for known in ordered]
        return super().get(cond) if cond is not None else super().get()

    def update(self, fields: Change, cond: QueryLike | None = None, doc_ids: Iterable[int] | None = None) -> list[int]:
        """As TinyDB's."""
        rows = self._data.rows
        updated: list[int] = []
        staged: dict[int, Row] = {}
        if doc_ids is not None:
            updated = [doc_id for doc_id in list(doc_ids) if doc_id in rows]
            for doc_id in updated:
                staged[doc_id] = _changed(staged[doc_id] if doc_id in staged else rows[doc_id], fields)
        else:
            for doc_id, row in list(rows.items()):
                if cond is None or cond(row):
                    updated.append(doc_id)
                    staged[doc_id] = _changed(row, fields)
        self._apply(staged)
        return updated

    def update_multiple(self, updates: Iterable[tuple[Change, QueryLike]]) -> list[int]:
        """As TinyDB's."""
        updated: list[int] = []
        staged: dict[int, Row | None] = {}
        for doc_id, row in list(self._data.rows.items()):
            for fields, cond in updates:
                if cond(row):
                    updated.append(doc_id)
                    staged[doc_id] = row = _changed(row, fields)
        self._apply(staged)
        return updated

    def remove(self, cond: QueryLike | None = None, doc_ids: Iterable[int] | None = None) -> list[int]:
        """As TinyDB's."""
        rows = self._data.rows
        if doc_ids is not None:
            removed = [doc_id for doc_id in list(doc_ids) if doc_id in rows]
        elif cond is not None:
            removed = [doc_id for doc_id, row in list(rows.items()) if cond(row)]
        else:
            return super().remove()
        staged: dict[int, Row | None] = {}
        for doc_id in removed:
            if doc_id in staged:
                raise KeyError(doc_id)  # as in TinyDB, which does not find it the second time
            staged[doc_id] = None
        self._apply(staged)
        return removed

    # TinyDB's operations on the whole table

    def search(self, cond: QueryLike) -> list[Document]:
        """As TinyDB's, with its query cache. Every change to the table clears the cache."""
        cache = self._query_cache
        self._data.caches[id(cache)] = cache  # before it holds a result, or an interrupt could leave it there
        found = super().search(cond)
        self._data.caches[id(cache)] = cache  # and again: `cond` may have changed the table
        return found

    def __len__(self) -> int:
        return len(self._data.rows)

    def __iter__(self) -> Iterator[Document]:
        for doc_id, row in self._data.rows.copy().items():  # the table may change during the iteration
            yield self.document_class(row, doc_id)

    # What TinyDB's inherited methods call

    @property  # type: ignore[override]
    def _next_id(self) -> int | None:
        return self._data.next_id

    @_next_id.setter
    def _next_id(self, value: int | None) -> None:
        if hasattr(self, "_data"):  # TinyDB's constructor sets None, but the next id outlives this object
            self._data.join_commit()
            self._data.next_id = value

    def _get_next_id(self) -> int:
        data = self._data
        data.join_commit()
        next_id = data.next_id
        if next_id is None:
            next_id = data.highest_id() + 1
        data.next_id = next_id + 1
        return next_id

    def _read_table(self) -> dict[str, Mapping[str, Any]]:
        return cast(
            "dict[str, Mapping[str, Any]]", self._data.rows
        )  # ids as numbers: TinyDB's methods convert them anyway

    def _update_table(self, updater: Callable[[dict[int, Mapping[str, Any]]], None]) -> None:
        draft = _StagedRows(self._data.rows)
        updater(cast("dict[int, Mapping[str, Any]]", draft))
        if draft.cleared and len(self):
            with self._storage.commit():
                self._data.clear()
        # Ids become numbers here only: until it writes, TinyDB treats "5" and 5 as different ids. A row that is there
        # keeps its place before the new ones, so that of two rows with one id a new one is written over it.
        staged, rows = draft.staged, self._data.rows
        self._apply({int(doc_id): staged[doc_id] for doc_id in sorted(staged, key=lambda doc_id: doc_id not in rows)})

    def _set(self, doc_id: int, row: Row) -> None:
        storage = self._storage
        if storage.depth:
            self._data.set(doc_id, row)
        else:
            with storage.commit():
                self._data.set(doc_id, row)

    def _apply(self, staged: Mapping[int, Row | None]) -> None:
        data = self._data
        data.clear_query_caches()  # as TinyDB does after every operation, with or without changes
        if not staged and data.exists:
            return
        with self._storage.commit():
            data.create()
            for doc_id, row in staged.items():
                if row is None:
                    data.delete(doc_id)
                else:
                    data.set(doc_id, row)


class _StagedRows:
    """The object that TinyDB's updaters get instead of a table. It collects the rows to add and whether to clear the
    table."""

    def __init__(self, rows: Mapping[int, Row]) -> None:
        self._rows = rows
        self.staged: dict[int, Row | None] = {}
        self.cleared = False

    def __contains__(self, doc_id: object) -> bool:
        return doc_id in self.staged or doc_id in self._rows

    def __setitem__(self, doc_id: int, row: Row) -> None:
        self.staged[doc_id] = row

    def clear(self) -> None:
        self.cleared = True


def _changed(row: Row, fields: Change) -> Row:
    if callable(fields):
        row = deep_copy(row)
        fields(row)
        return row
    row = row.copy()
    row.update(fields)
    return row
