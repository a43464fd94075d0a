"""The harness over HTTP, with a served Leyden and with another implementation; and the Schemathesis engine."""

from __future__ import annotations

import ssl
from functools import partial
from itertools import islice
from typing import Any
from unittest import SkipTest

import httpx2
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyStrategyDefinition
from openapi_spec_validator import validate

from leyden.__main__ import main
from leyden.harness.conformance import conformance
from leyden.harness.conformance.conformance import conformance_cases
from leyden.harness.engines import schemathesis_engine
from leyden.harness.engines.campaign import run_campaign
from leyden.harness.engines.random_walk import random_walk
from leyden.harness.engines.results import CampaignConfig
from leyden.harness.runs.cases import Case, play, spec_hash
from leyden.harness.targets.adapter import TargetError
from leyden.harness.targets.served import ExternalService, ServedLeyden
from leyden.harness.targets.target import InProcess
from leyden.world.config import packaged_contract
from leyden.world.merged_openapi import CONTROL_OPERATIONS, merged
from tests.support.deep import deep, deep_or
from tests.support.served import Client, served_leyden
from tests.support.small_spec import small

FROZEN = ("--rate", "0", "--api-key", "leyden", "--api-key", "second")
SOME = (
    "slots",
    "410",
    "held and",
    "lists",
    "at most eight",
    "secret",
    "disabled and reopened",
    "Idempotency-Keys and errors",
)


def test_a_served_leyden_has_no_violation() -> None:
    with served_leyden(*FROZEN) as client:
        target = ServedLeyden(client.url, second_api_key="second")
        some = [one for one in conformance_cases() if any(word in one.name for word in SOME) and not one.disk]
        for case in some[:: deep_or(bounded=3, full=1)]:
            result = play(case, target)
            assert result.violation is None, f"{case.name}: {result.violation}"
        for seed in range(deep_or(bounded=1, full=3)):
            assert random_walk(seed, target, overlays=()).violation is None
        blocked = {"amount": "1000", "description": "tea", "callbackUrl": "http://10.0.0.1/hook"}
        steps = ({"do": "create_charge", "as": "c1", "body": blocked}, {"do": "fail", "charge": "c1"})
        result = play(Case(steps), target)
        assert result.violation is None
        assert ("delivery", "charge.error", "blocked") in result.reached


def test_without_a_second_api_key_everything_else_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every case: `leyden conformance` in `commands/test_examples.py`, on a server that has one key."""
    words = (*SOME, "two projects")
    some = [case for case in conformance_cases() if any(word in case.name for word in words) and not case.disk]
    assert len(some) > 10
    some = some[:: deep_or(bounded=6, full=1)]
    monkeypatch.setattr(conformance, "run_cases", lambda overlay: some if overlay is None else [])
    with served_leyden("--rate", "0") as client:
        make = partial(ServedLeyden, client.url)
        report = run_campaign(
            CampaignConfig(engines=("conformance", "random-walk", "state-machine"), examples=3, make=make), lambda: 0
        )
    assert report.violations == []
    assert report.coverage.runs["conformance"] == len(some)
    assert "isolation of projects: give --second-api-key" in report.coverage.unchecked


class Adapter:
    """What a QA team would write for its own system. Here a Leyden stands for that system."""

    callback_url = "http://inbox.localhost/hook"

    def __init__(self, client: Client) -> None:
        self._client = client

    def pay(self, request: str) -> None:
        self._client.ok("POST", "/sandbox/v1/payments", {"request": request})

    def inbox(self, url: str) -> list[tuple[dict[str, str], str]]:
        status, inbox = self._client("GET", "/sandbox/v1/inboxes/inbox?limit=1000")
        posts = inbox["posts"] if status == 200 else []  # it is created by its first request
        return [(post["headers"], post["body"]) for post in posts]


@pytest.mark.parametrize("command", ["fuzz", "conformance"])
def test_equal_api_keys_are_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["--api-key", "one", "--second-api-key", "one"]
    assert main([command, "http://127.0.0.1:9", *keys]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("the second API key is the first one: give the key of another project, or leave it out")


def test_another_implementation_is_checked_as_far_as_its_adapter_allows() -> None:
    with served_leyden("--rate", "1", "--start", "2030-01-01T00:00:00Z") as client:
        target = ExternalService(client.url, "leyden", adapter=Adapter(client))
        reached, unchecked = set(), set()
        for case in conformance_cases():
            if any(word in case.name for word in ("slots", "bodies of a charge, from 0", "addresses", "own URL")):
                result = play(case, target)
                assert result.violation is None, f"{case.name}: {result.violation}"
                reached |= set(result.reached)
                unchecked |= set(result.unchecked)
        assert ("row", "StaticCharge", "active", "slots_filled", "", "disabled") in reached
        assert any("advance" in what for what in unchecked)
        walked = random_walk(1, target, overlays=())
        assert walked.violation is None


def test_a_violation_of_another_implementation_is_found() -> None:
    """The service has an overlay that the run does not have."""
    with served_leyden("--rate", "1", "--overlay", "strict") as client:
        target = ExternalService(client.url, "leyden")
        body = {"amount": "1000", "description": "tea", "internalId": ""}
        result = play(Case(({"do": "create_charge", "as": "c1", "body": body},)), target)
        assert result.violation is not None
        assert "expected 200, observed 400" in str(result.violation)


def test_a_target_with_other_options_is_rejected() -> None:
    with served_leyden("--rate", "1", "--overlay", "strict") as client:
        target = ServedLeyden(client.url)
        with pytest.raises(TargetError, match="--overlay"):
            target.begin(1, 1_893_456_000_000, ())
        with pytest.raises(TargetError, match="--rate 0"):
            target.begin(1, 1_893_456_000_000, ("strict",))
    with pytest.raises(TargetError, match="does not respond"):
        target.begin(1, 1_893_456_000_000, ("strict",))
    with served_leyden(*FROZEN, "--network", "star:12,ideal") as client:
        target = ServedLeyden(client.url)
        with pytest.raises(TargetError, match="serve it without a network"):
            target.begin(1, 1_893_456_000_000, ())
        target.end()


def test_a_served_leyden_is_tested_with_its_own_overlays() -> None:
    number = deep_or(bounded=2, full=6)
    with served_leyden(*FROZEN) as client:
        make = partial(ServedLeyden, client.url, second_api_key="second")
        report = run_campaign(
            CampaignConfig(engines=("state-machine", "random-walk"), examples=number, make=make), lambda: 0
        )
        assert report.violations == []
        assert report.coverage.runs["random-walk"] == number
    with served_leyden(*FROZEN, "--overlay", "no-retries", "--overlay", "payable-at-expiry") as client:
        make = partial(ServedLeyden, client.url, second_api_key="second")
        overlays = ("no-retries", "payable-at-expiry")
        report = run_campaign(CampaignConfig(engines=("conformance",), overlays=overlays, make=make), lambda: 0)
        assert report.violations == []
        assert report.coverage.runs["conformance"] == sum(len(list(conformance_cases(overlay))) for overlay in overlays)


def test_no_api_key_is_issued_twice_although_a_reset_repeats_the_random_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every run connects anew, and reads no certificates for HTTP."""
    monkeypatch.setattr(httpx2, "create_ssl_context", None)
    with served_leyden(*FROZEN) as client:
        target = ServedLeyden(client.url, second_api_key="second")
        assert [play(Case(({"do": "spare_key"},)), target).violation for _ in range(3)] == [None] * 3


def test_a_target_over_https_reads_the_certificates_once_for_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = []
    create = httpx2.create_ssl_context
    monkeypatch.setattr(
        httpx2, "create_ssl_context", lambda **options: contexts.append(create(**options)) or contexts[-1]
    )
    target = ServedLeyden("HTTPS://127.0.0.1:1")
    for _ in range(2):
        with pytest.raises(TargetError, match="does not respond"):
            target.send("GET", "/", (), b"")
        target.end()
    assert [context.verify_mode for context in contexts] == [ssl.CERT_REQUIRED]


def test_the_merged_document_has_the_service_whole_and_the_control_operations_once() -> None:
    service, sandbox = packaged_contract("charges").document, packaged_contract("sandbox").document
    document = merged(service, sandbox)
    names = {operation["operationId"]: path for path, item in document["paths"].items() for operation in item.values()}
    assert set(names) - set(packaged_contract("charges").operations) == CONTROL_OPERATIONS
    links = document["paths"]["/v0/charges"]["post"]["responses"]["200"]["links"]
    assert {"payIt", "loseIt", "letItExpire"} <= set(links)
    assert "payIt" not in str(service)
    assert {"Charge", "SandboxCharge"} <= set(document["components"]["schemas"])
    validate(document)
    validate(merged(small(), sandbox))


@deep("test_schemathesis_tests_another_implementation_and_reports_what_it_could_not_check")
def test_schemathesis_finds_no_violation_and_reaches_every_charge_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """How soon depends on random numbers that Schemathesis draws without its seed."""
    monkeypatch.setattr(schemathesis_engine, "_EXAMPLES", 1)
    monkeypatch.setattr(schemathesis_engine, "_SCENARIOS", 25)
    wanted, reached = {"pending", "completed", "expired", "error"}, set()
    for part in schemathesis_engine.run_schemathesis(CampaignConfig(examples=5_000, seed=4), InProcess()):
        assert part.violation is None, (part.case.name, part.violation)
        reached |= {item[-1] for item in part.reached if item[0] == "row"}
        if wanted <= reached:
            return
    pytest.fail(f"not reached: {wanted - reached}")


@deep("test_schemathesis_tests_another_implementation_and_reports_what_it_could_not_check")
def test_schemathesis_checks_the_invariants_over_http_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemathesis_engine, "_EXAMPLES", 1)
    monkeypatch.setattr(schemathesis_engine, "_SCENARIOS", 20)
    with served_leyden(*FROZEN) as client:
        config = CampaignConfig(examples=1, seed=4, make=lambda: ServedLeyden(client.url, second_api_key="second"))
        parts = list(schemathesis_engine.run_schemathesis(config, config.make()))
    assert [part.violation for part in parts if part.violation is not None] == []
    assert sum(part.done for part in parts) > 50
    assert {"pending"} < {item[-1] for item in parts[-1].reached if item[0] == "row"}
    assert not parts[-1].unchecked


def test_schemathesis_tests_another_implementation_and_reports_what_it_could_not_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schemathesis_engine, "_EXAMPLES", 1)
    monkeypatch.setattr(schemathesis_engine, "_SCENARIOS", 5)
    document = spec_hash(())
    with served_leyden("--rate", "1", "--no-control") as client:
        report = run_campaign(
            CampaignConfig(engines=("schemathesis",), examples=1, make=lambda: ExternalService(client.url, "leyden")),
            lambda: 0,
        )
    assert report.violations == []
    assert report.coverage.steps["schemathesis"] > 20
    assert any("callbacks" in what for what in report.coverage.unchecked)
    assert any("isolation" in what for what in report.coverage.unchecked)
    assert spec_hash(()) == document, "Schemathesis changed the shared document"


def test_an_example_that_draws_other_data_when_it_is_repeated_is_no_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def inconsistent(*_: object) -> None:
        raise FlakyStrategyDefinition("other choices than before")

    monkeypatch.setattr(schemathesis_engine, "_fuzz", inconsistent)
    monkeypatch.setattr(schemathesis_engine, "_follow_links", inconsistent)
    parts = list(islice(schemathesis_engine.run_schemathesis(CampaignConfig(examples=1), InProcess()), 3))
    assert [part.violation for part in parts] == [None] * 3


@pytest.mark.parametrize("first", [None, 10])
def test_data_that_an_operation_cannot_have_is_given_up_after_some_attempts(first: int | None) -> None:
    """An attempt with this number, if there is one, succeeds; then the later rejections do not end the test."""
    attempts = []

    @st.composite
    def almost_nothing(draw: st.DrawFn) -> int:
        attempts.append(draw(st.integers()))
        assume(len(attempts) == first)
        return 1

    @settings(max_examples=2, suppress_health_check=list(HealthCheck))
    @given(schemathesis_engine._unless_impossible(almost_nothing()))
    def one(case: int) -> None:
        assert case == 1

    if first is None:
        with pytest.raises(SkipTest):
            one()
        assert len(attempts) == schemathesis_engine._REJECTIONS
    else:
        one()
        assert len(attempts) > schemathesis_engine._REJECTIONS


@deep("test_the_invariants_find_what_schemathesis_does_not")
def test_schemathesis_finds_a_violation_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemathesis_engine, "_EXAMPLES", 3)
    with served_leyden("--rate", "0", "--overlay", "callback-envelope") as client:
        # The service does not have the overlay `strict`.
        target = ExternalService(client.url, "leyden")
        target.controlled = True
        config = CampaignConfig(examples=5_000, seed=2, overlays=("strict",))
        for part in schemathesis_engine.run_schemathesis(config, target):
            if part.violation is not None:
                return
    pytest.fail("that unknown fields are accepted was not found")


def test_the_invariants_find_what_schemathesis_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    import leyden.server.charges.wire_model

    original = leyden.server.charges.wire_model.charge_resource

    def resource(row: Any) -> dict[str, Any]:
        return {**original(row), "description": row["description"][:5]}

    monkeypatch.setattr("leyden.server.charges.charges.charge_resource", resource)
    monkeypatch.setattr(schemathesis_engine, "_SCENARIOS", 10)
    monkeypatch.setattr(schemathesis_engine, "_EXAMPLES", 10)
    for part in schemathesis_engine.run_schemathesis(CampaignConfig(examples=100, seed=2), InProcess()):
        if part.violation is not None:
            assert part.case.expectation is not None
            assert part.case.expectation["check"] == "echo"
            return
    pytest.fail("that descriptions are cut was not found")
