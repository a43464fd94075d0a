"""A TinyDB table that changes one row at the cost of one row, however many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, cast

from tinydb.queries import QueryLike
from tinydb.storages import Storage
from tinydb.table import Document, Table

from leyden.server.store.rows import RowStorage, deep_copy, parse_doc_id
from leyden.server.store.table_data import Row

Change = Mapping[str, Any] | Callable[[MutableMapping[str, Any]], None]


class IndexedTable(Table):
    """TinyDB's table over rows in memory: its answers, ids and errors, without a pass over the table for one row.

    `insert`, `update` and `remove` by `doc_ids`, `upsert` of a `Document` and `get(doc_id=...)` do not depend on the
    table's size. What takes a query looks at every row, as TinyDB does. An operation that fails changes nothing, as
    with TinyDB's file storage. Every answer is a copy of the row, whose nested values must not be changed.

    `key` names a field that is unique; `indexes` name fields that are often looked up (see `row`, `find`, `page`).
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
        """Raises `TypeError` for a storage that keeps whole tables, such as TinyDB's own, and what `declare` does."""
        if not isinstance(storage, RowStorage):
            raise TypeError(
                f"IndexedTable needs a storage that keeps rows (RowStorage, JournalStorage), not {storage!r};"
                " with that one use tinydb.table.Table"
            )
        super().__init__(storage, name, cache_size)
        self._data = storage.table_data(name)
        if not self._data.exists and self._next_id is not None:
            self._next_id = None  # counted by operations that failed, before the table was dropped
        self.declare(key, indexes)
        if persist_empty:
            self.truncate()

    def declare(self, key: str | None = None, indexes: Iterable[str] = ()) -> None:
        """Keep a unique key and indexes from now on, over the rows that are there too.

        Raises `ValueError` when there is another key already, or when two rows share one.
        """
        self._data.declare(key, indexes)

    # The service's look-ups and writes

    def has(self, key: Any) -> bool:
        """Whether there is a row with this unique key."""
        return key in self._data.keys

    def row(self, key: Any) -> Row | None:
        """The row with this unique key: the stored one, never to be changed."""
        doc_id = self._data.keys.get(key)
        return None if doc_id is None else self._data.rows[doc_id]

    def existing(self, key: Any) -> Row:
        """The row with this unique key. Raises `LookupError` when there is none: something names a row that is gone."""
        row = self.row(key)
        if row is None:
            raise LookupError(f"table {self.name!r} has no row {key!r}, although something stored names it")
        return row

    def put(self, row: Row) -> int:
        """Insert the row, or replace the one with the same unique key, which keeps its document id; returns that id.

        The table keeps `row` itself, which is never to be changed again. Raises `ValueError` when the table has no key
        or the row has none.
        """
        if self._storage.depth:
            return self._data.put(row)
        with self._storage.commit():
            return self._data.put(row)

    def delete(self, key: Any) -> bool:
        """Take away the row with this unique key; False when there is none."""
        doc_id = self._data.keys.get(key)
        if doc_id is None:
            return False
        with self._storage.commit():
            self._data.delete(doc_id)
        return True

    def find(self, field: str, value: Any) -> list[Row]:
        """The rows whose `field` equals `value`, oldest first. Null equals missing. Without an index, a full pass.

        They are the stored rows, never to be changed.
        """
        rows = self._data.rows
        ids = self._data.with_value(field, value)
        if len(ids) < 2:
            return [rows[doc_id] for doc_id in ids if rows[doc_id].get(field) == value]
        return [rows[doc_id] for doc_id in sorted(ids) if rows[doc_id].get(field) == value]

    def first(self, field: str, value: Any) -> Row | None:
        """The oldest row whose `field` equals `value`."""
        found = self.find(field, value)
        return found[0] if found else None

    def page(
        self,
        filters: Mapping[str, Any] | None = None,
        after: int | None = None,
        limit: int = 100,
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> list[Document]:
        """At most `limit` rows as `filters` say (field: value, all must equal), newest first.

        `after` is the document id of the previous page's last row: the page starts below it. Rows are in the order
        of their ids, which is that of their creation. `since_ms <= created_at < until_ms`, each bound if given.
        """
        table_data, rows, wanted = self._data, self._data.rows, filters or {}
        found: list[Document] = []
        lowest = 0
        if since_ms is not None or until_ms is not None:
            lowest, above = table_data.order.id_bounds(rows, since_ms, until_ms)
            after = above if after is None else after if above is None else min(after, above)
        for ids in table_data.newest_first(wanted, after) if limit > 0 else ():
            last = ids[-1] < lowest
            ids = [doc_id for doc_id in ids if doc_id in rows]
            for field, value in wanted.items():
                ids = [doc_id for doc_id in ids if rows[doc_id].get(field) == value]
            if since_ms is not None:
                ids = [doc_id for doc_id in ids if rows[doc_id]["created_at"] >= since_ms]
            if until_ms is not None:
                ids = [doc_id for doc_id in ids if rows[doc_id]["created_at"] < until_ms]
            found += [Document(rows[doc_id], doc_id) for doc_id in ids[: limit - len(found)]]
            if last or len(found) == limit:
                break
        return found

    # TinyDB's operations on single rows

    def insert(self, document: Mapping[str, Any]) -> int:
        """As TinyDB's."""
        if document.__class__ is dict:
            doc_id = self._get_next_id()
            if doc_id not in self._data.rows:
                self._set(doc_id, dict(document))
                return doc_id
            self._data.next_id = doc_id  # taken by an id given by hand: TinyDB's own words for that follow
        return super().insert(document)

    def get(self, cond: QueryLike | None = None, doc_id: int | None = None, doc_ids: list[int] | None = None) -> Any:
        """As TinyDB's."""
        rows = self._data.rows
        if doc_id is not None:
            known = parse_doc_id(doc_id)
            row = None if known is None else rows.get(known)
            return None if row is None else self.document_class(row, doc_id)
        if doc_ids is not None:
            hits = {known for known in map(parse_doc_id, doc_ids) if known in rows}
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
                raise KeyError(doc_id)  # asked for twice: TinyDB finds it gone the second time
            staged[doc_id] = None
        self._apply(staged)
        return removed

    # TinyDB's operations on the whole table

    def search(self, cond: QueryLike) -> list[Document]:
        """As TinyDB's, its query cache too: any change to the table empties that."""
        cache = self._query_cache
        self._data.caches[id(cache)] = cache  # before it holds the answer, or an interrupt could leave it there
        found = super().search(cond)
        self._data.caches[id(cache)] = cache  # and again: `cond` may have changed the table
        return found

    def __len__(self) -> int:
        return len(self._data.rows)

    def __iter__(self) -> Iterator[Document]:
        for doc_id, row in list(self._data.rows.items()):  # the table may be changed while it is walked
            yield self.document_class(row, doc_id)

    # What TinyDB's inherited methods stand on

    @property  # type: ignore[override]
    def _next_id(self) -> int | None:
        return self._data.next_id

    @_next_id.setter
    def _next_id(self, value: int | None) -> None:
        if "_data" in self.__dict__:  # TinyDB's constructor sets None; the next id outlives this object
            self._data.join_commit()
            self._data.next_id = value

    def _get_next_id(self) -> int:
        table_data = self._data
        table_data.join_commit()
        next_id = table_data.next_id
        if next_id is None:
            next_id = table_data.highest_id() + 1
        table_data.next_id = next_id + 1
        return next_id

    def _read_table(self) -> dict[str, Mapping[str, Any]]:
        return cast("dict[str, Mapping[str, Any]]", self._data.rows)  # ids as numbers: its users convert them anyway

    def _update_table(self, updater: Callable[[dict[int, Mapping[str, Any]]], None]) -> None:
        draft = _StagedRows(self._data.rows)
        updater(cast("dict[int, Mapping[str, Any]]", draft))
        if draft.cleared and len(self):
            with self._storage.commit():
                self._data.clear()
        # Only now as numbers: TinyDB does not know "5" for 5 before it writes.
        self._apply({int(doc_id): row for doc_id, row in draft.staged.items()})

    def _set(self, doc_id: int, row: Row) -> None:
        storage = self._storage
        if storage.depth:
            self._data.set(doc_id, row)
        else:
            with storage.commit():
                self._data.set(doc_id, row)

    def _apply(self, staged: Mapping[int, Row | None]) -> None:
        table_data = self._data
        table_data.clear_query_caches()  # as TinyDB does after every operation, whatever it found to do
        if not staged and table_data.exists:
            return
        with self._storage.commit():
            table_data.create()
            for doc_id, row in staged.items():
                if row is None:
                    table_data.delete(doc_id)
                else:
                    table_data.set(doc_id, row)


class _StagedRows:
    """What TinyDB's updaters see of a table: enough to add rows and to clear it, without touching it yet."""

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
