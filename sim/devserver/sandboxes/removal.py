"""The memory of a sandbox that was removed."""

from __future__ import annotations

import asyncio

from leyden.devserver.sandboxes.registry import ServedSandbox
from leyden.server.system.work_threads import run_in_thread

_POLL_S = 0.05


async def free(sandbox: ServedSandbox) -> None:
    """Free the memory of a removed sandbox, in a thread, when its last request and its connections have ended."""
    await sandbox.world.close_external_transport()
    while sandbox.requests_in_progress:
        await asyncio.sleep(_POLL_S)
    await run_in_thread(sandbox.world.discard)
