"""The benchmarks still run: every part, in its short form. The measured values are not checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks.__main__ import PARTS, main
from tests.benchmarks.bench import Bench
from tests.benchmarks.measuring import COST, Goal, Row, Scale, alone, compared
from tests.benchmarks.table import markdown


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """One short run, so that the parts share its big store."""
    with Bench(Scale(short=True, repeats=1)) as made:
        yield made


@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_the_table_can_be_measured(bench: Bench, part: str) -> None:
    rows = list(PARTS[part](bench))
    assert rows
    for row in rows:
        assert row.part == part
        assert row.measured
        assert all(value is not None and value > 0 for value in (*row.measured, *row.beside, *row.ratios)), row
        assert len(row.ratios) in {0, len(row.measured)}
    assert len({(row.what, row.beside_what) for row in rows}) == len(rows)


def test_the_runner_prints_a_table_and_writes_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "figures.json"
    assert main(["--short", "--only", "bolt11", "--repeats", "2", "--json", str(figures)]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split("|")[1].strip() == "what"
    assert {line.count("|") for line in table} == {6}
    written = json.loads(figures.read_text())
    assert (written["short"], written["repeats"]) == (True, 2)
    assert {row["part"] for row in written["rows"]} == {"bolt11"}


@pytest.mark.parametrize("wrong", [["--only", "unknown"], ["--repeats", "0"], ["--repeats", "many"]])
def test_an_invalid_option_is_refused_with_the_choices(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(wrong)
    assert "choose from" in capsys.readouterr().err or wrong[0] == "--repeats"


def test_a_file_that_cannot_be_written_is_reported_after_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--short", "--only", "bolt11", "--json", str(tmp_path / "nowhere" / "figures.json")]) == 1
    said = capsys.readouterr()
    assert "BOLT11 encode" in said.out
    assert "could not be written" in said.err


def test_a_ratio_is_the_median_of_the_rounds_own() -> None:
    # Round by round 2, 2 and 4 times: a slow third round of both is no difference between them.
    row = compared("part", "what", COST, [[2.0, 4.0, 40.0]], "beside", [[1.0, 2.0, 10.0]], goal=Goal("at most", 2.0))
    assert (row.measured, row.beside, row.ratios, row.met) == ((4.0,), (2.0,), (2.0,), True)
    less = compared("part", "what", COST, [[1.0], None], "beside", [[3.0], [1.0]], times_less=True)
    assert (less.ratios, less.met) == ((3.0, None), None)


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (Goal("at most", 1.9), False),
        (Goal("at most", 3.0), True),
        (Goal("at least", 2.0), True),
        (Goal("at least", 2.1), False),
        (Goal("at least", 2.1, at=1), True),
        (Goal("at most", 0.5, absolute=True), True),
    ],
)
def test_a_goal_applies_to_every_case_or_to_the_one_it_names(goal: Goal, met: bool) -> None:
    row = Row("part", "what", COST, (0.2, 0.3, None), "beside", (0.1, 0.1, None), (2.0, 3.0, None), goal=goal)
    assert row.met is met


def test_figures_are_written_as_people_read_them() -> None:
    shown = markdown(
        [alone("part", "small and large", COST, [0.000_012_34, 2.0]), alone("part", "size", "B", [3_145_728])]
    )
    assert "12.3 us / 2.00 s" in shown
    assert "3.00 MB" in shown
