"""Asking: a sandbox's requests, from inside the process or over a port, and the note that is kept of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leyden.lab.action_log import History
from leyden.server.errors import LeydenError, Problem
from leyden.server.http.request import Request
from leyden.world.loopback import Header, LoopbackResponse, send_request
from leyden.world.world import World

if TYPE_CHECKING:
    import httpx2

    from leyden.server.system.process import ServerThread

# What no answer depends on.
_PASSED_OVER = frozenset({b"host", b"user-agent", b"accept-encoding", b"connection", b"content-length"})
_FIRST_ID = re.compile(rb'"id":"([^"]{1,64})"')

Headers = Mapping[str, str] | Iterable[tuple[str, str]]


class ApiError(LeydenError):
    """The service refused a request. `status` is the HTTP status, `problem` the RFC 9457 document."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {problem.get('title')}: {problem.get('detail')}")
        self.status = status
        self.problem = problem


class Door:
    """An ASGI application that notes each request when it is answered. `served` worlds also run what is due then."""

    def __init__(self, app: ASGIApp, asking: Asking, *, served: bool = False) -> None:
        self._app = app
        self._asking = asking
        self._served = served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        history, journal = self._asking.history, self._asking.world.journal
        chunks: list[bytes] = []
        facts: dict[str, Any] = {}
        noted = len(journal)

        async def heard() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                chunks.append(message.get("body", b""))
            return message

        async def said(message: Message) -> None:
            nonlocal noted
            if message["type"] == "http.response.start":
                self._note(scope, b"".join(chunks), message["status"], facts)
                noted = len(journal)
            elif scope["method"] == "POST" and facts.get("status") == 200 and "id" not in facts:
                found = _FIRST_ID.search(message.get("body", b""), 0, 200)
                if found is not None:
                    facts["id"] = found[1].decode("latin-1")
            await send(message)

        await self._app(scope, heard, said)
        if self._served and len(journal) != noted:
            history.add("advance", {"by_ms": 0})
        return None

    def _note(self, scope: Scope, body: bytes, status: int, facts: dict[str, Any]) -> None:
        query = scope.get("query_string")
        path = scope.get("raw_path") or quote(scope["path"]).encode("ascii")
        facts["method"] = scope["method"]
        facts["target"] = (path + b"?" + query if query else path).decode("latin-1")
        facts["headers"] = _plain_headers(scope["headers"])
        facts["body"] = body.decode("latin-1")
        facts["status"] = status
        asking = self._asking
        if asking.world.clock.rate:
            asking.history.catch_up(asking.world)
        asking.history.add("request", facts)


def _as_body(fields: Mapping[str, Any]) -> bytes:
    """Fields as JSON. Raises `TypeError` with the name of one that has no such form."""
    try:
        return orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:
        for name, value in fields.items():
            try:
                orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
            except TypeError:
                raise TypeError(f"{name}={value!r} is not JSON: give a text, a number, a list or None") from None
        raise


def _plain_headers(headers: Iterable[Header]) -> list[list[str]]:
    return [[name.decode("latin-1"), value.decode("latin-1")] for name, value in headers if name not in _PASSED_OVER]


class Asking:
    """The part of a sandbox that requests go through."""

    world: World
    history: History
    _thread: ServerThread | None = None
    _client_key = ""

    def ask(self, method: str, target: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send one request with the sandbox's key and return the JSON answered.

        Raises `ApiError` for any status but 2xx.
        """
        answer = self.request(method, target, body)
        value = orjson.loads(answer.body) if answer.body else {}
        if not 200 <= answer.status < 300:
            raise ApiError(answer.status, value)
        return value

    def request(
        self,
        method: str,
        target: str,
        body: Mapping[str, Any] | bytes | None = None,
        headers: Headers | None = None,
    ) -> LoopbackResponse:
        """Send one request, to the byte, and return its answer, whatever that is.

        `target` is the path with its query, percent-encoded. Without `headers` the sandbox's key is sent, and with a
        body that it is JSON; with them these and no others.
        """
        raw = b"" if body is None else body if isinstance(body, bytes) else _as_body(body)
        sent: tuple[Header, ...]
        if headers is not None:
            pairs = headers.items() if isinstance(headers, Mapping) else headers
            sent = tuple((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs)
        else:
            sent = ((self.world.service.pipeline.api_key_header, self.api_key.encode("latin-1")),)
            if body is not None:
                sent = (*sent, (b"content-type", b"application/json"))
        world, history = self.world, self.history
        with world.lock:
            answer = send_request(world.app, method, target, sent, raw)
            facts: dict[str, Any] = {
                "method": method,
                "target": target,
                "headers": None if headers is None else _plain_headers(sent),
                "body": raw.decode("latin-1"),
                "status": answer.status,
            }
            if method == "POST" and answer.status == 200 and (found := _FIRST_ID.search(answer.body, 0, 200)):
                facts["id"] = found[1].decode("latin-1")
            history.catch_up(world)
            history.add("request", facts)
        return answer

    def look(self, operation_id: str, **path: str) -> dict[str, Any]:
        """What an operation that only reads would answer to the sandbox's key, without a request: looking leaves no
        trace. Raises `ApiError`."""
        world = self.world
        call = Request(world.config.project, path, {}, {}, {}, {})
        with world.exclusive():
            try:
                answer: dict[str, Any] = world.service.handlers[operation_id](call)
            except Problem as problem:
                refused = ApiError(problem.status, problem.document(""))
            else:
                return answer
        raise refused

    def path(self, operation_id: str) -> str:
        """The path template of one of the service's operations, as the spec in use has it."""
        return self.world.config.contract.operations[operation_id].path

    @cached_property
    def app(self) -> ASGIApp:
        """The ASGI application, for test tools that take one."""

        async def present(scope: Scope, receive: Receive, send: Send) -> None:
            await self.world.app(scope, receive, send)

        return Door(present, self)

    @property
    def http(self) -> httpx2.Client:
        """A real HTTP client whose requests walk into the service in process, with the key set."""
        key = self.api_key
        if key != self._client_key:  # a client may have been told another one since, or none: that stands
            self._client.headers[self.world.service.pipeline.api_key_header.decode()] = self._client_key = key
        return self._client

    @cached_property
    def _client(self) -> httpx2.Client:
        from leyden.sandbox.http_client import loopback_client

        return loopback_client(self.app, {})

    @property
    def api_key(self) -> str:
        """The key of the sandbox's project, the newest if it was changed."""
        return self.world.service.projects.keys(self.world.config.project)[-1]

    def serve(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Answer HTTP on a thread beside this program and return the base URL (port 0 picks a free one).

        Callbacks stay with the built-in receivers. Raises `leyden.server.system.process.ListenError` when the port is
        taken.
        """
        if self._thread is None:
            from leyden.devserver.multi_tenant import MultiTenantApp
            from leyden.server.system.process import ServerThread, open_listener

            listener = open_listener(host, port)
            app = Door(MultiTenantApp({self.api_key: self.world}), self, served=True)
            self._thread = ServerThread(app, listener)
            self.world.public_url = self._thread.url
        return self._thread.url

    def close(self) -> None:
        """Stop serving and close the store."""
        if self._thread is not None:
            self._thread.close()
            self._thread = None
        self.world.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
