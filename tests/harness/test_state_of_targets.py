"""A target that is not reset: what its adapter did before, what its node returned, and what its owner is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis.errors import FlakyStrategyDefinition

from leyden.files.json_files import InputError
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.conformance.scenario import advance, charge, pay
from leyden.harness.engines import state_machine
from leyden.harness.engines.state_machine import search
from leyden.harness.model.charges import HOLD_LIMIT_MS
from leyden.harness.runs.cases import Case, play
from leyden.harness.steps import Step
from leyden.harness.targets.adapter import TargetError
from leyden.harness.targets.served import ExternalService
from tests.foreign_service.service import Service, foreign_service

HOLD = pay("c1", outcome="hold")
SETTLE: Step = {"do": "settle", "payment": "p1"}
CANCEL: Step = {"do": "cancel", "payment": "p1"}
LONG = charge("c1", expiresIn=2_592_000)


class Node:
    """The adapter of a service whose node holds payments and returns them after a time."""

    def __init__(self, service: Service, limit_s: float, *, loses: bool = False) -> None:
        self._service, self._limit_s, self._loses = service, limit_s, loses
        self._held: dict[str, float] = {}

    def __getattr__(self, name: str) -> Any:
        if name == "hold_limit_s":
            raise AttributeError
        return getattr(self._service, name)

    def pay(self, request: str) -> None:
        if not self._is_held(request):
            self._service.pay(request)

    def hold(self, request: str) -> None:
        self._held.setdefault(request, self._service.now_s)

    def settle(self, request: str) -> None:
        if self._is_held(request) and not self._loses:
            self._service.pay(request)

    def cancel(self, request: str) -> None:
        if self._is_held(request):
            charges = self._service.charges.values()
            self._service.fail(next(one["id"] for one in charges if one["invoice"]["request"] == request))

    def _is_held(self, request: str) -> bool:
        return self._service.now_s - self._held.get(request, -1e12) < self._limit_s


def found(service: Service, adapter: object, *steps: Step) -> ContractViolation | None:
    return play(Case(steps), ExternalService(service.url, "key-1", adapter=adapter)).violation


@pytest.mark.parametrize("limit_s", [700, HOLD_LIMIT_MS / 1_000, 1e9])
@pytest.mark.parametrize(
    "end", [(SETTLE,), (CANCEL,), (pay("c1", label="p2"), SETTLE), (SETTLE, pay("c1", label="p2"))]
)
def test_a_payment_that_was_held_for_long_is_settled_or_returned(limit_s: float, end: tuple[Step, ...]) -> None:
    with foreign_service() as service:
        for waited_ms in (60_000, HOLD_LIMIT_MS):
            steps = (LONG, HOLD, advance(waited_ms), *end, advance(60_000))
            assert found(service, Node(service, limit_s), *steps) is None


def test_a_payment_that_is_surely_held_is_settled() -> None:
    with foreign_service() as service:
        lost = found(service, Node(service, 1e9, loses=True), LONG, HOLD, advance(60_000), SETTLE)
        assert lost is not None
        assert lost.check == "lifecycle"
        node: Any = Node(service, 1e9, loses=True)
        steps = (LONG, HOLD, advance(HOLD_LIMIT_MS // 2), SETTLE)
        assert found(service, node, *steps) is None
        node.hold_limit_s = HOLD_LIMIT_MS / 1_000  # stated, so it is held at half of it
        assert found(service, node, *steps) is not None


def test_a_limit_that_is_no_number_of_seconds_is_refused() -> None:
    with foreign_service() as service:
        node: Any = Node(service, 1)
        for value in (0, -1, True, "600", float("nan")):
            node.hold_limit_s = value
            with pytest.raises(InputError, match=r"hold_limit_s is .* not a number of seconds above 0; correct"):
                ExternalService(service.url, "key-1", adapter=node)


def test_rotations_before_a_run_are_no_violation() -> None:
    """After a rotation the former secret signs for 24 hours, and no run knows those of before."""
    steps = (charge("c1"), pay("c1"), {"do": "rotate"}, charge("c2"), pay("c2"))
    with foreign_service() as service:
        for _ in range(4):
            service.rotate()
            assert found(service, service, *steps) is None
        assert found(service, service, advance(86_410_000), *steps) is None


def signed_with_more(service: Service, more: Callable[[str], str]) -> Service:
    """The service, whose inbox has other signatures."""
    inbox = service.inbox

    def changed(url: str) -> list[tuple[dict[str, str], str]]:
        return [({**one, "webhook-signature": more(one["webhook-signature"])}, body) for one, body in inbox(url)]

    service.inbox = changed  # type: ignore[method-assign]
    return service


UNKNOWN = f"v1,{'A' * 43}="


@pytest.mark.parametrize(
    "more",
    [
        lambda own: UNKNOWN,
        lambda own: f"{own} no-signature",
        lambda own: f"{own} {UNKNOWN} {UNKNOWN} {UNKNOWN}",
        lambda own: f"{UNKNOWN} {own}",
    ],
)
def test_signatures_that_no_former_secret_explains_are_found(more: Callable[[str], str]) -> None:
    with foreign_service() as service:
        violation = found(service, signed_with_more(service, more), charge("c1"), pay("c1"))
        assert violation is not None
        assert violation.rule_id == "DECISIONS callback-signature"


def test_a_day_after_the_begin_of_the_run_every_secret_is_known() -> None:
    with foreign_service() as service:
        adapter = signed_with_more(service, lambda own: f"{own} {UNKNOWN}")
        assert found(service, adapter, charge("c1"), pay("c1")) is None
        assert found(service, adapter, advance(86_410_000), charge("c1"), pay("c1")) is not None


def test_an_adapter_that_fails_ends_the_state_machine_with_its_own_error() -> None:
    with foreign_service() as service:
        now, calls = service.now, 0

        def once() -> float:
            nonlocal calls
            calls += 1
            if calls == 6:
                raise OSError("no clock")
            return now()

        service.now = once  # type: ignore[method-assign]
        target = ExternalService(service.url, "key-1", adapter=service)
        with pytest.raises(TargetError, match=r"now\(\) of the adapter failed with OSError: no clock"):
            search(1, 25, lambda: target)


@pytest.mark.parametrize("cause", [ContractViolation("echo", "ids", "c1", 1, 2), TargetError("no clock"), None])
def test_no_error_of_hypothesis_leaves_the_state_machine(
    cause: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hypothesis repeats a run, and raises an error of its own where the target then answers in another way."""

    def flaky(machine: Any, settings: Any) -> None:
        if cause is None:
            raise FlakyStrategyDefinition("Inconsistent data generation!")
        try:
            monkeypatch.setattr(state_machine, "start_run", raising)
            machine().begin(1, None)
        finally:
            raise FlakyStrategyDefinition("Inconsistent data generation!")

    def raising(*_: object) -> None:
        assert cause is not None
        raise cause

    monkeypatch.setattr(state_machine, "run_state_machine_as_test", flaky)
    if isinstance(cause, ContractViolation):
        assert state_machine.search(1, 25).violation is cause
        return
    words = (
        "no clock" if cause else r"answered the same steps in two ways \(FlakyStrategyDefinition of Hypothesis\); use"
    )
    with pytest.raises(TargetError, match=words):
        state_machine.search(1, 25)


def test_no_inbox_is_asked_about_no_url() -> None:
    with foreign_service() as service:
        asked: list[str] = []
        inbox = service.inbox
        service.inbox = lambda url: asked.append(url) or inbox(url)  # type: ignore[method-assign,func-returns-value]
        assert found(service, service, charge("c1", callbackUrl=""), pay("c1"), charge("c2"), pay("c2")) is None
        assert set(asked) == {service.callback_url}


def test_the_refusal_of_a_target_says_what_it_answered() -> None:
    with foreign_service() as service:
        target = ExternalService(service.url, "key-1", adapter=service)
        plain = service.answer
        service.answer = lambda *request: (201, *plain(*request)[1:])  # type: ignore[method-assign]
        with pytest.raises(TargetError, match=r"limit=1 with 201, and not with 200 and `data`; nothing was written"):
            play(Case((charge("c1"),)), target)
