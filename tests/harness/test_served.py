"""The harness over HTTP: against a served Leyden, where callbacks may not go everywhere; and Schemathesis, watched."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from openapi_spec_validator import validate

from leyden.harness.conformance.conformance import conformance_cases
from leyden.harness.engines import schemathesis_engine
from leyden.harness.engines.campaign import CampaignConfig, run_campaign
from leyden.harness.engines.random_walk import random_walk
from leyden.harness.runs.cases import Case, play, spec_hash
from leyden.harness.targets.served import ExternalService, ServedLeyden, TargetError
from leyden.world.config import packaged_contract
from leyden.world.merged_openapi import LEVERS, merged
from tests.support.served import Client, served_leyden
from tests.support.small_spec import small

FROZEN = ("--rate", "0", "--api-key", "leyden", "--api-key", "rival")
SOME = (
    "slots",
    "410",
    "held and",
    "lists",
    "no more than eight",
    "the secret",
    "closed and opened",
    "keys and refusals",
)


def test_a_served_leyden_keeps_the_same_promises() -> None:
    with served_leyden(*FROZEN) as client:
        target = ServedLeyden(client.url, second_api_key="rival")
        for case in conformance_cases():
            if any(word in case.name for word in SOME) and not case.disk:
                result = play(case, target)
                assert result.violation is None, f"{case.name}: {result.violation}"
        for seed in range(3):
            assert random_walk(seed, target, overlays=()).violation is None
        blocked = {"amount": "1000", "description": "tea", "callbackUrl": "http://10.0.0.1/hook"}
        steps = ({"do": "create_charge", "as": "c1", "body": blocked}, {"do": "fail", "charge": "c1"})
        result = play(Case(steps), target)
        assert result.violation is None
        assert ("delivery", "charge.error", "blocked") in result.reached


def test_without_another_projects_key_all_else_is_checked() -> None:
    with served_leyden("--rate", "0") as client:
        make = partial(ServedLeyden, client.url)
        report = run_campaign(CampaignConfig(engines=("tour", "walk", "machine"), examples=3, make=make), lambda: 0)
    assert report.violations == []
    assert "that projects do not see each other: give another project's key" in report.coverage.unchecked


class Adapter:
    """What a QA team would write for its own system; here it is one Leyden that plays somebody else's service."""

    callback_url = "http://inbox.localhost/hook"

    def __init__(self, client: Client) -> None:
        self._client = client

    def pay(self, request: str) -> None:
        self._client.ok("POST", "/sandbox/v1/payments", {"request": request})

    def inbox(self, url: str) -> list[tuple[dict[str, str], str]]:
        posts = self._client.ok("GET", "/sandbox/v1/inboxes/inbox?limit=1000")["posts"]
        return [(post["headers"], post["body"]) for post in posts]


def test_any_service_is_checked_as_far_as_it_can_be() -> None:
    with served_leyden("--rate", "1", "--start", "2030-01-01T00:00:00Z") as client:
        target = ExternalService(client.url, "leyden", adapter=Adapter(client))
        observed, unchecked = set(), set()
        for case in conformance_cases():
            if any(word in case.name for word in ("slots", "bodies of a charge, from 0", "addresses", "own address")):
                result = play(case, target)
                assert result.violation is None, f"{case.name}: {result.violation}"
                observed |= set(result.reached)
                unchecked |= set(result.unchecked)
        assert ("row", "StaticCharge", "active", "slots_filled", "", "disabled") in observed
        assert any("advance" in what for what in unchecked)
        walked = random_walk(1, target, overlays=())
        assert walked.violation is None


def test_a_service_that_breaks_its_word_is_found_from_outside() -> None:
    """An overlay makes the service read its contract in another way than it is held to."""
    with served_leyden("--rate", "1", "--overlay", "strict") as client:
        target = ExternalService(client.url, "leyden")
        body = {"amount": "1000", "description": "tea", "internalId": ""}
        result = play(Case(({"do": "create_charge", "as": "c1", "body": body},)), target)
        assert result.violation is not None
        assert "promised 200, seen 400" in str(result.violation)


def test_a_target_that_is_not_as_asked_is_refused() -> None:
    with served_leyden("--rate", "1", "--overlay", "strict") as client:
        target = ServedLeyden(client.url)
        with pytest.raises(TargetError, match="--overlay"):
            target.begin(1, 1_893_456_000_000, ())
        with pytest.raises(TargetError, match="--rate 0"):
            target.begin(1, 1_893_456_000_000, ("strict",))
    with pytest.raises(TargetError, match="does not answer"):
        target.begin(1, 1_893_456_000_000, ("strict",))


def test_a_served_leyden_is_tried_under_the_reading_that_it_has() -> None:
    with served_leyden(*FROZEN) as client:
        make = partial(ServedLeyden, client.url, second_api_key="rival")
        report = run_campaign(CampaignConfig(engines=("machine", "walk"), examples=6, make=make), lambda: 0)
        assert report.violations == []
        assert report.coverage.runs["walk"] == 6
    with served_leyden(*FROZEN, "--overlay", "no-retries", "--overlay", "payable-at-expiry") as client:
        make = partial(ServedLeyden, client.url, second_api_key="rival")
        readings = ("no-retries", "payable-at-expiry")
        report = run_campaign(CampaignConfig(engines=("tour",), overlays=readings, make=make), lambda: 0)
        assert report.violations == []
        assert report.coverage.runs["tour"] == sum(len(list(conformance_cases(overlay))) for overlay in readings)


def test_no_key_is_given_out_twice_although_a_reset_brings_the_same_luck() -> None:
    with served_leyden(*FROZEN) as client:
        target = ServedLeyden(client.url, second_api_key="rival")
        assert [play(Case(({"do": "spare_key"},)), target).violation for _ in range(3)] == [None] * 3


def test_the_merged_document_has_the_service_whole_and_the_levers_once() -> None:
    service, sandbox = packaged_contract("charges").document, packaged_contract("sandbox").document
    document = merged(service, sandbox)
    names = {operation["operationId"]: path for path, item in document["paths"].items() for operation in item.values()}
    assert set(names) - set(packaged_contract("charges").operations) == LEVERS
    links = document["paths"]["/v0/charges"]["post"]["responses"]["200"]["links"]
    assert {"payIt", "loseIt", "letItExpire"} <= set(links)
    assert "payIt" not in str(service)
    assert {"Charge", "SandboxCharge"} <= set(document["components"]["schemas"])
    validate(document)
    validate(merged(small(), sandbox))


def test_schemathesis_finds_nothing_and_gets_beyond_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chance that Schemathesis draws past its seed decides how soon."""
    monkeypatch.setattr(schemathesis_engine, "_EXAMPLES", 1)
    monkeypatch.setattr(schemathesis_engine, "_SCENARIOS", 50)
    wanted, reached = {"pending", "completed", "expired", "error"}, set()
    for part in schemathesis_engine.run_schemathesis(CampaignConfig(examples=5_000, seed=4)):
        assert part.found is None, (part.name, part.found)
        reached |= {item[-1] for item in part.reached if item[0] == "row"}
        if wanted <= reached:
            return
    pytest.fail(f"never reached: {wanted - reached}")


def test_schemathesis_is_watched_over_http_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemathesis_engine, "_EXAMPLES", 1)
    monkeypatch.setattr(schemathesis_engine, "_SCENARIOS", 20)
    with served_leyden(*FROZEN) as client:
        order = CampaignConfig(examples=1, seed=4, make=lambda: ServedLeyden(client.url, second_api_key="rival"))
        parts = list(schemathesis_engine.run_schemathesis(order))
    assert [part.found for part in parts if part.found is not None] == []
    assert sum(part.cases for part in parts) > 50
    assert {"pending"} < {item[-1] for item in parts[-1].reached if item[0] == "row"}
    assert not parts[-1].unchecked


def test_schemathesis_tries_any_service_and_says_what_it_could_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemathesis_engine, "_EXAMPLES", 1)
    monkeypatch.setattr(schemathesis_engine, "_SCENARIOS", 5)
    document = spec_hash(())
    with served_leyden("--rate", "1", "--no-control") as client:
        report = run_campaign(
            CampaignConfig(engines=("schemathesis",), examples=1, make=lambda: ExternalService(client.url, "leyden")), lambda: 0
        )
    assert report.violations == []
    assert report.coverage.steps["schemathesis"] > 20
    assert any("callbacks" in what for what in report.coverage.unchecked)
    assert any("another project" in what for what in report.coverage.unchecked)
    assert spec_hash(()) == document, "Schemathesis wrote into the specification that everybody else reads"


def test_schemathesis_finds_over_http_what_is_broken_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemathesis_engine, "_EXAMPLES", 10)
    with served_leyden("--rate", "0", "--overlay", "callback-envelope") as client:
        # Held to another reading than it has.
        target = ExternalService(client.url, "leyden")
        target.controlled = True
        for part in schemathesis_engine.run_schemathesis(
            CampaignConfig(examples=5_000, seed=2, overlays=("strict",), make=lambda: target)
        ):
            if part.found is not None:
                return
    pytest.fail("nobody noticed that unknown fields are taken")


def test_the_witness_sees_what_schemathesis_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    import leyden.server.charges.wire_model

    one_line = leyden.server.charges.wire_model.charge_resource

    def resource(row: Any) -> dict[str, Any]:
        return {**one_line(row), "description": row["description"][:5]}

    monkeypatch.setattr("leyden.server.charges.charges.charge_resource", resource)
    monkeypatch.setattr(schemathesis_engine, "_SCENARIOS", 10)
    monkeypatch.setattr(schemathesis_engine, "_EXAMPLES", 10)
    for part in schemathesis_engine.run_schemathesis(CampaignConfig(examples=100, seed=2)):
        if part.found is not None:
            assert part.found.case.expectation is not None
            assert part.found.case.expectation["check"] == "echo"
            return
    pytest.fail("nobody noticed that descriptions are cut")
