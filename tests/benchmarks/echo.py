"""The ceiling for anything that answers JSON over HTTP: Starlette alone, on the server and the options of `serve`."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from leyden.server.system.http_server.listening import base_url, open_listener, run_server


async def echo(request: Request) -> JSONResponse:
    """The JSON that was sent."""
    return JSONResponse(await request.json())


async def named(request: Request) -> JSONResponse:
    """The name in the path."""
    return JSONResponse({"id": request.path_params["id"]})


def main() -> None:
    """Serve until a signal stops it."""
    app = Starlette(routes=[Route("/echo", echo, methods=["POST"]), Route("/echo/{id}", named)])
    listener = open_listener("127.0.0.1", 0)
    run_server(app, listener, ready=lambda: print(f"echo listening on {base_url(listener)}", flush=True))


if __name__ == "__main__":
    main()
