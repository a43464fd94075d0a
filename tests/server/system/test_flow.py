"""Flow control of a connection: how long a client may leave a response unread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from leyden import Sandbox
from leyden.server.system.http_server import flow
from leyden.server.system.http_server.flow import HeldFlow
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

    def checked(held: HeldFlow, unsent: int) -> None:
        check(held, unsent)
        if held._write_timer is None:
            left.set()

    monkeypatch.setattr(HeldFlow, "_check_progress", checked)
    request = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n"
    with Sandbox(seed=7) as sandbox:
        url = sandbox.serve()
        with closing(dial_url(url)) as connection:
            connection.sendall(request + b"connection: close\r\n\r\n")
            length = len(b"".join(iter(lambda: connection.recv(65536), b"")))
        with closing(dial_url(url)) as connection:
            connection.sendall((request + b"\r\n") * 200)
            assert left.wait(20), "the connection is still open"
            assert len(b"".join(iter(lambda: connection.recv(65536), b""))) < 199 * length
