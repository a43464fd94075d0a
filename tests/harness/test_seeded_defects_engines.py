"""The harness is proved by the gallery: what is planted is found, and where nothing is planted nothing is.

A dozen defects in turn, chosen by LEYDEN_GALLERY_TURN (0 unless told otherwise; fourteen turns pass by all), and all of
them with LEYDEN_PROFILE=deep. `python -m tests.seeded_defects --engines ...` gives the whole table.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from leyden.harness.conformance.conformance import run_conformance
from leyden.harness.engines.random_walk import random_walk
from leyden.harness.engines.state_machine import search
from leyden.harness.targets.target import InProcess
from leyden.harness.runs.cases import read_case, replay
from tests.seeded_defects.__main__ import main
from tests.seeded_defects.catalogue import CATALOGUE, DEFECTS
from tests.seeded_defects.defect import Defect, planted
from tests.seeded_defects.engines import LIMIT_S, SMALL, Hunt, hunt, summary, table

DEEP = os.environ.get("LEYDEN_PROFILE") == "deep"
TURN = int(os.environ.get("LEYDEN_GALLERY_TURN", "0"))
EVERY = len(DEFECTS) // 12
DOZEN = DEFECTS if DEEP else DEFECTS[TURN % EVERY :: EVERY]
# What the walk meets within some hundred steps; the tour has all the time that it takes.
MET_ON_THE_WAY = ("amount-as-float", "expires-late", "one-slot-too-many", "stale-slots", "balance-of-all-projects")


@pytest.mark.parametrize("defect", DOZEN, ids=lambda defect: defect.name)
def test_the_usual_engines_find_a_defect_and_show_it_in_a_few_steps(defect: Defect) -> None:
    found = hunt(defect.name, "all", seed=1)
    assert found.found, f"missed in {LIMIT_S:g} s: {defect.describe_violation}"
    assert found.steps <= (2 * SMALL if DEEP else SMALL)


def test_the_turns_of_the_dozen_pass_by_every_defect() -> None:
    turns = [DEFECTS[turn::EVERY] for turn in range(EVERY)]
    assert {one.name for turn in turns for one in turn} == set(CATALOGUE)
    assert max(map(len, turns)) <= 13


@pytest.mark.parametrize("name", CATALOGUE if DEEP else MET_ON_THE_WAY)
def test_the_walk_finds_a_defect_without_the_tour(name: str) -> None:
    assert hunt(name, "walk", seed=1).finder == "walk"


@pytest.mark.parametrize("name", CATALOGUE if DEEP else ["payment-not-told"])
def test_the_machine_finds_a_defect_without_the_tour(name: str) -> None:
    assert hunt(name, "machine", seed=1).finder == "machine"


def test_what_was_found_is_found_again_from_its_case_as_long_as_it_is_planted() -> None:
    found = hunt("one-slot-too-many", "all", seed=1)
    case = read_case(found.case or {})
    with planted(CATALOGUE["one-slot-too-many"]):
        assert replay(case).same_finding
        assert replay(case).same_journal
    assert replay(case).result.violation is None


@pytest.mark.parametrize("seed", range(50 if DEEP else 3))
def test_the_clean_service_raises_no_alarm(seed: int) -> None:
    target = InProcess()
    for one in range(1_000_000 * seed, 1_000_000 * seed + (200 if DEEP else 12)):
        assert random_walk(one, target).violation is None, f"walk {one}"
    assert search(seed, 200 if DEEP else 5).violation is None


@pytest.mark.parametrize("seed", range(2, 8) if DEEP else [2])
def test_the_tour_of_the_clean_service_raises_no_alarm_in_another_world(seed: int) -> None:
    assert [str(result.violation) for result in run_conformance(InProcess(), seed=seed) if result.violation] == []


def test_the_table_has_a_row_for_each_defect_and_engine_and_the_summary_names_what_was_missed() -> None:
    case = {"leydenCase": 1}
    first, second = DEFECTS[0].name, DEFECTS[1].name
    some = [
        Hunt(first, "walk", 2, "walk", 0.5, 0.7, 3, case),
        Hunt(first, "walk", 1, "walk", 1.5, 1.7, 9, case),
        Hunt(second, "walk", 1, "walk", 0.2, 0.3, 1, case),
        Hunt(second, "walk", 2, "", 15.0, 15.0, 0, None),
        Hunt(second, "tour", 1, "", 2.0, 2.0, 0, None),
    ]
    assert table(some)[1:] == [
        [first, DEFECTS[0].kind, "walk", "2/2", "1.00", "1.50", "3 to 9"],
        [second, DEFECTS[1].kind, "tour", "0/1", "", "", ""],
        [second, DEFECTS[1].kind, "walk", "1/2", "0.20", "0.20", "1"],
    ]
    said = "\n".join(summary(some))
    assert "walk: 1 of 2 defects on every seed, 2 on some" in said
    assert "median 0.60 s, slowest 1.50 s" in said
    assert "2 of 3 cases (67%) have at most 8 steps" in said
    assert f"missed on some seed: {second} (1)" in said
    assert f"never found: {second}" in said


def test_the_command_prints_the_table_and_keeps_every_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "found.json"
    assert main(["amount-of-zero", "--engines", "tour", "--seeds", "1,2", "--json", str(file)]) == 0
    assert "| amount-of-zero | input | tour   | 2/2 " in capsys.readouterr().out
    kept = json.loads(file.read_text())
    assert [one["case"]["steps"][-1]["body"]["amount"] for one in kept] == ["0", "0"]
    for wrong in (["--engines", "guess"], ["--engines", "tour", "--seeds", "one"]):
        with pytest.raises(SystemExit):
            main(wrong)
