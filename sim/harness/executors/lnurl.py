"""Executors for a payer's wallet, without an API key: read an LNURL, request an invoice, verify a payment."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from leyden.harness.checks import responses as checks
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.model.model import ExpectedResponse
from leyden.harness.model.records import Charge, StaticCharge
from leyden.harness.session.session import Session
from leyden.harness.steps import Step
from leyden.harness.targets.target import Response


def lnurl_response(expected: ExpectedResponse, response: Response, where: str) -> dict[str, Any] | None:
    """Check a response of LNURL, whose status is always 200. Returns its body, or None for an expected ERROR."""
    rule_id = "DECISIONS lnurl-pay"
    if response.status != 200:
        raise ContractViolation(
            "errors_are_problems", rule_id, f"{where}: status", 200, f"{response.status} {response.body[:200]!r}"
        )
    checks.media(response, "application/json", where)
    body = response.json
    error = isinstance(body, dict) and body.get("status") == "ERROR"
    if error != expected.lnurl_error:
        text = "status ERROR" if expected.lnurl_error else "no status ERROR"
        raise ContractViolation("lifecycle", rule_id, where, text, body)
    if error and (set(body) != {"status", "reason"} or not isinstance(body["reason"], str) or not body["reason"]):
        raise ContractViolation("errors_are_problems", rule_id, where, "the members status and reason", body)
    return None if error else body


def _terms(session: Session, static: StaticCharge, operation: str, path: str, where: str) -> bool:
    expected_response = session.model.terms(static)
    body = lnurl_response(expected_response, session.request(operation, path, key=None), where)
    if body is None:
        return False
    expected = {
        "tag": "payRequest",
        "callback": f"{session.target.base_url}/lnurlp/{static.id}/invoice",
        "minSendable": static.min_msat,
        "maxSendable": static.max_msat,
        "metadata": static.metadata,
        "commentAllowed": 150,
    }
    if static.metadata is None:
        checks.metadata(body.get("metadata"), static, where)
        expected["metadata"] = static.metadata = body["metadata"]
    checks.same(expected, body, "echo", "DECISIONS lnurl-pay", where)
    return True


def terms(session: Session, step: Step) -> bool:
    """{"do": "terms", "static": "s1", "address"?: true}: a wallet reads the LNURL or the Lightning address."""
    static = session.model.ledger.static_charges.get(step["static"])
    if static is None:
        return False
    operation, path = "getPayRequest", f"/lnurlp/{static.id}"
    if step.get("address"):
        if not static.identifier:
            return False
        operation, path = "getLightningAddress", f"/.well-known/lnurlp/{static.identifier.partition('@')[0]}"
    _terms(session, static, operation, path, f"terms of {static.label}")
    return True


def invoice(session: Session, step: Step) -> bool:
    """{"do": "invoice", "static": "s1", "as": "c2", "amount": "1000", "comment"?, "twice"?, "extra"?}."""
    static = session.model.ledger.static_charges.get(step["static"])
    if static is None:
        return False
    where = f"invoice of {static.label}"
    if static.metadata is None:
        _terms(session, static, "getPayRequest", f"/lnurlp/{static.id}", where)
    amount, comment, twice = step.get("amount"), step.get("comment", ""), bool(step.get("twice"))
    pairs = [("amount", amount)] if amount is not None else []
    pairs += [("amount", amount)] if twice and amount is not None else []
    pairs += [("comment", comment)] if comment else []
    pairs += [("nonce", "1")] if step.get("extra") else []
    expected_response = session.model.request_invoice(step["as"], static, amount, comment, twice and amount is not None)
    query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in pairs)
    response = session.request("requestInvoice", f"/lnurlp/{static.id}/invoice{f'?{query}' if query else ''}", key=None)
    body = lnurl_response(expected_response, response, where)
    if body is None:
        return True
    charge = expected_response.record
    assert isinstance(charge, Charge)
    _bind_child(session, charge, where)
    expected: dict[str, Any] = {
        "pr": charge.request,
        "routes": [],
        "disposable": static.allowed == 1,
        "verify": f"{session.target.base_url}/lnurlp/{static.id}/verify/{charge.payment_hash}",
    }
    if static.success_message:
        expected["successAction"] = {"tag": "message", "message": static.success_message}
    checks.same(expected, body, "invoice_agrees", "DECISIONS lnurl-pay", where)
    return True


def _bind_child(session: Session, charge: Charge, where: str) -> None:
    """The newest Charge of the Static Charge belongs to the new invoice."""
    static = charge.parent
    assert static is not None
    path = f"/v0/static-charges/{static.id}/charges?limit=1"
    data = checks.success(
        session.request("listStaticChargeCharges", path, key=static.project), "DECISIONS child-charges", "list"
    )
    session.bind_charge(charge, data[0] if isinstance(data, list) and data else None, where)


def verify(session: Session, step: Step) -> bool:
    """{"do": "verify", "charge": "c2", "static"?}: whether an invoice of LNURL was paid, with the preimage."""
    charge = session.model.ledger.charges.get(step["charge"])
    static = session.model.ledger.static_charges.get(step.get("static", "")) or (
        None if charge is None else charge.parent
    )
    if charge is None or static is None:
        return False
    where = f"verify {charge.label} at {static.label}"
    expected_response = ExpectedResponse(200, lnurl_error=charge.parent is not static)
    response = session.request("verifyPayment", f"/lnurlp/{static.id}/verify/{charge.payment_hash}", key=None)
    body = lnurl_response(expected_response, response, where)
    if body is None:
        return True
    settled = charge.status == "completed"
    if settled and charge.preimage is None:
        checks.proof(body.get("preimage"), charge.payment_hash, where)
        charge.preimage = body["preimage"]
    expected = {
        "status": "OK",
        "settled": settled,
        "preimage": charge.preimage if settled else None,
        "pr": charge.request,
    }
    checks.same(expected, body, "lifecycle", "DECISIONS lnurl-pay", where)
    return True
