"""What is due when: the events of a network by instant, those of one instant in the order in which they were set."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any


class EventQueue:
    """A heap of instants (ms), and for each instant what is due then.

    Comparing whole numbers is all that the heap does: half the cost of a heap of tuples; and nearly always one thing is
    due at a time, for which a tuple costs less than a list. While `log` is a list, changes are written to it so that
    `rollback` can undo them.
    """

    __slots__ = ("events_at", "log", "times")

    def __init__(self) -> None:
        self.events_at: dict[int, tuple[Any, ...]] = {}
        self.times: list[int] = []
        self.log: list[tuple[int, tuple[Any, ...] | None]] | None = None

    def push(self, due_ms: int, item: Any) -> None:
        """Let `item` be due at an instant, after all else that is due then."""
        slot = self.events_at.get(due_ms)
        if slot is None:
            self.events_at[due_ms] = (item,)
            heappush(self.times, due_ms)
        else:
            self.events_at[due_ms] = (*slot, item)
        if self.log is not None:
            self.log.append((due_ms, None))

    def pop(self) -> tuple[Any, ...]:
        """What is due at the next instant. Raises `IndexError` when nothing is."""
        due = heappop(self.times)
        items = self.events_at.pop(due)
        if self.log is not None:
            self.log.append((due, items))
        return items

    def changed_times(self) -> set[int]:
        """The instants of which the log says something."""
        return {due for due, _ in self.log or ()}

    def rollback(self) -> None:
        """Undo what the log says, the latest first."""
        slots = self.events_at
        for due, popped in reversed(self.log or ()):
            if popped is not None:
                slots[due] = popped
            elif len(slots[due]) > 1:
                slots[due] = slots[due][:-1]
            else:
                del slots[due]
        self.times = list(slots)
        heapify(self.times)
