"""Following the process's clock: a sandbox for tests that freeze and move time themselves.

    with freeze_time("2030-01-01 09:00") as frozen:
        sb = Sandbox(clock="process")
        charge = sb.charges.create(amount="1000", description="tea", expiresIn=60)
        frozen.tick(timedelta(seconds=60))
        charge.status                                       # expired

- The sandbox's present is the process's, to the millisecond, frozen or running. When that jumps, what fell due on the
  way happens in order, each thing at its own instant, the next time anybody looks: with a request, `sb.now`, anything
  read through a handle, or `sb.run()`, which here brings the sandbox up to the present and no further.
- A process clock that is set back is waited for: a sandbox's time never goes back.
- `advance`, `advance_to` and `step` still move time, and then the sandbox is ahead of the process by that much for
  good; only one with `data=`, a day or more ahead, follows the process again when it is opened after that day has come.
  In a test that freezes time, move the frozen clock instead.
- freezegun stops the clock that event loops wait by, too: under a plain `freeze_time`, `asyncio.sleep` and all timeouts
  of asyncio wait for ever, in your own code and in servers and clients that you run beside it. Write
  `freeze_time(..., real_asyncio=True)` where there is a loop. The sandbox itself has none, and is safe either way;
  served with `sb.serve()` it runs on uvloop where that is installed, which has a clock of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from leyden import arguments
from leyden.errors import ArgumentError, ClockError
from leyden.server.printable import quoted
from leyden.server.timestamps import parse_iso
from leyden.world.time.clock import LAST_MS, VirtualClock

FIRST_MS = arguments.FIRST_MS  # 1971-01-01T00:00:00Z, the earliest start of a clock
MAX_RATE = 100_000  # sandbox seconds per real second that a user may choose
NOW = arguments.NOW
DEFAULT_START = "2030-01-01T00:00:00Z"

RealClock = Callable[[], int]


def process_clock(clock: str, start: object) -> RealClock | None:
    """The process's clock (ms), if `clock` asks for it; None for a clock that is paused until it is moved.

    Raises `ValueError` for another word, and for a start that is not the process's.
    """
    if isinstance(clock, str) and clock == "virtual":
        return None
    if not isinstance(clock, str) or clock != "process":
        raise ArgumentError(f"clock is 'virtual' (paused until you move it) or 'process', not {quoted(clock)}")
    if start is not None:
        raise ArgumentError("clock='process' starts at the process's present: leave start out, or freeze that instant")
    from leyden.server.system.clock import SystemClock

    return SystemClock().now


def sync_to_process(clock: VirtualClock) -> None:
    """Advance a clock that follows the process to the present, which went on while the sandbox was built.

    A clock that is ahead of the process does not change.
    """
    now, then = clock.reading()
    if then is not None:
        clock.add_elapsed(max(0, then - now))


def requested_start(text: str | None, now_ms: int | None) -> int | None:
    """The instant of a start in a request, if it has one; `now` is the real time `now_ms`. Its schema allows the years
    1971 to 2999, with any offset and any part of the last second. Raises `ClockError` for `now` without a real time."""
    if text is None:
        return None
    if text != NOW:
        return min(max(parse_iso(text), FIRST_MS), LAST_MS)
    if now_ms is None:
        raise ClockError(
            f"a sandbox in Python has no system clock, so that it can be repeated: give a time, such as {DEFAULT_START}"
        )
    return min(max(now_ms, FIRST_MS), LAST_MS)


def first_instant(saved_start_ms: int | None, real_clock: RealClock | None) -> int:
    """The start of a sandbox (ms): the saved one, else the process's present, else the default."""
    if saved_start_ms is not None:
        return saved_start_ms
    return parse_iso(DEFAULT_START) if real_clock is None else real_clock()
