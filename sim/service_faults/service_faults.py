"""Injected faults of the service: an ASGI application around the service's, whose rules change what a client gets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from itertools import chain
from math import ceil
from typing import Any, TypedDict, cast

import orjson
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leyden.rng import uuid4_from
from leyden.server.charges.wire_model import charge_resource
from leyden.server.contract.types import Contract, Operation
from leyden.server.errors import StorageUnavailable, Unauthorized
from leyden.server.http.authentication import authenticate
from leyden.server.http.pipeline import BODY, JOURNAL_FACTS
from leyden.server.http.request_parsing import headers_by_name
from leyden.server.ports import Clock, EventJournal, RandomSource
from leyden.server.service import Service
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable
from leyden.service_faults.connection import connection_of
from leyden.service_faults.index import ServiceFaultIndex
from leyden.service_faults.kinds import (
    ERROR,
    KEY_IN_USE,
    RESET,
    STALE_READ,
    ServiceFaultRow,
    ServiceFaultSpec,
    is_spent,
)
from leyden.service_faults.responses import HEADER, Response, changed_response, changes, error_response

# Keys of the scope: the row of the rule that was used, that it changed nothing, that the client left before the
# response began, and the response of the service, which the client may have got in another form or not at all.
APPLIED, UNCHANGED = "leyden.service_fault", "leyden.service_fault_unchanged"
CLIENT_LEFT, OF_SERVICE = "leyden.client_left", "leyden.service_response"
_PARTS, _LONGEST_PAUSE_S = 10, 0.5  # of a slow body: at least so many, and a limit on each read never ends it
_MAX_ANSWERS = 1_000
_MAX_PRESENT = 400  # Charges, and Static Charges, that are remembered when a rule is added
_READ_BYTES = 8 * 1024 * 1024  # of a body, at most
_KEPT_BYTES = 64 * 1024  # of the body of a request that does not reach the service


class AnswerRow(TypedDict):
    """Table `service_fault_answers`: the state (JSON) of a resource when a `stale_read` rule was added, or else that of
    the first response about it, or to a target, since. `id` is the resource's id or the path with its query."""

    id: str
    state: str


class _Request:
    """A request to an operation of the service, as the rules see it."""

    __slots__ = ("key", "method", "operation", "path", "project", "subject", "target")

    def __init__(self, scope: Scope, operation: Operation, project: str, key: str | None) -> None:
        self.operation = operation
        self.project = project
        self.key = key
        self.method = str(scope["method"])
        self.path = str(scope["path"])
        query = scope["query_string"]
        self.target = f"{self.path}?{query.decode('latin-1')}" if query else self.path
        self.subject = f"{self.method} {self.path}"[:200]


class ServiceFaults:
    """The rules and what they do. `app` is the application whose requests they match; without a rule each request goes
    there at once.

    Of the rules that match a request the oldest applies; `stale_read` applies if no other does. A request without a
    valid API key is matched only where none is needed. All of it is rows: the number of hits is kept over a restart.
    Each hit is in the journal as `service_fault_hit`, and the entry of its request has `fault` and, if the rule sends
    another status than the service's, `sent`; whether the client waited for it is in the request log only, because that
    depends on real time. A hit that the disk does not take changes nothing.

    `rng` is a stream of the rules' own. `exclusive` is entered around what they write.
    """

    def __init__(
        self,
        contract: Contract,
        store: Store,
        clock: Clock,
        journal: EventJournal,
        rng: RandomSource,
        app: ASGIApp,
        service: Service,
        *,
        exclusive: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._clock = clock
        self._journal = journal
        self._rng = rng
        self.app = app
        self._service = service
        self._exclusive = exclusive
        self._operations = contract.operations
        self._rules = cast(TypedTable[ServiceFaultRow], store.table("service_faults"))
        self.index = ServiceFaultIndex(self._rules, clock.now)
        self._answers = cast(TypedTable[AnswerRow], store.table("service_fault_answers"))
        self._paths: list[tuple[Any, dict[str, Operation]]] = []

    # Control operations

    def add(self, spec: ServiceFaultSpec) -> ServiceFaultRow:
        """Store a rule and return its row. Raises `ValueError` for one that could never apply."""
        row = spec.row(uuid4_from(self._rng), self._clock.now(), self._operations)
        if spec.kind == STALE_READ:
            self._remember_present()
        self._rules.put(row)
        self.index.add(row)
        self._journal.note("service_fault_added", row["id"], fault=spec.kind)
        return row

    @property
    def rows(self) -> list[ServiceFaultRow]:
        """Every rule that was not cleared, the oldest first."""
        return list(self._rules)

    def page(self, after: int | None, limit: int) -> list[Any]:
        """At most `limit` rules after the document id `after`, the oldest first."""
        return self._rules.page_up(after=after, limit=limit)

    def row(self, fault_id: str) -> ServiceFaultRow | None:
        """One rule, or None."""
        return self._rules.row(fault_id)

    def clear(self, fault_id: str | None = None) -> int:
        """Delete this rule, or all; returns how many."""
        if fault_id is None:
            cleared = self._rules.clear()
            self.index.clear()
        elif (rule := self._rules.row(fault_id)) is not None:
            self.index.remove(rule)
            cleared = int(self._rules.delete(fault_id))
        else:
            cleared = 0
        if cleared:
            self._journal.note("service_faults_cleared", fault_id or "", count=cleared)
        if not self.index.has_stale_read():
            self._answers.clear()
        return cleared

    # The application

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer as the application does, or as a rule says."""
        # No coroutine of its own: a request without a rule costs one look at a table.
        if not len(self._rules) or scope["type"] != "http":
            return self.app(scope, receive, send)
        return self._respond(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = self._request(scope)
        if request is None or not len(self.index):
            return await self.app(scope, receive, send)
        try:
            row = self._select(request)
        except StorageUnavailable:
            return await self.app(scope, receive, send)
        if row is not None:
            return await self._apply(row, request, scope, receive, send)
        if self.index.has_stale_read():
            response = await self._response(scope, receive)
            if response is not None:
                await _send(send, self._stale(request, response, scope))
            return None
        return await self.app(scope, receive, send)

    def _request(self, scope: Scope) -> _Request | None:
        """The request to an operation of the service, with a valid key if it needs one; None for any other."""
        operation = self._operation(scope["method"], scope["path"])
        if operation is None:
            return None
        headers = headers_by_name(scope["headers"])
        key = headers.get(b"idempotency-key")
        project = ""
        if operation.secured:
            service = self._service
            try:
                project = authenticate(
                    service.projects, service.pipeline.api_key_header, headers, scope["query_string"]
                )
            except Unauthorized:
                return None
        return _Request(scope, operation, project, None if key is None else key.decode("latin-1"))

    def _operation(self, method: str, path: str) -> Operation | None:
        if not self._paths:
            by_path: dict[str, dict[str, Operation]] = {}
            for operation in self._operations.values():
                by_path.setdefault(operation.path, {})[operation.method.upper()] = operation
            # Paths without parameters first, as in the routes.
            self._paths = [
                (compile_path(path)[0], methods)
                for path, methods in sorted(by_path.items(), key=lambda item: "{" in item[0])
            ]
        for pattern, methods in self._paths:
            if pattern.match(path):
                return methods.get("GET" if method == "HEAD" else method)
        return None

    def _select(self, request: _Request) -> ServiceFaultRow | None:
        """The rule that applies, which is counted; None without one. `stale_read` is left out."""
        rules = self.index.matching(request.operation, request.method, request.path)
        fitting = (rule for rule in rules if rule["kind"] != KEY_IN_USE or self._is_key_known(request))
        first = next(fitting, None)
        if first is None:
            return None
        with self._exclusive():
            for rule in chain((first,), fitting):
                row = self._count(rule, request)
                if row is not None:
                    return row
        return None

    def _is_key_known(self, request: _Request) -> bool:
        idempotency = self._service.pipeline.idempotency
        return request.key is not None and idempotency.is_known(
            request.project, request.operation.operation_id, request.key
        )

    def _count(self, rule: ServiceFaultRow, request: _Request) -> ServiceFaultRow | None:
        """Count a matching request. The row if the rule applies to it."""
        row: ServiceFaultRow = {**rule, "matches": rule["matches"] + 1}
        applies = row["matches"] >= row["nth"] and (row["probability"] >= 1 or self._rng.uniform() < row["probability"])
        if applies:
            row["hits"] += 1
            self._journal.note(
                "service_fault_hit", row["id"], fault=row["kind"], request=request.subject, hit=row["hits"]
            )
        self._rules.put(row)
        if is_spent(row, self._clock.now()):
            self.index.remove(row)
        return row if applies else None

    # What the kinds do

    async def _apply(self, row: ServiceFaultRow, request: _Request, scope: Scope, receive: Receive, send: Send) -> None:
        connection, kind = connection_of(scope), row["kind"]
        scope[APPLIED] = row
        facts: dict[str, Any] = {"fault": row["id"]}
        if kind in (ERROR, KEY_IN_USE, RESET):
            sent, pipeline = None, self._service.pipeline
            if kind != RESET:
                sent = error_response(row, pipeline.next_request_id(), request.operation, pipeline.api_key_header)
            status = None if sent is None else sent.status
            if row["after_commit"]:
                scope[JOURNAL_FACTS] = {**facts, "sent": status}
                await self._response(scope, receive)
            else:
                scope[BODY] = await _drain(receive)
                self._journal.note("request", request.subject, status=status, **facts)
            if sent is None:
                return connection.reset()
            return await _send(send, _marked(row, sent), omit_body=request.method == "HEAD")
        scope[JOURNAL_FACTS] = facts
        response = await self._response(scope, receive)
        if response is None:
            return None
        changed = changed_response(row, response, self._clock.now())
        if not changes(kind, response, changed):
            scope[UNCHANGED] = True
        response = _marked(row, changed)
        delay_s = (row["delay_ms"] or 0) / 1_000
        if kind == "slow_first_byte":
            await connection.wait(delay_s)
            if connection.is_closed:
                scope[CLIENT_LEFT] = True
        if kind == "truncated_body" and response.body:
            await _send_start(send, response)
            await send(
                {"type": "http.response.body", "body": response.body[: len(response.body) // 2], "more_body": True}
            )
            return connection.close()
        if kind == "slow_body" and response.body:
            await _send_start(send, response)
            size = max(1, len(response.body) // max(_PARTS, ceil(delay_s / _LONGEST_PAUSE_S)))
            parts = [response.body[start : start + size] for start in range(0, len(response.body), size)]
            for number, part in enumerate(parts, 1):
                await connection.wait(delay_s / len(parts))
                await send({"type": "http.response.body", "body": part, "more_body": number < len(parts)})
            return None
        return await _send(send, response)

    def _stale(self, request: _Request, response: Response, scope: Scope) -> Response:
        """The response, or one with the remembered state of its resource if a rule `stale_read` applies."""
        if response.status != 200:
            return response
        key, state = _shown_state(request, response)
        first = self._answers.row(key)
        try:
            with self._exclusive():
                if first is None:
                    self._remember(key, state)
                elif request.method == "GET" and orjson.loads(first["state"]) != state:
                    row = self._count_stale(request)
                    if row is not None:
                        scope[APPLIED] = row
                        return _marked(row, _with_state(request, key, response, orjson.loads(first["state"])))
        except StorageUnavailable:
            pass  # neither counted nor remembered
        return response

    def _count_stale(self, request: _Request) -> ServiceFaultRow | None:
        for rule in self.index.matching(request.operation, request.method, request.path, is_stale_read=True):
            row = self._count(rule, request)
            if row is not None:
                return row
        return None

    def _remember_present(self) -> None:
        """Remember the newest resources as they are: a read that follows a change shows them so, also the first."""
        if not self.index.has_stale_read():
            self._answers.clear()  # they are of the time of a rule that does not apply any more
        charges, statics = self._service.charges.charges, self._service.static_charges
        for charge in reversed(charges.page({"status": "pending"}, limit=_MAX_PRESENT)):
            self._remember_first(charge["id"], charge_resource(charge))
        for static in reversed(statics.static_charges.page(limit=_MAX_PRESENT)):
            self._remember_first(static["id"], statics.show(static))

    def _remember_first(self, key: str, state: Any) -> None:
        if self._answers.row(key) is None:
            self._remember(key, state)

    def _remember(self, key: str, state: Any) -> None:
        if len(self._answers) >= _MAX_ANSWERS:
            oldest = self._answers.oldest()
            if oldest is not None:
                self._answers.delete(oldest["id"])
        self._answers.put({"id": key, "state": orjson.dumps(state).decode()})

    async def _response(self, scope: Scope, receive: Receive) -> Response | None:
        """The application's response, kept back; None when the client left before."""
        sent: list[Message] = []

        async def keep(message: Message) -> None:
            sent.append(message)

        await self.app(scope, receive, keep)
        if not sent:
            return None
        start = sent[0]
        response = Response(start["status"], list(start["headers"]), b"".join(m.get("body", b"") for m in sent[1:]))
        scope[OF_SERVICE] = response
        return response


def _shown_state(request: _Request, response: Response) -> tuple[str, Any]:
    """The id and the state of the resource that the response shows; the target and the whole value of another one."""
    value = orjson.loads(response.body) if response.body else None
    data = value.get("data") if isinstance(value, dict) else None
    if isinstance(data, dict) and isinstance(data.get("id"), str):
        return data["id"], data
    return request.target, value


def _with_state(request: _Request, key: str, response: Response, state: Any) -> Response:
    body = orjson.dumps(state if key == request.target else {**orjson.loads(response.body), "data": state})
    return response._replace(body=body).with_headers(content_length=b"%d" % len(body))


def _marked(row: ServiceFaultRow, response: Response) -> Response:
    if not row["marked"]:
        return response
    return response._replace(headers=[*response.headers, (HEADER, row["id"].encode())])


async def _drain(receive: Receive) -> bytes:
    """Read the request's body, as the service would have done, and return its start."""
    read, more = 0, True
    chunks: list[bytes] = []
    while more and read <= _READ_BYTES:
        message = await receive()
        chunk = message.get("body", b"")
        if read <= _KEPT_BYTES:
            chunks.append(chunk)
        read += len(chunk)
        more = message.get("more_body", False)
    return b"".join(chunks)


async def _send_start(send: Send, response: Response) -> None:
    await send({"type": "http.response.start", "status": response.status, "headers": list(response.headers)})


async def _send(send: Send, response: Response, *, omit_body: bool = False) -> None:
    await _send_start(send, response)
    await send({"type": "http.response.body", "body": b"" if omit_body else response.body})
