"""Refusals of faults name fields as the interface has them: the document's names over HTTP, Python's in Python."""

from __future__ import annotations

import re
from typing import Any

import pytest

from leyden import Sandbox

REFUSED: dict[str, list[dict[str, Any]]] = {
    "faults": [
        {"kind": "drop", "operation": "x"},
        {"kind": "drop", "event": "x"},
        {"kind": "drop", "chargeId": "{charge}"},
        {"kind": "rate_limit", "chargeId": "{charge}"},
        {"kind": "rate_limit", "event": "charge.completed", "attempt": 1, "chargeId": "{charge}"},
        {"kind": "drop", "headers": ["user-agent"]},
        {"kind": "missing_headers", "headers": ["host"]},
        {"kind": "drop", "value": "x"},
        {"kind": "drop", "delay": 1},
        {"kind": "delay", "delay": 0},
        {"kind": "old_secret"},
    ],
    "service-faults": [
        {"kind": "unknown_fields", "afterCommit": True},
        {"kind": "stale_read", "retryAfter": 1},
        {"kind": "error", "retryAfter": "900d"},
        {"kind": "error", "operation": "x"},
        {"kind": "error", "path": "/v0/charges?limit=1"},
        {"kind": "past_date", "delay": 0},
        {"kind": "error", "value": "x"},
        {"kind": "error", "until": "2020-01-01T00:00:00Z"},
    ],
    "network/interceptors": [
        {"kind": "fail"},
        {"kind": "delay", "delay": 0},
        {"kind": "offline"},
        {"kind": "drop", "lasting": 0},
        {"kind": "drop", "payment": "x"},
    ],
}
CASES = [(path, body) for path, bodies in REFUSED.items() for body in bodies]
ONLY_IN_PYTHON = re.compile(r"after_commit|retry_after|from_ms|until_ms|\bcharge\b(?!\.)|=\.\.\.|\bNone\b")


@pytest.mark.parametrize(("path", "body"), CASES, ids=str)
def test_a_refusal_has_the_names_of_the_document(path: str, body: dict[str, Any]) -> None:
    with Sandbox(seed=7, network="line:3" if path.startswith("network") else None) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea")
        sent = {name: charge.id if value == "{charge}" else value for name, value in body.items()}
        answer = sandbox.http.post(f"/sandbox/v1/{path}", json=sent)
    assert answer.status_code == 409
    assert not ONLY_IN_PYTHON.search(answer.json()["detail"])
    assert {error["pointer"][1:] for error in answer.json().get("errors", ())} <= set(body)


def test_a_rate_limit_with_a_charge_is_refused_by_the_name_of_its_field(sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="1000", description="tea")
    refused = sandbox.http.post("/sandbox/v1/faults", json={"kind": "rate_limit", "chargeId": charge.id}).json()
    assert refused["detail"].endswith("leave out chargeId")
    assert [error["pointer"] for error in refused["errors"]] == ["/chargeId"]
    with pytest.raises(ValueError, match=r"leave out charge$"):
        sandbox.faults.add("rate_limit", charge=charge)


def test_ignored_names_are_the_same_in_the_header_the_journal_and_the_list(sandbox: Sandbox) -> None:
    body = {"amount": "1000", "description": "tea", "callback_url": "http://shop.localhost/", "unit": "sats"}
    created = sandbox.http.post("/v0/charges", json=body)
    assert created.headers["leyden-ignored"] == '"callback_url";did-you-mean="callbackUrl", "unit";always="msats"'
    [entry] = [entry for entry in sandbox.world.journal.entries(kind="request") if "ignored" in entry.facts]
    assert entry.facts["ignored"] == [
        {"name": "callback_url", "didYouMean": "callbackUrl"}, {"name": "unit", "always": "msats"},
    ]  # fmt: skip
    assert sandbox.ask("GET", "/sandbox/v1")["ignoredFields"] == [
        'POST /v0/charges: "callback_url" is ignored; did you mean "callbackUrl"?',
        'POST /v0/charges: "unit" is ignored; it is always "msats"',
    ]
