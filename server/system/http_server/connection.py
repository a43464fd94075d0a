"""The connection of a request as an extension of its ASGI scope: an application may let time pass, reset or close it.

A sandbox uses it to inject faults that no response can show.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import struct
from typing import TYPE_CHECKING, Any

import h11
import orjson
from uvicorn.protocols.http.h11_impl import H11Protocol

from leyden.server.errors import ServerStopping
from leyden.server.ports import ADDED_HEADERS, CONNECTION
from leyden.server.system.http_server.flow import HeldFlow, UnreadResponses

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# A socket that is closed with unsent data kept for 0 seconds is reset: the client gets RST and no FIN.
_LINGER = struct.pack("ii", 1, 0)


# After a refusal, and before a response that does not wait for the body, what the client still sends is read up to
# these bounds: a connection that is closed with unread bytes is reset, and the client may not see the response.
DRAIN_BYTES = 1024 * 1024
DRAIN_BODY_BYTES = 32 * 1024 * 1024  # twice the longest body that an operation takes
DRAIN_S = 2.0
_RECHECK_S = 0.1
_SENT_POLL_S = 0.02


class ClientConnection:
    """The connection of one of uvicorn's protocols."""

    __slots__ = ("_is_aborted", "_is_lost", "_protocol")

    def __init__(self, protocol: Any) -> None:
        self._protocol = protocol
        self._is_lost = self._is_aborted = False

    @property
    def is_closed(self) -> bool:
        """Whether the client has left, or the connection was closed."""
        return bool(self._protocol.transport.is_closing())

    @property
    def is_ending(self) -> bool:
        """Whether no part of a response that goes on is of use: the client has left, or the server stops."""
        return self.is_closed or self._protocol.is_stopping

    @property
    def has_unread(self) -> bool:
        """Whether the operating system has bytes of the client, or its end, that the server has not read yet."""
        connected = self._protocol.transport.get_extra_info("socket")
        number = -1 if connected is None else connected.fileno()
        if number < 0:
            return False
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(number, select.POLLIN)
            return bool(poll.poll(0))
        return bool(select.select([number], [], [], 0)[0])

    async def wait(self, seconds: float) -> None:
        """Let real time pass, while the client is there."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + seconds
        while (left_s := end_s - loop.time()) > 0 and not self.is_closed:
            await asyncio.sleep(min(left_s, _RECHECK_S))

    def when_sent(self, ended: Callable[[int], None]) -> None:
        """Call `ended(unsent)` when what was written is handed to the operating system, or the connection is lost.

        `unsent` is how many of the bytes were not handed over. It is looked at fifty times a second.
        """
        unsent = self._protocol.transport.get_write_buffer_size()
        if not (unsent or self._is_lost):
            ended(0)
        else:  # uvloop writes to the socket at the end of a round of the loop
            asyncio.get_running_loop().call_soon(self._follow, unsent, ended)

    def lost(self, error: Exception | None) -> None:
        """The transport's report that the connection has ended. Without an error everything was sent before."""
        self._is_lost = True
        self._is_aborted = self._is_aborted or error is not None

    def abort(self) -> None:
        """Close the connection at once, without what was not sent yet."""
        self._is_aborted = True
        self._protocol.transport.abort()

    def reset(self) -> None:
        """Reset the connection at once; the request needs no response. Of one that its client has left, nothing is
        reset."""
        transport = self._protocol.transport
        connected = transport.get_extra_info("socket")
        if connected is not None and not self.is_closed:
            with contextlib.suppress(OSError):
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
        self.abort()
        self._disconnect()

    def end_request(self, cycle: Any) -> None:
        """The server stops and waits no longer: the response of `cycle` is the last one. A client that has not read
        what was sent before gets no response."""
        if cycle is not None:
            cycle.keep_alive = False
        if self._protocol.flow.write_paused:
            if cycle is not None:
                cycle.disconnected = True
            self.abort()

    def close(self) -> None:
        """Close the connection after what was sent; the response may be incomplete."""
        self._protocol.transport.close()
        self._disconnect()

    def _follow(self, unsent: int, ended: Callable[[int], None]) -> None:
        transport, loop = self._protocol.transport, asyncio.get_running_loop()
        if self._is_lost:
            return ended(unsent if self._is_aborted else 0)
        left = transport.get_write_buffer_size()
        if left:
            loop.call_later(_SENT_POLL_S, self._follow, left, ended)
        elif transport.is_closing():  # an error empties the buffer, and is reported next
            loop.call_soon(self._follow, unsent, ended)
        else:
            ended(0)
        return None

    def _disconnect(self) -> None:
        cycle = self._protocol.cycle
        if cycle is not None:
            cycle.disconnected = True  # otherwise uvicorn takes the missing response for a defect


async def respond_stopping(cycle: Any, send: Send) -> None:
    """Respond 503 to a request that is cancelled because the server stops, unless its response has begun, and close
    the connection."""
    if not (cycle.disconnected or cycle.response_started):
        problem = ServerStopping(
            "the server stopped before the response: read the resource before you repeat the request"
        )
        body = orjson.dumps(problem.to_document(""))
        headers = [(b"content-type", b"application/problem+json"), (b"content-length", b"%d" % len(body))]
        headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
    cycle.disconnected = True  # otherwise uvicorn takes an incomplete response for a defect
    cycle.transport.close()


async def read_rest(cycle: Any, receive: Receive) -> None:
    """Read the rest of a request's body before its response, up to `DRAIN_BODY_BYTES` and `DRAIN_S`. The response is
    the last one on the connection if the body has not ended then. A client that waits for `100 Continue` sends no
    more."""
    read = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            while (
                cycle.more_body
                and read <= DRAIN_BODY_BYTES
                and not (cycle.disconnected or cycle.waiting_for_100_continue)
            ):
                read += len((await receive()).get("body", b""))
    if cycle.more_body:
        cycle.keep_alive = False


def closing(message: Message) -> Message:
    """The message of the last response on its connection; its start says that it is the last one. uvicorn before 0.53
    does not add this header to a response to HTTP/1.0."""
    if message["type"] != "http.response.start" or any(name.lower() == b"connection" for name, _ in message["headers"]):
        return message
    return {**message, "headers": [*message["headers"], (b"connection", b"close")]}


def note_added_headers(message: Message, *, is_last: bool, is_chunked: bool) -> None:
    """Note in the message that began a response which headers were added to it below the application: when the response
    `is_last` on its connection, and when its body `is_chunked`."""
    if message["type"] != "http.response.start":
        return
    named = {name.lower() for name, _ in message["headers"]}
    added = []
    if is_last and b"connection" not in named:
        added.append((b"connection", b"close"))
    if is_chunked and b"transfer-encoding" not in named:
        added.append((b"transfer-encoding", b"chunked"))
    message[ADDED_HEADERS] = added


class ConnectedH11Protocol(H11Protocol):
    """uvicorn's h11 protocol, whose scopes have the connection."""

    is_stopping = False

    def __init__(self, *arguments: Any, unread: UnreadResponses | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unread = unread
        self._connection = ClientConnection(self)
        self.app = self._with_connection(self.app)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection. Bytes after a complete request are neither parsed nor read before its response."""
        super().connection_made(transport)
        self.flow = HeldFlow(transport, lambda: self.conn.their_state is h11.DONE, self._unread)

    def on_response_complete(self) -> None:
        """The last byte of a response. The next pipelined request follows."""
        super().on_response_complete()
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._connection.lost(exc)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server stops: an incomplete request is not waited for."""
        self.is_stopping = True
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            self.transport.close()
        else:
            cycle.keep_alive = False

    def end_request(self) -> None:
        """The server waits no longer for the request in progress."""
        self._connection.end_request(self.cycle)

    def _with_connection(self, app: Any) -> ASGIApp:
        extensions = {CONNECTION: self._connection}

        async def connected(scope: Scope, receive: Receive, send: Send) -> None:
            cycle = self.cycle
            scope["extensions"] = extensions
            is_last = scope.get("http_version") == "1.0" or (b"connection", b"close") in scope["headers"]

            async def send_noted(message: Message) -> None:
                if cycle.more_body and message["type"] == "http.response.start":
                    await read_rest(cycle, receive)
                    message = message if cycle.keep_alive else closing(message)
                await send(message)
                if message["type"] == "http.response.start":
                    is_framed = any(name.lower() == b"content-length" for name, _ in message["headers"])
                    has_body = scope["method"] != "HEAD" and message["status"] not in (204, 304)
                    note_added_headers(message, is_last=is_last, is_chunked=has_body and not is_framed)

            try:
                await app(scope, receive, send_noted)
            except asyncio.CancelledError:
                await respond_stopping(cycle, send)

        return connected
