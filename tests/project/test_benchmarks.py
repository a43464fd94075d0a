"""The benchmarks still run: every part, in its short form. The measured values are not checked: in so short a run a
difference of two CPU times may be below zero."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from math import isfinite
from pathlib import Path

import pytest

from tests.benchmarks.__main__ import PARTS, main
from tests.benchmarks.bench import Bench
from tests.benchmarks.measuring import COST, Goal, Row, Scale, alone, compared
from tests.benchmarks.readme_table import PACKAGES, cells, readme_rows, without_sizes
from tests.benchmarks.table import markdown
from tests.support.deep import deep_except

README = Path(__file__).parents[1] / "README.md"
ENCODE = compared("bolt11", "encode", COST, [[3.0]], "sign", [[2.0]], goal=Goal("at most", 2.0))
# Parts that take the least.
CHEAP = ("bolt11", "figures", "lifecycle")
PARTS_BY_NAME = {name: name for name in PARTS}
DECODE = compared("bolt11", "decode", COST, [[3.0]], "recover", [[2.0]])


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """One short run, so that the parts share its big store."""
    with Bench(Scale(short=True, repeats=1)) as bench:
        yield bench


@pytest.fixture(scope="module")
def rows_of(bench: Bench) -> Callable[[str], list[Row]]:
    """The rows of a part, measured once."""
    return cache(lambda part: list(PARTS[part](bench)))


@pytest.mark.parametrize("part", deep_except(PARTS_BY_NAME, *CHEAP))
def test_every_part_of_the_table_can_be_measured(rows_of: Callable[[str], list[Row]], part: str) -> None:
    rows = rows_of(part)
    assert rows
    for row in rows:
        assert row.part == part
        assert row.measured
        assert all(value is not None and isfinite(value) for value in (*row.measured, *row.beside, *row.ratios)), row
        assert len(row.ratios) in {0, len(row.measured)}
    assert len({(row.what, row.beside_what) for row in rows}) == len(rows)


@pytest.mark.parametrize("parts", deep_except({"all": list(PARTS), "some": CHEAP}, "some"))
def test_every_row_of_the_readme_names_a_measurement_with_its_ceiling_unit_and_goal(
    rows_of: Callable[[str], list[Row]], parts: Sequence[str]
) -> None:
    """Names, units, ceilings and goals; the figures are those of a quiet machine. Of some parts, only their rows."""
    measured = {
        (without_sizes(row.what), without_sizes(row.beside_what)): cells(row) for part in parts for row in rows_of(part)
    }
    shown = list(readme_rows(README.read_text()))
    assert len(shown) > 20
    found = 0
    for what, beside, figure, wanted in shown:
        key = (without_sizes(what), without_sizes(beside))
        if parts is CHEAP and key not in measured:
            continue
        found += 1
        assert key in measured, what
        *_, short_figure, short_wanted = measured[key]
        assert wanted == short_wanted, what
        assert units(figure) == units(short_figure), what
    assert found >= len(parts)


def units(figure: str) -> set[str]:
    """The units in a cell, without their scale: `1.47x (45.2 MB)` has `x` and `B`, `2.04x less` has `x` and `less`."""
    return set(re.findall(r"\d ?[kMmun]?(x|B|s|/s)\b", figure)) | set(re.findall("less", figure))


def test_the_figures_are_written_into_the_rows_that_the_readme_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.benchmarks.__main__.PARTS", {"bolt11": lambda bench: [ENCODE, DECODE]})
    file = tmp_path / "README.md"
    lines = ["Before.", "", "<!-- leyden:table benchmarks -->", "| a | b | c | d |", "|---|---|---|---|"]
    after = ["<!-- leyden:end -->", "", "After."]
    file.write_text("\n".join([*lines, "| encode | sign | 9.99x | |", *after]))
    assert main(["--repeats", "1", "--into", str(file)]) == 0
    text = file.read_text()
    assert "| encode | sign                    | 1.50x          | at most 2.00x |" in text
    assert "9.99x" not in text
    assert "decode" not in text
    assert f"aiohttp {version('aiohttp')}, httpx2 {version('httpx2')}" in text
    assert (text.startswith("Before."), text.endswith("After.")) == (True, True)
    capsys.readouterr()
    file.write_text("\n".join([*lines, "| unknown | sign | | |", *after]))
    assert main(["--repeats", "1", "--into", str(file)]) == 1
    assert "no part measures 'unknown' beside 'sign'" in capsys.readouterr().err


@pytest.mark.parametrize("partial", ["--short", "--only=bolt11"])
def test_the_readme_gets_the_figures_of_one_complete_run(partial: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([partial, "--into", str(README)])
    assert "leave out --only and --short" in capsys.readouterr().err


def test_every_compared_package_is_a_declared_dependency() -> None:
    declared = tomllib.loads((README.parents[1] / "pyproject.toml").read_text())["project"]
    requirements = [
        *declared["dependencies"],
        *(one for extra in declared["optional-dependencies"].values() for one in extra),
    ]
    names = {re.split("[^A-Za-z0-9-]", one)[0] for one in requirements}
    assert set(PACKAGES) <= names


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
    printed = capsys.readouterr()
    assert "BOLT11 encode" in printed.out
    assert "could not be written" in printed.err


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
