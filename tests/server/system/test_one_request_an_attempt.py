"""An attempt is exactly one request, whatever the receiver does with its connections."""

from __future__ import annotations

import asyncio
import socket

import pytest

from leyden.server.ports import CallbackResponse
from tests.support.transport_helpers import BODY, OK, Shop, http_transport, opened, send


class LeavingShop(Shop):
    """A server that answers all but every second request, and ends the connection instead of that answer.

    `parting` is what it sends before that; with `linger` it resets the connection instead of closing it.
    """

    def __init__(self, parting: bytes = b"", *, linger: bool = False) -> None:
        super().__init__()
        self.parting, self.linger = parting, linger

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            self.requests.append(head + await reader.readexactly(len(BODY)))
            if len(self.requests) % 2:
                writer.write(OK)
                continue
            writer.write(self.parting)
            await writer.drain()
            if self.linger:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                writer.transport.abort()
            break
        writer.close()


def answers_of(shop: Shop, count: int, **changes: int) -> list[CallbackResponse]:
    """The responses to `count` attempts, one after the other."""

    async def scenario() -> list[CallbackResponse]:
        async with opened(shop), http_transport() as one:
            return [await send(one, shop.url(), **changes) for _ in range(count)]

    return asyncio.run(scenario())


@pytest.mark.parametrize("linger", [False, True])
@pytest.mark.parametrize("send_duration_ms", [0, 8])
@pytest.mark.parametrize("parting", [b"", b"HTTP/1.1 2", b"HTTP/1.1 200 OK\r\nx: y", OK.replace(b": 2", b": 3")])
def test_an_attempt_that_the_receiver_ends_without_an_answer_is_one_request_and_a_reset(
    parting: bytes, send_duration_ms: int, linger: bool
) -> None:
    shop = LeavingShop(parting, linger=linger)
    answers = answers_of(shop, 4, send_duration_ms=send_duration_ms)
    assert [(one.status, one.error) for one in answers] == [(200, None), (None, "reset")] * 2
    assert len(shop.requests) == 4
    assert all(request.endswith(BODY) for request in shop.requests)
    assert len({request.lower() for request in shop.requests}) == 1


@pytest.mark.parametrize("status", [200, 302, 404, 500])
@pytest.mark.parametrize("length", [2, 100_000])
def test_every_attempt_has_its_own_connection_and_says_so(status: int, length: int) -> None:
    shop = Shop(f"HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n".encode() + b"x" * length)
    answers = answers_of(shop, 3)
    assert [(one.status, one.body) for one in answers] == [(status, b"x" * min(length, 4_096))] * 3
    assert (shop.connections, len(shop.requests)) == (3, 3)
    assert all(request.lower().count(b"\r\nconnection: close\r\n") == 1 for request in shop.requests)
