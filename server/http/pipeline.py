"""The request pipeline: every request passes the same checks in the same order before its handler runs.

    size -> route -> API key -> media type -> Accept -> strict JSON -> parameters -> body -> idempotency -> handler
         -> response checked against the spec

The pipeline waits only for the bytes of the request and, depending on the store's policy, for the disk.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from leyden.server.contract.types import EVENT_STREAM, IDEMPOTENCY_KEY, WALLET_STATUSES, Operation
from leyden.server.errors import (
    FieldError,
    InternalError,
    MethodNotAllowed,
    Problem,
    ServiceReplaced,
    StorageUnavailable,
    is_out_of_files,
)
from leyden.server.http.idempotency import Idempotency
from leyden.server.http.ignored_fields import HEADER, IGNORED, IgnoredFields, header_value, journal_facts
from leyden.server.http.request import EncodedJson, Request
from leyden.server.http.request_parsing import JSON, RequestParser
from leyden.server.http.strict_json import LONG_BODY_BYTES
from leyden.server.http.validation import find_errors
from leyden.server.ports import CONNECTION, EventJournal
from leyden.server.printable import printable

log = logging.getLogger("leyden")

PROBLEM = "application/problem+json"

# Keys of the scope: more facts about the request for the event journal, the body as far as it was read, the headers.
JOURNAL_FACTS = "leyden.journal_facts"
BODY, HEADERS = "leyden.body", "leyden.headers"
WORK_TURN = "leyden.work_turn"  # what is awaited before a long page is read, and before a part of a long body is sent
LONG_PAGE = 200  # rows
_ANY_ORIGIN = (b"access-control-allow-origin", b"*")
# Not stored under an Idempotency-Key: requests that did not reach the handler, and failures of the service.
_NOT_STORED = frozenset({400, 401, 500, 507})
_PART_BYTES, _MOST_PARTS = 256 * 1024, 50  # of a long response
_LOGGED_FIELDS, _LOGGED_CHARS = 3, 200  # wrong fields of a response that are named, and characters of each

Handler = Callable[[Request], Any]
Headers = Iterable[tuple[bytes, bytes]]
Authenticate = Callable[[Mapping[bytes, bytes], bytes], str]


@dataclass(slots=True)
class PipelineContext:
    """The parts of the service that the pipeline uses, shared by all requests.

    `transaction` is entered around everything that a handler reads and writes, which is then one commit. It raises
    `ServiceReplaced` when the service has ended: the caller of the application then asks the service's successor.
    `authenticate(headers, query)` returns the project of a request, or raises `Unauthorized`.
    `wait_durable` is awaited before a response is sent, as the store's policy requires. `rate_limit(operation_id)`
    returns the problem for an operation that is called too often, or None. `ignored_fields` are those of all requests.
    `run_apart` runs long work while other requests are answered; without it that is done at once. `request_count`
    numbers the requests.
    """

    transaction: Callable[[], AbstractContextManager[Any]]
    authenticate: Authenticate
    idempotency: Idempotency
    journal: EventJournal
    api_key_header: bytes
    wait_durable: Callable[[], Awaitable[None]] | None = None
    rate_limit: Callable[[str], Problem | None] | None = None
    ignored_fields: IgnoredFields = field(default_factory=IgnoredFields)
    run_apart: Callable[[Callable[[], Any]], Awaitable[Any]] | None = None
    request_count: int = 0
    _count_before: int = 0

    def next_request_id(self) -> str:
        """`req-1`, `req-2`, ...: counted and not random, so that a run can be reproduced to the byte."""
        self.request_count += 1
        return f"req-{self.request_count}"

    # Part of a commit (`leyden.server.store.rows.CommitParticipant`): a request may be made within an event

    def begin(self) -> None:
        """Remember the number of requests."""
        self._count_before = self.request_count

    def commit(self) -> None:
        """Nothing to do."""

    def rollback(self, error: BaseException) -> None:
        """Return to the number at `begin`."""
        self.request_count = self._count_before


class BoundOperation:
    """An operation with its handler and parser, and the headers of all its responses."""

    __slots__ = (
        "handler", "headers", "is_async", "is_recorded", "is_stream", "media", "operation", "parser", "response_rule",
        "status",
    )  # fmt: skip

    def __init__(self, operation: Operation, handler: Handler, depth_limit: int, key_header: bytes) -> None:
        self.operation = operation
        self.handler = handler
        self.parser = RequestParser(operation, depth_limit, key_header)
        self.status = operation.success.status
        self.response_rule = operation.success.rule
        self.is_async = iscoroutinefunction(handler)
        self.media = operation.success.media_type or JSON
        self.is_stream = self.media == EVENT_STREAM
        self.is_recorded = getattr(handler, "recorded", True)
        self.headers = [(name.encode(), value.encode()) for name, value in operation.success.constants]
        if getattr(handler, "mock", False):
            self.headers.append((b"x-leyden-mock", b"example"))


class PathEndpoint:
    """The operations of one path. It answers their errors itself, and HEAD, OPTIONS and unknown methods."""

    def __init__(
        self,
        bound: Mapping[str, tuple[Operation, Handler]],
        pipeline: PipelineContext,
        depth_limit: int,
        authenticate: Authenticate | None = None,
    ) -> None:
        # An operation is prepared for its first request: a sandbox that lives for one test uses few of them.
        self._bound: dict[str, BoundOperation] = {}
        self._operations = bound
        self._depth_limit = depth_limit
        self._authenticate = authenticate
        heads = ["HEAD"] if "GET" in bound else []
        self._allow = ", ".join(sorted([*bound, *heads, "OPTIONS"])).encode()
        self._pipeline = pipeline
        self._cors = any(operation.errors_as == "lnurl" for operation, _ in bound.values())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pipeline = self._pipeline
        method = scope["method"]
        bound = self._bound.get(method) or self._bind(method)
        request_id = pipeline.next_request_id()
        if bound is None:
            return await self._respond_without_operation(scope, send, request_id)
        operation = bound.operation
        headers = bound.headers.copy()
        try:
            status, body = await self._handle(bound, scope, headers, request_id)
            if pipeline.wait_durable is not None:
                await _wait_durable(pipeline.wait_durable, operation)
        except ServiceReplaced:
            raise
        except Problem as problem:
            if isinstance(problem, InternalError):
                log.error("%s failed on %s: %s", operation.operation_id, request_id, _with_fields(problem))
            return await self._respond_problem(bound, problem, request_id, scope, send)
        except Exception as error:
            if is_out_of_files(error):  # no defect: the server responds
                raise
            log.exception("%s failed on %s", operation.operation_id, request_id)
            defect = InternalError(f"{operation.operation_id} failed: a defect of Leyden, {type(error).__name__}")
            return await self._respond_problem(bound, defect, request_id, scope, send)
        facts = {} if status < 400 else {"refused": orjson.loads(body)["code"]}  # a stored response may be an error
        self._record(scope, bound, status, **facts)
        if IGNORED in scope:
            headers.append((HEADER, header_value(scope[IGNORED])))
        if bound.is_stream:
            return await _send_events(send, status, body, scope, headers, omit_body=method == "HEAD")
        media = bound.media if status == bound.status else PROBLEM
        turn = scope.get(WORK_TURN)
        return await _send(send, status, body, media, headers, omit_body=method == "HEAD", turn=turn)

    def _bind(self, method: str) -> BoundOperation | None:
        found = self._operations.get("GET" if method == "HEAD" else method)
        if found is not None:
            self._bound[method] = BoundOperation(*found, self._depth_limit, self._pipeline.api_key_header)
        return self._bound.get(method)

    async def _handle(
        self, bound: BoundOperation, scope: Scope, response_headers: list[tuple[bytes, bytes]], request_id: str
    ) -> tuple[int, Any]:
        """The status and the body of the response: bytes, pieces of them, or the events of a stream. Raises `Problem`
        for an error response."""
        pipeline, operation, handler, parser = self._pipeline, bound.operation, bound.handler, bound.parser
        headers = scope[HEADERS]
        project = ""
        if operation.secured:
            project = (self._authenticate or pipeline.authenticate)(headers, scope["query_string"])
        problem = None if pipeline.rate_limit is None else pipeline.rate_limit(operation.operation_id)
        if problem is not None:
            raise problem
        body = scope[BODY]

        def parsed() -> Request:
            return parser.parse_request(project, scope, headers, parser.parse_body(body, headers))

        apart = None if len(body) <= LONG_BODY_BYTES else pipeline.run_apart
        request = parsed() if apart is None else await apart(parsed)
        if WORK_TURN in scope and request.query.get("limit", 0) > LONG_PAGE:
            await scope[WORK_TURN]()
        if bound.is_stream:
            return bound.status, await handler(request)
        if bound.is_async:
            return bound.status, _encode_checked(bound, await handler(request))
        with pipeline.transaction():
            key = request.header.get(IDEMPOTENCY_KEY)
            if key is None:
                return bound.status, _encode_checked(bound, handler(request))
            return self._handle_idempotent(bound, request, key, response_headers, request_id)

    def _handle_idempotent(
        self,
        bound: BoundOperation,
        request: Request,
        key: str,
        response_headers: list[tuple[bytes, bytes]],
        request_id: str,
    ) -> tuple[int, bytes]:
        """Run the handler at most once per Idempotency-Key; a repeated request gets the stored response."""
        idempotency, operation = self._pipeline.idempotency, bound.operation
        name = (request.project, operation.operation_id, key)
        stored = idempotency.recall(*name, request.raw_body)
        if stored is not None:
            response_headers.append((b"idempotent-replayed", b"true"))
            return stored.status, stored.body
        try:
            status, body = bound.status, _encode_checked(bound, bound.handler(request))
            assert isinstance(body, bytes)  # only a list or a file is encoded in pieces
        except Problem as problem:
            # A handler raises before it writes, so this commit has nothing but the stored response.
            if problem.status in _NOT_STORED or problem.status not in operation.responses:
                raise
            status, body = problem.status, orjson.dumps(problem.to_document(request_id))
        idempotency.remember(*name, request.raw_body, status, body)
        return status, body

    async def _respond_problem(
        self, bound: BoundOperation, problem: Problem, request_id: str, scope: Scope, send: Send
    ) -> None:
        operation = bound.operation
        omit_body = scope["method"] == "HEAD"
        more = [(HEADER, header_value(scope[IGNORED]))] if IGNORED in scope else []
        if operation.errors_as == "lnurl":
            # An error with a status of its own has no header of a success, and wallets in web pages read it too.
            is_success = problem.status not in WALLET_STATUSES
            constants = ((name.encode(), value.encode()) for name, value in operation.success.constants)
            more += [header for header in constants if is_success or header == _ANY_ORIGIN]
        if operation.errors_as == "lnurl" and problem.status not in WALLET_STATUSES:
            body = {"status": "ERROR", "reason": problem.detail}
            self._record(scope, bound, 200, refused=problem.code)
            return await _send(send, 200, orjson.dumps(body), bound.media, more, omit_body=omit_body)
        if problem.status not in operation.responses:
            log.error("%s raised the undeclared status %s", operation.operation_id, problem.status)
            problem = InternalError(f"{operation.operation_id} raised an undeclared {problem.status}: {problem.detail}")
        self._record(scope, bound, problem.status, refused=problem.code)
        return await send_problem(send, problem, request_id, more, omit_body=omit_body)

    def _record(self, scope: Scope, bound: BoundOperation, status: int, **facts: Any) -> None:
        """Note the request in the event journal, with its ignored fields if it has any."""
        if IGNORED in scope:
            facts["ignored"] = journal_facts(scope[IGNORED])
            self._pipeline.ignored_fields.add(bound.operation, scope[IGNORED])
        if not bound.is_recorded:
            return
        if JOURNAL_FACTS in scope:
            facts.update(scope[JOURNAL_FACTS])
        self._pipeline.journal.note("request", _subject(scope), status=status, **facts)

    async def _respond_without_operation(self, scope: Scope, send: Send, request_id: str) -> None:
        """Answer OPTIONS with 204, and a method that the path does not have with 405."""
        if scope["method"] == "OPTIONS":
            headers = [(b"allow", self._allow)]
            if self._cors:
                methods = (b"access-control-allow-methods", self._allow)
                headers += [_ANY_ORIGIN, methods, (b"access-control-allow-headers", b"*")]
            return await _send(send, 204, b"", None, headers)
        allow = self._allow.decode()
        problem = MethodNotAllowed(
            f"this path has no method {scope['method'][:20]}: use {allow}", headers={"Allow": allow}
        )
        self._pipeline.journal.note("request", _subject(scope), status=405, refused=problem.code)
        return await send_problem(send, problem, request_id, [_ANY_ORIGIN] if self._cors else ())


async def _wait_durable(wait_durable: Callable[[], Awaitable[None]], operation: Operation) -> None:
    try:
        await wait_durable()
    except StorageUnavailable:
        # A read waits too, so that it shows nothing that a power cut could lose. But a failing disk must not prevent
        # reading: only operations that write declare this problem.
        if StorageUnavailable.status in operation.responses:
            raise


async def send_problem(
    send: Send, problem: Problem, request_id: str, more: Headers = (), *, omit_body: bool = False
) -> None:
    """Send an RFC 9457 document, with `more` headers besides those of the problem."""
    headers = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in problem.headers.items()]
    headers += more
    body = orjson.dumps(problem.to_document(request_id))
    await _send(send, problem.status, body, PROBLEM, headers, omit_body=omit_body)


async def _send(
    send: Send,
    status: int,
    body: bytes | tuple[bytes, ...],
    media: str | None,
    headers: Headers,
    *,
    omit_body: bool = False,
    turn: Callable[[], Awaitable[None]] | None = None,
) -> None:
    length = len(body) if isinstance(body, bytes) else sum(map(len, body))
    all_headers = [] if media is None else [(b"content-type", media.encode()), (b"content-length", b"%d" % length)]
    all_headers += headers
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    if omit_body:
        body = b""
    elif not isinstance(body, bytes):
        for part in _grouped(body, length):
            if turn is not None:
                await turn()
            await send({"type": "http.response.body", "body": part, "more_body": True})
        body = b""
    await send({"type": "http.response.body", "body": body})


async def _send_events(
    send: Send, status: int, events: AsyncGenerator[bytes], scope: Scope, headers: Headers, *, omit_body: bool
) -> None:
    """Send a stream until it ends, the client leaves or the server stops. Empty bytes are not sent."""
    connection = (scope.get("extensions") or {}).get(CONNECTION)
    all_headers = [(b"content-type", EVENT_STREAM.encode()), (b"cache-control", b"no-store"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    async with aclosing(events):
        async for part in events:
            if omit_body:
                break
            if part:
                await send({"type": "http.response.body", "body": part, "more_body": True})
            if connection is not None and connection.is_ending:
                break
    await send({"type": "http.response.body", "body": b""})


def _with_fields(problem: Problem) -> str:
    """The detail of a problem, which names the first wrong field, with the next ones, for the log."""
    fields = [_in_words(error) for error in problem.field_errors]
    more = [f"{len(fields) - _LOGGED_FIELDS} more"] if len(fields) > _LOGGED_FIELDS else []
    return printable("; ".join([problem.detail, *fields[1:_LOGGED_FIELDS], *more]))


def _in_words(error: FieldError) -> str:
    return f"{error.pointer or 'body'}: {error.detail}"[:_LOGGED_CHARS]


def _subject(scope: Scope) -> str:
    return f"{scope['method']} {scope['path']}"[:200]


def _encode_checked(bound: BoundOperation, body: Any) -> bytes | tuple[bytes, ...]:
    """The bytes of the response body, a long one in pieces: others are answered while it is sent. Raises
    `InternalError`, a defect of Leyden, when it does not match the spec."""
    rule = bound.response_rule
    checked = body.outline if isinstance(body, EncodedJson) else body
    if rule is not None and not rule.validator.is_valid(checked):
        errors, operation = find_errors(rule, checked), bound.operation
        what = _in_words(errors[0]) if errors else "the body"
        raise InternalError(
            f"{operation.operation_id} returned a response that does not match the spec: {what}; in an edited document,"
            f" allow it in paths.{operation.path}.{operation.method}.responses.{bound.status}",
            field_errors=errors,
        )
    return body.pieces if isinstance(body, EncodedJson) else orjson.dumps(body)


def _grouped(pieces: Sequence[bytes], length: int) -> Iterator[bytes]:
    """The same `length` bytes in parts that are sent at once: at most `_MOST_PARTS` of them, none of them short."""
    least = max(_PART_BYTES, length // (_MOST_PARTS - 1))
    group, size = list[bytes](), 0
    for piece in pieces:
        group.append(piece)
        size += len(piece)
        if size > least:
            yield b"".join(group)
            group, size = [], 0
    yield b"".join(group)
