"""The requests of a customer to the service: for a Charge of its own, or for an invoice of a Static Charge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from leyden.errors import PayerError
from leyden.server.ports import Clock
from leyden.server.service import Service
from leyden.world.loopback import LoopbackResponse

Send = Callable[[str, str, bytes], LoopbackResponse]  # method, target, body


class Offer(NamedTuple):
    """The offer to a customer: a Charge, its invoice, and the time until it expires."""

    charge_id: str
    invoice: str
    expiry_ms: int


class Refusal(NamedTuple):
    """Why a customer got nothing to pay: a status of 400 or more, or 200 for an LNURL's `ERROR`."""

    status: int
    reason: str


class _Fetch:
    """Gets the JSON of a URL of the sandbox; `status` is that of the last response."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 200

    def __call__(self, url: str) -> Any:
        # The host is ignored, as by a wallet: a fork has the codes of its parent, but answers them itself.
        parts = urlsplit(url)
        response = self._send("GET", parts.path + (f"?{parts.query}" if parts.query else ""), b"")
        self.status = response.status
        return orjson.loads(response.body)


class ShopRequests:
    """The requests of customers to the service. `send` sends one with the API key of the project."""

    def __init__(self, service: Service, clock: Clock, send: Send, public_url: Callable[[], str]) -> None:
        self._service = service
        self._clock = clock
        self._send = send
        self._public_url = public_url

    def create_charge(self, body: bytes) -> Offer | Refusal:
        """Post a body to `createCharge`."""
        response = self._send("POST", self._service.contract.operation("createCharge").path, body)
        found = orjson.loads(response.body)
        if response.status != 200:
            return Refusal(response.status, found["detail"])
        charge = found["data"]
        return self._offer(charge["id"], charge["invoice"]["request"])

    def pay_request(self, to: str) -> Mapping[str, Any] | Refusal:
        """The first answer of an LNURL or a Lightning address, with the bounds `minSendable` and `maxSendable`."""
        from leyden.lightning.payer.payment_requests import fetch_pay_request  # not imported before the first one

        fetch = _Fetch(self._send)
        try:
            return fetch_pay_request(
                to, fetch, base_url=self._public_url(), identifier_of=self._service.static_charges.identifier_of
            )
        except PayerError as error:
            return Refusal(fetch.status, str(error))

    def request_invoice(self, to: str, amount_msat: int | None) -> Offer | Refusal:
        """Ask an LNURL or a Lightning address for an invoice of this amount, or of the only possible one."""
        # Not imported before the first payment.
        from leyden.lightning.bolt11.codec import decode
        from leyden.lightning.payer.payment_requests import fetch_lnurl_invoice

        fetch = _Fetch(self._send)
        try:
            invoice = fetch_lnurl_invoice(
                to,
                amount_msat,
                "",
                fetch,
                base_url=self._public_url(),
                identifier_of=self._service.static_charges.identifier_of,
            )
        except PayerError as error:
            return Refusal(fetch.status, str(error))
        charge = self._service.charges.charges.first("payment_hash", decode(invoice).payment_hash.hex())
        assert charge is not None, "the service has a Charge for each of its invoices"
        return self._offer(charge["id"], invoice)

    def _offer(self, charge_id: str, invoice: str) -> Offer:
        charge = self._service.charges.charges.existing(charge_id)
        return Offer(charge_id, invoice, max(0, charge["expires_at"] - self._clock.now()))
