"""The operations, written from the routes of the specification."""

from __future__ import annotations

from dataclasses import dataclass

JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: its route, whether it needs an API key, has a body, and belongs to LNURL (`wallet`)."""

    name: str
    method: str
    path: str
    secured: bool = True
    has_body: bool = False
    wallet: bool = False


OPERATIONS = {
    one.name: one
    for one in (
        Operation("createCharge", "POST", "/v0/charges", has_body=True),
        Operation("listCharges", "GET", "/v0/charges"),
        Operation("getChargeDetails", "GET", "/v0/charges/{id}"),
        Operation("createStaticCharge", "POST", "/v0/static-charges", has_body=True),
        Operation("listStaticCharges", "GET", "/v0/static-charges"),
        Operation("getStaticChargeDetails", "GET", "/v0/static-charges/{id}"),
        Operation("updateStaticCharge", "PATCH", "/v0/static-charges/{id}", has_body=True),
        Operation("listStaticChargeCharges", "GET", "/v0/static-charges/{id}/charges"),
        Operation("getWallet", "GET", "/v0/wallet"),
        Operation("getPayRequest", "GET", "/lnurlp/{id}", secured=False, wallet=True),
        Operation("requestInvoice", "GET", "/lnurlp/{id}/invoice", secured=False, wallet=True),
        Operation("verifyPayment", "GET", "/lnurlp/{id}/verify/{paymentHash}", secured=False, wallet=True),
        Operation("getLightningAddress", "GET", "/.well-known/lnurlp/{user}", secured=False, wallet=True),
    )
}
