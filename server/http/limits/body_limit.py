"""The limit of a request's body: the first check of every request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from starlette.types import ASGIApp, Receive, Scope, Send

from leyden.server.errors import PayloadTooLarge, Problem
from leyden.server.http.pipeline import BODY, HEADERS, PipelineContext, send_problem
from leyden.server.http.request_parsing import expects_continue, headers_by_name
from leyden.server.http.strict_json import LONG_BODY_BYTES


class BodyLimitMiddleware:
    """Reads the whole body first, or answers 413 as soon as it is too long, by its Content-Length or its counted bytes.

    The server reads the rest of such a body, up to a bound. Only the start of a long body from an unauthorised client
    is kept: its operation refuses the request before it reads the body. `limit` is in bytes; `limits_below` has a
    function for those of the paths with a prefix. `mend` says what to do about a body that is too long.
    """

    def __init__(
        self,
        app: ASGIApp,
        pipeline: PipelineContext,
        limit: int,
        mend: str,
        limits_below: Mapping[str, Callable[[], Awaitable[int]]] = MappingProxyType({}),
    ) -> None:
        self._app = app
        self._pipeline = pipeline
        self._limit = limit
        self._mend = mend
        self._limits_below = limits_below.items()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = scope[HEADERS] = headers_by_name(scope["headers"])
        limit = self._limit
        for prefix, limit_below in self._limits_below:
            if scope["path"].startswith(prefix):
                limit = await limit_below()
        content_length = headers.get(b"content-length", b"")
        too_long = content_length.isdigit() and int(content_length) > limit
        read = 0
        keeps_long: bool | None = None
        chunks: list[bytes] = []
        more = True
        # A client that waits for 100 Continue sends nothing of a body that is too long.
        waits = too_long and expects_continue(scope["headers"], scope["http_version"])
        while more and not (too_long and (read or waits)):
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            chunk = message.get("body", b"")
            read += len(chunk)
            too_long = too_long or read > limit
            if keeps_long is None and read > LONG_BODY_BYTES:
                keeps_long = self._is_authorized(scope)
            # At least the start, for those who look at the scope.
            if not chunks or not (too_long or keeps_long is False):
                chunks.append(chunk)
            more = message.get("more_body", False)
        scope[BODY] = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        if too_long:
            problem = PayloadTooLarge(f"the body is larger than {limit} bytes: {self._mend}")
            omit_body = scope["method"] == "HEAD"
            return await send_problem(send, problem, self._pipeline.next_request_id(), omit_body=omit_body)
        return await self._app(scope, receive, send)

    def _is_authorized(self, scope: Scope) -> bool:
        try:
            self._pipeline.authenticate(scope[HEADERS], scope["query_string"])
        except Problem:
            return False
        return True
