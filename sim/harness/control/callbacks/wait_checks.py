"""Checks of waits for deliveries: they count the deliveries for which each condition holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.harness.control.host import Host, list_named, violation
from leyden.harness.steps import StepImpossible

_PATH = "/sandbox/v1/deliveries/wait"
ANY = "any"


def check_wait(host: Host, step: Mapping[str, Any]) -> None:
    """{"do": "control_wait", "status": "any", "event"?, "is_of_charge"?: true}: wait for as many deliveries with this
    status and event as there are, and for one more; those of any Charge, or of the Charge of the oldest of them, or
    else of the oldest of all."""
    rows = host.full(list_named("listDeliveries"))
    wanted = {name: step[name] for name in ("status", "event") if name in step}
    found = [
        row for row in rows if wanted["status"] in (ANY, row["status"]) and step.get("event") in (None, row["event"])
    ]
    if step.get("is_of_charge"):
        if not rows:
            raise StepImpossible("there is no delivery")
        wanted["chargeId"] = (found or rows)[-1]["chargeId"]
        found = [row for row in found if row["chargeId"] == wanted["chargeId"]]
    for count in (len(found), len(found) + 1):
        if not count:
            continue
        answer = host.ask("POST", _PATH, {**wanted, "count": count, "timeout": 0})
        observed = (answer.status, answer.json.get("reached"), answer.json.get("count"))
        expected = (200, count == len(found), len(found))
        if observed != expected:
            raise violation(f"POST {_PATH} {wanted} for {count}", expected, observed)
