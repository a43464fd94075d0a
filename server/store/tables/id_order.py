"""The ids of a table in ascending order, and the range of ids whose rows lie between two dates."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from itertools import islice
from typing import Any

Rows = Mapping[int, Mapping[str, Any]]

DATE = "created_at"  # the field

_EARLIEST, _LATEST = -(2**63), 2**63 - 1  # those that an array has room for
_EVERYTHING = (0, None)


class IdOrder:
    """The ids in ascending order, and the dates (`DATE`, whole milliseconds) of their rows.

    Both are made at the first use, or from the first row on if the table was empty. The list may contain ids of deleted
    rows: the caller checks that the row exists.
    """

    __slots__ = ("_dates", "_ids", "_unordered")

    def __init__(self, rows: Rows | None = None) -> None:
        """`rows` are those that the table has now; None: not known."""
        self._ids: array[int] | list[int] | None = array("q") if rows is not None and not rows else None
        self._dates = array("q")  # of as many ids from the start as are known to be in the order of their dates
        self._unordered = False  # whether a row has no such date, or an earlier one than the row before it

    def ids(self, rows: Rows) -> array[int] | list[int]:
        """The ids of all rows, ascending."""
        if self._ids is None:
            self._ids, self._dates, self._unordered = _sequence(sorted(rows)), array("q"), False
        elif len(self._ids) > 2 * len(rows) + 64:
            self._discard_deleted(rows)
        return self._ids

    def append(self, doc_id: int, row: Mapping[str, Any]) -> None:
        """Note a new row whose id is above all others."""
        ids = self._ids
        if ids is None:
            return
        if len(self._dates) == len(ids) and not self._unordered:
            self._add_date(row)
        try:
            ids.append(doc_id)
        except OverflowError:
            self._ids = [*ids, doc_id]

    def removed(self, rows: Rows) -> None:
        """Note that a row was deleted; `rows` are left."""
        if self._ids is not None:
            self.ids(rows)

    def invalidate(self) -> None:
        """Make the list again at the next use."""
        self._ids = None
        del self._dates[:]

    def trim(self, rows: Rows) -> None:
        """Remove ids at the end whose rows were deleted."""
        ids = self._ids
        while ids and ids[-1] not in rows:
            ids.pop()
        del self._dates[len(ids or ()) :]

    def replaced(self, old: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        """Note that `row` replaced `old` under the same id."""
        if old.get(DATE) != row.get(DATE):
            del self._dates[:]

    def id_bounds(self, rows: Rows, since_ms: int | None, until_ms: int | None) -> tuple[int, int | None]:
        """Bounds for ids: every row with `since_ms <= created_at < until_ms` has an id from the first bound to below
        the second (None: no bound).

        Rows are usually created in the order of their dates, and a binary search finds both bounds. If they were not,
        the bounds include everything.
        """
        ids, dates = self.ids(rows), self._dates
        for doc_id in islice(ids, len(dates), None):
            if self._unordered:
                break
            if (row := rows.get(doc_id)) is not None:
                self._add_date(row)
            else:  # any date in this order does for a deleted row
                dates.append(dates[-1] if dates else _EARLIEST)
        if len(dates) < len(ids):
            return _EVERYTHING
        low, high = (None if bound is None else bisect_left(dates, bound) for bound in (since_ms, until_ms))
        end = len(ids)
        lowest = 0 if low is None else ids[low] if low < end else ids[-1] + 1 if ids else 0
        return lowest, None if high is None or high == end else ids[high]

    def _add_date(self, row: Mapping[str, Any]) -> None:
        date, dates = row.get(DATE), self._dates
        if type(date) is int and _EARLIEST <= date <= _LATEST and (not dates or dates[-1] <= date):
            dates.append(date)
        else:
            self._unordered = True

    def _discard_deleted(self, rows: Rows) -> None:
        ids = self._ids or []
        dates = array("q", [date for doc_id, date in zip(ids, self._dates, strict=False) if doc_id in rows])
        self._ids, self._dates = _sequence([doc_id for doc_id in ids if doc_id in rows]), dates


def _sequence(ids: list[int]) -> array[int] | list[int]:
    """The ids in an array, which the garbage collector need not go through, or in the list if one is too large."""
    try:
        return array("q", ids)
    except OverflowError:
        return ids
