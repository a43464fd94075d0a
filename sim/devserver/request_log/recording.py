"""Puts requests into the request log of their world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from leyden.server.http.pipeline import BODY, HEADERS
from leyden.server.http.request_parsing import headers_by_name
from leyden.server.ports import ADDED_HEADERS
from leyden.server.system.clock import elapsed_ns
from leyden.service_faults.connection import connection_of
from leyden.service_faults.service_faults import APPLIED, CLIENT_LEFT, OF_SERVICE, UNCHANGED
from leyden.world.components import CONTROL_PATH
from leyden.world.concurrency.present_run import respond
from leyden.world.request_log import KEPT_BYTES
from leyden.world.world import World

EVENTS_PATH = f"{CONTROL_PATH}/events"
# Pages and documents, and the stream of the log itself.
_NOT_LOGGED = frozenset(
    {
        "/", "/docs", "/openapi.json", "/favicon.ico", EVENTS_PATH,
        *(f"{CONTROL_PATH}/{name}" for name in ("docs", "openapi.json", "merged.json", "flows.json")),
    }
)  # fmt: skip
MOST_PARTS = 100  # of a response that the log looks at; a stream has more, and is not in it
CLIENT_HEADER, CONSOLE = b"leyden-client", b"console"
_READS = frozenset({"GET", "HEAD"})


class SentMessages:
    """The messages of a response, the first of them, and which were sent on a connection that was open."""

    __slots__ = ("_connection", "_dropped", "messages")

    def __init__(self, scope: Scope) -> None:
        self._connection = connection_of(scope)
        self._dropped: list[Message] = []
        self.messages: list[Message] = []

    def add(self, message: Message) -> None:
        """Note a message that is about to be sent. One to a client that has left is dropped by the server."""
        if len(self.messages) + len(self._dropped) < MOST_PARTS:
            (self._dropped if self._connection.is_closed else self.messages).append(message)

    def record(self, world: World, scope: Scope, started_ns: int) -> None:
        """Add a request whose response has ended to the log of its world, when all of it was handed to the operating
        system or the connection was lost."""
        ended_ns = elapsed_ns()
        self._connection.when_sent(
            lambda unsent: _record(world, scope, started_ns, ended_ns, self.messages, self._dropped, unsent)
        )


def _record(
    world: World,
    scope: Scope,
    started_ns: int,
    ended_ns: int,
    sent: Sequence[Message],
    dropped: Sequence[Message],
    unsent: int,
) -> None:
    path, method = scope["path"], scope["method"]
    is_read = method in _READS
    if is_read and path in _NOT_LOGGED:
        return
    get, log = scope.get, world.request_log
    fault = get(APPLIED)
    produced = sent
    if fault is not None and CLIENT_LEFT in scope:
        sent = ()
    if len(sent) == 2:
        start, last = sent
        status, response_headers, response = start["status"], _headers(start), last.get("body", b"")
        size, is_complete = len(response), not last.get("more_body")
        if size > KEPT_BYTES:
            response = response[:KEPT_BYTES]
    else:
        status, response_headers, response, size, is_complete = _in_parts(sent)
    if unsent:
        is_complete = False
        if unsent > size:  # not all of the head either
            status, response_headers, response, size = None, (), b"", 0
        else:
            size -= unsent
            response = response[:size]
    service_status, service_body = None, None
    if fault is not None or dropped or not is_complete:
        service_status, service_body = _of_service(scope, [*produced, *dropped])
        if (service_status, service_body) == (status, response):
            service_status, service_body = None, None
    headers = get(HEADERS)
    client = (headers_by_name(scope["headers"]) if headers is None else headers).get(CLIENT_HEADER)
    body = get(BODY, b"")
    fields = (
        next(log.numbers),
        world.clock.last_seen,
        started_ns,
        ended_ns,
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
        None if fault is None else (fault["id"], fault["kind"], UNCHANGED not in scope),
        client,
        service_status,
        service_body,
    )
    log.add(fields, is_console_read=is_read and client == CONSOLE)


class LoggedApp:
    """The application of a world, whose requests are in its log. `world()` is the present one."""

    def __init__(self, world: Callable[[], World]) -> None:
        self._world = world

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        world = self._world()
        if scope["type"] != "http":
            return await world.app(scope, receive, send)
        started_ns = elapsed_ns()
        sent = SentMessages(scope)

        async def send_recorded(message: Message) -> None:
            sent.add(message)
            await send(message)

        try:
            await respond(world, scope, receive, send_recorded)
        finally:
            sent.record(world, scope, started_ns)


def _in_parts(sent: Sequence[Message]) -> tuple[int | None, Any, bytes, int, bool]:
    """Status, headers, the start of the body, its length and whether it is complete: of a response in more than one
    part, or of none."""
    if not sent:
        return None, (), b"", 0, False
    start = bytearray()
    size = 0
    for message in sent[1:]:
        part = message.get("body", b"")
        start += part[: KEPT_BYTES - len(start)]
        size += len(part)
    is_complete = len(sent) > 1 and not sent[-1].get("more_body")
    return sent[0]["status"], _headers(sent[0]), bytes(start), size, is_complete


def _headers(start: Message) -> Any:
    """The headers of a response as the client got them."""
    added = start.get(ADDED_HEADERS)
    return [*start["headers"], *added] if added else start["headers"]


def _of_service(scope: Scope, produced: Sequence[Message]) -> tuple[int | None, bytes | None]:
    """The status and the start of the body of the service's own response, before faults and lost connections; `(None,
    None)` when the service did not answer."""
    response = scope.get(OF_SERVICE)
    if response is not None:
        return response.status, response.body[:KEPT_BYTES]
    if APPLIED in scope or not produced:  # the response of a fault that was applied before the service was asked
        return None, None
    status, _, body, _, _ = _in_parts(produced)
    return status, body
