"""Executors for a payer's wallet, without an API key: read an LNURL, request an invoice, verify a payment."""

from __future__ import annotations

from urllib.parse import quote

from leyden.harness.checks import responses as checks
from leyden.harness.model.records import StaticCharge
from leyden.harness.session.session import Session
from leyden.harness.session.wallet import bind_child, expected_invoice, expected_pay_request, expected_proof
from leyden.harness.steps import Step, StepImpossible


def _check_pay_request(session: Session, static: StaticCharge, operation: str, path: str, where: str) -> None:
    error = not session.model.ledger.can_issue_invoice(static)
    body = checks.wallet_response(session.request(operation, path, key=None), error, where)
    if body is not None:
        checks.same(expected_pay_request(session, static, body, where), body, "echo", "lnurl-pay", where)


def pay_request(session: Session, step: Step) -> None:
    """{"do": "pay_request", "static": "s1", "address"?: true}: a wallet reads the LNURL or the Lightning address."""
    static = session.static(step["static"])
    operation, path = "getPayRequest", f"/lnurlp/{static.id}"
    if step.get("address"):
        if not static.identifier:
            raise StepImpossible("the Static Charge has no Lightning address")
        operation, path = "getLightningAddress", f"/.well-known/lnurlp/{static.identifier.partition('@')[0]}"
    _check_pay_request(session, static, operation, path, f"pay request of {static.label}")


def invoice(session: Session, step: Step) -> None:
    """{"do": "invoice", "static": "s1", "as": "c2", "amount": "1000", "comment"?, "twice"?, "extra"?}."""
    static = session.static(step["static"])
    where = f"invoice of {static.label}"
    if static.metadata is None:
        _check_pay_request(session, static, "getPayRequest", f"/lnurlp/{static.id}", where)
    amount, comment, twice = step.get("amount"), step.get("comment", ""), bool(step.get("twice"))
    amount = None if amount is None else str(amount)
    pairs = [("amount", amount)] if amount is not None else []
    pairs += [("amount", amount)] if twice and amount is not None else []
    pairs += [("comment", comment)] if comment else []
    pairs += [("nonce", "1")] if step.get("extra") else []
    charge = session.model.request_invoice(step["as"], static, amount, comment, twice and amount is not None)
    query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in pairs)
    response = session.request("requestInvoice", f"/lnurlp/{static.id}/invoice{f'?{query}' if query else ''}", key=None)
    body = checks.wallet_response(response, charge is None, where)
    if body is None or charge is None:
        return
    bind_child(session, charge, where)
    checks.same(expected_invoice(session, charge), body, "invoice_agrees", "lnurl-pay", where)


def verify(session: Session, step: Step) -> None:
    """{"do": "verify", "charge": "c2", "static"?}: whether an invoice of LNURL was paid, with the preimage."""
    charge = session.charge(step["charge"])
    static = session.static(step["static"]) if "static" in step else charge.parent
    if static is None:
        raise StepImpossible("the Charge belongs to no Static Charge")
    where = f"verify {charge.label} at {static.label}"
    response = session.request("verifyPayment", f"/lnurlp/{static.id}/verify/{charge.payment_hash}", key=None)
    body = checks.wallet_response(response, charge.parent is not static, where)
    if body is None:
        return
    checks.same(expected_proof(charge, body, where), body, "lifecycle", "lnurl-pay", where)
