"""The answers that a wallet must get by LNURL from a service in the state of the model."""

from __future__ import annotations

from typing import Any

from leyden.harness.checks import responses as checks
from leyden.harness.model.records import Charge, StaticCharge
from leyden.harness.session.session import Session


def expected_pay_request(session: Session, static: StaticCharge, body: Any, where: str) -> dict[str, Any]:
    """The pay request of a Static Charge that issues invoices; its metadata is taken from the first response."""
    if static.metadata is None:
        checks.metadata(body.get("metadata"), static, where)
        static.metadata = body["metadata"]
    return {
        "tag": "payRequest",
        "callback": f"{session.target.base_url}/lnurlp/{static.id}/invoice",
        "minSendable": static.min_msat,
        "maxSendable": static.max_msat,
        "metadata": static.metadata,
        "commentAllowed": 150,
    }


def expected_invoice(session: Session, charge: Charge) -> dict[str, Any]:
    """The answer to a wallet that requested the invoice of this Charge."""
    static = charge.parent
    assert static is not None
    expected: dict[str, Any] = {
        "pr": charge.request,
        "routes": [],
        "disposable": static.allowed == 1,
        "verify": f"{session.target.base_url}/lnurlp/{static.id}/verify/{charge.payment_hash}",
    }
    if static.success_message:
        expected["successAction"] = {"tag": "message", "message": static.success_message}
    return expected


def bind_child(session: Session, charge: Charge, where: str) -> None:
    """The newest Charge of the Static Charge belongs to the new invoice."""
    static = charge.parent
    assert static is not None
    path = f"/v0/static-charges/{static.id}/charges?limit=1"
    data = checks.success(session.request("listStaticChargeCharges", path, key=static.project), "child-charges", "list")
    session.bind_charge(charge, data[0] if isinstance(data, list) and data else None, where)


def expected_proof(charge: Charge, body: Any, where: str) -> dict[str, Any]:
    """Whether an invoice of LNURL was paid; the preimage is taken from the first response that has it."""
    settled = charge.status == "completed"
    if settled and charge.preimage is None:
        checks.proof(body.get("preimage"), charge.payment_hash, where)
        charge.preimage = body["preimage"]
    return {
        "status": "OK",
        "settled": settled,
        "preimage": charge.preimage if settled else None,
        "pr": charge.request,
    }
