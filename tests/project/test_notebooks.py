"""The notebooks: each asks one question, runs without errors, and equals the result of its source."""

from __future__ import annotations

import ast
import json
import runpy
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from packaging.version import Version

from leyden.errors import NotebookError
from leyden.lab import packaged_notebooks as notebooks
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

ROOT = Path(__file__).parents[2]
SOURCES = source_files()
by_name = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
# Their outputs have times that are not whole seconds.
WITH_MILLISECONDS = {"03_callbacks_that_fail", "05_liquidity"}
# Other parameters than those that are written, so that a run is short and another one.
OTHERWISE: dict[str, dict[str, Any]] = {
    "01_first_charge": {"amount_msat": 1_000, "expires_in_s": 1},
    "02_time_and_expiry": {"expires_in_s": 1},
    "03_callbacks_that_fail": {"answers": [503, "reset"]},
    "04_the_slot_race": {"amount_msat": 1_001},
    "06_which_expiry": {"customers": 8, "replications": 1, "expiries_s": [15, 60]},
    "07_from_a_failure_to_a_case": {"seed": 121},
    "08_a_callback_outage": {"starts_h": [12], "replications": 2},
}


@by_name
def test_a_notebook_is_the_result_of_its_source(source: Path) -> None:
    found = differences(source, render(source))
    if found and source.stem in WITH_MILLISECONDS and Version(pd.__version__) < Version("3.1"):
        pytest.skip("this pandas shows a time to the microsecond, and the stored outputs to the millisecond")
    assert not found, f"{found}\n\nIf this is as it should be: {REFRESH} {source.stem}"


def test_there_are_eight_and_each_has_its_source() -> None:
    assert [path.name[:2] for path in notebook_files()] == ["01", "02", "03", "04", "05", "06", "07", "08"]
    assert [notebook_of(source) for source in SOURCES] == notebook_files()


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


@by_name
def test_a_notebook_runs_with_other_parameters_and_without_jupyter(source: Path, tmp_path: Path) -> None:
    given = {"seed": 8, **OTHERWISE.get(source.stem, {})}
    lines: list[str] = []
    for cell in read_source(source.read_text()):
        lines += [cell.source] if cell.kind == CODE else []
        if "parameters" in cell.tags:
            lines += [f"{name} = {value!r}" for name, value in given.items()]
    script = tmp_path / "script.py"
    script.write_text("\n\n".join(lines))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known = runpy.run_path(str(script))
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
    with pytest.raises(NotebookError, match=r"ZeroDivisionError: division by zero\n\n1 / 0"):
        execute(document([Cell(CODE, "x = 1"), Cell(CODE, "1 / 0")]))


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
