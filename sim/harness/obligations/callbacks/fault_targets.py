"""Obligations of a fault for one resource: it is refused when nothing that it would apply to can be sent any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from leyden.harness.obligations.obligation import Obligation
from leyden.harness.steps import Step

_SOURCE = "sandbox.openapi.yaml#/components/schemas/FaultCreate/properties/chargeId"
_EVENTS = ("charge.completed", "charge.expired", "charge.error")
_WEEK_MS = 7 * 86_400_000


def _states(number: int) -> Mapping[str, tuple[Step, ...]]:
    """The state of the Charge, with the steps that lead to it. Several obligations are played in one run, so each
    has a Charge and inboxes of its own."""
    label = f"t{number}"

    def charge(inbox: str | None) -> Step:
        fields = {} if inbox is None else {"callbackUrl": f"http://{inbox}{number}.inbox.localhost/"}
        return {"do": "create_charge", "as": label, "body": {"amount": "1000", "description": "x", **fields}}

    def after(by_ms: int) -> Step:
        return {"do": "advance", "by": by_ms}

    paid: Step = {"do": "pay", "as": f"p{number}", "charge": label}
    failed: Step = {"do": "fail", "charge": label}
    return {
        "without a callback": (charge(None),),
        "pending": (charge("good"),),
        "paid, delivered": (charge("good"), paid, after(1_000)),
        "failed, delivered": (charge("good"), failed, after(1_000)),
        "expired, attempted": (charge("bad"), after(600_000)),
        "paid, attempted twice": (charge("bad"), paid, after(20_000)),
        "failed, exhausted": (charge("bad"), failed, after(_WEEK_MS)),
    }


def fault_target_obligations() -> Iterator[Obligation]:
    """A fault for a Charge in each of its states, with each event and none, for each of the first attempts and all."""
    for number, (case, event) in enumerate(product(_states(0), (None, *_EVENTS))):
        faults: list[Step] = []
        for attempt in (None, 1, 2, 3, 4):
            fault: Step = {"do": "fault", "kind": "drop", "charge": f"t{number}"}
            if event is not None:
                fault["event"] = event
            if attempt is not None:
                fault["attempt"] = attempt
            faults.append(fault)
        bad: Step = {"do": "receiver", "host": f"bad{number}.inbox", "always": 500}
        yield Obligation(
            "fault drop", "fault-target", f"{case}, {event or 'any event'}", _SOURCE,
            (bad, *_states(number)[case], *faults, {"do": "advance", "by": _WEEK_MS}), setup="empty",
        )  # fmt: skip
