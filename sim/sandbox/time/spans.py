"""Durations and instants as a sandbox's methods take them, and what fired while time moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from numbers import Integral
from pathlib import Path

from leyden.arguments import check_milliseconds, shortened, whole_number
from leyden.errors import ArgumentError
from leyden.repr_tables import counted, html_grid
from leyden.sandbox.session import Session
from leyden.server.printable import quoted
from leyden.server.timestamps import MAX_INSTANT_MS, parse_duration, parse_iso, to_iso
from leyden.world.time.clock import LAST_MS
from leyden.world.time.process_clock import FIRST_MS
from leyden.world.time.timers import Fired

Span = str | float | timedelta
Instant = str | int | datetime


def instant_ms(when: Instant, *, clamp: bool = False) -> int:
    """An instant in milliseconds since the epoch. Raises `TypeError` or `ValueError` for anything else; with `clamp` an
    instant outside the years 1970 to 9999 is the nearest of these years instead."""
    if isinstance(when, bool) or not isinstance(when, (str, Integral, datetime)):
        raise ArgumentError(
            f"{quoted(when)} is not an instant: give an ISO 8601 text, a datetime with a zone, or epoch milliseconds"
        )
    if isinstance(when, datetime):
        return parse_iso(when.isoformat(), clamp=clamp)
    if isinstance(when, str):
        return parse_iso(when, clamp=clamp)
    instant = int(when)
    nearest = min(max(0, instant), MAX_INSTANT_MS)
    if nearest != instant and not clamp:
        raise ArgumentError(f"{shortened(instant)} ms lies outside the years 1970 to 9999: give an instant in them")
    return nearest


def clock_instant_ms(name: str, when: Instant) -> int:
    """An instant that a sandbox's clock can show, in milliseconds since the epoch. Raises `ValueError`, with the name
    of the argument, for another one."""
    instant = instant_ms(when, clamp=True)
    if not FIRST_MS <= instant <= LAST_MS:
        raise ArgumentError(f"{name}={quoted(when)} lies outside the years 1971 to 2999: give an instant in them")
    return instant


class FiredEvents(list[Fired]):
    """The events that fired, in order. The repr shows the first five, and a notebook shows the number of each kind.

    `kept_in` is the directory of a run that writes what has ended to files. Its events are not here, but in the journal
    there.
    """

    def __init__(self, events: Iterable[Fired] = (), *, kept_in: str | Path | None = None) -> None:
        super().__init__(events)
        self._kept_in = kept_in

    def __repr__(self) -> str:
        if self._kept_in is not None:
            return f"the events are in the journal of leyden.read({str(self._kept_in)!r})"
        lines = [f"  {to_iso(one.at_ms)} {one.kind} {one.key}" for one in self[:5]]
        more = [f"  and {len(self) - 5} more"] if len(self) > 5 else []
        return "\n".join([counted(len(self), "event") + ":" * bool(lines), *lines, *more])

    def _repr_html_(self) -> str:
        """The number of events of each kind, with the first and the last instant."""
        if self._kept_in is not None:
            return html_grid((), (), caption=repr(self))
        kinds = Counter(one.kind for one in self)
        first = {one.kind: to_iso(one.at_ms) for one in reversed(self)}
        last = {one.kind: to_iso(one.at_ms) for one in self}
        rows = [(kind, count, first[kind], last[kind]) for kind, count in kinds.most_common()]
        return html_grid(("event", "count", "first", "last"), rows, caption=counted(len(self), "event"))


def run(session: Session, until: Span, events: int | None) -> list[Fired]:
    """The implementation of `Sandbox.run`."""
    if events is not None:
        count = event_count(until, events)
        return session.move("events", lambda clock: clock.run_events(count), count=count)
    if until == "idle" and session.world.clock.rate:
        fired = session.action_log.catch_up(session.world)
        session.world.wait_for_network()
        return fired
    if until == "idle":
        return session.move("idle", lambda clock: clock.run_until_idle())
    if until == "next_event":
        return session.move("next_event", lambda clock: clock.run_until_next_event())
    return advance(session, until)


def event_count(until: Span, events: int) -> int:
    """The number of events to run. Raises `ValueError` for one below zero, and for a second end."""
    if until != "idle":
        raise ArgumentError(f"run({quoted(until)}, events={events}) has two ends: give one of them")
    return whole_number("events", events, 0)


def target_ms(session: Session, when: Instant, offset: Span) -> int:
    """The instant to which `advance_to` moves time, at most the last one."""
    check_milliseconds(when, session.world.clock.now())
    return min(max(0, instant_ms(when) + parse_duration(offset)), LAST_MS)


def advance_to(session: Session, when: Instant, offset: Span) -> list[Fired]:
    """The implementation of `Sandbox.advance_to`."""
    to_ms = target_ms(session, when, offset)
    return session.move("advance_to", lambda clock: clock.advance_to(to_ms), to_ms=to_ms)


def advance(session: Session, by: Span) -> list[Fired]:
    """The implementation of `Sandbox.advance`."""
    by_ms = parse_duration(by)
    return session.move("advance", lambda clock: clock.advance(by_ms), by_ms=by_ms)
