"""The notebooks: each asks one question, runs without errors, and equals the result of its source."""

from __future__ import annotations

import ast
import json
import re
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from packaging.version import Version

import leyden
import leyden.errors
from leyden.errors import NotebookError
from leyden.lab import packaged_notebooks as notebooks
from leyden.lab.api_reference import SECTIONS
from leyden.lab.notebook_writer import CODE, MARKDOWN, Cell, document
from leyden.lab.packaged_notebooks import (
    REFRESH,
    differences,
    execute,
    main,
    notebook_files,
    notebook_of,
    read_source,
    render,
    source_files,
)
from tests.support.deep import deep, deep_except, with_deep

ROOT = Path(__file__).parents[2]
SOURCES = source_files()
BY_NAME = {source.stem: source for source in SOURCES}
by_name = pytest.mark.parametrize("source", SOURCES, ids=BY_NAME)
# Their outputs have times that are not whole seconds.
WITH_MILLISECONDS = {"03_callbacks_that_fail", "05_liquidity"}
# Other parameters than those that are written, so that a run is short and another one.
OTHERWISE: dict[str, dict[str, Any]] = {
    "01_first_charge": {"amount_msat": 1_000, "expires_in_s": 1},
    "02_time_and_expiry": {"expires_in_s": 1},
    "03_callbacks_that_fail": {"answers": [503, "reset"]},
    "04_the_slot_race": {"amount_msat": 1_001},
    "06_which_expiry": {"customers": 8, "replications": 1, "expiries_s": [15, 60]},
    "07_report_a_failure": {"customers": 100},
    "08_a_callback_outage": {"starts_h": [12], "replications": 2},
    "09_network_conditions": {"duration": "1h", "replications": 2},
    "10_fees_by_amount": {"amounts_sat": [100, 1_000], "replications": 2},
    "11_a_channel_closes": {"replications": 2},
    "12_more_than_memory": {"duration": "1h"},
    "13_sliders": {"customers": 20},
}


def run_script(source: Path, given: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run the code of a source as a script, with these parameters; its global names."""
    lines: list[str] = []
    for cell in read_source(source.read_text()):
        lines += [cell.source] if cell.kind == CODE else []
        if "parameters" in cell.tags:
            lines += [f"{name} = {value!r}" for name, value in given.items()]
    script = folder / "script.py"
    script.write_text("\n\n".join(lines))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return runpy.run_path(str(script))


@pytest.mark.parametrize("source", deep_except(BY_NAME, "02_time_and_expiry"))
def test_a_notebook_is_the_result_of_its_source(source: Path) -> None:
    found = differences(source, render(source))
    if found and source.stem in WITH_MILLISECONDS and Version(pd.__version__) < Version("3.1"):
        pytest.skip("this pandas shows a time to the microsecond, and the stored outputs to the millisecond")
    assert not found, f"{found}\n\nIf this is as it should be: {REFRESH} {source.stem}"


def test_there_are_thirteen_and_each_has_its_source() -> None:
    assert [path.name[:2] for path in notebook_files()] == [f"{number:02}" for number in range(1, 14)]
    assert [notebook_of(source) for source in SOURCES] == notebook_files()
    assert "thirteen notebooks" in (ROOT / "README.md").read_text()


def test_the_handbook_lists_each_with_its_question() -> None:
    table = (ROOT / "notebooks" / "README.md").read_text()
    rows = dict(re.findall(r"^\| \[(\d\d_\w+)\]\(\1\.ipynb\) \| (.*\?) \|$", table, re.MULTILINE))
    titles = {path.stem: read_source(path.read_text())[0].source.splitlines()[0].removeprefix("# ") for path in SOURCES}
    assert rows == titles


@by_name
def test_a_notebook_uses_public_names_only(source: Path) -> None:
    public = {(module, name) for _, modules in SECTIONS for module, names in modules for name in names}
    public |= {("leyden", name) for name in leyden.__all__}
    public |= {("leyden.errors", name) for name in leyden.errors.__all__}
    used, modules, attributes = set(), set(), set()
    for cell in read_source(source.read_text()):
        for node in ast.walk(ast.parse(cell.source if cell.kind == CODE else "")):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "leyden":
                used |= {(node.module, name.name) for name in node.names}
            elif isinstance(node, ast.Import):
                modules |= {name.name for name in node.names if name.name.partition(".")[0] == "leyden"}
            elif isinstance(node, ast.Attribute):
                attributes.add(node.attr)
    assert used <= public
    assert modules <= {"leyden"}
    assert not {name for name in attributes if name.startswith("_") or name in ("world", "session", "engine")}


@pytest.mark.parametrize(
    ("name", "package", "words"),
    [
        ("12_more_than_memory", "duckdb", "DuckDB is not installed (pip install duckdb): pandas answers"),
        ("13_sliders", "ipywidgets", 'Sliders need ipywidgets: pip install "leyden[lab]"'),
    ],
)
def test_a_notebook_without_an_optional_package_says_so_in_one_line(
    name: str,
    package: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.chdir(tmp_path)
    run_script(next(source for source in SOURCES if source.stem == name), OTHERWISE[name], tmp_path)
    assert len([line for line in capsys.readouterr().out.splitlines() if words in line]) == 1


def test_duckdb_and_pandas_agree_on_the_files_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    source = next(source for source in SOURCES if source.stem == "12_more_than_memory")
    known = run_script(source, OTHERWISE[source.stem], tmp_path)
    by_duckdb, by_pandas = known["by_duckdb"](known["run"]), known["by_pandas"](known["run"])
    for column in ("charges", "paid", "median_s", "callback_attempts"):
        assert by_duckdb[column].tolist() == pytest.approx(by_pandas[column].tolist())


def test_the_sliders_draw_the_chart_again(tmp_path: Path) -> None:
    pytest.importorskip("ipywidgets")
    source = next(source for source in SOURCES if source.stem == "13_sliders")
    known = run_script(source, OTHERWISE[source.stem], tmp_path)
    drawn: list[dict[str, int]] = []
    known["chart"].__globals__["chart"] = lambda **values: drawn.append(values)
    known["sliders"]["expiry_s"].value = 10
    assert drawn == [{"expiry_s": 10, "patience_s": known["patience_s"], "liquidity_sat": known["liquidity_sat"]}]


@by_name
def test_a_notebook_asks_one_question_and_answers_it(source: Path) -> None:
    cells = read_source(source.read_text())
    title = cells[0].source.splitlines()[0]
    assert cells[0].kind == MARKDOWN
    assert title.startswith("# ")
    assert title.endswith("?")
    headings = [line for cell in cells if cell.kind == MARKDOWN for line in cell.source.splitlines()]
    assert [line for line in headings if line.startswith("# ")] == [title]
    assert "## The answer" in headings


@by_name
def test_a_notebook_has_one_cell_of_parameters_that_papermill_can_replace(source: Path) -> None:
    [cell] = [cell for cell in read_source(source.read_text()) if "parameters" in cell.tags]
    assert all(isinstance(node, ast.Assign) for node in ast.parse(cell.source).body)
    assert "seed" in cell.source


@pytest.mark.parametrize(
    "source", with_deep(BY_NAME, "05_liquidity", "08_a_callback_outage", "11_a_channel_closes", "12_more_than_memory")
)
def test_a_notebook_runs_with_other_parameters_and_without_jupyter(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"seed": 8, **OTHERWISE.get(source.stem, {})}
    known = run_script(source, given, tmp_path)
    assert given == {name: known[name] for name in given}


@pytest.mark.parametrize("path", notebook_files(), ids=lambda path: path.stem)
def test_a_stored_notebook_does_not_depend_on_the_machine(path: Path) -> None:
    text = path.read_text()
    kept = json.loads(text)
    code = [cell for cell in kept["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert kept["metadata"]["language_info"] == {"name": "python"}
    assert [cell["id"] for cell in kept["cells"]] == [f"cell-{n:02d}" for n in range(1, len(kept["cells"]) + 1)]
    assert not {"execution", "collapsed", "scrolled"} & {name for cell in code for name in cell["metadata"]}
    for word in (str(ROOT), "/tmp/", "/home/", "site-packages", " at 0x", "real_time_s"):
        assert word not in text
    assert not [output for cell in code for output in cell["outputs"] if output["output_type"] == "error"]
    assert len(text) < 400_000


# How they are written


def test_a_source_is_cells_between_markers() -> None:
    text = '# %% [markdown]\n# # Why?\n#\n# So.\n\n# %% tags=["parameters"]\nseed = 7\n\n\n# %%\nif seed:\n    seed\n'
    assert read_source(text) == [
        Cell(MARKDOWN, "# Why?\n\nSo."),
        Cell(CODE, "seed = 7", ("parameters",)),
        Cell(CODE, "if seed:\n    seed"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n# %%\nx", "before the first cell"),
        ("# %% [text]\n# x", "not a marker"),
        ("# %% [markdown]\nx = 1", "start the line with #"),
        ("# %%\n\n# %%\nx", "cell is empty"),
    ],
)
def test_an_invalid_source_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(NotebookError, match=words):
        read_source(text)


def test_a_cell_that_fails_is_named() -> None:
    with pytest.raises(NotebookError, match=r"the cell '1 / 0' fails with ZeroDivisionError: division by zero"):
        execute(document([Cell(CODE, "x = 1"), Cell(CODE, "1 / 0")]))


@deep("test_a_cell_that_fails_is_named")
def test_a_cell_that_warns_is_refused() -> None:
    with pytest.raises(NotebookError, match="mind the step"):
        execute(document([Cell(CODE, "import warnings\nwarnings.warn('mind the step')")]))


def test_the_command_lists_differences_and_writes_notebooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "sources" / "08_why.py"
    source.parent.mkdir()
    source.write_text("# %% [markdown]\n# # Why?\n\n# %%\nx = 1\n")
    monkeypatch.setattr(notebooks, "notebooks_folder", lambda: tmp_path)
    monkeypatch.setattr(notebooks, "execute", lambda node: node)

    assert main([]) == 1
    assert "08_why.ipynb: differs" in capsys.readouterr().out
    assert main(["--refresh"]) == 0
    assert main(["08_why.ipynb"]) == 0
    assert capsys.readouterr().out == "08_why.ipynb: written\n08_why.ipynb: unchanged\n"

    source.write_text(source.read_text().replace("x = 1", "x = 2"))
    assert main([]) == 1
    shown = capsys.readouterr().out
    assert "-x = 1\n+x = 2" in shown
    assert f"{REFRESH} 08_why" in shown

    assert main(["09_what"]) == 1
    assert "'09_what' is not one of the notebooks 08_why" in capsys.readouterr().err
    source.unlink()
    assert main([]) == 1
    assert "has no sources" in capsys.readouterr().err
