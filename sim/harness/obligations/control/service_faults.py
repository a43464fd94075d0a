"""Obligations of service faults: which requests a rule with `nth` and `count` applies to, alone and beside others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, product
from typing import Any

from leyden.harness.obligations.control.setups import send
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.steps import Step

_SOURCE = "sandbox.openapi.yaml#/components/schemas/ServiceFaultCreate"
_RULES = "/sandbox/v1/service-faults"
_REQUESTS = 8
_STATUS, _OTHER = 503, 429


def service_fault_obligations() -> Iterator[Obligation]:
    """The answers to so many requests while there is a rule, or a second one that is added after some requests."""
    for nth, count in product((1, 2, 3, 7), (1, 2, 3, None)):
        first, last = nth, _REQUESTS if count is None else nth + count - 1
        statuses = [_STATUS if first <= number <= last else 200 for number in range(1, _REQUESTS + 1)]
        yield _obligation(f"nth {nth}, count {count}", _rule(_STATUS, nth=nth, count=count), *_asked(statuses))
        if count == 1:
            yield _obligation(f"nth {nth}, no count", _rule(_STATUS, nth=nth), *_asked(statuses))
        if nth == 1:
            yield _obligation(f"no nth, count {count}", _rule(_STATUS, count=count), *_asked(statuses))
    for first, second in product((1, 2), (1, 2, 3)):
        # The first rule is spent; the second one counts from when it was added.
        before = [_STATUS] * first + [200]
        after = [200] * (second - 1) + [_OTHER, _OTHER, 200]
        steps = [_rule(_STATUS, count=first), *_asked(before), _rule(_OTHER, nth=second, count=2), *_asked(after)]
        yield _obligation(f"count {first}, then nth {second}", *steps)
    steps = [_rule(_STATUS), _rule(_OTHER)]
    yield _obligation("two rules for one request", *steps, *_asked([_STATUS, _OTHER, 200]))


def _rule(status: int, **fields: Any) -> Step:
    return send("POST", _RULES, {"kind": "error", "operation": "getWallet", "status": status, **fields})


def _asked(statuses: list[int]) -> Iterator[Step]:
    """Requests with these statuses, one after another."""
    for status, group in groupby(statuses):
        yield send("GET", "/v0/wallet", count=len([*group]), status=status)


def _obligation(case: str, *steps: Step) -> Obligation:
    whole = (*steps, send("DELETE", _RULES))
    return Obligation("service fault", "service-fault", case, _SOURCE, whole, setup="control-empty")
