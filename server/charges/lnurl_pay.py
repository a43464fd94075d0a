"""LNURL-pay: the operations with which a wallet gets an invoice for a Static Charge (LUD-06, 09, 12, 16, 21).

They need no API key. Their errors have LNURL's form, `{status: ERROR, reason}`: the request pipeline converts every
`Problem` raised here.
"""

from __future__ import annotations

import hashlib
from typing import Any

from leyden.server.charges.charges import ChargeService
from leyden.server.charges.lists import removed_from
from leyden.server.charges.request_values import ID_READS
from leyden.server.charges.rows import StaticChargeRow
from leyden.server.charges.static_charges import StaticChargeService
from leyden.server.contract.bind import handles
from leyden.server.contract.types import Contract
from leyden.server.errors import Conflict, InvalidAmount, InvalidRequest, NotFound, StorageUnavailable
from leyden.server.http.corrections import received
from leyden.server.http.request import Request
from leyden.server.money import AmountOutOfRange, parse_msat
from leyden.server.ports import Clock

COMMENT_LIMIT = 150
INVOICE_EXPIRY_S = 300


class LnurlPayService:
    """The LNURL-pay operations of the Static Charges."""

    def __init__(
        self, contract: Contract, clock: Clock, charges: ChargeService, static_charges: StaticChargeService
    ) -> None:
        self._clock = clock
        self._charges = charges
        self._statics = static_charges
        self._invoice_path = contract.path("requestInvoice", "/lnurlp/{id}/invoice")
        self._verify_path = contract.path("verifyPayment", "/lnurlp/{id}/verify/{paymentHash}")

    @handles(raises=(NotFound, Conflict), needs=("path.id",), reads=ID_READS)
    def get_pay_request(self, request: Request) -> dict[str, Any]:
        """LUD-06, first request: the payable amounts, and the URL that returns an invoice."""
        return self._pay_request(self._require_open(self._by_id(request.path["id"])))

    @handles(raises=(NotFound, Conflict), needs=("path.user",), reads={"path.user": "string"})
    def get_lightning_address(self, request: Request) -> dict[str, Any]:
        """LUD-16: the same response, found by the user part of a lightning address."""
        static = self._statics.by_user(request.path["user"])
        if static is None:
            text = "no static charge of this project has this lightning address: check its spelling"
            raise NotFound(text + self._some_removed())
        return self._pay_request(self._require_open(static))

    @handles(
        raises=(NotFound, Conflict, InvalidRequest, StorageUnavailable),
        needs=("path.id",),
        reads={**ID_READS, "query.amount": "string", "query.comment": "string"},
    )
    def request_invoice(self, request: Request) -> dict[str, Any]:
        """LUD-06, second request: an invoice over the requested amount, which belongs to a new Charge."""
        static = self._require_open(self._by_id(request.path["id"]))
        amount_msat = _amount(request.query.get("amount"), static)
        comment = request.query.get("comment") or ""
        if len(comment) > COMMENT_LIMIT:
            raise InvalidRequest(f"the comment has {len(comment)} characters: at most {COMMENT_LIMIT} are allowed")
        now = self._clock.now()
        expiry_s = _expiry_s(static, now)
        self._statics.lifecycle.apply(static, "invoice_requested", now)
        charge = self._charges.issue(
            project=static["project"],
            amount_msat=amount_msat,
            description=static["description"],
            # LUD-06: the invoice commits to exactly the metadata of the first response.
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
            # LUD-11: a missing value means true, so it is always given.
            "disposable": static["allowed_slots"] == 1,
            "verify": self._statics.public_url() + verify,
        }
        if static["success_message"]:
            answer["successAction"] = {"tag": "message", "message": static["success_message"]}
        return answer

    @handles(
        raises=(NotFound,),
        needs=("path.id", "path.paymentHash"),
        reads={**ID_READS, "path.paymentHash": "string"},
    )
    def verify_payment(self, request: Request) -> dict[str, Any]:
        """LUD-21: whether the invoice was paid, and then the preimage as proof."""
        charge = self._charges.charges.first("payment_hash", request.path["paymentHash"])
        if charge is None or charge["static_charge_id"] != request.path["id"]:
            hint = removed_from(self._charges.charges, self._charges.removed_hint, is_public=True)
            raise NotFound(f"this payment request has no invoice with this payment hash: check both{hint}")
        settled = charge["confirmed_at"] is not None
        preimage = charge["preimage"] if settled else None
        return {"status": "OK", "settled": settled, "preimage": preimage, "pr": charge["request"]}

    def _by_id(self, static_charge_id: str) -> StaticChargeRow:
        row = self._statics.static_charges.row(static_charge_id)
        if row is None:
            raise NotFound(
                f"there is no such payment request: scan the code again or ask for a new one{self._some_removed()}"
            )
        return row

    def _some_removed(self) -> str:
        return removed_from(self._statics.static_charges, self._charges.removed_hint, is_public=True)

    def _require_open(self, static: StaticChargeRow) -> StaticChargeRow:
        """The Static Charge, if its lifecycle allows an invoice now. Raises `Conflict`."""
        rule = self._statics.lifecycle.decide(static, "invoice_requested", self._clock.now())
        if rule.to is None:
            raise Conflict(rule.because or "this payment request is closed")
        return static

    def _pay_request(self, static: StaticChargeRow) -> dict[str, Any]:
        return {
            "tag": "payRequest",
            "callback": self._statics.public_url() + self._invoice_path.replace("{id}", static["id"]),
            "minSendable": static["min_msat"],
            "maxSendable": static["max_msat"],
            "metadata": static["metadata"],
            "commentAllowed": COMMENT_LIMIT,
        }


def _amount(text: str | None, static: StaticChargeRow) -> int:
    minimum, maximum = static["min_msat"], static["max_msat"]
    if text is None:
        raise InvalidRequest(f"amount is missing: add ?amount= in millisatoshis, from {minimum} to {maximum}")
    try:
        amount_msat = parse_msat(text)
    except AmountOutOfRange as error:
        raise _out_of_range(error.digits, static) from None
    except InvalidAmount:
        raise InvalidRequest(
            "amount is not a whole number of millisatoshis: write digits only, without a leading zero; "
            f"received {received(text)}"
        ) from None
    if not minimum <= amount_msat <= maximum:
        raise _out_of_range(text, static)
    return amount_msat


def _out_of_range(digits: str, static: StaticChargeRow) -> InvalidRequest:
    limits = f"from {static['min_msat']} to {static['max_msat']}"
    return InvalidRequest(f"amount {digits} is out of range: pay {limits} millisatoshis")


def _expiry_s(static: StaticChargeRow, now: int) -> int:
    """The expiry of an invoice requested now, in seconds: at most that of the Static Charge."""
    expires_at = static["expires_at"]
    if expires_at is None:
        return INVOICE_EXPIRY_S
    # The timestamp of an invoice is in whole seconds, so the last second of a Static Charge can be too short for one.
    left_s = (expires_at - now // 1_000 * 1_000) // 1_000
    if left_s < 1:
        raise Conflict(
            "this payment request expires within a second, and an invoice lasts one at least: it takes no more payments"
        )
    return min(INVOICE_EXPIRY_S, left_s)
