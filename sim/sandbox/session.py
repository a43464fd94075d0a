"""The session of a sandbox: its world, its action log, and requests to its service in the process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import orjson

from leyden.errors import ApiError, Problem
from leyden.lab.action_log import ActionLog, ActionRecorder
from leyden.server.http.request import Request
from leyden.world.clock import VirtualClock
from leyden.world.loopback import Header, LoopbackResponse, send_request
from leyden.world.world import World

Headers = Mapping[str, str] | Iterable[tuple[str, str]]
T = TypeVar("T")

# No response depends on these.
_HEADERS_LEFT_OUT = frozenset({b"host", b"user-agent", b"accept-encoding", b"connection", b"content-length"})
_FIRST_ID = re.compile(rb'"id":"([^"]{1,64})"')


class Session:
    """What the parts of a sandbox share. `Sandbox.restore` replaces `world` and `action_log`: do not keep them."""

    __slots__ = ("action_log", "world")

    def __init__(self, world: World, action_log: ActionLog) -> None:
        self.world = world
        self.action_log = action_log

    def record(self, kind: str, **facts: Any) -> ActionRecorder:
        """The context of one action: see `leyden.lab.action_log.ActionLog.record`."""
        return self.action_log.record(self.world, kind, **facts)

    def move(self, kind: str, step: Callable[[VirtualClock], T], **facts: Any) -> T:
        """Record an action that moves the clock by `step`, and return what `step` returns."""
        with self.record(kind, **facts):
            return self.world.move(step)

    @property
    def api_key(self) -> str:
        """The newest API key of the sandbox's project."""
        return self.world.service.projects.keys(self.world.config.project)[-1]

    def path(self, operation_id: str) -> str:
        """The path template of an operation, as the specification in use has it."""
        return self.world.config.contract.operations[operation_id].path

    def ask(self, method: str, target: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send one request with the API key and return the JSON of its response.

        Raises `ApiError` for any status but 2xx.
        """
        answer = self.request(method, target, body)
        value = orjson.loads(answer.body) if answer.body else {}
        if not 200 <= answer.status < 300:
            raise ApiError(answer.status, value)
        return value

    def request(
        self, method: str, target: str, body: Mapping[str, Any] | bytes | None, headers: Headers | None = None
    ) -> LoopbackResponse:
        """Send one request and record it: see `Sandbox.request`."""
        raw = b"" if body is None else body if isinstance(body, bytes) else _json_bytes(body)
        sent: tuple[Header, ...]
        if headers is not None:
            pairs = headers.items() if isinstance(headers, Mapping) else headers
            sent = tuple((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs)
        else:
            sent = ((self.world.service.pipeline.api_key_header, self.api_key.encode("latin-1")),)
            if body is not None:
                sent = (*sent, (b"content-type", b"application/json"))
        world, action_log = self.world, self.action_log
        with world.lock:
            answer = send_request(world.app, method, target, sent, raw)
            facts: dict[str, Any] = {
                "method": method,
                "target": target,
                "headers": None if headers is None else recorded_headers(sent),
                "body": raw.decode("latin-1"),
                "status": answer.status,
            }
            if method == "POST" and answer.status == 200 and (created := first_id(answer.body)) is not None:
                facts["id"] = created
            action_log.catch_up(world)
            action_log.add("request", facts)
        return answer

    def read(self, operation_id: str, **path: str) -> dict[str, Any]:
        """The response of an operation that only reads, without a request: reading changes and records nothing.

        `path` gives the path parameters. Raises `ApiError`.
        """
        world = self.world
        call = Request(world.config.project, path, {}, {}, {}, {})
        with world.exclusive():
            try:
                answer: dict[str, Any] = world.service.handlers[operation_id](call)
            except Problem as problem:
                refused = ApiError(problem.status, problem.to_document(""))
            else:
                return answer
        raise refused


def first_id(body: bytes) -> str | None:
    """The id of the resource that a response shows first; None when it shows none."""
    found = _FIRST_ID.search(body, 0, 200)
    return None if found is None else found[1].decode("latin-1")


def recorded_headers(headers: Iterable[Header]) -> list[list[str]]:
    """The headers of a request that are recorded, as JSON values."""
    return [
        [name.decode("latin-1"), value.decode("latin-1")] for name, value in headers if name not in _HEADERS_LEFT_OUT
    ]


def _json_bytes(fields: Mapping[str, Any]) -> bytes:
    """Fields as JSON. Raises `TypeError` with the name of the first field that has no JSON form."""
    try:
        return orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:
        for name, value in fields.items():
            try:
                orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
            except TypeError:
                raise TypeError(f"{name}={value!r} is not JSON: give a text, a number, a list or None") from None
        raise
