"""A table holds one table's rows, knows how to find them fast, and can take back what a failed commit did.

Rows are exact `dict`s that are replaced and never changed, for three reasons. A copy of the outer dict is a whole
snapshot. What stood there before a change can be put back by reference. And CPython's garbage collector does not
visit a plain dict of plain values, so a hundred thousand rows hardly lengthen its pauses (a dict subclass would).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from leyden.server.store.id_order import IdOrder
from leyden.server.store.index import Groups, Index

Row = dict[str, Any]


class CommitState(Protocol):
    """What a table must know of its storage: how many commits are open, whether they are to be taken back, and the list
    of tables they touched."""

    depth: int
    rollback_only: bool
    touched: list[TableData]


class Clearable(Protocol):
    """Anything that can be emptied; here, a query cache."""

    def clear(self) -> None: ...


class TableSnapshot(NamedTuple):
    """A table as plain data. The rows are shared with the living table, the containers are not."""

    rows: dict[int, Row]
    next_id: int | None
    exists: bool
    key: str | None
    keys: dict[Any, int]
    indexes: dict[str, Groups]


class TableData:
    """The rows of one table by document id, a unique key, and indexes; the changes of the open commit beside them.

    `before` maps each id touched by the open commit to the row that stood there (None: there was none), in the order
    in which the journal must repeat them. It is None while the open commit has not touched this table.
    `made` says whether the table exists: TinyDB lists a table once something was written to it, be it nothing.
    `top` is never below the highest id; `ascending` is true while the rows stand in the order of their ids.
    """

    __slots__ = (
        "_cleared", "_commit_state", "_id_sequence", "_initial", "_needs_reindex", "_reinserted", "ascending", "before",
        "caches", "exists", "indexes", "key", "keys", "max_id", "name", "next_id", "order", "rows",
    )  # fmt: skip

    def __init__(self, hub: CommitState, name: str, state: TableSnapshot | None = None) -> None:
        self._commit_state = hub
        self.name = name
        self.rows: dict[int, Row] = {}
        self.next_id: int | None = None
        self.exists = False
        self.key: str | None = None
        self.keys: dict[Any, int] = {}
        self.indexes: dict[str, Index] = {}
        if state is not None:
            self.rows, self.next_id, self.exists = state.rows.copy(), state.next_id, state.exists
            self.key, self.keys = state.key, state.keys.copy()
            self.indexes = {field: Index(Index(groups).copy_groups()) for field, groups in state.indexes.items()}
        self.max_id = max(self.rows, default=0)
        self.ascending = list(self.rows) == sorted(self.rows)
        self.caches: dict[int, Clearable] = {}
        self.before: dict[int, Row | None] | None = None
        self._reinserted: dict[int, Row] = {}  # ids given again by the open commit, and the row they had before
        self._cleared = False
        self._needs_reindex = False  # a change of one row was interrupted: keys and indexes may say anything
        self._id_sequence: list[int] | None = None
        self._initial: tuple[int | None, bool, int, bool]  # `begin` notes it
        self.order = IdOrder()

    def snapshot(self) -> TableSnapshot:
        """The table as it stands, as data. Its cost is that of copying the outer dicts."""
        indexes = {field: index.copy_groups() for field, index in self.indexes.items()}
        return TableSnapshot(self.rows.copy(), self.next_id, self.exists, self.key, self.keys.copy(), indexes)

    # Writing

    def join_commit(self) -> dict[int, Row | None] | None:
        """Join the open commit, if there is one: from here on every change can be taken back."""
        if self.before is None and self._commit_state.depth:
            self._initial = (self.next_id, self.exists, self.max_id, self.ascending)
            self._commit_state.touched.append(self)
            self.before = {}
        return self.before

    def create(self) -> None:
        """Bring the table into being."""
        if not self.exists:
            self.join_commit()
            self.exists = True

    def set(self, doc_id: int, row: Row) -> None:
        """Put `row` at `doc_id`, over what stood there. The table keeps `row` itself.

        Raises `ValueError`, before anything is changed, when another row has the same unique key.
        """
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
                self._note_reinsertion(doc_id, before)
            self.exists = True
            self._add(doc_id, row)
        else:
            if before is not None and doc_id not in before:
                before[doc_id] = old
            self._replace(doc_id, old, row)
        if self.caches:
            self.clear_query_caches()

    def put(self, row: Row) -> int:
        """Set a row at the id of the one with its unique key, or at the next id; that id. The table keeps `row` itself.

        Raises `ValueError` when the table has no key or the row has none.
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
            if doc_id is None or doc_id in self.rows:  # ids given by hand ran ahead of the count
                doc_id = self.highest_id() + 1
            self.next_id = doc_id + 1
            if before is not None:
                if doc_id in before:  # counted anew after the table was dropped
                    self._note_reinsertion(doc_id, before)
                else:
                    before[doc_id] = None
            self.exists = True
            self._add(doc_id, row)
        if self.caches:
            self.clear_query_caches()
        return doc_id

    def delete(self, doc_id: int) -> None:
        """Take away the row at `doc_id`, which must exist."""
        row = self.rows[doc_id]
        before = self.join_commit()
        if before is not None:
            before.setdefault(doc_id, row)
            self._note_id_sequence()
        self._remove(doc_id, row)
        if self.caches:
            self.clear_query_caches()

    def clear(self) -> None:
        """Take away every row. The table exists afterwards."""
        before = self.join_commit()
        if before is not None:
            for doc_id, row in self.rows.items():
                before.setdefault(doc_id, row)
            self._note_id_sequence()
            self._cleared = True
        self.exists = True
        self.rows, self.keys, self.indexes = {}, {}, {field: Index() for field in self.indexes}
        self.max_id, self.ascending = 0, True
        self.order.invalidate()
        self.clear_query_caches()

    def drop(self) -> None:
        """Take away every row and the table's existence; ids begin anew, the declared key and indexes stay declared."""
        self.clear()
        self.exists = False
        self.next_id = None

    def clear_query_caches(self) -> None:
        """Empty the query caches that hold answers from this table."""
        for cache in self.caches.values():
            cache.clear()
        self.caches.clear()

    # The end of a commit

    def changes(self) -> list[Any] | None:
        """What the open commit did here, as the journal writes it: `[id, row]` put, `[id]` taken away, `[]` all
        taken away; None for a table that is gone. Done in this order they restore the rows and their sequence."""
        if not self.exists:
            return None
        rows = self.rows
        if self._cleared:
            return [[], *rows.items()]
        changes: list[Any] = []
        for doc_id, old in (self.before or {}).items():
            row = rows.get(doc_id)
            if old is not None and (row is None or doc_id in self._reinserted):
                changes.append((doc_id,))
            if row is not None:
                changes.append((doc_id, row))
        return changes

    def existence_changed(self) -> bool:
        """Whether the open commit brought the table into being or dropped it."""
        return self.exists != self._initial[1]

    def end_commit(self) -> None:
        """Forget how it was before the commit."""
        self.before = None
        self._cleared = False
        self._id_sequence = None
        if self._reinserted:
            self._reinserted.clear()

    def rollback(self) -> None:
        """Put everything back as it was before the commit: rows and their sequence, indexes, next id.

        Interrupted, it can be done again.
        """
        rows, moved = self.rows, self._cleared
        for doc_id, old in [*(self.before or {}).items(), *self._reinserted.items()]:
            now = rows.get(doc_id)
            if old is None:
                if now is not None:
                    self._remove(doc_id, now)
            elif now is None:
                self._cleared = moved = True
                self._add(doc_id, old)
            else:
                self._replace(doc_id, now, old)
                moved = moved or doc_id in self._reinserted
        self.next_id, self.exists, self.max_id, self.ascending = self._initial
        if moved:  # what came back stands at the end
            sequence = self._id_sequence if not self.ascending and self._id_sequence is not None else sorted(rows)
            self.rows = {doc_id: rows[doc_id] for doc_id in sequence if doc_id in rows}
        if self._needs_reindex:
            anew = TableData(self._commit_state, self.name, TableSnapshot(self.rows, None, True, None, {}, {}))
            anew.declare(self.key, self.indexes)
            self.keys, self.indexes, self._needs_reindex = anew.keys, anew.indexes, False
        self.order.trim(self.rows)
        self.clear_query_caches()
        self.end_commit()

    def _note_reinsertion(self, doc_id: int, before: dict[int, Row | None]) -> None:
        if (was := before.get(doc_id)) is not None:
            self._reinserted[doc_id] = was
        before.pop(doc_id, None)  # so that it goes to the end: so does the row
        before[doc_id] = was

    def _note_id_sequence(self) -> None:
        # Rows in the order of their ids (the usual table) are put back in place by sorting; others need a note of it.
        if self._id_sequence is None and not self.ascending:
            self._id_sequence = list(self.rows)

    # Finding

    def declare(self, key: str | None, indexes: Iterable[str]) -> None:
        """Keep a unique key and indexes from now on; those kept already stay. Existing rows are indexed here.

        Raises `ValueError` when the table has another key already, or when two rows share a key.
        """
        if key is not None and key != self.key:
            if self.key is not None:
                raise ValueError(f"table {self.name!r} has the key {self.key!r}; it cannot also have the key {key!r}")
            keys: dict[Any, int] = {}
            for doc_id, row in self.rows.items():
                value = row.get(key)
                if value is not None and keys.setdefault(value, doc_id) != doc_id:
                    raise ValueError(
                        f"table {self.name!r}: documents {keys[value]} and {doc_id} both have {key} {value!r};"
                        " remove one of them, or open the table with key=None"
                    )
            self.key, self.keys = key, keys
        fresh = [(field, Index()) for field in indexes if field not in self.indexes]
        for doc_id, row in self.rows.items() if fresh else ():
            for field, index in fresh:
                if (value := row.get(field)) is not None:
                    index.add(value, doc_id)
        self.indexes.update(fresh)

    def with_value(self, field: str, value: Any) -> Collection[int]:
        """The ids of rows that may have `value` in `field`: its index's group in no order, or every id."""
        index = self.indexes.get(field)
        if index is None or value is None:
            return self.rows
        try:
            held = index.groups.get(value)
        except TypeError:
            return self.rows
        return () if held is None else held if isinstance(held, set) else (held,)

    def newest_first(self, wanted: Mapping[str, Any], after: int | None) -> Iterator[list[int]]:
        """The ids below `after` of rows that may be as `wanted`, from the highest, in growing portions.

        When an index leaves at most a quarter of the rows, those are sorted; otherwise the walk goes down the list
        of all ids from `after`. So the worst page costs a small fixed amount for each row of the table, and the
        usual one does not depend on the table's size.
        """
        best, fewest = None, len(self.rows) // 4 + 1
        for field, value in wanted.items():
            index = self.indexes.get(field)
            size = None if index is None else index.count(value)
            if index is not None and size is not None and size < fewest:
                best, fewest = (index, value), size
        if best is not None:
            ids = sorted(best[0].ids(best[1]))
        else:
            ids = self.order.ids(self.rows)
        end, portion = len(ids) if after is None else bisect_left(ids, after), 256
        while end > 0:
            start = max(end - portion, 0)
            yield ids[start:end][::-1]
            end, portion = start, min(2 * portion, 8_192)

    def highest_id(self) -> int:
        """The highest id in use; 0 when there is none."""
        if self.max_id not in self.rows:
            self.join_commit()
            self.max_id = max(self.rows, default=0)
            self.order.trim(self.rows)
        return self.max_id

    # One row in, out, or over another. While a commit is undone two rows may claim one key for a moment; hence a row
    # only ever takes away its own claim. Ctrl-C (or a lack of memory) in the middle dooms the commit, and `undo` mends
    # what was left half done.

    def _add(self, doc_id: int, row: Row) -> None:
        try:
            if doc_id > self.max_id:
                self.max_id = doc_id
                self.order.append(doc_id)
            else:
                self.ascending = False
                self.order.invalidate()
            self.rows[doc_id] = row
            if self.key is not None and (value := row.get(self.key)) is not None:
                self.keys[value] = doc_id
            for field, index in self.indexes.items():
                if (value := row.get(field)) is not None:
                    index.add(value, doc_id)
        except BaseException:
            self._needs_reindex = self._commit_state.rollback_only = True
            raise

    def _remove(self, doc_id: int, row: Row) -> None:
        try:
            del self.rows[doc_id]
            if self.key is not None and self.keys.get(row.get(self.key)) == doc_id:
                del self.keys[row[self.key]]
            for field, index in self.indexes.items():
                if (value := row.get(field)) is not None:
                    index.remove(value, doc_id)
        except BaseException:
            self._needs_reindex = self._commit_state.rollback_only = True
            raise

    def _replace(self, doc_id: int, old: Row, row: Row) -> None:
        try:
            self.rows[doc_id] = row
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
        except BaseException:
            self._needs_reindex = self._commit_state.rollback_only = True
            raise
