"""Checks of copies while something else happens: what happens after a snapshot has no effect once the sandbox returned
to it, and what happens in a sandbox has none on its copies, nor what happens in a copy on the sandbox."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from leyden.harness.control.host import Host
from leyden.harness.control.state_checks import ORIGIN, compare, compare_values, do

_SNAPSHOTS, _RESTORE, _FORK = "/sandbox/v1/snapshots", "/sandbox/v1/restore", "/sandbox/v1/fork"
# What the compared sandbox is: it returned to a snapshot; a fork of it, of a snapshot of it, or an import of its file,
# while the steps are done in it; and the sandbox of which there is a fork, while they are done in the fork.
RESTORED, FORKED, FROM_SNAPSHOT, IMPORTED, FORKED_FROM = APART_WAYS = (
    "restore", "fork", "fork of a snapshot", "import", "forked",
)  # fmt: skip
_MASKS: Mapping[str, str] = {
    RESTORED: "restore", FORKED: "fork", FROM_SNAPSHOT: "fork", IMPORTED: "import", FORKED_FROM: ORIGIN,
}  # fmt: skip
_WORDS: Mapping[str, str] = {
    RESTORED: "after a restore",
    FORKED: "in a fork",
    FROM_SNAPSHOT: "in a fork of a snapshot",
    IMPORTED: "in an import",
    FORKED_FROM: "in a sandbox of which there is a fork",
}


def check_apart(make: Callable[[], Host], step: Mapping[str, Any]) -> None:
    """{"do": "control_apart", "how": one of `APART_WAYS`, "options"?, "steps": [step, ...], "meanwhile": [step, ...],
    "then": [step, ...]}: do the steps at two servers. At one of them the steps `meanwhile` are done after a snapshot,
    beside a copy, or in a copy. What should be without their effects is compared with the other server, at once and
    after the steps of `then`."""
    how = step["how"]
    reference, other = make(), make()
    for host in (reference, other):
        for one in step["steps"]:
            do(host, one)
    other = _BESIDE[how](other, step["meanwhile"])
    mask, where = _MASKS[how], f"{_WORDS[how]}, beside other steps"
    compare(reference, other, mask, where, filtered=False)
    before = {label: len(found) for label, found in reference.answers.items()}
    for one in step["then"]:
        do(reference, one)
        do(other, one)
    for label, found in reference.answers.items():
        first = before.get(label, 0)
        compare_values(found[first:], other.answers.get(label, [])[first:], mask, f"the answers {label} {where}")
    compare(reference, other, mask, f"{where}, and the steps after them")


def _restored(host: Host, meanwhile: Sequence[Any]) -> Host:
    snapshot = host.accepted("POST", _SNAPSHOTS, {})["id"]
    known = deepcopy((host.answers, host.keys, host.created, host.present))
    for one in meanwhile:
        do(host, one)
    host.accepted("POST", _RESTORE, {"snapshot": snapshot})
    for row in host.rows("listSnapshots"):  # snapshots are kept in a restore
        host.ask("DELETE", f"{_SNAPSHOTS}/{row['id']}")
    host.answers, host.keys, host.created, host.present = known
    host.forget()
    return host


def _copied(host: Host, meanwhile: Sequence[Any]) -> Host:
    copy = host.of_key(host.accepted("POST", _FORK, {})["apiKey"])
    for one in meanwhile:
        do(host, one)
    return copy


def _copied_from_snapshot(host: Host, meanwhile: Sequence[Any]) -> Host:
    snapshot = host.accepted("POST", _SNAPSHOTS, {})["id"]
    copy = host.of_key("")
    for one in meanwhile:
        do(host, one)
    return copy.with_key(host.accepted("POST", _FORK, {"snapshot": snapshot})["apiKey"])


def _imported(host: Host, meanwhile: Sequence[Any]) -> Host:
    file = json.dumps(host.accepted("GET", "/sandbox/v1/export"))
    copy = host.of_key("")
    for one in meanwhile:
        do(host, one)
    return copy.with_key(host.accepted("POST", "/sandbox/v1/sandboxes/import", json.loads(file))["apiKey"])


def _forked_from(host: Host, meanwhile: Sequence[Any]) -> Host:
    copy = host.of_key(host.accepted("POST", _FORK, {})["apiKey"])
    for one in meanwhile:
        do(copy, one)
    host.forget()
    return host


_BESIDE: Mapping[str, Callable[[Host, Sequence[Any]], Host]] = {
    RESTORED: _restored,
    FORKED: _copied,
    FROM_SNAPSHOT: _copied_from_snapshot,
    IMPORTED: _imported,
    FORKED_FROM: _forked_from,
}
