"""The door: every request passes the same checks in the same order before any handler sees it.

    size -> route -> key -> media type -> Accept -> strict JSON -> parameters -> body -> idempotency -> handler
         -> the answer held against the spec

Nothing waits on I/O here except for the request's own bytes, and for the disk when the store's policy says so.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from itertools import count
from typing import Any
from urllib.parse import parse_qsl

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from server.call import Call
from server.checks import body_with_defaults, faults_in, pointed_integers, read_parameter
from server.contract.shape import Operation
from server.errors import (
    Fault,
    Impossible,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    PayloadTooLarge,
    Problem,
    StorageUnavailable,
    Unauthorized,
    UnsupportedMediaType,
)
from server.idempotency import Idempotency
from server.ports import Journal
from server.projects import Projects
from server.strict_json import parse

log = logging.getLogger("leyden")

JSON = "application/json"
PROBLEM = "application/problem+json"

_BODY = "leyden.body"
_DRAINED = 8 * 1024 * 1024
# An answer is kept under its Idempotency-Key once the handler has judged the request; our own failures are not kept.
_NOT_KEPT = frozenset({400, 401, 500, 507})

Handler = Callable[[Call], Any]
Headers = Iterable[tuple[bytes, bytes]]


@dataclass(slots=True)
class Gate:
    """What the door needs of the world behind it.

    `turn` is entered around all that a request reads and writes, which is then one commit. `settled` is awaited before
    an answer leaves: the store's policy. `limit` names the refusal for an operation that is asked for too often.
    """

    turn: Callable[[], AbstractContextManager[Any]]
    projects: Projects
    idempotency: Idempotency
    journal: Journal
    key_header: bytes
    settled: Callable[[], Awaitable[None]] | None = None
    limit: Callable[[str], Problem | None] | None = None
    requests: count[int] = field(default_factory=lambda: count(1))

    def request_id(self) -> str:
        """The next request's name, `req-1`, `req-2`, ...: counted, so that a run can be repeated to the byte."""
        return f"req-{next(self.requests)}"


class Intake:
    """Reads the whole body before anything else and refuses one that is too long (413), by its announced length and by
    its counted bytes."""

    def __init__(self, app: ASGIApp, gate: Gate, limit: int) -> None:
        self._app = app
        self._gate = gate
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        too_long = any(
            name == b"content-length" and value.isdigit() and int(value) > self._limit
            for name, value in scope["headers"]
        )
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
            return await send_problem(send, problem, self._gate.request_id())
        scope[_BODY] = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        return await self._app(scope, receive, send)


class Offer:
    """An operation, who answers it, and the headers that all its answers have in common."""

    __slots__ = ("handler", "headers", "operation", "waits")

    def __init__(self, operation: Operation, handler: Handler) -> None:
        self.operation = operation
        self.handler = handler
        self.waits = iscoroutinefunction(handler)
        self.headers = [(name.encode(), value.encode()) for name, value in operation.replies[200].constants]
        if getattr(handler, "mock", False):
            self.headers.append((b"x-leyden-mock", b"example"))


class PathEndpoint:
    """Everything that can be asked of one path."""

    def __init__(self, bound: Mapping[str, tuple[Operation, Handler]], gate: Gate, depth_limit: int) -> None:
        self._depth_limit = depth_limit
        self._bound = {method: Offer(operation, handler) for method, (operation, handler) in bound.items()}
        if "GET" in bound:
            self._bound["HEAD"] = self._bound["GET"]
        self._allow = ", ".join(sorted([*self._bound, "OPTIONS"])).encode()
        self._gate = gate
        self._open_to_browsers = any(operation.errors_as == "lnurl" for operation, _ in bound.values())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gate = self._gate
        method = scope["method"]
        offer = self._bound.get(method)
        request_id = gate.request_id()
        if offer is None:
            return await self._without_operation(scope, send, request_id)
        operation = offer.operation
        headers = offer.headers.copy()
        try:
            status, body = await self._answer(offer, scope, headers, request_id)
            if gate.settled is not None:
                await _settle(gate.settled, operation)
        except Problem as problem:
            return await self._refuse(operation, problem, request_id, scope, send)
        except Exception as error:
            log.exception("%s failed on %s", operation.operation_id, request_id)
            defect = InternalError(
                f"{operation.operation_id} failed on a defect of Leyden's own: {type(error).__name__}"
            )
            return await self._refuse(operation, defect, request_id, scope, send)
        gate.journal.note("request", _subject(scope), status=status)
        media = JSON if status == 200 else PROBLEM
        return await _send(send, status, body, media, headers, hide=method == "HEAD")

    async def _answer(
        self, offer: Offer, scope: Scope, headers: list[tuple[bytes, bytes]], request_id: str
    ) -> tuple[int, bytes]:
        gate, operation, handler = self._gate, offer.operation, offer.handler
        sent = _pick(scope["headers"])
        project = ""
        if operation.secured:
            project = self._project(sent)
        refusal = None if gate.limit is None else gate.limit(operation.operation_id)
        if refusal is not None:
            raise refusal
        submitted = _read_body(operation, scope[_BODY], sent, self._depth_limit)
        call = _call(operation, project, scope, sent, submitted)
        if offer.waits:
            return 200, _checked(operation, await handler(call))
        key = call.header.get("Idempotency-Key")
        with gate.turn():
            if key is None:
                return 200, _checked(operation, handler(call))
            return self._once(offer, call, key, headers, request_id)

    def _once(
        self, offer: Offer, call: Call, key: str, headers: list[tuple[bytes, bytes]], request_id: str
    ) -> tuple[int, bytes]:
        """Run a handler at most once for its Idempotency-Key; a request seen before gets the answer given then."""
        answers, operation = self._gate.idempotency, offer.operation
        name = (call.project, operation.operation_id, key)
        remembered = answers.recall(*name, call.submitted)
        if remembered is not None:
            headers.append((b"idempotent-replayed", b"true"))
            return remembered.status, remembered.body
        try:
            status, body = 200, _checked(operation, offer.handler(call))
        except Problem as problem:
            # A handler raises before it writes, so keeping the refusal commits nothing else.
            if problem.status in _NOT_KEPT or problem.status not in operation.replies:
                raise
            status, body = problem.status, orjson.dumps(problem.document(request_id))
        answers.remember(*name, call.submitted, status, body)
        return status, body

    def _project(self, sent: Mapping[bytes, bytes]) -> str:
        key = sent.get(self._gate.key_header)
        project = None if key is None else self._gate.projects.owner(key.decode("latin-1"))
        if project is None:
            name = self._gate.key_header.decode()
            raise Unauthorized(
                f"send your project's key in the header {name}", headers={"WWW-Authenticate": f'ApiKey header="{name}"'}
            )
        return project

    async def _refuse(self, operation: Operation, problem: Problem, request_id: str, scope: Scope, send: Send) -> None:
        hide = scope["method"] == "HEAD"
        if operation.errors_as == "lnurl" and problem.status not in {406, 413, 500, 507}:
            # LUD-06: wallets read the reason from a 200; other statuses make them drop it.
            body = {"status": "ERROR", "reason": problem.detail}
            self._gate.journal.note("request", _subject(scope), status=200, refused=problem.code)
            constants = [(name.encode(), value.encode()) for name, value in operation.replies[200].constants]
            return await _send(send, 200, orjson.dumps(body), JSON, constants, hide=hide)
        if problem.status not in operation.replies:
            log.error("%s answered %s, which the spec does not declare", operation.operation_id, problem.status)
            problem = InternalError(f"{operation.operation_id} raised an undeclared {problem.status}: {problem.detail}")
        self._gate.journal.note("request", _subject(scope), status=problem.status, refused=problem.code)
        return await send_problem(send, problem, request_id, hide=hide)

    async def _without_operation(self, scope: Scope, send: Send, request_id: str) -> None:
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
        if StorageUnavailable.status in operation.replies:
            raise


async def send_problem(send: Send, problem: Problem, request_id: str, *, hide: bool = False) -> None:
    """Answer an RFC 9457 document."""
    headers = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in problem.headers.items()]
    await _send(send, problem.status, orjson.dumps(problem.document(request_id)), PROBLEM, headers, hide=hide)


async def _send(
    send: Send, status: int, body: bytes, media: str | None, headers: Headers, *, hide: bool = False
) -> None:
    sent = [] if media is None else [(b"content-type", media.encode()), (b"content-length", b"%d" % len(body))]
    sent += headers
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": b"" if hide else body})


def _subject(scope: Scope) -> str:
    return f"{scope['method']} {scope['path']}"[:200]


def _pick(headers: Headers) -> dict[bytes, bytes]:
    """The headers by name; a repeated one is joined as RFC 9110 (5.2) says."""
    picked: dict[bytes, bytes] = {}
    for name, value in headers:
        picked[name] = value if name not in picked else picked[name] + b", " + value
    return picked


def _read_body(operation: Operation, raw: bytes, sent: Mapping[bytes, bytes], depth: int) -> dict[str, Any]:
    """Media type, Accept, then the JSON itself; an absent optional body is an empty object."""
    rule = operation.body
    skipped = rule is None or (not raw and not rule.required)
    if rule is not None and not skipped:
        media, _, parameters = sent.get(b"content-type", b"").decode("latin-1").lower().partition(";")
        charset = parameters.partition("charset=")[2].strip().strip('"')
        if media.strip() not in rule.media_types or charset not in {"", "utf-8"}:
            raise UnsupportedMediaType(f"send the body as Content-Type: {rule.media_types[0]}")
    accept = sent.get(b"accept")
    if accept is not None and accept != b"*/*" and not _accepts_json(accept.decode("latin-1")):
        raise NotAcceptable(f"answers are {JSON}: accept that, or leave Accept out")
    if skipped:
        return {}
    value = parse(raw, depth_limit=depth)
    if not isinstance(value, dict):
        detail = "the body must be a JSON object"
        raise InvalidRequest(detail, faults=[Fault("", detail)])
    return value


def _accepts_json(accept: str) -> bool:
    """Whether an Accept header lets `application/json` through: the most specific range decides (RFC 9110, 12.5.1)."""
    best: tuple[int, bool] = (0, False)
    for part in accept.lower().split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        rank = {"*/*": 1, "application/*": 2, JSON: 3}.get(media, 0)
        quality = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        allowed = quality.strip("0.") != ""
        if rank > best[0]:
            best = (rank, allowed)
    return best[1]


def _call(
    operation: Operation, project: str, scope: Scope, sent: Mapping[bytes, bytes], submitted: dict[str, Any]
) -> Call:
    faults: list[Fault] = []
    path: Mapping[str, str] = scope["path_params"]
    query: dict[str, Any] = {}
    header: dict[str, str] = {}
    given: dict[str, str] = {}
    if scope["query_string"] and (operation.errors_as != "lnurl" or operation.parameters):
        given = _query(operation, scope["query_string"], faults)
    for parameter in operation.parameters:
        if parameter.place == "path":
            # A malformed id is answered as an unknown one: neither tells what exists.
            if not parameter.rule.validator.is_valid(path[parameter.name]):
                raise NotFound(f"there is nothing with this {parameter.name} for this key: check it and the apikey")
            continue
        if parameter.place == "query":
            text, into = given.get(parameter.name), query
        else:
            raw = sent.get(parameter.name.lower().encode())
            text, into = None if raw is None else raw.decode("latin-1"), header
        if text is None:
            if parameter.required:
                faults.append(Fault(f"{parameter.place}.{parameter.name}", f"{parameter.name} is missing"))
            elif parameter.default is not None:
                into[parameter.name] = parameter.default
            continue
        value = read_parameter(parameter, text)
        found = faults_in(parameter.rule, value, f"{parameter.place}.{parameter.name}")
        expect = parameter.rule.schema.get("x-expect")
        faults.extend(Fault(fault.pointer, f"expected {expect}") if expect else fault for fault in found)
        into[parameter.name] = value
    body: Mapping[str, Any] = submitted
    if operation.body is not None:
        if not faults:
            faults = faults_in(operation.body.rule, submitted)
        if not faults:
            body = body_with_defaults(operation.body, submitted)
    if faults:
        raise InvalidRequest(_first_of(faults), faults=faults)
    if operation.body is not None and (pointed := pointed_integers(operation.body.rule, submitted)):
        raise Impossible(_first_of(pointed), faults=pointed)
    return Call(project, path, query, header, body, submitted)


def _first_of(faults: Sequence[Fault]) -> str:
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{faults[0].pointer or 'body'}: {faults[0].detail}{more}"


def _query(operation: Operation, raw: bytes, faults: list[Fault]) -> dict[str, str]:
    known = {parameter.name for parameter in operation.parameters if parameter.place == "query"}
    lenient = operation.errors_as == "lnurl"
    given: dict[str, str] = {}
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
    except (UnicodeDecodeError, ValueError):
        detail = "the query is not percent-encoded UTF-8, or has too many fields"
        faults.append(Fault("query", detail))
        return given
    for name, value in pairs:
        place = f"query.{name[:60]}"
        if name in given:
            faults.append(Fault(place, f"{name[:60]} is given twice: give it once"))
        elif name in known:
            given[name] = value
        elif not lenient:
            faults.append(Fault(place, f"there is no parameter {name[:60]} here: leave it out"))
    return given


def _checked(operation: Operation, body: Any) -> bytes:
    """The answer's bytes, after it was held against the spec: a mismatch is our own defect, and said so."""
    rule = operation.replies[200].rule
    if rule is not None and not rule.validator.is_valid(body):
        faults = faults_in(rule, body)
        raise InternalError(f"{operation.operation_id} answered against its own contract", faults=faults)
    return orjson.dumps(body)
