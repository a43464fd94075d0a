"""Requests to receivers: each is sent once, on a connection of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import lru_cache, partial
from math import inf
from typing import Any, cast

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpProcessingError, RawResponseMessage
from aiohttp.streams import StreamReader
from yarl import URL

from leyden.server.callbacks.attempts import READ_CAP_BYTES
from leyden.server.ports import CallbackRequest
from leyden.server.printable import cut
from leyden.server.system.http_client.name_lookup import PROGRESS, AttemptProgress

# Headers that aiohttp adds by default: a receiver gets exactly the headers of the `CallbackRequest`, plus host,
# content-length, and "connection: close" (RFC 9112, 9.6: of a client that keeps no connection).
_SKIPPED_HEADERS = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")

_SLOW_BODY_CHUNKS = 8

_END_OF_HEAD = re.compile(rb"\n\r?\n")

# After the head: the body, of which at most `READ_CAP_BYTES` are read, and the lengths and extensions of its chunks.
# With chunks of one byte they are six times as long as the body.
MAX_BODY_BYTES_RECEIVED = 1024 * 1024
_TOO_LONG = (
    f"more than {MAX_BODY_BYTES_RECEIVED // 1024} KiB after the headers, most of them lengths and extensions of chunks"
)
# Bytes after the head that are parsed at once: hundreds of chunks of one byte.
_SLICE_BYTES = 1024
# Bytes after the head that wait to be parsed while a transport of TLS is read: all of a body that is read, and the
# lengths of its chunks. At the end of a connection such a transport drops what it has not passed on when it is
# paused. That of TCP reads the end later.
_HELD_BYTES_OF_TLS = 2 * READ_CAP_BYTES
# For the end of TLS of a connection that no attempt uses any more.
_TLS_END_S = 0.05
# Before one response: informational responses, and bytes in their headers; bytes of empty lines.
MAX_INFORMATIONAL = 16
MAX_INFORMATIONAL_BYTES = 64 * 1024
MAX_EMPTY_BYTES = 1024
_TOO_EMPTY = f"more than {MAX_EMPTY_BYTES} bytes of empty lines before the response"
_TOO_MANY = (
    f"more than {MAX_INFORMATIONAL} informational responses (1xx), or {MAX_INFORMATIONAL_BYTES // 1024} KiB of their"
    " headers, before the response"
)


# aiohttp's message for a line that is too long quotes its bytes, and does not say what it counts.
_LONG_LINE = re.compile("Got more than ([0-9]+) bytes when reading")
# Its message for an answer of another protocol. The parser also reads RTSP and ICE as HTTP, without a message.
_NOT_HTTP = "the answer is not an HTTP response"
_SHOWN = 16
MOST_HEADERS = 128  # that aiohttp reads
_NO_HTTP = re.compile(r"Bad status line:\s*Expected HTTP/[^\n]*\s*(b['\"].*['\"])?")


def parse_error(message: str) -> str:
    """A message of the parser of responses in words."""
    found = _LONG_LINE.match(message)
    if found is None:
        other = _NO_HTTP.search(message)
        if other is not None:
            return _NOT_HTTP + (f": it begins with {cut(other[1], 60)}" if other[1] else "")
        if message.startswith("Too many headers"):
            return f"it has more than {MOST_HEADERS} headers: send fewer"
        return " ".join(message.split()).removesuffix(" ^")  # the sign is beneath the wrong byte, in a line of its own
    return f"a header, or the reason of the status line, is longer than about {int(found[1]) // 1_000} kB"


class ReceiverClient:
    """Sends requests, each once and on a connection of its own.

    A request on a kept connection can meet a connection that the receiver is closing. Whether it was processed is then
    unknown, and a client that hides the failure has to send it again: the receiver would get two requests where one
    attempt is recorded.
    """

    def __init__(self, resolver: AbstractResolver) -> None:
        self._client = aiohttp.ClientSession(
            connector=_Connector(resolver=resolver, use_dns_cache=False, limit=0, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            skip_auto_headers=_SKIPPED_HEADERS,
        )

    async def post(self, request: CallbackRequest, url: URL, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        """The response, of which the head is read. Raises `aiohttp.ClientError`, `TimeoutError` or `OSError`."""
        body: bytes | AsyncIterator[bytes] = request.body
        if request.send_duration_ms:
            headers = {**headers, "Content-Length": str(len(request.body))}  # without it aiohttp sends chunked
            body = _slow_body(request)
        return await self._client.post(
            url,
            data=body,
            headers=headers,
            timeout=client_timeout(request.timeout_ms, request.connect_timeout_ms),
            allow_redirects=False,
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()


class _Protocol(ResponseHandler):
    """A connection that reads a response after it has sent the request, with bounds on what precedes it: informational
    responses (1xx) and empty lines. Bytes after a complete response are ignored.

    aiohttp reads a response as it arrives, and closes the connection at its end. A receiver that answers a new
    connection at once would then get nothing of a request that is recorded as answered: what arrives before the request
    is written is kept until then.

    A receiver may send any number of informational responses before its response, and aiohttp reads them all. It
    refuses a response that is followed by other bytes if they come in the same packet. This class reads each head by
    itself and closes the connection at the end of the response, so that the division into packets makes no difference.
    A long body is read in slices, between which the event loop goes on.
    """

    _count = 0
    _header_bytes = 0
    _head_end = b""  # the last bytes of an unfinished head
    _start = b""  # the first bytes of a head
    _body: StreamReader | None = None  # of the response that is not informational
    _empty_bytes = _after_head = 0
    _waits = False  # whether the event loop will read it
    _most_held = 0  # bytes of it before the transport is paused
    _end: tuple[BaseException | None] | None = None  # of the connection
    _early = b""  # what arrived before the request was written
    _early_end = False

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._unread = bytearray()  # what arrived after the head and is read next
        self._progress = PROGRESS.get(AttemptProgress())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The request can be written."""
        self._progress.is_connected = True
        if transport.get_extra_info("sslcontext") is not None:
            self._most_held = _HELD_BYTES_OF_TLS
            transport = cast("asyncio.BaseTransport", _TlsTransport(cast("asyncio.Transport", transport), self._loop))
        super().connection_made(cast("asyncio.BaseTransport", _FirstWrite(cast("asyncio.Transport", transport), self)))

    def request_written(self, transport: asyncio.Transport) -> None:
        """The first part of the request was written to this transport: what arrived before is read now."""
        self.transport = transport
        self._progress.is_sent = True
        if self._early or self._early_end:
            self._loop.call_soon(self._read_early)

    def _read_early(self) -> None:
        early, self._early = self._early, b""
        if early:
            self.data_received(early)
        if not (self._waits or self._reading_paused):
            self._resume_transport_reading()
        if self._early_end and self.transport is not None:
            self.transport.close()

    def eof_received(self) -> bool | None:  # type: ignore[override]  # aiohttp's has no result
        """The receiver sends no more."""
        super().eof_received()
        if self._progress.is_sent or self.transport is None or self.transport.get_extra_info("sslcontext") is not None:
            return None
        self._early_end = True
        return True  # the connection stays open for writing; with TLS that is not possible

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection has ended: read what has arrived."""
        self._end = (exc,)
        if not self._waits:
            self._read_on()

    def _end_response(self, exc: BaseException | None) -> None:
        """All was read. A body whose end is that of the connection is complete only without an error."""
        if exc is not None and self._body is not None and not self._body.is_eof():
            self._body.set_exception(aiohttp.ClientPayloadError(f"the connection was lost: {exc}"))
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what arrived."""
        if self.exception() is not None:
            return
        if not self._progress.is_sent or self._early:
            self._early += data
            self._pause_transport_reading()
            return
        while self._body is None and self.exception() is None:
            if not self._start:
                data = self._without_empty_lines(data)
                if not data:
                    return
            end = _END_OF_HEAD.search(self._head_end + data)
            self._start = (self._start + data)[:_SHOWN]
            if end is None:
                self._head_end = (self._head_end + data)[-2:]
                break
            size, self._head_end = end.end() - len(self._head_end), b""
            super().data_received(data[:size])
            data, self._start = data[size:], b""
        if self.exception() is None:
            self._unread += data
            # A transport of TLS that is paused passes on what it had read before. A longer response is refused.
            del self._unread[MAX_BODY_BYTES_RECEIVED + _SLICE_BYTES :]
            if self._waits:
                if data:  # aiohttp's `b""` comes for each part of the body that is used
                    self._hold()
            elif not self._reading_paused:
                self._read_on()

    def _without_empty_lines(self, data: bytes) -> bytes:
        """The bytes from the first one of a head. A parser skips empty lines before it."""
        rest = data.lstrip(b"\r\n")
        self._empty_bytes += len(data) - len(rest)
        if self._empty_bytes > MAX_EMPTY_BYTES:
            self._fail(_TOO_EMPTY)
            return b""
        return rest

    def _read_on(self) -> None:
        """Read a slice of what has arrived after the head, and the next one when others have been served. Little is
        read from the network meanwhile. aiohttp continues a paused response with `data_received(b"")`."""
        data = bytes(self._unread[:_SLICE_BYTES])
        del self._unread[:_SLICE_BYTES]
        has_waited, self._waits = self._waits, False
        self._read_slice(data)
        if self._reading_paused and self._end is None:
            return
        if self._unread and self._reads_on():
            self._waits = True
            self._hold()
            self._loop.call_soon(self._read_on)
        elif self._end is not None:
            self._end_response(*self._end)
        elif has_waited:
            self._resume_transport_reading()

    def _hold(self) -> None:
        """Read nothing more from the network while much waits."""
        if len(self._unread) > self._most_held:
            self._pause_transport_reading()

    def _read_slice(self, data: bytes) -> None:
        """Parse bytes after the head, unless the response has ended."""
        if self._reads_on():
            self._after_head += len(data)
            super().data_received(data)
            if self._after_head > MAX_BODY_BYTES_RECEIVED and self.exception() is None:
                self._fail(_TOO_LONG)

    def _reads_on(self) -> bool:
        """Whether the response goes on. It has also ended when all has arrived that is read of its body."""
        body = self._body
        return self.exception() is None and (body is None or not (body.is_eof() or body.total_bytes > READ_CAP_BYTES))

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """End the request with an error, even if its head was read and it has no body."""
        if isinstance(exc, HttpProcessingError) and self._body is not None and not self._body.is_eof():
            self._body.set_exception(aiohttp.ClientError(parse_error(exc.message)))
        super().set_exception(exc, *cause)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Add a response that was read."""
        if self.exception() is not None:
            return
        if not self._start.startswith(b"HTTP/"):
            self._fail(f"{_NOT_HTTP}: it begins with {self._start!r}")
            return
        message = data[0]
        if not 100 <= message.code < 200:
            self._count = self._header_bytes = 0
            self._body = data[1]
        else:
            self._count += 1
            self._header_bytes += sum([len(name) + len(value) for name, value in message.raw_headers])
            if self._count > MAX_INFORMATIONAL or self._header_bytes > MAX_INFORMATIONAL_BYTES:
                self._fail(_TOO_MANY)
                return
        super().feed_data(data, size)

    def _fail(self, why: str) -> None:
        if self.transport is not None:
            self.transport.close()
        self.set_exception(HttpProcessingError(message=why))


class _FirstWrite:
    """A transport up to its first write, of which it tells its connection."""

    def __init__(self, transport: asyncio.Transport, protocol: _Protocol) -> None:
        self._transport = transport
        self._protocol = protocol

    def write(self, data: bytes) -> None:
        """As of the transport."""
        self._transport.write(data)
        self._protocol.request_written(self._transport)

    def writelines(self, data: Iterable[bytes]) -> None:
        """As of the transport."""
        self._transport.writelines(data)
        self._protocol.request_written(self._transport)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _TlsTransport:
    """A transport of TLS that reads nothing more once it is closed.

    That of an event loop sends its end of TLS and then waits for that of the other side, for 30 s, and decrypts what
    comes meanwhile: a receiver that sends without end would take the whole time of the loop. This one sends its end and
    closes the socket.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._is_closing = False

    def close(self) -> None:
        """Close it at the next turns of the event loop: within `data_received` a transport of TLS is still reading."""
        if not self._is_closing:
            self._is_closing = True
            self._transport.pause_reading()
            self._loop.call_soon(self._send_end)

    def is_closing(self) -> bool:
        """Whether it is closed, or will be."""
        return self._is_closing or self._transport.is_closing()

    def _send_end(self) -> None:
        self._transport.close()
        self._loop.call_soon(self._transport.abort)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _Connector(aiohttp.TCPConnector):
    """Opens connections of the class `_Protocol`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # aiohttp has no public option for it.
        self._factory = cast("partial[ResponseHandler]", partial(_Protocol, loop=self._loop))

    async def _wrap_create_connection(
        self, *arguments: Any, **options: Any
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        # When the attempt times out as the handshake ends, the event loop closes its own transport and reads on.
        if options.get("ssl"):
            options["ssl_shutdown_timeout"] = _TLS_END_S
        return await super()._wrap_create_connection(*arguments, **options)


async def _slow_body(request: CallbackRequest) -> AsyncIterator[bytes]:
    size = -(-len(request.body) // _SLOW_BODY_CHUNKS)
    for chunk in range(_SLOW_BODY_CHUNKS):
        await asyncio.sleep(request.send_duration_ms / 1_000 / _SLOW_BODY_CHUNKS)
        yield request.body[chunk * size : (chunk + 1) * size]


@lru_cache(maxsize=16)
def client_timeout(total_ms: int, connect_ms: int) -> aiohttp.ClientTimeout:
    """The limits of an attempt, in ms: of the whole and of its connection."""
    # By default aiohttp lets a timeout above five seconds end at the next whole second of the event loop's clock.
    return aiohttp.ClientTimeout(total=total_ms / 1_000, connect=connect_ms / 1_000, ceil_threshold=inf)
