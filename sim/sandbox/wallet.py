"""Wallets: the payers of a sandbox, by name. What they pay arrives when time moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from leyden.lightning.payer.payment_requests import ask_for_invoice, read_request, strip_scheme
from leyden.sandbox.resources import Charge, Payment, StaticCharge
from leyden.sandbox.time_control import Span
from leyden.server.timestamps import parse_duration

if TYPE_CHECKING:
    from leyden.sandbox import Sandbox


class Wallet:
    """A payer. What it pays arrives when time moves."""

    def __init__(self, sandbox: Sandbox, name: str) -> None:
        self._sandbox = sandbox
        self.name = name

    def pay(
        self, what: Charge | str, *, amount: int | str | None = None, outcome: str = "settle", delay: Span = 0
    ) -> Payment:
        """Pay a Charge or a BOLT11 invoice, `delay` from now. `amount` overrides the invoice's, in msat.

        A Charge may be another sandbox's: its invoice is paid in this one. `outcome`: settle, hold, incomplete,
        wrong_secret, underpay, overpay, overpay_double or fail.
        """
        request = strip_scheme(_shown(what))
        if read_request(request) == "lnurl":
            raise ValueError("this is an LNURL: use scan(..., amount=...) instead of pay")
        amount_msat, delay_ms = _whole_msat(amount), parse_duration(delay)
        sandbox = self._sandbox
        with sandbox.history.doing(
            sandbox.world,
            "pay",
            payer=self.name,
            charge=None if isinstance(what, str) else what.id,
            request=request,
            amount=amount_msat,
            outcome=outcome,
            delay_ms=delay_ms,
        ) as facts:
            facts["id"] = self._send(request, amount_msat, outcome, delay_ms)
        return Payment(sandbox, facts["id"])

    def scan(
        self,
        what: StaticCharge | str,
        *,
        amount: int | str | None = None,
        comment: str = "",
        outcome: str = "settle",
        delay: Span = 0,
    ) -> Payment:
        """Scan a Static Charge's code: ask for an invoice over `amount` msat and pay it.

        Raises `leyden.lightning.payer.payment_requests.PayerError` with the service's reason when it gives no invoice.
        """
        amount_msat, delay_ms = _whole_msat(amount), parse_duration(delay)
        lnurl = _shown(what)
        sandbox = self._sandbox
        with sandbox.history.doing(
            sandbox.world,
            "scan",
            payer=self.name,
            static=None if isinstance(what, str) else what.id,
            request=lnurl,
            amount=amount_msat,
            comment=comment,
            outcome=outcome,
            delay_ms=delay_ms,
        ) as facts:
            invoice = ask_for_invoice(lnurl, amount_msat, comment, self._fetch)
            facts["id"] = self._send(strip_scheme(invoice), None, outcome, delay_ms)
        return Payment(sandbox, facts["id"])

    def _send(self, request: str, amount_msat: int | None, outcome: str, delay_ms: int) -> str:
        world = self._sandbox.world
        with world.exclusive():
            row = world.payments.pay(
                request,
                payer=self.name,
                amount_msat=amount_msat,
                outcome=outcome,
                delay_ms=delay_ms,
                scheduled=True,
            )
        return str(row["id"])

    def _fetch(self, url: str) -> Any:
        # Whatever address the code was printed with, it is this sandbox that is asked: a fork has its parent's codes.
        parts = urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        return orjson.loads(self._sandbox.world.request("GET", target).body)

    def __repr__(self) -> str:
        return f"Wallet({self.name!r})"


def _shown(what: Any) -> str:
    if isinstance(what, str):
        return what
    if not isinstance(what, Charge | StaticCharge):
        raise TypeError(f"{what!r} cannot be paid: give a Charge, a Static Charge or the text of a payment request")
    return what.request


def _whole_msat(amount: int | str | None) -> int | None:
    """An amount as whole millisatoshis. Raises `ValueError` for anything else: money is not rounded on the way."""
    if amount is None:
        return None
    try:
        whole = int(amount)
    except (TypeError, ValueError):
        whole = None
    if whole is None or (not isinstance(amount, str) and whole != amount):
        raise ValueError(f"amount={amount!r} is no amount: give whole millisatoshis, such as 250000")
    return whole
