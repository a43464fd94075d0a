"""For tests of the HTTP transport: a shop on a raw socket, the transport, and the sockets that are opened."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.system.http_client.transport import HttpTransport

HEADERS = {"content-type": "application/json", "user-agent": "leyden/9.9", "webhook-id": "m1"}
BODY = '{"id":"c1","note":"é"}'.encode()
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Shop:
    """A raw server: it keeps the requests and sends exactly the bytes of its script."""

    def __init__(self, script: bytes | Talk = OK) -> None:
        self.script = script
        self.requests: list[bytes] = []
        self.connections = 0
        self.port = 0

    def url(self, host: str = "127.0.0.1", path: str = "/hook") -> str:
        return f"http://{host}:{self.port}{path}"

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length" in line
                )
                self.requests.append(head + await reader.readexactly(length))
                if callable(self.script):
                    await self.script(reader, writer)
                    break
                writer.write(self.script)
                await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def opened(shop: Shop) -> AsyncIterator[Shop]:
    server = await asyncio.start_server(shop, "127.0.0.1", 0)
    shop.port = server.sockets[0].getsockname()[1]
    try:
        yield shop
    finally:
        server.close()
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def http_transport(**settings: Any) -> AsyncIterator[HttpTransport]:
    one = HttpTransport(**settings)
    try:
        yield one
    finally:
        await one.close()


async def send(one: HttpTransport, url: str, **changes: Any) -> CallbackResponse:
    """Make one attempt and wait for its response."""
    responses: list[CallbackResponse] = []
    fields: dict[str, Any] = {"connect_timeout_ms": 1_000, "timeout_ms": 3_000, "headers": HEADERS, **changes}
    one.post(
        CallbackRequest(delivery_id="m1", attempt=1, url=url, body=BODY, **fields),
        lambda post, answer: responses.append(answer),
    )
    assert one.pending_count == 1
    await one.wait_idle()
    assert one.pending_count == 0
    (answer,) = responses
    return answer


@contextlib.contextmanager
def sockets_watched() -> Iterator[list[str]]:
    """Records every socket and look-up of the process meanwhile."""
    seen: list[str] = []
    watching = True

    def hook(event: str, arguments: Any) -> None:
        if watching and event in {"socket.__new__", "socket.connect", "socket.getaddrinfo", "socket.sendto"}:
            seen.append(event)

    sys.addaudithook(hook)
    try:
        yield seen
    finally:
        watching = False
