"""The queue of the network's events, by time; events of one time keep the order in which they were scheduled."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappush
from typing import Any


class EventQueue:
    """A heap of times (ms), and the events of each time.

    A heap of integers costs half of a heap of tuples; nearly always a time has one event, for which a tuple costs less
    than a list. While `log` is a list, changes are written to it for `rollback`.
    """

    __slots__ = ("events_at", "log", "times")

    def __init__(self) -> None:
        self.events_at: dict[int, tuple[Any, ...]] = {}
        self.times: list[int] = []
        self.log: list[tuple[int, tuple[Any, ...] | None]] | None = None

    def push(self, at_ms: int, event: Any) -> None:
        """Schedule an event at a time, after the others of that time."""
        if at_ms in self.events_at:
            self.events_at[at_ms] += (event,)
        else:
            self.events_at[at_ms] = (event,)
            heappush(self.times, at_ms)
        self.record(at_ms, None)

    def take(self, is_wanted: Callable[[Any], bool]) -> list[Any]:
        """Remove the events that are wanted, and return them in the order of their times."""
        taken: list[Any] = []
        for at_ms, events in sorted(self.events_at.items()):
            wanted = [event for event in events if is_wanted(event)]
            if not wanted:
                continue
            taken += wanted
            self.record(at_ms, self.events_at.pop(at_ms))
            for event in events:
                if event not in wanted:
                    self.events_at[at_ms] = (*self.events_at.get(at_ms, ()), event)
                    self.record(at_ms, None)
        self.times[:] = self.events_at
        heapify(self.times)
        return taken

    def record(self, at_ms: int, popped: tuple[Any, ...] | None) -> None:
        """Write a push (None) or a pop to the log, if there is one."""
        if self.log is not None:
            self.log.append((at_ms, popped))

    def changed_times(self) -> set[int]:
        """The times in the log."""
        return {at_ms for at_ms, _ in self.log or ()}

    def rollback(self) -> None:
        """Undo what is in the log, the latest change first."""
        events_at = self.events_at
        for at_ms, popped in reversed(self.log or ()):
            if popped is not None:
                events_at[at_ms] = popped
            elif len(events_at[at_ms]) > 1:
                events_at[at_ms] = events_at[at_ms][:-1]
            else:
                del events_at[at_ms]
        self.times = list(events_at)
        heapify(self.times)
