"""A fast callback receiver: it answers 200 as soon as a request is complete."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from leyden.server.system.event_loop import new_event_loop

_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class Answering(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._read = b""

    def data_received(self, data: bytes) -> None:
        self._read += data
        while True:
            head, found, rest = self._read.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            if not found or len(rest) < length:
                return
            self._read = rest[length:]
            self._transport.write(_ANSWER)


async def serve() -> None:
    """Serve until a signal stops it."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    server = await loop.create_server(Answering, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print(f"receiver listening on http://127.0.0.1:{port}", flush=True)
    await stop.wait()
    server.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve())
