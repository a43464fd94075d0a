"""The harness finds the seeded defects, and finds no violation without them.

A deep run tests a dozen defects, selected by LEYDEN_DEFECTS_TURN (default 0), the default run three of them, and
LEYDEN_PROFILE=random all.
`python -m tests.seeded_defects --engines ...` prints the whole table.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from leyden.harness.conformance.conformance import run_conformance
from leyden.harness.engines.random_walk import random_walk
from leyden.harness.engines.state_machine import search
from leyden.harness.runs.cases import read_case, replay
from leyden.harness.targets.target import InProcess
from tests.seeded_defects.__main__ import main
from tests.seeded_defects.catalogue import DEFECTS, DEFECTS_BY_NAME
from tests.seeded_defects.defect import Defect, planted
from tests.seeded_defects.engines import LIMIT_S, SMALL, DefectSearch, search_defect, summary, table
from tests.support.deep import deep, deep_except, deep_or

TURN = int(os.environ.get("LEYDEN_DEFECTS_TURN", "0"))
EVERY = len(DEFECTS) // 12
DOZEN = DEFECTS[TURN % EVERY :: EVERY]
TESTED = {one.name: one for one in deep_or(bounded=DOZEN, full=DOZEN, random=DEFECTS)}
# Defects that the random walk finds within some hundred steps.
FOUND_EARLY = ("amount-as-float", "expires-late", "one-slot-too-many", "stale-slots", "balance-of-all-projects")
ONE = ("payment-not-notified",)


@pytest.mark.parametrize("defect", deep_except(TESTED, *(one.name for one in DOZEN[:3])))
def test_the_default_engines_find_a_defect_with_a_small_case(defect: Defect) -> None:
    found = search_defect(defect.name, "all", seed=1)
    assert found.found, f"missed in {LIMIT_S:g} s: {defect.describe_violation}"
    assert found.steps <= deep_or(bounded=SMALL, full=SMALL, random=2 * SMALL)


def test_the_turns_include_every_defect() -> None:
    turns = [DEFECTS[turn::EVERY] for turn in range(EVERY)]
    assert {one.name for turn in turns for one in turn} == set(DEFECTS_BY_NAME)
    assert max(map(len, turns)) <= 13


@pytest.mark.parametrize(
    "name", deep_except(deep_or(bounded=FOUND_EARLY, full=FOUND_EARLY, random=tuple(DEFECTS_BY_NAME)), *FOUND_EARLY[:2])
)
def test_the_random_walk_finds_a_defect_alone(name: str) -> None:
    assert search_defect(name, "random-walk", seed=1).finder == "random-walk"


@pytest.mark.parametrize("name", deep_or(bounded=ONE, full=ONE, random=tuple(DEFECTS_BY_NAME)))
def test_the_state_machine_finds_a_defect_alone(name: str) -> None:
    assert search_defect(name, "state-machine", seed=1).finder == "state-machine"


@deep("test_the_state_machine_finds_a_defect_alone")
def test_the_case_reproduces_a_defect_as_long_as_it_is_planted() -> None:
    found = search_defect("one-slot-too-many", "all", seed=1)
    case = read_case(found.case or {})
    with planted(DEFECTS_BY_NAME["one-slot-too-many"]):
        assert replay(case).same_violation
        assert replay(case).same_journal
    assert replay(case).result.violation is None


@pytest.mark.parametrize("seed", range(deep_or(bounded=1, full=1, random=50)))
def test_there_is_no_violation_without_a_defect(seed: int) -> None:
    target = InProcess()
    for one in range(1_000_000 * seed, 1_000_000 * seed + deep_or(bounded=6, full=12, random=200)):
        assert random_walk(one, target).violation is None, f"random-walk {one}"
    assert search(seed, deep_or(bounded=3, full=5, random=200)).violation is None


@deep("test_there_is_no_violation_without_a_defect")
@pytest.mark.parametrize("seed", range(2, deep_or(bounded=3, full=3, random=8)))
def test_the_conformance_run_finds_no_violation_with_another_seed(seed: int) -> None:
    assert [str(result.violation) for result in run_conformance(InProcess(), seed=seed) if result.violation] == []


def test_the_table_has_a_row_for_each_defect_and_engine_and_the_summary_names_the_missed_ones() -> None:
    case = {"leydenCase": 1}
    first, second = DEFECTS[0].name, DEFECTS[1].name
    some = [
        DefectSearch(first, "random-walk", 2, "random-walk", 0.5, 0.7, 3, case),
        DefectSearch(first, "random-walk", 1, "random-walk", 1.5, 1.7, 9, case),
        DefectSearch(second, "random-walk", 1, "random-walk", 0.2, 0.3, 1, case),
        DefectSearch(second, "random-walk", 2, "", 15.0, 15.0, 0, None),
        DefectSearch(second, "conformance", 1, "", 2.0, 2.0, 0, None),
    ]
    assert table(some)[1:] == [
        [first, DEFECTS[0].kind, "random-walk", "2/2", "1.00", "1.50", "3 to 9"],
        [second, DEFECTS[1].kind, "conformance", "0/1", "", "", ""],
        [second, DEFECTS[1].kind, "random-walk", "1/2", "0.20", "0.20", "1"],
    ]
    text = "\n".join(summary(some))
    assert "random-walk: 1 of 2 defects on every seed, 2 on some" in text
    assert "median 0.60 s, slowest 1.50 s" in text
    assert "2 of 3 cases (67%) have at most 8 steps" in text
    assert f"missed on some seeds: {second} (1)" in text
    assert f"never found: {second}" in text


def test_the_command_prints_the_table_and_writes_every_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "found.json"
    assert main(["amount-of-zero", "--engines", "conformance", "--seeds", "1,2", "--json", str(file)]) == 0
    assert "| amount-of-zero | input | conformance | 2/2 " in capsys.readouterr().out
    kept = json.loads(file.read_text())
    assert [one["case"]["steps"][-1]["body"]["amount"] for one in kept] == ["0", "0"]
    for wrong in (["--engines", "unknown"], ["--engines", "conformance", "--seeds", "one"]):
        with pytest.raises(SystemExit):
            main(wrong)
