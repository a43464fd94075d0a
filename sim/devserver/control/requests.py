"""The control plane's operations for the request log."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import nullcontext
from typing import Any, NamedTuple

from leyden.devserver.control.pages import Page, page
from leyden.devserver.request_log.recording import CONSOLE
from leyden.devserver.request_log.resources import RequestRows
from leyden.devserver.request_log.stream import past_events
from leyden.server.charges.lists import position
from leyden.server.contract.bind import handles
from leyden.server.errors import FieldError, NotFound, SemanticConflict, TooManyRequests
from leyden.server.http.pipeline import LONG_PAGE
from leyden.server.http.request import Request
from leyden.server.spelling import closest
from leyden.world.world import World


class _Shown(NamedTuple):
    """A row of the list."""

    doc_id: int
    resource: dict[str, Any]


class RequestLogControl:
    """Handlers for one world's request log."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._shown: RequestRows | None = None

    @handles(raises=(SemanticConflict,), needs=("query.limit",), recorded=False)
    async def list_requests(self, call: Request) -> Page:
        """One page of the requests that match the filters, the newest first."""
        after, limit = call.query.get("after"), call.query["limit"]
        rows, slices = self._rows(), self._world.slices()
        self._check_operation(call.query.get("operation"), rows)
        console_reads = call.query.get("client") == CONSOLE.decode()
        log = self._world.request_log
        found: list[_Shown] = []
        # Each row is shown at once: one that is decoded takes much more memory, and its bodies are not needed.
        async with slices.pages if limit > LONG_PAGE else nullcontext():
            mask = rows.mask()
            for row in log.newest_first(position(after), console_reads=console_reads):
                if rows.matches(row, call.query):
                    found.append(_Shown(row.doc_id, rows.summary(row, mask)))
                    if len(found) > limit:
                        break
                if slices.is_over():
                    await slices.pause()
                    mask = rows.mask()  # there may be another secret
        return page(call, "request", lambda _after, _limit: found, lambda row: row.resource)

    @handles(raises=(NotFound,), needs=("path.id",), recorded=False)
    async def get_request(self, call: Request) -> dict[str, Any]:
        """One request with its headers and bodies, and those of its response."""
        row = self._world.request_log.row(int(call.path["id"]))
        if row is None:
            raise NotFound("the log has no request with this number: it keeps the latest thousand; list the requests")
        rows = self._rows()
        return await rows.details(row, rows.mask(), self._world.slices())

    @handles(raises=(TooManyRequests,), recorded=False)
    async def get_events(self, call: Request) -> AsyncGenerator[bytes]:
        """The server-sent events of this sandbox. A request in process has only those of the past."""
        world, server = self._world, self._world.server
        last = call.header.get("last-event-id")
        after, client = None if not last else int(last), call.query.get("client")
        if server is None or not server.runs_here():
            return past_events(world, after, client)
        keys = self._keys(call.project)
        # The stream of a replaced key would show what happens after that.
        return server.listen(world, after, client, lambda: keys <= self._keys(call.project))

    def _keys(self, project: str) -> set[str]:
        return {*self._world.service.projects.keys(project)}

    def _check_operation(self, operation: str | None, rows: RequestRows) -> None:
        known = rows.operation_ids
        if operation is not None and operation not in known:
            near = closest(operation, known)
            mend = "GET /openapi.json has all" if near is None else f"did you mean {near}?"
            detail = f"no operation has the operationId {operation!r}: {mend}"
            raise SemanticConflict(detail, field_errors=[FieldError("query.operation", detail)])

    def _rows(self) -> RequestRows:
        if self._shown is None:
            self._shown = RequestRows(self._world)
        return self._shown
