"""Cases: a run in a file that happens again anywhere, as it is, as pytest, as curl commands and as a notebook."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest

import leyden.server.charges.charges
from leyden.harness.conformance.conformance import conformance_cases
from leyden.harness.reports.exports import ExportError, as_curl, as_notebook, as_pytest
from leyden.harness.targets.target import InProcess
from leyden.harness.runs.cases import Case, CaseError, play, read_case, with_result, replay
from tests.support.served import served_leyden

STORY = {case.name: case for case in conformance_cases()}
KEPT = STORY["tour: the secret changes under way"]
LINK = STORY["tour: 410 ends it for this link only"]


@pytest.fixture
def trimmed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A service whose callbacks trim descriptions."""
    told = leyden.server.charges.charges.charge_update

    def update(row: Any) -> dict[str, Any]:
        return {**told(row), "description": row["description"].strip()}

    monkeypatch.setattr(leyden.server.charges.charges, "charge_update", update)
    return monkeypatch


def _finding() -> Case:
    body = {"amount": "1000", "description": " tea ", "callbackUrl": "http://r1.inbox.localhost/hook"}
    case = Case(({"do": "create_charge", "as": "c1", "body": body}, {"do": "pay", "as": "p1", "charge": "c1"}))
    return with_result(case, play(case))


def _proved(case: Case) -> Case:
    return with_result(case, play(case))


def test_a_case_is_read_as_it_was_written(tmp_path: Path) -> None:
    case = _proved(KEPT)
    file = tmp_path / "case.json"
    file.write_text(case.dumps())
    assert read_case(file) == case
    assert json.loads(file.read_text())["start"] == "2030-01-01T00:00:00.500Z"


@pytest.mark.parametrize("case", [KEPT, LINK], ids=lambda case: case.name)
def test_a_case_leads_to_the_same_journal_every_time(case: Case) -> None:
    replayed = replay(_proved(case))
    assert replayed.same_journal
    assert replayed.same_finding
    other = replay(replace(_proved(case), seed=2))
    assert not other.same_journal


def test_restarts_have_no_journal_of_their_own() -> None:
    case = _proved(STORY["tour: restart: everything goes on"])
    assert case.journal_hash is None
    assert replay(case).same_finding


class Remembering(InProcess):
    """A service in process of which one knows at the end what happened in it, but for the requests themselves."""

    happened: list[Any]

    def end(self) -> None:
        if self._sandbox is not None:
            entries = self.sandbox.world.journal.entries()
            self.happened = [(one.at_ms, *one[2:]) for one in entries if one.kind != "request"]
        super().end()


def test_looking_changes_nothing() -> None:
    """From the requests of the steps alone the same follows as with everything looked at in between."""
    looked, alone = Remembering(), Remembering()
    result = play(KEPT, looked)
    alone.begin(KEPT.seed, KEPT.start_ms, KEPT.overlays)
    for request in result.requests:
        alone.send(*request)
    alone.end()
    assert alone.happened == looked.happened
    assert len(alone.happened) > len(result.requests) >= len(KEPT.steps)


@pytest.mark.parametrize(
    ("text", "why"), [("", "no case"), ("{}", "leydenCase"), ('{"leydenCase": 1}', "lacks"), ("[]", "format")]
)
def test_a_file_that_is_no_case_is_refused(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "case.json"
    file.write_text(text)
    with pytest.raises(CaseError, match=why):
        read_case(file)


def test_the_pytest_file_fails_with_the_story_until_the_promise_is_kept(
    trimmed: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    space: dict[str, Any] = {}
    exec(compile(as_pytest(_finding()), "test_case.py", "exec"), space)
    with pytest.raises(AssertionError, match="What was promised"):
        space["test_the_promise_is_kept"]()
    space["test_the_steps_lead_to_the_same_journal"]()
    trimmed.undo()
    space["test_the_promise_is_kept"]()


def test_the_pytest_file_is_run_by_pytest(tmp_path: Path) -> None:
    file = tmp_path / "test_kept.py"
    file.write_text(as_pytest(_proved(KEPT)))
    root = Path(__file__).parents[2]
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(file)]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def _cells(notebook: str) -> list[str]:
    ledger = nbformat.reads(notebook, as_version=4)
    nbformat.validate(ledger)
    return [item.source for item in ledger.items if item.cell_type == "code"]


def test_the_notebook_shows_the_same_answer(trimmed: pytest.MonkeyPatch) -> None:
    case = _finding()
    said = io.StringIO()
    space: dict[str, Any] = {}
    with contextlib.redirect_stdout(said):
        for source in _cells(as_notebook(case)):
            exec(source, space)
    last = said.getvalue().splitlines()[-1]
    assert '"description":"tea"' in last.replace("\\", "")


@pytest.mark.parametrize("case", [KEPT, STORY["tour: restart: what was said stays said"]], ids=lambda case: case.name)
def test_the_notebook_proves_that_a_kept_case_is_the_same(case: Case) -> None:
    space: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for source in _cells(as_notebook(_proved(case))):
            exec(source, space)


def test_the_same_case_is_the_same_notebook() -> None:
    assert as_notebook(_proved(LINK)) == as_notebook(_proved(LINK))


@pytest.mark.skipif(shutil.which("curl") is None, reason="install curl to run the scripts that call it")
@pytest.mark.parametrize("case", [KEPT, LINK, STORY["tour: lists"]], ids=lambda case: case.name)
def test_the_script_leads_to_the_same_journal_over_http(case: Case, tmp_path: Path) -> None:
    proved = _proved(case)
    script = as_curl(proved)
    [serve] = [line for line in script.splitlines() if "leyden serve" in line]
    options = serve.split("leyden serve ")[1].replace("--port 8402 ", "").split()
    with served_leyden(*options) as client:
        done = subprocess.run(
            ["sh", "-c", script], env={"LEYDEN": client.url, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["journalHash"] == proved.journal_hash


def test_a_body_that_no_command_line_carries_comes_through_a_pipe() -> None:
    odd = Case(({"do": "odd", "operation": "createCharge", "kind": "body-not-utf8"},))
    assert "base64 -d | curl" in as_curl(_proved(odd))


def test_a_restart_cannot_be_said_in_curl() -> None:
    with pytest.raises(ExportError, match="notebook"):
        as_curl(STORY["tour: restart: everything goes on"])
