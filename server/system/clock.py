"""The system clock, a stopwatch and the operating system's random source."""

from __future__ import annotations

import os
import time
from collections.abc import Callable


def system_time_ms() -> int:
    """The system clock, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


# Counts while the machine is suspended, where the system has such a clock.
_ELAPSED_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
_CHANGE_MS = 1_000


class ServerClock:
    """The real time of a served sandbox: the system clock at the start of the process, and then the time that passed.

    A system clock that is set during the run does not move it: `change_ms` reports that.
    """

    def __init__(self) -> None:
        self._base_ms = system_time_ms() - _elapsed_ms()
        self._difference_ms = 0

    def now(self) -> int:
        """Milliseconds since the epoch."""
        return self._base_ms + _elapsed_ms()

    def offset_ms(self) -> int:
        """How much later the system clock is than `now()`, by the changes that `change_ms` has reported."""
        return self._difference_ms

    def change_ms(self) -> int:
        """By how much the system clock was set forward (negative: back) since the last call; 0 below a second."""
        difference_ms = system_time_ms() - self.now()
        change_ms = difference_ms - self._difference_ms
        if abs(change_ms) < _CHANGE_MS:
            return 0
        self._difference_ms = difference_ms
        return change_ms


def _elapsed_ms() -> int:
    elapsed_ns = time.monotonic_ns() if _ELAPSED_CLOCK is None else time.clock_gettime_ns(_ELAPSED_CLOCK)
    return elapsed_ns // 1_000_000


class SystemClock:
    """The process clock that the sandbox follows, frozen or not.

    Under freezegun's `freeze_time` it shows the frozen instant, and `tick()` and `move_to()` move it.
    """

    def __init__(self) -> None:
        self._latest = 0

    def now(self) -> int:
        """Milliseconds since the epoch, never less than an earlier value.

        When the process clock is set back, the value stays as it is until the clock has passed it again.
        """
        # In microseconds first: freezegun computes `time_ns` in floating point, and can be a millisecond short. A
        # float of seconds resolves microseconds until 2106.
        # Not `datetime.now(UTC)` either: freezegun adds a `tz_offset` even to that.
        self._latest = max(self._latest, round(time.time() * 1_000_000) // 1_000)
        return self._latest


# Nanoseconds since some instant: the difference of two values is the real time between them. No function around it:
# every request reads it three times.
elapsed_ns = time.perf_counter_ns
_EPOCH_NS = time.time_ns() - elapsed_ns()


def time_ms_of(reading_ns: int) -> int:
    """The system clock at a reading of `elapsed_ns`, in milliseconds since the epoch: that at the start of the process,
    and the time that passed."""
    return (_EPOCH_NS + reading_ns) // 1_000_000


def stopwatch() -> Callable[[], float]:
    """Start a stopwatch: the function returned gives the real seconds since. Under `freeze_time` it stays at 0."""
    start = time.perf_counter()
    return lambda: time.perf_counter() - start


def random_seed() -> int:
    """A random seed: 48 bits from the operating system, small enough to write down."""
    return int.from_bytes(os.urandom(6), "big")


def random_key() -> str:
    """A random API key: 128 bits from the operating system."""
    return "leyden_" + os.urandom(16).hex()


def random_id(prefix: str) -> str:
    """A random id: the prefix and 64 bits from the operating system."""
    return prefix + os.urandom(8).hex()
