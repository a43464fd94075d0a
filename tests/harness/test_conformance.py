"""The conformance run reaches every declared coverage item, and the service has no violation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from leyden.harness.conformance.conformance import conformance_cases, grouped_cases, run_conformance
from leyden.harness.model import callbacks
from leyden.harness.reports.coverage import Coverage, declared, out_of_reach
from leyden.harness.runs.cases import Case, play
from leyden.harness.targets.target import InProcess, Response
from leyden.server.docs.tables import replace_between_markers
from tests.support.deep import deep


@pytest.fixture(scope="module")
def coverage() -> Coverage:
    reached = Coverage()
    violations = []
    for result in run_conformance(InProcess()):
        reached.add("conformance", result.case.name, result.reached, done=result.done)
        if result.violation is not None:
            violations.append(f"{result.case.name}: {result.violation}")
    assert violations == []
    return reached


def test_every_declared_item_is_reached(coverage: Coverage) -> None:
    assert coverage.missing() == []
    unexpected = [item for item in declared() if item in coverage.reached and out_of_reach(item)]
    assert unexpected == [], "these can be reached: remove them from OUT_OF_REACH"


def test_the_coverage_in_the_readme_is_that_of_the_conformance_run(coverage: Coverage) -> None:
    page = (Path(__file__).parents[2] / "sim" / "harness" / "README.md").read_text()
    assert replace_between_markers(page, "coverage", coverage.summary()) == page, (
        "run `leyden conformance --report sim/harness/README.md`"
    )


def test_what_is_out_of_reach_is_declared_and_has_a_reason() -> None:
    items = declared()
    assert len(items) == len(set(items))
    assert any(out_of_reach(item) for item in items)


def test_each_item_names_the_first_case_that_reached_it(coverage: Coverage) -> None:
    item = ("row", "Charge", "pending", "payment_settled", "", "too_late")
    assert coverage.reached[item]["conformance"].startswith("conformance: ")
    assert "too_late" in coverage.text()
    page = coverage.html()
    assert page.count("<table>") == 6
    assert 'class="missing"' not in page
    document = json.loads(coverage.json())
    assert document["reached"] == document["declared"]
    assert {one["kind"] for one in document["items"]} == {item[0] for item in declared()}


def test_an_item_that_was_not_reached_is_shown_so() -> None:
    coverage = Coverage()
    coverage.add("random-walk", "random-walk-1", [("policy", "restart", "resumed")], done=3)
    assert coverage.counted()[0] == 1
    assert "not reached" in coverage.text()
    assert 'class="missing"' in coverage.html()
    assert ("policy", "replay", "sent again") in coverage.missing()


def test_the_coverage_of_two_engines_is_merged() -> None:
    one, other = Coverage(), Coverage()
    item = ("policy", "restart", "resumed")
    one.add("random-walk", "random-walk-1", [item])
    other.add("conformance", "conformance: restart", [item])
    one.merge(other)
    assert one.reached[item] == {"random-walk": "random-walk-1", "conformance": "conformance: restart"}
    assert list(one.runs) == ["random-walk", "conformance"]


def test_the_conformance_cases_are_the_same_every_time() -> None:
    assert [case.steps for case in conformance_cases()] == [case.steps for case in conformance_cases()]


@deep("test_every_declared_item_is_reached")
def test_a_list_of_1001_has_a_second_page_at_the_largest_limit() -> None:
    many = [
        {"do": "create_charge", "as": f"c{n}", "body": {"amount": "1000", "description": "tea"}} for n in range(1_001)
    ]
    reads = [{"do": "list", "of": "charges", "query": query} for query in ({}, {"limit": 1_000}, {"limit": 999})]
    result = play(Case((*many, *reads)))
    assert result.violation is None, str(result.violation)
    assert result.done == len(many) + len(reads)


@pytest.mark.parametrize("url", ["http://10.0.0.1/hook", "http://r3.inbox", "https://shop.example/paid"])
def test_a_callback_to_an_address_outside_is_blocked(url: str) -> None:
    body = {"amount": "1000", "description": "tea", "callbackUrl": url}
    result = play(Case(({"do": "create_charge", "as": "c1", "body": body}, {"do": "fail", "charge": "c1"})))
    assert result.violation is None, str(result.violation)
    assert ("delivery", "charge.error", "blocked") in result.reached


@pytest.mark.parametrize("retry", range(1, 10))
def test_each_delay_of_the_schedule_is_compared_to_the_millisecond(retry: int, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = tuple(delay + (number == retry) for number, delay in enumerate(callbacks.BACKOFF_MS))
    case = next(case for case in grouped_cases("callbacks") if "doubles each delay" in case.name)
    assert play(case).violation is None
    monkeypatch.setattr(callbacks, "BACKOFF_MS", schedule)
    assert f"attempt {retry + 1}" in str(play(case).violation)


def test_bounds_that_are_equal_are_no_error_beside_too_few_slots() -> None:
    class NamesBounds(InProcess):
        def send(self, method: str, target: str, headers: Any, body: bytes) -> Response:
            response = super().send(method, target, headers, body)
            sent = json.loads(body) if method == "PATCH" else {}
            if response.status != 409 or sent.get("minAmount", 0) != sent.get("maxAmount", 1):
                return response
            problem = response.json
            problem["errors"].append({"pointer": "/minAmount", "detail": "crossed"})
            changed = orjson.dumps(problem)
            return replace(response, body=changed, headers={**response.headers, "content-length": str(len(changed))})

    results = [play(case, NamesBounds()) for case in grouped_cases("static charges")]
    assert ["pointers" in str(one.violation) for one in results if one.violation is not None] == [True]
