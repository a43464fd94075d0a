"""Defects of LNURL-pay: the responses to wallets and the accepted amounts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import leyden.server.charges.static_charges
from leyden.errors import ApiError, PayerError
from leyden.lightning.bolt11.codec import decode
from leyden.server.charges.static_charges import StaticChargeService
from tests.seeded_defects.defect import Make, Plant, seeded
from tests.seeded_defects.invoices import ordered
from tests.seeded_defects.middleware import HttpRequest, HttpResponse, responses
from tests.seeded_defects.patches import attribute, changed, handler
from tests.seeded_defects.probing import TIPS, fetch, new_static, pay_request, send


def altered(operation_id: str, alter: Callable[[dict[str, Any]], dict[str, Any]]) -> Plant:
    """Change the response of an operation to a wallet."""
    return handler(operation_id, lambda service, original: lambda call: alter(original(call)))


def bounds(least: int = 0, most: int = 0) -> Plant:
    """Shift the bounds of the amounts that a payer may choose."""

    def wrap(service: Any, original: Callable[..., Any]) -> Callable[..., Any]:
        table = service.static_charges.static_charges

        def request_invoice(call: Any) -> Any:
            row = table.row(call.path["id"])
            if row is None:
                return original(call)
            table.put({**row, "min_msat": row["min_msat"] + least, "max_msat": row["max_msat"] + most})
            try:
                return original(call)
            finally:
                true = {"min_msat": row["min_msat"], "max_msat": row["max_msat"]}
                table.put({**table.existing(row["id"]), **true})

        return request_invoice

    return handler("requestInvoice", wrap)


def given(make: Make, amount: str | int, *, comment: str = "", **fields: Any) -> Any:
    """The response to a wallet that requests an invoice for an amount."""
    with make() as sandbox:
        url = pay_request(sandbox, new_static(sandbox, **fields))["callback"]
        return fetch(sandbox, f"{url}?amount={amount}" + (f"&comment={comment}" if comment else ""))


@seeded(
    "slots",
    "A payer may pay one millisatoshi less than `minAmount`.",
    violates="spec: /components/schemas/StaticCharge/properties/minAmount",
    plant=bounds(least=-1),
)
def paid_below_the_minimum(make: Make) -> bool:
    return "pr" in given(make, 1_999)


@seeded(
    "slots",
    "A payer may pay one millisatoshi more than `maxAmount`.",
    violates="spec: /components/schemas/StaticCharge/properties/maxAmount",
    plant=bounds(most=1),
)
def paid_above_the_maximum(make: Make) -> bool:
    return "pr" in given(make, 9_001)


@seeded(
    "slots",
    "A payment of exactly `maxAmount` is refused.",
    violates="spec: /components/schemas/StaticCharge/properties/maxAmount",
    plant=bounds(most=-1),
)
def maximum_itself_refused(make: Make) -> bool:
    return "pr" not in given(make, 9_000)


def _satoshis(request: HttpRequest, response: HttpResponse) -> None:
    def edit(document: dict[str, Any]) -> None:
        for name in ("minSendable", "maxSendable"):
            if name in document:
                document[name] //= 1_000

    response.rewrite(edit)


@seeded(
    "lnurl",
    "The bounds of the payRequest are in satoshis.",
    violates="spec: /components/schemas/PayRequest/properties/minSendable",
    plant=responses(_satoshis, "/lnurlp/"),
)
def bounds_in_satoshis(make: Make) -> bool:
    with make() as sandbox:
        return bool(pay_request(sandbox, new_static(sandbox))["minSendable"] == 2)


def _first_said(service: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    first: dict[str, Any] = {}

    def get_pay_request(call: Any) -> Any:
        return first.setdefault(call.path["id"], original(call))

    return get_pay_request


@seeded(
    "lnurl",
    "The bounds of the payRequest do not follow changes.",
    violates="decision: static-updates",
    plant=handler("getPayRequest", _first_said),
)
def stale_pay_request(make: Make) -> bool:
    with make() as sandbox:
        static = new_static(sandbox)
        pay_request(sandbox, static)
        static.update(maxAmount="8000")
        return bool(pay_request(sandbox, static)["maxSendable"] == 9_000)


def _spaced(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "metadata": json.dumps(json.loads(document["metadata"]), ensure_ascii=False)}


@seeded(
    "lnurl",
    "The spaces in the metadata differ from those that the invoice commits to.",
    violates="spec: /components/schemas/PayRequest/properties/metadata",
    plant=altered("getPayRequest", _spaced),
)
def metadata_formatted_differently(make: Make) -> bool:
    with make() as sandbox:
        try:
            sandbox.wallet("ana").scan(new_static(sandbox), amount=2_000)
        except PayerError:
            return True
        return False


@seeded(
    "lnurl",
    "The invoice of a Static Charge commits to its description and not to the metadata.",
    violates="decision: lnurl-pay",
    plant=ordered(
        lambda order: (
            order
            if order.description_hash is None
            else changed(order, description_hash=hashlib.sha256(order.description.encode()).digest())
        )
    ),
)
def invoice_commits_to_the_description(make: Make) -> bool:
    return decode(given(make, 2_000)["pr"]).description_hash == hashlib.sha256(b"Tips").digest()


@seeded(
    "lnurl",
    "An LNURL without a slot limit is marked as disposable.",
    violates="spec: /components/schemas/PayInvoice/properties/disposable",
    plant=altered("requestInvoice", lambda document: {**document, "disposable": True}),
)
def disposable_link(make: Make) -> bool:
    return given(make, 2_000)["disposable"] is True


def _without_action(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "successAction"}


@seeded(
    "lnurl",
    "The `successMessage` is not sent to the payer.",
    violates="spec: /components/schemas/PayInvoice/properties/successAction",
    plant=altered("requestInvoice", _without_action),
)
def success_message_lost(make: Make) -> bool:
    return "successAction" not in given(make, 2_000, successMessage="Thank you")


def _any_comment(service: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    def request_invoice(call: Any) -> Any:
        comment = (call.query.get("comment") or "")[:150]
        return original(changed(call, query={**call.query, "comment": comment}))

    return request_invoice


@seeded(
    "lnurl",
    "A comment of more than 150 characters is accepted, and cut.",
    violates="decision: lnurl-pay",
    plant=handler("requestInvoice", _any_comment),
)
def comment_too_long(make: Make) -> bool:
    return "pr" in given(make, 2_000, comment="x" * 151)


def _early_proof(service: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    def verify(call: Any) -> Any:
        response = original(call)
        invoice = service.store.table("invoices", key="payment_hash").existing(call.path["paymentHash"])
        return {**response, "preimage": invoice["preimage"]}

    return verify


@seeded(
    "lnurl",
    "The preimage is returned before the payment.",
    violates="spec: /components/schemas/PaymentProof/properties/preimage",
    plant=handler("verifyPayment", _early_proof),
)
def preimage_before_payment(make: Make) -> bool:
    with make() as sandbox:
        url = pay_request(sandbox, new_static(sandbox))["callback"]
        return bool(fetch(sandbox, fetch(sandbox, f"{url}?amount=2000")["verify"])["preimage"] is not None)


def _as_problem(request: HttpRequest, response: HttpResponse) -> None:
    if b'"status":"ERROR"' in response.raw:
        response.status = 400


@seeded(
    "lnurl",
    "An invalid request of a wallet gets the status 400 instead of an LNURL error.",
    violates="decision: lnurl-pay",
    plant=responses(_as_problem, "/lnurlp/"),
)
def refusal_with_400(make: Make) -> bool:
    with make() as sandbox:
        return send(sandbox, "GET", f"/lnurlp/{new_static(sandbox).id}/invoice", key=None).status == 400


def _closed_to_browsers(request: HttpRequest, response: HttpResponse) -> None:
    response.headers = [pair for pair in response.headers if pair[0] != b"access-control-allow-origin"]


@seeded(
    "lnurl",
    "The LNURL responses have no CORS header, so wallets in browsers cannot read them.",
    violates="decision: lnurl-pay",
    plant=responses(_closed_to_browsers, "/lnurlp/"),
)
def no_cors_header(make: Make) -> bool:
    with make() as sandbox:
        got = send(sandbox, "GET", f"/lnurlp/{new_static(sandbox).id}", key=None)
        return "access-control-allow-origin" not in got.headers


@seeded(
    "lnurl",
    "Two Static Charges may have the same Lightning address.",
    violates="decision: identifier",
    plant=attribute(StaticChargeService, "user_exists", lambda original: lambda self, user: False),
)
def address_used_twice(make: Make) -> bool:
    with make() as sandbox:
        try:
            for _ in range(2):
                new_static(sandbox, identifier="band@leyden.example")
        except ApiError:
            return False
        return True


@seeded(
    "lnurl",
    "The metadata of a Lightning address does not contain the address.",
    violates="spec: /components/schemas/PayRequest/properties/metadata",
    plant=attribute(
        leyden.server.charges.static_charges,
        "pay_metadata",
        lambda original: lambda description, identifier=None: original(description),
    ),
)
def address_missing_in_metadata(make: Make) -> bool:
    with make() as sandbox:
        document = pay_request(sandbox, new_static(sandbox, **{**TIPS, "identifier": "band@leyden.example"}))
        return "text/identifier" not in document["metadata"]
