"""`leyden client-check`: a good client gets A, and each planted mistake is found in its case."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from leyden.__main__ import main
from leyden.devserver.client_check.cases import CASES
from leyden.devserver.client_check.check import ClientReport, check_client, resource, text
from tests.support.example_client import MISTAKES
from tests.support.served import ROOT

CLIENT = ROOT / "tests" / "support" / "example_client.py"


def check(mistake: str, *only: str, limit_s: float = 4) -> ClientReport:
    return check_client([sys.executable, str(CLIENT), mistake], only=only or None, limit_s=limit_s)


def verdicts(report: ClientReport) -> dict[str, str]:
    return {finding.case.name: finding.judgement.verdict for finding in report.findings}


def test_a_good_client_gets_an_a() -> None:
    report = check("good", limit_s=10)
    assert verdicts(report) == {case.name: "pass" for case in CASES}
    assert report.grade == "A"


# The mistake, its case, the grade for it, and a part of what is said about it.
PLANTED = {
    "no key": ("answer-lost", "F", "without an Idempotency-Key"),
    "new key": ("answer-lost-proxy", "F", "another Idempotency-Key"),
    "repeats refusals": ("invalid-request", "C", "4 times"),
    "ignores Retry-After": ("too-many-requests", "C", "Retry-After was 2 s"),
    "reads HTML as JSON": ("html", "C", "JSONDecodeError"),
    "logs the key": ("unauthorized", "C", "the API key"),
    "no timeout": ("slow-first-byte", "C", "still running"),
    "timeout of a read only": ("slow-body", "C", "still running"),
    "strict fields": ("unknown-fields", "C", "unexpected field"),
    "always succeeds": ("forbidden", "C", "reported success"),
    "never gives up": ("outage", "C", "still running"),
    "believes the first read": ("stale-read", "B", "gave up"),
    "ends at 409": ("key-in-use", "B", "gave up"),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_is_found(mistake: str) -> None:
    case, grade, part = PLANTED[mistake]
    report = check(mistake, case)
    assert verdicts(report)["plain"] == "pass"
    found = [finding.judgement for finding in report.findings if finding.case.name == case]
    assert any(part in judgement.found and judgement.mend for judgement in found), found
    assert report.grade == grade
    assert part in text(report)


def test_every_mistake_of_the_example_is_planted() -> None:
    assert tuple(PLANTED) == MISTAKES


def test_the_key_is_not_in_the_report() -> None:
    report = check("logs the key", "unauthorized")
    shown = json.dumps(resource(report))
    assert "(the API key)" in shown
    assert all(finding.run.key not in shown for finding in report.findings)


def test_a_command_that_fails_without_a_fault_gets_no_grade(capfd: pytest.CaptureFixture[str]) -> None:
    for program in ("import sys; sys.exit('no such shop')", "pass"):
        assert main(["client-check", "--limit", "5", "--", sys.executable, "-c", program]) == 3
    shown = capfd.readouterr().out
    assert "exit status 1: correct that first" in shown
    assert "| no such shop" in shown
    assert "creates no Charge" in shown


def test_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = ["--", sys.executable, str(CLIENT), "believes the first read"]
    file = tmp_path / "report.json"
    options = ["client-check", "--only", "stale-read", "--json", str(file)]
    assert main([*options, *command]) == 0
    assert main([*options, "--grade", "A", *command]) == 1
    assert "Grade B" in capfd.readouterr().out
    report = json.loads(file.read_text())
    assert [(case["name"], case["verdict"]) for case in report["cases"]] == [
        ("plain", "pass"),
        ("stale-read", "notice"),
    ]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "there is no command"),
        (["--only", "answer-lots", "--", "true"], "did you mean answer-lost?"),
        (["--", "/nonexistent/client"], "give a program"),
        (
            ["--json", "/nonexistent/x.json", "--only", "plain", "--", sys.executable, str(CLIENT), "good"],
            "another file",
        ),
    ],
    ids=str,
)
def test_a_wrong_argument_is_named(arguments: list[str], part: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["client-check", *arguments]) == 2
    assert part in capfd.readouterr().err


def test_the_readme_has_every_case() -> None:
    readme = (ROOT / "sim" / "devserver" / "README.md").read_text()
    for case in CASES:
        assert f"| `{case.name}` | {case.title} | {case.good} |" in readme
