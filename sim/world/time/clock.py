"""The simulated clock: it is paused until it is moved, and runs every event that is due on the way, at its instant."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Any

from leyden import arguments
from leyden.errors import ArgumentError, ClockError
from leyden.repr_tables import counted
from leyden.server.printable import quoted
from leyden.world.interrupts import interrupts
from leyden.world.time.timers import Entry, EventFields, Fired, Hold, Timer, Timers, fired_events, whole_ms

# 2999-12-31T23:59:59Z. BOLT 11 counts seconds in 35 bits, which end in 3058; what is due later must still fit.
LAST_MS = arguments.LAST_MS

EventContext = Callable[[], AbstractContextManager[Any]]
Report = Callable[[EventFields], None]
Enough = Callable[[], bool]


class VirtualClock:
    """Whole milliseconds over a heap of plain-data events (`leyden.server.ports.Clock`), for one sandbox.

    At one instant events run by priority, then in the order in which they were set; the clock shows an event's own
    instant while it runs. An event that raises has not happened: its timer is set again, and a frozen clock returns to
    the instant of the last event that happened, or of the start of the move. An interrupt ends a run between events.

    `rate` makes the clock live: sandbox seconds per real second, read from `real_clock` (milliseconds, injected), which
    does not follow a system clock that is set: `clock_offset` says how much later that is then. A live clock never
    shows an instant past an event that has not run yet: `catch_up()` runs what is due. `event_context` is entered for
    each event, to make its writes one commit. `hold` keeps time at an instant, and `instant_limit` bounds its events,
    so that one which re-schedules itself cannot hang the run.
    """

    def __init__(
        self,
        start_ms: int,
        *,
        rate: float = 0,
        real_clock: Callable[[], int] | None = None,
        clock_offset: Callable[[], int] | None = None,
        instant_limit: int = 1_000_000,
        event_context: EventContext | None = None,
        hold: Hold | None = None,
    ) -> None:
        self._now = whole_ms(start_ms, "start_ms")
        self._real_clock, self._clock_offset = real_clock, clock_offset or int
        self._rate: float
        self._rate_before: tuple[float, int, int]
        self._base = self._real_base = 0
        self._timers = Timers()
        self._runners: dict[str, Callable[[str], None]] = {}
        self.repeats: tuple[tuple[str, str], ...] = ()  # kind and key of the timers that are always set again
        self._running = self._held = False
        self._runs: tuple[tuple[str, str], ...] = ()  # the event that runs now, while one does
        self._flows = False  # whether `now` reads the real clock
        self._instant_limit = instant_limit
        self.event_count = 0  # how many events have run
        self._event_context = event_context
        self._hold = hold
        self.set_rate(rate)

    def __repr__(self) -> str:
        return f"<VirtualClock at {self.now()} ms, {counted(len(self), 'event')} ahead, the next at {self.next_due()}>"

    # The port

    def now(self) -> int:
        """The present instant in milliseconds since the epoch; never less than a value returned before."""
        if self._flows:
            self._read()
        return self._now

    def call_at(self, when_ms: int, priority: int, kind: str, key: str) -> None:
        """Run the event `(kind, key)` at `when_ms` (now, if that has passed). Replaces the timer of this name."""
        now = self.now()
        self._timers.schedule(when_ms if when_ms > now else now, priority, kind, key)

    def cancel(self, kind: str, key: str) -> None:
        """Cancel the `(kind, key)` timer; no error when there is none."""
        self._timers.cancel(kind, key)

    def cancel_all(self) -> None:
        """Cancel every timer."""
        self._timers = Timers()

    def on(self, kind: str, run: Callable[[str], None], repeated: str | None = None) -> None:
        """Set the handler of the events of a kind, whose timer with the key `repeated` is always set again: it does not
        keep a run from its end. Raises `ClockError` when the kind has one."""
        if kind in self._runners:
            raise ClockError(f"there is a handler for {kind!r} already: give this timer a kind of its own")
        self._runners[kind] = run
        self.repeats += () if repeated is None else ((kind, repeated),)

    # Looking ahead

    def next_due(self) -> int | None:
        """The instant of the next event, or None when nothing is scheduled before time ends."""
        due = self._timers.next_due()
        return None if due is None or due > LAST_MS else due

    def upcoming(self, count: int) -> list[Timer]:
        """The next `count` events in the order in which they will run."""
        return self._timers.upcoming(count)

    def timers(self) -> Collection[Entry]:
        """Every event ahead, in no order."""
        return self._timers.entries()

    def sequence_of(self, kind: str, key: str) -> int | None:
        """The number of the `(kind, key)` timer in the order in which all were set; None without it."""
        return self._timers.sequence_of(kind, key)

    def changed_timers(self) -> list[tuple[str, str]]:
        """The timers that were set, cancelled or run since `begin`, by kind and key."""
        return [*self._timers.changed(), *self._runs]

    def __len__(self) -> int:
        return len(self._timers)

    # Moving time

    def advance(self, by_ms: int) -> list[Fired]:
        """Move time on by `by_ms` and run what falls due. Raises `ValueError` when that is negative."""
        if whole_ms(by_ms, "by_ms") < 0:
            raise ArgumentError(f"time can't go backwards: {by_ms} ms is negative; fork the sandbox earlier instead")
        return self.advance_to(self.now() + by_ms)

    def advance_to(self, when_ms: int) -> list[Fired]:
        """Move time on to `when_ms`, at most to `LAST_MS`, and run what is due by then; nothing if it is past."""
        ran: list[EventFields] = []
        when_ms = min(whole_ms(when_ms, "when_ms"), LAST_MS)
        if when_ms >= self.now():
            self._sweep(when_ms, ran.append)
            self._set_now(max(when_ms, self._now))  # another thread may have moved time during a hold
        return fired_events(ran)

    def run_slice(self, until_ms: int, is_over: Enough, report: Report | None = None) -> bool:
        """Run what is due by `until_ms`, in order, until `is_over()`, which is called after each event; whether nothing
        more is due by then. Time moves no further than to the last event."""
        self._sweep(until_ms, report, is_over)
        due = self._timers.next_due()
        return due is None or due > until_ms

    def run_events(self, count: int) -> list[Fired]:
        """Run the next `count` events, or all if there are fewer. Raises `ValueError` for no whole number from 0."""
        if type(count) is not int or count < 0:
            raise ArgumentError(f"{quoted(count)} events cannot run: give a whole number from 0")
        ran: list[EventFields] = []
        while len(ran) < count and (due := self._next_stop()) is not None:
            self._sweep(due, ran.append, lambda: len(ran) >= count)
        return fired_events(ran)

    def run_until_next_event(self) -> list[Fired]:
        """Run everything of the next instant. A response that holds the clock comes first: it may schedule an event."""
        if self._hold is not None and self._hold.holds_time() and (fired := self.advance_to(self.now())):
            return fired
        due = self.next_due()
        return [] if due is None else self.advance_to(max(due, self.now()))

    def run_until_idle(self, limit: int = 1_000_000) -> list[Fired]:
        """Run events until none is left but those that repeat; the clock then shows the instant of the last one.
        Raises `ClockError` when something is still scheduled after `limit` events."""
        ran: list[EventFields] = []
        while self._next_stop() is not None and not self.is_idle():
            if len(ran) >= limit:
                raise ClockError(f"not idle after {counted(limit, 'event')}: move time by a span, as in advance('1d')")
            self._sweep(LAST_MS, ran.append, lambda: len(ran) >= limit or self.is_idle())
        return fired_events(ran)

    def is_idle(self) -> bool:
        """Whether nothing is scheduled but timers that repeat, and some of these are."""
        return bool(self.repeats) and not self.remaining() and len(self._timers) > 0

    def remaining(self) -> int:
        """The number of timers without those that repeat."""
        return len(self._timers) - sum(name in self._timers for name in self.repeats)

    # Live time

    @property
    def rate(self) -> float:
        """Sandbox seconds per real second; 0 is frozen."""
        return self._rate

    def set_rate(self, rate: float) -> None:
        """Let time run at `rate` sandbox seconds per real second from now on. Raises `ValueError` below zero,
        `ClockError` when the clock has no real clock to read."""
        if (real := arguments.real_number(rate)) is None or not 0 <= real < float("inf"):
            raise ArgumentError(f"time can't go backwards: the rate must be 0 (frozen) or more, not {quoted(rate)}")
        if rate and self._real_clock is None:
            raise ClockError("a live clock needs a real clock to read: VirtualClock(start_ms, rate=1, real_clock=...)")
        now, self._rate = self.now(), rate
        self._set_now(now)
        self._flow()

    @property
    def last_seen(self) -> int:
        """The latest instant that the clock has shown."""
        return self._now

    def is_behind(self) -> bool:
        """Read the clock: whether something is due that has not run yet."""
        if self._flows:
            return self._read()
        return (due := self._timers.next_due()) is not None and due <= self._now

    def reached(self) -> int:
        """The instant by which everything is due: a live clock that is behind shows an earlier one."""
        return self._live() if self._rate else self._now

    def catch_up(self) -> list[Fired]:
        """Run everything that the live clock has reached, each event at its own instant."""
        target = self.reached()
        ran: list[EventFields] = []
        self._sweep(target, ran.append)
        # Not re-based: real time passed while these events ran, and a live clock follows it.
        self._now = max(self._now, target)
        return fired_events(ran)

    def add_elapsed(self, span_ms: int) -> None:
        """Add `span_ms`, 0 or more, to a live clock: time that passed unobserved. `catch_up()` runs what fell due."""
        if whole_ms(span_ms, "span_ms") < 0:
            raise ArgumentError(f"time can't go backwards: {span_ms} ms cannot be added")
        self._base += span_ms

    @property
    def time_base(self) -> tuple[int, int] | None:
        """The instant from which a live clock counts, and the system clock then (ms): what it would have shown, if it
        was set since. None without a real clock."""
        self.reached()  # a clock that is ahead of real time, in the middle of a move, counts from what it shows
        return None if self._real_clock is None else (self._base, self._real_base + self._clock_offset())

    def resume_from(self, rate: float, base_ms: int, real_base_ms: int) -> None:
        """Add the time that passed for a live clock with this rate and time base, which stopped at this instant. At
        the same rate this clock then shows what that one would."""
        assert self._real_clock is not None
        if rate == self._rate:
            self._base, self._real_base = base_ms, real_base_ms - self._clock_offset()
        else:
            passed_ms = self._real_clock() + self._clock_offset() - real_base_ms
            self.add_elapsed(max(0, base_ms + int(passed_ms * rate) - self._now))

    def reading(self) -> tuple[int, int | None]:
        """The instant shown, and the system clock (ms) that corresponds to it; None without a real clock. A live clock
        that is behind shows an instant that real time passed a while ago."""
        now = self.now()
        if self._real_clock is None:
            return now, None
        if not self._rate:
            return now, self._real_clock() + self._clock_offset()
        return now, self._real_base + round((now - self._base) / self._rate) + self._clock_offset()

    # State

    def begin(self) -> None:
        """Remember the timers and the rate for `rollback`. Until the end of the commit the clock shows one instant."""
        self._held, self._flows = True, False
        self._timers.begin()
        self._rate_before = (self._rate, self._base, self._real_base)

    def commit(self) -> None:
        """Keep what was done since `begin`."""
        self._held = False
        self._flow()
        self._timers.commit()

    def rollback(self, error: BaseException | None = None) -> None:
        """Undo what was done to timers and rate since `begin`. The instant shown stays: time does not go back."""
        self._held = False
        self._timers.rollback()
        self._rate, self._base, self._real_base = self._rate_before
        self._flow()

    def set_back(self, instant_ms: int) -> None:
        """Return to an earlier instant, the timers as they are: for a move that was not written and nobody has seen."""
        self._set_now(min(instant_ms, self._now))

    def fork(self) -> VirtualClock:
        """A clock at the same instant with the same events ahead, for another world, which sets its own handlers."""
        fork = VirtualClock(
            self.now(),
            rate=self._rate,
            real_clock=self._real_clock,
            clock_offset=self._clock_offset,
            instant_limit=self._instant_limit,
        )
        fork._timers = self._timers.copy()
        return fork

    def snapshot(self, *, timers: bool = True) -> dict[str, Any]:
        """The instant and, with `timers`, the events ahead, as JSON values."""
        return {"now": self.now(), **self._timers.snapshot(timers=timers)}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Restore what `snapshot()` returned, even of an earlier instant: the rows must be of that time, too."""
        self._timers.restore(snapshot)
        self._set_now(snapshot["now"])

    # Inside

    def _next_stop(self) -> int | None:
        """The instant of the next event; if there is none and the clock is held, now: the wait may schedule one."""
        due = self.next_due()
        return self.now() if due is None and self._hold is not None and self._hold.holds_time() else due

    def _flow(self) -> None:
        self._flows = bool(self._rate) and not self._running and not self._held

    def _read(self) -> bool:
        """Advance to real time, but to no instant past an event that has not run; whether there is one."""
        instant = self._live()
        due = self._timers.next_due()
        if due is None or due > instant:
            self._now = instant
            return False
        self._now = max(self._now, due)
        return True

    def _live(self) -> int:
        """The instant that corresponds to real time, `LAST_MS` at most. If it is earlier than the last shown instant,
        because the real clock was set back or a step went ahead of it, time continues from the last shown instant."""
        assert self._real_clock is not None
        instant = min(self._base + int((self._real_clock() - self._real_base) * self._rate), LAST_MS)
        if instant < self._now:
            instant = self._now
            self._set_now(instant)
        return instant

    def _set_now(self, instant: int) -> None:
        self._now = self._base = instant
        if self._real_clock is not None:
            self._real_base = self._real_clock()

    def _sweep(self, until_ms: int, report: Report | None, enough: Enough | None = None) -> None:
        """Run what is due by `until_ms`, in order, until `enough()`; wait for what holds the clock at each instant."""
        interrupts.enter(True)
        try:
            ended = self._run_due(until_ms, report, enough)
            while (hold := self._hold) is not None and hold.holds_time():
                hold.wait_for_network()
                ended = ended or self._run_due(until_ms, report, enough)
        finally:
            interrupts.leave()

    def _run_due(self, until_ms: int, report: Report | None, enough: Enough | None) -> bool:
        """Run what is due by `until_ms`, in order, but nothing past an instant at which the clock is held; whether it
        ended early, because `enough()` was true after an event."""
        if self._running:
            raise ClockError("an event cannot move the clock while it runs: let it schedule another with call_at()")
        timers, runners, context, hold = self._timers, self._runners, self._event_context, self._hold
        count = of_this_instant = 0
        self._running, self._flows = True, False
        try:
            for timer in timers.due(until_ms):
                due_ms, _, _, kind, key = timer
                before = self._now
                if due_ms > before:
                    if hold is not None and hold.holds_time():
                        timers.put_back(timer)
                        break
                    self._now = due_ms
                    of_this_instant = 0
                of_this_instant += 1
                self._runs = ((kind, key),)
                try:
                    if of_this_instant > self._instant_limit:
                        events = f"more than {counted(self._instant_limit, 'event')} at the single instant {due_ms}"
                        what = f"the last of kind {kind!r}: something re-schedules itself without letting time pass"
                        raise ClockError(f"{events}, {what}")
                    run = runners.get(kind)
                    if run is None:
                        raise ClockError(f"no handler for {kind!r} (key {key!r}): call clock.on({kind!r}, ...)")
                    if context is None:
                        run(key)
                    else:
                        with context():
                            run(key)
                except BaseException:
                    timers.put_back(timer)
                    if not self._rate:
                        self._now = before
                    raise
                count += 1
                if report is not None:
                    report((self._now, kind, key))
                if interrupts.pending:
                    interrupts.between_events()
                if enough is not None and enough():
                    return True
        finally:
            self.event_count += count
            self._running, self._runs = False, ()
            self._flow()
            if self._rate:
                self._live()  # a step ahead of real time is shown from now on
        return False
