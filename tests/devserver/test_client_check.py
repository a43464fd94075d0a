"""`leyden client-check`: a good client gets A, and each planted mistake is found in its case."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from leyden.__main__ import main
from leyden.devserver.client_check import mistakes
from leyden.devserver.client_check.cases import CASES
from leyden.devserver.client_check.check import ClientReport, check_client
from leyden.devserver.client_check.report import report_resource, report_text
from leyden.devserver.client_check.report_html import report_html
from leyden.devserver.client_check.runs import shows_key
from leyden.server.contract.load import default_spec, load_contract
from leyden.service_faults.kinds import KINDS
from tests.devserver.test_client_check_judgements import JUDGED
from tests.support.deep import deep, deep_except
from tests.support.encodings import encodings
from tests.support.example_client import MISTAKES
from tests.support.package_registries import unavailable
from tests.support.served import ROOT

CLIENT = ROOT / "tests" / "support" / "example_client.py"


def check(*mistakes: str, only: Sequence[str] | None = None, limit_s: float = 4) -> ClientReport:
    return check_client([sys.executable, str(CLIENT), *mistakes], only=only, limit_s=limit_s)


def verdicts(report: ClientReport) -> dict[str, str]:
    return {finding.case.name: finding.verdict for finding in report.findings}


def test_a_good_client_gets_an_a() -> None:
    report = check("good", limit_s=10)
    assert verdicts(report) == {case.name: "pass" for case in CASES}
    assert report.grade == "A"


# The mistake that is planted, the name that the report has for it, a case that shows it, the grade, and a part of what
# the case says.
PLANTED = {
    "no key": ("second-charge-without-key", "answer-lost", "F", "without an Idempotency-Key"),
    "new key": ("second-charge-with-new-key", "answer-lost-proxy", "F", "another Idempotency-Key"),
    "repeats refusals": ("repeats-refused-request", "invalid-request", "C", "4 times"),
    "ignores Retry-After": ("ignores-retry-after", "too-many-requests", "C", "Retry-After was 2 s"),
    "reads HTML as JSON": ("reads-html-as-json", "html", "C", "JSONDecodeError"),
    "logs the key": ("shows-api-key", "unauthorized", "C", "the API key"),
    "no timeout": ("no-timeout", "slow-first-byte", "C", "still running"),
    "timeout of a read only": ("no-total-timeout", "slow-body", "C", "still running"),
    "strict fields": ("rejects-unknown-fields", "unknown-fields", "C", "unexpected field"),
    "always succeeds": ("false-success", "forbidden", "C", "reported success"),
    "never gives up": ("endless-retries", "outage", "C", "still running"),
    "believes the first read": ("believes-first-read", "stale-read", "B", "its last read"),
    "ends at 409": ("ends-at-409", "key-in-use", "B", "after the 409"),
    # Found by nobody's list: each is a variant of what the cases above ask for.
    "takes a lost answer for success": ("false-success", "answer-lost", "C", "no answer said"),
    "honours Retry-After of 429 only": ("ignores-retry-after", "unavailable", "C", "Retry-After was 2 s"),
    "reads any content type": ("ignores-content-type", "wrong-content-type", "B", "text/html"),
    "takes Date for the time": ("takes-date-for-the-time", "future-date", "C", "exit status 1"),
    "polls without a pause": ("polls-without-pause", "plain", "C", "or less after an answer"),
    "logs the key in base64": ("shows-api-key", "unauthorized", "C", "the API key"),
    "logs the key first of much output": ("shows-api-key", "unauthorized", "C", "the API key"),
    "repeats 404": ("repeats-refused-request", "not-found", "C", "4 times"),
    "ends at the first failure": ("gives-up", "reset", "B", "did not repeat"),
    "retries without a pause": ("retries-without-pause", "outage", "C", "10 requests, with a median pause of"),
    "reads nothing as JSON": ("reads-nothing-as-json", "empty-body", "C", "JSONDecodeError"),
    "crashes at a reset": ("crashes", "reset", "C", "ConnectionResetError"),
    "writes the time into the body": ("key-with-another-body", "key-in-use", "C", "members that differ: description"),
    "hangs at a reset": ("does-not-end", "reset", "C", "still running"),
}
PLANTED_NAMES = list(PLANTED)
QUICK = (
    "no key",
    "new key",
    "reads HTML as JSON",
    "logs the key",
    "strict fields",
    "ends at 409",
    "crashes at a reset",
)


@pytest.mark.parametrize("mistake", deep_except(PLANTED_NAMES, *QUICK))
def test_a_planted_mistake_is_found(mistake: str) -> None:
    name, case, grade, part = PLANTED[mistake]
    report = check(mistake, only=[case])
    assert [(one.mistake.name, case in one.cases) for one in report.mistakes] == [(name, True)]
    (found,) = [finding for finding in report.findings if finding.case.name == case]
    assert any(part in judgement.found and judgement.mend for judgement in found.judgements), found
    assert report.grade == grade
    assert f"1. {name} (" in report_text(report)
    assert [one["name"] for one in report_resource(report)["mistakes"]] == [name]
    assert f"<strong>{name} (" in report_html(report)


def test_every_mistake_of_the_example_is_planted() -> None:
    assert tuple(PLANTED) == MISTAKES


def test_every_mistake_that_the_report_names_is_planted_or_judged_from_a_recorded_run() -> None:
    names = {name for name, *_ in PLANTED.values()} | {row.mistake for row in JUDGED if row.mistake is not None}
    assert names == {mistake.name for mistake in mistakes.MISTAKES}


@deep("test_a_planted_mistake_is_found")
def test_a_client_with_ten_mistakes_is_told_each_under_its_own_name() -> None:
    planted = (
        "no key", "repeats 404", "honours Retry-After of 429 only", "reads HTML as JSON", "reads nothing as JSON",
        "logs the key", "no timeout", "strict fields", "takes Date for the time", "polls without a pause",
        "reads any content type",
    )  # fmt: skip
    report = check(*planted, limit_s=3)
    names = [one.mistake.name for one in report.mistakes]
    assert {PLANTED[mistake][0] for mistake in planted} <= set(names)
    assert (names[0], names[-1]) == ("second-charge-without-key", "ignores-content-type"), "the worst first"
    assert len(set(names)) == len(names) >= 10
    assert report.grade == "F"


def test_faults_of_every_kind_have_a_case() -> None:
    assert {fault["kind"] for case in CASES for fault in case.faults} == set(KINDS)


def test_the_title_of_a_case_has_the_retry_after_of_its_answers() -> None:
    operations = load_contract(default_spec("charges")).operations
    for case in CASES:
        for spec in case.specs(10):
            wait_ms = spec.row("f", 0, operations)["retry_after_ms"]
            told = "Retry-After" if wait_ms is None else f"Retry-After: {wait_ms // 1_000}"
            assert (told in case.title) is (wait_ms is not None), case.name


# Node.js

NODE_PLANTED = (
    "no key",
    "new key",
    "repeats refusals",
    "ignores Retry-After",
    "reads HTML as JSON",
    "logs the key",
    "no timeout",
    "always succeeds",
)


def node_check(mistake: str, *only: str, limit_s: float = 4) -> ClientReport:
    if shutil.which("node") is None:
        unavailable("this test needs Node.js: install the program node")
    return check_client(["node", str(CLIENT.with_suffix(".mjs")), mistake], only=only or None, limit_s=limit_s)


@deep("test_a_planted_mistake_is_found_on_node")
def test_a_good_client_on_node_gets_an_a() -> None:
    report = node_check("good", limit_s=10)
    assert verdicts(report) == {case.name: "pass" for case in CASES}
    assert report.grade == "A"


@pytest.mark.parametrize("mistake", deep_except(NODE_PLANTED, "no key", "always succeeds"))
def test_a_planted_mistake_is_found_on_node(mistake: str) -> None:
    name, case, grade, _ = PLANTED[mistake]
    report = node_check(mistake, case)
    assert [(one.mistake.name, one.cases) for one in report.mistakes] == [(name, [case])]
    assert report.grade == grade


# The report


def test_the_page_is_whole_and_what_a_client_prints_is_inert(tmp_path: Path) -> None:
    client = tmp_path / "<img src=x onerror=alert(1)>.py"
    first = "def main() -> int:\n"
    client.write_text(CLIENT.read_text().replace(first, f"{first}    print('<script>alert(1)</script>\\u202e')\n"))
    report = check_client([sys.executable, str(client), "logs the key"], only=["unauthorized"], limit_s=5)
    page = report_html(report)
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert "\u202e" not in page
    assert all(finding.run.key not in page for finding in report.findings)
    for part in ('<div class="grade C"', "Idempotency-Key: ", "POST /v0/charges  401", 'id="unauthorized" open'):
        assert part in page


def test_the_key_is_not_in_the_report() -> None:
    report = check("logs the key", only=["unauthorized"])
    shown = json.dumps(report_resource(report))
    assert "(the API key)" in shown
    assert all(finding.run.key not in shown for finding in report.findings)


def test_the_key_is_in_no_report_in_any_encoding(tmp_path: Path) -> None:
    client = tmp_path / "client.py"
    client.write_text(
        f"import os, sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom urllib.request import urlopen\n"
        "from tests.support.encodings import encodings\n"
        "forms = [*encodings(os.environ['LEYDEN_API_KEY'])]\nprint(*forms, sep='\\n')\n"
        "try:\n    urlopen(os.environ['LEYDEN_URL'] + '/v0/charges?apikey=' + os.environ['LEYDEN_API_KEY'])\n"
        "finally:\n    raise KeyError(forms)\n"
    )
    report = check_client([sys.executable, str(client)], limit_s=20)
    shown = [report_text(report), json.dumps(report_resource(report)), report_html(report)]
    [finding] = report.findings
    assert len(finding.run.key) > 8
    for form in encodings(finding.run.key):
        assert all(form not in text for text in shown), form


def test_parts_of_the_key_are_found_in_an_output() -> None:
    key = "leyden_0123456789abcdef0123456789abcdef"
    assert shows_key(f"key {key[3:25]}", key)
    assert not shows_key(f"key {key[:10]}...{key[-4:]}", key)
    for shift in range(6):
        text = base64.b64encode(f"{'x' * shift}apikey: {key}, more".encode()).decode()
        assert shows_key(text, key), shift


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
    page = tmp_path / "report.html"
    options = ["client-check", "--only", "stale-read", "--json", str(file), "--html", str(page)]
    assert main([*options, *command]) == 0
    assert main([*options, "--grade", "A", *command]) == 1
    assert "Grade B" in capfd.readouterr().out
    assert "believes-first-read" in page.read_text()
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
        assert f"| `{case.name}` | {case.title} | {case.good} | {case.proves} |" in readme


def test_the_readme_has_every_mistake() -> None:
    readme = (ROOT / "sim" / "devserver" / "README.md").read_text()
    for mistake in mistakes.MISTAKES:
        assert f"| `{mistake.name}` | {mistake.severity} | {mistake.title} |" in readme


def test_an_interrupt_when_the_client_has_just_ended_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no process any more that could be ended."""

    def interrupted(process: subprocess.Popen[str], **_: Any) -> tuple[str, str]:
        assert process.wait(timeout=60) == 0
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        check_client([sys.executable, "-c", ""], only=["plain"])


@pytest.mark.skipif(sys.platform == "win32", reason="it has no sessions of processes")
def test_a_process_that_the_client_leaves_is_not_waited_for(tmp_path: Path) -> None:
    """It keeps the output open, and is in a session of its own, so it is not ended with the client."""
    pid = tmp_path / "pid"
    program = (
        "import subprocess, sys; print('started');"
        "left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True);"
        f"open({str(pid)!r}, 'w').write(str(left.pid))"
    )
    report = check_client([sys.executable, "-c", program], only=["plain"], limit_s=2)
    left = int(pid.read_text())
    try:
        os.kill(left, 0)  # it runs
    finally:
        os.kill(left, signal.SIGKILL)
    [finding] = report.findings
    assert finding.verdict != "pass"  # it sent no request
