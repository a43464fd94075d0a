"""Lists of the control plane: one page, with the cursor of the next one, as in the lists of the charge service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from leyden.server.charges.lists import query_instant
from leyden.server.http.request import Request

Page = dict[str, Any]


def page(call: Request, read: Callable[[int | None, int], Sequence[Any]], show: Callable[[Any], Any]) -> Page:
    """The response with `limit` rows after the cursor. `read(after, limit)` returns rows with a `doc_id`, in the order
    of the list; `show` makes a resource of a row."""
    after, limit = call.query.get("after"), call.query["limit"]
    rows = read(None if after is None else int(after, 16), limit + 1)
    return {
        "data": [show(row) for row in rows[:limit]],
        "next": f"{rows[limit - 1].doc_id:016x}" if len(rows) > limit else None,
    }


def created_between(call: Request) -> dict[str, int]:
    """The filters `createdAfter` and `createdBefore` of the request, as arguments of a table's page."""
    bounds = {"since_ms": query_instant(call, "createdAfter"), "until_ms": query_instant(call, "createdBefore")}
    return {name: instant_ms for name, instant_ms in bounds.items() if instant_ms is not None}


def item_page(call: Request, items: Sequence[Any], show: Callable[[Any], Any]) -> Page:
    """The same for items that no table has: the cursor is the number of those before."""
    after, limit = int(call.query.get("after") or "0", 16), call.query["limit"]
    end = after + limit
    return {
        "data": [show(item) for item in items[after:end]],
        "next": f"{end:016x}" if len(items) > end else None,
    }
