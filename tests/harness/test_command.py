"""`leyden fuzz`, `leyden tour` and `leyden replay`, as people and pipelines call them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import dask
import pytest
from distributed import LocalCluster

from leyden.__main__ import main
from leyden.harness.engines.campaign import Order, campaign, share
from leyden.harness.runs.cases import read_case
from leyden.server.charges.charges import ChargeService


class Ticking:
    """Real time, as far as a test needs one: a millisecond for each look."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 1
        return self.now


def test_a_sound_service_passes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    reports = [tmp_path / f"coverage.{ending}" for ending in ("txt", "html", "json")]
    words = ["fuzz", "--engines", "walk", "--examples", "5", "--seed", "3"]
    assert main([*words, *(word for file in reports for word in ("--report", str(file)))]) == 0
    said = capsys.readouterr()
    assert "Every promise was kept" in said.out
    assert "seed 3: 5 worlds" in said.err
    assert "cells reached" in reports[0].read_text()
    assert reports[1].read_text().startswith("<!doctype html>")
    assert json.loads(reports[2].read_text())["engines"]["walk"]["runs"] == 5


def test_cover_asks_for_every_cell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--engines", "walk", "--examples", "1", "--cover"]) == 1
    assert "never reached" in capsys.readouterr().out


def test_a_broken_service_fails_with_a_case(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(ChargeService, "expire", lambda self, charge_id: None)
    words = ["fuzz", "--engines", "walk", "--examples", "200", "--overlay", "strict", "--cases", str(tmp_path)]
    assert main(words) == 1
    said = capsys.readouterr().out
    assert "Found by the walk." in said
    assert "What was promised" in said
    [file] = tmp_path.glob("*.case.json")
    assert f"See it again: leyden replay {file}" in said
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".py", ".sh", ".ipynb"}
    assert read_case(file).expectation is not None

    assert main(["replay", str(file)]) == 1
    assert ": the same" in capsys.readouterr().out
    assert main(["replay", str(file), "--export", "curl"]) == 0
    assert "curl -sS" in capsys.readouterr().out
    monkeypatch.undo()
    assert main(["replay", str(file)]) == 0
    assert "Every promise is kept now." in capsys.readouterr().out


def test_the_tour_of_one_reading(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tour", "--overlay", "payable-at-expiry"]) == 0
    assert "Every promise was kept" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["replay", "nowhere.json"], "is no case"),
        (["fuzz", "--levers", "x:y"], "at a URL"),
        (["fuzz", "http://127.0.0.1:1", "--workers", "2"], "several processes"),
        (["tour", "http://127.0.0.1:1"], "does not answer"),
        (["tour", "http://127.0.0.1:1", "--levers", "nothing"], "module:object"),
        (["tour", "http://127.0.0.1:1", "--levers", "no.such:thing"], "cannot be imported"),
    ],
)
def test_what_cannot_be_done_is_said(words: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--seconds", "0"], ["--examples", "x"], ["--seed", "-1"], ["--engines", "luck"]])
def test_nonsense_is_refused_at_once(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(["fuzz", *words])


def test_two_processes_share_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--engines", "walk", "--examples", "4", "--workers", "2"]) == 0
    assert "4 worlds" in capsys.readouterr().err


def test_a_cluster_shares_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    """With every worker that it has, each with seeds of its own."""
    rooms = {"host": "127.0.0.1", "dashboard_address": None, "n_workers": 2, "threads_per_worker": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cluster's own
        with LocalCluster(**rooms, worker_dashboard_address=None) as cluster:
            assert main(["fuzz", "--engines", "walk", "--examples", "4", "--cluster", cluster.scheduler_address]) == 0
    said = capsys.readouterr()
    assert "seed 0: 4 worlds" in said.err
    assert "Every promise was kept" in said.out


def test_a_cluster_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with dask.config.set({"distributed.comm.timeouts.connect": "200ms"}):
        assert main(["fuzz", "--engines", "walk", "--examples", "1", "--cluster", "tcp://127.0.0.1:1"]) == 1
    assert "no cluster at tcp://127.0.0.1:1" in capsys.readouterr().err
    assert main(["fuzz", "--engines", "walk", "--examples", "1", "--cluster", "nonsense://x"]) == 1
    assert "no cluster at nonsense://x" in capsys.readouterr().err


def test_shares_have_seeds_of_their_own_and_only_one_takes_the_tour() -> None:
    parts = share(Order(engines=("tour", "walk"), seed=7, examples=10), 3)
    assert [part.seed for part in parts] == [21, 22, 23]
    assert [part.engines for part in parts] == [["tour", "walk"], ["walk"], ["walk"]]
    assert {part.examples for part in parts} == {4}


def test_a_campaign_ends_when_its_time_is_over() -> None:
    report = campaign(Order(engines=("walk",), seconds=0.005), Ticking())
    assert 1 <= report.coverage.runs["walk"] <= 5


def test_findings_of_one_kind_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChargeService, "expire", lambda self, charge_id: None)
    report = campaign(Order(engines=("tour",), overlays=("no-retries",)), Ticking())
    assert report.findings == []
    report = campaign(Order(engines=("walk",), examples=12, overlays=()), Ticking())
    keys = [finding.key for finding in report.findings]
    assert keys
    assert len(keys) == len(set(keys))
