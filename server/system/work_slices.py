"""Slices of work on the event loop: long work pauses often, so that no request waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from leyden.server.system.clock import stopwatch

LIMIT_S = 0.01
MAX_STEPS = 100
# A request that has come in is read in one round of the event loop and answered in the next.
_ROUNDS = 3


class Turns:
    """The order in which long works of one event loop go on: one slice of one of them in three rounds of the loop, the
    one that has waited longest first. So a request waits for one slice, however many works there are.

    `alone` is held by a work that needs memory for all rows of a sandbox: such works are done one after another.
    `pages` is held by one that reads a long page in slices: at most two do so at a time.
    """

    def __init__(self) -> None:
        self.alone = asyncio.Lock()
        self.pages = asyncio.Semaphore(2)
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Wait for the next turn, three rounds of the event loop at least."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            loop.call_soon(self._next_round, loop, _ROUNDS - 1)
        await turn

    def _next_round(self, loop: asyncio.AbstractEventLoop, rounds: int) -> None:
        if rounds == 0:
            turn = self._waiting[0]
            if not turn.done():  # else its task was cancelled
                turn.set_result(None)
            self._waiting.popleft()
        if self._waiting:
            loop.call_soon(self._next_round, loop, rounds - 1 if rounds else _ROUNDS - 1)


class WorkSlices:
    """Divides work into slices of ten milliseconds of real time, and of a hundred steps at most.

    `start_stopwatch` starts a stopwatch and returns a function that gives the seconds since. Works with the same
    `turns` go on one after another; `alone` and `pages` are those of the turns.
    """

    def __init__(
        self, start_stopwatch: Callable[[], Callable[[], float]] = stopwatch, *, turns: Turns | None = None
    ) -> None:
        self._start_stopwatch = start_stopwatch
        self._turns = turns or Turns()
        self.alone, self.pages = self._turns.alone, self._turns.pages
        self._elapsed_s = start_stopwatch()
        self._steps = 0

    def is_over(self) -> bool:
        """Whether the slice is over. Called once after each step of the work."""
        self._steps += 1
        return self._steps >= MAX_STEPS or self._elapsed_s() >= LIMIT_S

    async def pause(self) -> None:
        """Let the other tasks of the event loop run, then begin the next slice, in its turn."""
        await self._turns.take()
        self._elapsed_s, self._steps = self._start_stopwatch(), 0
