"""The ids of a table in ascending order, and the range of ids whose rows lie between two dates."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import islice
from operator import gt
from typing import Any

Rows = Mapping[int, Mapping[str, Any]]


class IdOrder:
    """The ids in ascending order. The list is made at the first use and extended while rows are added at the end.

    The list may contain ids of deleted rows: the caller checks that the row exists.
    """

    __slots__ = ("_dated_count", "_ids")

    def __init__(self) -> None:
        self._ids: list[int] | None = None
        # How many ids at the start are known to be in the order of `created_at` too; None when some are not.
        self._dated_count: int | None = 1

    def ids(self, rows: Rows) -> list[int]:
        """The ids of all rows, ascending."""
        if self._ids is None or len(self._ids) > 2 * len(rows) + 64:
            self._ids, self._dated_count = sorted(rows), 1
        return self._ids

    def append(self, doc_id: int) -> None:
        """Note a new row whose id is above all others."""
        if self._ids is not None:
            self._ids.append(doc_id)

    def invalidate(self) -> None:
        """Make the list again at the next use."""
        self._ids = None

    def trim(self, rows: Rows) -> None:
        """Remove ids at the end whose rows were deleted."""
        ids = self._ids
        while ids and ids[-1] not in rows:
            ids.pop()
        if self._dated_count is not None:
            self._dated_count = min(self._dated_count, max(len(ids or ()), 1))

    def replaced(self, old: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        """Note that `row` replaced `old` under the same id."""
        if self._dated_count and old.get("created_at") != row.get("created_at"):
            self._dated_count = 1

    def id_bounds(self, rows: Rows, since_ms: int | None, until_ms: int | None) -> tuple[int, int | None]:
        """Bounds for ids: every row with `since_ms <= created_at < until_ms` has an id from the first bound to below
        the second (None: no bound).

        Rows are usually created in the order of their dates, and a binary search finds both bounds. If they were not,
        or if rows were deleted from the middle, the bounds include everything.
        """
        ids, everything = self.ids(rows), (0, None)
        if self._dated_count is None:
            return everything
        try:
            # From the last id that was checked before.
            dates = [rows[doc_id]["created_at"] for doc_id in islice(ids, self._dated_count - 1, None)]
            if any(map(gt, dates, islice(dates, 1, None))):
                self._dated_count = None
                return everything
            self._dated_count = max(len(ids), 1)
            low, high = (
                None if bound is None else bisect_left(ids, bound, key=lambda doc_id: rows[doc_id]["created_at"])
                for bound in (since_ms, until_ms)
            )
        except KeyError:  # a row was deleted, or has no date
            return everything
        end = len(ids)
        lowest = 0 if low is None else ids[low] if low < end else ids[-1] + 1 if ids else 0
        return lowest, None if high is None or high == end else ids[high]
