"""The ceiling for an event stream: Starlette alone, which sends a row to every open stream at each request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from leyden.server.system.http_server.listening import base_url, open_listener, run_server

# As long as a row of the event stream.
_ROW = b"id: 1000\nevent: request\ndata: " + b'{"id":1000}'.ljust(330) + b"\n\n"
_queues: list[asyncio.Queue[bytes]] = []


async def emit(request: Request) -> JSONResponse:
    """Give the row to every stream."""
    for queue in _queues:
        queue.put_nowait(_ROW)
    return JSONResponse({"id": request.path_params["id"]})


async def events(_: Request) -> StreamingResponse:
    """One stream: each row in a write of its own."""

    async def stream() -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        _queues.append(queue)
        try:
            yield b"event: changed\ndata: {}\n\n"
            while True:
                yield await queue.get()
        finally:
            _queues.remove(queue)

    return StreamingResponse(stream(), media_type="text/event-stream")


def main() -> None:
    """Serve until a signal stops it."""
    app = Starlette(routes=[Route("/emit/{id}", emit), Route("/events", events)])
    listener = open_listener("127.0.0.1", 0)
    run_server(app, listener, ready=lambda: print(f"broadcast listening on {base_url(listener)}", flush=True))


if __name__ == "__main__":
    main()
