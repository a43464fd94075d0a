"""Obligations of the lists of the control plane: pages, order, rows, filters alone and in pairs, limits, cursors,
changes between pages, the search and the numbers of the sandbox. The lists and their parameters are those of the
document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from leyden.harness.control.documents import (
    AFTER,
    LIMIT,
    ControlList,
    control_lists,
    control_operations,
    creation_of,
    removal_of,
    single_of,
)
from leyden.harness.control.filters import kinds_of, meaning_of
from leyden.harness.control.list_checks import EVERY, PLACES, WHOLE
from leyden.harness.control.search_checks import COUNTS, KINDS
from leyden.harness.obligations.control.setups import PORTIONS, row_of, send
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.obligations.values.texts import bad_bytes
from leyden.harness.steps import Step

DIRECT, SMALL, NETWORK = "control-rows", "control-few-rows", "control-network"
# Lists below a resource: a path with one that has rows in the setup.
_PATHS: Mapping[str, str] = {
    "listAttempts": "/sandbox/v1/payments/{routed.0.id}/attempts",
    "getInbox": "/sandbox/v1/inboxes/shop.inbox",
}
_OF_NETWORK = ("listAttempts",)
# Lists whose rows other operations add than one at their own path.
_FILLED = frozenset({
    "listPayments", "listAttempts", "listDeliveries", "listInboxes", "getInbox", "getJournal", "listRequests",
    "listSandboxCharges", "listSandboxStaticCharges", "listDueEvents", "listNetworkNodes",
})  # fmt: skip
_CURSORS = ("", "0", "x", "000000000000000", "00000000000000001", "000000000000000g", "000000000000000A",
            "%20000000000000001", "0000000000000001%00", "null", "-1", "0x00000000000001",
            "ffff000000000001")  # fmt: skip
_NUMBERS = ("", "-1", "x", "1.5", "1e3", "null", "9007199254740992")
_SOUGHT = ("same", "other-case", "middle", "one-off", "any-character")
# Which pairs of kinds of values are asked of two filters.
_PAIRS = (("same", "same"), ("same", "other-case"), ("one-off", "same"))

_NEW = {"amount": "2000", "description": "new", "expiresIn": 600, "callbackUrl": "http://shop.inbox.localhost/hook"}
_PAY = "/sandbox/v1/payments"
# What happens between two pages of the lists whose rows come from other operations.
_CHANGES: Mapping[str, tuple[Step, ...]] = {
    "created": (send("POST", "/v0/charges", _NEW), send("POST", "/v0/charges", _NEW, **{"as": "new"})),
    "paid": (send("POST", "/v0/charges", _NEW, **{"as": "newer"}),
             send("POST", _PAY, {"request": "{newer.0.data.invoice.request}"})),
    "static": (send("POST", "/v0/static-charges", {"minAmount": "1000", "maxAmount": "2000", "description": "new"}),),
    "inbox": (send("PUT", "/sandbox/v1/inboxes/later/script", {}),),
    "failed": (send("POST", "/v0/charges", _NEW, **{"as": "failing"}),
               send("POST", "/sandbox/v1/charges/{failing.0.data.id}/fail", {})),
    "changed": (send("PATCH", "/v0/static-charges/{more.1.data.id}", {"description": "changed between"}),),
    "settled": (send("POST", "/v0/charges", _NEW, **{"as": "holding"}),
                send("POST", _PAY, {"request": "{holding.0.data.invoice.request}", "outcome": "hold"},
                     **{"as": "holds"}), send("POST", "/sandbox/v1/payments/{holds.0.id}/settle")),
}  # fmt: skip


# The rows that are removed before a page is read, or between two pages.
_REMOVED: Mapping[str, tuple[int, ...]] = {
    "first": (0,), "last": (-1,), "at the cursor": (2,), "later": (6,), "first two": (0, 1), "each second": (1, 3, 5),
}  # fmt: skip
# The event of the cursor of a page runs, also with those after it, before the next page is read.
_RUN: Mapping[str, tuple[Step, ...]] = {
    case: (send("POST", "/sandbox/v1/clock/advance", {"to": f"{{page.{place}.at}}"}),)
    for case, place in (("run at the cursor", 2), ("run next", 3), ("run later", 6))
}
# What is scheduled at the cursor, or after it, is cancelled before the next page is read: by kind of event.
_CANCELLED: Mapping[str, str] = {
    "charge_expiry": "/sandbox/v1/charges/{{page.{}.id}}/fail",
    "payment_patience": "/sandbox/v1/payments/{{page.{}.id}}/settle",
    "hold_deadline": "/sandbox/v1/charges/{{page.{}.chargeId}}/fail",
}


def control_list_obligations() -> Iterator[Obligation]:
    """The obligations of every list, of the search, and of the numbers that the sandbox shows."""
    for one in control_lists():
        yield from obligations_of(one)
    yield from _searches()
    yield from _counts()


def _searches() -> Iterator[Obligation]:
    """Searches for the texts of the first, a middle and the last row of each kind, with few and with many results."""
    source = "sandbox.openapi.yaml#/components/parameters/SearchText"
    for kind, place, value in product(KINDS, ("first", "middle", "last"), _SOUGHT):
        for most in (1, 10, 100) if value == "middle" else (100,):
            step: Any = {"do": "control_search", "kind": kind, "draw": [["text", place, value]], "count": most}
            case = f"{place} {value} by {most}"
            yield Obligation("search query.text", kind, case, source, (step,), setup=SMALL)


def _counts() -> Iterator[Obligation]:
    """Each member of the sandbox's state that is a count."""
    source = "sandbox.openapi.yaml#/components/schemas/Sandbox"
    state = next(one for one in control_operations() if one.path == "/sandbox/v1").success["properties"]
    for name, schema in state.items():
        counted = "number of" in schema.get("description", "") and name != "seed"
        if counted or name in COUNTS:
            step: Any = {"do": "control_counts", "check": name}
            yield Obligation("getSandbox", "count", name, source, (step,) if name in COUNTS else (), setup=DIRECT)


def obligations_of(one: ControlList) -> Iterator[Obligation]:
    """The obligations of one list. A list that no step can fill has one obligation without steps, which is reported as
    not tested."""
    creation = creation_of(one)
    network = "/network/" in one.operation.path or one.name in _OF_NETWORK
    setup = NETWORK if network else SMALL if one.name == "listRequests" else DIRECT
    if one.name not in _FILLED and creation is None:
        yield Obligation(one.name, "rows", "", one.operation.source, (), setup=setup)
        return

    def asked(what: str, case: str, place: str = "", **step: Any) -> Obligation:
        target = {"target": _PATHS[one.name]} if one.operation.has_path_parameters else {}
        whole: Any = {"do": "control_list", "operation": one.name, **target, **step}
        return Obligation(f"{one.name}{place}", f"list-{what}", case, one.operation.source, (whole,), setup=setup)

    yield asked("pages", "", check="pages")
    if one.order or one.name == "listNetworkNodes":
        yield asked("order", "", check="order")
    if single_of(one) is not None:
        yield asked("rows", "", check="rows")
    limit = one.operation.parameters[LIMIT]["schema"]
    for value in (-1, 0, limit["maximum"] + 1, "", "x", "1.5", "1e2", "%201", "null"):
        yield asked("limit", str(value), f" query.{LIMIT}", check="refused", raw=f"{LIMIT}={value}", kind=LIMIT)
    for value in _NUMBERS if one.numbered else _CURSORS:
        yield asked("cursor", value, f" query.{AFTER}", check="refused", raw=f"{AFTER}={value}", kind=AFTER)
    for name in ("colour", "Limit", "LIMIT", "limits", "_after", "before", "offset", "page"):
        yield asked("unknown", name, f" query.{name}", check="refused", raw=f"{name}=1", kind=name)
    for name in one.operation.parameters:
        raw = f"{name}=1&{name}=2"
        yield asked("twice", "", f" query.{name}", check="refused", raw=raw, kind=name)
    for name in one.operation.parameters:
        texts = [*bad_bytes()]
        for kind, text in texts if name == "text" else texts[::6]:
            yield asked("bytes", kind, f" query.{name}", check="refused", raw=f"{name}={text}", kind=WHOLE)
    for kind, text in bad_bytes():
        yield asked("bytes", kind, " query", check="refused", raw=f"{text}=1", kind=WHOLE)
    yield from _filters(one, asked)
    yield from _portions(one, asked)
    yield from _between(one, creation is not None, asked)


def _filters(one: ControlList, asked: Any) -> Iterator[Obligation]:
    known = []
    for name, parameter in one.filters.items():
        schema = parameter["schema"]
        if schema.get("type") == "boolean":
            continue  # no filter: the members of the rows
        if meaning_of(one, name) is None:
            yield Obligation(f"{one.name} query.{name}", "list-filter", "", one.operation.source, ())
            continue
        known.append(name)
        for place in PLACES:
            for kind in kinds_of(schema) if place != EVERY else ("same",):
                draw = [[name, place, kind]]
                # A search reads row after row, and not an index.
                what = "search" if name == "text" else "filter"
                yield asked(what, f"{place} {kind}", f" query.{name}", check="filter", draw=draw)
    for first, second in combinations(known, 2):
        for place, other in (("first", "first"), ("middle", "middle"), ("first", "last")):
            for kinds in _PAIRS:
                names = [kind for name, kind in zip((first, second), kinds, strict=True)
                         if kind in kinds_of(one.filters[name]["schema"])]  # fmt: skip
                if len(names) < 2:  # of an instant
                    names = ["+0-ms" if "Created" in name or "created" in name else "same" for name in (first, second)]
                draw = [[first, place, names[0]], [second, other, names[1]]]
                case = f"{place} {names[0]}, {other} {names[1]}"
                yield asked("filters", case, f" query.{first}+{second}", check="filter", draw=draw)
        draw = [[first, EVERY, "same"], [second, EVERY, "same"]]
        yield asked("filter-pair", "", f" query.{first}+{second}", check="pair", draw=draw)


def _portions(one: ControlList, asked: Any) -> Iterator[Obligation]:
    """Pages of filters that find rows about the ends of the portions in which a list is read."""
    links = {"listSandboxStaticCharges", "listRequests"}
    for query in PORTIONS.get(one.name, ()):
        case = " ".join(f"{name} {value}" for name, value in query.items())
        each = asked("portions", case, f" query.{'+'.join(query)}", check="portions", query=dict(query))
        yield replace(each, setup="control-portions-links" if one.name in links else "control-portions")


def _between(one: ControlList, has_creation: bool, asked: Any) -> Iterator[Obligation]:
    removal = removal_of(one)
    changes: dict[str, tuple[Step, ...]] = {}
    if has_creation and one.name != "listPayments":
        creation = creation_of(one)
        assert creation is not None
        changes["added"] = (send("POST", creation.path, row_of(creation), count=2),)
        if removal is not None:
            path = f"{one.operation.path}/{{page.{{}}.id}}"
            for case, place in (("read", 0), ("at the cursor", 2), ("next", 3), ("later", 6)):
                changes[f"removed {case}"] = (send("DELETE", path.replace("{}", str(place), 1)),)
            add = send("POST", creation.path, row_of(creation), **{"as": "added"})
            for case, places in _REMOVED.items():
                removed = [send("DELETE", path.replace("{}", str(place), 1)) for place in places]
                both = [*removed, *([add] * len(places))]
                changes[f"removed {case}, and added"] = tuple(both)
                yield asked(f"changed:removed {case}", "", check="changed", steps=both)
            again = (send("DELETE", path.replace("{}", "0", 1)), add,
                     send("DELETE", f"{one.operation.path}/{{added.0.id}}"), add)  # fmt: skip
            yield asked("changed:removed again", "", check="changed", steps=[*again])
    elif one.name == "listDueEvents":
        changes |= {**_CHANGES, **_RUN}
    elif one.name not in {"listAttempts", "listNetworkNodes", "listRequests"}:
        changes |= _CHANGES
    if one.name == "listDueEvents":
        for (kind, path), places in product(_CANCELLED.items(), ((0,), (1,), (0, 1), (0, 1, 2, 3))):
            steps = tuple(send("POST", path.format(place), {} if path.endswith("fail") else None) for place in places)
            case = f"{kind} {', '.join(map(str, places))}"
            yield asked("between-pages-cancelled", case, f" query.{AFTER}", check="between", kind=kind, steps=[*steps])
    for case, steps in changes.items():
        kind = "between-pages-run" if case in _RUN else "between-pages"
        yield asked(kind, case, f" query.{AFTER}", check="between", steps=[*steps])
