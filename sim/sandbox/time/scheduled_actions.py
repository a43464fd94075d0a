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
    """An action that is due at `at_ms`, and again every `period_ms` unless that is None. It was scheduled at
    `created_ms`, `by_action` if another action did that, for `first_ms`."""

    number: int
    action: Action
    at_ms: int
    period_ms: int | None
    created_ms: int
    first_ms: int
    by_action: bool = False

    @property
    def name(self) -> str:
        """What the action is called."""
        return str(getattr(self.action, "__name__", None) or repr(self.action))

    @property
    def again(self) -> str:
        """Whether it is done again, and when; empty if not."""
        return "" if self.period_ms is None else f"and again every {self.period_ms / 1_000:g} s"

    def __repr__(self) -> str:
        return f"<Scheduled {self.name} at {', '.join(filter(None, [to_iso(self.at_ms), self.again]))}>"


class ScheduledActions:
    """The actions ahead of one sandbox, and those that were ahead at one of its snapshots and are done."""

    def __init__(self, rows: Iterable[Scheduled] = (), count: int = 0) -> None:
        self._rows = {row.number: row for row in rows}
        self._done: dict[int, Scheduled] = {}
        self._snapshots: set[int] = set()  # their instants
        self._count = count
        self._running: Scheduled | None = None

    def add(self, action: Action, at_ms: int, period_ms: int | None = None, *, now_ms: int) -> Scheduled:
        """Schedule an action. Raises `TypeError` for what cannot be called."""
        if not callable(action):
            raise ArgumentError(
                f"{quoted(action, 60)} is no action: give a function of the sandbox, such as lambda sb: ..."
            )
        self._count += 1
        by_action = self._running is not None
        row = Scheduled(self._count, action, at_ms, period_ms, now_ms, at_ms, by_action)
        self._rows[self._count] = row
        return row

    def cancel(self, row: Scheduled) -> bool:
        """Remove an action; whether it was still ahead."""
        self._done.pop(row.number, None)
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
        if row.period_ms is None and any(row.created_ms <= at_ms < row.at_ms for at_ms in self._snapshots):
            self._done[row.number] = row
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

    def snapshot_taken(self, now_ms: int) -> None:
        """The sandbox may return to this instant."""
        self._snapshots.add(now_ms)

    def return_to(self, now_ms: int) -> None:
        """The sandbox has returned to this instant: what is due later is ahead again. What actions scheduled since then
        they schedule again. The action that runs does not come back: it may be the one that returns."""
        running = None if self._running is None else self._running.number
        rows = [*self._rows.values(), *(row for row in self._done.values() if row.at_ms > now_ms)]
        self._done = {number: row for number, row in self._done.items() if row.at_ms <= now_ms}
        self._rows = {}
        for row in rows:
            if row.number == running and row.period_ms is None:
                continue
            if row.number != running and row.period_ms is not None:
                periods = (row.at_ms - max(row.first_ms, now_ms + 1)) // row.period_ms
                row = replace(row, at_ms=row.at_ms - max(0, periods) * row.period_ms)
            if not (row.by_action and row.created_ms > now_ms):
                self._rows[row.number] = row

    def copy(self) -> ScheduledActions:
        """The same actions, for a fork."""
        copy = ScheduledActions(self._rows.values(), self._count)
        copy._done, copy._snapshots = {**self._done}, {*self._snapshots}
        return copy


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
