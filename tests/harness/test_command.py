"""The commands `leyden fuzz`, `leyden conformance` and `leyden replay`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from leyden.__main__ import main
from leyden.harness.engines import campaign, obligations
from leyden.harness.engines.campaign import run_campaign, split
from leyden.harness.engines.results import CampaignConfig
from leyden.harness.engines.state_machine import search
from leyden.harness.obligations import derive
from leyden.harness.reports import coverage
from leyden.harness.runs.cases import CaseResult, read_case
from leyden.harness.runs.run import Run
from leyden.harness.targets.target import InProcess
from leyden.server.charges.charges import ChargeService
from leyden.server.contract.document.yaml_loader import read_yaml
from leyden.server.contract.load import default_spec, load_contract
from leyden.server.system.stop_signals import STOP_SIGNALS
from tests.support.deep import deep, deep_except


class Ticking:
    """A system clock that advances by a millisecond at each call."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 1
        return self.now


def test_a_service_without_defects_passes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    reports = [tmp_path / f"coverage.{ending}" for ending in ("txt", "html", "json")]
    words = ["fuzz", "--engines", "random-walk", "--examples", "5", "--seed", "3"]
    assert main([*words, *(word for file in reports for word in ("--report", str(file)))]) == 0
    output = capsys.readouterr()
    assert "no violations" in output.out
    assert "seed 3: 5 runs" in output.err
    assert "coverage items reached" in reports[0].read_text()
    assert reports[1].read_text().startswith("<!doctype html>")
    assert json.loads(reports[2].read_text())["engines"]["random-walk"]["runs"] == 5


def test_full_coverage_requires_every_item(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--engines", "random-walk", "--examples", "1", "--require-full-coverage"]) == 1
    assert "were not reached" in capsys.readouterr().out


def test_a_defective_service_fails_with_a_case(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(ChargeService, "expire", lambda self, charge_id: None)
    folder = tmp_path / "cases"
    words = ["fuzz", "--engines", "random-walk", "--examples", "200", "--overlay", "strict", "--cases", str(folder)]
    assert main(words) == 1
    output = capsys.readouterr().out
    assert "Found by random-walk." in output
    assert "Rule: " in output
    assert folder.stat().st_mode & 0o777 == 0o700  # a case may have what a service answered
    [file] = folder.glob("*.case.json")
    assert f"Replay: leyden replay {file}" in output
    assert {path.suffix for path in folder.iterdir()} == {".json", ".py", ".sh", ".ipynb"}
    assert read_case(file).expectation is not None

    assert main(["replay", str(file)]) == 1
    assert ": the same" in capsys.readouterr().out
    assert main(["replay", str(file), "--export", "curl"]) == 0
    assert "curl -sS" in capsys.readouterr().out
    monkeypatch.undo()
    assert main(["replay", str(file)]) == 0
    assert "The violation does not occur any more." in capsys.readouterr().out


def test_the_conformance_run_of_one_overlay(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "--overlay", "payable-at-expiry"]) == 0
    output = capsys.readouterr().out
    assert " coverage items, no violations in them\n" in output
    assert "Declared coverage items that were not reached: 1" in output
    assert "\n  Operations and statuses: createStaticCharge 200\n" in output
    assert main(["conformance", "--overlay", "payable-at-expiry", "--require-full-coverage"]) == 1


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--report", "/nonexistent/report.html"], "No such file or directory"),
        (["--report", "."], "must end with one of .txt, .html, .json, .md"),
        (["--report", "report.pdf"], "must end with one of .txt, .html, .json, .md"),
        (["--report", "folder.txt"], "Is a directory"),
        (["--report", "page.md"], "page.md"),
        (["--cases", "file/below"], "is no directory"),
        (["--cases", "loop"], "is no directory"),
        pytest.param(
            ["--cases", "/proc/below"],
            "is no directory",
            marks=pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc"),
        ),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_run(
    options: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.txt").mkdir()
    Path("file").touch()
    Path("loop").symlink_to("loop")
    Path("page.md").write_text("no markers")
    monkeypatch.setattr("leyden.harness.command.run_campaign", lambda *_: pytest.fail("the run has started"))
    assert main(["fuzz", "--seconds", "60", *options]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert why in line


@pytest.mark.parametrize("number", deep_except([*STOP_SIGNALS], signal.SIGTERM))
@pytest.mark.parametrize("after_s", deep_except([0.7, 4.0], 0.7))
def test_a_stop_signal_ends_all_workers(after_s: float, number: signal.Signals) -> None:
    """As a terminal sends it, to every process, and twice."""
    command = [sys.executable, "-m", "leyden", "fuzz", "--seconds", "600", "--workers", "2"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    for _ in range(2):
        time.sleep(after_s)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in out + err
    assert process.returncode == 3
    assert "it was interrupted" in out if after_s > 1 else "interrupted" in out + err


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("words", "after_s"),
    deep_except(
        [
            (words, after_s)
            for words in (["conformance", "--deep"], ["fuzz", "--seconds", "600", "--workers", "2"])
            for after_s in (0, 0.3, 2.5)
        ],
        (["fuzz", "--seconds", "600", "--workers", "2"], 0.3),
    ),
)
def test_several_stop_signals_at_once_are_one(words: list[str], after_s: float) -> None:
    """A terminal and a supervisor may each send theirs."""
    with subprocess.Popen(
        [sys.executable, "-m", "leyden", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            _wait_for_handlers(process.pid)
            time.sleep(after_s)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
                process.send_signal(number)
                time.sleep(0.01)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert "Traceback" not in out + err
    assert process.returncode == 3
    assert "interrupted" in out + err


def test_a_run_during_which_the_process_was_told_to_stop_has_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python or a library may have discarded the interrupt, and the run went on."""
    asked = iter([False, False, True])
    monkeypatch.setattr(campaign, "is_stopping", lambda: next(asked))

    report = run_campaign(CampaignConfig(engines=("conformance",)), lambda: 0)
    assert (report.coverage.runs.total(), report.violations) == (2, [])
    assert report.cut_short == "it was interrupted"


def test_an_interrupted_run_of_the_state_machine_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service may have made a step that the model has not."""
    original, checked = Run.do, []

    def interrupted(self: Run, step: Any) -> None:
        original(self, step)
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "do", interrupted)
    monkeypatch.setattr(Run, "final_checks", lambda self: checked.append(self))
    with pytest.raises(KeyboardInterrupt):
        search(1, 5)
    assert checked == []


def _wait_for_handlers(pid: int) -> None:
    """Until the process handles SIGTERM: before, Python itself starts."""
    while True:
        [caught] = re.findall(r"SigCgt:\s+([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text())
        if int(caught, 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.005)


@deep("test_a_stop_signal_ends_all_workers")
def test_workers_end_with_their_command() -> None:
    command = [sys.executable, "-m", "leyden", "fuzz", "--seconds", "600", "--workers", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    time.sleep(4)
    process.kill()
    process.communicate(timeout=60)  # at the end of the last process with these pipes
    assert process.returncode == -signal.SIGKILL


@deep("test_the_conformance_run_of_one_overlay")
def test_what_an_edited_document_declares_and_no_case_reaches_is_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The document has a new response and a new transition."""
    document = read_yaml(default_spec("charges").read_bytes(), "charges.openapi.yaml")
    responses = document["paths"]["/v0/wallet"]["get"]["responses"]
    responses["409"] = document["paths"]["/v0/charges"]["post"]["responses"]["409"]
    rows = document["components"]["schemas"]["Charge"]["properties"]["status"]["x-lifecycle"]
    [row] = [one for one in rows if (one["from"], one["trigger"]) == ("expired", "invoice_failed")]
    del row["refuse"], row["because"]
    row["to"] = "error"
    edited = load_contract(document, known_as="charges.openapi.yaml")
    monkeypatch.setattr(coverage, "packaged_contract", lambda name, overlays=(): edited)
    results: list[CaseResult] = []
    original = campaign.run_conformance

    def once(*given: Any, **options: Any) -> Iterator[CaseResult]:
        results.extend([] if results else original(*given, **options))
        return iter(results)

    monkeypatch.setattr(campaign, "run_conformance", once)
    assert main(["conformance"]) == 0
    output = capsys.readouterr().out
    assert "coverage items that were not reached: 2\n" in output
    assert "\n  Lifecycle rows: Charge: expired, invoice_failed -> error\n" in output
    assert "\n  Operations and statuses: getWallet 409\n" in output
    assert main(["conformance", "--require-full-coverage"]) == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["replay", "nowhere.json"], "nowhere.json does not exist: give the path of a case file"),
        (["replay", "."], ". cannot be read: Is a directory"),
        (["fuzz", "--adapter", "x:y"], "at a URL"),
        (["fuzz", "http://127.0.0.1:1", "--workers", "2"], "several processes"),
        (["conformance", "http://127.0.0.1:1"], "does not respond"),
        (["conformance", "http://127.0.0.1:1", "--adapter", "nothing"], "module:object"),
        (["conformance", "http://127.0.0.1:1", "--adapter", "no.such:thing"], "cannot be imported"),
    ],
)
def test_options_that_cannot_be_used_are_reported(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == (3 if why == "does not respond" else 2)
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--seconds", "0"], ["--examples", "x"], ["--seed", "-1"], ["--engines", "unknown"]])
def test_invalid_values_are_rejected(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(["fuzz", *words])


def test_two_processes_share_a_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--engines", "random-walk", "--examples", "4", "--workers", "2"]) == 0
    assert "4 runs" in capsys.readouterr().err


@deep("test_two_processes_share_a_campaign")
def test_a_cluster_shares_a_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    """All its workers take part, each with its own seeds."""
    from distributed import LocalCluster  # here: every worker of pytest-xdist imports this file

    workers = {"host": "127.0.0.1", "dashboard_address": None, "n_workers": 2, "threads_per_worker": 1}
    with warnings.catch_warnings(), mock.patch.dict(os.environ):  # dask sets variables
        warnings.simplefilter("ignore")  # of the cluster itself
        with LocalCluster(**workers, worker_dashboard_address=None) as cluster:
            assert (
                main(["fuzz", "--engines", "random-walk", "--examples", "4", "--cluster", cluster.scheduler_address])
                == 0
            )
    output = capsys.readouterr()
    assert "seed 0: 4 runs" in output.err
    assert "no violations" in output.out


def test_a_missing_cluster_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    import dask  # here: every worker of pytest-xdist imports this file
    import distributed  # noqa: F401 - its settings are changed

    with dask.config.set({"distributed.comm.timeouts.connect": "200ms"}):
        assert main(["fuzz", "--engines", "random-walk", "--examples", "1", "--cluster", "tcp://127.0.0.1:1"]) == 2
    assert "no cluster at tcp://127.0.0.1:1" in capsys.readouterr().err
    assert main(["fuzz", "--engines", "random-walk", "--examples", "1", "--cluster", "nonsense://x"]) == 2
    assert "no cluster at nonsense://x" in capsys.readouterr().err


def test_parts_have_their_own_seeds_and_only_one_has_the_conformance_run() -> None:
    parts = split(CampaignConfig(engines=("conformance", "random-walk"), seed=7, examples=10), 3)
    assert [part.seed for part in parts] == [21, 22, 23]
    assert [part.engines for part in parts] == [["conformance", "random-walk"], ["random-walk"], ["random-walk"]]
    assert {part.examples for part in parts} == {4}


def test_a_campaign_ends_at_its_time_limit() -> None:
    report = run_campaign(CampaignConfig(engines=("random-walk",), seconds=0.005), Ticking())
    assert 1 <= report.coverage.runs["random-walk"] <= 5


@deep("test_a_defective_service_fails_with_a_case")
def test_violations_with_one_key_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChargeService, "expire", lambda self, charge_id: None)
    report = run_campaign(CampaignConfig(engines=("conformance",), overlays=("no-retries",)), Ticking())
    assert report.violations == []
    report = run_campaign(CampaignConfig(engines=("random-walk",), examples=12, overlays=()), Ticking())
    keys = [found.key for found in report.violations]
    assert keys
    assert len(keys) == len(set(keys))


@deep("test_the_conformance_run_of_one_overlay")
def test_the_deep_conformance_run_counts_the_obligations_and_names_those_not_tested(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = next(one for one in derive.all_obligations() if one.id.startswith("getWallet header.apikey key absent"))
    monkeypatch.setattr(campaign, "run_conformance", lambda *_, **__: iter(()))
    monkeypatch.setattr(obligations, "obligation_cases", lambda *_: derive.obligation_cases([asked]))
    monkeypatch.setattr(campaign, "declared_obligations", lambda: (asked.id,))
    monkeypatch.setattr(coverage, "declared", list)
    report = tmp_path / "coverage.json"
    words = ["conformance", "--deep", "--require-full-coverage", "--report", str(report)]
    assert main(words) == 0
    assert "1 of 1 obligations of the documents tested" in capsys.readouterr().out
    assert json.loads(report.read_text())["obligations"] == {"declared": 1, "notTested": []}
    monkeypatch.setattr(campaign, "declared_obligations", lambda: (asked.id, "createCharge body.colour keyword:not"))
    assert main(words) == 1
    output = capsys.readouterr().out
    assert "1 of 2 obligations of the documents tested" in output
    assert "not tested: createCharge body.colour keyword:not" in output


@deep("test_two_processes_share_a_campaign")
def test_the_processes_of_a_campaign_share_the_obligations() -> None:
    parts = split(CampaignConfig(engines=("conformance", "obligations"), examples=1), 3)
    assert [(part.engines, part.part) for part in parts] == [
        (["conformance", "obligations"], (0, 3)), (["obligations"], (1, 3)), (["obligations"], (2, 3)),
    ]  # fmt: skip
    names = [result.case.name for part in parts for result in obligations.run_obligations(part, InProcess(), None)]
    assert len(set(names)) == 3
