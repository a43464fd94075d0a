"""Checks of what is pending at a restart: a server that was restarted before, at and after an instant continues as one
that was not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from leyden.harness.control.host import Host, violation
from leyden.harness.control.state_checks import COPIES, COPY, PROCESS, compare, compare_values, do, kept_state
from leyden.harness.model.dates import instant_of
from leyden.harness.model.rules import iso
from leyden.harness.steps import StepImpossible
from leyden.harness.targets.hosted import ENDS

STOPPED = "stopped"  # it is stopped while the instant passes, on a live clock
PENDING_WAYS = (*ENDS, STOPPED, PROCESS, *COPIES)
_CLOCK = "/sandbox/v1/clock"
_LONGEST_S = 60


def check_pending(make: Callable[[bool], Host], step: Mapping[str, Any]) -> None:
    """{"do": "control_pending", "how": one of `PENDING_WAYS`, "options"?, "steps", "probe"?, "then", "offset"?: ms}: do
    the steps at two servers. One is restarted a millisecond before the next due event, or `offset` after the steps, at
    it, and a millisecond after it, or is stopped meanwhile, or goes on in another process; or it is restored, or copied
    and the copy compared, at the same instants. The steps `probe` follow each of these. Everything is compared after
    the steps of `then`."""
    how = step["how"]
    reference, other = make(False), make(how not in COPIES)
    both = (reference, other)
    _all(both, step["steps"])
    due = _due(reference, step)
    probe, where = step.get("probe", ()), f"with {_WORDS[how]}"
    if how == STOPPED:
        for host in both:
            host.accepted("POST", f"{_CLOCK}/advance", {"to": iso(due - 1_000)})
            host.accepted("PATCH", _CLOCK, {"rate": 1})
        reference.server.pass_time(2_000)
        other.server.restart(ENDS[0], stopped_ms=2_000)
        for host in both:
            host.server.pass_time(0)
            host.accepted("PATCH", _CLOCK, {"rate": 0})
        _all(both, probe)
    else:
        for offset in (-1, 0, 1) if how != PROCESS else (-1,):
            for host in both:
                host.accepted("POST", f"{_CLOCK}/advance", {"to": iso(due + offset)})
            if how == PROCESS:
                continue
            if how in COPIES:
                other = COPY[how](other)
                both = (reference, other)
            else:
                other.server.restart(how)
                other.forget()
            _all(both, probe)
    if how == PROCESS:
        _in_another_process(reference, other, [*probe, *step["then"]], where)
        return
    # Once at the end: what happened since has its instants there.
    _all(both, step["then"])
    mask = how if how in COPIES else ENDS[0]
    compare_values(reference.answers, other.answers, mask, f"the answers {where}")
    compare(reference, other, mask, where, filtered=False)


_WORDS: Mapping[str, str] = {
    "close": "restarts before, at and after the instant",
    "kill": "kills before, at and after the instant",
    "torn": "kills within a write before, at and after the instant",
    "compact": "compactions and restarts before, at and after the instant",
    STOPPED: "the server stopped while the instant passed",
    "restore": "restores before, at and after the instant",
    "fork": "forks before, at and after the instant",
    "import": "exports and imports before, at and after the instant",
    PROCESS: "another process before the instant",
}


def _all(hosts: tuple[Host, Host], steps: Any) -> None:
    for one in steps:
        for host in hosts:
            do(host, one)


def _due(host: Host, step: Mapping[str, Any]) -> int:
    if "offset" in step:
        return _instant(host.read(_CLOCK)["now"]) + int(step["offset"])
    rows = host.read(f"{_CLOCK}/due?limit=1")["data"]
    if not rows:
        raise StepImpossible("nothing is pending")
    return _instant(rows[0]["at"])


def _instant(text: str) -> int:
    found = instant_of(text)
    assert found is not None, text
    return found


def _in_another_process(reference: Host, other: Host, steps: list[Any], where: str) -> None:
    """Do the steps at the reference, and at the data of the other one in a process whose hashes of texts differ."""
    folder = other.server.leave()
    given = {"folder": folder, "options": other.server.options, "answers": other.answers, "steps": steps,
             "now": other.server.real_ms}  # fmt: skip
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    ended = subprocess.run(
        [sys.executable, "-m", "leyden.harness.control.other_process"],
        input=json.dumps(given), capture_output=True, text=True, timeout=_LONGEST_S, check=False,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )  # fmt: skip
    if ended.returncode:
        raise violation(where, "the steps succeed", ended.stderr.strip().rpartition("\n")[2][-300:])
    found = json.loads(ended.stdout)
    for one in steps:
        do(reference, one)
    compare_values(reference.answers, found["answers"], ENDS[0], f"the answers {where}")
    for target, wanted in kept_state(reference, ENDS[0]).items():
        compare_values(wanted, found["state"].get(target), ENDS[0], f"GET {target} {where}")
