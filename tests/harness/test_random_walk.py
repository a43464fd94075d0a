"""The walk and the machine: no alarm on the service as it is, and an alarm for a service that is broken."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis.stateful import run_state_machine_as_test

import leyden.server.charges.charges
import leyden.server.charges.static_charges
import leyden.server.http.idempotency
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.engines.campaign import CampaignConfig, run_campaign
from leyden.harness.engines.random_walk import minimal, random_walk
from leyden.harness.engines.shrink import shrink
from leyden.harness.engines.state_machine import bounded, state_machine, search
from leyden.harness.model.faults import HOLDING
from leyden.harness.constants import OVERLAYS
from leyden.harness.targets.target import InProcess
from leyden.harness.runs.cases import Case, play, replay
from leyden.server.charges.charges import ChargeService
from leyden.server.charges.static_charges import StaticChargeService
from leyden.server.http.projects import Projects

DEEP = os.environ.get("LEYDEN_PROFILE") == "deep"
SEEDS = 3_000 if DEEP else 120


def test_no_alarm_on_many_seeds() -> None:
    target, alarms, observed = InProcess(), [], set()
    for seed in range(SEEDS):
        walked = random_walk(seed, target)
        observed |= set(walked.reached)
        alarms += [] if walked.violation is None else [f"seed {seed}: {walked.violation}"]
    assert alarms == []
    assert {("fault", kind) for kind in HOLDING} <= observed


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_alarm_under_any_reading(overlay: str) -> None:
    target = InProcess()
    for seed in range(SEEDS // 8):
        assert random_walk(seed, target, overlays=(overlay,)).violation is None


def test_the_machine_raises_no_alarm() -> None:
    run_state_machine_as_test(state_machine(), settings=bounded(400 if DEEP else 40, derandomize=not DEEP))


def test_the_same_seed_is_the_same_walk() -> None:
    target = InProcess()
    assert random_walk(5, target).case == random_walk(5, target).case


def test_without_disks_no_world_is_stopped_and_started() -> None:
    target = InProcess()
    cases = [random_walk(seed, target, disks=False).case for seed in range(20)]
    assert not any(case.disk or case.restarts for case in cases)
    assert any(random_walk(seed, target).case.disk for seed in range(20))


@pytest.mark.parametrize("engine", ["tour", "walk", "machine"])
def test_a_world_that_is_wrong_from_its_beginning_is_a_finding(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Projects, "_new_secret", lambda self: "whsec_c2hvcnQ=")
    order = CampaignConfig(engines=(engine,), examples=1, stop_early=True)
    [found] = run_campaign(order, lambda: 0).violations
    assert found.engine == engine
    assert found.case.steps == ()
    assert found.key == ("lifecycle", "DECISIONS control-plane")
    assert replay(found.case).same_finding


def test_what_its_steps_do_not_show_again_is_told_as_it_is() -> None:
    case = Case(({"do": "wallet"}, {"do": "wallet"}))
    violation = ContractViolation("echo", "DECISIONS wallet", "wallet", "0", "1")
    small, result = shrink(case, InProcess(), violation)
    assert small.steps == case.steps
    assert small.expectation == violation.fact() == result.fact
    assert small.journal_hash is not None


# A few ways to break the service by hand; the gallery has the others.


def _late(patch: pytest.MonkeyPatch) -> None:
    whole = ChargeService.issue

    def issue(self: Any, *, expiry_s: int, **rest: Any) -> Any:
        return whole(self, expiry_s=expiry_s + 1, **rest)

    patch.setattr(ChargeService, "issue", issue)


def _trimmed(patch: pytest.MonkeyPatch) -> None:
    told = leyden.server.charges.charges.charge_update

    def update(row: Any) -> dict[str, Any]:
        body = told(row)
        return {**body, "description": body["description"].strip()}

    patch.setattr(leyden.server.charges.charges, "charge_update", update)


def _oversold(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StaticChargeService, "disable_if_full", lambda self, charge, at: None)


def _forgetful(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        leyden.server.http.idempotency, "RETENTION_MS", leyden.server.http.idempotency.RETENTION_MS - 3_600_000
    )


def _falls_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ChargeService, "balance_msat", lambda self, project: 1 // 0)


DEFECTS: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (_late, "echo"),
    (_trimmed, "callback_contract"),
    (_oversold, "lifecycle"),
    (_forgetful, "echo"),
    (_falls_over, "errors_are_problems"),
]


def _first_alarm(target: InProcess) -> Any:
    for seed in range(2_000):
        walked = random_walk(seed, target)
        if walked.violation is not None:
            return walked
    raise AssertionError("nothing was found in 2000 worlds")


@pytest.mark.parametrize(("spoil", "check"), DEFECTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_broken_service_is_found_and_the_case_is_small(
    spoil: Callable[[pytest.MonkeyPatch], None], check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch)
    target = InProcess()
    case, result = minimal(_first_alarm(target), target)
    assert result.violation is not None
    assert len(case.steps) <= 8, case.dumps()
    again = replay(case)
    assert again.same_finding
    assert again.same_journal
    monkeypatch.undo()
    assert replay(case).result.violation is None


def test_the_machine_finds_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChargeService, "expire", lambda self, charge_id: None)
    watch = search(3, 200)
    assert watch.violation is not None
    assert watch.case is not None


def test_a_finding_is_told_as_a_story(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChargeService, "expire", lambda self, charge_id: None)
    target = InProcess()
    case, _ = minimal(_first_alarm(target), target)
    describe_violation = case.describe("leyden replay here.json")
    assert "What was done\n  1. " in describe_violation
    assert "What was promised (Charge: pending, expiry_reached -> expired)" in describe_violation
    assert "'status': 'pending'" in describe_violation
    assert describe_violation.endswith("See it again: leyden replay here.json")


def test_a_step_in_words_that_nobody_knows_is_our_own_mistake() -> None:
    with pytest.raises(KeyError):
        play(Case(({"do": "dance"},)))


def test_a_finding_says_what_differs() -> None:
    violation = ContractViolation("echo", "DECISIONS not-given", "c1", {"internalId": ""}, {"internalId": None})
    assert str(violation) == "c1: promised {'internalId': ''}, seen {'internalId': None} (DECISIONS not-given)"
    assert violation.fact()["check"] == "echo"
