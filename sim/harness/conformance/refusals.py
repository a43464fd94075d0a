"""Conformance scenarios of refusals: each pair of mistakes once, at one of the operations, and each field of a request
with an Idempotency-Key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from leyden.harness.conformance.scenario import Scenarios
from leyden.harness.obligations.control.refusals import control_refusal_obligations
from leyden.harness.obligations.control.setups import host
from leyden.harness.obligations.idempotent_fields import idempotent_field_obligations
from leyden.harness.obligations.labels import labelled
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.obligations.orders import order_obligations
from leyden.harness.obligations.setups import ROWS
from leyden.harness.obligations.values.fields import many_field_obligations
from leyden.harness.steps import Step

_COUNTS = ("9 ", "108 ", "1008 and a header")


def refusal_scenarios() -> Scenarios:
    """The pairs of mistakes, of which the first decides, with all headers of the answers."""
    orders = [*_one_of_each(order_obligations(), is_head=False), *_one_of_each(order_obligations(), is_head=True)]
    counts = [one for one in many_field_obligations() if one.case in _COUNTS and one.place.startswith(("cr", "get"))]
    control = _one_of_each(control_refusal_obligations(), is_head=False)
    return {
        "mistakes": [*ROWS, *_steps([*orders, *counts])],
        "fields with an Idempotency-Key": [*_steps(_changed_fields())],
        "control plane: mistakes": [host(()), *(step for one in control for step in one.steps)],
    }


def _changed_fields() -> Iterator[Obligation]:
    """Each field in turn at one of the two operations, by another value and by the ways to leave it out."""
    for number, one in enumerate(idempotent_field_obligations()):
        if number % 2 or "absent, then" in one.case:
            yield one


def _one_of_each(obligations: Iterable[Obligation], *, is_head: bool) -> list[Obligation]:
    """One obligation with each pair of mistakes, at another operation each time."""
    pairs: dict[str, list[Obligation]] = {}
    for one in obligations:
        if one.place.startswith("HEAD ") is is_head:
            pairs.setdefault(f"{one.kind} {one.case}", []).append(one)
    return [members[number % len(members)] for number, members in enumerate(pairs.values())]


def _steps(obligations: Iterable[Obligation]) -> Iterator[Step]:
    for number, one in enumerate(obligations):
        yield from labelled(one.steps, number)
