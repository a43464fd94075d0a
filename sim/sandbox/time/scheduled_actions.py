"""Scheduled actions: what a program does with its sandbox at an instant, once or again and again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from leyden.arguments import span_from
from leyden.errors import ArgumentError, ClockError
from leyden.sandbox.time.spans import Instant, Span, instant_ms
from leyden.server.printable import quoted
from leyden.server.timestamps import to_iso
from leyden.world.time.clock import LAST_MS

Action = Callable[[Any], object]  # it is given the sandbox

_DAY_MS = 86_400_000
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")


@dataclass(frozen=True, slots=True)
class Scheduled:
    """An action that is due at `at_ms`, and again every `period_ms` unless that is None."""

    number: int
    action: Action
    at_ms: int
    period_ms: int | None

    def __repr__(self) -> str:
        name = getattr(self.action, "__name__", None) or repr(self.action)
        again = "" if self.period_ms is None else f", and again every {self.period_ms / 1_000:g} s"
        return f"<Scheduled {name} at {to_iso(self.at_ms)}{again}>"


class ScheduledActions:
    """The actions ahead of one sandbox."""

    def __init__(self, rows: Iterable[Scheduled] = (), count: int = 0) -> None:
        self._rows = {row.number: row for row in rows}
        self._count = count
        self._running: Scheduled | None = None

    def add(self, action: Action, at_ms: int, period_ms: int | None = None) -> Scheduled:
        """Schedule an action. Raises `TypeError` for what cannot be called."""
        if not callable(action):
            raise ArgumentError(
                f"{quoted(action, 60)} is no action: give a function of the sandbox, such as lambda sb: ..."
            )
        self._count += 1
        row = self._rows[self._count] = Scheduled(self._count, action, at_ms, period_ms)
        return row

    def cancel(self, row: Scheduled) -> bool:
        """Remove an action; whether it was still ahead."""
        return self._rows.pop(row.number, None) is not None

    def ahead(self) -> list[Scheduled]:
        """The pending actions, the earliest first; those of one instant in the order in which they were scheduled."""
        return sorted(self._rows.values(), key=lambda row: (row.at_ms, row.number))

    def next(self) -> Scheduled | None:
        """The next action."""
        return min(self._rows.values(), key=lambda row: (row.at_ms, row.number), default=None)

    def has_single(self) -> bool:
        """Whether an action is ahead that is not repeated."""
        return any(row.period_ms is None for row in self._rows.values())

    def perform(self, row: Scheduled, sandbox: Any) -> None:
        """Call an action; it is done, or due again, also if it raises."""
        del self._rows[row.number]
        if row.period_ms is not None:
            missed = max(0, sandbox.world.clock.now() - row.at_ms) // row.period_ms
            again_ms = row.at_ms + (missed + 1) * row.period_ms
            if again_ms <= LAST_MS:
                self._rows[row.number] = replace(row, at_ms=again_ms)
        self._running = row
        try:
            row.action(sandbox)
        finally:
            self._running = None

    def check_not_running(self) -> None:
        """Raise `ClockError` within an action: it happens at one instant."""
        if self._running is not None:
            raise ClockError(
                f"{quoted(self._running)} cannot move time: schedule another action for later, with sb.at(...)"
            )

    def copy(self) -> ScheduledActions:
        """The same actions, for a fork."""
        return ScheduledActions(self._rows.values(), self._count)


def due_ms(when: Instant, now_ms: int) -> int:
    """The instant of `when`; a time of the day is the next one in UTC. Raises `ValueError` for one that has passed."""
    found = _TIME.fullmatch(when) if isinstance(when, str) else None
    if found is not None:
        hours, minutes, seconds = (int(part or 0) for part in found.groups())
        at_ms = now_ms - now_ms % _DAY_MS + ((hours * 60 + minutes) * 60 + seconds) * 1_000
        return at_ms if at_ms > now_ms else at_ms + _DAY_MS
    try:
        at_ms = instant_ms(when)
    except ValueError as error:
        raise ArgumentError(f'{error}; or a time of the day, such as "12:00"') from None
    if not now_ms <= at_ms <= LAST_MS:
        is_now = f"it is {to_iso(now_ms)}, and time ends with the year 2999"
        raise ArgumentError(f"{to_iso(at_ms)} has passed, or is after the end of time: {is_now}")
    return at_ms


def period_ms(period: Span) -> int:
    """A period in milliseconds, at least one. Raises `ValueError`."""
    return span_from("period", period, least_ms=1)
