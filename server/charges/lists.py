"""List operations: one page, newest first, with the filters that the spec declares."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

from leyden.server.charges.request_values import invalid
from leyden.server.http.request import Request
from leyden.server.store.typed_table import TypedTable
from leyden.server.timestamps import parse_iso

_CURSOR = re.compile(r"[0-9a-f]{4}[0-9a-f]{12}")
CHARGE, STATIC_CHARGE = 1, 2  # the kinds in cursors


def query_instant(request: Request, name: str) -> int | None:
    """A time in the query, in ms. The validator's `date-time` accepts some texts that are none.

    It is rounded up, because both bounds compare whole milliseconds with it: those from it on, or those before it.
    """
    text = request.query.get(name)
    if text is None:
        return None
    try:
        return parse_iso(text, clamp=True, up=True)
    except ValueError as error:
        raise invalid(f"query.{name}", str(error)) from None


def cursor(kind: int, position: int) -> str:
    """The cursor of a position in a list of this kind of resources. The patterns of the spec refuse another kind, as
    `position` does. Both accept the kind 0000, which a cursor of an earlier version has in every list."""
    return f"{kind:04x}{position:012x}"


def position(text: str | None, kind: int | None = None) -> int | None:
    """The position of a cursor, or None without one. Raises `InvalidRequest` for a text that is no cursor, or one of
    another kind of list; without a `kind` any will do."""
    if text is None:
        return None
    if not _CURSOR.fullmatch(text) or (kind and int(text[:4], 16) not in (0, kind)):
        raise invalid("query.after", "not a cursor of this list; send next of its last page")
    return int(text[4:], 16)


def page(
    table: Any, request: Request, show: Callable[[Any], Any], kind: int, noun: str, **fixed: Any
) -> dict[str, Any]:
    """The response with one page of the project's rows: `limit` rows after the cursor that match every filter.

    `fixed` are further exact matches on row fields. `createdAfter` is inclusive, `createdBefore` exclusive. `next` is
    the cursor of the next page, null on the last one. `show` makes a resource of a row, whose kind is `kind`;
    `noun` names it in `message`.
    """
    query = request.query
    filters = {"project": request.project, **fixed}
    if query.get("status") is not None:
        filters["status"] = query["status"]
    if query.get("internalId") is not None:
        filters["internal_id"] = query["internalId"]
    after = query.get("after")
    limit = query["limit"]
    if limit < 1:
        raise invalid("query.limit", "must be at least 1")
    rows = table.page(
        filters,
        after=position(after, kind),
        limit=limit + 1,
        since_ms=query_instant(request, "createdAfter"),
        until_ms=query_instant(request, "createdBefore"),
    )
    more = len(rows) > limit
    rows = rows[:limit]
    where = " on this page" if more or after is not None else ""
    return {
        "success": True,
        "message": f"{len(rows)} {noun}{'' if len(rows) == 1 else 's'}{where}",
        "data": [show(row) for row in rows],
        "next": cursor(kind, rows[-1].doc_id) if more else None,
    }


class RemovedHint(Protocol):
    """The end of an error about an id that no row has, where rows were removed after their end: what removed them. One
    that `is_public` is shown to people without an API key."""

    def __call__(self, *, is_public: bool = False) -> str: ...


def by_keep(*, is_public: bool = False) -> str:
    """The `RemovedHint` of a service that removes what ended longest ago."""
    return "; --keep has removed some that ended"


def removed_from(table: TypedTable[Any], hint: RemovedHint, *, is_public: bool = False) -> str:
    """The hint, if rows of this table were removed; otherwise empty."""
    return hint(is_public=is_public) if table.removed() else ""
