"""Obligations of a fault for one Charge: it is refused when nothing can be sent about the Charge any more."""

from __future__ import annotations

from typing import Any

import pytest

from leyden.harness.executors import world as executors
from leyden.harness.model import faults as model
from leyden.harness.obligations.derive import all_obligations, obligation_cases
from leyden.harness.runs.cases import play
from tests.support.obligations import violation_of


def test_faults_for_a_charge_are_possible_as_the_model_says() -> None:
    targets = [one for one in all_obligations() if one.kind == "fault-target"]
    assert len(targets) == 28
    for case in obligation_cases(targets):
        found = play(case)
        assert (found.violation, found.skipped) == (None, 0), case.name


@pytest.mark.parametrize(
    ("attempt", "event", "case"),
    [
        (3, "charge.completed", "paid, attempted twice, charge.completed"),
        (2, None, "failed, delivered, any event"),
        (None, "charge.expired", "paid, delivered, charge.expired"),
    ],
)
def test_each_wrong_answer_is_noticed(
    monkeypatch: pytest.MonkeyPatch, attempt: int | None, event: str | None, case: str
) -> None:
    def wrong(target: Any, of_event: str | None, number: int | None = None) -> bool:
        found = model.is_possible(target, of_event, number)
        return not found if (of_event, number) == (event, attempt) else found

    monkeypatch.setattr(executors, "is_possible", wrong)
    assert violation_of("fault-target", case, "fault drop") is not None
