"""Obligations of two fault rules at a time: which of them applies, in the service and in the model."""

from __future__ import annotations

from typing import Any

import pytest

from leyden.callbacks.faults.faults import Faults
from leyden.callbacks.faults.index import FaultIndex
from leyden.callbacks.faults.kinds import is_spent
from leyden.harness.model import faults as model
from leyden.harness.obligations.derive import all_obligations, obligation_cases
from leyden.harness.runs.cases import play
from tests.support.deep import deep_or
from tests.support.obligations import violation_of


def test_two_faults_apply_as_the_obligations_say() -> None:
    pairs = [one for one in all_obligations() if one.kind == "fault-pair"]
    assert {one.place for one in pairs} == {f"fault {kind}" for kind in model.FAULTS}
    assert len(pairs) == len(model.FAULTS) ** 2 + len(model.FAULTS)
    for case in obligation_cases(pairs[:: deep_or(bounded=36, full=1)]):
        found = play(case)
        assert (found.violation, found.skipped) == (None, 0), case.name


def test_the_newest_fault_applies(monkeypatch: pytest.MonkeyPatch) -> None:
    def reversed_of(self: FaultIndex, groups: tuple[str, ...], delivery: Any, number: int) -> Any:
        return reversed([*original(self, groups, delivery, number)])

    original = FaultIndex.of_attempt
    monkeypatch.setattr(FaultIndex, "of_attempt", reversed_of)
    assert violation_of("fault-pair", "then unknown_field", "fault drop") is not None
    assert violation_of("fault-pair", "then drop", "fault drop") is None


def test_a_burst_that_waits_and_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def holding(self: Faults, delivery: Any, number: int, due_ms: int) -> Any:
        first = next((one for one in self._faults if one["kind"] == "burst" and not is_spent(one)), None)
        if first is not None and not self._holds.holds(first, due_ms):
            return None
        return original(self, delivery, number, due_ms)

    original = Faults._holding
    monkeypatch.setattr(Faults, "_holding", holding)
    assert violation_of("fault-pair", "then delay", "fault burst") is not None
    assert violation_of("fault-pair", "then burst", "fault delay") is None


@pytest.mark.parametrize("kind", ["burst", "old_secret"])
def test_a_fault_that_does_not_apply_yet_ends_the_search_of_the_model(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def next_match(self: model.Faults, kinds: Any, delivery: Any, number: int, now_ms: int) -> Any:
        for fault in self.injected:
            if fault.kind == kind == "old_secret" and self.earlier_secret(delivery.charge.project) is None:
                return None
            if fault.kind == kind == "burst" and fault.left == 1 and not self._gathered(fault, now_ms):
                return None
        return original(self, kinds, delivery, number, now_ms)

    original = model.Faults.next_match
    monkeypatch.setattr(model.Faults, "next_match", next_match)
    assert violation_of("fault-pair", "then drop", f"fault {kind}") is not None
