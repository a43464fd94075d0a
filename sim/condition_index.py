"""An index of rows by the conditions that they have: faults and interceptors, each for what it matches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from itertools import product
from typing import Any

from leyden.server.store.rows import CommitParticipant

_ANY = (None,)


class RowIndex(CommitParticipant, ABC):
    """An index in memory of the rows of a table, built from them when it is first needed. What has ended is removed
    when it is found, so it is built again after a commit that changed it and was rolled back. Whatever changes it sets
    `_changed`."""

    def __init__(self) -> None:
        self._changed = False

    def begin(self) -> None:
        """A commit begins: nothing has changed in it."""
        self._changed = False

    def commit(self) -> None:
        """Keep the changes."""
        self._changed = False

    def rollback(self, error: BaseException) -> None:
        """The rows are as they were at `begin`: they will be read again, if that makes a difference."""
        if self._changed:
            self._forget()

    @abstractmethod
    def _forget(self) -> None:
        """Discard what is known of the rows."""


class ConditionIndex:
    """Lists of rows, one for each combination of conditions. An item is a place in the order of its list, and the id of
    a row.

    A search costs one look-up for each combination of conditions in use, however many rows there are.
    """

    def __init__(self) -> None:
        self._by_given: dict[tuple[bool, ...], dict[tuple[Any, ...], list[tuple[int, str]]]] = {}

    def add(self, conditions: tuple[Any, ...], item: tuple[int, str]) -> None:
        """Add a row with these conditions, None for each one that it does not have. One that is there stays once."""
        given = tuple(condition is not None for condition in conditions)
        items = self._by_given.setdefault(given, {}).setdefault(conditions, [])
        place = bisect_left(items, item)
        if items[place : place + 1] != [item]:
            items.insert(place, item)

    def remove(self, conditions: tuple[Any, ...], item: tuple[int, str]) -> None:
        """Remove a row with these conditions, which was added."""
        given = tuple(condition is not None for condition in conditions)
        items = self._by_given[given][conditions]
        del items[bisect_left(items, item)]

    def matching(self, *values: tuple[Any, ...]) -> Iterator[list[tuple[int, str]]]:
        """The lists of the rows whose conditions are all met, each by one of its `values`. The caller may remove items
        from them."""
        for given, lists in self._by_given.items():
            met = (each if is_given else _ANY for each, is_given in zip(values, given, strict=True))
            for conditions in product(*met):
                items = lists.get(conditions)
                if items:
                    yield items
