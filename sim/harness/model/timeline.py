"""The order of events: at one time payments settle first, then resources expire, then callbacks are sent."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

SETTLEMENT, EXPIRY, CALLBACK = range(3)


class Timeline:
    """The scheduled events, ordered by time, then by kind, then by the order of scheduling."""

    def __init__(self, start_ms: int) -> None:
        self.now = start_ms
        self._events: list[tuple[int, int, int, Callable[[], None]]] = []
        self._count = 0

    def schedule(self, when_ms: int, kind: int, action: Callable[[], None]) -> None:
        """Schedule an action; a time in the past means now."""
        self._count += 1
        heappush(self._events, (max(when_ms, self.now), kind, self._count, action))

    def run_to(self, when_ms: int) -> None:
        """Run every action that is due by then, each at its own time."""
        events = self._events
        while events and events[0][0] <= when_ms:
            due_ms, _, _, action = heappop(events)
            self.now = max(self.now, due_ms)
            action()
        self.now = max(self.now, when_ms)
