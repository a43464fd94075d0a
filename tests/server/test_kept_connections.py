"""Connections that receivers close after a response, without a header that says so."""

from __future__ import annotations

import asyncio
import socket

import pytest

from leyden.server.ports import CallbackResponse
from tests.support.transport_helpers import BODY, OK, Shop, http_transport, opened, send

FAILED = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\nno"


class LeavingShop(Shop):
    """A server that answers the first request of every connection, and ends the connection at the next one.

    `parting` is what it sends before that; with `linger` it resets the connection instead of closing it.
    """

    def __init__(self, first: bytes = OK, parting: bytes = b"", *, linger: bool = False, silent: bool = False) -> None:
        super().__init__(first)
        self.parting, self.linger, self.silent = parting, linger, silent

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        for number in range(2):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            self.requests.append(head + await reader.readexactly(len(BODY)))
            if number == 0 and not (self.silent and self.connections > 1):
                assert isinstance(self.script, bytes)
                writer.write(self.script)
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
def test_a_kept_connection_that_the_receiver_closes_is_not_an_error_of_the_attempt(
    linger: bool, send_duration_ms: int
) -> None:
    shop = LeavingShop(linger=linger)
    answers = answers_of(shop, 6, send_duration_ms=send_duration_ms)
    assert [(one.status, one.error, one.body) for one in answers] == [(200, None, b"ok")] * 6
    assert all(request.endswith(BODY) for request in shop.requests)
    assert len({request.lower() for request in shop.requests}) == 1


def test_a_request_is_sent_at_most_once_more() -> None:
    shop = LeavingShop(silent=True)
    answers = answers_of(shop, 2)
    assert [(one.status, one.error) for one in answers] == [(200, None), (None, "reset")]
    assert (shop.connections, len(shop.requests)) == (2, 3)


def test_a_request_on_a_new_connection_is_not_sent_again() -> None:
    shop = LeavingShop(silent=True)
    shop.connections = 1
    assert [one.error for one in answers_of(shop, 1)] == ["reset"]
    assert len(shop.requests) == 1


@pytest.mark.parametrize("parting", [b"HTTP/1.1 2", b"HTTP/1.1 200 OK\r\nx: y", OK.replace(b": 2", b": 3")])
def test_a_request_is_not_sent_again_after_a_part_of_a_response(parting: bytes) -> None:
    shop = LeavingShop(parting=parting)
    answers = answers_of(shop, 2)
    assert [(one.status, one.error) for one in answers] == [(200, None), (None, "reset")]
    assert (shop.connections, len(shop.requests)) == (1, 2)


@pytest.mark.parametrize("status", [302, 404, 500])
@pytest.mark.parametrize("length", [2, 100_000])
def test_a_connection_is_not_kept_after_a_response_that_is_not_2xx(status: int, length: int) -> None:
    shop = Shop(f"HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n".encode() + b"x" * length)
    answers = answers_of(shop, 3)
    assert [(one.status, one.body) for one in answers] == [(status, b"x" * min(length, 4_096))] * 3
    assert shop.connections == 3


def test_a_connection_is_kept_after_a_2xx_response() -> None:
    shop = Shop()
    assert [one.status for one in answers_of(shop, 3)] == [200] * 3
    assert shop.connections == 1
