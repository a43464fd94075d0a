"""Scheduled actions: what a program does with its sandbox at an instant, once or again and again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from leyden.arguments import span_from
from leyden.errors import ArgumentError
from leyden.sandbox.time.spans import Instant, Span, instant_ms
from leyden.server.printable import quoted
from leyden.server.timestamps import MAX_INSTANT_MS, to_iso
from leyden.world.stored_snapshots import Position
from leyden.world.time.clock import LAST_MS
from leyden.world.world import World

Action = Callable[[Any], object]  # it is given the sandbox

_DAY_MS = 86_400_000
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")


@dataclass(frozen=True, slots=True)
class Scheduled:
    """An action that is due at `at_ms`, and again every `period_ms` unless that is None. It was scheduled for
    `first_ms`, `by_action` if another action did that."""

    number: int
    action: Action
    at_ms: int
    period_ms: int | None
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


class _Kept(NamedTuple):
    """The actions ahead at a snapshot, and the number of the last one that was scheduled before it."""

    rows: tuple[Scheduled, ...]
    last: int


class ScheduledActions:
    """The actions ahead of one sandbox, and those that were ahead at its snapshots, by position."""

    def __init__(self, rows: Iterable[Scheduled] = (), count: int = 0) -> None:
        self._rows = {row.number: row for row in rows}
        self._kept: dict[Position, _Kept] = {}
        self._cancelled: set[int] = set()
        self._count = count
        self._running: Scheduled | None = None

    def beside(self, world: World) -> Self:
        """These actions, which hear of the world's snapshots."""
        world.snapshots.listener = self
        return self

    def add(self, action: Action, at_ms: int, period_ms: int | None = None) -> Scheduled:
        """Schedule an action. Raises `TypeError` for what cannot be called."""
        if not callable(action):
            raise ArgumentError(
                f"{quoted(action, 60)} is no action: give a function of the sandbox, such as lambda sb: ..."
            )
        self._count += 1
        by_action = self._running is not None
        row = Scheduled(self._count, action, at_ms, period_ms, at_ms, by_action)
        self._rows[self._count] = row
        return row

    def cancel(self, row: Scheduled) -> bool:
        """Remove an action; whether it was still ahead."""
        self._cancelled.add(row.number)
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
        """Call an action; it is done, or due again, also if it raises. Nothing is called when a restore over HTTP has
        just taken it away, or its instant is ahead again."""
        with sandbox.session.world.guard.action(quoted(row)):
            now_ms = sandbox.session.world.clock.now()
            if self._rows.get(row.number) is not row or now_ms < row.at_ms:
                return
            del self._rows[row.number]
            if row.period_ms is not None:
                again_ms = row.at_ms + ((now_ms - row.at_ms) // row.period_ms + 1) * row.period_ms
                if again_ms <= LAST_MS:
                    self._rows[row.number] = replace(row, at_ms=again_ms)
            self._running = row
            try:
                row.action(sandbox)
            finally:
                self._running = None

    def snapshot_taken(self, position: Position) -> None:
        """The sandbox may return to this position: the actions that are ahead will be ahead then."""
        self._kept[position] = _Kept((*self._rows.values(),), self._count)

    def returned_to(self, position: Position) -> None:
        """The sandbox is at this position again. What was scheduled after its snapshot stays if it is ahead, unless
        an action did that, which does it again. So does everything at the snapshot of another sandbox. The action
        that runs does not come back: it may be the one that returns."""
        now_ms, running = position[0], self._running
        kept, later = self._kept.get(position), [*self._rows.values()]
        rows: list[Scheduled] = []
        if kept is not None:
            later = [row for row in later if row.number > kept.last and not row.by_action]
            rows += [row for row in kept.rows if row.number not in self._cancelled]
        rows += [row for one in later if (row := _ahead(one, now_ms)) is not None]
        if running is not None:
            rows = [row for row in rows if row.number != running.number]
            rows += [self._rows[running.number]] if running.number in self._rows else []
        self._rows = {row.number: row for row in rows}

    def copy(self) -> ScheduledActions:
        """The same actions, for a fork."""
        copy = ScheduledActions([*self._rows.values()], self._count)
        copy._kept, copy._cancelled = {**self._kept}, {*self._cancelled}
        return copy


def _ahead(row: Scheduled, now_ms: int) -> Scheduled | None:
    """The action at its first instant after now; None if it has passed."""
    if row.period_ms is None:
        return row if row.at_ms > now_ms else None
    periods = max(0, (now_ms - row.first_ms) // row.period_ms + 1)
    return replace(row, at_ms=row.first_ms + periods * row.period_ms)


def due_ms(when: Instant, now_ms: int) -> int:
    """The instant of `when`; a time of the day is the next one in UTC. Raises `ValueError` for one that has passed."""
    found = _TIME.fullmatch(when) if isinstance(when, str) else None
    if found is not None:
        hours, minutes, seconds = (int(part or 0) for part in found.groups())
        at_ms = now_ms - now_ms % _DAY_MS + ((hours * 60 + minutes) * 60 + seconds) * 1_000
        return at_ms if at_ms > now_ms else at_ms + _DAY_MS
    try:
        at_ms = instant_ms(when, clamp=True)
    except ValueError as error:
        raise ArgumentError(f'{error}; or a time of the day, such as "12:00"') from None
    if not now_ms <= at_ms <= LAST_MS:
        is_now = f"it is {to_iso(now_ms)}, and time ends with the year 2999"
        shown = to_iso(at_ms) if 0 < at_ms < MAX_INSTANT_MS else quoted(when)
        raise ArgumentError(f"{shown} has passed, or is after the end of time: {is_now}")
    return at_ms


def period_ms(period: Span) -> int:
    """A period in milliseconds, at least one. Raises `ValueError`."""
    return span_from("period", period, least_ms=1)
