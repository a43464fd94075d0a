"""Whole answers, the event journal and the statistics of a run are compared: a change of any part is a violation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from leyden.harness.checks.violations import ContractViolation
from leyden.harness.conformance.scenario import DAY_MS, advance, charge, fail, invoice, pay, receiver, static
from leyden.harness.runs.cases import Case, play
from leyden.harness.session.observe import check_jitter
from leyden.harness.targets.target import InProcess, Response

STEPS = (
    receiver(answers=[500]),
    charge("c1"),
    static("s1", allowedSlots=1),
    invoice("c2"),
    pay("c1"),
    pay("c2"),
    charge("c3", amount="1"),
    charge("c4"),
    fail("c4"),
    advance(DAY_MS),
)


class Changed(InProcess):
    """A sandbox whose responses are changed on the way."""

    def __init__(self, path: str, change: Callable[[Response], Response]) -> None:
        super().__init__()
        self._path, self._change = path, change

    def send(self, method: str, target: str, headers: Any, body: bytes) -> Response:
        response = super().send(method, target, headers, body)
        return self._change(response) if target.startswith(self._path) else response


def with_json(response: Response, value: Any) -> Response:
    body = orjson.dumps(value)
    return replace(response, body=body, headers={**response.headers, "content-length": str(len(body))})


def violation(path: str, change: Callable[[Response], Response]) -> str:
    return str(play(Case(STEPS), Changed(path, change)).violation)


def test_the_journal_of_the_steps_has_no_violation() -> None:
    assert play(Case(STEPS)).violation is None


@pytest.mark.parametrize(
    "kind", ["request", "created", "payment_settled", "callback_started", "callback_answered", "payment_succeeded",
             "slots_filled", "invoice_failed"],
)  # fmt: skip
def test_an_entry_of_the_journal_that_is_missing_is_a_violation(kind: str) -> None:
    def without(response: Response) -> Response:
        entries = response.json
        index = next((n for n, one in enumerate(entries) if one["kind"] == kind), None)
        if index is not None:
            del entries[index]
        for number, one in enumerate(entries, 1):
            one["sequence"] = number
        return with_json(response, entries)

    assert "journal" in violation("/sandbox/v1/journal", without)


@pytest.mark.parametrize(
    ("name", "value"), [("sequence", 7), ("at", "1999-01-01T00:00:00.000Z"), ("kind", "lost"), ("subject", "x")]
)
def test_a_changed_entry_of_the_journal_is_a_violation(name: str, value: Any) -> None:
    def changed(response: Response) -> Response:
        entries = response.json
        for one in entries:
            if one["kind"] == "created":
                one[name] = value
                break
        return with_json(response, entries)

    assert "journal" in violation("/sandbox/v1/journal", changed)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [("request", "refused", "conflict"), ("request", "refused", None), ("callback_started", "resource", "x"),
     ("callback_answered", "resource", None), ("callback_replayed", "resource", None)],
)  # fmt: skip
def test_a_changed_fact_of_the_journal_is_a_violation(kind: str, name: str, value: str | None) -> None:
    def changed(response: Response) -> Response:
        entries = response.json
        for one in entries:
            if one["kind"] == kind and name in one["facts"]:
                one["facts"][name] = value
                break
        return with_json(response, entries)

    steps = (*STEPS, {"do": "replay", "charge": "c1"})
    assert "journal" in str(play(Case(steps), Changed("/sandbox/v1/journal", changed)).violation)


def test_a_refusal_of_a_request_that_succeeded_is_a_violation() -> None:
    def changed(response: Response) -> Response:
        entries = response.json
        next(one for one in entries if one["kind"] == "request")["facts"]["refused"] = "conflict"
        return with_json(response, entries)

    assert "journal" in violation("/sandbox/v1/journal", changed)


@pytest.mark.parametrize(
    ("headers", "where"),
    [({"x-powered-by": "x"}, "x-powered-by"), ({"content-type": "application/json; charset=latin-1"}, "content-type"),
     ({"content-length": "1"}, "content-length"), ({"leyden-ignored": '"colour"'}, "leyden-ignored")],
)  # fmt: skip
def test_every_header_is_compared(headers: dict[str, str], where: str) -> None:
    text = violation("/v0/charges", lambda response: replace(response, headers={**response.headers, **headers}))
    assert "headers" in text
    assert where in text


def test_a_request_id_that_is_used_twice_is_a_violation() -> None:
    def same_id(response: Response) -> Response:
        body = response.json
        return with_json(response, {**body, "request_id": "req-1"}) if "request_id" in body else response

    twice = (charge("c1", amount="1"), charge("c2", amount="2"))
    assert "request_id" in str(play(Case(twice), Changed("/v0", same_id)).violation)


@pytest.mark.parametrize(
    "offsets",
    [
        [0.5] * 40,
        [n / 40 for n in range(40)],
        [-n / 40 for n in range(40)],
        [n / 100 for n in range(-50, 51)],
        [n / 100 for n in range(-100, 51)],
    ],
)
def test_delays_that_are_alike_or_far_from_a_bound_are_a_violation(offsets: list[float]) -> None:
    with pytest.raises(ContractViolation, match="jitter"):
        check_jitter(offsets)


def test_delays_that_come_near_both_bounds_are_none() -> None:
    check_jitter([n / 20 for n in range(-20, 20)])
    check_jitter([n / 50 for n in range(-50, 50)])
    check_jitter([0.5] * 39)  # too few to say anything


@pytest.mark.parametrize("name", ["X-Idempotency-Key", "idempotent-key", "Idempotency_Key"])
@pytest.mark.parametrize("target", ["/v0/charges", "/v0/static-charges"])
def test_a_slip_of_the_idempotency_key_has_to_be_named(name: str, target: str) -> None:
    fields = {"minAmount": "1000", "maxAmount": "1000"} if "static" in target else {"amount": "1000"}
    step = {
        "do": "request", "method": "POST", "target": target, "body": {**fields, "description": "tea"},
        "headers": [["apikey", "{key}"], ["Content-Type", "application/json"], [name, "k1"]],
    }  # fmt: skip
    case = Case((step,))
    assert play(case).violation is None

    def without(response: Response) -> Response:
        return replace(response, headers={key: one for key, one in response.headers.items() if key != "leyden-ignored"})

    assert "headers" in str(play(case, Changed(target, without)).violation)
