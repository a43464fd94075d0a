"""A violation of a served Leyden is shrunk there with the overlays that it has, and no error of that loses it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from leyden.__main__ import main
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.engines import campaign, schemathesis_engine, shrink
from leyden.harness.engines.campaign import run_campaign
from leyden.harness.engines.results import CampaignConfig
from leyden.harness.reports.exports import as_curl
from leyden.harness.runs.cases import Case, CaseResult, play, read_case, with_result
from leyden.harness.session.exchanges import Exchange
from leyden.harness.targets.adapter import TargetError
from leyden.harness.targets.served import HttpTarget, ServedLeyden
from leyden.harness.targets.target import Headers, InProcess, Response, Target
from leyden.server.charges.charges import ChargeService
from tests.support.served import served_leyden

SERVE = ("--rate", "0", "--api-key", "leyden", "--api-key", "second")
OVERLAYS = ("--overlay", "count-on-settle", "--overlay", "strict")


@pytest.fixture
def a_slot_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands between the harness and the service shows a slot more, once one is taken."""
    original = HttpTarget.send

    def send(self: HttpTarget, method: str, target: str, headers: Headers, body: bytes) -> Response:
        response = original(self, method, target, headers, body)
        if method == "GET" and "/static-charges/" in target and response.status == 200:
            document = response.json
            document["data"]["slots"] += document["data"].get("slots", 0) > 0
            return replace(response, body=json.dumps(document).encode())
        return response

    monkeypatch.setattr(HttpTarget, "send", send)


@pytest.mark.usefixtures("a_slot_more")
def test_a_violation_of_what_is_served_with_overlays_is_shrunk_with_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served_leyden(*SERVE, *OVERLAYS) as client:
        keys = ("--second-api-key", "second")
        assert main(["conformance", client.url, *keys, *OVERLAYS, "--cases", str(tmp_path)]) == 1
        output = capsys.readouterr().out
        assert "Contract violation" in output
        assert "Cut short" not in output
        assert "smaller case" not in output
        [path] = tmp_path.glob("*.case.json")
        case = read_case(path)
        assert set(case.overlays) == {"count-on-settle", "strict"}
        assert (case.seed, case.found_on, case.target) == (1, "served", client.url)
        assert 1 <= len(case.steps) < 11
        assert main(["replay", str(path), *keys]) == 1
    assert not case.is_reproduced


def _later(number: int, error: BaseException) -> Callable[[Case, Target], CaseResult]:
    """`play` that raises an error from this run on."""
    runs = iter(range(1_000))

    def played(case: Case, target: Target) -> CaseResult:
        if next(runs) >= number:
            raise error
        return play(case, target)

    return played


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("error", [TargetError("it is gone"), KeyError("slots"), KeyboardInterrupt()])
def test_an_error_of_a_later_run_does_not_lose_the_violation(
    number: int,
    error: BaseException,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(ChargeService, "expire", lambda self, charge_id: None)
    monkeypatch.setattr(shrink, "play", _later(number, error))
    words = ["fuzz", "--engines", "conformance", "--overlay", "payable-at-expiry", "--cases", str(tmp_path)]
    assert main(words) == 1
    output = capsys.readouterr().out
    assert "Contract violation" in output
    [path] = tmp_path.glob("*.case.json")
    case = read_case(path)
    assert case.expectation is not None
    assert case.overlays == ("payable-at-expiry",)
    assert case.steps
    if isinstance(error, KeyboardInterrupt):
        assert "Cut short: it was interrupted" in output
    else:
        text = "it is gone" if isinstance(error, TargetError) else "KeyError: 'slots'"
        assert f"not checked: whether a smaller case has the violation of {case.expectation['check']}: {text}" in output


@pytest.mark.usefixtures("a_slot_more")
def test_a_service_that_is_gone_after_a_violation_does_not_lose_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor the requests that were made, nor where it was found."""
    with served_leyden(*SERVE, "--overlay", "count-on-settle") as client:
        found = []

        def play_and_end(target: Target, overlays: object, *, seed: int) -> object:
            for result in run_conformance(target, ("count-on-settle",), seed=seed):
                found.append(result)
                monkeypatch.setattr(HttpTarget, "send", _gone)
                yield result

        run_conformance = campaign.run_conformance
        monkeypatch.setattr(campaign, "run_conformance", play_and_end)
        config = CampaignConfig(("conformance",), stop_early=True, make=lambda: ServedLeyden(client.url))
        report = run_campaign(config, lambda: 0)
    [violation] = report.violations
    assert violation.case.steps == found[0].case.steps
    assert violation.case.overlays == ("count-on-settle",)
    assert (violation.case.found_on, violation.case.target) == ("served", client.url)
    assert [_without_headers(one) for one in violation.exchanges] == [
        _without_headers(one) for one in found[0].exchanges
    ]
    assert violation.exchanges
    assert any("does not respond" in what for what in report.coverage.unchecked)


def _without_headers(one: Exchange) -> tuple[object, ...]:
    """A report masks the API key."""
    return one.request.method, one.request.path, one.request.body, one.response, one.at_ms


def _gone(self: HttpTarget, *_: object) -> Response:
    raise TargetError(f"{self.url} does not respond: it is gone")


def test_the_command_for_what_schemathesis_found_has_the_overlays_and_the_url(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    violation = ContractViolation("echo", "DECISIONS wallet", "wallet", "0", "1")

    def found(config: CampaignConfig, target: Target) -> object:
        case = Case((), overlays=config.overlays or (), name="schemathesis links, seed 7")
        yield CaseResult(replace(case, expectation=violation.as_dict()), violation)

    monkeypatch.setattr(schemathesis_engine, "run_schemathesis", found)
    words = ["fuzz", "--engines", "schemathesis", "--overlay", "strict", "--overlay", "no-retries", "--seed", "7"]
    assert main([*words, "http://127.0.0.1:1", "--adapter", "none", "--cases", str(tmp_path)]) == 1
    assert (
        "Replay: leyden fuzz --engines schemathesis --overlay strict --overlay no-retries --seed 7 http://127.0.0.1:1"
        " --adapter none\n"
    ) in capsys.readouterr().out


def test_a_replay_without_the_second_api_key_says_what_it_did_not_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create = {"do": "create_charge", "as": "c1", "body": {"amount": "1000", "description": "tea"}}
    case = Case((create, {"do": "get", "what": "c1", "by": "second"}), overlays=("strict",))
    script = as_curl(with_result(case, play(case)))
    assert re.search(r"leyden serve .*--api-key leyden --api-key second .*--overlay strict", script)
    violation = {"check": "echo", "ruleId": "R", "where": "get", "expected": "404", "observed": "200"}
    path = tmp_path / "second.case.json"
    path.write_text(replace(with_result(case, play(case), InProcess()), expectation=violation).dumps())
    with served_leyden(*SERVE, "--overlay", "strict") as client:
        assert main(["replay", str(path), client.url]) == 0
        assert "not checked: isolation of projects: give --second-api-key" in capsys.readouterr().out
        assert main(["replay", str(path), client.url, "--second-api-key", "second"]) == 0
        assert "not checked" not in capsys.readouterr().out
