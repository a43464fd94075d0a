"""The harness at a second implementation: no false alarm, and every mistake is found or named as not checked."""

from __future__ import annotations

import pytest

from leyden.harness.checks.violations import ContractViolation
from leyden.harness.conformance.conformance import conformance_cases
from leyden.harness.conformance.scenario import advance, change, charge, fail, invoice, pay, static, to
from leyden.harness.engines.random_walk import random_walk
from leyden.harness.runs.cases import Case, play
from leyden.harness.runs.external import not_checked
from leyden.harness.steps import Step
from leyden.harness.targets.served import ExternalService
from tests.foreign_service.service import MISTAKES, UNSEEN, Service, foreign_service
from tests.support.deep import deep_or, sampled

KEYED: Step = {**charge("c9"), "idempotency_key": "k1"}
FLOWS: dict[str, list[Step]] = {
    "a Charge is paid, and not twice": [charge("c1", description=" tea "), pay("c1"), pay("c1"), to("expiry", "c1", 1)],
    "a Charge expires": [charge("c1"), to("expiry", "c1", -1), to("expiry", "c1"), pay("c1"), advance(60_000)],
    "a Charge fails": [charge("c1"), fail("c1"), pay("c1"), advance(61_000)],
    "two Charges": [charge("c1"), charge("c2"), pay("c1"), advance(61_000)],
    "slots": [
        static("s1", allowedSlots=1), invoice("c1"), invoice("c2"), pay("c1"), pay("c2"), invoice("c3"),
        change({"allowedSlots": 2}), invoice("c4"), pay("c4"), advance(301_000),
    ],
    "an Idempotency-Key": [KEYED, KEYED, advance(86_399_000), KEYED, advance(2_000), {**KEYED, "as": "c10"}],
    "rotation": [
        charge("c1", expiresIn=600), {"do": "rotate"}, pay("c1"), advance(86_400_000), charge("c2"), pay("c2"),
    ],
    "invalid bodies": [charge("c1", amount="999"), charge("c2", description=1), static("s1", minAmount="3000")],
}  # fmt: skip


def violation_of(service: Service) -> tuple[str, ContractViolation] | None:
    target = ExternalService(service.url, "key-1", adapter=service)
    for name, steps in FLOWS.items():
        result = play(Case(tuple(steps), name=name), target)
        if result.violation is not None:
            return name, result.violation
    return None


def test_the_second_implementation_has_no_violation() -> None:
    with foreign_service() as service:
        assert violation_of(service) is None
        target = ExternalService(service.url, "key-1", adapter=service)
        reached = set()
        for case in conformance_cases():
            result = play(case, target)
            assert result.violation is None, f"{case.name}: {result.violation}"
            reached |= set(result.reached)
        assert ("row", "Charge", "pending", "expiry_reached", "", "expired") in reached


def test_random_walks_at_the_second_implementation_have_no_violation() -> None:
    """The random walk of seed 1018 sends a wrong Idempotency-Key with a wrong field."""
    with foreign_service() as service:
        target = ExternalService(service.url, "key-1", adapter=service)
        for seed in (1018, *range(deep_or(bounded=10, full=200, random=5_000))):
            result = random_walk(seed, target, overlays=(), disks=False)
            assert result.violation is None, f"{seed}: {result.violation}"


def test_an_idempotency_key_of_an_earlier_run_is_no_false_alarm_whatever_its_length() -> None:
    """The service keeps its state between runs, and each run begins with a model that knows no keys."""
    with foreign_service() as service:
        target = ExternalService(service.url, "key-1", adapter=service)
        for length in (1, 199, 200, 255):
            step: Step = {**charge("c1"), "idempotency_key": "x" * length}
            for _ in range(2):
                result = play(Case((step, {**step, "as": "c2"})), target)
                assert result.violation is None, f"{length} characters: {result.violation}"


@pytest.mark.parametrize("mistake", sampled([*MISTAKES], 2))
def test_each_mistake_is_found(mistake: str) -> None:
    with foreign_service(mistake) as service:
        assert violation_of(service) is not None


def test_what_cannot_be_found_is_named_the_same_in_every_run() -> None:
    for mistake in UNSEEN:
        with foreign_service(mistake) as service:
            target = ExternalService(service.url, "key-1", adapter=service)
            texts = [list(play(Case(tuple(steps)), target).unchecked) for steps in FLOWS.values()]
            assert texts == [not_checked(target)] * len(FLOWS)
    named = " ".join(not_checked(target))
    assert "balances" in named
    assert "retries" in named
