"""Cases are run again from a file, from a pytest file, from a curl script and from a notebook."""

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
from leyden.__main__ import main
from leyden.harness.conformance.conformance import conformance_cases, run_cases
from leyden.harness.model.rules import OVERLAYS
from leyden.harness.obligations.derive import obligation_cases
from leyden.harness.reports.exports import ExportError, as_curl, as_notebook, as_pytest
from leyden.harness.runs.case_schema import STEP_VALIDATOR
from leyden.harness.runs.cases import Case, CaseError, play, read_case, replay, with_result
from leyden.harness.targets.target import InProcess
from tests.support.deep import deep, with_deep
from tests.support.served import run_shell, served_leyden

CASES = {case.name: case for case in conformance_cases()}
PASSING = CASES["conformance: the secret is rotated between attempts"]
STATIC = CASES["conformance: 410 stops the callbacks of one Static Charge"]


@pytest.fixture
def trimmed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A service whose callbacks trim descriptions."""
    original = leyden.server.charges.charges.charge_callback

    def update(row: Any) -> dict[str, Any]:
        return {**original(row), "description": row["description"].strip()}

    monkeypatch.setattr(leyden.server.charges.charges, "charge_callback", update)
    return monkeypatch


def _violation() -> Case:
    body = {"amount": "1000", "description": " tea ", "callbackUrl": "http://r1.inbox.localhost/hook"}
    case = Case(({"do": "create_charge", "as": "c1", "body": body}, {"do": "pay", "as": "p1", "charge": "c1"}))
    return with_result(case, play(case))


def _with_hash(case: Case) -> Case:
    return with_result(case, play(case))


def test_a_case_is_read_as_it_was_written(tmp_path: Path) -> None:
    case = _with_hash(PASSING)
    file = tmp_path / "case.json"
    file.write_text(case.dumps())
    assert read_case(file) == case
    assert json.loads(file.read_text())["start"] == "2030-01-01T00:00:00.500Z"


def test_the_former_names_of_format_1_are_read() -> None:
    document = {
        **_violation().document(),
        "leydenCase": 1,
        "steps": [
            {"do": "create_charge", "as": "c1", "by": "rival", "once": "k1", "body": {}},
            {
                "do": "list",
                "of": "charges",
                "query": {},
                "between": {"do": "create_charge", "as": "c2", "once": "k2", "body": {}},
            },
        ],
        "expectation": {"check": "echo", "clause": "DECISIONS wallet", "where": "wallet", "promised": "0", "seen": "1"},
    }
    case = read_case(document)
    assert case.steps[0] == {"do": "create_charge", "as": "c1", "by": "second", "idempotency_key": "k1", "body": {}}
    assert case.steps[1]["between"] == {"do": "create_charge", "as": "c2", "idempotency_key": "k2", "body": {}}
    assert case.expectation is not None
    assert set(case.expectation) == {"check", "ruleId", "where", "expected", "observed"}
    assert "Rule: DECISIONS wallet" in case.describe()


def test_the_former_names_of_format_2_are_read() -> None:
    document = {
        **_violation().document(),
        "leydenCase": 2,
        "steps": [
            {
                "do": "create_static",
                "as": "s1",
                "body": {"minAmount": "1000", "maxAmount": "2000", "description": "tips"},
            },
            {"do": "terms", "static": "s1", "address": False},
            {"do": "odd", "operation": "listCharges", "kind": "query-moment"},
            {"do": "odd", "operation": "listCharges", "kind": "query-unknown"},
        ],
        "expectation": None,
    }
    case = read_case(document)
    assert [step["do"] for step in case.steps] == ["create_static", "pay_request", "odd", "odd"]
    assert [step.get("kind") for step in case.steps[2:]] == ["query-timestamp", "query-unknown"]
    assert case.document()["leydenCase"] == 3
    result = play(case)
    assert (result.done, result.skipped, result.violation) == (4, 0, None)


@pytest.mark.parametrize("case", [PASSING, STATIC], ids=lambda case: case.name)
def test_a_case_has_the_same_journal_every_time(case: Case) -> None:
    replayed = replay(_with_hash(case))
    assert replayed.same_journal
    assert replayed.same_violation
    other = replay(replace(_with_hash(case), seed=2))
    assert not other.same_journal


@pytest.mark.parametrize("amount", [1_000, 0, -1, 10**30])
def test_the_amount_of_an_invoice_may_be_a_number(amount: int) -> None:
    body = {"minAmount": "1000", "maxAmount": "2000", "description": "tea"}
    static: Any = {"do": "create_static", "as": "s1", "body": body}
    invoices: list[Any] = [
        {"do": "invoice", "static": "s1", "as": "c1", "amount": one} for one in (amount, str(amount))
    ]
    number, digits = (play(Case((static, invoice))) for invoice in invoices)
    assert number.violation is digits.violation is None
    assert number.requests == digits.requests


def test_a_case_with_restarts_has_no_journal_hash() -> None:
    case = _with_hash(CASES["conformance: restart: everything continues"])
    assert case.journal_hash is None
    assert replay(case).same_violation


class Recording(InProcess):
    """A sandbox in process whose journal entries, without the requests, can be read after its end."""

    entries: list[Any]

    def end(self) -> None:
        if self._sandbox is not None:
            entries = self.sandbox.world.journal.entries()
            self.entries = [(one.at_ms, *one[2:]) for one in entries if one.kind != "request"]
        super().end()


def test_checks_change_nothing() -> None:
    """The requests of the steps alone have the same effects as with all checks between them."""
    checked, unchecked = Recording(), Recording()
    result = play(PASSING, checked)
    unchecked.begin(PASSING.seed, PASSING.start_ms, PASSING.overlays)
    for request in result.requests:
        unchecked.send(*request)
    unchecked.end()
    assert unchecked.entries == checked.entries
    assert len(unchecked.entries) > len(result.requests) >= len(PASSING.steps)


@pytest.mark.parametrize(
    ("text", "why"), [("", "no case"), ("{}", "leydenCase"), ('{"leydenCase": 1}', "lacks"), ("[]", "format")]
)
def test_a_file_that_is_no_case_is_rejected(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "case.json"
    file.write_text(text)
    with pytest.raises(CaseError, match=why):
        read_case(file)


def test_the_pytest_file_fails_with_the_report_as_long_as_the_violation_occurs(
    trimmed: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    space: dict[str, Any] = {}
    exec(compile(as_pytest(_violation()), "test_case.py", "exec"), space)
    with pytest.raises(AssertionError, match="Contract violation"):
        space["test_there_is_no_violation"]()
    trimmed.undo()
    space["test_there_is_no_violation"]()
    assert [name for name in space if name.startswith("test_")] == ["test_there_is_no_violation"]


@deep("test_the_script_has_the_same_journal_over_http")
def test_the_pytest_file_is_run_by_pytest(tmp_path: Path) -> None:
    file = tmp_path / "test_passing.py"
    file.write_text(as_pytest(_with_hash(PASSING)))
    root = Path(__file__).parents[2]
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(file)]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def _cells(notebook: str) -> list[str]:
    book = nbformat.reads(notebook, as_version=4)
    nbformat.validate(book)
    return [cell.source for cell in book.cells if cell.cell_type == "code"]


def test_the_notebook_shows_the_same_response(trimmed: pytest.MonkeyPatch) -> None:
    case = _violation()
    output = io.StringIO()
    space: dict[str, Any] = {}
    with contextlib.redirect_stdout(output):
        for source in _cells(as_notebook(case)):
            exec(source, space)
    last = output.getvalue().splitlines()[-1]
    assert '"description":"tea"' in last.replace("\\", "")


@pytest.mark.parametrize(
    "case", [PASSING, CASES["conformance: restart: 410, secrets and failures are kept"]], ids=lambda case: case.name
)
def test_the_notebook_of_a_passing_case_checks_the_journal_hash(case: Case) -> None:
    space: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for source in _cells(as_notebook(_with_hash(case))):
            exec(source, space)


def test_the_same_case_is_the_same_notebook() -> None:
    assert as_notebook(_with_hash(STATIC)) == as_notebook(_with_hash(STATIC))


@pytest.mark.skipif(shutil.which("curl") is None, reason="install curl to run the scripts that call it")
@pytest.mark.parametrize(
    "case", with_deep([PASSING, STATIC, CASES["conformance: lists"]], PASSING), ids=lambda case: case.name
)
def test_the_script_has_the_same_journal_over_http(case: Case, tmp_path: Path) -> None:
    with_hash = _with_hash(case)
    script = as_curl(with_hash)
    [serve] = [line for line in script.splitlines() if "leyden serve" in line]
    options = serve.split("leyden serve ")[1].replace("--port 8402 ", "").split()
    with served_leyden(*options) as client:
        lines = run_shell(script, client.url)
    assert json.loads(lines[-1])["journalHash"] == with_hash.journal_hash


def test_a_body_that_cannot_be_an_argument_is_read_from_a_pipe() -> None:
    odd = Case(({"do": "odd", "operation": "createCharge", "kind": "body-not-utf8"},))
    assert "base64 -d | curl" in as_curl(_with_hash(odd))


def test_a_restart_cannot_be_exported_to_curl() -> None:
    with pytest.raises(ExportError, match="notebook"):
        as_curl(CASES["conformance: restart: everything continues"])


def test_a_case_that_cannot_be_exported_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "restart.case.json"
    path.write_text(CASES["conformance: restart: everything continues"].dumps())
    assert main(["replay", str(path), "--export", "curl"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    [line] = output.err.splitlines()
    assert line.startswith(f"leyden replay: {path} cannot be exported as curl: this case restarts the service")


def test_every_step_of_the_obligations_and_of_the_conformance_run_is_one_of_a_case_file() -> None:
    for case in (*obligation_cases(), *(case for overlay in (None, *OVERLAYS) for case in run_cases(overlay))):
        for step in case.steps:
            error = next(iter(STEP_VALIDATOR.iter_errors(step)), None)
            assert error is None, (case.name, step, error.message)
