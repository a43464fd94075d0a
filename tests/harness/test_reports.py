"""Reports of a campaign: their formats, what ends a campaign early, and the exit statuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from leyden.__main__ import main
from leyden.harness.constants import REPORT_FORMATS
from leyden.harness.engines import campaign
from leyden.harness.engines.campaign import run_campaign
from leyden.harness.engines.results import CampaignConfig
from leyden.harness.reports.coverage import Coverage
from leyden.harness.reports.formats import FORMATS
from leyden.harness.reports.results import CampaignReport, FoundViolation
from leyden.harness.runs.cases import Case, CaseResult
from leyden.harness.targets.adapter import TargetError
from leyden.server.charges.charges import ChargeService
from tests.support.served import served_leyden

EVERY = [f"report{ending}" for name, ending in REPORT_FORMATS.items() if name != "markdown"]


@pytest.fixture
def defective(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Charge expires."""
    monkeypatch.setattr(ChargeService, "expire", lambda self, charge_id: None)


@pytest.fixture
def a_few_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """The conformance run of one overlay, which is short."""
    original = campaign.run_conformance
    monkeypatch.setattr(
        campaign,
        "run_conformance",
        lambda target, overlays, *, seed: original(target, ("payable-at-expiry",), seed=seed),
    )


@pytest.mark.usefixtures("defective", "a_few_cases")
def test_every_format_has_the_violation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for name in EVERY for word in ("--report", str(tmp_path / name))]
    assert main(["conformance", *words]) == 1
    capsys.readouterr()
    texts = {name.partition(".")[2]: (tmp_path / name).read_text() for name in EVERY}

    for form in ("txt", "html"):
        assert "Contract violation (lifecycle: " in texts[form]
        assert "Found by conformance." in texts[form]
    document = json.loads(texts["json"])
    assert document["cutShort"] is None
    assert document["violations"][0]["case"]["expectation"]["check"] == "lifecycle"
    assert document["items"]

    root = ElementTree.fromstring(texts["xml"])
    assert int(root.get("failures", 0)) == len(root.findall(".//failure")) >= 1
    assert int(root.get("tests", 0)) > int(root.get("failures", 0))
    [first, *_] = root.findall(".//failure")
    assert first.get("type") == "lifecycle"
    assert "Expected" in (first.text or "")

    log = json.loads(texts["har"])["log"]
    assert log["version"] == "1.2"
    [entry, *_] = log["entries"]
    assert entry["pageref"] == log["pages"][0]["id"]
    assert entry["request"]["method"] == "POST"
    assert entry["request"]["url"].endswith("charges")
    assert json.loads(entry["request"]["postData"]["text"])["description"]
    assert entry["response"]["status"] == 200
    assert json.loads(entry["response"]["content"]["text"])["success"] is True
    assert entry["startedDateTime"].startswith("20")

    [annotation, *_] = texts["github"].splitlines()
    assert annotation.startswith("::error title=lifecycle%3A ")
    assert "%0A" in annotation


def test_the_formats_have_one_name_in_the_options_and_in_the_code() -> None:
    assert list(FORMATS) == list(REPORT_FORMATS)


@pytest.mark.usefixtures("a_few_cases")
def test_a_report_without_violations_is_printed_in_a_format(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["conformance", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["violations"] == []
    file = tmp_path / "results.out"
    assert main(["conformance", "--format", "junit", "--report", str(file)]) == 0
    root = ElementTree.fromstring(file.read_text())
    assert root.get("failures") == "0"
    assert len(root.findall("testsuite[@name='leyden conformance']/testcase")) > 1


def test_an_unknown_format_is_refused_with_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["conformance", "--format", "pdf"])
    assert refused.value.code == 2
    assert "text, html, json, markdown, junit, har, github" in capsys.readouterr().err


def test_texts_from_the_service_are_escaped() -> None:
    """No text of a service ends an annotation, an XML element or a line."""
    expectation = {
        "check": "echo",
        "ruleId": "a%b,c:d",
        "where": "c1\x00</failure>",
        "expected": "\ud800",
        "observed": "\n::error::x",
    }
    coverage = Coverage()
    coverage.add("random-walk", "random-walk-1", ())
    found = FoundViolation("random-walk", Case((), name="\x1b[31m", expectation=expectation))
    report = CampaignReport(coverage, [found])
    root = ElementTree.fromstring(FORMATS["junit"](report))
    assert root.find(".//failure") is not None
    lines = FORMATS["github"](report).splitlines()
    assert [line.startswith("::") for line in lines] == [True] * len(lines)
    assert sum("error" in line.split(" ")[0] for line in lines) == 1
    assert lines[0].startswith("::error title=echo%3A a%25b%2Cc%3Ad::")


# The end of a campaign


class Ticking:
    """A system clock that advances by a second at each call."""

    def __init__(self) -> None:
        self._times = count(0, 1_000)

    def __call__(self) -> int:
        return next(self._times)


def test_a_conformance_run_that_the_time_limit_ends_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("leyden.harness.command.system_time_ms", Ticking())
    file = tmp_path / "report.txt"
    assert main(["fuzz", "--engines", "conformance", "--seconds", "2", "--report", str(file)]) == 3
    for lines in (capsys.readouterr().out.splitlines(), file.read_text().splitlines()):
        for line in (lines[0], lines[-1]):
            assert line.startswith("Cut short: the time limit of 2 s ended conformance before all runs were made")
        assert "no violations in them" in lines[-1]


def test_a_time_limit_that_only_ends_a_search_without_an_end_is_no_cut() -> None:
    assert run_campaign(CampaignConfig(engines=("random-walk",), seconds=1), Ticking()).cut_short == ""
    limited = CampaignConfig(engines=("random-walk",), seconds=1, examples=1_000)
    assert run_campaign(limited, Ticking()).cut_short.startswith("the time limit of 1 s ended random-walk")


@pytest.mark.parametrize(
    ("error", "why"),
    [(TargetError("it does not respond"), "it does not respond"), (KeyboardInterrupt(), "interrupted")],
)
def test_a_target_that_ends_in_a_campaign_cuts_it_short(
    error: BaseException, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def once(*given: Any, **options: Any) -> Iterator[CaseResult]:
        yield CaseResult(Case(()))
        raise error

    monkeypatch.setattr(campaign, "run_conformance", once)
    report = run_campaign(CampaignConfig(engines=("conformance",)), Ticking())
    assert why in report.cut_short
    assert report.coverage.runs["conformance"] == 1


def test_a_target_that_cannot_be_tested_is_exit_status_3(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong API key is reported as such, for both keys, and for another implementation too."""
    with served_leyden("--rate", "0") as client:
        for words, option in (
            (["--api-key", "wrong"], "--api-key"),
            (["--second-api-key", "wrong"], "--second-api-key"),
            (["--api-key", "wrong", "--adapter", "none"], "--api-key"),
        ):
            assert main(["conformance", client.url, *words]) == 3
            error = capsys.readouterr().err
            assert "refused the API key: the key (5 characters) is unknown" in error
            assert f"; give the key with {option}\n" in error
    with served_leyden("--rate", "0", "--no-control") as client:
        assert main(["conformance", client.url]) == 3
        said = "does not answer GET /sandbox/v1 as the control plane of Leyden does (the status is 404): give the URL"
        assert said in capsys.readouterr().err
    assert main(["conformance", client.url]) == 3
    assert "does not respond" in capsys.readouterr().err
