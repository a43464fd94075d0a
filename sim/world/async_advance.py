"""Walks: time moved from event to event by somebody who waits for the callbacks that go out on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leyden.world.clock import Fired

if TYPE_CHECKING:
    from leyden.world.world import World


async def advance_async(
    world: World, until_ms: int | None = None, done: Callable[[], bool] = lambda: False
) -> tuple[list[Fired], bool]:
    """Run what is due up to `until_ms` (None: until nothing is ahead), or until `done()`; what fired, and whether done.

    Time does not move on before every callback that was sent outside has been answered. Those of one instant are under
    way together, and their answers are told in the order of sending: a receiver's speed changes nothing in the world.

    Raises `StorageUnavailable` when the disk refuses an event or an answer.
    """
    fired: list[Fired] = []
    settled = False
    with world.transport.responses_in_order():
        while True:
            event = None
            with world.lock:
                world.transport.flush_responses()
                clock = world.clock
                due = clock.next_due()
                over = done()
                ended = due is None or (until_ms is not None and due > until_ms)
                if over or (ended and settled):
                    if until_ms is not None and not over:
                        fired += clock.advance_to(until_ms)
                    world.keep_time()
                    return fired, over
                if not ended and (settled or (due is not None and due <= clock.now())):
                    event = clock.step()
            if event is not None:
                fired.append(event)
                settled = False
            else:
                await world.wait_for_responses()
                settled = True
