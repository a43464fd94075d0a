"""Checks of snapshots and forks: their names and number, comparisons with a snapshot, and other random numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from leyden.harness.control.documents import control_operations
from leyden.harness.control.filters import STATICS
from leyden.harness.control.host import Host, list_named, violation
from leyden.harness.control.list_checks import check_list
from leyden.harness.steps import StepImpossible

_SNAPSHOTS, _DIFF = "/sandbox/v1/snapshots", "/sandbox/v1/diff"
_CHARGE = {"amount": "4000", "description": "other", "callbackUrl": "http://shop.inbox.localhost/x"}
_NAMES = ("one", "one", "One", None, "one ", "~" * 200, " ", "100%", '"', None)
_LISTED = 1_000
# What changes a setting, by the table in which a comparison lists it.
_SETTINGS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "sandbox": ("/sandbox/v1/clock/advance", {"by": "2s"}),
    "faults": ("/sandbox/v1/faults", {"kind": "bad_signature"}),
    "service_faults": ("/sandbox/v1/service-faults", {"kind": "stale_read"}),
    "payers": ("/sandbox/v1/payers", {"outcome": "never"}),
    "webhook_secrets": ("/sandbox/v1/webhook-secret/rotate", {}),
}


def check_copies(host: Host, step: Mapping[str, Any]) -> None:
    """{"do": "control_copies", "check": one of `COPY_CHECKS`, "count"?: seed, "how"?: "snapshot"}."""
    COPY_CHECKS[step["check"]](host, step)


def _names(host: Host, step: Mapping[str, Any]) -> None:
    """A snapshot has the name that it was given, in every answer and in the filter by the name, also after others were
    deleted, after a restore and after a reset."""
    made = []
    for name in _NAMES:
        made.append(host.accepted("POST", _SNAPSHOTS, {} if name is None else {"name": name}))
        _same(name, made[-1]["name"], f"POST {_SNAPSHOTS}: name")
    _listed(host, made, "of snapshots")
    deleted = host.accepted("DELETE", f"{_SNAPSHOTS}/{made[1]['id']}")
    _same(made.pop(1), deleted, "DELETE of a snapshot")
    _listed(host, made, "after a deletion")
    host.accepted("POST", "/sandbox/v1/restore", {"snapshot": made[0]["id"]})
    _listed(host, made, "after a restore")
    host.accepted("POST", "/sandbox/v1/reset", {})
    _listed(host, made, "after a reset")


def _listed(host: Host, made: list[Any], where: str) -> None:
    host.forget()
    of = list_named("listSnapshots")
    _same(made[::-1], host.full(of), f"listSnapshots {where}")
    for name in dict.fromkeys(one["name"] for one in made if one["name"] is not None):
        rows = host.full(of, name=name)
        _same([one for one in made[::-1] if one["name"] == name], rows, f"listSnapshots with name {name!r} {where}")
    check_list(host, {"operation": "listSnapshots", "check": "pages"})


def _most(host: Host, step: Mapping[str, Any]) -> None:
    """A sandbox has so many snapshots as the document says, and one more is refused until one is deleted."""
    words = next(one.description for one in control_operations() if one.name == "createSnapshot")
    most = re.search(r"at most (\d+) snapshots", words)
    if most is None:
        raise StepImpossible("the document has no number of snapshots")
    made = [host.accepted("POST", _SNAPSHOTS, {"name": f"{number}"}) for number in range(int(most[1]))]
    for number in range(2):
        status = host.ask("POST", _SNAPSHOTS, {}).status
        _same(409, status, f"snapshot {int(most[1]) + 1} of a sandbox")
        _listed(host, made, "that is full")
        host.accepted("DELETE", f"{_SNAPSHOTS}/{made.pop(number)['id']}")
        made.append(host.accepted("POST", _SNAPSHOTS, {"name": "again"}))


def _reseed(host: Host, step: Mapping[str, Any]) -> None:
    """Forks without `reseed` have the random numbers of the sandbox. Those with one have others, which are the same for
    the same seed; a fork of the present state, or of a snapshot."""
    seed, of = step["count"], {}
    if step.get("how") == "snapshot":
        of = {"snapshot": host.accepted("POST", _SNAPSHOTS, {})["id"]}
        host.accepted("POST", "/v0/charges", _CHARGE)
    seeds = (None, None, seed, seed, 123_456_789)
    forks = [host.of_key(host.accepted("POST", "/sandbox/v1/fork", {**of, **({} if one is None else {"reseed": one})})
                         ["apiKey"]) for one in seeds]  # fmt: skip
    if of:
        host.accepted("POST", "/sandbox/v1/restore", of)
    charges = [fork.accepted("POST", "/v0/charges", _CHARGE)["data"]["id"] for fork in (host, *forks)]
    own, first, second, seeded, again, other = charges
    _same([own, own], [first, second], "the next id in forks without reseed")
    _same(seeded, again, f"the next id in two forks with reseed {seed}")
    if len({own, seeded, other}) < 3:
        raise violation(f"the next id in a fork with reseed {seed}", "another one than without it", charges)
    past = host.rows(STATICS)
    for fork in forks:
        _same([one["id"] for one in past], [one["id"] for one in fork.rows(STATICS)], "the past of a fork")


def _diff(host: Host, step: Mapping[str, Any]) -> None:
    """A comparison names each field that differs, with its value here and in the snapshot, and each setting."""
    static = host.rows(STATICS)[0]
    before = host.accepted("POST", _SNAPSHOTS, {})["id"]
    _same({"count": 0, "differences": []}, _diff_with(host, before), "a comparison with the present state")
    changed = {"description": f"{static['description']}, changed", "internalId": "changed"}
    host.accepted("PATCH", f"/v0/static-charges/{static['id']}", changed)
    created = host.accepted("POST", "/v0/charges", _CHARGE)["data"]
    after = host.accepted("POST", _SNAPSHOTS, {})["id"]
    _compared(_diff_with(host, before), static, changed, created["id"], here=True)
    host.accepted("POST", "/sandbox/v1/restore", {"snapshot": before})
    _same({"count": 0, "differences": []}, _diff_with(host, before), "a comparison after a restore")
    _compared(_diff_with(host, after), static, changed, created["id"], here=False)
    for target, order in _SETTINGS.values():
        host.accepted("POST", target, order)
    tables = {row["table"] for row in _diff_with(host, before)["differences"]}
    if not tables >= {*_SETTINGS}:
        raise violation("a comparison after settings were changed", sorted(_SETTINGS), sorted(tables))
    for _ in range(150):
        host.accepted("POST", "/v0/charges", _CHARGE)
    found = _diff_with(host, before)
    if found["count"] <= _LISTED or len(found["differences"]) != _LISTED:
        counts = [found["count"], len(found["differences"])]
        raise violation("a comparison with many differences", f"all are counted, {_LISTED} are listed", counts)


def _diff_with(host: Host, snapshot: str) -> Any:
    return host.accepted("POST", _DIFF, {"snapshot": snapshot})


def _compared(found: Any, static: Mapping[str, Any], changed: Mapping[str, Any], charge_id: str, *, here: bool) -> None:
    """The Static Charge was changed and the Charge created in the sandbox, or with `here` false in the snapshot."""
    rows = found["differences"]
    _same(found["count"], len(rows), "the number of differences")
    with_change, without = ("here", "there") if here else ("there", "here")
    values = {(one[without], one[with_change]) for one in rows
              if one["id"] == static["id"] and isinstance(one["here"], str | None)}  # fmt: skip
    for name, value in changed.items():
        if (static[name], value) not in values:
            words = f"{static[name]!r} and {value!r}, {with_change}"
            raise violation(f"a comparison: {name}", words, sorted(values, key=str)[:4])
    new = [one for one in rows if one["id"] == charge_id]
    wanted = {charge_id, _CHARGE["description"], _CHARGE["callbackUrl"]}
    if any(one[without] is not None for one in new) or not wanted <= {str(one[with_change]) for one in new}:
        raise violation("a comparison: a new Charge", f"all its fields {with_change}, and null {without}", new[:6])


def _same(expected: Any, observed: Any, where: str) -> None:
    if expected != observed:
        raise violation(where, expected, observed)


COPY_CHECKS: Mapping[str, Callable[[Host, Mapping[str, Any]], None]] = {
    "names": _names, "most": _most, "reseed": _reseed, "diff": _diff,
}  # fmt: skip
