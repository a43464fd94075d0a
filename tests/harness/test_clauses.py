"""Each finding quotes the clause that decides what is wrong, and names the member that is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from leyden.harness.checks.clauses import header_clause
from leyden.harness.checks.violations import ContractViolation, difference
from leyden.harness.conformance.scenario import charge, pay, static
from leyden.harness.runs.cases import Case, play
from leyden.harness.runs.describe import rule_text
from leyden.harness.steps import Step
from leyden.harness.targets.served import ExternalService
from tests.foreign_service.service import foreign_service

SCHEMAS = "charges.openapi.yaml#/components/schemas"
PATHS = "charges.openapi.yaml#/paths"
Change = Callable[[dict[str, Any]], object]


def violation(change: Change, *steps: Step, status: int = 200, **headers: str) -> ContractViolation:
    """The violation at a service whose answers to POST have changed `data`."""
    with foreign_service() as service:
        plain = service.answer

        def changed(method: str, *rest: Any) -> tuple[int, dict[str, str], bytes]:
            found, sent, body = plain(method, *rest)
            if method != "POST" or found != 200:
                return found, sent, body
            document = json.loads(body)
            if document["data"].get("description") != "time check":  # by which a run without a clock reads the time
                change(document["data"])
                return status, {**sent, **headers}, json.dumps(document).encode()
            return found, sent, body

        service.answer = changed  # type: ignore[method-assign]
        result = play(Case(steps), ExternalService(service.url, "key-1", adapter=service))
    assert result.violation is not None
    return result.violation


def setting(name: str, value: Any) -> Change:
    return lambda data: data.update({name: value})


def at(moment: str, part: str) -> str:
    return moment.replace(".000Z", part)


CHARGE = charge("c1", internalId="i1")
STATIC = static("s1", allowedSlots=2, internalId="i1")
MEMBERS: list[tuple[Step, Change, str, object]] = [
    (CHARGE, setting("amount", 1000), "DECISIONS amounts", {"amount": 1000}),
    (CHARGE, setting("description", "x"), f"{SCHEMAS}/Charge/properties/description", {"description": "x"}),
    (CHARGE, setting("internalId", "x"), f"{SCHEMAS}/Charge/properties/internalId", {"internalId": "x"}),
    (CHARGE, setting("internalId", None), "DECISIONS not-given", {"internalId": None}),
    (CHARGE, setting("callbackUrl", "http://x/"), f"{SCHEMAS}/Charge/properties/callbackUrl", None),
    (CHARGE, setting("status", "error"), f"{SCHEMAS}/Charge/properties/status", {"status": "error"}),
    (CHARGE, setting("unit", "sats"), "DECISIONS client-fields", {"unit": "sats"}),
    (CHARGE, setting("foo", 1), f"{SCHEMAS}/Charge", {"foo": 1}),
    (CHARGE, setting("staticChargeId", "x"), "DECISIONS child-charges", {"staticChargeId": "x"}),
    (
        CHARGE, lambda data: data["invoice"].update(expiresAt="2031-01-01T00:00:00.000Z"), "DECISIONS timestamps",
        {"invoice": {"expiresAt": "2031-01-01T00:00:00.000Z"}},
    ),
    (
        CHARGE, lambda data: data["invoice"].update(uri="x"), "DECISIONS client-fields", {"invoice": {"uri": "x"}},
    ),
    (
        CHARGE, lambda data: data.update(createdAt=at(data["createdAt"], ".123Z")), "DECISIONS timestamps",
        {"createdAt": "2030-01-01T00:00:00.123Z"},
    ),
    (STATIC, setting("slots", 1), "DECISIONS slots", {"slots": 1}),
    (STATIC, setting("slots", False), "DECISIONS slots", {"slots": False}),
    (STATIC, setting("minAmount", 1000), "DECISIONS amounts", None),
    (STATIC, setting("allowedSlots", 3), "DECISIONS allowed-slots", {"allowedSlots": 3}),
    (STATIC, setting("identifier", "a@b"), "DECISIONS identifier", {"identifier": "a@b"}),
    (STATIC, setting("expiresAt", "2031-01-01T00:00:00.000Z"), "DECISIONS static-expiry", None),
    (STATIC, setting("successMessage", "yo"), "DECISIONS not-given", {"successMessage": "yo"}),
]  # fmt: skip


@pytest.mark.parametrize(("step", "change", "rule", "observed"), MEMBERS)
def test_the_clause_of_a_member_is_quoted(step: Step, change: Change, rule: str, observed: object) -> None:
    found = violation(change, step)
    assert (found.check, found.rule_id) == ("echo", rule)
    assert observed is None or found.observed == repr(observed)
    assert rule_text(rule) or not rule.startswith("DECISIONS")


def test_an_invoice_in_upper_case_is_named_by_itself() -> None:
    found = violation(lambda data: data["invoice"].update(request=data["invoice"]["request"].upper()), CHARGE)
    assert (found.check, found.rule_id) == ("invoice_agrees", "DECISIONS invoices")
    assert found.where.endswith(": invoice.request")


@pytest.mark.parametrize(("answer", "place"), [({"Content-Type": "text/plain"}, ": content-type"), ({}, ": status")])
def test_the_form_of_a_success_is_no_matter_of_states(answer: dict[str, str], place: str) -> None:
    found = violation(lambda data: None, CHARGE, status=200 if answer else 201, **answer)
    assert (found.check, found.rule_id) == ("answers_are_declared", PATHS)
    assert found.where.endswith(place)


def test_a_header_of_a_callback_has_its_own_clause() -> None:
    with foreign_service() as service:
        inbox = service.inbox
        service.inbox = lambda url: [  # type: ignore[method-assign]
            ({name: one for name, one in headers.items() if name != "leyden-event"}, body)
            for headers, body in inbox(url)
        ]
        target = ExternalService(service.url, "key-1", adapter=service)
        found = play(Case((charge("c1"), pay("c1"))), target).violation
    assert found is not None
    place = "charges.openapi.yaml#/components/parameters/LeydenEvent"
    assert (found.check, found.rule_id) == ("callback_contract", place)
    assert rule_text(place)
    assert header_clause({"webhook-id": "a"}, {"webhook-id": "b"}) == "callback-signature"
    assert header_clause({"content-type": "a"}, {"content-type": "b"}) == "callback-body"


def test_a_difference_keeps_the_place_and_the_types() -> None:
    one, other = {"a": {"b": {"c": 1, "d": 2}}, "e": 1}, {"a": {"b": {"c": 1, "d": 3}}, "e": True}
    assert difference(one, other) == ({"a": {"b": {"d": 2}}, "e": 1}, {"a": {"b": {"d": 3}}, "e": True})
    assert difference({"a": 1}, {}) == ({"a": 1}, {"a": "(absent)"})
