"""Time as the rules have it: at one instant first payments settle, then things expire, then callbacks go out."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

SETTLEMENT, EXPIRY, CALLBACK = range(3)


class Timeline:
    """What is still to happen, in order: by instant, then by kind, then by arrival."""

    def __init__(self, start_ms: int) -> None:
        self.now = start_ms
        self._ahead: list[tuple[int, int, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when_ms: int, kind: int, happen: Callable[[], None]) -> None:
        """Let something happen then, or as soon as time moves if that has passed."""
        self._count += 1
        heappush(self._ahead, (max(when_ms, self.now), kind, self._count, happen))

    def run_to(self, when_ms: int) -> None:
        """Let everything happen that is due by then, each at its own instant."""
        ahead = self._ahead
        while ahead and ahead[0][0] <= when_ms:
            due_ms, _, _, happen = heappop(ahead)
            self.now = max(self.now, due_ms)
            happen()
        self.now = max(self.now, when_ms)
