"""The loopback: requests run through the ASGI application in one step of its coroutine.

There is no event loop, no thread and no socket, so it works in a notebook, in a script and inside a running event loop
alike.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from starlette.types import ASGIApp

from leyden.server.errors import LeydenError
from leyden.server.http.pipeline import BODY, HEADERS, PathEndpoint
from leyden.server.http.request_parsing import BLANKS

Header = tuple[bytes, bytes]
_PART_BYTES = 64 * 1024  # of a request's body in one message


class WouldWait(LeydenError):
    """The application tried to wait for I/O, which does not exist in process."""


class LoopbackResponse(NamedTuple):
    """A response: the status, the headers as they were sent, and the whole body."""

    status: int
    headers: tuple[Header, ...]
    body: bytes

    def json(self) -> Any:
        """The body, read as JSON. Raises `json.JSONDecodeError` for another body."""
        return json.loads(self.body)


def run_to_completion(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never really waits, to its end. Raises `WouldWait` when it does wait."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise WouldWait("the application waited for I/O in process: serve the sandbox for requests that need the network")


def send_request(
    app: ASGIApp,
    method: str,
    target: str,
    headers: tuple[Header, ...] = (),
    body: bytes = b"",
    extensions: Mapping[str, Any] | None = None,
) -> LoopbackResponse:
    """Send one request into an ASGI application. `target` is the path with its query, percent-encoded; `extensions` are
    those of the scope. Raises `ResponseLost` when a service fault loses the response."""
    return run_to_completion(send_once(app, method, target, headers, body, extensions))  # type: ignore[no-any-return]


def call_endpoint(
    endpoint: PathEndpoint, method: str, path: str, headers: Mapping[bytes, bytes], body: bytes
) -> LoopbackResponse:
    """Send one request to the endpoint of a path that has no parameter, without a router. The names of `headers` are in
    lower case, and `body` is no longer than the limit of the service. No service fault applies."""
    scope: MutableMapping[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "path_params": {},
        "query_string": b"",
        "headers": [*headers.items()],
        HEADERS: headers,
        BODY: body,
    }
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    run_to_completion(endpoint(scope, _receive_nothing, send))
    return _response(sent)


async def send_once(
    app: ASGIApp,
    method: str,
    target: str,
    headers: tuple[Header, ...] = (),
    body: bytes = b"",
    extensions: Mapping[str, Any] | None = None,
) -> LoopbackResponse:
    """The same in a coroutine, which may wait. `target` is the path with its query, percent-encoded. A body has its
    Content-Length, unless `headers` has one."""
    raw_path, _, query = target.partition("?")
    if body and b"content-length" not in dict(headers):
        headers = (*headers, (b"content-length", b"%d" % len(body)))
    scope: MutableMapping[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": _unquoted(raw_path),
        "raw_path": raw_path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": [(name, value.strip(BLANKS)) for name, value in headers],  # as the server reads them
        "client": ("127.0.0.1", 0),
        "server": ("localhost", 80),
    }
    if extensions is not None:
        scope["extensions"] = extensions
    sent: list[Mapping[str, Any]] = []
    unread = _messages(body)

    async def receive() -> Any:
        return next(unread, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return _response(sent)


def _messages(body: bytes) -> Iterator[MutableMapping[str, Any]]:
    """The messages of a body: a long one has several, as a server reads it."""
    for start in range(0, max(len(body), 1), _PART_BYTES):
        end = start + _PART_BYTES
        yield {"type": "http.request", "body": body[start:end], "more_body": end < len(body)}


async def _receive_nothing() -> MutableMapping[str, Any]:
    return {"type": "http.disconnect"}


def _response(sent: Sequence[Mapping[str, Any]]) -> LoopbackResponse:
    start, *parts = sent
    return LoopbackResponse(start["status"], tuple(start["headers"]), b"".join([m.get("body", b"") for m in parts]))


def _unquoted(path: str) -> str:
    return unquote(path) if "%" in path else path
