"""The obligations are derived from the documents, and every one of them is asked without a violation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from leyden.__main__ import main
from leyden.harness.constants import ENGINES
from leyden.harness.engines.campaign import run_campaign
from leyden.harness.engines.results import CampaignConfig
from leyden.harness.model import http as http_model
from leyden.harness.model import ignored as ignored_model
from leyden.harness.model.dates import instant_of
from leyden.harness.obligations.derive import all_obligations, obligation_cases
from leyden.harness.obligations.obligation import Obligation, document_of, operations_of, resolved
from leyden.harness.obligations.values.fields import KEYWORDS, values_of
from leyden.harness.obligations.values.patterns import is_member, pattern_variants
from leyden.harness.reports.coverage import Coverage
from leyden.harness.runs.cases import Case, play, read_case
from leyden.harness.targets.target import InProcess
from tests.support.deep import deep, deep_or, sampled

CASES = obligation_cases()
PLAYED = CASES[:: deep_or(bounded=72, full=12, random=1)]
PARTS = 8


@pytest.mark.parametrize("part", sampled(range(PARTS), 3))
def test_every_obligation_of_a_case_is_asked_and_the_service_has_no_violation(part: int) -> None:
    target = InProcess()
    for case in PLAYED[part::PARTS]:
        wanted = {step["obligation"] for step in case.steps if "obligation" in step}
        result = play(case, target)
        assert result.violation is None, f"{case.overlays}: {result.violation}"
        assert wanted <= {item[1] for item in result.reached if item[0] == "obligation"}


def test_every_obligation_belongs_to_a_case() -> None:
    asked = {step["obligation"] for case in CASES for step in case.steps if "obligation" in step}
    assert asked == {one.id for one in all_obligations()}


def test_obligations_say_where_they_come_from() -> None:
    assert all(one.source and one.place and one.kind for one in all_obligations())


def test_every_operation_has_obligations_of_each_kind() -> None:
    kinds: dict[str, set[str]] = {}
    for one in all_obligations():
        kinds.setdefault(one.place.split()[0], set()).add(one.kind.partition(":")[0])
    for operation in operations_of():
        wanted = {"key", "accept", "content-type", "json", "unknown"}
        wanted |= {"id"} if any(each["in"] == "path" for each in operation.parameters) else set()
        wanted |= {"unknown-field"}
        wanted |= {"type", "absent", "null", "empty", "two-errors"} if operation.body is not None else set()
        wanted |= {"filter", "filter-pair", "between-pages"} if operation.name.startswith("list") else set()
        assert wanted <= kinds[operation.name], operation.name


def test_every_path_is_asked_with_every_method() -> None:
    places = {one.place for one in all_obligations()}
    for path in document_of()["paths"]:
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            assert f"{method} {path}" in places


def test_a_keyword_without_values_is_an_obligation_that_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(KEYWORDS, "maxLength")  # type: ignore[misc]
    all_obligations.cache_clear()
    try:
        found = [one for one in all_obligations() if one.kind == "keyword:maxLength"]
        assert "createCharge body.description keyword:maxLength" in [one.id for one in found]
        assert all(not one.steps for one in found)
        coverage = Coverage(obligations=tuple(one.id for one in found))
        assert coverage.untested() == [one.id for one in found]
    finally:
        monkeypatch.undo()
        all_obligations.cache_clear()


def test_what_is_asked_does_not_depend_on_the_tables_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [one.id for one in all_obligations()]
    all_obligations.cache_clear()
    monkeypatch.setattr(http_model, "OPERATIONS", {})
    monkeypatch.setattr(ignored_model, "FIELDS", {})
    try:
        assert [one.id for one in all_obligations()] == before
    finally:
        all_obligations.cache_clear()


def _schemas() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for operation in operations_of():
        if operation.body is not None:
            yield from ((f"{operation.name} {name}", schema) for name, schema in operation.body["properties"].items())


def test_each_length_is_asked_below_at_and_above_in_characters_and_bytes() -> None:
    for name, schema in _schemas():
        if "maxLength" in schema:
            lengths = {len(value) for _, value in values_of(schema) if isinstance(value, str)}
            bound = schema["maxLength"]
            assert {bound - 1, bound, bound + 1} <= lengths, name
            if "pattern" not in schema:
                sizes = {len(value.encode()) for _, value in values_of(schema) if isinstance(value, str)}
                assert {bound - 1, bound, bound + 1} <= sizes, name


@pytest.mark.parametrize("pattern", ["^[a-z]{2,4}$", "^(?:ab|c)?[0-9]{3}x*$", "^(?:[1-9][0-9]{3,7}|500000000)$"])
def test_the_texts_of_a_pattern_are_on_both_sides_of_each_bound(pattern: str) -> None:
    variants = pattern_variants(pattern)
    members = [text for _, text in variants if is_member(pattern, text)]
    others = [text for _, text in variants if not is_member(pattern, text)]
    assert members
    assert others
    kinds = {kind for kind, _ in variants}
    assert {"pattern:class", "pattern:non-member", "pattern:quantifier-max", "pattern:quantifier-max+1"} <= kinds


def test_the_texts_of_every_pattern_of_the_document_ask_both_sides() -> None:
    def patterns(node: Any) -> Iterator[str]:
        if isinstance(node, Mapping):
            if isinstance(node.get("pattern"), str):
                yield node["pattern"]
            for one in node.values():
                yield from patterns(one)
        elif isinstance(node, list):
            for one in node:
                yield from patterns(one)

    for pattern in dict.fromkeys(patterns(document_of())):
        texts = [text for _, text in pattern_variants(pattern)]
        assert any(is_member(pattern, text) for text in texts), pattern
        assert not all(is_member(pattern, text) for text in texts), pattern


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00.0019z", 2),
        ("1970-01-01t00:00:00.0010z", 1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T19:00:00-05:00", 0),
        ("2028-02-29T00:00:00Z", 1_835_395_200_000),
        ("2029-12-31T23:59:60Z", 1_893_456_000_000),
        ("2100-02-29T00:00:00Z", None),
        ("2030-01-01T00:00:60Z", None),
        ("2030-01-01 00:00:00Z", None),
        ("2030-01-01T00:00:00", None),
        ("2030-01-01T00:00:00Z\n", None),
    ],
)
def test_date_times_of_the_model(text: str, expected: int | None) -> None:
    assert instant_of(text) == expected


@deep("test_the_engine_is_one_of_the_campaign")
def test_the_order_of_the_obligations_is_that_of_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leyden.harness.engines.obligations.left_out_cases", lambda: ())

    def first(seed: int) -> str:
        config = CampaignConfig(engines=("obligations",), seed=seed, examples=1)
        report = run_campaign(config, lambda: 0)
        assert report.violations == []
        (item,) = {case for item, cases in report.coverage.reached.items() if item[0] == "obligation"
                   for case in cases.values()}  # fmt: skip
        return item

    one = first(1)
    assert first(1) == one
    assert any(first(seed) != one for seed in (2, 3, 0))


def test_the_engine_is_one_of_the_campaign() -> None:
    assert "obligations" in ENGINES


def test_a_case_of_obligations_is_read_as_it_was_written() -> None:
    for kind in ("pages", "fill", "request"):
        case = next(one for one in CASES if any(step["do"] == kind for step in one.steps))
        assert read_case(replace(case, origin="").document()).steps == case.steps


def test_an_answer_with_an_additional_header_is_a_violation() -> None:
    class WithHeader(InProcess):
        def send(self, *args: Any) -> Any:
            response = super().send(*args)
            return replace(response, headers={**response.headers, "x-powered-by": "x"})

    step: Any = {"do": "request", "target": "/v0/wallet", "headers": [["apikey", "{key}"]]}
    result = play(Case((step,)), WithHeader())
    assert result.violation is not None
    assert re.search("headers.*x-powered-by", str(result.violation))


def test_a_refusal_that_names_another_place_is_a_violation() -> None:
    class Elsewhere(InProcess):
        def send(self, *args: Any) -> Any:
            response = super().send(*args)
            body = response.body.replace(b'"/amount"', b'"/description"')
            return replace(response, body=body, headers={**response.headers, "content-length": str(len(body))})

    create: Any = {"do": "create_charge", "as": "c1", "body": {"amount": "1", "description": "tea"}}
    result = play(Case((create,)), Elsewhere())
    assert result.violation is not None
    assert "pointers" in str(result.violation)


def test_the_same_obligation_with_another_meaning_is_refused() -> None:
    one = Obligation("a", "b", "c", "d", ())
    assert one.id == "a b c"
    assert resolved({"x": {"y": 1}}, {"$ref": "#/x", "z": 2}) == {"y": 1, "z": 2}


_DERIVED = "from leyden.harness.obligations.derive import all_obligations; print(all_obligations())"


def test_every_process_derives_the_same_obligations() -> None:
    """A seed of `leyden fuzz` makes the same requests everywhere, whatever the hashes of texts are."""

    def derived(hash_seed: str) -> str:
        variables = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(
            [sys.executable, "-c", _DERIVED], env=variables, capture_output=True, text=True, check=True
        ).stdout

    assert derived("0") == derived("1")


def test_many_obligations_that_were_not_tested_are_counted_by_operation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--engines", "obligations", "--examples", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    counts = [line.split()[2] for line in lines if line.startswith("  not tested: ")]
    assert sum(int(count.replace(",", "")) for count in counts) == len(all_obligations())
    assert "  a report names each: --report FILE" in lines
    assert len(lines) < 400
