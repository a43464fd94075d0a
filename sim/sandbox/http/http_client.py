"""The transport of an HTTP client whose requests stay in the process."""

from __future__ import annotations

from typing import Any

import httpx2
from starlette.types import ASGIApp

from leyden.errors import ResponseLost
from leyden.server.ports import CONNECTION
from leyden.service_faults.connection import InProcessConnection
from leyden.world.interrupts import interrupts
from leyden.world.loopback import send_request

# What httpx2 raises for each reason over a network.
_ERRORS: dict[str, Any] = {
    "reset": httpx2.ReadError,
    "closed": httpx2.RemoteProtocolError,
    "timeout": httpx2.ReadTimeout,
}


class LoopbackTransport(httpx2.BaseTransport):
    """A transport of `httpx2.Client` that calls an ASGI application instead of a network."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request to the application. A response that a service fault loses raises the errors of httpx2."""
        headers = tuple((name.lower(), value) for name, value in request.headers.raw)
        target = request.url.raw_path.decode("ascii")
        body = request.read()
        timeout = request.extensions.get("timeout", {}).get("read")
        connection = InProcessConnection(timeout)
        interrupts.enter()  # until the request is recorded
        try:
            answer = send_request(self._app, request.method, target, headers, body, {CONNECTION: connection})
        except ResponseLost as lost:
            raise _ERRORS[lost.reason](str(lost), request=request) from lost
        finally:
            interrupts.leave()
        return httpx2.Response(answer.status, headers=list(answer.headers), content=answer.body, request=request)
