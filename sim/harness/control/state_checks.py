"""Checks of kept state. One server is restarted, restored, forked or imported; its reference is not. Both must show the
same, at once and after the same steps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from leyden.harness.checks.violations import difference
from leyden.harness.control.documents import (
    LIMIT,
    ControlOperation,
    control_lists,
    control_operations,
    single_of,
)
from leyden.harness.control.filters import CHARGES, STATICS, drawn, meaning_of
from leyden.harness.control.host import Host, violation, with_query
from leyden.harness.steps import Step
from leyden.harness.targets.hosted import ENDS

COPIES = ("restore", "fork", "import")
WAYS = (*ENDS, *COPIES)
PROCESS = "process"  # another process goes on with the data
# Reads that are not compared, with the reasons.
_NOT_KEPT: Mapping[str, str] = {
    "getJournal": "the next process begins a journal of its own",
    "listRequests": "the log ends with the process, and no copy has it",
    "getRequest": "the log ends with the process, and no copy has it",
    "getEvents": "a stream",
    "search": "the lists are compared",
    "exportSandbox": "the file has the journal; what it keeps is imported",
}
# Lists that have no rows after it, by the way.
_EMPTY: Mapping[str, tuple[str, ...]] = {"listSnapshots": (*ENDS, "fork", "import")}
# Members that may differ after each way, with the place where the document says so.
_OF_PROCESS = frozenset({"request_id", "journalEntries", "journalHash", "notes", "ignoredFields", "lnurlRefused"})
_OF_RUN = frozenset({"run", "restored"})
ORIGIN = "origin"  # instead of a way: the sandbox of which a copy was made
_MAY_DIFFER: Mapping[str, frozenset[str]] = {
    ORIGIN: frozenset({*_OF_RUN, *_OF_PROCESS}),
    **dict.fromkeys(ENDS, _OF_PROCESS),
    "restore": frozenset({*_OF_RUN, "notes", "ignoredFields", "request_id"}),
    "fork": frozenset({*_OF_RUN, *_OF_PROCESS, "publicUrl", "payUrl"}),
    "import": frozenset({*_OF_RUN, *_OF_PROCESS, "publicUrl", "payUrl", "rate"}),
}
_LNURL = re.compile(r"(?:lightning:)?lnurl1[0-9a-z]+", re.IGNORECASE)
_URL = re.compile(r"http://localhost(?:/sandboxes/sbx_[0-9a-z]+)?")
_MOST_ROWS = 6
_TORN = re.compile(r"\bline\b|\bbytes\b")  # in a note
_KEY, _REPLACED_KEY = "a key since the snapshot", "a replaced key since the snapshot"


def check_kept(make: Callable[[bool], Host], step: Mapping[str, Any]) -> None:
    """{"do": "control_kept", "how": one of `WAYS`, "options"?, "steps": [step, ...], "then"?: [step, ...], "delay"?:
    ms, "reseeds"?: [seed, ...]}: do the steps at two servers, restart or copy one, and compare both; do the steps of
    `then` at both, and compare again. `delay` is the real time that passes meanwhile. With `reseeds` the sandboxes are
    forks of forks with these seeds. `make(disk)` starts a server."""
    how = step["how"]
    reference, other = make(False), make(how in ENDS)
    for host in (reference, other):
        for one in step["steps"]:
            do(host, one)
    for seed in step.get("reseeds", ()):
        reference, other = (
            host.of_key(host.accepted("POST", "/sandbox/v1/fork", {"reseed": seed})["apiKey"])
            for host in (reference, other)
        )
    # Forks have URLs of their own, also those of the reference.
    mask, of_origin = ("fork", "fork") if "reseeds" in step else (how, ORIGIN)
    delay = step.get("delay", 0)
    origin = other
    if how in ENDS:
        before = other.read("/sandbox/v1")["notes"]
        other.server.restart(how, stopped_ms=delay)
        _check_notes(other, before, how)
        other.server.pass_time(0)
        other.forget()
    else:
        origin, other = other, COPY[how](other)
        other.server.pass_time(delay)
    reference.server.pass_time(delay)
    where = f"after {_WORDS[how]}"
    then = step.get("then", ())
    if origin is not other:  # what happens in the sandbox that was copied changes nothing in the copy
        kept_state(origin, of_origin)  # as often as at the reference, because faults match these reads, too
        for one in then:
            do(origin, one)
        kept_state(origin, of_origin)
    compare(reference, other, mask, where, filtered=not then)
    for one in then:
        do(reference, one)
        do(other, one)
    if then:
        compare(reference, other, mask, f"{where}, and the steps after it")
        if origin is not other:
            compare(reference, origin, of_origin, f"in the sandbox of which there is a copy, {where}")


def _check_notes(host: Host, before: Sequence[str], how: str) -> None:
    """A note says that a half-written last line was dropped (server/README), and there is none when nothing was."""
    found = [note for note in host.read("/sandbox/v1")["notes"] if note not in before and _TORN.search(note)]
    if bool(found) is not (how == "torn"):
        wanted = "one about the last line" if how == "torn" else "none about the last line"
        raise violation(f"notes after {_WORDS[how]}", wanted, host.read("/sandbox/v1")["notes"])


def do(host: Host, one: Step) -> None:
    """A step `send`, or `passes`: real time passes."""
    if one["do"] == "passes":
        host.server.pass_time(one["by"])
        host.forget()
    else:
        host.send(one)


_WORDS = {
    "close": "a restart",
    "kill": "a kill and a start",
    "torn": "a kill within a write and a start",
    "compact": "a compaction and a restart",
    "restore": "a restore",
    "fork": "a fork",
    "import": "an export and an import",
}


# Copies


def _restored(host: Host) -> Host:
    snapshot = host.accepted("POST", "/sandbox/v1/snapshots", {})["id"]
    charge = {"amount": "4000", "description": "lost", "callbackUrl": "http://lost.localhost/"}
    host.accepted("POST", "/v0/charges", charge)
    host.accepted("POST", "/sandbox/v1/clock/advance", {"by": "3h"})
    for path in ("payers", "faults", "service-faults"):
        host.accepted("DELETE", f"/sandbox/v1/{path}")
    host.accepted("POST", "/sandbox/v1/webhook-secret/rotate")
    host.accepted("PUT", "/sandbox/v1/inboxes/shop/script", {"always": 503})
    host.accepted("PATCH", "/sandbox/v1/clock", {"rate": 7})
    host.restores += 1  # no key is issued twice, also after a restore
    kept_key, replaced_key = f"{_KEY} {host.restores}", f"{_REPLACED_KEY} {host.restores}"
    host.accepted("POST", "/sandbox/v1/api-keys", {"key": replaced_key})
    host.accepted("POST", "/sandbox/v1/api-keys/rotate", {"replaces": replaced_key, "key": kept_key})
    host.accepted("POST", "/sandbox/v1/deliveries/replay", {"delay": "5h"})
    host.accepted("POST", "/sandbox/v1/restore", {"snapshot": snapshot})
    host.accepted("DELETE", f"/sandbox/v1/snapshots/{snapshot}")
    for key, wanted in ((kept_key, 200), (replaced_key, 401)):  # a read, which is no event of the journal
        status = host.server.ask("GET", "/sandbox/v1", key=key).status
        if status != wanted:
            raise violation(f"GET /sandbox/v1 with {key}, after a restore", wanted, status)
    return host


def _forked(host: Host) -> Host:
    return host.of_key(host.accepted("POST", "/sandbox/v1/fork", {})["apiKey"])


def _imported(host: Host) -> Host:
    file = host.accepted("GET", "/sandbox/v1/export")
    return host.of_key(host.accepted("POST", "/sandbox/v1/sandboxes/import", file)["apiKey"])


# The sandbox that returned to a snapshot, or its copy.
COPY: Mapping[str, Callable[[Host], Host]] = {"restore": _restored, "fork": _forked, "import": _imported}


# State


def compare(reference: Host, other: Host, how: str, where: str, *, filtered: bool = True) -> None:
    """Every read has the same response at both servers; with `filtered` also the lists with filters."""
    masked = how in {"fork", "import"}
    expected, observed = kept_state(reference, how), kept_state(other, how)
    for target, wanted in expected.items():
        compare_values(wanted, observed.get(target), how, f"GET {target} {where}")
    more = [target for target in observed if target not in expected]
    if more:
        raise violation(where, f"{len(expected)} reads", more[:3])
    for target in _filtered(reference, how) if filtered else ():
        wanted, found = (_masked(host.ask("GET", target).json, how, masked) for host in (reference, other))
        if wanted != found:
            raise violation(f"GET {target} {where}", *_first_difference(wanted, found))


def compare_values(wanted: Any, found: Any, how: str, where: str) -> None:
    """Two values are the same, except for the members that may differ."""
    masked = how in {"fork", "import"}
    wanted, found = _masked(wanted, how, masked), _masked(found, how, masked)
    if wanted != found:
        raise violation(where, *_first_difference(wanted, found))


def kept_state(host: Host, how: str) -> dict[str, Any]:
    """The responses to every read of the control plane and of the charge service."""
    host.forget()
    found: dict[str, Any] = {}
    for one in control_operations():
        if one.method == "GET" and one.name not in _NOT_KEPT:
            for target in _targets(host, one):
                response = host.ask("GET", target)
                body = response.json
                if one.name in _EMPTY and how in _EMPTY[one.name]:
                    body = {"data": [], "next": None} if host.is_reference else body
                found[target] = [response.status, body]
    for path in ("/v0/charges?limit=1000", "/v0/static-charges?limit=1000", "/v0/wallet"):
        found[path] = host.ask("GET", path).json
    for key in host.keys if how not in {"fork", "import"} else ():
        found[f"with the key {key}"] = host.server.ask("GET", "/v0/wallet", key=key).status
    return found


_FILTERS = ("status", "internalId", "createdAfter", "createdBefore")


def _filtered(host: Host, how: str) -> Iterator[str]:
    """The lists with each filter, by a value of the first row and one of the last: they are read by the indexes, which
    are built again after a restart and belong to one sandbox alone. Also what wallets read of the Static Charges."""
    for of in control_lists():
        if of.operation.has_path_parameters or of.name in {*_NOT_KEPT, *_EMPTY}:
            continue
        rows = host.full(of) if host.ask("GET", of.operation.path).status == 200 else []
        for name in of.filters:
            if name == "bodies" or meaning_of(of, name) is None:
                continue
            found = [drawn(of, name, row, host)[-1:] for row in rows[:1] + rows[-1:]]
            for value in dict.fromkeys(value for values in found for value in values):
                yield with_query(of.operation.path, {name: value, LIMIT: "1000"})
    # The control plane's own lists, because a read of the service is an entry of the journal.
    for path, list_name in (("/v0/charges", CHARGES), ("/v0/static-charges", STATICS)):
        rows = [*host.rows(list_name)]
        for row in rows[:1] + rows[-1:]:
            given = {**row, "createdAfter": row["createdAt"], "createdBefore": row["createdAt"]}
            for name in _FILTERS:
                if given.get(name) is not None:
                    yield with_query(path, {name: given[name], "limit": "1000"})
        for row in rows if list_name == STATICS else ():
            yield f"{path}/{row['id']}/charges?limit=1000"
            yield f"{path}/{row['id']}/charges?status=pending"
            if how in ENDS:  # a copy has URLs of its own
                yield f"/lnurlp/{row['id']}"


def _targets(host: Host, one: ControlOperation) -> Iterator[str]:
    """The paths of a read operation: with the largest page, and for some rows of each list that has their ids."""
    query = f"?{LIMIT}={one.parameters[LIMIT]['schema']['maximum']}" if LIMIT in one.parameters else ""
    if "bodies" in one.parameters:
        query += "&bodies=true"
    if not one.has_path_parameters:
        yield f"{one.path}{query}"
        return
    for of in control_lists():
        below = single_of(of)
        if below is None or not one.path.startswith(below.path) or of.name in _NOT_KEPT:
            continue
        if host.ask("GET", of.operation.path).status != 200:
            continue
        rows = host.full(of)
        for row in rows[:: max(1, len(rows) // _MOST_ROWS)]:
            name = quote(str(row.get("id", row.get("name"))), safe="")
            yield re.sub(r"\{\w+\}", lambda _, name=name: name, one.path) + query  # type: ignore[misc]


def _masked(value: Any, how: str, copied: bool) -> Any:
    """A value without the members that may differ."""
    if isinstance(value, Mapping):
        names = [name for name in value if name not in _MAY_DIFFER[how]]
        shown = {name: _masked(value[name], how, copied) for name in names}
        if how in ENDS and isinstance(shown.get("timeline"), list):
            # The journal, which has the order within an instant, begins anew with each start.
            shown["timeline"].sort(key=lambda event: (event["at"], json.dumps(event)))
        return shown
    if isinstance(value, list):
        return [_masked(one, how, copied) for one in value]
    if copied and isinstance(value, str):
        return _URL.sub("http://localhost", _LNURL.sub("lnurl", value))
    return value


def _first_difference(expected: Any, observed: Any) -> tuple[Any, Any]:
    """The first place in which two values differ."""
    if isinstance(expected, list) and isinstance(observed, list) and len(expected) == len(observed):
        pairs = zip(expected, observed, strict=True)
        return _first_difference(*next(pair for pair in pairs if pair[0] != pair[1]))
    if isinstance(expected, Mapping) and isinstance(observed, Mapping):
        names = [name for name in {**expected, **observed} if expected.get(name) != observed.get(name)]
        if len(names) == 1 and isinstance(expected.get(names[0]), list):
            return _first_difference(expected[names[0]], observed.get(names[0]))
        return difference(expected, observed)
    return json.dumps(expected)[:200], json.dumps(observed)[:200]
