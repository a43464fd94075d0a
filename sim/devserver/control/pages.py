"""Lists of the control plane: one page, with the cursor of the next one, as in the lists of the charge service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leyden.server.charges.lists import CHARGE, STATIC_CHARGE, cursor, position, query_instant
from leyden.server.http.request import Request
from leyden.world.ports import Slices

Page = dict[str, Any]

READ_AT_ONCE, _SMALL_PORTION = 100, 20
# The kinds in cursors. The lists of the charge service have the same for the same rows.
KINDS = {
    "charge": CHARGE, "static_charge": STATIC_CHARGE, "payment": 3, "attempt": 4, "payer": 5, "interceptor": 6,
    "delivery": 7, "inbox": 8, "fault": 9, "service_fault": 10, "request": 11, "snapshot": 12, "event": 13, "node": 14,
    "sandbox": 15,
}  # fmt: skip
# What a text is searched in, by kind of row: ids, texts, invoices and hashes.
SEARCHED_FIELDS = {
    "charge": ("id", "description", "internal_id", "request", "payment_hash", "callback_url", "static_charge_id"),
    "static_charge": ("id", "description", "internal_id", "identifier", "callback_url", "success_message"),
    "payment": ("id", "payment_hash", "request", "payer", "reason"),
    "delivery": ("id", "resource_id", "endpoint_id", "url", "event"),
}


def page(
    call: Request, kind: str, read: Callable[[int | None, int], Sequence[Any]], show: Callable[[Any], Any]
) -> Page:
    """The response with `limit` rows after the cursor. `read(after, limit)` returns rows with a `doc_id`, in the order
    of the list; `show` makes a resource of a row. `kind` is one of `KINDS`."""
    limit = call.query["limit"]
    rows = read(position(call.query.get("after")), limit + 1)
    return _page(kind, [show(row) for row in rows[:limit]], rows[limit - 1].doc_id if len(rows) > limit else None)


async def sliced_page(
    call: Request,
    kind: str,
    read: Callable[[int | None, int], Sequence[Any]],
    show: Callable[[Any], Any],
    *,
    slices: Slices,
    is_former: Callable[[], bool],
) -> Page | None:
    """The same for rows of which one may take long to read. Other requests are answered while it reads; None if
    `is_former()` in between: the rows are of a run that was reset."""
    limit, last, portion = call.query["limit"], position(call.query.get("after")), _SMALL_PORTION
    found: list[tuple[int, Any]] = []
    while len(found) <= limit:
        rows = read(last, min(portion, limit + 1 - len(found)))
        found += [(row.doc_id, show(row)) for row in rows]
        if len(rows) < portion:
            break
        last, portion = rows[-1].doc_id, min(2 * portion, READ_AT_ONCE)
        if slices.is_over():
            await slices.pause()
            portion = _SMALL_PORTION
            if is_former():
                return None
    return _page(kind, [shown for _, shown in found[:limit]], found[limit - 1][0] if len(found) > limit else None)


async def searched_page(
    call: Request,
    read: Callable[[int | None, int], Sequence[Any]],
    show: Callable[[Any], Any],
    *,
    kind: str,
    slices: Slices,
    is_former: Callable[[], bool],
    lnurl: Callable[[str], str],
) -> Page | None:
    """The same with only the rows that have `query.text` as `has_text` says, in upper or lower case. Other requests are
    answered while it reads. None if `is_former()` in between: the rows are of a run that was reset."""
    text = call.query.get("text")
    if text is None:
        return await sliced_page(call, kind, read, show, slices=slices, is_former=is_former)
    limit, last = call.query["limit"], position(call.query.get("after"))
    found: list[Any] = []
    text = text.lower()
    while len(found) <= limit:
        rows = read(last, READ_AT_ONCE)
        found += [row for row in rows if has_text(row, kind, text, lnurl)]
        if len(rows) < READ_AT_ONCE:
            break
        last = rows[-1].doc_id
        if slices.is_over():
            await slices.pause()
            if is_former():
                return None
    return page(call, kind, lambda _after, most: found[:most], show)


def has_text(row: Mapping[str, Any], kind: str, text: str, lnurl: Callable[[str], str]) -> bool:
    """Whether one of the `SEARCHED_FIELDS` has the text, which is in lower case, or the LNURL of a Static Charge, which
    no field has: `lnurl` makes it of the id."""
    if any(isinstance(value := row.get(field), str) and text in value.lower() for field in SEARCHED_FIELDS[kind]):
        return True
    return kind == "static_charge" and text.isalnum() and text in lnurl(row["id"])


def created_between(call: Request) -> dict[str, int]:
    """The filters `createdAfter` and `createdBefore` of the request, as arguments of a table's page."""
    bounds = {"since_ms": query_instant(call, "createdAfter"), "until_ms": query_instant(call, "createdBefore")}
    return {name: instant_ms for name, instant_ms in bounds.items() if instant_ms is not None}


def item_page(call: Request, kind: str, items: Sequence[Any], show: Callable[[Any], Any]) -> Page:
    """The same for items that no table has: the cursor is the number of those before."""
    after, limit = position(call.query.get("after")) or 0, call.query["limit"]
    end = after + limit
    return _page(kind, [show(item) for item in items[after:end]], end if len(items) > end else None)


def _page(kind: str, data: list[Any], last: int | None) -> Page:
    """A page; the next one is after the row `last`, None when there is none."""
    return {"data": data, "next": None if last is None else cursor(KINDS[kind], last)}
