"""Obligations of service faults: which requests a rule applies to, by its conditions, `nth`, `count` and end, alone and
beside others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, product
from typing import Any

from leyden.harness.obligations.control.setups import host, send
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.steps import Step

_SOURCE = "sandbox.openapi.yaml#/components/schemas/ServiceFaultCreate"
_RULES = "/sandbox/v1/service-faults"
_REQUESTS = 8
_STATUS, _OTHER = 503, 429
# Requests, and the operation of each.
_REQUESTED = (("GET", "/v0/wallet", "getWallet"), ("HEAD", "/v0/wallet", "getWallet"),
              ("GET", "/v0/charges", "listCharges"), ("GET", "/v0/static-charges", "listStaticCharges"),
              ("HEAD", "/v0/static-charges?limit=1", "listStaticCharges"))  # fmt: skip
_PATHS = ("/v0/wallet", "/*", "/v0/*", "/*wallet", "/v0/*charges", "/v0/charges", "/v0/charges*", "/*/w*l*t",
          "/**charges", "/*/wallet", "/v0/static*")  # fmt: skip


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
    yield from _conditions()
    for at_s in (0.999, 1, 1.001):
        until = {"until": "2030-01-01T00:00:01Z", "count": None}
        later = send("POST", "/sandbox/v1/clock/advance", {"by": at_s})
        yield _obligation(f"until 1 s, after {at_s} s", _rule(_STATUS, **until), *_asked([_STATUS]), later,
                          *_asked([_STATUS if at_s < 1 else 200]), hosted=True)  # fmt: skip


def _conditions() -> Iterator[Obligation]:
    """Each path, method and operation, and pairs of these, against requests of which some match."""
    methods, operations = ("GET", "HEAD"), ("getWallet", "listCharges", "listStaticCharges")
    given: list[dict[str, str]] = [{"path": path} for path in _PATHS]
    given += [{"method": method, "path": path} for method, path in product(methods, _PATHS[:5])]
    given += [{"method": method} for method in methods] + [{"operation": operation} for operation in operations]
    given += [{"method": method, "operation": operation} for method, operation in product(methods, operations)]
    for conditions in given:
        steps = []
        for method, target, operation in _REQUESTED:
            shown = {"method": method, "path": target.partition("?")[0], "operation": operation}
            is_met = all(_like(shown[name], wanted) for name, wanted in conditions.items())
            steps.append(send(method, target, status=_STATUS if is_met else 200))
        rule: Any = {"kind": "error", "status": _STATUS, "count": None, **conditions}
        case = " ".join(f"{name} {text}" for name, text in conditions.items())
        yield _obligation(case, send("POST", _RULES, rule), *steps)


def _like(text: str, pattern: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None


def _rule(status: int, **fields: Any) -> Step:
    return send("POST", _RULES, {"kind": "error", "operation": "getWallet", "status": status, **fields})


def _asked(statuses: list[int]) -> Iterator[Step]:
    """Requests with these statuses, one after another."""
    for status, group in groupby(statuses):
        yield send("GET", "/v0/wallet", count=len([*group]), status=status)


def _obligation(case: str, *steps: Step, hosted: bool = False) -> Obligation:
    whole = (*((host(()),) if hosted else ()), *steps, send("DELETE", _RULES))
    setup = "service-faults-changed" if hosted else "control-empty"
    return Obligation("service fault", "service-fault", case, _SOURCE, whole, setup=setup)
