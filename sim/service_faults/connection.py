"""The connection of a request, as an ASGI server gives it to the application, and the one of a request in process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from leyden.errors import ResponseLost
from leyden.server.ports import CONNECTION


class Connection(Protocol):
    """The effect of a fault on a connection (`leyden.server.system.http_server.connection`)."""

    @property
    def is_closed(self) -> bool:
        """Whether the client has left."""

    async def wait(self, seconds: float) -> None:
        """Let real time pass."""

    def when_sent(self, ended: Callable[[int], None]) -> None:
        """Call `ended` with the number of bytes that were not sent, when no more will be."""

    def reset(self) -> None:
        """Reset the connection at once. Bytes that were sent before may be lost."""

    def close(self) -> None:
        """Close the connection after what was sent."""


class InProcessConnection:
    """A request in process has no socket: its caller gets an exception instead, and no time passes.

    A client that waits at most `read_timeout_s` for a part of the response gets one, too.
    """

    def __init__(self, read_timeout_s: float | None = None) -> None:
        self._read_timeout_s = read_timeout_s

    @property
    def is_closed(self) -> bool:
        """Never: a client that leaves gets an exception."""
        return False

    @property
    def is_ending(self) -> bool:
        """Never."""
        return False

    def when_sent(self, ended: Callable[[int], None]) -> None:
        """Everything is sent at once."""
        ended(0)

    async def wait(self, seconds: float) -> None:
        """Raises `ResponseLost` when the client would have given up."""
        if self._read_timeout_s is not None and seconds > self._read_timeout_s:
            raise ResponseLost(
                "timeout", f"the next byte of the response did not come within {self._read_timeout_s:g} s"
            )

    def reset(self) -> None:
        """Raises `ResponseLost`."""
        raise ResponseLost("reset", "the connection was reset before the response")

    def close(self) -> None:
        """Raises `ResponseLost`."""
        raise ResponseLost("closed", "the connection was closed within the response")


_IN_PROCESS = InProcessConnection()


def connection_of(scope: Mapping[str, Any]) -> Connection:
    """The connection of a request: the one in the scope's extensions, or one in process."""
    extensions = scope.get("extensions")
    found = None if extensions is None else extensions.get(CONNECTION)
    return _IN_PROCESS if found is None else cast(Connection, found)
