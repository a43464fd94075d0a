"""The conformance run leaves some of the conformance cases to the obligations, and nobody else does."""

from __future__ import annotations

from itertools import islice

import pytest

from leyden.__main__ import main
from leyden.harness.conformance.conformance import (
    GROUPS,
    conformance_cases,
    left_out_cases,
    run_cases,
    run_conformance,
    scenarios_of,
)
from leyden.harness.conformance.selection import LEAST_MS, LEFT_OUT, LEFT_OUT_GROUPS
from leyden.harness.engines import campaign, obligations
from leyden.harness.engines.results import CampaignConfig
from leyden.harness.model.rules import OVERLAYS
from leyden.harness.obligations.derive import all_obligations
from leyden.harness.runs.cases import Case, CaseResult
from leyden.harness.targets.target import InProcess
from tests.support.deep import deep_or


def test_the_conformance_run_and_what_it_leaves_out_are_all_conformance_cases() -> None:
    run, left_out = [*run_cases()], [*left_out_cases()]
    names = [case.name for case in (*run, *left_out)]
    assert sorted(names) == sorted(case.name for case in conformance_cases())
    assert len(set(names)) == len(names)
    for overlay in OVERLAYS:
        assert [*run_cases(overlay)] == [*conformance_cases(overlay)]


def test_each_case_that_is_left_out_exists_and_is_dear() -> None:
    assert set(LEFT_OUT_GROUPS) <= set(GROUPS)
    for group, cases in LEFT_OUT.items():
        assert set(cases) <= set(scenarios_of(group))
        assert min(cases.values()) >= LEAST_MS


def test_the_obligations_begin_with_what_the_conformance_run_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obligations, "play", lambda case, target: CaseResult(case))
    some = all_obligations()[:: deep_or(bounded=20, full=1)]
    monkeypatch.setattr(obligations, "all_obligations", lambda: some)
    left_out = [case.name for case in left_out_cases()]
    asked = obligations.run_obligations(CampaignConfig(), InProcess(), None)
    assert [result.case.name for result in islice(asked, len(left_out))] == left_out
    assert next(asked).case.name.startswith("obligations: ")
    assert not any(
        result.case.name.startswith("conformance: ")
        for result in obligations.run_obligations(CampaignConfig(examples=50), InProcess(), ("strict",))
    )


def test_a_target_without_control_is_asked_what_the_conformance_run_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Uncontrolled(InProcess):
        controlled = False
        restarts = False

    monkeypatch.setattr(obligations, "play", lambda case, target: CaseResult(case))
    results = [*obligations.run_obligations(CampaignConfig(), Uncontrolled(), ())]
    assert [one.case.name for one in results[:-1]] == [case.name for case in left_out_cases() if not case.disk]
    assert results[-1].unchecked == {obligations.UNCHECKED: None}


def test_only_the_deep_conformance_run_asks_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def noted(config: CampaignConfig, *_: object) -> campaign.CampaignReport:
        asked.extend(config.engines)
        return campaign.CampaignReport()

    monkeypatch.setattr("leyden.harness.command.available_cores", lambda: 1)
    monkeypatch.setattr("leyden.harness.command.run_campaign", noted)
    main(["conformance"])
    assert asked == ["conformance"]
    main(["conformance", "--deep"])
    assert asked[1:] == ["conformance", "obligations"]


def test_the_conformance_run_plays_its_cases_in_their_order() -> None:
    def names(cases: object) -> list[str]:
        return [case.name for case in cases]  # type: ignore[attr-defined]

    played: list[Case] = [result.case for result in run_conformance(InProcess(), ("payable-at-expiry",))]
    assert names(played) == names(run_cases("payable-at-expiry"))
