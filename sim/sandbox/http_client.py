"""The transport of an HTTP client whose requests stay in the process."""

from __future__ import annotations

import httpx2
from starlette.types import ASGIApp

from leyden.world.interrupts import interrupts
from leyden.world.loopback import send_request


class LoopbackTransport(httpx2.BaseTransport):
    """A transport of `httpx2.Client` that calls an ASGI application instead of a network."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request to the application."""
        headers = tuple((name.lower(), value) for name, value in request.headers.raw)
        target = request.url.raw_path.decode("ascii")
        body = request.read()
        interrupts.enter()  # until the request is recorded
        try:
            answer = send_request(self._app, request.method, target, headers, body)
        finally:
            interrupts.leave()
        return httpx2.Response(answer.status, headers=list(answer.headers), content=answer.body, request=request)
