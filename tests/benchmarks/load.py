"""The load client: kept connections, one request at a time on each, and as little work of its own as possible."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice, repeat
from typing import Any

from leyden.server.system.event_loop import new_event_loop

LONGEST_S = 150


class Requester(asyncio.Protocol):
    """One connection: it sends, waits for the whole answer, and sends the next."""

    def __init__(self, requests: Iterator[bytes], done: asyncio.Future[None]) -> None:
        self._requests = requests
        self._done = done
        self._answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        answer = self._answer = self._answer + data if self._answer else data
        head, found, body = answer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        if len(body) < length:
            return
        if not answer.startswith(b"HTTP/1.1 200"):
            self._fail(f"{answer[:300]!r}")
            return
        self._answer = b""
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(f"the server closed the connection: {error}")

    def _send(self) -> None:
        request = next(self._requests, None)
        if request is not None:
            self._transport.write(request)
        elif not self._done.done():
            self._done.set_result(None)

    def _fail(self, why: str) -> None:
        if not self._done.done():
            self._done.set_exception(ConnectionError(why))


async def send_all(order: dict[str, Any]) -> float:
    """Carry out an order; the seconds it took."""
    loop = asyncio.get_running_loop()
    texts = [text.encode("latin-1") for text in order["requests"]]
    requests = islice(chain.from_iterable(repeat(texts)), order["count"])
    waits = [loop.create_future() for _ in range(order["connections"])]
    began = time.perf_counter()
    opened = [
        await loop.create_connection(partial(Requester, requests, wait), order["host"], order["port"]) for wait in waits
    ]
    async with asyncio.timeout(LONGEST_S):
        await asyncio.gather(*waits)
    took = time.perf_counter() - began
    for transport, _ in opened:
        transport.close()
    return took


def main() -> int:
    """Read an order from standard input, write what it took to standard output."""
    order = json.load(sys.stdin)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        try:
            seconds = runner.run(send_all(order))
        except (OSError, TimeoutError) as error:
            print(error or "it took too long", file=sys.stderr)
            return 1
    json.dump({"seconds": seconds}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
