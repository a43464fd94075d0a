"""The door: every request passes the same checks in the same order before any handler sees it.

    size -> route -> key -> media type -> Accept -> strict JSON -> parameters -> body -> idempotency -> handler
         -> the answer held against the spec

Nothing waits on I/O here except for the request's own bytes, and for the disk when the store's policy says so.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from leyden.server.contract.types import Operation
from leyden.server.errors import (
    InternalError,
    MethodNotAllowed,
    PayloadTooLarge,
    Problem,
    StorageUnavailable,
    Unauthorized,
)
from leyden.server.http.idempotency import Idempotency
from leyden.server.http.projects import Projects
from leyden.server.http.request import Request
from leyden.server.http.request_parsing import JSON, RequestParser, headers_by_name
from leyden.server.http.validation import find_errors
from leyden.server.ports import EventJournal

log = logging.getLogger("leyden")

PROBLEM = "application/problem+json"

_BODY, _HEADERS = "leyden.body", "leyden.headers"
_DRAINED = 8 * 1024 * 1024
# An answer is kept under its Idempotency-Key once the handler has judged the request; our own failures are not kept.
_NOT_KEPT = frozenset({400, 401, 500, 507})

Handler = Callable[[Request], Any]
Headers = Iterable[tuple[bytes, bytes]]


@dataclass(slots=True)
class PipelineContext:
    """What the door needs of the world behind it.

    `transaction` is entered around all that a request reads and writes, which is then one commit. `wait_durable` is
    awaited before an answer leaves: the store's policy. `rate_limit` names the refusal for an operation that is asked
    for too often.
    """

    transaction: Callable[[], AbstractContextManager[Any]]
    projects: Projects
    idempotency: Idempotency
    journal: EventJournal
    api_key_header: bytes
    wait_durable: Callable[[], Awaitable[None]] | None = None
    rate_limit: Callable[[str], Problem | None] | None = None
    request_count: int = 0

    def next_request_id(self) -> str:
        """The next request's name, `req-1`, `req-2`, ...: counted, so that a run can be repeated to the byte."""
        self.request_count += 1
        return f"req-{self.request_count}"


class BodyLimitMiddleware:
    """Reads the whole body before anything else and refuses one that is too long (413), by its announced length and by
    its counted bytes."""

    def __init__(self, app: ASGIApp, gate: PipelineContext, limit: int) -> None:
        self._app = app
        self._gate = gate
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        sent = scope[_HEADERS] = headers_by_name(scope["headers"])
        announced = sent.get(b"content-length", b"")
        too_long = announced.isdigit() and int(announced) > self._limit
        read = 0
        chunks: list[bytes] = []
        more = True
        # A body that is too long is still read for a while: a client that is busy sending would otherwise see a broken
        # connection instead of the answer.
        while more and read <= _DRAINED:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            chunk = message.get("body", b"")
            read += len(chunk)
            too_long = too_long or read > self._limit
            if not too_long:
                chunks.append(chunk)
            more = message.get("more_body", False)
        if too_long:
            problem = PayloadTooLarge(f"the body is larger than {self._limit} bytes: send less")
            return await send_problem(send, problem, self._gate.next_request_id())
        scope[_BODY] = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        return await self._app(scope, receive, send)


class BoundOperation:
    """An operation, who answers it, and the headers that all its answers have in common."""

    __slots__ = ("handler", "headers", "is_async", "operation", "parser", "response_rule")

    def __init__(self, operation: Operation, handler: Handler, depth_limit: int) -> None:
        self.operation = operation
        self.handler = handler
        self.parser = RequestParser(operation, depth_limit)
        self.response_rule = operation.responses[200].rule
        self.is_async = iscoroutinefunction(handler)
        self.headers = [(name.encode(), value.encode()) for name, value in operation.responses[200].constants]
        if getattr(handler, "mock", False):
            self.headers.append((b"x-leyden-mock", b"example"))


class PathEndpoint:
    """Everything that can be asked of one path."""

    def __init__(self, bound: Mapping[str, tuple[Operation, Handler]], gate: PipelineContext, depth_limit: int) -> None:
        self._bound = {
            method: BoundOperation(operation, handler, depth_limit) for method, (operation, handler) in bound.items()
        }
        if "GET" in bound:
            self._bound["HEAD"] = self._bound["GET"]
        self._allow = ", ".join(sorted([*self._bound, "OPTIONS"])).encode()
        self._gate = gate
        self._open_to_browsers = any(operation.errors_as == "lnurl" for operation, _ in bound.values())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gate = self._gate
        method = scope["method"]
        offer = self._bound.get(method)
        request_id = gate.next_request_id()
        if offer is None:
            return await self._respond_without_operation(scope, send, request_id)
        operation = offer.operation
        headers = offer.headers.copy()
        try:
            status, body = await self._handle(offer, scope, headers, request_id)
            if gate.wait_durable is not None:
                await _settle(gate.wait_durable, operation)
        except Problem as problem:
            return await self._respond_problem(operation, problem, request_id, scope, send)
        except Exception as error:
            log.exception("%s failed on %s", operation.operation_id, request_id)
            defect = InternalError(
                f"{operation.operation_id} failed on a defect of Leyden's own: {type(error).__name__}"
            )
            return await self._respond_problem(operation, defect, request_id, scope, send)
        gate.journal.note("request", _subject(scope), status=status)
        media = JSON if status == 200 else PROBLEM
        return await _send(send, status, body, media, headers, hide=method == "HEAD")

    async def _handle(
        self, offer: BoundOperation, scope: Scope, headers: list[tuple[bytes, bytes]], request_id: str
    ) -> tuple[int, bytes]:
        gate, operation, handler, reader = self._gate, offer.operation, offer.handler, offer.parser
        sent = scope[_HEADERS]
        project = self._authenticate(sent) if operation.secured else ""
        refusal = None if gate.rate_limit is None else gate.rate_limit(operation.operation_id)
        if refusal is not None:
            raise refusal
        call = reader.parse_request(project, scope, sent, reader.parse_body(scope[_BODY], sent))
        if offer.is_async:
            return 200, _encode_checked(offer, await handler(call))
        with gate.transaction():
            key = call.header.get("Idempotency-Key")
            if key is None:
                return 200, _encode_checked(offer, handler(call))
            return self._handle_idempotent(offer, call, key, headers, request_id)

    def _handle_idempotent(
        self, offer: BoundOperation, call: Request, key: str, headers: list[tuple[bytes, bytes]], request_id: str
    ) -> tuple[int, bytes]:
        """Run a handler at most once for its Idempotency-Key; a request seen before gets the answer given then."""
        answers, operation = self._gate.idempotency, offer.operation
        name = (call.project, operation.operation_id, key)
        remembered = answers.recall(*name, call.raw_body)
        if remembered is not None:
            headers.append((b"idempotent-replayed", b"true"))
            return remembered.status, remembered.body
        try:
            status, body = 200, _encode_checked(offer, offer.handler(call))
        except Problem as problem:
            # A handler raises before it writes, so keeping the refusal commits nothing else.
            if problem.status in _NOT_KEPT or problem.status not in operation.responses:
                raise
            status, body = problem.status, orjson.dumps(problem.to_document(request_id))
        answers.remember(*name, call.raw_body, status, body)
        return status, body

    def _authenticate(self, sent: Mapping[bytes, bytes]) -> str:
        key = sent.get(self._gate.api_key_header)
        project = None if key is None else self._gate.projects.project_for_key(key.decode("latin-1"))
        if project is None:
            name = self._gate.api_key_header.decode()
            raise Unauthorized(
                f"send your project's key in the header {name}", headers={"WWW-Authenticate": f'ApiKey header="{name}"'}
            )
        return project

    async def _respond_problem(
        self, operation: Operation, problem: Problem, request_id: str, scope: Scope, send: Send
    ) -> None:
        hide = scope["method"] == "HEAD"
        if operation.errors_as == "lnurl" and problem.status not in {406, 413, 500, 507}:
            # LUD-06: wallets read the reason from a 200; other statuses make them drop it.
            body = {"status": "ERROR", "reason": problem.detail}
            self._gate.journal.note("request", _subject(scope), status=200, refused=problem.code)
            constants = [(name.encode(), value.encode()) for name, value in operation.responses[200].constants]
            return await _send(send, 200, orjson.dumps(body), JSON, constants, hide=hide)
        if problem.status not in operation.responses:
            log.error("%s answered %s, which the spec does not declare", operation.operation_id, problem.status)
            problem = InternalError(f"{operation.operation_id} raised an undeclared {problem.status}: {problem.detail}")
        self._gate.journal.note("request", _subject(scope), status=problem.status, refused=problem.code)
        return await send_problem(send, problem, request_id, hide=hide)

    async def _respond_without_operation(self, scope: Scope, send: Send, request_id: str) -> None:
        if scope["method"] == "OPTIONS":
            headers = [(b"allow", self._allow)]
            if self._open_to_browsers:
                headers += [
                    (b"access-control-allow-origin", b"*"),
                    (b"access-control-allow-methods", self._allow),
                    (b"access-control-allow-headers", b"*"),
                ]
            return await _send(send, 204, b"", None, headers)
        allow = self._allow.decode()
        problem = MethodNotAllowed(f"{scope['method'][:20]} is not offered here: use {allow}", headers={"Allow": allow})
        self._gate.journal.note("request", _subject(scope), status=405, refused=problem.code)
        return await send_problem(send, problem, request_id)


async def _settle(settled: Callable[[], Awaitable[None]], operation: Operation) -> None:
    try:
        await settled()
    except StorageUnavailable:
        # A reader waits too, so that it shows nothing that a power cut takes back. But a disk that fails must not hide
        # what is there: only operations that write declare this problem.
        if StorageUnavailable.status in operation.responses:
            raise


async def send_problem(send: Send, problem: Problem, request_id: str, *, hide: bool = False) -> None:
    """Answer an RFC 9457 document."""
    headers = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in problem.headers.items()]
    await _send(send, problem.status, orjson.dumps(problem.to_document(request_id)), PROBLEM, headers, hide=hide)


async def _send(
    send: Send, status: int, body: bytes, media: str | None, headers: Headers, *, hide: bool = False
) -> None:
    sent = [] if media is None else [(b"content-type", media.encode()), (b"content-length", b"%d" % len(body))]
    sent += headers
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": b"" if hide else body})


def _subject(scope: Scope) -> str:
    return f"{scope['method']} {scope['path']}"[:200]


def _encode_checked(offer: BoundOperation, body: Any) -> bytes:
    """The answer's bytes, after it was held against the spec: a mismatch is our own defect, and said so."""
    rule = offer.response_rule
    if rule is not None and not rule.validator.is_valid(body):
        faults = find_errors(rule, body)
        raise InternalError(f"{offer.operation.operation_id} answered against its own contract", field_errors=faults)
    return orjson.dumps(body)
