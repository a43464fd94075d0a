"""The random walk and the state machine report no violation of the service, and find injected defects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis.stateful import run_state_machine_as_test

import leyden.server.charges.charges
import leyden.server.charges.static_charges
import leyden.server.http.idempotency
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.engines.campaign import run_campaign
from leyden.harness.engines.random_walk import random_walk
from leyden.harness.engines.results import CampaignConfig
from leyden.harness.engines.shrink import shrink
from leyden.harness.engines.state_machine import search, search_settings, state_machine
from leyden.harness.generators import existing
from leyden.harness.generators.generators import LARGE, ROWS, random_run_config
from leyden.harness.model.dates import instant_of
from leyden.harness.model.faults import HOLDING
from leyden.harness.model.model import Model
from leyden.harness.model.rules import OVERLAYS, Interpretation
from leyden.harness.runs.cases import Case, play, replay
from leyden.harness.runs.describe import describe_step
from leyden.harness.targets.target import InProcess
from leyden.rng import RandomStreams
from leyden.server.charges.charges import ChargeService
from leyden.server.charges.static_charges import StaticChargeService
from leyden.server.http.projects import Projects
from tests.support.deep import deep, deep_except, deep_or

# Three of the bounded seeds reach the faults that hold something.
SEEDS = deep_or(bounded=(*range(13), 21, 40, 57), full=range(80), random=range(3_000))


def test_there_is_no_violation_on_many_seeds() -> None:
    target, violations, reached = InProcess(), [], set()
    for seed in SEEDS:
        walked = random_walk(seed, target)
        reached |= set(walked.reached)
        violations += [] if walked.violation is None else [f"seed {seed}: {walked.violation}"]
    assert violations == []
    assert {("fault", kind) for kind in HOLDING} <= reached


@pytest.mark.parametrize("overlay", deep_except(OVERLAYS, "strict", "no-retries"))
def test_there_is_no_violation_with_any_overlay(overlay: str) -> None:
    target = InProcess()
    for seed in range(len(SEEDS) // 8):
        assert random_walk(seed, target, overlays=(overlay,)).violation is None


def test_the_state_machine_finds_no_violation() -> None:
    number = deep_or(bounded=10, full=40, random=400)
    random = deep_or(bounded=False, full=False, random=True)
    run_state_machine_as_test(state_machine(), settings=search_settings(number, derandomize=not random))


def test_the_same_seed_is_the_same_random_walk() -> None:
    target = InProcess()
    assert random_walk(5, target).case == random_walk(5, target).case


@deep("test_the_same_seed_is_the_same_random_walk")
def test_without_disks_there_are_no_restarts() -> None:
    target = InProcess()
    cases = [random_walk(seed, target, disks=False).case for seed in range(20)]
    assert not any(case.disk or case.restarts for case in cases)
    assert any(random_walk(seed, target).case.disk for seed in range(20))


@pytest.mark.parametrize("engine", ["conformance", "random-walk", "state-machine"])
def test_a_violation_at_the_start_of_a_run_is_found(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Projects, "_new_secret", lambda self: "whsec_c2hvcnQ=")
    order = CampaignConfig(engines=(engine,), examples=1, stop_early=True)
    [found] = run_campaign(order, lambda: 0).violations
    assert found.engine == engine
    assert found.case.steps == ()
    assert found.key == ("lifecycle", "DECISIONS control-plane")
    assert replay(found.case).same_violation


def test_a_violation_that_its_steps_do_not_reproduce_is_reported_as_it_is() -> None:
    case = Case(({"do": "wallet"}, {"do": "wallet"}))
    violation = ContractViolation("echo", "DECISIONS wallet", "wallet", "0", "1")
    small, result = shrink(case, InProcess(), violation)
    assert small.steps == case.steps
    assert small.expectation == violation.as_dict() == result.expectation
    assert small.journal_hash is None
    assert not small.is_reproduced


# A few defects; tests/seeded_defects has the others.


def _expires_late(patch: pytest.MonkeyPatch) -> None:
    original = ChargeService.issue

    def issue(self: Any, *, expiry_s: int, **rest: Any) -> Any:
        return original(self, expiry_s=expiry_s + 1, **rest)

    patch.setattr(ChargeService, "issue", issue)


def _trims_descriptions(patch: pytest.MonkeyPatch) -> None:
    original = leyden.server.charges.charges.charge_callback

    def update(row: Any) -> dict[str, Any]:
        body = original(row)
        return {**body, "description": body["description"].strip()}

    patch.setattr(leyden.server.charges.charges, "charge_callback", update)


def _sells_too_many_slots(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StaticChargeService, "disable_if_full", lambda self, charge, at: None)


def _forgets_keys_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        leyden.server.http.idempotency, "RETENTION_MS", leyden.server.http.idempotency.RETENTION_MS - 3_600_000
    )


def _raises_an_exception(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ChargeService, "balance_msat", lambda self, project: 1 // 0)


DEFECTS: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (_expires_late, "echo"),
    (_trims_descriptions, "callback_contract"),
    (_sells_too_many_slots, "lifecycle"),
    (_forgets_keys_early, "echo"),
    (_raises_an_exception, "errors_are_problems"),
]


def _first_violation(target: InProcess) -> Any:
    for seed in range(2_000):
        walked = random_walk(seed, target)
        if walked.violation is not None:
            return walked
    raise AssertionError("no violation in 2000 runs")


@pytest.mark.parametrize(
    ("inject", "check"),
    deep_except(DEFECTS, _expires_late, _raises_an_exception),
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_defect_is_found_with_a_small_case(
    inject: Callable[[pytest.MonkeyPatch], None], check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inject(monkeypatch)
    target = InProcess()
    walked = _first_violation(target)
    case, result = shrink(walked.case, target, walked.violation)
    assert result.violation is not None
    assert len(case.steps) <= 8, case.dumps()
    again = replay(case)
    assert again.same_violation
    assert again.same_journal
    monkeypatch.undo()
    assert replay(case).result.violation is None


def test_the_state_machine_finds_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChargeService, "expire", lambda self, charge_id: None)
    found = search(3, 200)
    assert found.violation is not None
    assert found.case is not None


def test_a_violation_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChargeService, "expire", lambda self, charge_id: None)
    target = InProcess()
    walked = _first_violation(target)
    case, _ = shrink(walked.case, target, walked.violation)
    report = case.describe("leyden replay here.json")
    assert "Steps\n  1. " in report
    assert "Rule: Charge: pending, expiry_reached -> expired" in report
    assert "'status': 'pending'" in report
    assert report.endswith("Replay: leyden replay here.json")


@pytest.mark.parametrize(
    ("by", "text"),
    [(0, "0"), (1, "0.001"), (353_736_500, "353736.5"), (123_456_789, "123456.789"), (2_592_000_001, "2592000.001"),
     (60_000, "60"), (1_010, "1.01")],
)  # fmt: skip
def test_a_described_advance_has_every_millisecond(by: int, text: str) -> None:
    assert describe_step({"do": "advance", "by": by}) == f"advance the clock by {text} s"


def test_an_unknown_step_raises_a_key_error() -> None:
    with pytest.raises(KeyError):
        play(Case(({"do": "dance"},)))


def test_a_violation_names_what_differs() -> None:
    violation = ContractViolation("echo", "DECISIONS not-given", "c1", {"internalId": ""}, {"internalId": None})
    assert str(violation) == "c1: expected {'internalId': ''}, observed {'internalId': None} (DECISIONS not-given)"
    assert violation.as_dict()["check"] == "echo"


@deep("test_the_same_seed_is_the_same_random_walk")
def test_most_runs_are_small_and_some_have_more_rows_than_a_page() -> None:
    choices = [RandomStreams(seed).stream("walk") for seed in range(2_000)]
    sizes = Counter(random_run_config(one).size for one in choices)
    assert set(sizes) == {1, 3, LARGE}
    assert sizes[1] > sum(sizes.values()) * 0.8
    target = InProcess()
    fill = ({"do": "fill", "of": "charges", "count": ROWS, "as": "row"}, {"do": "get", "what": "row_1000"},
            {"do": "pages", "target": "/v0/charges?limit=1000", "headers": [["apikey", "{key}"]]})  # fmt: skip
    result = play(Case(fill), target)
    assert (result.violation, result.done) == (None, 3)


def test_filters_are_drawn_from_the_rows_of_the_run() -> None:
    model = Model(Interpretation(), 0, lambda delivery, number, low, high: low)
    model.create("charge", "c1", "default", {"amount": "1000", "description": "tea", "internalId": "Order 7"}, None)
    stream = RandomStreams(1).stream("filters")
    found = [dict(existing.filters(stream, model, "charges")) for _ in range(300)]
    texts = {one["internalId"] for one in found if "internalId" in one}
    assert {"Order 7", "ORDER 7", "order 7", " Order 7", "Order 7 ", "Order 7x", "Order "} <= texts
    times = {instant_of(one["createdAfter"]) for one in found if "createdAfter" in one}
    assert {-1_000, -1, 0, 1, 1_000} <= times
