"""Obligations of two fault rules at a time: the oldest that applies to an attempt decides, and one that does not apply
yet lets the next one apply."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from leyden.harness.control.documents import resolved
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.obligations.setups import BY_SECOND
from leyden.harness.steps import Step
from leyden.world.config import packaged_contract

_SOURCE = "sandbox.openapi.yaml#/components/schemas/FaultCreate"
_URL = "http://r1.inbox.localhost/hook"
_WEEK_MS = 7 * 86_400_000
_NO_DELIVERY = "rate_limit"  # the kind that refuses requests
_ROTATED = "old_secret"  # the kind that applies only after a rotation
_GATHERING = "burst"


def fault_pair_obligations() -> Iterator[Obligation]:
    """Every kind before every other kind and before itself; and `old_secret` at messages of a project without one."""
    document = packaged_contract("sandbox").document
    rule = resolved(document, document["components"]["schemas"]["FaultCreate"])
    kinds = [kind for kind in rule["properties"]["kind"]["enum"] if kind != _NO_DELIVERY]
    for first, second in product(kinds, repeat=2):
        yield _obligation(first, second, f"then {second}")
        if first == _ROTATED:
            yield _obligation(first, second, f"then {second}, of a project without a rotation", is_second=True)


def _obligation(first: str, second: str, case: str, is_second: bool = False) -> Obligation:
    steps = tuple(_steps(first, second, is_second))
    return Obligation(f"fault {first}", "fault-pair", case, _SOURCE, steps, setup="pair-changed")


def _steps(first: str, second: str, is_second: bool) -> Iterator[Step]:
    """Four messages: two within a second, which can be those of the second project, and two after a burst of these."""
    charge = {"amount": "1000", "description": "x", "callbackUrl": _URL}
    if _ROTATED in (first, second):
        yield {"do": "rotate"}
    yield {"do": "receiver", "host": "r1.inbox", "answers": [200, 500, 200]}
    for number in range(4):
        created: Step = {"do": "create_charge", "as": f"c{number}", "body": charge}
        yield {**created, "by": BY_SECOND} if is_second and number < 2 else created
    yield _rule(first, 2)
    yield _rule(second, 3)
    yield {"do": "pay", "as": "p0", "charge": "c0"}
    yield {"do": "advance", "by": 1_000}
    yield {"do": "pay", "as": "p1", "charge": "c1"}
    yield {"do": "advance", "by": 62_000}
    yield {"do": "fail", "charge": "c2"}
    yield {"do": "advance", "by": 1_000}
    yield {"do": "fail", "charge": "c3"}
    for by in (16_000, 400_000, _WEEK_MS):
        yield {"do": "advance", "by": by}


def _rule(kind: str, count: int) -> Step:
    # A burst that has released two of three messages does not hold the next one alone.
    return {"do": "fault", "kind": kind, "count": 3 if kind == _GATHERING else count}
