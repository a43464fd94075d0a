"""Checks of `leyden serve --keep N`: what is pending and the last N of each kind that ended stay, as they are
without it, and nothing else does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from leyden.harness.control.filters import CHARGES, STATICS, meaning_of
from leyden.harness.control.host import Host, list_named, violation
from leyden.harness.control.list_checks import PLACES, check_list
from leyden.harness.control.state_checks import do
from leyden.harness.steps import StepImpossible

_CHARGE_ENDS = ("payment_settled", "expiry_reached", "invoice_failed")
# Of each list: the member of `removed`, the states in which a row is pending, and the entries of the journal that say
# that it ended.
KINDS: Mapping[str, tuple[str, frozenset[str], tuple[str, ...]]] = {
    CHARGES: ("charges", frozenset({"pending"}), _CHARGE_ENDS),
    STATICS: ("staticCharges", frozenset({"active", "disabled"}), ("expiry_reached",)),
    "listPayments": ("payments", frozenset({"scheduled", "in_flight", "held", "pending"}),
                     ("payment_succeeded", "payment_failed")),
    "listDeliveries": ("deliveries", frozenset({"pending"}), ("callback_finished",)),
}  # fmt: skip
# Rows are removed at the ends of commits, a few at a time.
_COMMITS = 12
_INBOX = "shop.inbox"
_COUNTED = frozenset(shown for shown, _, _ in KINDS.values())  # entries of the journal are removed by each request
_COUNT = re.compile(r"(\w+)=(\d+)")
_ASKED = (("GET", "/sandbox/v1"), ("GET", "/v0/wallet"), ("GET", "/v0/unknown"), ("POST", "/v0/charges"))
SAME = {"reason": None}  # not compared: a payment of a Charge that was removed says that its invoice is unknown


def check_keep(make: Callable[[tuple[str, ...]], Host], step: Mapping[str, Any]) -> None:
    """{"do": "control_keep", "count": N, "steps": [step, ...], "how"?: "kill"}: do the steps at a server without
    a bound and at one that keeps N, which is restarted afterwards. `make(options)` starts a server."""
    keep = step["count"]
    whole, kept = make(()), make(("--keep", str(keep)))
    for host in (whole, kept):
        for one in step["steps"]:
            do(host, one)
        commit(host)
    ended = _ends(whole)
    _compare(whole, kept, keep, ended, f"with --keep {keep}")
    if "how" in step:
        kept.server.restart(step["how"])
        kept.forget()
        _compare(whole, kept, keep, ended, f"with --keep {keep}, after {step['how']} and a start")
        for again in ("without", "still without"):
            kept.server.restart(step["how"], without=("--keep",))
            kept.forget()
            _compare(whole, kept, keep, ended, f"{again} --keep, after {step['how']} and a start")


def _check_header(host: Host, where: str) -> Mapping[str, int]:
    """Every response has the counts of removed rows in a header, once one is not 0. Returns the counts."""
    state = host.read("/sandbox/v1")
    removed: Mapping[str, int] = state.get("removed", {})
    if "--keep" in host.server.options and (state.get("keep") is None or "removed" not in state):
        raise violation(f"GET /sandbox/v1 {where}", "the members keep and removed", sorted(state))
    for method, target in _ASKED:
        text = host.ask(method, target).headers.get("leyden-removed", "")
        found = {name: int(count) for name, count in _COUNT.findall(text)}
        counts = [{name: count for name, count in each.items() if count and name in _COUNTED}
                  for each in (removed, found)]  # fmt: skip
        if counts[0] != counts[1]:
            raise violation(f"{method} {target} {where}: Leyden-Removed", dict(removed), text)
    return removed


def commit(host: Host) -> None:
    """Make as many commits as it takes until every row beyond the bound is removed."""
    for _ in range(_COMMITS):
        host.accepted("PUT", "/sandbox/v1/inboxes/quiet/script", {})


def _ends(host: Host) -> dict[tuple[str, str], int]:
    """The number of the journal's entry that says that a row ended, by list and id. A Charge has not ended before the
    callbacks about it."""
    entries = host.read("/sandbox/v1/journal?limit=1000")
    found = {}
    for entry in entries:
        for name, (_, pending, kinds) in KINDS.items():
            if entry["kind"] in kinds and entry["facts"].get("status") not in pending:
                found[name, entry["subject"]] = entry["sequence"]
        if entry["kind"] == "callback_finished":
            found[CHARGES, entry["facts"]["resource"]] = entry["sequence"]
    return found


def with_pending_callbacks(host: Host) -> frozenset[str]:
    """The ids of the Charges about which a callback is pending: they stay."""
    return frozenset(row["chargeId"] for row in host.rows("listDeliveries") if row["status"] == "pending")


def _compare(whole: Host, kept: Host, keep: int, ended: Mapping[tuple[str, str], int], where: str) -> None:
    removed, needed = _check_header(kept, where), with_pending_callbacks(whole)
    for name, (shown, pending, _) in KINDS.items():
        rows = {row["id"]: row for row in whole.rows(name)}
        final = (row for row in rows if rows[row]["status"] not in pending and row not in needed)
        over = sorted(final, key=lambda row: ended[name, row])
        gone = frozenset(over[: max(0, len(over) - keep)])
        expected = [{**one, **SAME} for key, one in rows.items() if key not in gone]
        observed = [{**one, **SAME} for one in kept.rows(name)]
        if expected != observed:
            different = next((pair for pair in zip(expected, observed, strict=False) if pair[0] != pair[1]), None)
            if different is not None and different[0]["id"] == different[1]["id"]:
                raise violation(f"{name} {where}", *different)
            wanted, found = ([one["id"] for one in each] for each in (expected, observed))
            missing, more = [one for one in wanted if one not in found], [one for one in found if one not in wanted]
            words = f"missing: {missing[:3]}; not expected: {more[:3]}"
            raise violation(f"{name} {where}", f"{len(wanted)} rows, as they are without it", words)
        if removed.get(shown, 0) != len(gone):
            raise violation(f"removed {shown} {where}", len(gone), removed)
        for one in (*gone,)[:4]:
            if name in {CHARGES, STATICS}:
                path = f"/v0/{'charges' if name == CHARGES else 'static-charges'}/{one}"
                status = kept.ask("GET", path).status
                if status != 404:
                    raise violation(f"GET {path} {where}", 404, status)
        of = list_named(name)
        check_list(kept, {"operation": name, "check": "pages"})
        for parameter in of.filters:
            if parameter != "bodies" and meaning_of(of, parameter) is not None:
                for place in PLACES if kept.rows(name) else ():
                    with suppress(StepImpossible):  # no value belongs to the row
                        check_list(kept, {"operation": name, "check": "filter", "draw": [[parameter, place, "same"]]})
    posts = [host.read(f"/sandbox/v1/inboxes/{_INBOX}?limit=1000")["posts"] for host in (whole, kept)]
    wanted_posts = [one["headers"]["webhook-id"] for one in posts[0]][-keep:]
    found_posts = [one["headers"]["webhook-id"] for one in posts[1]]
    if wanted_posts != found_posts:
        raise violation(f"posts of an inbox {where}", wanted_posts[:3], found_posts[:3])
