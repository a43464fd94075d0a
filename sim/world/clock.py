"""The sandbox's clock: it stands still until you move it, and then stops at everything that is due on the way."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from leyden.errors import ClockError
from leyden.world.timers import Entry, Timer, Timers

# 2999-12-31T23:59:59Z. BOLT 11 counts seconds in 35 bits, which end in 3058; what is due later must still fit.
LAST_MS = 32_503_679_999_000

Around = Callable[[], AbstractContextManager[Any]]


class Fired(NamedTuple):
    """One event that has run: at its own instant, in milliseconds since the epoch."""

    at_ms: int
    kind: str
    key: str


class VirtualClock:
    """Whole milliseconds over a heap of plain-data events (`leyden.server.ports.Clock`), for one sandbox.

    At one instant events run by priority, then in order of arrival; the clock stands at an event's own instant while
    it runs. An event that raises has not happened: its timer stands again and time does not pass it.

    `rate` makes the clock live: sandbox seconds per real second, read from `wall` (milliseconds, injected). A live
    clock never shows an instant past an event that has not run yet: `catch_up()` runs what is due.
    `around` may be set to what is entered for each event, for example to make its writes one commit.
    `instant_limit` bounds the events of a single instant, so that one which re-schedules itself cannot hang the run.
    """

    def __init__(
        self,
        start_ms: int,
        *,
        rate: float = 0,
        real_clock: Callable[[], int] | None = None,
        instant_limit: int = 1_000_000,
    ) -> None:
        self._now = _whole(start_ms, "start_ms")
        self._real_clock = real_clock
        self._rate: float
        self._pace_before: tuple[float, int, int]
        self._base = self._wall_base = 0
        self._timers = Timers()
        self._runners: dict[str, Callable[[str], None]] = {}
        self._running = self._held = False
        self._runs: tuple[tuple[str, str], ...] = ()  # the event that runs now, while one does
        self._flows = False  # whether looking at the clock means reading the wall
        self._instant_limit = instant_limit
        self.event_context: Around | None = None
        self.set_rate(rate)

    def __repr__(self) -> str:
        return f"<VirtualClock at {self.now()} ms, {len(self._timers)} events ahead, the next at {self.next_due()}>"

    # The port

    def now(self) -> int:
        """The present instant in milliseconds since the epoch; never less than a value returned before."""
        if self._flows:
            self._read()
        return self._now

    def call_at(self, when_ms: int, priority: int, kind: str, key: str) -> None:
        """Wake `kind` with `key` at `when_ms` (now, if that has passed). Replaces a standing `(kind, key)` timer."""
        now = self.now()
        self._timers.schedule(when_ms if when_ms > now else now, priority, kind, key)

    def cancel(self, kind: str, key: str) -> None:
        """Forget the `(kind, key)` timer; no error when there is none."""
        self._timers.cancel(kind, key)

    def on(self, kind: str, run: Callable[[str], None]) -> None:
        """Say who is woken for `kind`. Raises `ClockError` when somebody already is."""
        if kind in self._runners:
            raise ClockError(f"somebody is already woken for {kind!r}: give this timer a kind of its own")
        self._runners[kind] = run

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
        """The number of the `(kind, key)` timer in the order in which all were set; None when there is none."""
        return self._timers.sequence_of(kind, key)

    def changed_timers(self) -> list[tuple[str, str]]:
        """The timers that were set, cancelled or run since `begin`, by kind and key."""
        return [*self._timers.changed(), *self._runs]

    def __len__(self) -> int:
        return len(self._timers)

    # Moving time

    def step(self) -> Fired | None:
        """Run the next event, wherever it stands in time; None when nothing is scheduled before time ends."""
        due = self.next_due()
        if due is None:
            return None
        fired: list[Fired] = []
        self._sweep(due, fired.append, at_most=1)
        return fired[0]

    def advance(self, by_ms: int) -> list[Fired]:
        """Move time on by `by_ms` and run what falls due. Raises `ValueError` when that is negative."""
        if _whole(by_ms, "by_ms") < 0:
            raise ValueError(
                f"time can't go backwards: advance by {by_ms} ms is negative; fork the sandbox earlier instead"
            )
        return self.advance_to(self.now() + by_ms)

    def advance_to(self, when_ms: int) -> list[Fired]:
        """Move time on to `when_ms`, running everything due up to and at it. An instant that has passed: nothing.

        Time ends at `LAST_MS`: an instant beyond it is taken for it.
        """
        fired: list[Fired] = []
        when_ms = min(_whole(when_ms, "when_ms"), LAST_MS)
        if when_ms >= self.now():
            self._sweep(when_ms, fired.append)
            self._stand_at(when_ms)
        return fired

    def run_to(self, when_ms: int) -> int:
        """`advance_to` for long runs: only counts the events, and so keeps no list of millions."""
        when_ms = min(_whole(when_ms, "when_ms"), LAST_MS)
        if when_ms < self.now():
            return 0
        count = self._sweep(when_ms, None)
        self._stand_at(when_ms)
        return count

    def run_until_next_event(self) -> list[Fired]:
        """Move time to the next event and run everything of that instant."""
        due = self.next_due()
        return [] if due is None else self.advance_to(max(due, self.now()))

    def run_until_idle(self, limit: int = 1_000_000) -> list[Fired]:
        """Run events until none is left; the clock then stands at the last one.

        Raises `ClockError` when something is still scheduled after `limit` events.
        """
        fired: list[Fired] = []
        while (due := self.next_due()) is not None:
            if len(fired) >= limit:
                first = self._timers.peek()
                raise ClockError(
                    f"still not idle after {limit} events, the next is {first}: something re-schedules itself for "
                    "ever; use advance() with a span, or raise the limit"
                )
            self._sweep(due, fired.append, at_most=limit - len(fired))
        return fired

    # Live time

    @property
    def rate(self) -> float:
        """Sandbox seconds per real second; 0 is frozen."""
        return self._rate

    def set_rate(self, rate: float) -> None:
        """Let time run `rate` times as fast as the wall's, from where it stands. Raises `ValueError` below zero,
        `ClockError` when the clock was given no wall to read."""
        if not 0 <= rate < float("inf"):
            raise ValueError(f"time can't go backwards: the rate must be 0 (frozen) or more, not {rate}")
        if rate and self._real_clock is None:
            raise ClockError("a live clock needs a wall to read: VirtualClock(start_ms, rate=1, wall=...)")
        now = self.now()
        self._rate = rate
        self._stand_at(now)
        self._flow()

    @property
    def last_seen(self) -> int:
        """The instant that the clock showed when it was last looked at."""
        return self._now

    def is_behind(self) -> bool:
        """Look at the clock: whether something is due that has not run yet."""
        if self._flows:
            return self._read()
        due = self._timers.next_due()
        return due is not None and due <= self._now

    def catch_up(self) -> list[Fired]:
        """Run everything that the live clock has reached, each event at its own instant."""
        target = self._live() if self._rate else self._now
        fired: list[Fired] = []
        self._sweep(target, fired.append)
        # Not re-based: the wall went on while these events ran, and a live clock owes it that time.
        self._now = max(self._now, target)
        return fired

    def add_elapsed(self, span_ms: int) -> None:
        """Let a live clock be `span_ms` further than it shows: time in which nobody looked at it. What fell due in it
        runs with the next `catch_up()`, each event at its own instant. Raises `ValueError` when it is negative."""
        if span_ms < 0:
            raise ValueError(f"time can't go backwards: a clock cannot owe {span_ms} ms")
        self._base += span_ms

    @property
    def time_base(self) -> tuple[int, int] | None:
        """From where a live clock counts: an instant, and what the wall showed then. None without a wall."""
        return None if self._real_clock is None else (self._base, self._wall_base)

    def resume_from(self, rate: float, base_ms: int, wall_base_ms: int) -> None:
        """Owe what has passed for a live clock of this rate and pace that was left standing at this very instant. At
        the same rate this one then shows what that one would."""
        assert self._real_clock is not None
        if rate == self._rate:
            self._base, self._wall_base = base_ms, wall_base_ms
        else:
            self.add_elapsed(max(0, base_ms + int((self._real_clock() - wall_base_ms) * rate) - self._now))

    def reading(self) -> tuple[int, int | None]:
        """The instant shown, and what the wall showed at that very instant; None without a wall. A live clock that is
        behind, because it still has to catch up, shows an instant that the wall passed a while ago."""
        now = self.now()
        if self._real_clock is None:
            return now, None
        if not self._rate:
            return now, self._real_clock()
        return now, self._wall_base + round((now - self._base) / self._rate)

    # State

    def begin(self) -> None:
        """Remember the timers and the rate, so that `rollback` can undo what is done to them; `commit` ends this.

        Until then the clock shows the instant that it was last seen at: one thing happens at one instant.
        """
        self._held, self._flows = True, False
        self._timers.begin()
        self._pace_before = (self._rate, self._base, self._wall_base)

    def commit(self) -> None:
        """What was done since `begin` stays."""
        self._held = False
        self._flow()
        self._timers.commit()

    def rollback(self, error: BaseException | None = None) -> None:
        """Undo what was done to timers and rate since `begin`. The instant shown stays: time does not go back."""
        self._held = False
        self._timers.rollback()
        self._rate, self._base, self._wall_base = self._pace_before
        self._flow()

    def set_back(self, instant_ms: int) -> None:
        """Stand at an earlier instant, with the timers as they are: for a move that could not be written down, as long
        as nobody has seen where it led."""
        self._stand_at(min(instant_ms, self._now))

    def fork(self) -> VirtualClock:
        """A clock at the same instant with the same events ahead, for another world: that world says who is woken."""
        twin = VirtualClock(self.now(), rate=self._rate, real_clock=self._real_clock, instant_limit=self._instant_limit)
        twin._timers = self._timers.copy()
        return twin

    def snapshot(self) -> dict[str, Any]:
        """The instant and the events ahead, as JSON values."""
        return {"now": self.now(), **self._timers.snapshot()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Become what `snapshot()` wrote down, an earlier instant included: the rows must be of that time too."""
        self._timers.restore(snapshot)
        self._stand_at(snapshot["now"])

    # Inside

    def _flow(self) -> None:
        self._flows = bool(self._rate) and not self._running and not self._held

    def _read(self) -> bool:
        """Read the wall, and show what it says, but no instant past an event that has not run; whether there is one."""
        instant = self._live()
        due = self._timers.next_due()
        if due is None or due > instant:
            self._now = instant
            return False
        self._now = max(self._now, due)
        return True

    def _live(self) -> int:
        """Where the wall says that this clock stands. Behind what was already shown, because the wall went back or an
        event was stepped to ahead of it, time goes on from what was shown."""
        assert self._real_clock is not None
        instant = self._base + int((self._real_clock() - self._wall_base) * self._rate)
        if instant < self._now:
            instant = self._now
            self._stand_at(instant)
        return instant

    def _stand_at(self, instant: int) -> None:
        self._now = self._base = instant
        if self._real_clock is not None:
            self._wall_base = self._real_clock()

    def _sweep(self, until_ms: int, tell: Callable[[Fired], None] | None, at_most: int | None = None) -> int:
        """Run what is due by `until_ms`, in order, at most so many events; the number that ran."""
        if self._running:
            raise ClockError("an event cannot move the clock while it runs: let it schedule another with call_at()")
        timers, runners, around = self._timers, self._runners, self.event_context
        count = of_this_instant = 0
        self._running, self._flows = True, False
        try:
            for timer in timers.due(until_ms):
                due_ms, _, _, kind, key = timer
                if due_ms > self._now:
                    self._now = due_ms
                    of_this_instant = 0
                of_this_instant += 1
                self._runs = ((kind, key),)
                try:
                    if of_this_instant > self._instant_limit:
                        raise ClockError(
                            f"more than {self._instant_limit} events at the single instant {due_ms}, the last of kind "
                            f"{kind!r}: something re-schedules itself without letting time pass"
                        )
                    run = runners.get(kind)
                    if run is None:
                        raise ClockError(f"nobody is woken for {kind!r} (key {key!r}): call clock.on({kind!r}, ...)")
                    if around is None:
                        run(key)
                    else:
                        with around():
                            run(key)
                except BaseException:
                    timers.put_back(timer)
                    raise
                count += 1
                if tell is not None:
                    tell(Fired(self._now, kind, key))
                if count == at_most:
                    break
        finally:
            self._running, self._runs = False, ()
            self._flow()
            if self._rate:
                self._live()  # a step ahead of the wall is shown from now on
        return count


def _whole(value: int, name: str) -> int:
    """The value, if it is whole milliseconds. Raises `TypeError` otherwise: texts are for
    `leyden.server.timestamps`.
    """
    if type(value) is not int:
        raise TypeError(
            f"{name} is whole milliseconds, not {value!r}: parse texts and spans with leyden.server.timestamps first"
        )
    return value
