"""One ASGI application over several worlds: the API key of a request selects its world."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import orjson
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import Message, Receive, Scope, Send

from leyden.devserver.clock_changes import change_text, note
from leyden.devserver.console.console import CONSOLE_PATH, DEFAULT_KEY, console
from leyden.server.app import PublicPage
from leyden.server.contract.types import Operation
from leyden.server.errors import ContractError, InternalError, LeydenError, ServerStopping, StorageUnavailable
from leyden.server.http.hosts import HostPolicy
from leyden.server.http.pipeline import send_problem
from leyden.server.http.request_budget import RequestBudget
from leyden.server.system.work_slices import WorkSlices
from leyden.world.async_moves import catch_up
from leyden.world.world import World

log = logging.getLogger("leyden")

_RECHECK_S = 0.5
_POLL_S = 0.02
_SYNC_POLL_S = 0.25
_MAX_IGNORED = 100


class MultiTenantApp:
    """An ASGI application over worlds, by their API keys. A key opens its own world and no other.

    A request without a known key goes to the first world, which rejects it; a request that needs no key (LNURL) goes to
    the world that has the resource of its path. After each request the events that are due run, and so do those that
    become due while a clock runs. An event that fails because the disk is full stays due and is tried again twice a
    second. A field that the requests of an operation have and that is ignored is logged once. The console is served if
    the worlds have a control plane.

    `hosts` are names by which the server is reached besides `localhost`: a request for another name gets 421, and one
    from a page of another host 403, unless it needs no key.

    `sync_clock` returns real milliseconds. If it is given, each store is asked four times a second whether it has to be
    synced to the disk (durability `interval`). `clock_change_ms` returns by how many milliseconds the system clock was
    set since the last call; a change is noted in every world whose clock runs. `key_kept` returns whether a key belongs
    to a project that is kept beside these worlds and not served. `lnurl_budget` bounds the requests to LNURL that have
    no valid API key.
    """

    def __init__(
        self,
        worlds: Mapping[str, World],
        *,
        sync_clock: Callable[[], int] | None = None,
        hosts: Iterable[str] = (),
        clock_change_ms: Callable[[], int] | None = None,
        key_kept: Callable[[str], bool] = lambda _: False,
        lnurl_budget: RequestBudget | None = None,
    ) -> None:
        self._worlds = {key.encode("latin-1", "replace"): world for key, world in worlds.items()}
        self._first = next(iter(self._worlds.values()))
        self._header = self._first.service.pipeline.api_key_header
        self._hosts = HostPolicy(hosts, self._needs_key)
        self._console = (
            None if self._first.config.control is None else PublicPage(self._console_page, self._first.service.pipeline)
        )
        self._schedule_changed = asyncio.Event()
        self._next_check_at_s = 0.0  # on the event loop's clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lnurl_budget = lnurl_budget
        lnurl = [operation for operation in self._first.config.contract.operations.values() if _is_lnurl(operation)]
        self._lnurl_prefixes = tuple({operation.path.partition("{")[0] for operation in lnurl})
        self._lnurl_headers = [] if not lnurl else [*lnurl[0].responses[200].constants]
        self._sync_clock = sync_clock
        self._clock_change_ms = clock_change_ms
        self._key_kept = key_kept
        self._turns: dict[object, asyncio.Lock] = {}
        self._before_events: dict[asyncio.Task[Any] | None, list[Callable[[], None]]] = {}
        self._errors: dict[World, str] = {}
        self._ignored: set[str] = set()
        for key, world in worlds.items():
            if any(
                other.service.projects.project_for_key(key) is not None
                for other in worlds.values()
                if other is not world
            ):
                raise LeydenError("a key belongs to another project of this server already: give each project its own")
            world.attach(self)

    def name_taken(self, user: str) -> bool:
        """Whether any world of this server uses the lightning address."""
        return any(world.service.static_charges.by_user(user) is not None for world in self._worlds.values())

    def key_taken(self, key: str) -> bool:
        """Whether the key was ever issued in a world of this server, or in one that is kept beside them."""
        worlds = self._worlds
        return (
            key.encode("latin-1", "replace") in worlds
            or any(world.service.projects.was_issued(key) for world in worlds.values())
            or self._key_kept(key)
        )

    def report_ignored(self, text: str) -> None:
        """Log the text about an ignored field: at most a hundred different texts, each once."""
        if text not in self._ignored and len(self._ignored) < _MAX_IGNORED:
            self._ignored.add(text)
            log.warning("%s", text)

    def runs_here(self) -> bool:
        """Whether the caller runs in the server's event loop."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def slices(self) -> WorkSlices:
        """A division of long work on the server's event loop."""
        return WorkSlices()

    def before_events(self, call: Callable[[], None]) -> None:
        """Call this before the events run that the present request made due, or when the request ends."""
        self._before_events.setdefault(asyncio.current_task(), []).append(call)

    def turn(self, world: object) -> asyncio.Lock:
        """Enter to advance the clock of a world: one advance after another."""
        return self._turns.setdefault(world, asyncio.Lock())

    async def wait(self, waiting: Awaitable[object], is_over: Callable[[], bool]) -> None:
        """Wait for an awaitable in the server's event loop, but no longer than until `is_over()`, which is asked fifty
        times a second."""
        task = asyncio.ensure_future(waiting)
        try:
            while not (task.done() or is_over()):
                await asyncio.wait([task], timeout=_POLL_S)
            if task.done():
                task.result()
        finally:
            task.cancel()

    async def until(self, done: Callable[[], bool], timeout_s: float) -> None:
        """Wait until `done()` returns true, for at most `timeout_s` real seconds.

        Returns at once outside the server's event loop, as in a notebook that serves its sandbox in a thread: nothing
        could happen there during the wait.
        """
        if not self.runs_here():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not done():
                    await asyncio.sleep(_POLL_S)

    def _console_page(self) -> Response:
        # A key that was configured is a secret: the page, which needs no key, must not show it.
        keys = (world.service.projects.project_for_key(DEFAULT_KEY) for world in self._worlds.values())
        return console(DEFAULT_KEY if any(keys) else "")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._lifespan(receive, send)
        if self._loop is None:  # a server that had started before; a request in process has no loop
            with contextlib.suppress(RuntimeError):
                self._loop = asyncio.get_running_loop()
        try:
            await self._respond(scope, receive, send)
        except ContractError as error:  # the control plane's document is compiled on its first use
            await send_problem(send, InternalError(str(error)), self._first.service.pipeline.next_request_id())

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._hosts.refusal(scope)
        if refusal is not None:
            return await send_problem(send, refusal, self._first.service.pipeline.next_request_id())
        if scope["path"].startswith(self._lnurl_prefixes) and (reason := self._over_budget(scope)) is not None:
            return await _respond_lnurl_error(scope, receive, send, reason, self._lnurl_headers)
        if scope["path"] == CONSOLE_PATH and self._console is not None:
            return await self._console(scope, receive, send)
        world = self._world_of(scope)
        ended = False

        async def send_after_events(message: Message) -> None:
            nonlocal ended
            try:
                if message["type"] == "http.response.body" and not message.get("more_body"):
                    ended = True
                    self._call_before_events()
                    await self._run_due_now(world)
            finally:
                await send(message)

        try:
            await world.app(scope, receive, send_after_events)
            if not ended:  # a service fault lost the response
                self._call_before_events()
                await self._run_due_now(world)
        except asyncio.CancelledError:
            return await _respond_stopping(send)
        finally:
            self._call_before_events()
        return None

    def _call_before_events(self) -> None:
        if self._before_events:
            for call in self._before_events.pop(asyncio.current_task(), ()):
                call()

    async def _run_due_now(self, world: World) -> None:
        """Before a response ends: run what its request made due on a paused clock, so that the client's next request
        comes after it. What a live clock reaches, another task runs."""
        wait_s = world.wait_after_request()
        if world.transport.has_pending_responses:
            wait_s = 0
        if wait_s == 0 and not world.clock.rate:
            await self._catch_up(world)
            wait_s = None
        # Most requests need no wake-up, because `_run_due_events` checks again before the next event is due.
        if self._errors or (wait_s is not None and asyncio.get_running_loop().time() + wait_s < self._next_check_at_s):
            self._schedule_changed.set()

    @property
    def lnurl_refused(self) -> int:
        """How many requests to LNURL were refused because of the budget."""
        return 0 if self._lnurl_budget is None else self._lnurl_budget.refused

    def _over_budget(self, scope: Scope) -> str | None:
        budget = self._lnurl_budget
        if budget is None or scope["method"] not in {"GET", "HEAD"}:
            return None
        for name, value in scope["headers"]:
            if name == self._header and any(
                world.service.projects.project_for_key(value.decode("latin-1")) for world in self._worlds.values()
            ):
                return None
        client = scope.get("client")
        reason = budget.refusal(client[0] if client else "")
        if reason is not None and budget.refused == 1:
            log.warning("a request to LNURL was refused: %s (more are counted)", reason)
        return reason

    def _needs_key(self, path: str) -> bool:
        config = self._first.config
        contracts = [config.contract] if config.control is None else [config.contract, config.control()]
        return any(
            operation.secured and compile_path(operation.path)[0].match(path)
            for contract in contracts
            for operation in contract.operations.values()
        )

    def _world_of(self, scope: Scope) -> World:
        if len(self._worlds) == 1:
            return self._first
        for name, value in scope["headers"]:
            if name != self._header:
                continue
            if value in self._worlds:
                return self._worlds[value]
            key = value.decode("latin-1")  # perhaps a key that was issued later, or replaced: its own world refuses it
            for world in self._worlds.values():
                if world.service.projects.was_issued(key):
                    return world
        steps = scope["path"].split("/")
        for world in self._worlds.values():
            statics = world.service.static_charges
            if any(statics.static_charges.row(step) is not None or statics.by_user(step) for step in steps):
                return world
        return self._first

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self._loop = asyncio.get_running_loop()
        # What became due while nothing was served: its first slice before the first request.
        tasks = [asyncio.create_task(self._catch_up(world)) for world in self._worlds.values()]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(self._run_due_events()))
        if self._sync_clock is not None:
            tasks.append(asyncio.create_task(self._sync(self._sync_clock)))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for world in self._worlds.values():
            await world.close_external_transport()
        await send({"type": "lifespan.shutdown.complete"})

    async def _run_due_events(self) -> None:
        """Run events when they become due. A request may change which event is next, and then wakes this task."""
        while True:
            self._schedule_changed.clear()
            waits = [wait for world in self._worlds.values() if (wait := world.real_seconds_until_due()) is not None]
            if self._errors:
                await asyncio.sleep(_RECHECK_S)
            else:
                wait_s = min([*waits, _RECHECK_S])
                self._next_check_at_s = asyncio.get_running_loop().time() + wait_s
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._schedule_changed.wait(), wait_s)
            self._note_clock_change()
            for world in self._worlds.values():
                if world.clock.rate or world.transport.has_pending_responses or world in self._errors:
                    await self._catch_up(world)

    def _note_clock_change(self) -> None:
        change_ms = 0 if self._clock_change_ms is None else self._clock_change_ms()
        worlds = [world for world in self._worlds.values() if world.clock.rate]
        if change_ms and worlds:
            text = change_text(change_ms)
            log.warning("%s", text)
            for world in worlds:
                note(world, text)

    async def _catch_up(self, world: World) -> None:
        """Run the due events of a world. One that fails stays due and is logged once; no other world is affected."""
        try:
            await catch_up(world)
        except StorageUnavailable as refusal:
            if self._errors.get(world) != refusal.detail:
                log.error("due events wait for the disk: %s", refusal.detail)
            self._errors[world] = refusal.detail
        except Exception as error:
            if self._errors.get(world) != repr(error):
                log.exception("a due event failed because of a defect in Leyden, and will be tried again")
            self._errors[world] = repr(error)
        else:
            self._errors.pop(world, None)

    async def _sync(self, real_ms: Callable[[], int]) -> None:
        reported = ""
        while True:
            await asyncio.sleep(_SYNC_POLL_S)
            for world in self._worlds.values():
                try:
                    if await asyncio.to_thread(world.store.maybe_sync, real_ms()):
                        reported = ""
                except StorageUnavailable as refusal:
                    if reported != refusal.detail:
                        log.error("the latest responses may be lost in a power failure: %s", refusal.detail)
                    reported = refusal.detail


def _is_lnurl(operation: Operation) -> bool:
    return operation.errors_as == "lnurl"


async def _respond_lnurl_error(
    scope: Scope, receive: Receive, send: Send, reason: str, headers: Iterable[tuple[str, str]]
) -> None:
    """LNURL's own error. The request did not reach a sandbox: it has no entry in a journal."""
    response = Response(
        orjson.dumps({"status": "ERROR", "reason": reason}), headers=dict(headers), media_type="application/json"
    )
    await response(scope, receive, send)


async def _respond_stopping(send: Send) -> None:
    """The server cancels a request that is still in progress some seconds after the signal to stop."""
    detail = "the server stopped before the response: read the resource before you repeat the request"
    with contextlib.suppress(RuntimeError):  # the response had begun
        await send_problem(send, ServerStopping(detail), "")
