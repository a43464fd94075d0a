"""Accepts connections: all that wait, at each turn of the event loop.

The server of uvloop accepts one at each turn. While many clients that connected at once send requests, a turn answers
one of each, so a connection behind them would wait for as many turns as there are connections before it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

_AT_ONCE = 16  # fewer than may be open beyond the limit of connections
_PAUSE_S = 0.5  # without file descriptors or memory for another connection


class Acceptor:
    """Gives each connection of a listener a protocol that `make_protocol` returns, from now on until `close`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, listener: socket.socket, make_protocol: Callable[[], asyncio.Protocol]
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._make_protocol = make_protocol
        self._opening = set[asyncio.Task[object]]()
        self._pause: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._watch()

    def close(self) -> None:
        """Accept no more connections. The listener stays open."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listener)

    def _watch(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:  # the client has left
                continue
            except OSError:
                self._loop.remove_reader(self._listener)
                self._pause = self._loop.call_later(_PAUSE_S, self._watch)
                return
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opening = self._loop.create_task(self._open(connection))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    async def _open(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, connection)
        except OSError:  # the client has left
            connection.close()
