"""A campaign in several processes: how many there are, what ends them, and what they show meanwhile."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import pytest

from leyden.__main__ import main
from leyden.harness import command
from leyden.harness.engines.campaign import split
from leyden.harness.engines.processes import available_cores, run_in_processes
from leyden.harness.engines.results import CampaignConfig
from leyden.harness.reports.results import CampaignReport
from leyden.harness.targets.target import Headers, InProcess, Response


class WithoutMedia(InProcess):
    """A sandbox whose responses have no media type."""

    def send(self, method: str, target: str, headers: Headers, body: bytes) -> Response:
        response = super().send(method, target, headers, body)
        return replace(response, headers={**response.headers, "content-type": ""})


@pytest.mark.parametrize(
    ("words", "workers"),
    [
        (["fuzz"], 3),
        (["fuzz", "--seconds", "5"], 3),
        (["fuzz", "--seconds", "5", "--workers", "1"], 1),
        (["fuzz", "--seconds", "5", "--workers", "2"], 2),
        (["fuzz", "--examples", "5"], 1),  # the same runs on each machine
        (["fuzz", "--seconds", "5", "--engines", "conformance"], 1),
        (["conformance"], 1),
        (["conformance", "--deep"], 3),
    ],
)
def test_a_campaign_that_a_time_or_the_obligations_limit_has_a_process_for_each_core(
    words: list[str], workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []

    def note(parts: int) -> CampaignReport:
        begun.append(parts)
        return CampaignReport()

    monkeypatch.setattr(command, "available_cores", lambda: 3)
    monkeypatch.setattr(command, "run_in_processes", lambda parts, progress: note(len(parts)))
    monkeypatch.setattr(command, "run_campaign", lambda config, now, progress: note(1))
    assert main(words) == 0
    assert begun == [workers]


def test_the_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 5}, raising=False)
    assert available_cores() == 2


@pytest.mark.parametrize("stop_early", [True, False])
def test_the_first_violation_ends_the_processes_if_it_ends_the_campaign(stop_early: bool) -> None:
    """One of them tests a defective service. The other one would run for ten minutes, or has 4 runs."""
    config = CampaignConfig(engines=("random-walk",), stop_early=stop_early)
    config = replace(config, seconds=600) if stop_early else replace(config, examples=8)
    defective, other = split(config, 2)
    shown: list[Sequence[int]] = []
    report = run_in_processes([replace(defective, make=WithoutMedia), other], shown.append)
    assert report.violations
    assert not report.cut_short
    assert not report.incomplete
    assert report.coverage.runs["random-walk"] == 8 or stop_early
    assert all(len(counts) == 3 for counts in shown)
    assert shown == sorted(shown)
