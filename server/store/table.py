"""A table of rows as the service uses it: look-up by unique key or indexed field, pages, put and delete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import chain, islice
from typing import Any

from tinydb.table import Document

from leyden.server.store.rows import RowStorage
from leyden.server.store.tables.pages import id_portions, in_all
from leyden.server.store.tables.row_map import Row, RowMap, Summarize


class RowTable:
    """One table of a storage. A method reads or writes one row without a pass over the others, unless it says so.

    `key` names a field that is unique; `indexes` name fields that are often looked up, and each of `tallies` fields
    whose combinations of values are counted.
    """

    def __init__(self, storage: RowStorage, name: str) -> None:
        self._storage = storage
        self._data = storage.table_data(name)

    def declare(
        self, key: str | None = None, indexes: Iterable[str] = (), tallies: Iterable[tuple[str, ...]] = ()
    ) -> None:
        """Maintain a unique key, indexes and tallies from now on. Existing rows are included.

        Raises `ValueError` when the table has another unique key, or when two rows share a key.
        """
        self._data.declare(key, indexes, tallies)

    def declare_summary(self, summarize: Summarize) -> None:
        """Keep `summarize(row)` beside each row that is packed from now on. One function for each table."""
        self._data.summarize = summarize

    def declare_final(self) -> None:
        """The rows of this table are seldom replaced: old ones are packed, as those that were replaced."""
        self._data.is_final = True

    def summaries(self) -> dict[int, tuple[Any, ...]]:
        """The declared summary of each row by document id, in the order of the rows, without unpacking rows.

        Raises `LookupError` when none was declared.
        """
        return self._data.rows.summaries(self._summarize())

    def summaries_up(self, after: int | None, limit: int) -> dict[int, tuple[Any, ...]]:
        """The declared summaries of at most `limit` rows with higher document ids than `after`, the lowest first. Only
        these are read.

        Raises `LookupError` when none was declared.
        """
        rows, summarize = self._data.rows, self._summarize()
        portions = id_portions(self._data, {}, after, oldest_first=True)
        ids = (doc_id for doc_id in chain.from_iterable(portions) if doc_id in rows)
        return rows.summaries(summarize, islice(ids, min(limit, len(rows))))

    def ids_by_value(self, field: str) -> Iterable[tuple[Any, int | Set[int]]]:
        """Each value of the key with the document id of its row, or each one of an indexed field with the document id
        of the only row that has it, or those of all rows that have it, in no order.

        Rows in which it is null are left out. Raises `LookupError` for other fields.
        """
        data = self._data
        if field == data.key:
            return data.keys.items()
        if field not in data.indexes:
            raise LookupError(f"table {data.name!r} has no index of {field!r}: declare it")
        return data.indexes[field].groups.items()

    def row(self, key: Any) -> Row | None:
        """The row with this unique key, or None. It is the stored row and must not be changed."""
        doc_id = self._data.keys.get(key)
        return None if doc_id is None else self._data.rows[doc_id]

    def id_of(self, key: Any) -> int | None:
        """The document id of the row with this unique key, or None."""
        return self._data.keys.get(key)

    def existing(self, key: Any) -> Row:
        """The row with this unique key. Raises `LookupError` when there is none: another row refers to it."""
        row = self.row(key)
        if row is None:
            raise LookupError(f"table {self._data.name!r} has no row {key!r}, although a stored row refers to it")
        return row

    def _summarize(self) -> Summarize:
        if self._data.summarize is None:
            raise LookupError(f"table {self._data.name!r} has no summary: declare it")
        return self._data.summarize

    def put(self, row: Row) -> int:
        """Insert the row, or replace the one with the same unique key, which keeps its document id; returns that id.

        The table keeps `row` itself, which must not be changed afterwards. Raises `ValueError` when the table has no
        unique key or the row has no value for it.
        """
        if self._storage.depth:
            return self._data.put(row)
        with self._storage.commit():
            return self._data.put(row)

    def delete(self, key: Any) -> bool:
        """Delete the row with this unique key; False when there is none."""
        doc_id = self._data.keys.get(key)
        if doc_id is None:
            return False
        with self._storage.commit():
            self._data.delete(doc_id)
        return True

    def clear(self) -> int:
        """Delete every row at the cost of one; returns how many there were. Document ids go on."""
        count = len(self._data.rows)
        if count:
            with self._storage.commit():
                self._data.clear()
        return count

    def find(self, field: str, value: Any) -> list[Row]:
        """The rows whose `field` equals `value`, oldest first. Null equals missing. Without an index it is slow.

        They are the stored rows and must not be changed.
        """
        rows = self._data.rows
        ids = self._data.with_value(field, value)
        if len(ids) < 2:
            return [rows[doc_id] for doc_id in ids if rows[doc_id].get(field) == value]
        return [rows[doc_id] for doc_id in sorted(ids) if rows[doc_id].get(field) == value]

    def find_in_portions(self, field: str, value: Any, size: int) -> Iterator[list[Row]]:
        """The rows of `find`, at most `size` of them at a time, which may change in between."""
        rows, ids = self._data.rows, sorted(self._data.with_value(field, value))
        for start in range(0, len(ids), size):
            found = [row for doc_id in ids[start : start + size] if (row := rows.get(doc_id)) is not None]
            yield [row for row in found if row.get(field) == value]

    def oldest(self) -> Row | None:
        """The row that was inserted first; None in an empty table."""
        rows = self._data.rows
        doc_id = next(iter(rows), None)
        return None if doc_id is None else rows[doc_id]

    def first(self, field: str, value: Any) -> Row | None:
        """The oldest row whose `field` equals `value`."""
        found = self.find(field, value)
        return found[0] if found else None

    def count_with(self, values: Mapping[str, Any]) -> int:
        """The number of rows that have all these values, which are not null, in indexed fields; of no values, all rows.
        No row is read. Raises `LookupError` for a field without an index."""
        data = self._data
        for field in values:
            if field not in data.indexes:
                raise LookupError(f"table {data.name!r} has no index of {field!r}: declare it")
        found = sorted((data.with_value(field, value) for field, value in values.items()), key=len)
        return len(in_all(found[0], found[1:])) if found else len(data.rows)

    def counts(self, *fields: str) -> dict[tuple[Any, ...], int]:
        """The number of rows for each combination of values in the fields of a tally, or for each value of one indexed
        field, without rows in which that is null. It does not depend on the number of rows.

        Raises `LookupError` for other fields.
        """
        tally, index = self._data.tallies.get(fields), self._data.indexes.get(fields[0])
        if tally is not None:
            return tally.counts()
        if index is None or len(fields) > 1:
            raise LookupError(f"table {self._data.name!r} has no tally of {fields}: declare it")
        return {(value,): index.count(value) or 0 for value in index.groups}

    def newest_id(self) -> int:
        """The highest document id; 0 in an empty table."""
        return self._data.highest_id()

    def removed(self) -> int:
        """How many rows the table had and has no longer: document ids count every row."""
        data = self._data
        return max(data.max_id, (data.next_id or 1) - 1) - len(data.rows)

    def page(
        self,
        filters: Mapping[str, Any] | None = None,
        after: int | None = None,
        limit: int = 100,
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> list[Document]:
        """At most `limit` rows, newest first, whose fields equal all values of `filters` (field: value).

        `after` is the document id of the last row of the previous page: this page has lower ids only. Rows are in the
        order of their ids, which is the order of creation. `since_ms <= created_at < until_ms` for each bound given.
        """
        data, rows, wanted = self._data, self._data.rows, filters or {}
        limit = min(limit, len(rows))  # it may be any number
        found: list[Document] = []
        above: int | None = None
        if since_ms is not None or until_ms is not None:
            lowest, end = data.order.id_bounds(rows, since_ms, until_ms)
            above, after = lowest - 1, end if after is None else after if end is None else min(after, end)
        for ids in id_portions(data, wanted, above, after) if limit > 0 else ():
            found += islice(_matching(rows, ids, wanted, since_ms, until_ms), limit - len(found))
            if len(found) == limit:
                break
        return found

    def page_up(
        self,
        filters: Mapping[str, Any] | None = None,
        after: int | None = None,
        limit: int = 100,
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> list[Document]:
        """As `page`, the oldest first: rows with higher ids than `after`."""
        data, rows, wanted = self._data, self._data.rows, filters or {}
        limit = min(limit, len(rows))  # it may be any number
        found: list[Document] = []
        end: int | None = None
        if since_ms is not None or until_ms is not None:
            lowest, end = data.order.id_bounds(rows, since_ms, until_ms)
            after = max(after or 0, lowest - 1)
        for ids in id_portions(data, wanted, after, end, oldest_first=True) if limit > 0 else ():
            found += islice(_matching(rows, ids, wanted, since_ms, until_ms), limit - len(found))
            if len(found) == limit:
                break
        return found


def _matching(
    rows: RowMap, ids: Iterable[int], wanted: Mapping[str, Any], since_ms: int | None, until_ms: int | None
) -> Iterator[Document]:
    """The rows of these ids that exist, have all values and were created in this time. Each is read once: to read one
    may unpack others with it."""
    values = wanted.items()
    for doc_id in ids:
        row = rows.get(doc_id)
        if (
            row is not None
            and all(row.get(field) == value for field, value in values)
            and (since_ms is None or row["created_at"] >= since_ms)
            and (until_ms is None or row["created_at"] < until_ms)
        ):
            yield Document(row, doc_id)
