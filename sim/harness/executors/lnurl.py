"""Acts of a payer's wallet, without a key: reading a link, asking it for an invoice, asking whether that was paid."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from leyden.harness.checks import responses as checks
from leyden.harness.checks.violations import Broken
from leyden.harness.model.model import Promise
from leyden.harness.model.records import Charge, Static
from leyden.harness.runs.run import Run, Step


def link_answer(promise: Promise, answer: Any, where: str) -> dict[str, Any] | None:
    """An LNURL answer: always 200; the body of a success, or None for the ERROR that was promised."""
    clause = "DECISIONS lnurl-pay"
    if answer.status != 200:
        raise Broken("errors_are_problems", clause, f"{where}: status", 200, f"{answer.status} {answer.body[:200]!r}")
    checks.media(answer, "application/json", where)
    body = answer.json
    error = isinstance(body, dict) and body.get("status") == "ERROR"
    if error != promise.refused_link:
        promised = "status ERROR" if promise.refused_link else "what the wallet asked for"
        raise Broken("lifecycle", clause, where, promised, body)
    if error and (set(body) != {"status", "reason"} or not isinstance(body["reason"], str) or not body["reason"]):
        raise Broken("errors_are_problems", clause, where, "status and a reason", body)
    return None if error else body


def _terms(run: Run, static: Static, operation: str, path: str, where: str) -> bool:
    promise = run.model.terms(static)
    body = link_answer(promise, run.ask(operation, path, key=None), where)
    if body is None:
        return False
    promised = {
        "tag": "payRequest",
        "callback": f"{run.target.base_url}/lnurlp/{static.id}/invoice",
        "minSendable": static.min_msat,
        "maxSendable": static.max_msat,
        "metadata": static.metadata,
        "commentAllowed": 150,
    }
    if static.metadata is None:
        checks.metadata(body.get("metadata"), static, where)
        promised["metadata"] = static.metadata = body["metadata"]
    checks.same(promised, body, "echo", "DECISIONS lnurl-pay", where)
    return True


def terms(run: Run, step: Step) -> bool:
    """{"do": "terms", "static": "s1", "address"?: true}: a wallet reads the link, or its Lightning address."""
    static = run.model.book.statics.get(step["static"])
    if static is None:
        return False
    operation, path = "getPayRequest", f"/lnurlp/{static.id}"
    if step.get("address"):
        if not static.identifier:
            return False
        operation, path = "getLightningAddress", f"/.well-known/lnurlp/{static.identifier.partition('@')[0]}"
    _terms(run, static, operation, path, f"terms of {static.label}")
    return True


def invoice(run: Run, step: Step) -> bool:
    """{"do": "invoice", "static": "s1", "as": "c2", "amount": "1000", "comment"?, "twice"?, "extra"?}."""
    static = run.model.book.statics.get(step["static"])
    if static is None:
        return False
    where = f"invoice of {static.label}"
    if static.metadata is None:
        _terms(run, static, "getPayRequest", f"/lnurlp/{static.id}", where)
    amount, comment, twice = step.get("amount"), step.get("comment", ""), bool(step.get("twice"))
    pairs = [("amount", amount)] if amount is not None else []
    pairs += [("amount", amount)] if twice and amount is not None else []
    pairs += [("comment", comment)] if comment else []
    pairs += [("nonce", "1")] if step.get("extra") else []
    promise = run.model.ask_invoice(step["as"], static, amount, comment, twice and amount is not None)
    query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in pairs)
    answer = run.ask("requestInvoice", f"/lnurlp/{static.id}/invoice{f'?{query}' if query else ''}", key=None)
    body = link_answer(promise, answer, where)
    if body is None:
        return True
    charge = promise.made
    assert isinstance(charge, Charge)
    _see_child(run, charge, where)
    promised: dict[str, Any] = {
        "pr": charge.request,
        "routes": [],
        "disposable": static.allowed == 1,
        "verify": f"{run.target.base_url}/lnurlp/{static.id}/verify/{charge.payment_hash}",
    }
    if static.success_message:
        promised["successAction"] = {"tag": "message", "message": static.success_message}
    checks.same(promised, body, "invoice_agrees", "DECISIONS lnurl-pay", where)
    return True


def _see_child(run: Run, charge: Charge, where: str) -> None:
    """The newest Charge of the Static Charge is the one that was asked for."""
    static = charge.parent
    assert static is not None
    path = f"/v0/static-charges/{static.id}/charges?limit=1"
    data = checks.success(
        run.ask("listStaticChargeCharges", path, key=static.project), "DECISIONS child-charges", "list"
    )
    run.bind_charge(charge, data[0] if isinstance(data, list) and data else None, where)


def verify(run: Run, step: Step) -> bool:
    """{"do": "verify", "charge": "c2", "static"?}: whether the invoice of a link was paid, with the proof."""
    charge = run.model.book.charges.get(step["charge"])
    static = run.model.book.statics.get(step.get("static", "")) or (None if charge is None else charge.parent)
    if charge is None or static is None:
        return False
    where = f"verify {charge.label} at {static.label}"
    promise = Promise(200, refused_link=charge.parent is not static)
    answer = run.ask("verifyPayment", f"/lnurlp/{static.id}/verify/{charge.payment_hash}", key=None)
    body = link_answer(promise, answer, where)
    if body is None:
        return True
    settled = charge.status == "completed"
    if settled and charge.preimage is None:
        checks.proof(body.get("preimage"), charge.payment_hash, where)
        charge.preimage = body["preimage"]
    promised = {
        "status": "OK",
        "settled": settled,
        "preimage": charge.preimage if settled else None,
        "pr": charge.request,
    }
    checks.same(promised, body, "lifecycle", "DECISIONS lnurl-pay", where)
    return True
