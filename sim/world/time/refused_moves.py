"""What is said of a move of time that ends early: the disk refused it, or a reset ended its run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from leyden.errors import ClockError
from leyden.server.errors import StorageUnavailable
from leyden.server.timestamps import to_iso
from leyden.world.time.clock import VirtualClock


@contextmanager
def telling_where_time_stands(clock: VirtualClock) -> Iterator[None]:
    """Enter around a move: the `StorageUnavailable` that leaves it says at which instant the clock stands and how many
    events the move ran before. These are written and stay."""
    before = clock.event_count
    try:
        yield
    except StorageUnavailable as refusal:
        ran = clock.event_count - before
        events = "" if not ran else f", after {ran} event{'' if ran == 1 else 's'} of this move, which stay"
        raise StorageUnavailable(
            f"{refusal.detail}; the clock stands at {to_iso(clock.last_seen)}{events}",
            field_errors=refusal.field_errors,
            headers=refusal.headers,
        ) from refusal


def check_same_run(present: VirtualClock, moved: VirtualClock, event_count: int | None = None) -> None:
    """Raise `ClockError` when the clock that is moved is not the present one of its world any more: a reset or a
    restore ended its run. `event_count` is how many events the move ran."""
    if moved is not present:
        ran = "" if event_count is None else f", after {event_count} of its events"
        raise ClockError(
            f"a reset or a restore ended this move of time{ran}: it was of the former run, so move time again"
        )
