"""Checks of the numbers that the control plane keeps: after each step they are those of the rows of the lists, and a
wait for deliveries counts the rows that match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from leyden.harness.control.documents import control_operations
from leyden.harness.control.filters import CHARGES, Row
from leyden.harness.control.host import Host, violation
from leyden.harness.control.search_checks import COUNTS, check_counts
from leyden.harness.control.state_checks import COPY, do
from leyden.harness.steps import Step

NUMBER_WAYS = ("", "kill", "close", "compact", *COPY)
_WAIT = "/sandbox/v1/deliveries/wait"
_ANY = "any"
_EVENTS = ("charge.completed", "charge.expired", "charge.error")


def check_numbers(host: Host, step: Mapping[str, Any]) -> None:
    """{"do": "control_numbers", "options"?, "disk"?, "steps", "how"?: one of `NUMBER_WAYS`}: do the steps, and look at
    the numbers after each of them. With `how` the server is then restarted, or the sandbox is restored or copied, and
    they are looked at again."""
    how = step.get("how", "")
    _check(host)
    for one in step["steps"]:
        _do(host, one)
        _check(host)
    if how and how not in COPY:
        host.server.restart(how)
        host.forget()
        _check(host)
    if how in COPY:
        _check(COPY[how](host))


def _do(host: Host, one: Step) -> None:
    do(host, one)
    host.forget()


def _check(host: Host) -> None:
    # What was received for Charges that `--keep` has removed is in no list.
    check_counts(host, [name for name in COUNTS if name != "balance" or "--keep" not in host.server.options])
    rows = host.rows("listDeliveries")
    for filters, count in _waits(host, rows):
        body = {**filters, "count": count, "timeout": 0}
        matching = [row for row in rows if _matches(row, filters)]
        response = host.ask("POST", _WAIT, body)
        answer = response.json if response.status == 200 else {"status": response.status}
        observed = {name: answer.get(name) for name in ("reached", "count")}
        expected = {"reached": len(matching) >= count, "count": len(matching)}
        if observed != expected or ("note" in answer) is expected["reached"]:
            raise violation(f"POST {_WAIT} {body}", expected, answer)


def _waits(host: Host, rows: Any) -> Iterator[tuple[Mapping[str, str], int]]:
    """Filters and numbers: each status with as many rows as there are and one more, each event, and each status of the
    Charge with the newest delivery."""
    wait = next(one for one in control_operations() if one.path == _WAIT)
    statuses = wait.fields["status"]["enum"]
    known = {row["id"] for row in host.rows(CHARGES)}
    charges = [row["chargeId"] for row in rows[:1] if row["chargeId"] in known]
    for filters in ({"status": status} for status in statuses):
        count = sum(_matches(row, filters) for row in rows)
        yield from ((filters, number) for number in (count, count + 1) if number)
    for event in _EVENTS:
        yield {"status": _ANY, "event": event}, 1
    for status, one in product(statuses, charges):
        yield {"status": status, "chargeId": one}, 1


def _matches(row: Row, filters: Mapping[str, str]) -> bool:
    return all(wanted == _ANY or row[name] == wanted for name, wanted in filters.items())
