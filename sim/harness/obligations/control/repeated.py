"""Obligations of requests that are repeated with their Idempotency-Key after something else was done: what keeps the
state keeps the response, a reset removes it, and a fault of the response changes neither."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from leyden.harness.obligations.control.setups import PAUSED, advance, send
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
        for case, (steps, check) in _in_use(name, first).items():
            step = {"do": "control_repeated", "steps": [*steps], "refused": [first], "options": [*PAUSED],
                    "check": check}  # fmt: skip
            source = "sandbox.openapi.yaml#/components/schemas/ServiceFaultKind"
            yield Obligation(name, "repeated-in-use", case, source, (step,), setup="repeated-changed")


def _in_use(name: str, first: Step) -> Mapping[str, tuple[list[Step], str]]:
    """The service fault `key_in_use`, which only a repeated key meets: a key is repeated within 24 hours of its first
    request, by the same operation and project, if that request was processed."""
    fault = send("POST", "/sandbox/v1/service-faults", {"operation": name, "kind": "key_in_use"})
    twice = send("POST", "/sandbox/v1/service-faults", {"operation": name, "kind": "key_in_use", "count": 2})
    refused: Step = {**first, "status": 409}
    other = next(each for each in _BODIES if each != name)
    path, body = _BODIES[other]
    elsewhere = send("POST", path, body, headers=_KEY, **{"as": "elsewhere"})
    unkeyed: Any = {name: value for name, value in first.items() if name != "headers"} | {"as": "without"}
    invalid: Any = {**first, "body": {"amount": 1}, "status": 400}
    to_the_end = [advance("23h"), advance("59m"), advance("59s"), advance("999ms")]
    found: dict[str, tuple[list[Step], str]] = {
        "at its second request": ([first, fault, refused], "same"),
        "at two requests": ([first, twice, refused, refused], "same"),
        "in its day, at the last ms": ([first, *to_the_end, fault, refused], "same"),
        "without a key": ([first, fault, unkeyed], "refused"),
        "at its first request": ([fault], "new"),
        "at another operation": ([elsewhere, fault], "another"),
        "after a refused request": ([invalid, fault], "new"),
        "after a reset": ([first, _RESET, fault], "new"),
    }
    for late in ("0ms", "1ms", "1h", "24h"):
        steps = [first, *to_the_end, advance("1ms"), advance(late)]
        found[f"a day and {late} later"] = ([*steps, fault], "another")
        found[f"a day and {late} later, added before"] = ([first, fault, *steps[1:]], "another")
        found[f"a day and {late} later, then again"] = ([*steps, twice, first, refused], "refused")
    return found


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
