"""Obligations of the optional parts of requests to the control plane: each field of each body, the members that a list
has on request, names and numbers of snapshots, seeds of forks, and comparisons."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from leyden.harness.control.documents import ControlOperation, control_lists, control_operations
from leyden.harness.control.field_checks import field_values, is_allowed
from leyden.harness.obligations.control.lists import DIRECT
from leyden.harness.obligations.control.setups import charge, host, pay, send, static
from leyden.harness.obligations.obligation import Obligation, shown
from leyden.harness.steps import Step

SETUP = "control-fields"
_SOURCE = "sandbox.openapi.yaml#/components/schemas"
# Without allowed values, with the reasons.
_REFUSED_ONLY: Mapping[str, str] = {
    "waitForDeliveries": "it waits in real time",
    "checkReceiver": "it sends messages of its own",
    "rotateApiKey": "the key of the case would end",
    "createApiKey": "a key is issued once",
    "reset": "the time of the sandbox would be another one",
    "advanceClock": "the time of the sandbox would be another one",
    "setClock": "the clock would run",
    "drainNode": "there is no network",
    "rebalanceNode": "there is no network",
    "openChannel": "there is no network",
    "addInterceptor": "there is no network",
}
# Fields without allowed values, because another field decides: what is paid.
_DEPENDS = frozenset({("createPayment", "request"), ("createPayment", "comment")})
_MOST_REFUSED = 24  # of each field


def option_obligations() -> Iterator[Obligation]:
    """Every optional part that a document gives a meaning."""
    for one in control_operations():
        yield from _fields(one)
    for of in control_lists():
        for name, parameter in of.filters.items():
            if parameter["schema"].get("type") == "boolean":
                step: Any = {"do": "control_list", "operation": of.name, "check": "members", "kind": name}
                yield Obligation(f"{of.name} query.{name}", "list-members", "", of.operation.source, (step,),
                                 setup=DIRECT)  # fmt: skip
    yield from _copies()
    yield from _replays()


def _fields(one: ControlOperation) -> Iterator[Obligation]:
    base = one.examples[0] if one.examples and isinstance(one.examples[0], Mapping) else {}
    for name, schema in one.fields.items():
        seen: dict[str, None] = {}
        refused = 0
        for value in field_values(schema):
            text = json.dumps(value)
            allowed = is_allowed(schema, value)
            if text in seen or (allowed and (one.name in _REFUSED_ONLY or (one.name, name) in _DEPENDS)):
                continue
            seen[text] = None
            refused += not allowed
            if not allowed and refused > _MOST_REFUSED:
                continue
            step: Any = {"do": "control_field", "operation": one.name, "kind": name, "body": {**base, name: value}}
            place = f"{one.name} body.{name}"
            kind = "control-field" if allowed else "control-field-refused"
            yield Obligation(place, kind, f"{shown(value)} of {len(text)}", one.source, (step,), setup=SETUP)


def _copies() -> Iterator[Obligation]:
    def asked(place: str, check: str, case: str, **more: Any) -> Obligation:
        started = host((static(2, "s0"), charge(1, "c"), pay("c", 1)))
        step: Any = {"do": "control_copies", "check": check, **more}
        return Obligation(place, "copies", f"{check}{case}", f"{_SOURCE}/Snapshot", (started, step),
                          setup="copies-changed")  # fmt: skip

    yield asked("createSnapshot", "names", "")
    yield asked("createSnapshot", "most", "")
    yield asked("diffSandbox", "diff", "")
    fork = next(one for one in control_operations() if one.name == "forkSandbox")
    schema = fork.fields["reseed"]
    for seed in (schema["minimum"], schema["minimum"] + 1, 2**32, schema["maximum"]):
        yield asked("forkSandbox", "reseed", f" {seed}", count=seed)
        yield asked("forkSandbox", "reseed", f" {seed}, of a snapshot", count=seed, how="snapshot")


def _replays() -> Iterator[Obligation]:
    """Ids of which one is unknown, at each place, or has an attempt in flight."""
    slow: Any = {"always": {"status": 200, "delay": 5}}
    steps: tuple[Step, ...] = (
        charge(3, "sent"), pay("sent", 3),
        send("PUT", "/sandbox/v1/inboxes/slow/script", slow),
        charge(1, "slow", callbackUrl="http://slow.localhost/"), pay("slow", 1),
    )  # fmt: skip
    for number in (1, 2, 3):
        for place in range(number + 1):
            for what in ("unknown", "in flight"):
                for how in ("", "delay", "at"):
                    step: Any = {"do": "control_unsent", "check": what, "count": number, "every": place + 1}
                    if how:
                        step["how"] = how
                    case = f"{what} at {place} of {number}{f', {how}' if how else ''}"
                    yield Obligation("replayDeliveries body.ids", "replay-unsent", case, f"{_SOURCE}/DeliveryReplays",
                                     (host(steps), step), setup="unsent-changed")  # fmt: skip
