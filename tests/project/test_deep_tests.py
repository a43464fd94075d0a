"""Deep tests are marked where they stand, and each of them leaves a test or a case of its module in the default run."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.deep import deep_except, deep_or, is_deep, sampled, with_deep

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests").rglob("test_*.py"))


def is_call_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def mistakes(source: str) -> Iterator[str]:
    """What is wrong with the marks of a module. `deep_except`, `with_deep`, `sampled` check their cases themselves."""
    if not re.search(r"\bdeep\b", source):
        return
    tree = ast.parse(source)
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    siblings = {
        test.name: call.args[0].value
        for test in tests
        for call in test.decorator_list
        if is_call_of(call, "deep") and len(call.args) == 1 and isinstance(call.args[0], ast.Constant)
    }
    names = {test.name for test in tests}
    for name, sibling in siblings.items():
        if sibling not in names:
            yield f"{name}: the module has no test {sibling}"
        elif sibling in siblings:
            yield f"{name}: {sibling} is deep too"
    uses = sum(isinstance(node, ast.Name) and node.id == "deep" for node in ast.walk(tree))
    marks = sum(isinstance(node, ast.Attribute) and node.attr == "deep" for node in ast.walk(tree))
    if uses != len(siblings) or marks:
        yield "it marks a test in another way than by @deep(SIBLING), deep_except, with_deep and sampled"


def test_each_deep_test_names_a_test_of_its_module_that_is_in_the_default_run() -> None:
    assert [f"{path.relative_to(ROOT)}: {text}" for path in FILES for text in mistakes(path.read_text())] == []


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("@deep('test_b')\ndef test_a(): ...\n", "no test test_b"),
        ("@deep('test_b')\ndef test_a(): ...\n@deep('test_a')\ndef test_b(): ...\n", "test_b is deep too"),
        ("@deep\ndef test_a(): ...\n", "in another way"),
        ("@pytest.mark.deep\ndef test_a(): ...\n", "in another way"),
        ("pytestmark = deep\n", "in another way"),
    ],
)
def test_a_deep_test_without_a_sibling_is_found(source: str, part: str) -> None:
    assert any(part in text for text in mistakes(source))


def marked(cases: list[object]) -> list[bool]:
    return [bool(case.marks) for case in cases]  # type: ignore[attr-defined]


def test_the_cases_of_a_test_are_chosen_by_value_or_id() -> None:
    assert marked(deep_except(["a", "b"], "a")) == [False, True]
    assert marked(with_deep([("a", 1), ("b", 2)], ("b", 2))) == [False, True]
    assert marked(deep_except({"x": 1, "y": 2}, "y")) == [True, False]
    assert [case.id for case in deep_except({"x": 1, "y": 2}, "y")] == ["x", "y"]
    assert marked(sampled(range(4), 3)) == [False, True, True, False]
    assert marked(with_deep([pytest.param(1, id="one"), True], "one")) == [True, False]


@pytest.mark.parametrize("bounded", [(), ("a", "b"), ("c",)])
def test_neither_run_is_left_without_a_case(bounded: tuple[str, ...]) -> None:
    with pytest.raises(AssertionError):
        deep_except(["a", "b"], *bounded)


def test_the_numbers_are_those_of_the_run(request: pytest.FixtureRequest) -> None:
    default = request.config.getoption("markexpr") == "not deep"
    assert is_deep() == (not default or "LEYDEN_PROFILE" in os.environ)
    assert deep_or(bounded=1, full=2) == (2 if is_deep() else 1)


# Options -> the numbers of tests that passed and were left out, and what one of them prints.
RUNS = {
    "default": ([], 1, 1, "number 1"),
    "workers": (["-n", "1"], 1, 1, "number 1"),
    "everything": (["-m", ""], 2, 0, "number 2"),
    "deep": (["-m", "deep"], 1, 1, ""),
}


@pytest.mark.parametrize("run", deep_except(list(RUNS), "workers"))
def test_the_default_run_leaves_deep_tests_out_and_the_closing_line_counts_them(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    options, passed, left_out, printed = RUNS[run]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ["PYTHONPATH"]]))
    monkeypatch.delenv("LEYDEN_PROFILE", raising=False)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert "-m 'not deep'" in project["addopts"]
    pytester.makepyfile(
        conftest="from tests.conftest import pytest_configure, pytest_deselected  # noqa: F401\n",
        test_one="""
            import pytest

            from tests.support.deep import deep_or

            @pytest.mark.deep
            def test_deep(): assert deep_or(bounded=1, full=2) == 2
            def test_other(): print("number", deep_or(bounded=1, full=2))
        """,
    )
    pytester.makeini(
        f"[pytest]\naddopts = -m 'not deep' -p no:cacheprovider -p no:schemathesis\nmarkers = {project['markers'][0]}"
    )
    done = pytester.runpytest_subprocess("-rP", *options)
    done.assert_outcomes(passed=passed, deselected=left_out)
    assert printed in done.stdout.str()


def test_a_workflow_runs_everything_on_a_schedule_and_by_hand() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "deep.yml").read_text())
    assert {"schedule", "workflow_dispatch"} == set(workflow[True])  # YAML 1.1 reads `on` as a boolean
    [*_, step] = workflow["jobs"]["deep"]["steps"]
    [readme] = re.findall(r"^python3 -m venv .*\.\[dev\].*$", (ROOT / "README.md").read_text(), re.M)
    assert step["run"] == f'{readme} -m ""'
    assert 'pytest -m ""' in (ROOT / ".github" / "CONTRIBUTING.md").read_text()
