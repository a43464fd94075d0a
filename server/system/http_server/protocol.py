"""The connections of the server: uvicorn's protocol, with bounds on request heads, on waiting and on their number.

uvicorn's httptools protocol reads a head of any length before the first check of a request, and its parser joins the
parts of a header in quadratic time. Here the bytes are counted as they arrive.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from http import HTTPStatus
from typing import Any, Literal, cast

import httptools
import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from leyden.server.errors import InvalidHttp, Problem, RequestHeadTooLarge, RequestTimeout, ServerBusy, UriTooLong
from leyden.server.http.request_parsing import expects_continue
from leyden.server.ports import CONNECTION
from leyden.server.system.http_server.connection import (
    DRAIN_BYTES,
    DRAIN_S,
    ClientConnection,
    closing,
    note_added_headers,
    read_rest,
    respond_stopping,
)
from leyden.server.system.http_server.connection_table import ConnectionTable
from leyden.server.system.http_server.flow import HeldFlow
from leyden.server.system.http_server.framing import framing_problem, origin_form, trim_values
from leyden.server.system.http_server.request_parser import RequestParser

# Bytes of a request line and its headers, bytes of a URL, number of headers. nginx and Apache allow 8 KiB for a line;
# Apache allows 100 headers.
MAX_HEAD_BYTES = 32 * 1024
MAX_URL_BYTES = 8 * 1024
MAX_HEADERS = 100
# Chunks of one body besides one for each 64 bytes: the work for a chunk does not depend on its length.
MAX_SMALL_CHUNKS = 1024
_CHUNK_BYTES = 64
# Real seconds: until the first byte on a connection, from the first byte of a head to its last, and from the end of a
# head to the end of its body. The empty lines before a request line belong to the head.
FIRST_BYTE_TIMEOUT_S = 30.0
HEAD_TIMEOUT_S = 10.0
BODY_TIMEOUT_S = 30.0
MAX_CONNECTIONS = 2048
_RESERVED_FILES = 80  # for connections to receivers and whatever else the process opens later
_FEW_FILES_SHARE = 7  # of few files, one in so many is a connection
# Bytes given to the parser at a time. A head that has not ended is refused at most twice this much beyond its bound.
_SLICE_BYTES = 4 * 1024
# The end of a head. A slice ends with it, so that at most two requests begin in one slice.
_HEAD_END = re.compile(rb"\n\r?\n")
# What clients send while a request of theirs waits behind another one is held unparsed, up to this for all connections.
# One connection has at most what the event loop reads at once (256 KiB).
MAX_HELD_BYTES = 16 * 1024 * 1024


def max_connections(files_left: int) -> int:
    """The number of connections for a process that may open this many more files: 2 to `MAX_CONNECTIONS`."""
    return max(2, min(MAX_CONNECTIONS, max(files_left - _RESERVED_FILES, files_left // _FEW_FILES_SHARE)))


def _head_too_long() -> Problem:
    return RequestHeadTooLarge(
        f"the headers, trailers or chunk extensions are longer than {MAX_HEAD_BYTES} bytes: send fewer or shorter ones"
    )


def _not_http(error: httptools.HttpParserError) -> str:
    """What the parser does not accept in a head, in words. It takes the first line of HTTP/2 for a pause."""
    reason = str(error)
    if isinstance(error, httptools.HttpParserInvalidMethodError) or reason.startswith("Pause"):
        return "this is not an HTTP/1.1 request with a registered method"
    return f"the head of this request is not HTTP/1.1: {reason}"


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with the bounds of this module. Trailers are ignored, but for those that frame a message.

    A request beyond a bound gets a problem document with 400, 408, 414 or 431, and its connection is closed; complete
    requests before it on the connection are answered first. While a request waits behind another one, nothing more is
    parsed or read; a connection that would have the server hold more than `MAX_HELD_BYTES` gets 503. When the table is
    full, a new connection closes the one that has been silent for longest; if every other connection has a request in
    progress, the new one gets 503.
    """

    def __init__(self, *arguments: Any, table: ConnectionTable, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.parser = RequestParser(self)  # type: ignore[assignment]
        self._table = table
        self.is_stopping = False
        self._held = b""  # received and not parsed
        self._uncounted_bytes = 0  # since the parser last completed a head or a part of a body
        self._in_head = False
        self._in_message = False
        self._chunks = self._body_bytes = 0  # of the body that is arriving
        self._deadline: asyncio.TimerHandle | None = None
        self._refusal: Problem | None = None
        self._running: RequestResponseCycle | None = None  # uvicorn's `cycle` is the latest one that was parsed
        self.app = partial(self._respond, self.app)
        self._connection = ClientConnection(self)
        self._extensions: dict[str, Any] = {CONNECTION: self._connection}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection. Closes another one, or refuses this one, when there are too many."""
        super().connection_made(transport)
        self.flow = HeldFlow(transport, lambda: bool(self._held), self._table.unread)
        self._set_deadline(FIRST_BYTE_TIMEOUT_S)
        self._table.note_activity(self)
        self._table.make_room(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline, and end the request in progress. uvicorn ends only the latest pipelined one."""
        self._clear_deadline()
        self._table.remove(self)
        self._connection.lost(exc)
        if self._running is not None:
            self._running.disconnected = True
            self._running.message_event.set()
        self._drop_waiting()
        self.parser.close()  # type: ignore[attr-defined]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, up to the first bound that is exceeded."""
        self._table.note_activity(self)
        if self._refusal is not None:
            return self._drain(len(data))
        self._unset_keepalive_if_required()
        return self._parse_up_to_waiting(self._take_held() + data)

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self.scope["extensions"] = self._extensions
        self._in_head = self._in_message = True
        self._uncounted_bytes = self._chunks = self._body_bytes = 0

    def on_url(self, url: bytes) -> None:
        """A part of the URL."""
        super().on_url(url)
        if len(self.url) > MAX_URL_BYTES:
            self._refusal = UriTooLong(f"the URL is longer than {MAX_URL_BYTES} bytes: send a shorter one")
            raise ValueError(self._refusal.detail)

    def on_headers_complete(self) -> None:
        """The end of the head. The parser reports trailers as headers, too: a new list keeps them from the request."""
        may_be_too_long = self._uncounted_bytes + _SLICE_BYTES > MAX_HEAD_BYTES
        self._in_head = False
        self._uncounted_bytes = 0
        if len(self.headers) > MAX_HEADERS:
            self._refusal = RequestHeadTooLarge(f"the request has more than {MAX_HEADERS} headers: send fewer")
            raise ValueError(self._refusal.detail)
        if may_be_too_long and self._head_bytes() > MAX_HEAD_BYTES:
            self._refusal = _head_too_long()
            raise ValueError(self._refusal.detail)
        trim_values(self.headers)
        self._refusal = framing_problem(self.headers, self.parser.get_http_version())
        if self._refusal is not None:
            raise ValueError(self._refusal.detail)
        if not self.url.startswith(b"/"):
            self.url = origin_form(self.url, self.headers)
        self.expect_100_continue = expects_continue(self.headers, self.parser.get_http_version())
        super().on_headers_complete()
        if not self.pipeline or self.pipeline[0][0] is not self.cycle:
            self._running = self.cycle
        self.headers = []

    def on_chunk_header(self) -> None:
        """The length of a chunk of the body."""
        self._chunks += 1
        if self._chunks > MAX_SMALL_CHUNKS + self._body_bytes // _CHUNK_BYTES:
            self._refusal = InvalidHttp(
                f"the body has more than {MAX_SMALL_CHUNKS} chunks of less than {_CHUNK_BYTES} bytes: send larger ones"
            )
            raise ValueError(self._refusal.detail)

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._uncounted_bytes = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The last byte of a request."""
        self._in_message = False
        self._uncounted_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The last byte of a response. The next pipelined request follows, or the refusal that waits for its turn."""
        if self.pipeline:
            self._running = self.pipeline[-1][0]
        super().on_response_complete()
        if self._part is not None:
            self._unset_keepalive_if_required()  # the next request has begun: its own deadline counts
        if self._held and not self.pipeline and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            held = self._take_held()
            self.flow.resume_reading()
            self._parse_up_to_waiting(held)
        elif self._refusal is not None and not self.has_request_in_progress:
            self._unset_keepalive_if_required()
            self._send_refusal(self._refusal)

    def shutdown(self) -> None:
        """The server stops: an incomplete request is not waited for."""
        self.is_stopping = True
        if self.has_request_in_progress:
            super().shutdown()
        else:
            self.transport.close()

    @property
    def is_closing(self) -> bool:
        """Whether it is closed, or is being closed."""
        return bool(self.transport.is_closing())

    @property
    def has_unread(self) -> bool:
        """Whether the client has sent bytes that the server has not read yet."""
        return self._connection.has_unread

    def abort(self) -> None:
        """Close the connection at once."""
        self._connection.abort()

    def close(self) -> None:
        """Close the connection after what was sent."""
        self.transport.close()

    def end_request(self) -> None:
        """The server waits no longer for the request in progress, and starts none of those that were pipelined."""
        self._drop_waiting()
        self._connection.end_request(self._running)

    @property
    def _part(self) -> Literal["head", "body"] | None:
        """The part of a request that is arriving. Empty lines before a request line belong to its head."""
        if self._in_message:
            return "head" if self._in_head else "body"
        return "head" if self._uncounted_bytes else None

    @property
    def has_request_in_progress(self) -> bool:
        """Whether a request arrived whole and has no complete response yet."""
        cycle = self._running
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    async def _respond(self, app: Any, scope: Any, receive: Any, send: Any) -> None:
        """Run the application. Its response is dropped if the client has closed the connection."""
        cycle = cast("RequestResponseCycle", self._running)
        send_open = partial(self._send_if_open, cycle, receive, send)
        try:
            await app(scope, receive, send_open)
        except asyncio.CancelledError:
            await respond_stopping(cycle, send_open)
        finally:
            cycle.disconnected = cycle.disconnected or self.transport.is_closing()

    async def _send_if_open(self, cycle: RequestResponseCycle, receive: Any, send: Any, message: Any) -> None:
        if cycle.more_body and message["type"] == "http.response.start":
            await read_rest(cycle, receive)
        # uvloop raises an error when bytes are written to a closed transport.
        if self.transport.is_closing():
            cycle.disconnected = True
        await send(message if cycle.keep_alive else closing(message))
        if not cycle.keep_alive or cycle.chunked_encoding:
            note_added_headers(message, is_last=not cycle.keep_alive, is_chunked=bool(cycle.chunked_encoding))

    def _head_bytes(self) -> int:
        """The length of the head, with each header written as `name: value`."""
        line = len(self.parser.get_method()) + len(self.url) + len("  HTTP/1.1\r\n")
        return line + sum([len(name) + len(value) + len(": \r\n") for name, value in self.headers]) + len("\r\n")

    def _drop_waiting(self) -> None:
        self.pipeline.clear()
        self._take_held()

    def _take_held(self) -> bytes:
        held, self._held = self._held, b""
        self._table.held_bytes -= len(held)
        return held

    def _parse_up_to_waiting(self, data: bytes) -> None:
        """Parse until a request waits behind another one, and hold the rest."""
        former_part = self._part
        start = 0
        while start < len(data) and not self.pipeline:
            head_end = _HEAD_END.search(data, start, start + _SLICE_BYTES)
            piece = data[start : start + _SLICE_BYTES if head_end is None else head_end.end()]
            start += len(piece)
            self._uncounted_bytes += len(piece)
            problem = self._parse(piece)
            if problem is not None:
                return self.refuse(problem)
            if self.transport.is_closing():
                return None
        if start < len(data):
            if self._table.held_bytes + len(data) - start > MAX_HELD_BYTES:
                detail = "too many requests wait for the responses to earlier ones: send each after the response"
                return self.refuse(ServerBusy(detail))
            self._held = data[start:]
            self._table.held_bytes += len(self._held)
            self.flow.pause_reading()
        # Most requests arrive whole and need no deadline.
        if self._part is None:
            self._clear_deadline()
        elif self._part != former_part:
            self._set_deadline(HEAD_TIMEOUT_S if self._part == "head" else BODY_TIMEOUT_S)
        return None

    def _parse(self, piece: bytes) -> Problem | None:
        """Give bytes to the parser. The problem if they are refused."""
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, httptools.HttpParserInvalidURLError):
                detail = "the target of this request is no path or http URL: send a path, such as GET /v0/charges"
                return self._refusal or InvalidHttp(detail)
            if self._part == "body":
                detail = "the chunks or the trailers of this body are not HTTP/1.1: send it with Content-Length"
                return self._refusal or InvalidHttp(detail)
            return self._refusal or InvalidHttp(_not_http(error))
        if self._uncounted_bytes <= MAX_HEAD_BYTES:
            return None
        return _head_too_long()

    def refuse(self, problem: Problem) -> None:
        """Answer with the problem after the complete requests before it, and close the connection."""
        self._refusal = problem
        self._table.record(problem)
        self._uncounted_bytes = 0
        self._clear_deadline()
        cycle = self.cycle
        if cycle is not None and cycle.more_body and not cycle.response_complete:
            cycle.disconnected = True
            cycle.waiting_for_100_continue = False  # nothing is written after the refusal
            cycle.message_event.set()
            if self.pipeline and self.pipeline[0][0] is cycle:
                self.pipeline.popleft()
        if not self.has_request_in_progress:
            self._send_refusal(problem)

    def _send_refusal(self, problem: Problem) -> None:
        """Send the problem, unless the response to the refused request has begun, and end the connection."""
        cycle = self._running
        readable = cycle is None or cycle.response_complete or not cycle.response_started
        if not readable or self.transport.is_closing():
            self.transport.close()
            return
        body = orjson.dumps(problem.to_document(""))
        head = (
            f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}\r\n"
            f"content-type: application/problem+json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.flow.resume_reading()
        self._uncounted_bytes = 0
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._set_deadline(DRAIN_S)
        self._table.note_refused(self)

    def _drain(self, count: int) -> None:
        self._uncounted_bytes += count
        if self._uncounted_bytes > DRAIN_BYTES:
            self.transport.close()

    def _set_deadline(self, seconds: float) -> None:
        self._clear_deadline()
        self._deadline = self.loop.call_later(seconds, self._time_out)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _time_out(self) -> None:
        self._deadline = None
        if self._refusal is not None:
            self.transport.close()  # all was sent
        elif self.has_request_in_progress:
            # A pipelined request: nothing is read before the response to the earlier one is complete.
            self._set_deadline(HEAD_TIMEOUT_S)
        elif not self._in_message:
            self.transport.close()  # there is no request to answer
        else:
            part, seconds = ("head", HEAD_TIMEOUT_S) if self._in_head else ("body", BODY_TIMEOUT_S)
            self.refuse(RequestTimeout(f"the {part} of the request was not complete after {seconds:g} seconds"))
