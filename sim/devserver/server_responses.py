"""Responses that the server gives itself, in the place of a sandbox."""

from __future__ import annotations

from collections.abc import Iterable

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

LINK_ENDED = "the sandbox of this payment link has ended: ask for a new link"


async def respond_lnurl_error(
    scope: Scope, receive: Receive, send: Send, reason: str, headers: Iterable[tuple[str, str]]
) -> None:
    """LNURL's own error. The request did not reach a sandbox: it has no entry in a journal."""
    response = Response(
        orjson.dumps({"status": "ERROR", "reason": reason}), headers=dict(headers), media_type="application/json"
    )
    await response(scope, receive, send)
