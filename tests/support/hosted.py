"""A server with sandboxes in the running event loop, without a socket: for tests of many clients at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, NamedTuple

import orjson

from leyden.devserver.control.handlers import control_handlers
from leyden.devserver.multi_tenant import MultiTenantApp
from leyden.devserver.sandboxes.admin_access import AdminAccess
from leyden.devserver.sandboxes.factory import SandboxDefaults, SandboxFactory
from leyden.devserver.sandboxes.server_control import SandboxSettings
from leyden.server.callbacks.egress import Egress
from leyden.server.store.store import Store
from leyden.world.config import world_config
from leyden.world.world import World

URL = "http://127.0.0.1:8402"
START_MS = 1_893_456_000_000  # 2030-01-01T00:00:00Z
_NO_HEADERS: Mapping[str, str] = {}


class Answer(NamedTuple):
    """A response: its status, the JSON of its body, its headers."""

    status: int
    body: Any
    headers: dict[str, str]


class _Left(Exception):
    """The client has closed its connection."""


class Hosted:
    """The server. `now_ms` is its real time, which the test sets; ids, keys and seeds are counted.

    `egress` says where callbacks may go, and `keys` how API keys begin.
    `added` is called after each creation.
    """

    def __init__(
        self,
        *,
        token: str | None = None,
        egress: str = "none",
        keys: str = "leyden",
        added: Callable[[Iterable[World]], None] | None = None,
        **defaults: Any,
    ) -> None:
        self.now_ms = START_MS
        numbers = count(1)
        self.factory = SandboxFactory(
            SandboxDefaults(**{"rate": 0.0, "start_ms": START_MS, **defaults}),
            now=lambda: self.now_ms,
            random_seed=lambda: 1_000 + next(numbers),
            egress=lambda: Egress(egress, allow=(), own=()),
        )
        settings = SandboxSettings(
            factory=self.factory,
            access=AdminAccess(token),
            new_id=lambda: f"sbx_{next(numbers):016x}",
            new_key=lambda: f"{keys}_{next(numbers):032x}",
            now_ms=lambda: self.now_ms,
            server_url=URL,
            added=added,
        )
        config = world_config(seed=1, start_ms=START_MS, real_clock=lambda: self.now_ms)
        self.first = World(config, Store.memory(), control_handlers=control_handlers)
        self.app = MultiTenantApp({"leyden": self.first}, sandboxes=settings)

    async def ask(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> Answer:
        """Send one request. A URL of this server is a path, too; a body of bytes that come in parts is sent as they
        come. The client leaves a stream after its first part."""
        path, _, query = target.removeprefix(URL).partition("?")
        sent_headers = {"host": "localhost", **headers}
        if key is not None:
            sent_headers["apikey"] = key
        parts = body if isinstance(body, AsyncIterator) else None
        raw = b""
        if body is not None:
            sent_headers["content-type"] = "application/json"
            raw = b"" if parts is not None else orjson.dumps(body)
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in sent_headers.items()],
            "root_path": "", "scheme": "http", "client": ("127.0.0.1", 1), "server": None,
        }  # fmt: skip
        sent: list[Any] = []

        async def receive() -> Any:
            part = None if parts is None else await anext(parts, None)
            return {"type": "http.request", "body": raw if part is None else part, "more_body": part is not None}

        async def send(message: Any) -> None:
            sent.append(message)
            if (b"content-type", b"text/event-stream") in sent[0]["headers"] and message.get("body"):
                raise _Left

        with contextlib.suppress(_Left):
            await self.app(scope, receive, send)
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        content = b"".join(message.get("body", b"") for message in sent[1:])
        is_json = "json" in found.get("content-type", "")
        return Answer(sent[0]["status"], orjson.loads(content) if is_json else content, found)

    async def ok(self, method: str, target: str, body: Any = None, *, key: str | None = None) -> Any:
        """The body of a response that has to be 200 or 201."""
        answer = await self.ask(method, target, body, key=key)
        assert answer.status in (200, 201), (method, target, answer)
        return answer.body

    async def create(self, **order: Any) -> Any:
        """Create a sandbox."""
        return await self.ok("POST", "/sandbox/v1/sandboxes", order)

    def world(self, sandbox: Mapping[str, Any]) -> World:
        """The world of a created sandbox."""
        found = self.app.sandbox_of_id(sandbox["id"])
        assert found is not None
        return found.world


@asynccontextmanager
async def hosted(**options: Any) -> AsyncIterator[Hosted]:
    """A server that runs until the block ends."""
    server = Hosted(**options)
    started, stopping = asyncio.Event(), asyncio.Event()
    messages = iter(("lifespan.startup", "lifespan.shutdown"))

    async def receive() -> Any:
        kind = next(messages)
        if kind == "lifespan.shutdown":
            await stopping.wait()
        return {"type": kind}

    async def send(message: Any) -> None:
        started.set()

    running = asyncio.create_task(server.app({"type": "lifespan"}, receive, send))
    await asyncio.wait([running, asyncio.ensure_future(started.wait())], return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        await running  # raises what prevented the start
    try:
        yield server
    finally:
        stopping.set()
        await running


def in_server(scenario: Callable[[Hosted], Coroutine[Any, Any, None]], **options: Any) -> None:
    """Run the scenario with a server."""

    async def run() -> None:
        async with hosted(**options) as server:
            await scenario(server)

    asyncio.run(run())
