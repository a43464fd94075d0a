"""Errors of a move of time that ends early: the disk refused an event, or a reset ended the run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from leyden.errors import ClockError
from leyden.repr_tables import counted
from leyden.server.errors import StorageUnavailable
from leyden.server.timestamps import to_iso
from leyden.world.time.clock import VirtualClock


@contextmanager
def with_reached_instant(clock: VirtualClock) -> Iterator[None]:
    """A context around a move. It adds to a `StorageUnavailable` the instant at which the clock stands and the number
    of events that the move ran before. These events are stored and stay."""
    before = clock.event_count
    try:
        yield
    except StorageUnavailable as refusal:
        ran = clock.event_count - before
        events = "" if not ran else f", after {counted(ran, 'event')} of this move, which stay"
        raise StorageUnavailable(
            f"{refusal.detail}; the clock stands at {to_iso(clock.last_seen)}{events}",
            field_errors=refusal.field_errors,
            headers=refusal.headers,
        ) from refusal


def check_same_run(present: VirtualClock | None, moved: VirtualClock, event_count: int | None = None) -> None:
    """Raise `ClockError` when the moved clock is no longer the clock of its world: a reset or a restore ended its run,
    or the world has ended (None). `event_count` is the number of events that the move ran."""
    ran = "" if event_count is None else f", after {event_count} of its events"
    if present is None:
        raise ClockError(f"the end of the sandbox ended this move of time{ran}: create another one")
    if moved is not present:
        raise ClockError(
            f"a reset or a restore ended this move of time{ran}: it was of the former run, so move time again"
        )
