"""One ASGI application over several worlds: the API key of a request selects its world."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.types import Message, Receive, Scope, Send

from leyden.devserver.console.console import DEFAULT_KEY, DOCS_MODULE, DOCS_SUFFIX, console, is_console_path
from leyden.devserver.health import PATHS as HEALTH_PATHS
from leyden.devserver.health import health_response
from leyden.devserver.ignored_reports import IgnoredReports
from leyden.devserver.request_log.recording import SentMessages
from leyden.devserver.request_log.stream import EventStreams
from leyden.devserver.sandboxes.event_runner import EventRunner
from leyden.devserver.sandboxes.operations import ttl_text
from leyden.devserver.sandboxes.registry import SandboxRegistry, ServedSandbox
from leyden.devserver.sandboxes.removal import free
from leyden.devserver.sandboxes.routing import below_url, needs_key, route
from leyden.devserver.sandboxes.server_control import FORK_PATH, SandboxSettings, ServerControl
from leyden.devserver.server_responses import LINK_ENDED, failure, respond_lnurl_error
from leyden.errors import ClosedError
from leyden.server.app import PublicPage
from leyden.server.errors import ContractError, NotFound, SemanticConflict, StorageUnavailable
from leyden.server.http.hosts import HostPolicy
from leyden.server.http.limits.request_budget import RequestBudget
from leyden.server.http.pipeline import WORK_TURN, send_problem
from leyden.server.page_scripts import PAGE_SCRIPTS, PageScripts
from leyden.server.system.clock import elapsed_ns
from leyden.server.system.work_slices import Turns, WorkSlices
from leyden.server.system.work_threads import run_in_thread
from leyden.world.components import key_header
from leyden.world.concurrency.present_run import respond
from leyden.world.request_log import LogBudget
from leyden.world.world import World

if TYPE_CHECKING:
    from leyden.devserver.control.copies import ReadState

log = logging.getLogger("leyden")

_POLL_S, _SYNC_POLL_S = 0.02, 0.25


class MultiTenantApp:
    """An ASGI application over worlds, by their API keys. A key opens its own world and no other.

    A request without a known key goes to the first world, which rejects it; a request that needs no key (LNURL) goes to
    the world that has the resource of its path. Events that are due run after each request, and on a live clock when
    they become due. An event that fails because the disk is full stays due and is tried again twice a second. An
    ignored field is logged once for each operation and hint. The console is served if the worlds have a control plane.

    `hosts` are names by which the server is reached besides `localhost`: a request for another name gets 421, and one
    from a page of another origin 403, unless it needs no key, or the page is one of `pages`, which are names and URLs.

    `sync_clock` returns real milliseconds. If it is given, each store is asked four times a second whether it has to be
    synced to the disk (durability `interval`). `clock_change_ms` returns by how many milliseconds the system clock was
    set since the last call; a change is noted in every world whose clock runs. `key_refusal` returns why the server
    does not issue an API key that no world of it has, or None. `lnurl_budget` bounds the requests to LNURL that have no
    valid API key.

    `sandboxes` creates further worlds over HTTP (`leyden.devserver.sandboxes`). The requests below the URL of one go to
    it. Those with a key that belongs to one that ended, or to another one, get 401. `/healthz` and `/readyz` need no
    key, and are answered for every host.
    """

    def __init__(
        self,
        worlds: Mapping[str, World],
        *,
        sync_clock: Callable[[], int] | None = None,
        hosts: Iterable[str] = (),
        pages: Collection[str] = (),
        clock_change_ms: Callable[[], int] | None = None,
        key_refusal: Callable[[str], str | None] = lambda _: None,
        lnurl_budget: RequestBudget | None = None,
        sandboxes: SandboxSettings | None = None,
    ) -> None:
        self._registry = registry = SandboxRegistry(worlds, key_refusal)
        self._first = registry.first
        self._header = self._first.service.pipeline.api_key_header
        self._hosts = HostPolicy(hosts, self._needs_key, pages)
        self._has_console = self._first.config.control is not None
        self._events = EventRunner(registry, self.remove_sandbox, clock_change_ms)
        self.run_due_now = self._events.run_due_now
        self._server_control = None if sandboxes is None else ServerControl(sandboxes, registry, self, self._time_s)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lnurl_budget = lnurl_budget
        lnurl = [one for one in self._first.config.contract.operations.values() if one.errors_as == "lnurl"]
        self._lnurl_prefixes = tuple({operation.path.partition("{")[0] for operation in lnurl})
        self._lnurl_headers = [] if not lnurl else [*lnurl[0].success.constants]
        self._sync_clock = sync_clock
        self._health_paths = HEALTH_PATHS - self._first.config.contract.by_path().keys()
        self._starting, self._closing = set[asyncio.Task[None]](), set[asyncio.Task[None]]()
        self._token_texts = () if sandboxes is None else sandboxes.access.secret_texts
        self._locks: dict[object, asyncio.Lock] = {}
        self._turns = Turns()
        self._before_events: dict[asyncio.Task[Any] | None, list[Callable[[], None]]] = {}
        self._ignored, self._contract_errors = IgnoredReports(), set[str]()  # those that were logged
        self._log_budget, self._streams = LogBudget(), EventStreams()
        self.listen = self._streams.listen
        for world in registry:
            self._attach(world)

    def _attach(self, world: World) -> None:
        world.attach(self)
        world.request_log.share(self._log_budget)

    def name_taken(self, user: str, world: World) -> bool:
        """Whether the lightning address is in use in the world, or in one that shares its names."""
        return self._registry.name_taken(user, world)

    def key_refusal(self, key: str) -> str | None:
        """Why the server does not issue this API key, or None."""
        return self._registry.key_refusal(key)

    def key_issued(self, key: str, world: World) -> None:
        """From now on requests with the key go to the world."""
        self._registry.key_issued(key, world)

    def responded(self, world: World) -> None:
        """A response from the network was recorded in the world."""
        self._events.responded(world)

    @property
    def sandbox_count(self) -> int:
        """The number of sandboxes that were created over HTTP and have not ended."""
        return len(self._registry)

    def sandbox_of_id(self, sandbox_id: str) -> ServedSandbox | None:
        """The sandbox that was created over HTTP, or None."""
        return self._registry.of_id(sandbox_id)

    def add_sandbox(self, sandbox: ServedSandbox) -> None:
        """Serve a sandbox that was created over HTTP."""
        self._attach(sandbox.world)
        self._registry.add(sandbox)
        self._events.watch(sandbox)

    def remove_sandbox(self, sandbox: ServedSandbox, why: str = "") -> None:
        """End a sandbox, and refuse what waits for it. By default its time to live is over."""
        self._registry.remove(sandbox, why or ttl_text(sandbox))
        self._events.forget(sandbox)
        self._locks.pop(sandbox.world, None)
        sandbox.world.end()
        sandbox.world.request_log.close()
        self._start(free(sandbox))
        self._streams.end(sandbox.world)

    def sandbox_restored(self, sandbox: ServedSandbox) -> None:
        """The sandbox returned to an earlier state."""
        self._events.watch(sandbox)

    async def fork(self, world: World, state: ReadState, rate: float, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Serve a new sandbox in a state of the world, as its fork. Raises `SemanticConflict` where no sandboxes are
        created."""
        if self._server_control is None:
            raise SemanticConflict("this server creates no sandboxes: use `leyden serve`, or Sandbox.serve() in Python")
        return await self._server_control.copies.fork(world, state, rate, fields)

    def run_in_background(self, work: Callable[[], None]) -> None:
        """Run `work()` in a thread, and do not wait for its end."""
        self._start(run_in_thread(work))

    def _start(self, ending: Coroutine[Any, Any, None]) -> None:
        self._closing.add(task := asyncio.get_running_loop().create_task(ending))
        task.add_done_callback(self._closing.discard)

    def report_ignored(self, text: str, world: World) -> str:
        """Log the text about an ignored field once. Returns it without secrets."""
        return self._ignored.add(text, world)

    def runs_here(self) -> bool:
        """Whether the caller runs in the server's event loop."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def slices(self) -> WorkSlices:
        """A division of long work on the server's event loop."""
        return WorkSlices(turns=self._turns)

    run_in_thread = staticmethod(run_in_thread)

    def before_events(self, call: Callable[[], None]) -> None:
        """Call this before the events run that the present request made due, or when the request ends."""
        self._before_events.setdefault(asyncio.current_task(), []).append(call)

    def turn(self, world: object) -> asyncio.Lock:
        """Enter to advance the clock of a world: one advance after another."""
        return self._locks.setdefault(world, asyncio.Lock())

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

    async def until(self, world: World, done: Callable[[], bool], timeout_s: float) -> None:
        """Wait until `done()` returns true, for at most `timeout_s` real seconds. What a running clock of the world
        reaches runs at the start and at each look: the server of a fixture has no task that does it.

        Returns at once outside the server's event loop, as in a notebook that serves its sandbox in a thread: nothing
        could happen there during the wait.
        """
        if not self.runs_here():
            return
        await self._events.run_live(world)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not done():
                    await asyncio.sleep(_POLL_S)
                    await self._events.run_live(world)

    def is_for_others(self, scope: Scope) -> bool:
        """Whether a request neither reads nor changes the first world: it is one to another sandbox, to the server, or
        for a fork."""
        own, sandbox_id = below_url(self._registry, scope)
        control = self._server_control
        if control is None or own["path"] == FORK_PATH or (sandbox_id is None and control.has_path(own["path"])):
            return control is not None
        world, refusal = route(self._registry, own, sandbox_id, key_header(self._first.service, own["path"]))
        return world is not self._first or refusal is not None

    def _default_key(self) -> str:
        # A key that was configured is a secret: the pages, which need no key, must not show it.
        return DEFAULT_KEY if self._registry.has_valid_key(DEFAULT_KEY.encode()) else ""

    def _console_page(self, path: str) -> PublicPage | None:
        page = console(path, self._default_key(), self._header.decode())
        return None if page is None else PublicPage(lambda _: page, self._first.service.pipeline)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._lifespan(receive, send)
        if self._loop is None:  # a server that had started before; a request in process has no loop
            with contextlib.suppress(RuntimeError):
                self._loop = asyncio.get_running_loop()
        try:
            await self._respond(scope, receive, send)
        except (ContractError, OSError) as error:  # a document is compiled on its first use
            problem = failure(error, self._contract_errors)
            await send_problem(send, problem, self._first.service.pipeline.next_request_id())

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        registry, control = self._registry, self._server_control
        if scope["path"] in self._health_paths:  # before the hosts: a probe may send any, and the response names none
            return await health_response(scope["path"], scope["method"], self._not_ready)(scope, receive, send)
        scope[WORK_TURN] = self._turns.take
        scope, sandbox_id = below_url(registry, scope)
        refusal = self._hosts.refusal(scope)
        if refusal is not None:
            return await send_problem(send, refusal, self._first.service.pipeline.next_request_id())
        path = scope["path"]
        if self._has_console and path.endswith(DOCS_SUFFIX):
            scope = {**scope, PAGE_SCRIPTS: PageScripts(DOCS_MODULE, {"leyden-key": self._default_key()})}
        if control is not None and sandbox_id is None and control.has_path(path):
            return await control.respond(scope, receive, send)
        if path.startswith(self._lnurl_prefixes) and (reason := self._over_budget(scope)) is not None:
            return await respond_lnurl_error(scope, receive, send, reason, self._lnurl_headers)
        if self._has_console and is_console_path(path) and (page := self._console_page(path)) is not None:
            return await page(scope, receive, send)
        world, refusal = route(registry, scope, sandbox_id, key_header(self._first.service, path))
        if control is not None:
            refusal = control.misdirected(scope, sandbox_id) or refusal
        if refusal is not None:
            is_link = path.startswith(self._lnurl_prefixes) and scope["method"] in {"GET", "HEAD"}
            if sandbox_id is None or not is_link:
                return await send_problem(send, refusal, self._first.service.pipeline.next_request_id())
            named = registry.of_id(sandbox_id)
            if named is None:
                return await respond_lnurl_error(scope, receive, send, LINK_ENDED, self._lnurl_headers)
            world = named.world  # a payment link needs no key, so a wrong one does not matter
        sandbox = registry.of_world(world)
        if sandbox is None:
            return await self._respond_from(world, scope, receive, send)
        sandbox.requests_in_progress += 1
        try:
            await self._respond_from(world, scope, receive, send)
        except ClosedError as error:  # it ended while the request arrived
            refusal = route(registry, scope, sandbox_id, key_header(self._first.service, path)).refusal
            refusal = NotFound(str(error)) if refusal is None else refusal
            await send_problem(send, refusal, self._first.service.pipeline.next_request_id())
        finally:
            sandbox.requests_in_progress -= 1
            sandbox.used_at_s = self._time_s()

    async def _respond_from(self, world: World, scope: Scope, receive: Receive, send: Send) -> None:
        ended, started_ns = False, elapsed_ns()
        sent = SentMessages(scope)

        async def send_after_events(message: Message) -> None:
            nonlocal ended
            try:
                sent.add(message)
                if message["type"] == "http.response.body" and not message.get("more_body"):
                    ended = True
                    self._call_before_events()
                    await self._events.run_due_now(world)
            finally:
                await send(message)

        try:
            await respond(world, scope, receive, send_after_events)
            if not ended:  # a service fault lost the response
                self._call_before_events()
                await self._events.run_due_now(world)
        finally:
            self._call_before_events()
            sent.record(world, scope, started_ns)

    def _call_before_events(self) -> None:
        if self._before_events:
            for call in self._before_events.pop(asyncio.current_task(), ()):
                call()

    @property
    def secret_texts(self) -> tuple[str, ...]:
        """The admin token and the keys of all worlds: no log shows them."""
        return *self._token_texts, *self._registry.key_texts

    @property
    def lnurl_refused(self) -> int:
        """The number of requests to LNURL that were refused because of the budget."""
        return 0 if self._lnurl_budget is None else self._lnurl_budget.refused

    def _over_budget(self, scope: Scope) -> str | None:
        budget = self._lnurl_budget
        if budget is None or scope["method"] not in {"GET", "HEAD"}:
            return None
        if any(name == self._header and self._registry.has_valid_key(value) for name, value in scope["headers"]):
            return None
        client = scope.get("client")
        reason = budget.refusal(client[0] if client else "")
        if reason is not None and budget.refused == 1:
            log.warning("a request to LNURL was refused: %s (more are counted)", reason)
        return reason

    def _needs_key(self, path: str) -> bool:
        control = self._server_control
        return (control is not None and control.needs_token(path)) or needs_key(self._first.config, path)

    def _not_ready(self) -> str | None:
        """Why the server does not do its work, or None."""
        self._starting = {task for task in self._starting if not task.done()}
        if self._starting:
            return "what became due before the start is running"
        return None if self._events.all_run else "due events fail: the log of the server says why"

    @staticmethod
    def _time_s() -> float:
        return asyncio.get_running_loop().time()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self._loop = asyncio.get_running_loop()
        # What became due while nothing was served: its first slice before the first request.
        tasks = [asyncio.create_task(self._events.catch_up(world)) for world in self._registry]
        self._starting.update(tasks)
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(self._events.run()))
        if self._sync_clock is not None:
            tasks.append(asyncio.create_task(self._sync(self._sync_clock)))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for world in self._registry:
            await world.close_external_transport()
        await asyncio.gather(*self._closing)
        await send({"type": "lifespan.shutdown.complete"})

    async def _sync(self, real_ms: Callable[[], int]) -> None:
        reported = ""
        while True:
            await asyncio.sleep(_SYNC_POLL_S)
            for world in self._registry.configured:
                try:
                    if await asyncio.to_thread(world.store.maybe_sync, real_ms()):
                        world.store.note_flushed()
                        reported = ""
                except StorageUnavailable as refusal:
                    if reported != refusal.detail:
                        log.error("the latest responses may be lost in a power failure: %s", refusal.detail)
                    reported = refusal.detail
