"""Puts requests into the request log of their world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leyden.server.http.pipeline import BODY, HEADERS
from leyden.server.http.request_parsing import headers_by_name
from leyden.server.system.clock import elapsed_ns
from leyden.service_faults.connection import connection_of
from leyden.service_faults.service_faults import APPLIED
from leyden.world.components import CONTROL_PATH
from leyden.world.request_log import KEPT_BYTES, LoggedRequest
from leyden.world.world import World

EVENTS_PATH = f"{CONTROL_PATH}/events"
# Pages and documents, and the stream of the log itself.
_NOT_LOGGED = frozenset(
    {
        "/", "/docs", "/openapi.json", "/favicon.ico", EVENTS_PATH,
        *(f"{CONTROL_PATH}/{name}" for name in ("docs", "openapi.json", "merged.json")),
    }
)  # fmt: skip
CLIENT_HEADER, CONSOLE = b"leyden-client", b"console"
_READS = frozenset({"GET", "HEAD"})
# A client is taken for one that may have left only after such a time: it costs a look at the connection.
_SLOW_NS = 50_000_000


def has_left(scope: Scope, started_ns: int) -> bool:
    """Whether the client of a slow request has left before the response began."""
    return elapsed_ns() - started_ns > _SLOW_NS and connection_of(scope).is_closed


def record(world: World, scope: Scope, started_ns: int, sent: Sequence[Message]) -> None:
    """Add a request that has ended to the log of its world. `sent` are the messages that the client got."""
    path = scope["path"]
    if path in _NOT_LOGGED:
        return
    get, log, method = scope.get, world.request_log, scope["method"]
    if len(sent) == 2:
        start, last = sent
        status, response_headers, response = start["status"], start["headers"], last.get("body", b"")
        size, is_complete = len(response), not last.get("more_body")
        if size > KEPT_BYTES:
            response = bytes(response[:KEPT_BYTES])
    else:
        status, response_headers, response, size, is_complete = _in_parts(sent)
    headers = get(HEADERS)
    client = (headers_by_name(scope["headers"]) if headers is None else headers).get(CLIENT_HEADER)
    body, fault = get(BODY, b""), get(APPLIED)
    row = tuple.__new__(  # not `LoggedRequest(...)`, whose own function would cost as much as the rest
        LoggedRequest,
        (
            next(log.numbers),
            world.clock.last_seen,
            started_ns,
            elapsed_ns(),
            method,
            path,
            get("raw_path") or b"",
            get("query_string", b""),
            scope["headers"],
            body if len(body) <= KEPT_BYTES else body[:KEPT_BYTES],
            len(body),
            status,
            response_headers,
            response,
            size,
            is_complete,
            None if fault is None else (fault["id"], fault["kind"]),
            client,
        ),
    )
    log.add(row, is_console_read=client == CONSOLE and method in _READS)


class LoggedApp:
    """The application of a world, whose requests are in its log. `world()` is the present one."""

    def __init__(self, world: Callable[[], World]) -> None:
        self._world = world

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        world = self._world()
        app: ASGIApp = world.app
        if scope["type"] != "http":
            return await app(scope, receive, send)
        started_ns = elapsed_ns()
        sent: list[Message] = []

        async def send_recorded(message: Message) -> None:
            sent.append(message)
            await send(message)

        try:
            await app(scope, receive, send_recorded)
        finally:
            record(world, scope, started_ns, sent)


def _in_parts(sent: Sequence[Message]) -> tuple[int | None, Any, bytes, int, bool]:
    """Status, headers, the start of the body, its length and whether it is complete: of a response in more than one
    part, or of none."""
    if not sent:
        return None, (), b"", 0, False
    body = b"".join(message.get("body", b"") for message in sent[1:])
    is_complete = len(sent) > 1 and not sent[-1].get("more_body")
    return sent[0]["status"], sent[0]["headers"], body[:KEPT_BYTES], len(body), is_complete
