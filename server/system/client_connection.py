"""The connection of a request as an extension of its ASGI scope: an application may let time pass, reset or close it.

A sandbox uses it to inject faults that no response can show.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from leyden.server.ports import CONNECTION

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

# A socket that is closed with unsent data kept for 0 seconds is reset: the client gets RST and no FIN.
_LINGER = struct.pack("ii", 1, 0)


_RECHECK_S = 0.1


class ClientConnection:
    """The connection of one of uvicorn's protocols."""

    __slots__ = ("_protocol",)

    def __init__(self, protocol: Any) -> None:
        self._protocol = protocol

    @property
    def is_closed(self) -> bool:
        """Whether the client has left, or the connection was closed."""
        return bool(self._protocol.transport.is_closing())

    @property
    def is_ending(self) -> bool:
        """Whether no part of a response that goes on is of use: the client has left, or the server stops."""
        return self.is_closed or self._protocol.is_stopping

    async def wait(self, seconds: float) -> None:
        """Let real time pass, while the client is there."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + seconds
        while (left_s := end_s - loop.time()) > 0 and not self.is_closed:
            await asyncio.sleep(min(left_s, _RECHECK_S))

    def reset(self) -> None:
        """Reset the connection at once; the request needs no response."""
        transport = self._protocol.transport
        connected = transport.get_extra_info("socket")
        if connected is not None:
            with contextlib.suppress(OSError):
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
        transport.abort()
        self._disconnect()

    def close(self) -> None:
        """Close the connection after what was sent; the response may be incomplete."""
        self._protocol.transport.close()
        self._disconnect()

    def _disconnect(self) -> None:
        cycle = self._protocol.cycle
        if cycle is not None:
            cycle.disconnected = True  # otherwise uvicorn takes the missing response for a defect


class ConnectedH11Protocol(H11Protocol):
    """uvicorn's h11 protocol, whose scopes have the connection."""

    is_stopping = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.app = _with_connection(self.app, ClientConnection(self))

    def shutdown(self) -> None:
        """The server stops."""
        self.is_stopping = True
        super().shutdown()


def _with_connection(app: Any, connection: ClientConnection) -> ASGIApp:
    extensions = {CONNECTION: connection}

    async def connected(scope: Scope, receive: Receive, send: Send) -> None:
        scope["extensions"] = extensions
        await app(scope, receive, send)

    return connected
