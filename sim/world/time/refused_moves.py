"""What a move of time says that the disk refused: where the clock stands, and what of the move has happened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
