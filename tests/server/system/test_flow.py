"""Flow control of a connection: how long a client may leave a response unread."""

from __future__ import annotations

import asyncio
import importlib.util
import queue
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from typing import Any

import pytest

from leyden import Sandbox
from leyden.server.system.http_server import flow
from leyden.server.system.http_server.flow import HeldFlow, UnreadResponses
from tests.server.system.test_http_limits import dial_url


class Written:
    """A transport whose client reads what `sizes` say: the number of unsent bytes at each look."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = list(sizes)
        self.aborted = asyncio.Event()

    def get_write_buffer_size(self) -> int:
        return self.sizes.pop(0) if len(self.sizes) > 1 else self.sizes[0]

    def abort(self) -> None:
        self.aborted.set()


async def looked_at(transport: Written, until: Callable[[], bool]) -> HeldFlow:
    held: Any = HeldFlow(transport, lambda: False)  # type: ignore[arg-type]
    held.pause_writing()
    while not until():
        await asyncio.sleep(0)
    return held


def received(connection: socket.socket) -> bytes:
    """All bytes up to the end of the connection, or until it is reset."""
    parts = []
    with suppress(ConnectionResetError):
        parts.extend(iter(lambda: connection.recv(65536), b""))
    return b"".join(parts)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "WRITE_TIMEOUT_S", 0.01)


@pytest.mark.parametrize("sizes", [(900,), (900, 500, 500), (900, 800, 700, 900)])
def test_a_client_that_reads_nothing_for_the_time_limit_is_left(sizes: tuple[int, ...]) -> None:
    async def run() -> None:
        transport = Written(*sizes)
        await looked_at(transport, transport.aborted.is_set)

    asyncio.run(asyncio.wait_for(run(), 20))


def test_a_client_that_reads_slowly_is_kept() -> None:
    async def run() -> None:
        transport = Written(*range(900, 890, -1))
        held = await looked_at(transport, lambda: len(transport.sizes) < 4)
        assert not transport.aborted.is_set()
        held.resume_writing()
        held.pause_writing()
        held.resume_writing()
        seen = len(transport.sizes)
        await asyncio.sleep(0.05)
        assert len(transport.sizes) == seen, "nobody looks any more"

    asyncio.run(asyncio.wait_for(run(), 20))


def test_a_response_that_nobody_reads_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred documents are more than the buffers of the two sockets hold."""
    left = threading.Event()
    check = HeldFlow._check_progress

    def checked(held: HeldFlow) -> None:
        check(held)
        if held._write_timer is None:
            left.set()

    monkeypatch.setattr(HeldFlow, "_check_progress", checked)
    request = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n"
    with Sandbox(seed=7) as sandbox:
        url = sandbox.serve()
        with closing(dial_url(url)) as connection:
            connection.sendall(request + b"connection: close\r\n\r\n")
            length = len(received(connection))
        with closing(dial_url(url)) as connection:
            connection.sendall((request + b"\r\n") * 200)
            assert left.wait(20), "the connection is still open"
            assert len(received(connection)) < 199 * length


def test_beyond_the_bound_the_client_that_has_read_nothing_for_longest_is_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(flow, "WRITE_TIMEOUT_S", 60.0)
    monkeypatch.setattr(flow, "MAX_UNREAD_BYTES", 1000)

    async def run() -> None:
        unread = UnreadResponses()
        transports = [Written(400) for _ in range(5)]
        flows: list[Any] = [HeldFlow(each, lambda: False, unread) for each in transports]  # type: ignore[arg-type]

        def left() -> list[int]:
            return [number for number, each in enumerate(transports) if each.aborted.is_set()]

        for number in range(2):
            flows[number].pause_writing()
        transports[0].sizes = [390]
        flows[2].pause_writing()
        assert left() == [1], "the first client reads"
        flows[2].resume_writing()
        flows[3].pause_writing()
        assert left() == [1], "what was read counts no more"
        transports[4].sizes = [5000]
        flows[4].pause_writing()
        assert left() == [0, 1, 3], "the newest response stays"

    asyncio.run(asyncio.wait_for(run(), 20))
    assert len(caplog.records) == 1


@pytest.mark.parametrize("with_httptools", [True, False])
def test_unread_responses_are_bounded_over_all_connections(
    monkeypatch: pytest.MonkeyPatch, with_httptools: bool
) -> None:
    """Each connection holds the rest of one document at least, and reads no further request before it is sent."""
    monkeypatch.setattr(flow, "WRITE_TIMEOUT_S", 60.0)
    if not with_httptools:
        find_spec = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "httptools" else find_spec(name))
    add = UnreadResponses.add
    added: queue.Queue[int] = queue.Queue()

    def counted(unread: UnreadResponses, held: HeldFlow) -> None:
        add(unread, held)
        added.put(sum([each.unsent for each in unread._by_progress]))

    monkeypatch.setattr(UnreadResponses, "add", counted)
    request = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n"
    with Sandbox(seed=7) as sandbox, ExitStack() as connections:
        url = sandbox.serve()
        with closing(dial_url(url)) as connection:
            connection.sendall(request + b"connection: close\r\n\r\n")
            length = len(received(connection))
        monkeypatch.setattr(flow, "MAX_UNREAD_BYTES", 2 * length)
        clients = []
        for _ in range(6):
            clients.append(connections.enter_context(closing(dial_url(url))))
            clients[-1].sendall((request + b"\r\n") * 199 + request + b"connection: close\r\n\r\n")
            assert added.get(timeout=20) <= 3 * length
        assert len(received(clients[0])) < 199 * length, "the first client was left"
        assert len(received(clients[-1])) > 199 * length, "the last one has time to read"
