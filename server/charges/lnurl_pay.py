"""LNURL-pay: how a wallet turns a Static Charge's code into an invoice (LUD-06, 09, 12, 16, 21).

These operations have no key: whoever scanned the code may ask. Refusals are LNURL's own, `{status: ERROR, reason}`; the
door turns every `Problem` raised here into one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from leyden.server.charges.charges import ChargeService
from leyden.server.charges.static_charges import StaticChargeService
from leyden.server.contract.bind import handles
from leyden.server.contract.types import Contract
from leyden.server.errors import Conflict, InvalidAmount, InvalidRequest, NotFound
from leyden.server.http.request import Request
from leyden.server.money import parse_msat
from leyden.server.ports import Clock

COMMENT_LIMIT = 150
INVOICE_EXPIRY_S = 300


class LnurlPayService:
    """Answers wallets on behalf of Static Charges."""

    def __init__(
        self, contract: Contract, clock: Clock, charges: ChargeService, static_charges: StaticChargeService
    ) -> None:
        self._clock = clock
        self._charges = charges
        self._statics = static_charges
        self._invoice_path = contract.operations["requestInvoice"].path
        self._verify_path = contract.operations["verifyPayment"].path

    @handles(raises=(NotFound, Conflict))
    def get_pay_request(self, call: Request) -> dict[str, Any]:
        """LUD-06 step one: what may be paid, and where to ask for the invoice."""
        return self._pay_request(self._open(self._by_id(call.path["id"])))

    @handles(raises=(NotFound, Conflict))
    def get_lightning_address(self, call: Request) -> dict[str, Any]:
        """LUD-16: the same answer, found by the user part of `user@host`."""
        static = self._statics.by_user(call.path["user"])
        if static is None:
            raise NotFound("nobody here has this lightning address")
        return self._pay_request(self._open(static))

    @handles(raises=(NotFound, Conflict, InvalidRequest))
    def request_invoice(self, call: Request) -> dict[str, Any]:
        """LUD-06 step two: an invoice over the asked amount, as a Charge of its own."""
        static = self._open(self._by_id(call.path["id"]))
        amount_msat = _amount(call.query.get("amount"), static)
        comment = call.query.get("comment") or ""
        if len(comment) > COMMENT_LIMIT:
            raise InvalidRequest(f"the comment has {len(comment)} characters: at most {COMMENT_LIMIT} are allowed")
        now = self._clock.now()
        expiry_s = _expiry_s(static, now)
        self._statics.lifecycle.apply(static, "invoice_requested", now)
        charge = self._charges.issue(
            project=static["project"],
            amount_msat=amount_msat,
            description=static["description"],
            # LUD-06: the invoice commits to exactly the metadata the wallet was shown.
            description_hash=hashlib.sha256(static["metadata"].encode()).digest(),
            expiry_s=expiry_s,
            internal_id=static["internal_id"],
            callback_url=static["callback_url"],
            static_charge_id=static["id"],
            comment=comment,
        )
        verify = self._verify_path.replace("{id}", static["id"]).replace("{paymentHash}", charge["payment_hash"])
        answer: dict[str, Any] = {
            "pr": charge["request"],
            "routes": [],
            # LUD-11: when absent a wallet takes it for true, so it is always said.
            "disposable": static["allowed_slots"] == 1,
            "verify": self._statics.public_url() + verify,
        }
        if static["success_message"]:
            answer["successAction"] = {"tag": "message", "message": static["success_message"]}
        return answer

    @handles(raises=(NotFound,))
    def verify_payment(self, call: Request) -> dict[str, Any]:
        """LUD-21: whether the invoice was paid, with the preimage as proof once it was."""
        charge = next(iter(self._charges.charges.find("payment_hash", call.path["paymentHash"])), None)
        if charge is None or charge["static_charge_id"] != call.path["id"]:
            raise NotFound("no invoice with this payment hash was issued here")
        settled = charge["confirmed_at"] is not None
        preimage = charge["preimage"] if settled else None
        return {"status": "OK", "settled": settled, "preimage": preimage, "pr": charge["request"]}

    def _by_id(self, static_charge_id: str) -> dict[str, Any]:
        row: dict[str, Any] | None = self._statics.static_charges.row(static_charge_id)
        if row is None:
            raise NotFound("there is no such payment request: scan the code again or ask for a new one")
        return row

    def _open(self, static: dict[str, Any]) -> dict[str, Any]:
        rule = self._statics.lifecycle.decide(static, "invoice_requested", self._clock.now())
        if rule.to is None:
            raise Conflict(rule.because or "this payment request is closed")
        return static

    def _pay_request(self, static: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "tag": "payRequest",
            "callback": self._statics.public_url() + self._invoice_path.replace("{id}", static["id"]),
            "minSendable": static["min_msat"],
            "maxSendable": static["max_msat"],
            "metadata": static["metadata"],
            "commentAllowed": COMMENT_LIMIT,
        }


def _amount(text: str | None, static: Mapping[str, Any]) -> int:
    least, most = static["min_msat"], static["max_msat"]
    if text is None:
        raise InvalidRequest(f"amount is missing: add ?amount= in millisatoshis, from {least} to {most}")
    try:
        amount_msat = parse_msat(text)
    except InvalidAmount:
        raise InvalidRequest("amount is not a whole number of millisatoshis: write digits only") from None
    if not least <= amount_msat <= most:
        raise InvalidRequest(f"amount {amount_msat} is out of range: pay from {least} to {most} millisatoshis")
    return amount_msat


def _expiry_s(static: Mapping[str, Any], now: int) -> int:
    """How long an invoice asked for now may live: never longer than what it pays for."""
    if static["expires_at"] is None:
        return INVOICE_EXPIRY_S
    # Invoices are stamped in whole seconds, so the last second of a Static Charge may have no room for one.
    left_s: int = (static["expires_at"] - now // 1_000 * 1_000) // 1_000
    if left_s < 1:
        raise Conflict("this payment request is about to expire: ask for a new one")
    return min(INVOICE_EXPIRY_S, left_s)
