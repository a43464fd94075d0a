"""Callback receivers that fail as receivers do: each is a small real server on a free port of this machine."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _request(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    await reader.readexactly(size)


def answering(status: str, *headers: str, body: bytes = b"", after_s: float = 0) -> Talk:
    """Answers every request with this status line, headers and body, some time later."""
    lines = [f"HTTP/1.1 {status}", *headers, f"content-length: {len(body)}", "", ""]
    answer = "\r\n".join(lines).encode() + body

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await _request(reader)
            await asyncio.sleep(after_s)
            writer.write(answer)
            await writer.drain()

    return talk


async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads the request and closes the connection."""
    await _request(reader)


async def hanging(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads the request and never answers."""
    await _request(reader)
    await reader.read()


async def plain_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers whatever comes, also a TLS handshake, with an HTTP error."""
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
    await writer.drain()


@contextmanager
def serving(talk: Talk) -> Iterator[str]:
    """Serve on a free port: `127.0.0.1:PORT`."""
    loop = asyncio.new_event_loop()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has closed the connection, or the receiver ends
        finally:
            writer.close()

    server = loop.run_until_complete(asyncio.start_server(connected, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def stop() -> None:
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@contextmanager
def not_listening() -> Iterator[str]:
    """An address on this machine at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"
