"""The process's own clock, for those whose tests freeze and move it, and a stopwatch for what a run costs."""

from __future__ import annotations

import time
from collections.abc import Callable


class SystemClock:
    """What this process takes for the present, frozen or not.

    With freezegun's `freeze_time` around it that is the frozen instant, and `tick()` and `move_to()` move it.
    """

    def __init__(self) -> None:
        self._latest = 0

    def now(self) -> int:
        """Milliseconds since the epoch; never less than a value returned before. A process clock that is set back is
        waited for: until it has come that far again, the present stands still."""
        # In microseconds first: freezegun works its `time_ns` out in floating point, and can be a millisecond short. A
        # float of seconds tells microseconds apart until 2106.
        # Not `datetime.now(UTC)` either: freezegun adds a `tz_offset` even to that.
        self._latest = max(self._latest, round(time.time() * 1_000_000) // 1_000)
        return self._latest


def stopwatch() -> Callable[[], float]:
    """Start counting; each call of what is returned tells the real seconds since. Under `freeze_time` they stand."""
    began = time.perf_counter()
    return lambda: time.perf_counter() - began
