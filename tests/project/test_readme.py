"""The README keeps its word: its tables are the spec's, its Python runs and prints what it says."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from leyden.__main__ import _parser
from leyden.harness.conformance.conformance import run_conformance
from leyden.harness.reports.coverage import Coverage
from leyden.harness.targets.target import InProcess
from leyden.server.contract.load import known_overlays, load_contract
from leyden.server.docs.tables import callbacks_table, lifecycle_tables, replace_between_markers, routes_table
from tests.support.served import served_leyden

pytest_plugins = ["pytester"]

README = (Path(__file__).parents[2] / "README.md").read_text()
SPECS_README = (Path(__file__).parents[2] / "specs" / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [text for kind, text in BLOCKS if kind == "console"]


@pytest.mark.parametrize(
    ("name", "table"), [("routes", routes_table), ("lifecycles", lifecycle_tables), ("callbacks", callbacks_table)]
)
def test_the_tables_are_those_of_the_spec(name: str, table) -> None:
    unchanged = replace_between_markers(SPECS_README, name, table(load_contract())) == SPECS_README
    assert unchanged, "run `leyden table --into specs/README.md`"


def test_the_coverage_is_that_of_the_conformance_run() -> None:
    coverage = Coverage()
    for result in run_conformance(InProcess()):
        coverage.add("conformance", result.case.name, result.reached)
    kept = replace_between_markers(README, "coverage", coverage.summary()) == README
    assert kept, "run `leyden conformance --report README.md`"


STORIES = [(code, text) for (kind, code), (after, text) in pairwise(BLOCKS) if kind == "python" and after == "text"]
SUITES = [code for kind, code in BLOCKS if kind == "python" and "\ndef test_" in f"\n{code}"]


def test_every_python_block_is_a_story_or_a_suite() -> None:
    assert len(STORIES) + len(SUITES) == sum(kind == "python" for kind, _ in BLOCKS)


@pytest.mark.parametrize(("code", "expected"), STORIES)
def test_the_python_prints_what_it_says(code: str, expected: str) -> None:
    before = "\n" * README[: README.index(code)].count("\n")  # whoever asks for a function's source finds it
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(before + code, "README.md", "exec"), {})
    printed = [line.rstrip() for line in said.getvalue().splitlines()]
    assert printed == expected.splitlines()


@pytest.mark.parametrize("code", SUITES)
def test_the_suites_pass(pytester: pytest.Pytester, code: str) -> None:
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider -p no:schemathesis -p no:xdist\nfilterwarnings = error\n")
    pytester.makepyfile(code)
    pytester.runpytest_inprocess().assert_outcomes(passed=code.count("def test_"))


def test_every_overlay_is_listed() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \|", SPECS_README, flags=re.MULTILINE)
    assert set(known_overlays()) <= set(listed)


def test_every_option_of_serve_is_told_of() -> None:
    [commands] = [action.choices for action in _parser()._subparsers._group_actions]
    options = {option for action in commands["serve"]._actions for option in action.option_strings} - {"-h", "--help"}
    assert {option for option in options if option not in README} == set()


def test_ci_runs_the_readmes_test_command() -> None:
    [command] = [text.strip() for text in COMMANDS if "pytest" in text]
    assert command in (Path(__file__).parents[2] / ".ci" / "run").read_text()


def test_the_curl_story_plays() -> None:
    """The README's curl commands, as their method, path and body, against a served Leyden."""
    with served_leyden() as client:
        steps = []
        for text in COMMANDS:
            for line in text.replace("\\\n", " ").strip().splitlines():
                words = shlex.split(line)
                if words[0] == "curl":
                    body = words[words.index("-d") + 1] if "-d" in words else None
                    steps.append((next(word for word in words if word.startswith("localhost:8402")), body))
        charge: dict = {}
        said = []
        for target, body in steps:
            path = target.removeprefix("localhost:8402").replace("ID", charge.get("id", "ID"))
            if body is None:
                said.append(client.ok("GET", path))
            else:
                request = charge.get("invoice", {}).get("request", "")
                said.append(client.ok("POST", path, json.loads(body.replace("lnbcrt...", request))))
            charge = charge or said[0]["data"]
        assert said[1]["status"] == "succeeded"
        assert said[2]["data"]["status"] == "completed"
        assert [delivery["status"] for delivery in said[3]] == ["delivered"]
        assert said[4]["now"]
