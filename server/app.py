"""The application: the spec's operations, one by one, as Starlette routes.

    for operation in contract.operations:  operationId -> handler,  path -> route,  schema -> check

What the operations are is written in `specs/`; what they do, in the services; how a request reaches them, in the door.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from leyden.server.contract.types import Contract
from leyden.server.errors import MethodNotAllowed, NotFound
from leyden.server.http.pipeline import BodyLimitMiddleware, Handler, PathEndpoint, PipelineContext, send_problem

_FOUND = "leyden.route"


class ApiMount(NamedTuple):
    """A contract with its handlers, and where its own document is served. `documents` are served beside it, by their
    paths, and made when they are asked for."""

    contract: Contract
    handlers: Mapping[str, Handler]
    document_path: str
    docs_path: str
    documents: Mapping[str, Callable[[], Mapping[str, Any]]] = MappingProxyType({})


def operation_routes(part: ApiMount, gate: PipelineContext) -> list[Route]:
    """One route per path of the contract; literal paths before templated ones, as OpenAPI asks."""
    routes = []
    for path, operations in part.contract.by_path().items():
        bound = {
            operation.method.upper(): (operation, part.handlers[operation.operation_id]) for operation in operations
        }
        routes.append(Route(path, PathEndpoint(bound, gate, part.contract.depth_limit)))
    return sorted(routes, key=lambda route: "{" in route.path)


class PublicPage:
    """Something to read, for which nobody needs a key."""

    def __init__(self, show: Callable[[], Response], gate: PipelineContext) -> None:
        self._show = show
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in {"GET", "HEAD"}:
            problem = MethodNotAllowed("this is here to be read: use GET", headers={"Allow": "GET, HEAD"})
            return await send_problem(send, problem, self._gate.next_request_id())
        return await self._show()(scope, receive, send)


def document_routes(part: ApiMount, gate: PipelineContext) -> list[Route]:
    """The served document, its page for people, and what is served beside it."""

    def document(make: Callable[[], Mapping[str, Any]]) -> Response:
        return Response(orjson.dumps(make()), media_type="application/json")

    def docs() -> Response:
        # Here and not above: most servers start without anybody reading their page.
        from leyden.server.docs.page import docs_page

        return HTMLResponse(docs_page(part.contract, part.document_path))

    documents = {part.document_path: lambda: part.contract.document, **part.documents}
    return [
        *(Route(path, PublicPage(partial(document, make), gate)) for path, make in documents.items()),
        Route(part.docs_path, PublicPage(docs, gate)),
    ]


def mount_routes(part: ApiMount, gate: PipelineContext) -> list[Route]:
    """All routes of a part."""
    return [*operation_routes(part, gate), *document_routes(part, gate)]


class LazyMount(NamedTuple):
    """A part that is made when somebody first asks for something below `prefix`: most servers start without that, and
    most sandboxes never are. `body_limit` is its contract's, in bytes."""

    prefix: str
    body_limit: int
    make: Callable[[], ApiMount]


class _LazyRoutes(BaseRoute):
    """The routes of a part that is made when it is first needed."""

    def __init__(self, part: LazyMount, gate: PipelineContext) -> None:
        self._part = part
        self._gate = gate
        self._routes: list[Route] | None = None
        self._plain: dict[str, Route] = {}

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if not scope["path"].startswith(self._part.prefix):
            return Match.NONE, {}
        if self._routes is None:
            routes = mount_routes(self._part.make(), self._gate)
            self._plain = {route.path: route for route in routes if "{" not in route.path}
            self._routes = [route for route in routes if "{" in route.path]
        plain = self._plain.get(scope["path"])
        for route in self._routes if plain is None else (plain,):
            match, found = route.matches(scope)
            if match is Match.FULL:
                return match, {**found, _FOUND: route}
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await scope[_FOUND].handle(scope, receive, send)


def build_app(first: ApiMount, later: Sequence[LazyMount], gate: PipelineContext) -> ASGIApp:
    """Fold the parts into one application. The first part's page is where `/` leads.

    A router alone: every endpoint answers its own errors, so that nothing has to be caught around them.
    """

    async def nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
        problem = NotFound(f"there is nothing at this path: the routes are listed at {first.docs_path}")
        await send_problem(send, problem, gate.next_request_id())

    limit = max(first.contract.body_limit, *(part.body_limit for part in later), 0)
    return Router(
        [
            *(_LazyRoutes(part, gate) for part in later),
            *mount_routes(first, gate),
            Route("/", PublicPage(lambda: RedirectResponse(first.docs_path), gate)),
        ],
        redirect_slashes=False,
        default=nothing_here,
        middleware=[Middleware(BodyLimitMiddleware, gate=gate, limit=limit)],
    )
