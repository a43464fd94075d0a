"""Long work beside the event loop of a server: with values that nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from leyden.world.world import World

Result = TypeVar("Result")


async def run_apart(world: World, work: Callable[[], Result]) -> Result:
    """The result of `work()`. For a request to the server of the world it runs in a thread, and other requests are
    answered meanwhile. It may use neither this world nor anything else that a request changes."""
    server = world.server
    if server is not None and server.runs_here():
        return await server.run_in_thread(work)
    return work()
