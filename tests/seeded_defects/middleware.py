"""ASGI middleware that changes the requests and responses of the service."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

import leyden.world.components
from tests.seeded_defects.defect import Plant
from tests.seeded_defects.patches import attribute

CONTROL = "/sandbox/"


@dataclass
class HttpRequest:
    """A request to the service. `query` and `headers` are pairs, header names in lower case."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: list[tuple[bytes, bytes]]
    raw: bytes

    @property
    def json(self) -> Any:
        """The JSON value of the body, or None. Use `rewrite` to change it."""
        return _read(self.raw)

    def rewrite(self, edit: Callable[[dict[str, Any]], Any]) -> None:
        """Change the body if it is a JSON object. An unchanged body keeps its bytes."""
        self.raw = _rewritten(self.raw, edit)

    def header(self, name: bytes) -> bytes | None:
        """The value of a header."""
        return next((value for given, value in self.headers if given == name), None)


@dataclass
class HttpResponse:
    """A response of the service before it is sent."""

    status: int
    headers: list[tuple[bytes, bytes]]
    raw: bytes

    def rewrite(self, edit: Callable[[dict[str, Any]], Any]) -> None:
        """Change the body if it is a JSON object."""
        self.raw = _rewritten(self.raw, edit)

    def rewrite_each(self, edit: Callable[[dict[str, Any]], Any]) -> None:
        """Change each resource in a successful response: a single one, or those of a list."""

        def data(body: dict[str, Any]) -> None:
            for one in resources(body):
                edit(one)

        if self.status < 300:
            self.rewrite(data)

    def replace(self, status: int, media: bytes, raw: bytes) -> None:
        """Replace status, media type and body."""
        self.status, self.headers, self.raw = status, [(b"content-type", media)], raw


class Middleware:
    """ASGI middleware around the service's application; each sandbox has its own instance."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def on_request(self, request: HttpRequest) -> None:
        """Change a request."""

    def on_response(self, request: HttpRequest, response: HttpResponse) -> None:
        """Change a response; `asked` is the changed request."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"].startswith(CONTROL):
            return await self._inner(scope, receive, send)  # type: ignore[no-any-return]
        raw, more = b"", True
        while more:
            message = await receive()
            raw, more = raw + message.get("body", b""), message.get("more_body", False)
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        request = HttpRequest(scope["method"], scope["path"], list(query), list(scope["headers"]), raw)
        self.on_request(request)
        scope = {**scope, "headers": request.headers}
        if request.query != query:
            scope["query_string"] = urlencode(request.query).encode()
        if request.raw != raw:
            scope["headers"] = [pair for pair in request.headers if pair[0] != b"content-length"]
        unread = [{"type": "http.request", "body": request.raw, "more_body": False}]
        sent: list[Any] = []

        async def reread() -> Any:
            return unread.pop() if unread else {"type": "http.disconnect"}

        async def keep(message: Any) -> None:
            sent.append(message)

        await self._inner(scope, reread, keep)
        body = b"".join(message.get("body", b"") for message in sent[1:])
        response = HttpResponse(sent[0]["status"], list(sent[0]["headers"]), body)
        self.on_response(request, response)
        headers = [
            (name, b"%d" % len(response.raw)) if name == b"content-length" and response.raw != body else (name, value)
            for name, value in response.headers
        ]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.raw})
        return None


def app(middleware: Callable[[Any], Any]) -> Plant:
    """Wrap the application of the service by a `Middleware`."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given, **named: middleware(original(*given, **named))

    return attribute(leyden.world.components, "build_app", make)


def requests(edit: Callable[[HttpRequest], Any], method: str = "", path: str = "") -> Plant:
    """Change the requests of a method to a path; a path that ends in a slash means all below it."""

    class ChangedRequests(Middleware):
        def on_request(self, request: HttpRequest) -> None:
            if method in ("", request.method) and _matches(path, request.path):
                edit(request)

    return app(ChangedRequests)


def bodies(edit: Callable[[dict[str, Any]], Any], path: str = "/v0/", method: str = "POST") -> Plant:
    """Change the JSON bodies of requests."""
    return requests(lambda request: request.rewrite(edit), method, path)


def responses(edit: Callable[[HttpRequest, HttpResponse], Any], path: str = "/v0/") -> Plant:
    """Change the responses of a path; a path that ends in a slash means all below it."""

    class ChangedResponses(Middleware):
        def on_response(self, request: HttpRequest, response: HttpResponse) -> None:
            if _matches(path, request.path):
                edit(request, response)

    return app(ChangedResponses)


def changed_resources(edit: Callable[[dict[str, Any]], Any], path: str = "/v0/") -> Plant:
    """Change each resource in the responses."""
    return responses(lambda request, response: response.rewrite_each(edit), path)


def resources(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The resources in the body of a response."""
    data = body.get("data")
    for one in data if isinstance(data, list) else [data]:
        if isinstance(one, dict):
            yield one


def _matches(wanted: str, path: str) -> bool:
    return path.startswith(wanted) if wanted.endswith("/") or not wanted else path == wanted


def _read(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _rewritten(raw: bytes, edit: Callable[[dict[str, Any]], Any]) -> bytes:
    body = _read(raw)
    if not isinstance(body, dict):
        return raw
    before = json.dumps(body)  # compared as text, because in Python True equals 1
    edit(body)
    after = json.dumps(body)
    return raw if after == before else after.encode()
