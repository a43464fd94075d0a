"""The host: one server, many worlds. The key on a request says whose desk it is put on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

from starlette.types import Receive, Scope, Send

from leyden.devserver.console.console import CONSOLE_PATH, console
from leyden.server.app import PublicPage
from leyden.server.errors import LeydenError, StorageUnavailable
from leyden.world.world import World

log = logging.getLogger("leyden")

_LOOK_AGAIN_S = 0.5
_LOOK_CLOSELY_S = 0.02
_SYNC_AGAIN_S = 0.25


class MultiTenantApp:
    """An ASGI application over worlds, by their keys. A key opens its own world and no other.

    Requests without a known key go to the first world, whose door refuses them; those that need none (LNURL) to the
    world that has what the path names. After each request whatever is due at once is run, and a live clock is followed.
    What cannot be done because the disk is full stays due, and is tried again twice a second.
    Where the worlds have levers there is a console, too.

    `sync_by` tells real milliseconds; given, the stores are asked several times a second whether it is time for them to
    reach the disk (policy `interval`).
    """

    def __init__(self, worlds: Mapping[str, World], *, sync_by: Callable[[], int] | None = None) -> None:
        self._worlds = {key.encode("latin-1", "replace"): world for key, world in worlds.items()}
        self._first = next(iter(self._worlds.values()))
        self._header = self._first.service.pipeline.api_key_header
        self._console = (
            None if self._first.config.control is None else PublicPage(console, self._first.service.pipeline)
        )
        self._moved = asyncio.Event()
        self._looks_at_s = 0.0  # on the loop's clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sync_by = sync_by
        self._troubles: dict[World, str] = {}
        for key, world in worlds.items():
            if any(
                other.service.projects.project_for_key(key) is not None
                for other in worlds.values()
                if other is not world
            ):
                raise LeydenError("a key opens another project of this server already: give each project its own")
            world.attach(self)

    def name_taken(self, user: str) -> bool:
        """Whether any world of this server has given the lightning address away."""
        return any(world.service.static_charges.by_user(user) is not None for world in self._worlds.values())

    def key_taken(self, key: str) -> bool:
        """Whether the key was ever given to a world of this server."""
        worlds = self._worlds
        return key.encode("latin-1", "replace") in worlds or any(
            world.service.projects.was_issued(key) for world in worlds.values()
        )

    async def until(self, done: Callable[[], bool], timeout_s: float) -> None:
        """Wait until `done()`, for real seconds at most. Whoever asks from outside the server's own loop, as a notebook
        does that serves its sandbox beside it, is not kept waiting: there nothing else could happen meanwhile."""
        try:
            waits = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            waits = False
        if not waits:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not done():
                    await asyncio.sleep(_LOOK_CLOSELY_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._live(receive, send)
        if scope["path"] == CONSOLE_PATH and self._console is not None:
            return await self._console(scope, receive, send)
        world = self._world_of(scope)
        await world.app(scope, receive, send)
        wait_s = world.wait_after_request()
        if wait_s == 0 or world.transport.has_pending_responses:
            self._catch_up(world)
            wait_s = world.real_seconds_until_due()
        # Most requests wake nobody: the follower looks again before the next event is due.
        if self._troubles or (wait_s is not None and asyncio.get_running_loop().time() + wait_s < self._looks_at_s):
            self._moved.set()
        return None

    def _world_of(self, scope: Scope) -> World:
        if len(self._worlds) == 1:
            return self._first
        for name, value in scope["headers"]:
            if name != self._header:
                continue
            if value in self._worlds:
                return self._worlds[value]
            key = value.decode("latin-1")  # one that a project changed to since
            for world in self._worlds.values():
                if world.service.projects.project_for_key(key) is not None:
                    return world
        steps = scope["path"].split("/")
        for world in self._worlds.values():
            statics = world.service.static_charges
            if any(statics.static_charges.row(step) is not None or statics.by_user(step) for step in steps):
                return world
        return self._first

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self._loop = asyncio.get_running_loop()
        for world in self._worlds.values():
            self._catch_up(world)  # what fell due while nobody served, before the first request is answered
        tasks = [asyncio.create_task(self._follow())]
        if self._sync_by is not None:
            tasks.append(asyncio.create_task(self._sync(self._sync_by)))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for world in self._worlds.values():
            await world.close_external_transport()
        await send({"type": "lifespan.shutdown.complete"})

    async def _follow(self) -> None:
        """Wake when the first live world's next event is due, and whenever a request may have changed which that is."""
        while True:
            self._moved.clear()
            waits = [wait for world in self._worlds.values() if (wait := world.real_seconds_until_due()) is not None]
            if self._troubles:
                await asyncio.sleep(_LOOK_AGAIN_S)
            else:
                wait_s = min([*waits, _LOOK_AGAIN_S])
                self._looks_at_s = asyncio.get_running_loop().time() + wait_s
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._moved.wait(), wait_s)
            for world in self._worlds.values():
                if world.clock.rate or world.transport.has_pending_responses or world in self._troubles:
                    self._catch_up(world)

    def _catch_up(self, world: World) -> None:
        """Run what is due. Whatever fails stays due, says so once, and stops nobody else."""
        try:
            world.catch_up()
        except StorageUnavailable as refusal:
            if self._troubles.get(world) != refusal.detail:
                log.error("what is due has to wait for the disk: %s", refusal.detail)
            self._troubles[world] = refusal.detail
        except Exception as error:
            if self._troubles.get(world) != repr(error):
                log.exception("what is due failed on a defect of Leyden's own, and will be tried again")
            self._troubles[world] = repr(error)
        else:
            self._troubles.pop(world, None)

    async def _sync(self, wall_ms: Callable[[], int]) -> None:
        said = ""
        while True:
            await asyncio.sleep(_SYNC_AGAIN_S)
            for world in self._worlds.values():
                try:
                    if await asyncio.to_thread(world.store.maybe_sync, wall_ms()):
                        said = ""
                except StorageUnavailable as refusal:
                    if said != refusal.detail:
                        log.error("what was answered may not outlive a power cut: %s", refusal.detail)
                    said = refusal.detail
