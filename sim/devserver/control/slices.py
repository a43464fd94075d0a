"""Long work of one operation in slices: other requests are answered in between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from leyden.stepwise import Stepwise
from leyden.world.ports import Slices
from leyden.world.world import World

T = TypeVar("T")


async def in_slices(
    world: World,
    steps: Stepwise[T],
    transaction: Callable[[], AbstractContextManager[object]],
    slices: Slices | None = None,
) -> T | None:
    """The result of the steps, each slice of which is done in one transaction; None after a reset in between. `slices`
    are those of a work of which this is a part."""
    service, slices = world.service, slices or world.slices()
    while world.service is service:
        with transaction():
            try:
                next(steps)
                while not slices.is_over():
                    next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
        await slices.pause()
    return None
