"""Searches for routes that a server runs in a thread.

A search of an implementation's payer may take a second, and is a part of an event. While searches are deferred, one
that takes long ends its event, which is undone; the server runs the search in a thread, and then the event again:

    event -> SearchNeeded -> the search, in a thread -> the event, which finds the routes

The event does the same again in the same state of the network, so its searches are known by their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from leyden.lightning.routing.pathfinding import Route

_MOST_UNUSED = 3


class RouteSearch(Protocol):
    """One search, with all that it depends on: it may run in a thread."""

    def routes(self) -> list[Route]:
        """Routes that deliver the amount together; none if there are none. Called once."""


class SearchNeeded(Exception):
    """An event needs the result of `search`, and was undone: give that to `add_result`, and run the event again."""

    def __init__(self, search: RouteSearch, add_result: Callable[[list[Route]], None]) -> None:
        super().__init__("a search for routes was not run yet")
        self.search, self.add_result = search, add_result


class Searches:
    """The searches of the payers of one network, and the results of those of an event that runs again.

    Where requests change the network again and again before the event, its search is run in the event.
    """

    def __init__(self) -> None:
        self._is_over: Callable[[], bool] | None = None  # None: nothing is deferred
        self._state: tuple[Any, ...] | None = None
        self._results: list[list[Route]] = []
        self._used = self._unused = 0  # results that the event has used; results in a row that no event used

    @contextmanager
    def deferred(self, is_over: Callable[[], bool]) -> Iterator[None]:
        """Within this context a search that takes long, or begins when `is_over()`, raises `SearchNeeded`."""
        self._is_over, self._used = is_over, 0
        try:
            yield
        except SearchNeeded:
            raise
        except BaseException:
            self._state = None
            raise
        finally:
            self._is_over = None

    def routes(self, state: tuple[Any, ...], takes_long: bool, search: Callable[[], RouteSearch]) -> list[Route]:
        """The result of `search()`. `state` identifies the event and the state of the network before it."""
        if self._is_over is None:
            return search().routes()
        if state != self._state:
            self._state, self._results, self._used = state, [], 0
        number = self._used
        if number == len(self._results):
            if (takes_long or self._is_over()) and self._unused < _MOST_UNUSED:
                raise SearchNeeded(search(), partial(self._add_result, state))
            self._results.append(search().routes())
        self._used += 1
        self._unused = 0
        return self._results[number]

    def _add_result(self, state: tuple[Any, ...], routes: list[Route]) -> None:
        self._unused += 1
        if state == self._state:
            self._results.append(routes)
