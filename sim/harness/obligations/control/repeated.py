"""Obligations of requests that are repeated with their Idempotency-Key after something else was done: what keeps the
state keeps the response, a reset removes it, and a fault of the response changes neither."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from leyden.harness.obligations.control.setups import PAUSED, send
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.steps import Step

_SOURCE = "#/components/parameters/IdempotencyKey"
_KEY = [["Idempotency-Key", "repeated"]]
_BODIES: Mapping[str, tuple[str, Any]] = {
    "createCharge": ("/v0/charges", {"amount": "3000", "description": "once", "expiresIn": 3_600}),
    "createStaticCharge": ("/v0/static-charges", {"minAmount": "1000", "maxAmount": "2000", "description": "once"}),
}
_SNAPSHOT = send("POST", "/sandbox/v1/snapshots", {}, **{"as": "snap"})
_RESTORE = send("POST", "/sandbox/v1/restore", {"snapshot": "{snap.0.id}"})
_RESET = send("POST", "/sandbox/v1/reset", {})


def repeated_obligations() -> Iterator[Obligation]:
    """Each request with a key, and each thing between the two requests."""
    for name, (path, body) in _BODIES.items():
        first = send("POST", path, body, headers=_KEY, **{"as": "first"})
        for case, (before, between, is_same) in _between(name, first).items():
            step: Any = {"do": "control_repeated", "steps": [*before, first, *between],
                         "refused": [first], "options": [*PAUSED], "check": "same" if is_same else "new"}  # fmt: skip
            if case in {"fork", "import"}:
                step["how"] = case
            yield Obligation(name, "repeated-after", case, _SOURCE, (step,), setup="repeated-changed")


def _between(name: str, first: Step) -> Mapping[str, tuple[list[Step], list[Step], bool]]:
    def faulty(**fields: Any) -> list[Step]:
        return [send("POST", "/sandbox/v1/service-faults", {"operation": name, **fields})]

    lost: Step = {**first, "status": 0}
    again = [_SNAPSHOT, first, _RESTORE]
    found: dict[str, tuple[list[Step], list[Step], bool]] = {
        "nothing": ([], [], True),
        "fork": ([], [], True),
        "import": ([], [], True),
        "restored": ([], [_SNAPSHOT, _RESTORE], True),
        "restored to before it": ([], again, True),
        "reset": ([], [_RESET], False),
        "reset with its seed": ([], [send("POST", "/sandbox/v1/reset", {"seed": 7})], False),
        "reset twice": ([], [_RESET, _RESET], False),
        "secret rotated": ([], [send("POST", "/sandbox/v1/webhook-secret/rotate")], True),
        "a key rotated": ([], [send("POST", "/sandbox/v1/api-keys", {})], True),
        "the answer is lost": ([], [*faulty(kind="connection_reset"), lost], True),
    }
    for status in (429, 500, 503):
        error: Step = {**first, "status": status}
        for after in (True, False):
            steps = [*faulty(kind="error", status=status, afterCommit=after), error]
            found[f"{status}, {'after' if after else 'before'} the commit"] = ([], steps, True)
            found[f"{status} at first, {'after' if after else 'before'} the commit"] = (steps, [], True)
    for kind in ("wrong_content_type", "past_date"):
        found[f"{kind} at first"] = (faulty(kind=kind), [], True)
    return found
