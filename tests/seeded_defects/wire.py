"""The wire: a service bent where its requests come in and its answers go out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

import leyden.world.world
from tests.seeded_defects.defect import Plant
from tests.seeded_defects.seams import attribute

CONTROL = "/sandbox/"


@dataclass
class Asked:
    """A request to the service. `query` and `headers` are pairs, header names in lower case."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: list[tuple[bytes, bytes]]
    raw: bytes

    @property
    def json(self) -> Any:
        """The body, or None when it is no JSON; a change to it has to be given to `rewrite`."""
        return _read(self.raw)

    def rewrite(self, edit: Callable[[dict[str, Any]], Any]) -> None:
        """Change the body, if it is an object; one that is left as it was keeps its very bytes."""
        self.raw = _rewritten(self.raw, edit)

    def header(self, name: bytes) -> bytes | None:
        """A header's value."""
        return next((value for given, value in self.headers if given == name), None)


@dataclass
class Answered:
    """An answer of the service, before it leaves."""

    status: int
    headers: list[tuple[bytes, bytes]]
    raw: bytes

    def rewrite(self, edit: Callable[[dict[str, Any]], Any]) -> None:
        """Change the body, if it is an object."""
        self.raw = _rewritten(self.raw, edit)

    def rewrite_each(self, edit: Callable[[dict[str, Any]], Any]) -> None:
        """Change every resource in a successful answer: the one, or those of a list."""

        def data(body: dict[str, Any]) -> None:
            for one in resources(body):
                edit(one)

        if self.status < 300:
            self.rewrite(data)

    def become(self, status: int, media: bytes, raw: bytes) -> None:
        """Be another answer altogether."""
        self.status, self.headers, self.raw = status, [(b"content-type", media)], raw


class Bent:
    """An application between the service's own and whoever asks it. One is made for each world: what it remembers is
    that world's."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def ask(self, asked: Asked) -> None:
        """Change a request."""

    def answer(self, asked: Asked, answered: Answered) -> None:
        """Change an answer; `asked` is as `ask` left it."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"].startswith(CONTROL):
            return await self._inner(scope, receive, send)  # type: ignore[no-any-return]
        raw, more = b"", True
        while more:
            message = await receive()
            raw, more = raw + message.get("body", b""), message.get("more_body", False)
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        asked = Asked(scope["method"], scope["path"], list(query), list(scope["headers"]), raw)
        self.ask(asked)
        scope = {**scope, "headers": asked.headers}
        if asked.query != query:
            scope["query_string"] = urlencode(asked.query).encode()
        if asked.raw != raw:
            scope["headers"] = [pair for pair in asked.headers if pair[0] != b"content-length"]
        unread = [{"type": "http.request", "body": asked.raw, "more_body": False}]
        sent: list[Any] = []

        async def reread() -> Any:
            return unread.pop() if unread else {"type": "http.disconnect"}

        async def keep(message: Any) -> None:
            sent.append(message)

        await self._inner(scope, reread, keep)
        body = b"".join(message.get("body", b"") for message in sent[1:])
        answered = Answered(sent[0]["status"], list(sent[0]["headers"]), body)
        self.answer(asked, answered)
        headers = [
            (name, b"%d" % len(answered.raw)) if name == b"content-length" and answered.raw != body else (name, value)
            for name, value in answered.headers
        ]
        await send({"type": "http.response.start", "status": answered.status, "headers": headers})
        await send({"type": "http.response.body", "body": answered.raw})
        return None


def app(bent: Callable[[Any], Any]) -> Plant:
    """Put a `Bent` application before the service's own."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given, **named: bent(original(*given, **named))

    return attribute(leyden.world.world, "build_app", make)


def requests(edit: Callable[[Asked], Any], method: str = "", path: str = "") -> Plant:
    """Change the requests of a method, to a path or below one that ends in a slash."""

    class Asks(Bent):
        def ask(self, asked: Asked) -> None:
            if method in ("", asked.method) and _fits(path, asked.path):
                edit(asked)

    return app(Asks)


def bodies(edit: Callable[[dict[str, Any]], Any], path: str = "/v0/", method: str = "POST") -> Plant:
    """Change what is submitted: how a service that is too kind, or too strict, reads it."""
    return requests(lambda asked: asked.rewrite(edit), method, path)


def answers(edit: Callable[[Asked, Answered], Any], path: str = "/v0/") -> Plant:
    """Change the answers of a path, or of all below one that ends in a slash."""

    class Answers(Bent):
        def answer(self, asked: Asked, answered: Answered) -> None:
            if _fits(path, asked.path):
                edit(asked, answered)

    return app(Answers)


def shown(edit: Callable[[dict[str, Any]], Any], path: str = "/v0/") -> Plant:
    """Change every resource that is answered."""
    return answers(lambda asked, answered: answered.rewrite_each(edit), path)


def resources(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The resources in an answer of the service."""
    data = body.get("data")
    for one in data if isinstance(data, list) else [data]:
        if isinstance(one, dict):
            yield one


def _fits(wanted: str, path: str) -> bool:
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
    before = json.dumps(body)  # as text: JSON's true is not its 1, but Python's is
    edit(body)
    after = json.dumps(body)
    return raw if after == before else after.encode()
