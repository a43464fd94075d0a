"""A server with one sandbox in the running event loop, which counts how often others are let through."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import orjson

from leyden.devserver.control.handlers import control_handlers
from leyden.devserver.multi_tenant import MultiTenantApp
from leyden.server.store.store import Store
from leyden.server.timestamps import parse_iso
from leyden.world.config import world_config
from leyden.world.world import World

HOOK = "http://shop.localhost/hook"
START_TEXT = "2030-01-01T00:00:00.000Z"
START = parse_iso(START_TEXT)


class ServedInLoop:
    """The application of a server in the running event loop, with a stopwatch that the test sets."""

    def __init__(self, **config: Any) -> None:
        settings = world_config(seed=7, start_ms=START, control=True, **config)
        self.world = World(settings, Store.memory(), control_handlers=control_handlers)
        self.app = MultiTenantApp({"leyden": self.world})
        self.rounds = 0

    async def ask(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        path, _, query = path.partition("?")
        headers = [(b"host", b"localhost"), (b"apikey", b"leyden"), (b"content-type", b"application/json")]
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
            "root_path": "", "headers": headers, "scheme": "http", "client": ("127.0.0.1", 1), "server": None,
        }  # fmt: skip
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"" if body is None else orjson.dumps(body), "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        answer = orjson.loads(b"".join(message["body"] for message in sent[1:]))
        assert sent[0]["status"] == status, answer
        return answer

    async def create(self, **fields: Any) -> Any:
        body = {"amount": "1000", "description": "tea", "expiresIn": 60, "callbackUrl": HOOK, **fields}
        return (await self.ask("POST", "/v0/charges", body))["data"]

    async def count_rounds(self) -> None:
        """Count how often the event loop gets control."""
        while True:
            self.rounds += 1
            await asyncio.sleep(0)


def in_loop(
    scenario: Callable[[ServedInLoop], Coroutine[Any, Any, None]], *, has_control: bool = True, **config: Any
) -> ServedInLoop:
    """The server after the scenario. `has_control`: its control plane is built before, and costs no rounds."""

    async def run() -> ServedInLoop:
        served = ServedInLoop(**config)
        if has_control:
            await served.ask("GET", "/sandbox/v1/clock")
        counting = asyncio.create_task(served.count_rounds())
        try:
            await scenario(served)
        finally:
            counting.cancel()
        return served

    return asyncio.run(run())
