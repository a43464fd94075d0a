"""Connections that wait are accepted several at each turn of the event loop, and none without a file descriptor."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import pytest

from leyden.server.system.event_loop import new_event_loop
from leyden.server.system.http_server import accepting
from leyden.server.system.http_server.accepting import Acceptor
from leyden.server.system.http_server.listening import open_listener

CLIENTS = 40


class Counted(asyncio.Protocol):
    """Answers each connection with one byte, and closes it."""

    connections = 0

    def connection_made(self, transport: Any) -> None:
        Counted.connections += 1
        transport.write(b"x")
        transport.close()


class Failing:
    """A listener whose next `accept` fails, as without a free file descriptor or when the client has left."""

    def __init__(self, listener: socket.socket, error: OSError) -> None:
        self._listener = listener
        self.errors = [error]

    def accept(self) -> tuple[socket.socket, Any]:
        if self.errors:
            raise self.errors.pop()
        return self._listener.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listener, name)


@pytest.mark.parametrize("make_loop", [new_event_loop, asyncio.new_event_loop])
@pytest.mark.parametrize("error", [None, errno.EMFILE, errno.ECONNABORTED])
def test_all_that_wait_are_accepted(
    make_loop: Callable[[], asyncio.AbstractEventLoop], error: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "_PAUSE_S", 0.01)
    Counted.connections = 0
    with closing(open_listener("127.0.0.1", 0)) as listener, ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(listener.getsockname(), timeout=20)) for _ in range(CLIENTS)
        ]

        async def scenario() -> None:
            one: Any = listener if error is None else Failing(listener, OSError(error, "no more"))
            acceptor = Acceptor(asyncio.get_running_loop(), one, Counted)
            async with asyncio.timeout(30):
                while Counted.connections < CLIENTS:
                    await asyncio.sleep(0)
            acceptor.close()
            socket.create_connection(listener.getsockname(), timeout=20).close()
            await asyncio.sleep(0.05)

        with asyncio.Runner(loop_factory=make_loop) as runner:
            runner.run(scenario())
            assert [client.recv(1) for client in clients] == [b"x"] * CLIENTS
    assert Counted.connections == CLIENTS


def test_a_turn_accepts_several_connections_and_a_rush_takes_few_turns() -> None:
    opened: list[Any] = []

    class Loop:
        def add_reader(self, one: object, call: Callable[[], None]) -> None:
            self.call = call

        def create_task(self, work: Any) -> Any:
            opened.append(work.cr_frame.f_locals["connection"])
            work.close()
            return asyncio.Future(loop=holder)

    holder, loop = asyncio.new_event_loop(), Loop()
    with closing(holder), closing(open_listener("127.0.0.1", 0)) as listener, ExitStack() as stack:
        for _ in range(CLIENTS):
            stack.enter_context(socket.create_connection(listener.getsockname(), timeout=20))
        Acceptor(loop, listener, asyncio.Protocol)  # type: ignore[arg-type]
        counts = []
        for _ in range(3):
            loop.call()
            counts.append(len(opened))
        assert counts == [16, 32, 40]
        assert all(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in opened)
        for one in opened:
            one.close()
