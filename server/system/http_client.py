"""Requests to receivers, on kept connections where the receiver keeps them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any, cast

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, RawResponseMessage
from aiohttp.streams import StreamReader
from yarl import URL

from leyden.server.ports import CallbackRequest

# Headers that aiohttp adds by default: a receiver gets exactly the headers of the `CallbackRequest`, plus host and
# content-length.
_SKIPPED_HEADERS = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")

_SLOW_BODY_CHUNKS = 8

# Before one response: informational responses, and bytes in their headers.
MAX_INFORMATIONAL = 16
MAX_INFORMATIONAL_BYTES = 64 * 1024
_TOO_MANY = (
    f"more than {MAX_INFORMATIONAL} informational responses (1xx), or {MAX_INFORMATIONAL_BYTES // 1024} KiB of their"
    " headers, before the response"
)


class ReceiverClient:
    """Sends requests. A connection is kept for `keep_alive_s` seconds after a response of status 2xx, and closed after
    any other: many servers close it then, and say so in no header.

    A receiver can close a kept connection while a request is sent on it. That request is sent once more, on a new
    connection and within the same timeout (RFC 9110, 9.2.2: the receiver tells callbacks apart by their id).
    """

    def __init__(self, resolver: AbstractResolver, keep_alive_s: float) -> None:
        self._pooled = _new_client(resolver, _Response, keep_alive_s)
        self._unpooled = _new_client(resolver, _LastResponse, keep_alive_s)

    async def post(self, request: CallbackRequest, url: URL, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        """The response, of which the head is read. Raises `aiohttp.ClientError`, `TimeoutError` or `OSError`."""
        if request.new_connection:
            return await _post(self._unpooled, request, url, headers, request.timeout_ms)
        start = time.perf_counter()
        _opens_connection.set(False)
        try:
            return await _post(self._pooled, request, url, headers, request.timeout_ms)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            remaining_ms = request.timeout_ms - round((time.perf_counter() - start) * 1_000)
            if _opens_connection.get() or _has_begun(error) or remaining_ms <= 0:
                raise
        return await _post(self._unpooled, request, url, headers, remaining_ms)

    async def close(self) -> None:
        """Close every connection."""
        await self._pooled.close()
        await self._unpooled.close()


# Whether the present task has opened a connection for its request, and did not use a kept one.
_opens_connection: ContextVar[bool] = ContextVar("_opens_connection")


class _Protocol(ResponseHandler):
    """A connection with bounds on informational responses (1xx). A receiver may send any number of them before its
    response, and aiohttp reads them all."""

    _count = 0
    _header_bytes = 0

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Add a response that was read."""
        if self.exception() is not None:
            return
        message = data[0]
        if not 100 <= message.code < 200:
            self._count = self._header_bytes = 0
        else:
            self._count += 1
            self._header_bytes += sum([len(name) + len(value) for name, value in message.raw_headers])
            if self._count > MAX_INFORMATIONAL or self._header_bytes > MAX_INFORMATIONAL_BYTES:
                if self.transport is not None:
                    self.transport.close()
                self.set_exception(HttpProcessingError(code=message.code, message=_TOO_MANY))
                return
        super().feed_data(data, size)


class _Connector(aiohttp.TCPConnector):
    """Notes when a connection is opened. aiohttp's tracing tells it too, at a higher cost for each request."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # aiohttp has no public option for it.
        self._factory = cast("partial[ResponseHandler]", partial(_Protocol, loop=self._loop))

    async def _create_connection(self, *arguments: Any, **options: Any) -> ResponseHandler:
        """Open a connection: aiohttp calls this in the task of the request if the pool has no connection for it."""
        _opens_connection.set(True)
        return await super()._create_connection(*arguments, **options)


class _Response(aiohttp.ClientResponse):
    """A response after which the connection is kept only if the status is one of `kept_statuses`."""

    kept_statuses = range(200, 300)

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        """Read the head."""
        protocol = connection.protocol
        await super().start(connection)
        if protocol is not None and self.status not in self.kept_statuses:
            protocol.force_close()
            if self.connection is None:  # the body has arrived with the head, so the pool has the connection already
                protocol.close()
        return self


class _LastResponse(_Response):
    """A response after which the connection is closed. The receiver is not asked to: it gets no additional header."""

    kept_statuses = range(0)


def _new_client(
    resolver: AbstractResolver, response_class: type[aiohttp.ClientResponse], keep_alive_s: float
) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=_Connector(resolver=resolver, use_dns_cache=False, limit=0, keepalive_timeout=keep_alive_s),
        response_class=response_class,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        skip_auto_headers=_SKIPPED_HEADERS,
    )


def _post(
    client: aiohttp.ClientSession,
    request: CallbackRequest,
    url: URL,
    headers: Mapping[str, str],
    timeout_ms: int,
) -> Awaitable[aiohttp.ClientResponse]:
    body: bytes | AsyncIterator[bytes] = request.body
    if request.send_duration_ms:
        headers = {**headers, "Content-Length": str(len(request.body))}  # without it aiohttp sends chunked
        body = _slow_body(request)
    return client.post(
        url,
        data=body,
        headers=headers,
        timeout=_client_timeout(timeout_ms, request.connect_timeout_ms),
        allow_redirects=False,
    )


def _has_begun(error: aiohttp.ClientError) -> bool:
    """Whether the connection ended within the head of a response."""
    return isinstance(error, aiohttp.ServerDisconnectedError) and not isinstance(error.message, str)


async def _slow_body(request: CallbackRequest) -> AsyncIterator[bytes]:
    size = -(-len(request.body) // _SLOW_BODY_CHUNKS)
    for chunk in range(_SLOW_BODY_CHUNKS):
        await asyncio.sleep(request.send_duration_ms / 1_000 / _SLOW_BODY_CHUNKS)
        yield request.body[chunk * size : (chunk + 1) * size]


@lru_cache(maxsize=16)
def _client_timeout(total_ms: int, connect_ms: int) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=total_ms / 1_000, connect=connect_ms / 1_000)
