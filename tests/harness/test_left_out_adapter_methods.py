"""Each method of an adapter may be left out: a service without a defect then has no violation, and the report names
what is not checked, the same in every run."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import combinations
from typing import Any
from urllib.parse import urlsplit

import pytest

from leyden.harness.conformance.conformance import run_cases
from leyden.harness.conformance.scenario import advance, charge, invoice, pay, static, to
from leyden.harness.engines.random_walk import random_walk
from leyden.harness.runs.cases import Case, play
from leyden.harness.runs.external import not_checked
from leyden.harness.steps import Step
from leyden.harness.targets.adapter import ADAPTER_METHODS
from leyden.harness.targets.served import ExternalService
from tests.foreign_service.service import foreign_service
from tests.harness.test_foreign_service import FLOWS
from tests.support.deep import deep, deep_except
from tests.support.served import Client, served_leyden

PARTS = (*ADAPTER_METHODS, "callback_url", "hold_limit_s")
SETTLE: Step = {"do": "settle", "payment": "p1"}
KEYED: Step = {**charge("c1", expiresIn="-"), "idempotency_key": "k1"}
MONTH = charge("c1", expiresIn=2_592_000)
# What depends on the time, in few steps.
TIMED: dict[str, list[Step]] = {
    "paid after a while": [MONTH, advance(37_200_000), pay("c1"), advance(86_400_000)],
    "about an expiry": [charge("c1"), to("expiry", "c1", -1), pay("c1"), to("expiry", "c1"), advance(60_000)],
    "expired": [charge("c1"), charge("c2", expiresIn=600), advance(90_000), pay("c1"), pay("c2"), advance(600_000)],
    "held": [MONTH, pay("c1", outcome="hold"), advance(37_200_000), SETTLE, pay("c1", label="p2"), advance(1_000)],
    "a key": [
        KEYED,
        advance(7_200_000),
        KEYED,
        advance(79_200_000),
        {**KEYED, "as": "c2"},
        advance(10_000),
        {**KEYED, "as": "c3"},
    ],
    "a link": [static("s1", expiresIn=600), invoice("c1"), to("expiry", "s1", -1), invoice("c2"), advance(60_000)],
    "a secret": [charge("c1", expiresIn=86_400), {"do": "rotate"}, to("expiry", "c1", 1), advance(10_000)],
}


class Leyden:
    """An adapter with everything, for a served Leyden that stands for another implementation."""

    callback_url = "http://inbox.localhost/hook"
    hold_limit_s = 37_200.0

    def __init__(self, client: Client) -> None:
        self._client = client
        self._held: dict[str, str] = {}

    def pay(self, request: str) -> None:
        self._client("POST", "/sandbox/v1/payments", {"request": request})

    def advance(self, seconds: float) -> None:
        self._client.ok("POST", "/sandbox/v1/clock/advance", {"by": f"{round(seconds * 1_000)}ms"})

    def inbox(self, url: str) -> list[tuple[dict[str, str], str]]:
        name = (urlsplit(url).hostname or "").removesuffix(".localhost")
        status, inbox = self._client("GET", f"/sandbox/v1/inboxes/{name}?limit=1000")
        posts = inbox["posts"] if status == 200 else []  # it is created by its first request
        return [(post["headers"], post["body"]) for post in posts if post["url"] == url]

    def now(self) -> float:
        return datetime.fromisoformat(self._client.ok("GET", "/sandbox/v1")["now"]).timestamp()

    def secret(self) -> str:
        return str(self._client.ok("GET", "/sandbox/v1/webhook-secret")["current"])

    def rotate(self) -> None:
        self._client.ok("POST", "/sandbox/v1/webhook-secret/rotate")

    def fail(self, charge_id: str) -> None:
        self._client("POST", f"/sandbox/v1/charges/{charge_id}/fail")

    def hold(self, request: str) -> None:
        body = {"request": request, "outcome": "hold"}
        self._held[request] = self._client("POST", "/sandbox/v1/payments", body)[1].get("id", "")

    def settle(self, request: str) -> None:
        self._client("POST", f"/sandbox/v1/payments/{self._held.get(request)}/settle")

    def cancel(self, request: str) -> None:
        self._client("POST", f"/sandbox/v1/payments/{self._held.get(request)}/cancel")

    def restart(self) -> None:
        """The server goes on."""


class Without:
    """An adapter without some of its methods and attributes."""

    def __init__(self, adapter: object, names: Iterable[str]) -> None:
        self._adapter, self._left_out = adapter, frozenset(names)

    def __getattr__(self, name: str) -> Any:
        if name in self._left_out:
            raise AttributeError(name)
        return getattr(self._adapter, name)


def flows(steps: dict[str, list[Step]]) -> list[Case]:
    return [Case(tuple(each), name=name) for name, each in steps.items()]


def alarms(target: ExternalService, cases: Iterable[Case], count: int = 0) -> Iterator[str]:
    """The violations, and each run that names other things as not checked."""
    named = not_checked(target)
    for result in [
        *(play(case, target) for case in cases if target.restarts or not case.disk),
        *(random_walk(seed, target, overlays=()) for seed in range(count)),
    ]:
        if result.violation is not None:
            yield f"{result.case.name}: {result.violation}"
        if list(result.unchecked) != named:
            yield f"{result.case.name}: {list(result.unchecked)}"


BOUNDED = (("now",), ("now", "advance"), ("now", "inbox"), ())
SINGLE = [(name,) for name in PARTS]
PAIRS = random.Random(1).sample([*combinations(PARTS, 2)], 12)
LEFT_OUT = [pytest.param(one, id=" ".join(one) or "none") for one in {*BOUNDED, *SINGLE, *PAIRS, PARTS}]
LEFT_OUT.sort(key=lambda case: str(case.id))


@pytest.mark.parametrize("left_out", deep_except(LEFT_OUT, *BOUNDED))
def test_a_leyden_has_no_violation_without_some_adapter_methods(left_out: tuple[str, ...]) -> None:
    for rate in ("0", "1"):
        with served_leyden("--rate", rate) as client:
            target = ExternalService(client.url, "leyden", adapter=Without(Leyden(client), left_out))
            assert list(alarms(target, flows(TIMED))) == []


@deep("test_a_leyden_has_no_violation_without_some_adapter_methods")
@pytest.mark.parametrize("left_out", LEFT_OUT)
def test_a_leyden_has_no_violation_in_any_case_without_some_adapter_methods(left_out: tuple[str, ...]) -> None:
    with served_leyden("--rate", "0") as client:
        target = ExternalService(client.url, "leyden", adapter=Without(Leyden(client), left_out))
        assert list(alarms(target, run_cases(), count=4)) == []


@pytest.mark.parametrize("left_out", deep_except(LEFT_OUT, *BOUNDED))
def test_the_second_implementation_has_no_violation_without_some_adapter_methods(left_out: tuple[str, ...]) -> None:
    """Its `Date` header is that of another clock."""
    with foreign_service() as service:
        target = ExternalService(service.url, "key-1", adapter=Without(service, left_out))
        assert list(alarms(target, [*flows(FLOWS), *flows(TIMED)])) == []


def test_a_clock_that_is_faster_than_that_of_the_machine_is_no_violation() -> None:
    with served_leyden("--rate", "60") as client:
        target = ExternalService(client.url, "leyden", adapter=Without(Leyden(client), {"now"}))
        assert list(alarms(target, flows(TIMED))) == []


def test_a_mistake_is_found_without_the_time() -> None:
    for mistake in ("late-expiry", "paid-after-expiry", "key-forgotten"):
        with foreign_service(mistake) as service:
            target = ExternalService(service.url, "key-1", adapter=Without(service, {"now"}))
            assert list(alarms(target, [*flows(FLOWS), *flows(TIMED)])), mistake
