"""The violations that obligations of the harness show."""

from __future__ import annotations

from leyden.harness.checks.violations import ContractViolation
from leyden.harness.obligations.derive import all_obligations, obligation_cases
from leyden.harness.runs.cases import play


def violation_of(kind: str, case: str = "", place: str = "") -> ContractViolation | None:
    """The first violation of the cases with obligations of this kind, with these texts in their case and place."""
    chosen = [one for one in all_obligations() if one.kind == kind and case in one.case and place in one.place]
    assert chosen
    found = (play(one).violation for one in obligation_cases(chosen))
    return next((one for one in found if one is not None), None)
