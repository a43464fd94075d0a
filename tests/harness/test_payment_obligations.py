"""Obligations of payments and payers: each class finds a defect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from leyden.devserver.control import operations
from leyden.errors import PayerError
from leyden.harness.checks.responses import bech32, bech32_text, five_bits
from leyden.harness.control.request_checks import FORMS
from leyden.harness.obligations.control.payers import payer_obligations, payment_obligations
from leyden.harness.obligations.control.payment_requests import payment_request_obligations
from leyden.harness.obligations.derive import obligation_cases
from leyden.harness.runs.cases import play
from leyden.lightning.payer import automatic_payments, payment_requests, payment_scripts
from leyden.lightning.payer.automatic_payments import AutomaticPayments
from leyden.lightning.payer.payment_requests import request_kind
from leyden.server.charges.lnurl import CHARSET, decode_lnurl, encode_lnurl
from tests.support.deep import deep_or
from tests.support.obligations import violation_of

REQUESTS = [*payment_request_obligations()]
FOUND = [*payment_obligations(), *payer_obligations(), *REQUESTS]


def test_payments_and_payers_are_as_the_document_says() -> None:
    for case in obligation_cases(FOUND[:: deep_or(bounded=23, full=1)]):
        found = play(case)
        assert (found.violation, found.skipped) == (None, 0), case.name


def test_every_outcome_and_every_condition_is_tested() -> None:
    kinds = {one.kind for one in FOUND}
    for outcome in payment_scripts.OUTCOMES:
        assert {f"outcome:{outcome}", f"outcome-of:{outcome}", f"payer:{outcome}"} <= kinds
    places = {one.place for one in FOUND}
    for name in ("amount", "description", "internalId", "staticChargeId", "outcome", "failure", "count", "share"):
        assert f"addPayer body.{name}" in places


def _later(original: Any) -> Any:
    return lambda row, *rest: original(row, *rest) + 1


def _any_case(original: Any) -> Any:
    return lambda row, charge: original(row, {**charge, "description": charge["description"].lower()})


def _all_of_share(original: Any) -> Any:
    return lambda self, rule: original(self, {**rule, "share": 1})


@pytest.mark.parametrize(
    ("owner", "name", "spoilt", "kind", "case"),
    [
        (automatic_payments, "_SECOND_PAYMENT_MS", lambda _: 2_000, "payer:twice", "at once"),
        (automatic_payments, "due_at", _later, "payer:settle", "beforeExpiry 30"),
        (automatic_payments, "due_at", _later, "payer:fail", "afterExpiry 1"),
        (automatic_payments, "matches", _any_case, "payer-pattern", "tea"),
        (automatic_payments, "matches", lambda _: lambda row, charge: True, "payer-count", "2"),
        (AutomaticPayments, "_takes", _all_of_share, "payer-share", "0.25"),
        (AutomaticPayments, "document_rows", lambda _: property(lambda self: self._fixed[:0]),
         "document-payer", "206000"),
        (payment_scripts, "AMOUNTS", lambda _: ("overpay", "underpay", "overpay_double"),
         "outcome-of:underpay", "1001"),
    ],
)  # fmt: skip
def test_a_defect_is_found(
    owner: Any, name: str, spoilt: Callable[[Any], Any], kind: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, spoilt(getattr(owner, name)))
    assert violation_of(kind, case) is not None


def test_every_form_of_a_request_is_paid_or_fails_as_the_document_says() -> None:
    assert {(one.kind, one.case) for one in REQUESTS} >= {(kind, form) for kind in FORMS for form in FORMS[kind]}
    for case in obligation_cases(REQUESTS):
        found = play(case)
        assert (found.violation, found.skipped) == (None, 0), case.name


def _as_it_is(original: Callable[[str], str]) -> Callable[[str], str]:
    """The same without those that have a capital."""

    def kind_of(text: str) -> str:
        if text != text.lower():
            raise PayerError("in capitals")
        return original(text)

    return kind_of


def _without_checksum(text: str) -> str:
    places = [CHARSET.index(character) for character in text.lower().removeprefix("lnurl1")[:-6]]
    return str(bech32_text(bech32("lnurl", places)))


@pytest.mark.parametrize(
    ("owner", "name", "spoilt", "kind", "case"),
    [
        (operations, "request_kind", _as_it_is(request_kind), "invoice", "capitals"),
        (payment_requests, "request_kind", _as_it_is(request_kind), "address", "both cases"),
        (payment_requests, "decode_lnurl", _without_checksum, "lnurl", "another last character"),
        (payment_requests, "decode_lnurl", lambda text: f"{decode_lnurl(text)}x", "lnurl", "as it is"),
    ],
)  # fmt: skip
def test_a_form_that_is_read_in_another_way_is_found(
    owner: Any, name: str, spoilt: Callable[..., Any], kind: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, spoilt)
    assert violation_of(kind, case, "createPayment body.request") is not None


def test_a_wallet_that_pays_the_greatest_amount_of_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    original = payment_requests.fetch_pay_request

    def fetched(*args: Any, **more: Any) -> Any:
        found = original(*args, **more)
        return {**found, "minSendable": found["maxSendable"]}

    monkeypatch.setattr(payment_requests, "fetch_pay_request", fetched)
    assert violation_of("address", "as it is", "createPayment body.request") is not None


@pytest.mark.parametrize("text", ["http://localhost/lnurlp/x", "https://shop.example/" + "p" * 200])
def test_the_texts_of_bech32_are_those_of_the_service(text: str) -> None:
    assert bech32("lnurl", five_bits(text.encode())) == encode_lnurl(text)
    assert bech32_text(encode_lnurl(text)) == text
