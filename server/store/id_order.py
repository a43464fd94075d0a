"""The ids of a table from the lowest to the highest, and which of them lie between two dates."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import islice
from operator import gt
from typing import Any

Rows = Mapping[int, Mapping[str, Any]]


class IdOrder:
    """Ids in their order, put together when somebody first asks, and kept while rows are added at the end.

    Ids of rows that were taken away may stay in the middle for a while: whoever walks this list looks whether the row
    is there.
    """

    __slots__ = ("_dated_count", "_ids")

    def __init__(self) -> None:
        self._ids: list[int] | None = None
        # How many ids were seen to be in the order of their rows' dates, too (one alone is); None once some were not.
        self._dated_count: int | None = 1

    def ids(self, rows: Rows) -> list[int]:
        """Every row's id, ascending."""
        if self._ids is None or len(self._ids) > 2 * len(rows) + 64:
            self._ids, self._dated_count = sorted(rows), 1
        return self._ids

    def append(self, doc_id: int) -> None:
        """A row was added with an id above all others."""
        if self._ids is not None:
            self._ids.append(doc_id)

    def invalidate(self) -> None:
        """Put the list together anew when it is next asked for."""
        self._ids = None

    def trim(self, rows: Rows) -> None:
        """Let go of ids at the end whose rows are gone."""
        ids = self._ids
        while ids and ids[-1] not in rows:
            ids.pop()
        if self._dated_count is not None:
            self._dated_count = min(self._dated_count, max(len(ids or ()), 1))

    def replaced(self, old: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        """A row took the place of another."""
        if self._dated_count and old.get("created_at") != row.get("created_at"):
            self._dated_count = 1

    def id_bounds(self, rows: Rows, since_ms: int | None, until_ms: int | None) -> tuple[int, int | None]:
        """Bounds for ids: rows with `since_ms <= created_at < until_ms` lie from the first to below the second (None:
        no bound).

        Rows are mostly made in the order of their dates, and then both are found by halving. In a table where they were
        not, or where rows were taken away from the middle, the bounds leave everything in.
        """
        ids, everything = self.ids(rows), (0, None)
        if self._dated_count is None:
            return everything
        try:
            # From the last one that was looked at before, which the next has to follow.
            dates = [rows[doc_id]["created_at"] for doc_id in islice(ids, self._dated_count - 1, None)]
            if any(map(gt, dates, islice(dates, 1, None))):
                self._dated_count = None
                return everything
            self._dated_count = max(len(ids), 1)
            low, high = (
                None if bound is None else bisect_left(ids, bound, key=lambda doc_id: rows[doc_id]["created_at"])
                for bound in (since_ms, until_ms)
            )
        except KeyError:  # a row was taken away, or has no date
            return everything
        end = len(ids)
        lowest = 0 if low is None else ids[low] if low < end else ids[-1] + 1 if ids else 0
        return lowest, None if high is None or high == end else ids[high]
