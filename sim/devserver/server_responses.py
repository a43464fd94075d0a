"""Responses that the server gives itself, in the place of a sandbox."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from leyden.server.errors import NO_FILE_LEFT, ContractError, InternalError, Problem, ServerBusy, is_out_of_files

log = logging.getLogger("leyden")

LINK_ENDED = "the sandbox of this payment link has ended: ask for a new link"


async def respond_lnurl_error(
    scope: Scope, receive: Receive, send: Send, reason: str, headers: Iterable[tuple[str, str]]
) -> None:
    """LNURL's own error. The request did not reach a sandbox: it has no entry in a journal."""
    response = Response(
        orjson.dumps({"status": "ERROR", "reason": reason}), headers=dict(headers), media_type="application/json"
    )
    await response(scope, receive, send)


def failure(error: ContractError | OSError, logged: set[str]) -> Problem:
    """What a request gets if no file can be opened for it, or the server's document cannot be compiled, which is logged
    once. Raises any other error."""
    if is_out_of_files(error):
        return ServerBusy(NO_FILE_LEFT)
    if isinstance(error, OSError):
        raise error
    text = str(error)
    if text not in logged:
        logged.add(text)
        log.error("requests to the sandboxes of the server get 500: %s", text)
    return InternalError(text)
