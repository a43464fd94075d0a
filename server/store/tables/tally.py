"""A tally: how many rows of a table have each combination of values in some fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any


class Tally:
    """The number of rows for each combination of the values of `fields`, which are hashable. A missing value is None.

    It is changed with every row, so that a count needs no pass over the rows.
    """

    __slots__ = ("_counts", "_fields")

    def __init__(self, fields: tuple[str, ...], rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self._fields = fields
        self._counts: Counter[tuple[Any, ...]] = Counter(map(self._values, rows))

    def copy(self) -> Tally:
        """An equal tally that changes alone."""
        copy = Tally(self._fields)
        copy._counts = self._counts.copy()
        return copy

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a row that was added."""
        self._counts[self._values(row)] += 1

    def remove(self, row: Mapping[str, Any]) -> None:
        """Count a row no more that was removed."""
        values = self._values(row)
        self._counts[values] -= 1
        if not self._counts[values]:
            del self._counts[values]

    def replace(self, old: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        """Count `row` instead of `old`."""
        if self._values(old) != self._values(row):
            self.remove(old)
            self.add(row)

    def counts(self) -> dict[tuple[Any, ...], int]:
        """The number of rows for each combination that a row has."""
        return dict(self._counts)

    def _values(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple([row.get(field) for field in self._fields])
