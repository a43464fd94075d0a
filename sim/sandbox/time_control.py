"""Moving time: nothing happens in a sandbox until somebody says how far."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any

from leyden.lab.action_log import History
from leyden.server.timestamps import parse_duration, parse_iso, to_iso
from leyden.world.clock import Fired
from leyden.world.world import World

Span = str | float | timedelta
Instant = str | int | datetime


def instant_ms(when: Instant) -> int:
    """An instant in any spelling as milliseconds. Raises `TypeError` or `ValueError` for what is none."""
    if isinstance(when, bool) or not isinstance(when, (str, int, datetime)):
        raise TypeError(
            f"{when!r} is not an instant: give an ISO 8601 text, a datetime with a zone, or epoch milliseconds"
        )
    if isinstance(when, datetime):
        return parse_iso(when.isoformat())
    return parse_iso(when) if isinstance(when, str) else when


class Happened(list[Fired]):
    """What fired, in order: a list that shows itself in a few lines however much it was."""

    def __repr__(self) -> str:
        lines = [f"  {to_iso(one.at_ms)} {one.kind} {one.key}" for one in self[:5]]
        more = [f"  and {len(self) - 5} more"] if len(self) > 5 else []
        return "\n".join([f"{len(self)} happened" + ":" * bool(lines), *lines, *more])


class Moving:
    """The part of a sandbox that holds its time."""

    world: World
    history: History

    @property
    def now(self) -> str:
        """The sandbox's present, ISO 8601 in UTC."""
        with self.world.exclusive():
            return to_iso(self.world.clock.now())

    def run(self, until: Span = "idle") -> Happened:
        """Run until nothing is left to happen (`idle`), through the next instant (`next_event`), or for a span (`10m`).

        Returns what fired, in order.
        """
        if until == "idle" and self.world.clock.rate:
            return Happened(self.history.catch_up(self.world))
        if until == "idle":
            with self._moving("idle"):
                return Happened(self.world.move(lambda clock: clock.run_until_idle()))
        if until == "next_event":
            with self._moving("next_event"):
                return Happened(self.world.move(lambda clock: clock.run_until_next_event()))
        return self.advance(until)

    def advance(self, by: Span) -> Happened:
        """Move time on by a span (`"5m"`, seconds, `timedelta`) and return what fired, in order."""
        span_ms = parse_duration(by)
        with self._moving("advance", by_ms=span_ms):
            return Happened(self.world.move(lambda clock: clock.advance(span_ms)))

    def advance_to(self, when: Instant, offset: Span = "0s") -> Happened:
        """Move time to an instant (plus `offset`, which may be negative); one that has passed changes nothing."""
        target = instant_ms(when) + parse_duration(offset)
        with self._moving("advance_to", to_ms=target):
            return Happened(self.world.move(lambda clock: clock.advance_to(target)))

    def step(self) -> Fired | None:
        """Run the one next event, wherever in time it stands."""
        with self._moving("step"):
            return self.world.move(lambda clock: clock.step())

    def _moving(self, kind: str, **facts: Any) -> AbstractContextManager[dict[str, Any]]:
        return self.history.doing(self.world, kind, **facts)
