"""Slices of work on the event loop: long work pauses often, so that no request waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from leyden.server.system.clock import stopwatch

LIMIT_S = 0.01
MAX_STEPS = 100
# A request that has come in is read in one round of the event loop and answered in the next.
_ROUNDS = 3


class WorkSlices:
    """Divides work into slices of ten milliseconds of real time, and of a hundred steps at most.

    `start_stopwatch` starts a stopwatch and returns a function that gives the seconds since.
    """

    def __init__(self, start_stopwatch: Callable[[], Callable[[], float]] = stopwatch) -> None:
        self._start_stopwatch = start_stopwatch
        self._elapsed_s = start_stopwatch()
        self._steps = 0

    def is_over(self) -> bool:
        """Whether the slice is over. Called once after each step of the work."""
        self._steps += 1
        return self._steps >= MAX_STEPS or self._elapsed_s() >= LIMIT_S

    async def pause(self) -> None:
        """Let the other tasks of the event loop run, then begin the next slice."""
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
        self._elapsed_s, self._steps = self._start_stopwatch(), 0
