"""Fields by a name of another interface: what a refusal says is meant has the amount and the time that were sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from leyden import Sandbox
from leyden.server.http.field_names import meant_field
from leyden.world.config import packaged_contract

PAID: dict[str, Any] = {"request": "lnbcrt1"}
UNITS = {"msat": "1", "sat": "1000", "sats": "1000", "satoshis": "1000", "btc": "100000000000"}
SPANS = {"ms": "0.001", "seconds": "1", "secs": "1", "minutes": "60", "min": "60", "hours": "3600", "days": "86400"}
TARGETS = [  # method, path, the fields that are right, the field whose name has a unit, whether it is alone of its kind
    ("POST", "/v0/charges", {"description": "tea"}, "amount", True),
    ("POST", "/v0/static-charges", {"description": "tea", "maxAmount": "500000000"}, "minAmount", False),
    ("POST", "/v0/static-charges", {"description": "tea", "minAmount": "1000"}, "maxAmount", False),
    ("POST", "/sandbox/v1/payments", PAID, "amount", True),
    ("POST", "/sandbox/v1/payments", PAID, "delay", True),
    ("POST", "/sandbox/v1/clock/advance", {}, "by", True),
]
PROPOSED = re.compile(
    r'did you mean (\w+)\? It is in (\w+)(?: \(([^)]*)\))?(?:: write (?:the number ([0-9.]+)|"(\d+)"))?'
)


def spellings(field: str, unit: str, *, alone: bool) -> Iterator[str]:
    yield from (f"{field}{unit.title()}", f"{field}_{unit}", f"{field}-{unit}", f"{field}{unit}".lower())
    yield f"{unit}_{field}"
    if alone and len(unit) > 2:
        yield unit


def details(sandbox: Sandbox, method: str, path: str, body: Any) -> list[str]:
    answer = sandbox.request(method, path, body)
    return [one["detail"] for one in json.loads(answer.body).get("errors", ())] if answer.status == 400 else []


@pytest.mark.parametrize(("method", "path", "others", "field", "alone"), TARGETS)
def test_a_name_with_a_unit_gets_the_same_amount_in_the_unit_of_the_field(
    sandbox: Sandbox, method: str, path: str, others: dict[str, Any], field: str, alone: bool
) -> None:
    is_span = field in {"delay", "by"}
    for unit, factor in (SPANS if is_span else UNITS).items():
        for name in spellings(field, unit, alone=alone):
            for sent in (2500, "2500") if unit != "btc" else ("0.0025", 0.0025):
                found = [PROPOSED.search(one) for one in details(sandbox, method, path, {**others, name: sent})]
                hint = next((one for one in found if one is not None), None)
                assert hint is not None, (name, details(sandbox, method, path, {**others, name: sent}))
                assert hint[1] == field
                assert hint[2] == ("seconds" if is_span else "millisatoshis")
                assert Decimal(hint[4] or hint[5]) == Decimal(str(sent)) * Decimal(factor), (name, hint[0])
                assert (factor == "1") == (hint[3] is None)
                meant = json.loads(hint[4]) if hint[4] else hint[5]
                again = details(sandbox, method, path, {**others, field: meant})
                assert [one for one in again if "received" in one] == []


def test_an_amount_in_a_currency_that_is_not_converted_gets_the_unit_and_no_number(sandbox: Sandbox) -> None:
    for name in ("amountUsd", "amount_eur", "usd", "amountCents"):
        (detail,) = details(sandbox, "POST", "/v0/charges", {"description": "tea", name: "2500"})
        assert detail.endswith("did you mean amount? It is in millisatoshis (no other currency is converted)")


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        (
            "ChargeRequest",
            {
                "amount": "value price total",
                "description": "memo notes note title desc",
                "callbackUrl": "webhook webhookUrl webhook_url notify_url callback notificationUrl",
                "expiresIn": "expiry expires_in ttl expiration",
                "internalId": "order_id orderId reference externalId metadata",
            },
        ),
        (
            "StaticChargeRequest",
            {
                "minAmount": "min minSendable minimum",
                "maxAmount": "max maxSendable",
                "allowedSlots": "slots maxUses",
                "identifier": "lightning_address username",
                "successMessage": "message",
            },
        ),
        ("StaticChargeChanges", {"callbackUrl": "webhook", "internalId": "order_id", "description": "memo"}),
    ],
)
def test_the_usual_names_of_other_interfaces_are_known(schema: str, names: dict[str, str]) -> None:
    known = packaged_contract("charges").document["components"]["schemas"][schema]["properties"]
    for field, others in names.items():
        for other in others.split():
            meant = meant_field(other, known)
            assert meant is not None, other
            assert meant.name == field, other
    assert meant_field("zebra", known) is None


def test_an_ignored_name_with_a_unit_gets_the_unit_of_the_field(sandbox: Sandbox) -> None:
    body = {"amount": "250000", "description": "tea", "expiresInMinutes": 5, "webhook": "http://shop.localhost/"}
    answer = sandbox.request("POST", "/v0/charges", body)
    value = next(text for name, text in answer.headers if name == b"leyden-ignored").decode()
    assert value == '"expiresInMinutes";did-you-mean="expiresIn";unit="seconds", "webhook";did-you-mean="callbackUrl"'
    assert sandbox.ask("GET", "/sandbox/v1")["ignoredFields"] == [
        'POST /v0/charges: "expiresInMinutes" is ignored; did you mean "expiresIn"? It is in seconds (1 minute is 60)',
        'POST /v0/charges: "webhook" is ignored; did you mean "callbackUrl"?',
    ]


def test_the_only_field_of_a_body_is_not_to_be_left_out(sandbox: Sandbox) -> None:
    """Without it the request adds a payer of every Charge."""
    (alone,) = details(sandbox, "POST", "/sandbox/v1/payers", {"request": "lnbcrt1"})
    assert "leave it out" not in alone
    assert "its fields are amount, description" in alone
    assert alone.endswith("check the path too, because nothing else was sent")
    (one,) = details(sandbox, "POST", "/sandbox/v1/payers", {"request": "lnbcrt1", "outcome": "never"})
    assert one.endswith(": leave it out")


def test_a_field_that_was_sent_already_is_not_proposed(sandbox: Sandbox) -> None:
    (detail,) = details(sandbox, "POST", "/sandbox/v1/payments", {"request": "lnbcrt1", "invoice": "lnbcrt1"})
    assert detail == "invoice is not a field of this object: leave it out"
