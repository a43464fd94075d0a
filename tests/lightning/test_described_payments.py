"""What the control document says of held and incomplete payments and of counts is what the sandbox does."""

from __future__ import annotations

import re

import pytest

from leyden import Sandbox
from leyden.sandbox.resources import Charge

CONTROL = "/sandbox/v1"


def document(sandbox: Sandbox) -> dict:
    return sandbox.http.get(f"{CONTROL}/openapi.json").json()


def described(text: str) -> str:
    return " ".join(text.split())


def charge(sandbox: Sandbox) -> Charge:
    return sandbox.charges.create(amount="400000", description="tea", expiresIn=86_400)


@pytest.mark.parametrize("network", ["direct", "line:4,ideal", "star:6"])
@pytest.mark.parametrize(
    ("way", "end", "of_charge"), [("settle", "succeeded", "completed"), ("cancel", "failed", "error")]
)
def test_the_end_of_a_held_payment_has_the_status_that_its_document_says(
    network: str, way: str, end: str, of_charge: str
) -> None:
    with Sandbox(seed=3, network=network) as sandbox:
        path = document(sandbox)["paths"][f"{CONTROL}/payments/{{id}}/{way}"]["post"]
        told = re.fullmatch(
            r"The payment, `(\w+)`; on a network `(\w+)` until .*", path["responses"]["200"]["description"]
        )
        assert told is not None
        made = charge(sandbox)
        payment = sandbox.wallet("ana").pay(made, outcome="hold")
        sandbox.advance("1m")
        assert payment.status == "held"
        answer = sandbox.ask("POST", f"{CONTROL}/payments/{payment.id}/{way}")
        assert (answer["status"], made.status) == (told[1] if network == "direct" else told[2], of_charge)
        sandbox.advance("1m")
        assert payment.status == end == told[1]


def test_a_payment_is_held_for_as_long_as_its_document_says() -> None:
    with Sandbox(seed=3) as sandbox:
        schemas = document(sandbox)["components"]["schemas"]
        text = described(schemas["PaymentOrder"]["properties"]["outcome"]["description"])
    told = re.search(r"on a network, whose blocks come at random, mostly after (\d+) to (\d+) hours", text)
    assert told is not None
    least, most = int(told[1]), int(told[2])
    within = 0
    for seed in range(20):
        with Sandbox(seed=seed, network="line:3,ideal") as sandbox:
            payment = sandbox.wallet("ana").pay(charge(sandbox), outcome="hold")
            sandbox.advance(f"{least}h")
            early = payment.status != "held"
            sandbox.advance(f"{most - least}h")
            within += not early and payment.status != "held"
    assert within >= 16


@pytest.mark.parametrize("network", ["direct", "star:6,ideal"])
def test_an_incomplete_payment_whose_amount_another_one_completes_succeeds_as_its_document_says(network: str) -> None:
    with Sandbox(seed=3, network=network) as sandbox:
        schemas = document(sandbox)["components"]["schemas"]
        text = described(schemas["PaymentOrder"]["properties"]["outcome"]["description"])
        assert "unless another payment completes the amount: both then succeed" in text
        made = charge(sandbox)
        payments = []
        for payer, outcome in (("ana", "incomplete"), ("bob", "settle")):
            payments.append(sandbox.wallet(payer).pay(made, outcome=outcome))
            sandbox.advance("5s")
        assert [one.status for one in payments] == ["succeeded", "succeeded"]
        assert made.status == "completed"


def test_what_comes_when_the_count_is_used_or_an_older_rule_takes_is_not_counted_as_matched() -> None:
    with Sandbox(seed=3) as sandbox:
        schemas = document(sandbox)["components"]["schemas"]
        for name in ("Payer", "ServiceFault"):
            text = described(schemas[name]["properties"]["matches"]["description"])
            assert re.search(r"of those that no older \w+ \w+; none once `count` is used", text), text
        for _ in range(2):
            sandbox.ask("POST", f"{CONTROL}/payers", {"count": 2})
            sandbox.ask("POST", f"{CONTROL}/service-faults", {"kind": "error", "operation": "listCharges", "count": 2})
        for _ in range(3):
            charge(sandbox)
            sandbox.http.get("/v0/charges")
        sandbox.advance("1s")
        for kind in ("payers", "service-faults"):
            rows = sandbox.ask("GET", f"{CONTROL}/{kind}")["data"]
            assert [(row["matches"], row["hits"]) for row in rows] == [(2, 2), (1, 1)]
