"""The data of one table: rows, unique key, indexes and tallies, and how to roll back the changes of a commit.

Rows are exact `dict`s that are replaced and never changed: a copy of the outer dict is a complete snapshot, a rollback
puts the former row back by reference, and CPython's garbage collector does not visit a plain dict of plain values. Rows
that were replaced a while ago are packed (`row_map.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Protocol

from tinydb.utils import LRUCache

from leyden.server.errors import StoreError
from leyden.server.store.tables.id_order import DATE, IdOrder
from leyden.server.store.tables.index import Index, holder_of
from leyden.server.store.tables.row_map import REPLACED_TOGETHER, Row, RowMap, Summarize
from leyden.server.store.tables.table_snapshot import TableSnapshot
from leyden.server.store.tables.tally import Tally


class CommitState(Protocol):
    """The state of a storage that its tables read and set: how many commits are open inside one another, whether they
    can only be rolled back, and the tables that they have changed."""

    depth: int
    rollback_only: bool
    touched: list[TableData]


# What a table held when it was cleared: rows, key, indexes, tallies, order of ids, and the rows before the commit.
_Content = tuple[RowMap, dict[Any, int], dict[str, Index], dict[tuple[str, ...], Tally], IdOrder, dict[int, Row | None]]


class TableData:
    """The rows of one table by document id, with a unique key, indexes and tallies.

    `before` maps each id that the open commit has changed to its row before the commit (None: there was no row); it is
    None while this table is unchanged. `exists` is true once something was written, also an empty table, as in TinyDB.
    `max_id` is never below the highest id. `ascending` is true while the rows are in the order of their ids.
    """

    __slots__ = (
        "_cleared", "_commit_state", "_id_sequence", "_initial", "_looked_up", "_needs_reindex", "_order_changed",
        "_reinserted", "_replaced", "ascending", "before", "caches", "exists", "indexes", "is_final", "key", "keys",
        "max_id", "name", "next_id", "order", "rows", "summarize", "tallies",
    )  # fmt: skip

    def __init__(self, commit_state: CommitState, name: str, state: TableSnapshot | None = None) -> None:
        self._commit_state = commit_state
        self.name = name
        self.rows = RowMap()
        self.next_id: int | None = None
        self.exists = False
        self.key: str | None = None
        self.keys: dict[Any, int] = {}
        self.indexes: dict[str, Index] = {}
        self.tallies: dict[tuple[str, ...], Tally] = {}
        self.summarize: Summarize | None = None
        self.is_final = False  # whether rows are packed that were never replaced
        if state is not None:
            self.rows, self.next_id, self.exists = state.rows.copy(), state.next_id, state.exists
            self.key, self.keys = state.key, state.keys.copy()
            self.indexes = {field: Index(Index(groups).copy_groups()) for field, groups in state.indexes.items()}
            self.tallies = {fields: tally.copy() for fields, tally in state.tallies.items()}
        self.max_id = max(self.rows, default=0)
        self.ascending = list(self.rows) == sorted(self.rows)
        self.caches: dict[int, LRUCache[Any, Any]] = {}
        self.before: dict[int, Row | None] | None = None
        self._replaced: list[int] = []  # ids of rows replaced lately, that of a row which the commit inserted, too
        # About the open commit: ids inserted again; what it cleared; whether it deleted rows, and their order before.
        self._reinserted: set[int] = set()
        self._order_changed = self._needs_reindex = False
        self._cleared: _Content | None = None
        self._id_sequence: list[int] | None = None
        self._initial: tuple[int | None, bool, int, bool]  # set by `join_commit`
        self.order = IdOrder(self.rows)
        self._note_fields()

    def snapshot(self, *, indexes: bool = True) -> TableSnapshot:
        """The table as plain data. The cost is a copy of the outer dicts, without `indexes` of one."""
        if not indexes:
            return TableSnapshot(self.rows.copy(), self.next_id, self.exists, None, {}, {})
        groups = {field: index.copy_groups() for field, index in self.indexes.items()}
        tallies = {fields: tally.copy() for fields, tally in self.tallies.items()}
        return TableSnapshot(self.rows.copy(), self.next_id, self.exists, self.key, self.keys.copy(), groups, tallies)

    # Writing

    def join_commit(self) -> dict[int, Row | None] | None:
        """Join the open commit, if there is one: every change from here on can be rolled back. Returns `before`."""
        if self.before is None and self._commit_state.depth:
            self._initial = (self.next_id, self.exists, self.max_id, self.ascending)
            self._commit_state.touched.append(self)
            self.before = {}
        return self.before

    def create(self) -> None:
        """Create the table, empty."""
        if not self.exists:
            self.join_commit()
            self.exists = True

    def set(self, doc_id: int, row: Row) -> None:
        """Insert `row` at `doc_id`, or replace the row there. The table keeps `row` itself. Raises `ValueError`, and
        changes nothing, when another row has the same unique key."""
        key = self.key
        if key is not None and (holder := self.keys.get(row.get(key), doc_id)) != doc_id:
            raise ValueError(
                f"table {self.name!r}: a row with {key} {row[key]!r} already exists (document {holder});"
                " change that row, or choose another value"
            )
        before = self.before
        if before is None:
            before = self.join_commit()
        old = self.rows.get(doc_id)
        if old is None:
            if before is not None:
                if doc_id in before:
                    self._reinserted.add(doc_id)
                else:
                    before[doc_id] = None
            self.exists = True
            self._add(doc_id, row)
        else:
            if before is not None and doc_id not in before:
                before[doc_id] = old
            self._replace(doc_id, old, row)
        if self.caches:
            self.clear_query_caches()

    def put(self, row: Row) -> int:
        """Replace the row with the same unique key, or insert at the next id. Returns the id.

        The table keeps `row` itself. Raises `ValueError` when the table has no unique key or the row has no value
        for it.
        """
        key = self.key
        value = None if key is None else row.get(key)
        if value is None:
            raise ValueError(
                f"table {self.name!r} has no unique key: open it with key=..., or use insert"
                if key is None
                else f"table {self.name!r}: a row needs {key!r} to be put"
            )
        before = self.before
        if before is None:
            before = self.join_commit()
        doc_id = self.keys.get(value)
        if doc_id is not None:
            old = self.rows[doc_id]
            if before is not None and doc_id not in before:
                before[doc_id] = old
            self._replace(doc_id, old, row)
        else:
            doc_id = self.next_id
            if doc_id is None or doc_id in self.rows:  # a caller used this id already
                doc_id = self.highest_id() + 1
            self.next_id = doc_id + 1
            if before is not None:
                if doc_id in before:  # ids started again after the table was dropped
                    self._reinserted.add(doc_id)
                else:
                    before[doc_id] = None
            self.exists = True
            self._add(doc_id, row)
        if self.caches:
            self.clear_query_caches()
        return doc_id

    def delete(self, doc_id: int) -> None:
        """Delete the row at `doc_id`, which must exist."""
        row = self.rows[doc_id]
        before = self.join_commit()
        if before is not None:
            before.setdefault(doc_id, row)
            self._note_order()
        self._remove(doc_id, row)
        if self.caches:
            self.clear_query_caches()

    def clear(self) -> None:
        """Delete every row. The table exists afterwards."""
        before = self.join_commit()
        if before is not None:
            if self._cleared is None:
                self._cleared = self.rows, self.keys, self.indexes, self.tallies, self.order, before
            self.before = {}
        self.exists = True
        self.rows, self.keys, self.indexes = RowMap(), {}, {field: Index() for field in self.indexes}
        self.tallies = {fields: Tally(fields) for fields in self.tallies}
        self.max_id, self.ascending, self.order = 0, True, IdOrder(self.rows)
        self.clear_query_caches()

    def drop(self) -> None:
        """Delete every row and the table. Ids start again from 1; what was declared stays declared."""
        self.clear()
        self.exists, self.next_id = False, None

    def clear_query_caches(self) -> None:
        """Clear the query caches that hold results from this table."""
        for cache in self.caches.values():
            cache.clear()
        self.caches.clear()

    # The end of a commit

    def changes(self) -> list[Any] | None:
        """The changes of the open commit in the journal's form: `[id, row]` set, `[id]` deleted, `[]` all deleted; None
        for a table that was dropped. Replayed in this order they restore the rows and their order."""
        if not self.exists:
            return None
        rows = self.rows
        if self._cleared is not None:
            return [[], *rows.items()]
        before = self.before or {}
        ids: Iterable[int] = before
        if self._reinserted:  # then the order of the rows differs from the order in which `before` met the ids
            position = {doc_id: place for place, doc_id in enumerate(rows) if doc_id in before}
            ids = sorted(before, key=lambda doc_id: position.get(doc_id, -1))
        changes: list[Any] = []
        for doc_id in ids:
            row = rows.get(doc_id)
            if before[doc_id] is not None and (row is None or doc_id in self._reinserted):
                changes.append((doc_id,))
            if row is not None:
                changes.append((doc_id, row))
        return changes

    def existence_changed(self) -> bool:
        """Whether the open commit created or dropped the table."""
        return self.exists != self._initial[1]

    def end_commit(self) -> None:
        """Discard what was recorded for a rollback. Once in many commits, pack rows that were replaced long ago."""
        if len(self._replaced) >= REPLACED_TOGETHER:
            self.rows.pack(dict.fromkeys(self._replaced), self.summarize)
            self._replaced = []
        self.before = None
        self._cleared, self._order_changed, self._id_sequence = None, False, None
        if self._reinserted:
            self._reinserted.clear()

    def rollback(self) -> None:
        """Restore the table as it was before the commit: rows and their order, key, indexes, next id.

        It can be repeated after an interrupt.
        """
        if self._cleared is not None:
            self.rows, self.keys, self.indexes, self.tallies, self.order, self.before = self._cleared
        rows = self.rows
        for doc_id, old in (self.before or {}).items():
            now = rows.get(doc_id)
            if old is None:
                if now is not None:
                    self._remove(doc_id, now)
            elif now is None:
                self._add(doc_id, old)
            else:
                self._replace(doc_id, now, old)
        self.next_id, self.exists, self.max_id, self.ascending = self._initial
        if self._order_changed:
            sequence = sorted(rows) if self.ascending or self._id_sequence is None else self._id_sequence
            rows.sort(sequence)
        if self._needs_reindex:
            rebuilt = TableData(self._commit_state, self.name, TableSnapshot(self.rows, None, True, None, {}, {}))
            rebuilt.declare(self.key, self.indexes, self.tallies)
            self.keys, self.indexes, self.tallies = rebuilt.keys, rebuilt.indexes, rebuilt.tallies
            self._needs_reindex = False
        self.order.trim(self.rows)
        self.clear_query_caches()
        self.end_commit()

    def _note_order(self) -> None:
        # Rows in the order of their ids (the usual table) are put back in order by sorting; others need this list.
        if not self._order_changed and self._cleared is None:
            self._order_changed, self._id_sequence = True, None if self.ascending else list(self.rows)

    # Look-up

    def declare(self, key: str | None, indexes: Iterable[str], tallies: Iterable[tuple[str, ...]] = ()) -> None:
        """Maintain a unique key, indexes and tallies from now on; those declared before stay. Existing rows are
        included.

        Raises `ValueError` when the table has another unique key, and `StoreError` when two rows share a key or a key
        is no plain value.
        """
        if key is not None and key != self.key:
            if self.key is not None:
                raise ValueError(f"table {self.name!r} has the key {self.key!r}; it cannot also have the key {key!r}")
            keys: dict[Any, int] = {}
            for doc_id, row in self.rows.items():
                value = row.get(key)
                if value is not None and holder_of(keys, value, doc_id, self.name) != doc_id:
                    raise StoreError(
                        f"table {self.name!r}: documents {keys[value]} and {doc_id} both have {key} {value!r};"
                        " remove one of them, or open the table with key=None"
                    )
            self.key, self.keys = key, keys
        fresh, order = [(field, Index()) for field in indexes if field not in self.indexes], IdOrder({})
        for doc_id, row in self.rows.items() if fresh else ():
            order.append(doc_id, row)
            for field, index in fresh:
                if (value := row.get(field)) is not None:
                    index.add(value, doc_id)
        self.indexes.update(fresh)
        self.order = order if fresh and self.ascending else self.order
        self.tallies |= {fields: Tally(fields, self.rows.values()) for fields in tallies if fields not in self.tallies}
        self._note_fields()

    def _note_fields(self) -> None:
        """Note the fields whose values are in the key, the indexes, the tallies or the order of dates."""
        key = () if self.key is None else (self.key,)
        self._looked_up = (*key, DATE, *self.indexes, *(field for fields in self.tallies for field in fields))

    def with_value(self, field: str, value: Any) -> Collection[int]:
        """The ids of rows that may have `value` in `field`: from the index in no order, or every id without one."""
        index = self.indexes.get(field)
        if index is None or value is None:
            return self.rows
        try:
            held = index.groups.get(value)
        except TypeError:
            return self.rows
        return () if held is None else (held,) if isinstance(held, int) else held

    def highest_id(self) -> int:
        """The highest id in use; 0 in an empty table."""
        if self.max_id not in self.rows:
            self.join_commit()
            self.max_id = max(self.rows, default=0)
            self.order.trim(self.rows)
        return self.max_id

    # The three ways in which one row changes. During a rollback two rows may have the same key for a moment: a row only
    # removes a key that points to itself. After Ctrl-C in the middle, `rollback` builds the key and the indexes again.

    def _add(self, doc_id: int, row: Row) -> None:
        try:
            if doc_id > self.max_id:
                self.max_id = doc_id
                self.order.append(doc_id, row)
            else:
                self.ascending = False
                self.order.invalidate()
            self.rows.set(doc_id, row)
            if self.is_final and self.before is not None:
                self._replaced.append(doc_id)
            if self.key is not None and (value := row.get(self.key)) is not None:
                self.keys[value] = doc_id
            for field, index in self.indexes.items():
                if (value := row.get(field)) is not None:
                    index.add(value, doc_id)
            for tally in self.tallies.values():
                tally.add(row)
        except BaseException:
            self._needs_reindex = self._commit_state.rollback_only = True
            raise

    def _remove(self, doc_id: int, row: Row) -> None:
        try:
            self.rows.remove(doc_id)
            self.order.removed(self.rows)
            if self.key is not None and self.keys.get(row.get(self.key)) == doc_id:
                del self.keys[row[self.key]]
            for field, index in self.indexes.items():
                if (value := row.get(field)) is not None:
                    index.remove(value, doc_id)
            for tally in self.tallies.values():
                tally.remove(row)
        except BaseException:
            self._needs_reindex = self._commit_state.rollback_only = True
            raise

    def _replace(self, doc_id: int, old: Row, row: Row) -> None:
        try:
            self.rows.set(doc_id, row)
            if self.before is not None:
                self._replaced.append(doc_id)
            if [*map(old.get, self._looked_up)] == [*map(row.get, self._looked_up)]:
                return
            self.order.replaced(old, row)
            if self.key is not None and (was := old.get(self.key)) != (value := row.get(self.key)):
                if self.keys.get(was) == doc_id:
                    del self.keys[was]
                if value is not None:
                    self.keys[value] = doc_id
            for field, index in self.indexes.items():
                was, value = old.get(field), row.get(field)
                if was is not value and was != value:
                    if was is not None:
                        index.remove(was, doc_id)
                    if value is not None:
                        index.add(value, doc_id)
            for tally in self.tallies.values():
                tally.replace(old, row)
        except BaseException:
            self._needs_reindex = self._commit_state.rollback_only = True
            raise
