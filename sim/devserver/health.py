"""`/healthz` and `/readyz`: whether the server runs and does its work. They need no key and name no host."""

from __future__ import annotations

from collections.abc import Callable

import orjson
from starlette.responses import Response

from leyden.world.config import HEALTH_PATH, READY_PATH

PATHS = frozenset({HEALTH_PATH, READY_PATH})


def health_response(path: str, method: str, not_ready: Callable[[], str | None]) -> Response:
    """The response of a probe. `not_ready()` returns why the server is not ready, or None."""
    if method not in {"GET", "HEAD"}:
        return _response(405, "error", "this path is read-only: use GET", allow="GET, HEAD")
    if path == HEALTH_PATH:
        return _response(200, "ok")
    reason = not_ready()
    return _response(200, "ready") if reason is None else _response(503, "not ready", reason)


def _response(status: int, word: str, detail: str | None = None, **headers: str) -> Response:
    body = {"status": word} if detail is None else {"status": word, "detail": detail}
    return Response(
        orjson.dumps(body),
        status_code=status,
        media_type="application/json",
        headers={"cache-control": "no-store", **headers},
    )
