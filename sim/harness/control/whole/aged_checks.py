"""Checks of what stays while `leyden serve --keep N` removes rows: everything else is as at a server without a bound,
and each cursor continues where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from leyden.harness.control.documents import LIMIT, ControlList, control_lists
from leyden.harness.control.filters import Row
from leyden.harness.control.host import Host, list_named, violation, with_query
from leyden.harness.control.search_checks import COUNTS
from leyden.harness.control.state_checks import compare_values, do, kept_state
from leyden.harness.control.whole.keep_checks import KINDS, SAME, commit, with_pending_callbacks
from leyden.harness.targets.hosted import ENDS

_MASK = ENDS[0]
# Members that depend on removed rows or posts, or that only one of the two servers has. The numbers of Charges by their
# status are compared with the rows that are left.
_OF_THE_BOUND = frozenset({"keep", "removed", "posts", "timeline", "omitted", "charges", "bytes", "objections"})


def check_aged(make: Callable[[tuple[str, ...]], Host], step: Mapping[str, Any]) -> None:
    """{"do": "control_aged", "count": N, "steps": [step, ...], "meanwhile": [step, ...], "then": [step, ...], "how"?:
    "kill"}: do the steps at a server without a bound and at one that keeps N; `meanwhile` makes rows end, so that
    earlier ones are removed. Everything but the removed rows is compared then, after a restart of the second server,
    and after the steps of `then`. `make(options)` starts a server."""
    keep = step["count"]
    both = whole, kept = make(()), make(("--keep", str(keep)))
    _all(both, step["steps"])
    cursors = [*_cursors(whole, kept)]
    _all(both, step["meanwhile"])
    for host in both:
        commit(host)
    where = f"with --keep {keep}"
    _compare(whole, kept, where)
    for of, first, second in cursors:
        _compare_pages(whole, kept, of, first, second, where)
    if "how" in step:
        kept.server.restart(step["how"])
        kept.forget()
        where = f"{where}, after {step['how']} and a start"
        _compare(whole, kept, where)
    before = {label: len(found) for label, found in whole.answers.items()}
    _all(both, step["then"])
    for label, answers in whole.answers.items():
        since = before.get(label, 0)
        expected, observed = (_without(one[since:], set()) for one in (answers, kept.answers.get(label, [])))
        compare_values(expected, observed, _MASK, f"the answers {label} {where}")
    _compare(whole, kept, f"{where}, and the steps after it")


def _all(hosts: tuple[Host, Host], steps: Any) -> None:
    for one in steps:
        for host in hosts:
            do(host, one)


def _compare(whole: Host, kept: Host, where: str) -> None:
    state = kept.read("/sandbox/v1")
    removed, numbers = state["removed"], COUNTS["charges"](kept)
    if state["charges"] != numbers:
        raise violation(f"GET /sandbox/v1: charges {where}", numbers, state["charges"])
    gone, needed = set[str](), with_pending_callbacks(whole)
    for name, (shown, pending, _) in KINDS.items():
        rows = {row["id"]: {**row, **SAME} for row in whole.rows(name)}
        found = [{**row, **SAME} for row in kept.rows(name)]
        present = {row["id"] for row in found}
        missing = [row for key, row in rows.items() if key not in present]
        compare_values([rows[key] for key in rows if key in present], found, _MASK, f"{name} {where}")
        lost = [row for row in missing if row["status"] in pending or row["id"] in needed]
        if lost:
            raise violation(f"{name} {where}", "everything that is pending", f"without {lost[0]}")
        if removed[shown] != len(missing):
            raise violation(f"removed {shown} {where}", len(missing), removed)
        gone |= {row["id"] for row in missing}
    expected, observed = kept_state(whole, _MASK), kept_state(kept, _MASK)
    for target, wanted in expected.items():
        if _is_of_a_removed_row(target, gone) or target.partition("?")[0] in _paths():
            continue
        here = observed[target] if target in observed else _answer(kept, target)
        compare_values(_without(wanted, gone), _without(here, gone), _MASK, f"GET {target} {where}")


@lru_cache(maxsize=1)
def _paths() -> frozenset[str]:
    """Not compared here: rows that are compared by themselves, and snapshots, which end with a process."""
    return frozenset(list_named(name).operation.path for name in (*KINDS, "listSnapshots"))


def _is_of_a_removed_row(target: str, gone: set[str]) -> bool:
    return any(part in gone for part in target.partition("?")[0].split("/"))


def _answer(host: Host, target: str) -> Any:
    response = host.ask("GET", target)
    return [response.status, response.json]


def _without(value: Any, gone: set[str]) -> Any:
    """A response without removed rows and what depends on them."""
    if isinstance(value, Mapping):
        names = _OF_THE_BOUND | ({"message"} if "data" in value else set())
        return {name: _without(one, gone) for name, one in value.items() if name not in names}
    if isinstance(value, list):
        return [_without(one, gone) for one in value if not (isinstance(one, Mapping) and one.get("id") in gone)]
    return value


# Cursors


def _cursors(whole: Host, kept: Host) -> Iterator[tuple[ControlList, str, str]]:
    """Of each list the cursors of both servers after a row in its middle, so that rows on both sides are removed."""
    for of in control_lists():
        shared = [row["id"] for row in kept.rows(of.name)] if of.name in KINDS else []
        if len(shared) > 1:
            row = shared[(len(shared) - 1) // 2]
            first, second = (_cursor(host, of, row) for host in (whole, kept))
            if first is not None and second is not None:
                yield of, first, second


def _cursor(host: Host, of: ControlList, row: str) -> str | None:
    ids = [one["id"] for one in host.rows(of.name)]
    if row not in ids:
        return None  # the comparison of the rows finds it
    place = ids.index(row)
    found: str | None = host.read(with_query(of.operation.path, {LIMIT: str(place + 1)}))["next"]
    return found


def _after(host: Host, of: ControlList, cursor: str) -> Iterator[Row]:
    while cursor:
        page = host.read(with_query(of.operation.path, {LIMIT: "3", "after": cursor}))
        yield from page[of.member]
        cursor = page["next"]


def _compare_pages(whole: Host, kept: Host, of: ControlList, first: str, second: str, where: str) -> None:
    """After a cursor come the rows that are left of those that came after it."""
    present = {row["id"] for row in kept.rows(of.name)}
    wanted = [row["id"] for row in _after(whole, of, first) if row["id"] in present]
    found = [row["id"] for row in _after(kept, of, second)]
    if wanted != found:
        raise violation(f"{of.name} after a cursor {where}", wanted, found)
