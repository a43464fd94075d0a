"""The tour: past every row, refusal, outcome and bound; every promise is kept, and no declared cell is left."""

from __future__ import annotations

import json

import pytest

from leyden.harness.conformance.conformance import run_conformance, conformance_cases
from leyden.harness.reports.coverage import Coverage, declared, out_of_reach
from leyden.harness.targets.target import InProcess
from leyden.harness.runs.cases import Case, play


@pytest.fixture(scope="module")
def toured() -> Coverage:
    coverage = Coverage()
    violations = []
    for result in run_conformance(InProcess()):
        coverage.add("tour", result.case.name, result.reached, done=result.done)
        if result.violation is not None:
            violations.append(f"{result.case.name}: {result.violation}")
    assert violations == []
    return coverage


def test_every_cell_that_the_specification_declares_is_reached(toured: Coverage) -> None:
    assert toured.missing() == []
    assert toured.surprising() == [], "these were thought to be out of reach: take them off that list"


def test_what_is_out_of_reach_is_declared_and_has_a_reason() -> None:
    items = declared()
    assert len(items) == len(set(items))
    assert any(out_of_reach(item) for item in items)


def test_each_cell_names_the_case_that_reached_it_first(toured: Coverage) -> None:
    item = ("row", "Charge", "pending", "payment_settled", "", "too_late")
    assert toured.reached[item]["tour"].startswith("tour: ")
    assert "too_late" in toured.text()
    page = toured.html()
    assert page.count("<table>") == 6
    assert 'class="never"' not in page
    document = json.loads(toured.json())
    assert document["reached"] == document["declared"]
    assert {one["kind"] for one in document["cells"]} == {item[0] for item in declared()}


def test_a_cell_that_nothing_reached_says_never() -> None:
    coverage = Coverage()
    coverage.add("walk", "walk-1", [("policy", "restart", "went on")], done=3)
    assert coverage.counted()[0] == 1
    assert "never" in coverage.text()
    assert 'class="never"' in coverage.html()
    assert ("policy", "replay", "sent again") in coverage.missing()


def test_two_engines_stand_side_by_side() -> None:
    mine, theirs = Coverage(), Coverage()
    item = ("policy", "restart", "went on")
    mine.add("walk", "walk-1", [item])
    theirs.add("tour", "tour: restart", [item])
    mine.merge(theirs)
    assert mine.reached[item] == {"walk": "walk-1", "tour": "tour: restart"}
    assert mine.engines == ["walk", "tour"]


def test_the_tour_is_the_same_every_time() -> None:
    assert [case.steps for case in conformance_cases()] == [case.steps for case in conformance_cases()]


def test_a_list_of_a_thousand_and_one_has_a_second_page_at_the_most_that_a_page_holds() -> None:
    many = [
        {"do": "create_charge", "as": f"c{n}", "body": {"amount": "1000", "description": "tea"}} for n in range(1_001)
    ]
    looks = [{"do": "list", "of": "charges", "query": query} for query in ({}, {"limit": 1_000}, {"limit": 999})]
    result = play(Case((*many, *looks)))
    assert result.violation is None, str(result.violation)
    assert result.done == len(many) + len(looks)
