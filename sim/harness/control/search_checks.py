"""Checks of the search and of the numbers that the sandbox shows: both agree with the lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leyden.harness.control.filters import CHARGES, STATICS, Row, has_text, searched_texts, value_of
from leyden.harness.control.host import Host, violation, with_query
from leyden.harness.control.list_checks import place_of
from leyden.harness.steps import StepImpossible

SEARCH = "/sandbox/v1/search"
# The list of each kind of result.
KINDS: Mapping[str, str] = {
    "charge": CHARGES,
    "static_charge": STATICS,
    "payment": "listPayments",
    "delivery": "listDeliveries",
    "request": "listRequests",
}
_TEXT = {"type": "string"}
_MOST_RESULTS = 100


def check_search(host: Host, step: Mapping[str, Any]) -> None:
    """{"do": "control_search", "kind": "charge", "check": "middle", "draw": [["text", PLACE, KIND]], "count": perKind}:
    search for the texts of a row of the list of a kind."""
    kind, (_, place, value_kind) = step["kind"], step["draw"][0]
    rows = host.rows(KINDS[kind])
    if not rows:
        raise StepImpossible(kind)
    row = rows[place_of(place, len(rows))]
    for text in dict.fromkeys(searched_texts(host, KINDS[kind], row)):
        value = value_of(value_kind, text if len(text) < 60 else text[:40], _TEXT)
        if value:
            found = _check(host, value, step["count"])
            for most in {found - 1, found, found + 1} & {*range(1, _MOST_RESULTS + 1)} if found < step["count"] else ():
                _check(host, value, most)


def _check(host: Host, text: str, most: int) -> int:
    """Search, and return the number of results of the kind with the most."""
    target = with_query(SEARCH, {"text": text, "perKind": str(most)})
    answer = host.read(target)
    complete, kinds, counts = True, [], [0]
    for kind, name in KINDS.items():
        expected = [row for row in host.rows(name) if _has(host, name, row, text)]
        observed = [row for row in answer["data"] if row["kind"] == kind]
        wanted, found = [str(row["id"]) for row in expected], [row["id"] for row in observed]
        if found != wanted[:most]:
            raise violation(f"GET {target}: {kind}", wanted[:most][:5], found[:5])
        complete = complete and len(wanted) <= most
        counts.append(len(wanted))
        kinds += [kind] * len(found)
        for row, shown in zip(expected, observed, strict=False):
            _compare(host, f"GET {target}: {kind} {shown['id']}", kind, row, shown)
    if kinds != [row["kind"] for row in answer["data"]]:
        raise violation(f"GET {target}", "the results kind by kind", [row["kind"] for row in answer["data"]][:8])
    if answer["complete"] is not complete:
        raise violation(f"GET {target}: complete", complete, answer["complete"])
    return max(counts)


def _has(host: Host, name: str, row: Row, text: str) -> bool:
    if name == "listRequests" and row["operation"] == "search":
        return False
    # The wallet and the reason of a payment are searched, too.
    if name == "listPayments" and (text.lower() in (row["reason"] or "").lower() or text.lower() in "wallet"):
        return True
    return has_text(host, name, row, text)


def _compare(host: Host, where: str, kind: str, row: Row, shown: Row) -> None:
    at = row["at"] if kind == "request" else row["createdAt"]
    status = row["status"]
    expected: dict[str, Any] = {"at": at, "status": "no response" if status is None else str(status)}
    if kind in {"charge", "static_charge"}:
        expected |= {"chargeId": row["id"], "title": row["description"]}
    elif kind in {"delivery", "request"}:
        expected["chargeId"] = row["chargeId"]
    observed = {name: shown[name] for name in expected}
    if observed != expected:
        raise violation(where, expected, observed)


# Numbers


def _by_state(host: Host) -> Any:
    return dict(sorted(Counter(row["status"] for row in host.rows(CHARGES)).items()))


def _active_faults(host: Host) -> Any:
    faults = host.rows("listServiceFaults")
    return sum(one["count"] is None or one["hits"] < one["count"] for one in faults)


def _balance(host: Host) -> Any:
    """The amount received by completed Charges: for each, its first successful payment."""
    received = {row["paymentHash"]: row["amount"] for row in host.rows("listPayments") if row["status"] == "succeeded"}
    return str(sum(map(int, received.values())))


# What the members of the sandbox's state count, by the lists.
COUNTS: Mapping[str, Callable[[Host], Any]] = {
    "charges": _by_state,
    "pending": lambda host: len(host.rows("listDueEvents")),
    "serviceFaults": _active_faults,
    "balance": _balance,
}


def check_counts(host: Host, names: Sequence[str]) -> None:
    """The numbers of the state of the sandbox are those of its lists, and those of an inbox those of its posts."""
    state = host.read("/sandbox/v1")
    for name in names:
        expected = COUNTS[name](host)
        if state[name] != expected:
            raise violation(f"GET /sandbox/v1: {name}", expected, state[name])
    bounded = "--keep" in host.server.options  # then the earliest posts are removed, and are still counted
    for row in host.rows("listInboxes"):
        posts: list[Any] = []
        inbox = f"/sandbox/v1/inboxes/{row['name']}?limit=1000&after="
        while page := host.read(f"{inbox}{posts[-1]['number'] if posts else 0}")["posts"]:
            posts += page
        numbers = {"received": len(posts), "objections": sum(bool(post["verdict"]) for post in posts)}
        if bounded and posts:
            numbers = {"received": posts[-1]["number"]}
        shown = {name: row[name] for name in numbers}
        if shown != numbers:
            raise violation(f"listInboxes: {row['name']}", numbers, shown)
