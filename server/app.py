"""The application: the operations of the spec, one by one, as Starlette routes.

    for operation in contract.operations:  operationId -> handler,  path -> route,  schema -> check

`specs/` defines the operations, the services implement them, `leyden.server.http.pipeline` processes their requests.
"""

from __future__ import annotations

import gzip
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from functools import lru_cache, partial
from posixpath import dirname, relpath
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import Receive, Scope, Send

from leyden.server.contract.paths import specificity
from leyden.server.contract.types import Contract, Operation
from leyden.server.errors import ContractError, InternalError, MethodNotAllowed, NotFound, is_out_of_files
from leyden.server.http.corrections import shown
from leyden.server.http.limits.body_limit import BodyLimitMiddleware
from leyden.server.http.pipeline import (
    Authenticate,
    Handler,
    PathEndpoint,
    PipelineContext,
    send_problem,
)
from leyden.server.http.request_parsing import accepts_coding
from leyden.server.http.strict_json import LONG_BODY_BYTES
from leyden.server.one_at_a_time import one_at_a_time
from leyden.server.page_scripts import PAGE_SCRIPTS, PageScripts
from leyden.server.spelling import closest_path, path_named

log = logging.getLogger("leyden")

BASE_PATH = "leyden.base_path"  # in the scope of a request: the start of its URL's path, which `path` does not have
_ROUTE = "leyden.route"
# The page's own policy is a `meta` element, in which browsers ignore `frame-ancestors`.
_PAGE_HEADERS = {"content-security-policy": "frame-ancestors 'none'", "referrer-policy": "no-referrer"}


class ApiMount(NamedTuple):
    """A contract with its handlers, and the paths of its OpenAPI document and of its documentation page.

    `documents` are further JSON documents by path: a function and the contracts' documents that it is made of.
    `authenticate` takes the place of the pipeline's where the contract has the API key in another header.
    """

    contract: Contract
    handlers: Mapping[str, Handler]
    document_path: str
    docs_path: str
    documents: Mapping[str, partial[Any]] = MappingProxyType({})
    authenticate: Authenticate | None = None


def operation_routes(mount: ApiMount, pipeline: PipelineContext) -> list[Route]:
    """One route per path of the contract, the more concrete of two templates first, as OpenAPI requires."""
    routes = []
    for path, operations in mount.contract.by_path().items():
        bound = {
            operation.method.upper(): (operation, mount.handlers[operation.operation_id]) for operation in operations
        }
        route = copy(_compiled(path))
        route.app = route.endpoint = PathEndpoint(bound, pipeline, mount.contract.depth_limit, mount.authenticate)
        routes.append(route)
    return sorted(routes, key=lambda route: specificity(route.path))


@lru_cache(maxsize=512)
def _compiled(path: str) -> Route:
    """A route without its endpoint: to compile a path takes longer than all else that a route of a sandbox needs."""
    route = Route(path, PathEndpoint)
    # `$` also matches before a line end, and a path may end with one (%0A).
    route.path_regex = re.compile(route.path_regex.pattern.removesuffix("$") + r"\Z")
    return route


class _ContractKey:
    """A contract as the key of a cache: a contract never changes, and is equal to itself only."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ContractKey) and self.contract.document is other.contract.document

    def __hash__(self) -> int:
        return id(self.contract.document)


class _DerivedDocument:
    """A document that a function derives from others, as a cache key. Keys with the same function and documents are
    equal."""

    def __init__(self, make: partial[Any]) -> None:
        self.make = make  # holds the documents, so that no other one gets the id of one of them
        self._parts = (make.func, *map(id, make.args))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DerivedDocument) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)


# A page takes some tenths of a second to draw, and a document to make, and anybody may ask for them. The caches are
# bounded: each entry is about a megabyte at most, and few documents are served by one process.
@lru_cache(maxsize=8)
def _document(key: _DerivedDocument) -> bytes:
    return orjson.dumps(key.make())


@lru_cache(maxsize=8)
def _page(key: _ContractKey, document_url: str, scripts: tuple[str, tuple[tuple[str, str], ...]] | None) -> bytes:
    # Imported here: most servers never show the page.
    from leyden.server.docs.page import docs_page

    named = None if scripts is None else PageScripts(scripts[0], dict(scripts[1]))
    return docs_page(key.contract, document_url, named).encode()


@lru_cache(maxsize=8)
def _compressed(body: bytes) -> bytes:
    return gzip.compress(body, 5, mtime=0)


class PublicPage:
    """A page or document that needs no API key. It is sent compressed to a client that accepts gzip.

    `render` gets the scope of the request, and may be called in a thread.
    """

    def __init__(self, render: Callable[[Scope], Response], pipeline: PipelineContext) -> None:
        self._render = render
        self._pipeline = pipeline

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in {"GET", "HEAD"}:
            problem = MethodNotAllowed("this path is read-only: use GET", headers={"Allow": "GET, HEAD"})
            await send_problem(send, problem, self._pipeline.next_request_id())
            return
        run_apart = self._pipeline.run_apart
        work = partial(self._response, scope)
        response: Response = work() if run_apart is None else await run_apart(work)
        await response(scope, receive, send)

    def _response(self, scope: Scope) -> Response:
        """The response. The first one takes some tenths of a second: it may be made in a thread."""
        response = self._render(scope)
        if response.body:
            response.headers["Vary"] = "Accept-Encoding"
            if accepts_coding(Headers(scope=scope).get("accept-encoding", ""), "gzip"):
                # Starlette's middleware compresses in a thread; a sandbox in process has no event loop for one.
                response.body = _compressed(bytes(response.body))
                response.headers["Content-Encoding"] = "gzip"
                response.headers["Content-Length"] = str(len(response.body))
        return response


def document_routes(mount: ApiMount, pipeline: PipelineContext) -> list[Route]:
    """The routes of the OpenAPI document, its documentation page and the further documents."""

    def document(key: _DerivedDocument, _scope: Scope) -> Response:
        # A page of any site may read it: an editor or a client in the browser, say.
        headers = {"access-control-allow-origin": "*"}
        return Response(_document(key), media_type="application/json", headers=headers)

    # Relative: the page may be served below a prefix, such as the URL of one of several sandboxes.
    document_url = relpath(mount.document_path, dirname(mount.docs_path))

    contract = _ContractKey(mount.contract)

    def docs(scope: Scope) -> Response:
        scripts = scope.get(PAGE_SCRIPTS)
        named = None if scripts is None else (scripts.module, tuple(scripts.meta.items()))
        return HTMLResponse(_page(contract, document_url, named), headers=_PAGE_HEADERS)

    documents = {mount.document_path: partial(_itself, mount.contract.document), **mount.documents}
    return [
        *(
            Route(path, PublicPage(partial(document, _DerivedDocument(make)), pipeline))
            for path, make in documents.items()
        ),
        Route(mount.docs_path, PublicPage(docs, pipeline)),
    ]


def _itself(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return document


def mount_routes(mount: ApiMount, pipeline: PipelineContext) -> list[Route]:
    """All routes of a mount. Those of its documents are first: a template such as `/{id}` has their form."""
    return [*document_routes(mount, pipeline), *operation_routes(mount, pipeline)]


class LazyMount(NamedTuple):
    """A mount that is made at the first request below `prefix`: most sandboxes never need it. If its document does not
    fit, requests below `prefix` get 500 with the error.

    `run_apart` runs `make` while other requests are answered.
    """

    prefix: str
    make: Callable[[], ApiMount]
    run_apart: Callable[[Callable[[], Any]], Awaitable[Any]]


class _LazyRoutes(BaseRoute):
    """The routes of a `LazyMount`."""

    def __init__(self, mount: LazyMount, pipeline: PipelineContext) -> None:
        self._mount = mount
        self._pipeline = pipeline
        self._parametrised: list[Route] | None = None
        self._literal: dict[str, Route] = {}
        self._docs_path: str | None = None
        self._body_limit = LONG_BODY_BYTES  # where the routes cannot be made, too
        self._fault: ContractError | None = None
        self._operations: Mapping[str, Sequence[Operation]] = {}

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        path = scope["path"]
        if self._parametrised is None and self._is_near(path):
            return Match.FULL, {_ROUTE: None}  # `handle` makes the routes
        if not path.startswith(self._mount.prefix):
            return Match.NONE, {}
        literal = self._literal.get(path)
        for route in self._parametrised or () if literal is None else (literal,):
            match, child_scope = route.matches(scope)
            if match is Match.FULL:
                return match, {**child_scope, _ROUTE: route}
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = scope[_ROUTE]
        if route is None:
            await self._mount.run_apart(self._load)
        if route is not None:
            await route.handle(scope, receive, send)
        elif self._fault is not None:
            request_id, omit_body = self._pipeline.next_request_id(), scope["method"] == "HEAD"
            await send_problem(send, InternalError(str(self._fault)), request_id, omit_body=omit_body)
        else:
            await scope["router"].app(scope, receive, send)  # once more, with the routes

    async def body_limit(self) -> int:
        """The limit of the contract in bytes, for a request below the prefix, which makes the routes."""
        if self._parametrised is None:
            await self._mount.run_apart(self._load)
        return self._body_limit

    def paths_for(self, path: str) -> dict[str, Sequence[Operation]]:
        """The path templates with their operations, if the path shares its first segment with the prefix."""
        if not self._is_near(path):
            return {}
        return {
            each: self._operations.get(each, ())
            for each in (*(r.path for r in self._parametrised or ()), *self._literal)
        }

    def docs_for(self, path: str) -> str | None:
        """The path of the documentation page, if `path` is below the prefix and the routes were made."""
        return self._docs_path if f"{path}/".startswith(f"{self._mount.prefix}/") else None

    def _is_near(self, path: str) -> bool:
        return path.strip("/").partition("/")[0] == self._mount.prefix.strip("/").partition("/")[0]

    @one_at_a_time
    def _load(self) -> None:
        """Make the routes, once for all first requests at the same time. A document that does not fit is logged."""
        if self._parametrised is None and self._fault is None:
            try:
                mount = self._mount.make()
            except ContractError as error:
                if is_out_of_files(error):  # the next request tries again
                    raise
                self._fault = error
                log.error("requests to %s get 500: %s", self._mount.prefix, error)
                return
            self._docs_path = mount.docs_path
            self._operations = mount.contract.by_path()
            self._body_limit = mount.contract.body_limit
            routes = mount_routes(mount, self._pipeline)
            self._literal = {route.path: route for route in routes if "{" not in route.path}
            self._parametrised = [route for route in routes if "{" in route.path]


def _meant_path(path: str, method: str, known: Mapping[str, Sequence[Operation]]) -> str | None:
    """The known path that an unknown one probably means: first one with an operation that has its name elsewhere, and
    of similar ones one that has the method."""

    def fits(template: str) -> bool:
        return any(one.method == ("get" if method == "HEAD" else method.lower()) for one in known[template])

    ordered = sorted(known, key=fits, reverse=True)
    named = path_named(path, ((each, (name for one in known[each] for name in one.other_names)) for each in ordered))
    return named or closest_path(path, known, fits)


def endpoint_at(app: Router, path: str) -> PathEndpoint | None:
    """The endpoint that the application has at a path of the service, if the path has no parameter; None otherwise.

    It does what the application does with a request there, but for the limit of the body.
    """
    scope = {"type": "http", "method": "GET", "path": path}
    route = next((route for route in app.routes if route.matches(scope)[0] is not Match.NONE), None)
    if not isinstance(route, Route) or route.param_convertors:
        return None
    return route.endpoint if isinstance(route.endpoint, PathEndpoint) else None


def build_app(
    main: ApiMount,
    lazy_mounts: Sequence[LazyMount],
    pipeline: PipelineContext,
    *,
    too_large_mend: str = "send less",
    where_is: Callable[[str], str | None] = lambda path: None,
) -> Router:
    """The application: the mounts under one router. `/` redirects to the documentation page of `main`.

    `too_large_mend` says what to do about a body that is too long. `where_is` says where an unknown path is served, if
    another application has it. The application needs no error middleware: every
    endpoint answers its own errors.
    """

    lazy = [_LazyRoutes(mount, pipeline) for mount in lazy_mounts]

    async def no_route(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        mend = where_is(path)
        if mend is None:
            known = {**main.contract.by_path()}
            for routes in lazy:
                known |= routes.paths_for(path)
            near = _meant_path(path, scope["method"], known)
            docs_path = next((found for routes in lazy if (found := routes.docs_for(path))), main.docs_path)
            listed = f"the paths are listed at {scope.get(BASE_PATH, '')}{docs_path}"
            mend = listed if near is None else f"did you mean {near}?"
        problem = NotFound(f"no operation has the path {shown(path)}: {mend}")
        await send_problem(send, problem, pipeline.next_request_id(), omit_body=scope["method"] == "HEAD")

    body_limit = partial(
        BodyLimitMiddleware,
        pipeline=pipeline,
        limit=main.contract.body_limit,
        mend=too_large_mend,
        limits_below={mount.prefix: routes.body_limit for mount, routes in zip(lazy_mounts, lazy, strict=True)},
    )
    return Router(
        [
            *lazy,
            *mount_routes(main, pipeline),
            Route("/", PublicPage(lambda scope: RedirectResponse(scope.get(BASE_PATH, "") + main.docs_path), pipeline)),
        ],
        redirect_slashes=False,
        default=no_route,
        middleware=[Middleware(body_limit)],
    )
