"""The methods of a sandbox that move its time, and that schedule actions in it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from leyden.arguments import methods_with_hints
from leyden.errors import ArgumentError, ClockError
from leyden.sandbox.session import Session
from leyden.sandbox.time.guarded import moves_time, without_moves
from leyden.sandbox.time.scheduled_actions import Action, Scheduled, ScheduledActions, due_ms, period_ms
from leyden.sandbox.time.spans import FiredEvents, Instant, Span, advance, advance_to, event_count, run, target_ms
from leyden.server.printable import quoted
from leyden.server.timestamps import parse_duration, to_iso
from leyden.world.interrupts import interrupts
from leyden.world.time.clock import LAST_MS, VirtualClock
from leyden.world.time.timers import Fired


@methods_with_hints
class TimeMethods:
    """Time of a sandbox."""

    session: Session
    _actions: ScheduledActions

    @property
    def now(self) -> str:
        """The present instant of the sandbox, ISO 8601 in UTC."""
        with self.session.world.exclusive():
            return to_iso(self.session.world.clock.now())

    @moves_time
    def run(self, until: Span = "idle", *, events: int | None = None, spill: str | Path | None = None) -> FiredEvents:
        """Run until nothing is scheduled (`idle`), through the next instant (`next_event`), or for a span (`"10m"`).
        `events=10` instead runs the next ten events. Actions that are repeated (`every`) and a network's background
        traffic do not keep a run from its end.

        Returns what fired, in order. An interrupt (Ctrl-C, the stop button of a notebook) ends every move of time
        between two events. Raises `ValueError` for a negative number of events, or for `events` with another `until`
        than `idle`.

        With `spill`, a directory, the Charges that have ended go there on the way, some thousands at a time, with their
        payments, attempts and callbacks and the event journal, as Parquet files. They are removed from the sandbox, so
        that its memory does not grow: afterwards the service does not know them, `sb.kpi` does not count them, and what
        is returned is empty. `leyden.read(directory)` has the tables of all of them. The run itself, and its
        `journal_hash`, are the same. Raises `InputError` for a directory with other files; needs `leyden[lab]`.
        """
        if not isinstance(until, str):
            parse_duration(until)  # raises before it is compared: a value of another library may have no truth value
        if spill is not None:
            with interrupts.deferred():
                from leyden.sandbox.time.spilled_runs import run_spilling  # it needs pandas

            is_span = events is None and until not in ("idle", "next_event")
            with self._move_progress(parse_duration(until)) if is_span else self._run_progress(events):
                run_spilling(self, until, events, spill)
            return FiredEvents(kept_in=spill)
        if events is None and until not in ("idle", "next_event"):
            return self.advance(until)
        with self._run_progress(events):
            if self._actions.next() is None:
                return FiredEvents(run(self.session, until, events))
            if events is not None:
                return self._run_events(until, events)
            return self._run_until_idle() if until == "idle" else self._run_next()

    @moves_time
    def advance(self, by: Span) -> FiredEvents:
        """Move time forward by a span (`"5m"`, seconds, `timedelta`) and return what fired, in order.

        Time ends with the year 2999: a longer span ends there, and what is due later never runs. Every move of time
        waits for the responses of receivers on the network. While a thread moves time, other threads may read and send
        requests. `ClockError` is raised when they move time, when they call `at`, `every` or `cancel`, and when they
        copy or restore the sandbox: a receiver before it answers, for example.
        """
        by_ms = parse_duration(by)
        with self._move_progress(by_ms):
            if self._actions.next() is None or by_ms < 0:
                return FiredEvents(advance(self.session, by))
            return self._through(self._clock.now() + by_ms)

    @moves_time
    def advance_to(self, when: Instant, offset: Span = "0s") -> FiredEvents:
        """Move time to an instant plus `offset`, which may be negative; an instant in the past changes nothing.

        A number is epoch milliseconds. Raises `ValueError` for one that is epoch seconds, and for an instant outside
        the years 1970 to 9999.
        """
        until_ms = target_ms(self.session, when, offset)
        with self._move_progress(until_ms - self._clock.last_seen):
            if self._actions.next() is None:
                return FiredEvents(advance_to(self.session, when, offset))
            return self._through(until_ms)

    @moves_time
    def step(self) -> Fired | None:
        """Run the next event, whenever it is, and return it; None when nothing is scheduled."""
        fired = self.run(events=1)
        return fired[0] if fired else None

    # Actions

    @without_moves
    def at(self, when: Instant, action: Action) -> Scheduled:
        """Call `action(sandbox)` when time reaches an instant, or the next time of the day (`"12:00"`, UTC), after all
        that is due at it: `sb.at("12:00", lambda sb: sb.network.close_channel(3))`.

        `run`, `advance`, `advance_to` and `step` stop there and go on. Time that is moved over HTTP does not stop for
        actions: those that it passed are done by the next of these methods, later than their instants; an action of
        `every` is done once then, whatever number of its instants was passed. An action cannot move time: the methods
        raise `ClockError`, and requests get 409. Its changes are in the action log, so that `script` has them; a fork
        has the actions that are ahead, and they get the fork. A saved sandbox and a directory that is opened again have
        none. Raises `ValueError` for an instant that has passed, `ClockError` for a sandbox that follows the real time,
        and while time is moved, except in an action.
        """
        self._check_frozen()
        now_ms = self._clock.now()
        return self._actions.add(action, due_ms(when, now_ms))

    @without_moves
    def every(self, period: Span, action: Action, *, start: Instant | None = None) -> Scheduled:
        """Call `action(sandbox)` every `period` (`"1d"`), first at `start` (default: a period from now), as `at` does.

        `run()` ends when nothing else is scheduled than what is repeated. Raises as `at`.
        """
        self._check_frozen()
        each_ms, now_ms = period_ms(period), self._clock.now()
        first_ms = now_ms + each_ms if start is None else due_ms(start, now_ms)
        return self._actions.add(action, first_ms, each_ms)

    @property
    def scheduled(self) -> list[Scheduled]:
        """The actions ahead, the earliest first. `cancel` removes one."""
        _ = self.session.world  # raises for a closed sandbox
        return self._actions.ahead()

    @without_moves
    def cancel(self, scheduled: Scheduled) -> bool:
        """Remove an action that `at` or `every` has returned; whether it was still ahead. Raises `TypeError`, and
        `ClockError` while time is moved, except in an action."""
        if not isinstance(scheduled, Scheduled):
            raise ArgumentError(
                f"scheduled={quoted(scheduled, 60)} is no scheduled action: give what at or every returned"
            )
        return self._actions.cancel(scheduled)

    # Inside

    @property
    def _clock(self) -> VirtualClock:
        return self.session.world.clock

    def _move_progress(self, by_ms: int) -> AbstractContextManager[None]:
        """The progress of a move by so many milliseconds."""
        clock = self._clock
        from_ms = clock.last_seen
        return self.session.progress.shown("move", " ms", lambda: clock.last_seen - from_ms, max(by_ms, 1))

    def _run_progress(self, events: int | None) -> AbstractContextManager[None]:
        """The progress of a run of so many events, or until nothing is scheduled."""
        clock = self._clock
        before = clock.event_count
        return self.session.progress.shown("run", " events", lambda: clock.event_count - before, events)

    def _check_frozen(self) -> None:
        if self._clock.rate:
            raise ClockError("this sandbox follows the real time, which stops for no action: create it without clock")

    def _through(self, until_ms: int) -> FiredEvents:
        """Move time to an instant and do every action on the way."""
        until_ms = min(until_ms, LAST_MS)
        fired: list[Fired] = []
        while (row := self._actions.next()) is not None and row.at_ms <= until_ms:
            fired += self._do(row)
        return FiredEvents([*fired, *advance_to(self.session, until_ms, 0)])

    def _do(self, row: Scheduled) -> list[Fired]:
        fired = advance_to(self.session, row.at_ms, 0) if row.at_ms >= self._clock.now() else []
        self._actions.perform(row, self)
        return fired

    def _run_until_idle(self) -> FiredEvents:
        fired: list[Fired] = []
        while (row := self._actions.next()) is not None:
            with self.session.world.exclusive():
                once = [timer for timer in self._clock.timers() if timer[3:] not in self._clock.repeats]
                due = [timer[0] for timer in once if timer[0] <= LAST_MS]
            if self._actions.has_single() or max(due, default=-1) >= row.at_ms:
                fired += self._do(row)
            elif due:
                # So many events are all before the action: those that they schedule are later, or run in their place.
                fired += run(self.session, "idle", len(due))
            else:
                return FiredEvents(fired)
        return FiredEvents([*fired, *run(self.session, "idle", None)])

    def _run_next(self) -> FiredEvents:
        row, due = self._actions.next(), self._clock.next_due()
        if row is not None and (due is None or row.at_ms <= due):
            return FiredEvents(self._do(row))
        return FiredEvents(run(self.session, "next_event", None))

    def _run_events(self, until: Span, events: int) -> FiredEvents:
        fired: list[Fired] = []
        count = event_count(until, events)
        while len(fired) < count:
            row, due = self._actions.next(), self._clock.next_due()
            if row is not None and due is not None and row.at_ms < due:
                fired += self._do(row)
            elif due is None:
                break
            else:
                fired += run(self.session, "idle", 1)
        return FiredEvents(fired)
