"""The time limit of a whole request: a timeout of a socket limits the wait for each part only."""

from __future__ import annotations

from contextlib import suppress
from socket import SHUT_RDWR, socket
from threading import Timer


class Deadline:
    """Ends the connection of a request after `limit_s` real seconds, counted from its creation: what reads from it gets
    an end of file or an `OSError` then, and `is_over` is true."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.is_over = False
        self._sockets: list[socket] = []
        self._timer = Timer(limit_s, self._end)
        self._timer.daemon = True
        self._timer.start()

    def watch(self, connected: socket) -> None:
        """End this connection, too, when the time is over."""
        self._sockets.append(connected)
        if self.is_over:
            self._end()

    def cancel(self) -> None:
        """The request is done, and its connections stay open."""
        self._timer.cancel()

    def close(self) -> None:
        """The request is done: close its connections."""
        self.cancel()
        for connected in self._sockets:
            connected.close()

    def _end(self) -> None:
        self.is_over = True
        for connected in self._sockets:
            with suppress(OSError):
                socket.shutdown(connected, SHUT_RDWR)  # not that of TLS, which another thread reads from
