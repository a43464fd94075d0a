"""What shrinking tries is a case: a smaller step has every member that its kind needs."""

from __future__ import annotations

from dataclasses import replace

from leyden.harness.engines.shrink import simpler_steps
from leyden.harness.obligations.control.setups import host
from leyden.harness.obligations.derive import all_obligations, obligation_cases
from leyden.harness.runs.case_schema import CASE_VALIDATOR, STEP_VALIDATOR
from leyden.harness.runs.cases import Case, play
from leyden.harness.steps import Step
from leyden.harness.targets.target import InProcess
from tests.support.deep import deep_or


def test_every_smaller_step_is_a_step_of_a_case() -> None:
    first = {one.kind: one for one in all_obligations()}
    kinds = set()
    for case in obligation_cases(list(first.values())):
        for step in case.steps:
            kinds.add(step["do"])
            for smaller in [*simpler_steps(step)][:: deep_or(bounded=4, full=1)]:
                document = replace(case, steps=(smaller,)).document()
                assert smaller != step
                assert CASE_VALIDATOR.is_valid(document), (step, smaller)
    assert {"control_list", "control_refused", "pages", "request", "store"} <= kinds


def test_a_smaller_step_of_a_list_can_be_played() -> None:
    steps: dict[str, Step] = {}
    for case in obligation_cases([one for one in all_obligations() if one.place.startswith("listSnapshots")]):
        steps |= {step["check"]: step for step in case.steps if step["do"] == "control_list"}
    assert steps.keys() == {"between", "changed", "filter", "order", "pages", "refused"}
    for step in steps.values():
        for smaller in simpler_steps(step):
            assert play(Case((host(()), smaller)), InProcess()).violation is None, smaller
        incomplete = {name: value for name, value in step.items() if name in {"do", "operation", "check"}}
        assert STEP_VALIDATOR.is_valid(incomplete) is (step["check"] in {"pages", "order"})
