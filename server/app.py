"""The application: the spec's operations, one by one, as Starlette routes.

    for operation in contract.operations:  operationId -> handler,  path -> route,  schema -> check

What the operations are is written in `specs/`; what they do, in the services; how a request reaches them, in the door.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from server.contract.shape import Contract
from server.docs import docs_page
from server.door import PROBLEM, Gate, Handler, Intake, PathEndpoint
from server.errors import NotFound


@dataclass(frozen=True, slots=True)
class Part:
    """A contract with its handlers, and where its own document is served."""

    contract: Contract
    handlers: Mapping[str, Handler]
    document_path: str
    docs_path: str


def operation_routes(part: Part, gate: Gate) -> list[Route]:
    """One route per path of the contract; literal paths before templated ones, as OpenAPI asks."""
    routes = []
    for path, operations in part.contract.by_path().items():
        bound = {
            operation.method.upper(): (operation, part.handlers[operation.operation_id]) for operation in operations
        }
        routes.append(Route(path, PathEndpoint(bound, gate, part.contract.depth_limit)))
    return sorted(routes, key=lambda route: "{" in route.path)


def document_routes(part: Part) -> list[Route]:
    """The served document and its page for people, both without a key."""
    served = orjson.dumps(part.contract.document)

    async def document(request: Request) -> Response:
        return Response(served, media_type="application/json")

    async def docs(request: Request) -> Response:
        return HTMLResponse(docs_page(part.contract, part.document_path))

    return [Route(part.document_path, document), Route(part.docs_path, docs)]


def build_app(parts: Sequence[Part], gate: Gate) -> Starlette:
    """Fold the parts into one application. The first part's page is where `/` leads."""

    async def home(request: Request) -> Response:
        return RedirectResponse(parts[0].docs_path)

    async def http_error(request: Request, error: Exception) -> Response:
        # Only the router raises these here, and only for a path nobody declared.
        problem = NotFound(f"there is nothing at this path: the routes are listed at {parts[0].docs_path}")
        return Response(orjson.dumps(problem.document(gate.request_id())), 404, media_type=PROBLEM)

    routes = [route for part in parts for route in operation_routes(part, gate)]
    routes += [route for part in parts for route in document_routes(part)]
    app = Starlette(
        routes=[*routes, Route("/", home)],
        middleware=[Middleware(Intake, gate=gate, limit=max(part.contract.body_limit for part in parts))],
        exception_handlers={HTTPException: http_error},
    )
    app.router.redirect_slashes = False
    return app
