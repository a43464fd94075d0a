"""Obligations of payments and payers: each class finds a defect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from leyden.harness.obligations.control.payers import payer_obligations, payment_obligations
from leyden.harness.obligations.derive import obligation_cases
from leyden.harness.runs.cases import play
from leyden.lightning.payer import automatic_payments, payment_scripts
from leyden.lightning.payer.automatic_payments import AutomaticPayments
from tests.support.deep import deep_or
from tests.support.obligations import violation_of

FOUND = [*payment_obligations(), *payer_obligations()]


def test_payments_and_payers_are_as_the_document_says() -> None:
    for case in obligation_cases(FOUND[:: deep_or(bounded=23, full=1)]):
        found = play(case)
        assert (found.violation, found.skipped) == (None, 0), case.name


def test_every_outcome_and_every_condition_is_tested() -> None:
    kinds = {one.kind for one in FOUND}
    for outcome in payment_scripts.OUTCOMES:
        assert {f"outcome:{outcome}", f"outcome-of:{outcome}", f"payer:{outcome}"} <= kinds
    places = {one.place for one in FOUND}
    for name in ("amount", "description", "internalId", "staticChargeId", "outcome", "failure", "count", "share"):
        assert f"addPayer body.{name}" in places


def _later(original: Any) -> Any:
    return lambda row, *rest: original(row, *rest) + 1


def _any_case(original: Any) -> Any:
    return lambda row, charge: original(row, {**charge, "description": charge["description"].lower()})


def _all_of_share(original: Any) -> Any:
    return lambda self, rule: original(self, {**rule, "share": 1})


@pytest.mark.parametrize(
    ("owner", "name", "spoilt", "kind", "case"),
    [
        (automatic_payments, "_SECOND_PAYMENT_MS", lambda _: 2_000, "payer:twice", "at once"),
        (automatic_payments, "due_at", _later, "payer:settle", "beforeExpiry 30"),
        (automatic_payments, "due_at", _later, "payer:fail", "afterExpiry 1"),
        (automatic_payments, "matches", _any_case, "payer-pattern", "tea"),
        (automatic_payments, "matches", lambda _: lambda row, charge: True, "payer-count", "2"),
        (AutomaticPayments, "_takes", _all_of_share, "payer-share", "0.25"),
        (AutomaticPayments, "document_rows", lambda _: property(lambda self: self._fixed[:0]),
         "document-payer", "206000"),
        (payment_scripts, "AMOUNTS", lambda _: ("overpay", "underpay", "overpay_double"),
         "outcome-of:underpay", "1001"),
    ],
)  # fmt: skip
def test_a_defect_is_found(
    owner: Any, name: str, spoilt: Callable[[Any], Any], kind: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, spoilt(getattr(owner, name)))
    assert violation_of(kind, case) is not None
