"""Responses that the server gives itself, in the place of a sandbox."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from leyden.server.errors import ServerStopping
from leyden.server.http.pipeline import send_problem


async def respond_lnurl_error(
    scope: Scope, receive: Receive, send: Send, reason: str, headers: Iterable[tuple[str, str]]
) -> None:
    """LNURL's own error. The request did not reach a sandbox: it has no entry in a journal."""
    response = Response(
        orjson.dumps({"status": "ERROR", "reason": reason}), headers=dict(headers), media_type="application/json"
    )
    await response(scope, receive, send)


async def respond_stopping(send: Send) -> None:
    """The server cancels a request that is still in progress some seconds after the signal to stop."""
    detail = "the server stopped before the response: read the resource before you repeat the request"
    with contextlib.suppress(RuntimeError):  # the response had begun
        await send_problem(send, ServerStopping(detail), "")
