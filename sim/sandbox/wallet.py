"""Wallets: the payers of a sandbox, by name. A payment is scheduled and happens when time moves."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import orjson

from leyden.arguments import checked_text, methods_with_hints, payer_name, span_from, whole_msat
from leyden.errors import ArgumentError, PayerError
from leyden.lightning.payer.payment_requests import fetch_lnurl_invoice, request_kind, strip_scheme
from leyden.lightning.payer.payment_rows import PaymentRow
from leyden.lightning.payer.payment_scripts import check_outcome
from leyden.repr_tables import html_grid
from leyden.sandbox.collections import recorded_network
from leyden.sandbox.resources import Charge, KeptList, Payment, StaticCharge
from leyden.sandbox.session import Session
from leyden.sandbox.time.spans import Span
from leyden.server.printable import quoted
from leyden.server.timestamps import to_iso

_SHOWN = 5


@methods_with_hints
class Wallet:
    """The wallet of one payer. A payment is scheduled and happens when time moves."""

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self.name = payer_name(name)

    def pay(
        self,
        what: Charge | StaticCharge | str,
        *,
        amount: int | str | None = None,
        outcome: str = "settle",
        delay: Span = 0,
        late: bool = False,
    ) -> Payment:
        """Schedule the payment of a Charge or a BOLT11 invoice, `delay` from now. `amount` (msat) replaces its own.

        A Static Charge, an LNURL and a Lightning address (`name@host`) are paid as by `scan`.
        A Charge may belong to another sandbox: its invoice is then paid in this one. `outcome` is `settle`, `hold`,
        `incomplete`, `wrong_secret`, `underpay`, `overpay`, `overpay_double` or `fail`. A payment is held for ten hours
        and twenty minutes at most (on a network, whose blocks come at random, mostly for 8 to 14 hours): then the node
        returns it. The wallet does not pay an invoice that has expired when this is called; with `late` it does, and
        the node refuses. 60 s after the start the wallet gives up: it sends no more parts, and if those in flight fail
        later the payment ends as `TIMEOUT`, or as `NO_ROUTE` if no route was left before. Raises `Bolt11Error` for an
        invoice that cannot be read, `PayerError` for another text, `ValueError` for an amount that is not whole or more
        than all bitcoin, and for a `delay` below 0 or above 1,000 years.
        """
        request = strip_scheme(_payment_request(what))
        if request_kind(request) != "bolt11":
            assert not isinstance(what, Charge)
            return self.scan(what, amount=amount, outcome=outcome, delay=delay)
        if type(late) is not bool:
            raise PayerError(
                f"late={quoted(late, 60)} is neither true nor false: give late=True to pay an expired invoice"
            )
        return self._schedule("pay", request, amount, outcome, delay, late, charge=_resource_id(what))

    def scan(
        self,
        what: StaticCharge | str,
        *,
        amount: int | str | None = None,
        comment: str = "",
        outcome: str = "settle",
        delay: Span = 0,
    ) -> Payment:
        """Scan the LNURL of a Static Charge: request an invoice of `amount` msat and schedule its payment.

        `what` may be a Lightning address, `name@host`: the host is that of the sandbox or of the identifier. `amount`
        may be left out if minimum and maximum are equal. Raises `PayerError` with the service's reason when it issues
        no invoice, `ValueError` as `pay`.
        """
        checked_text("comment", comment)
        lnurl, resource_id = _payment_request(what), _resource_id(what)
        return self._schedule("scan", lnurl, amount, outcome, delay, False, comment=comment, static=resource_id)

    def _schedule(
        self,
        kind: str,
        request: str,
        amount: int | str | None,
        outcome: str,
        delay: Span,
        late: bool,
        **more: str | None,
    ) -> Payment:
        """Record a `pay` or a `scan`, and schedule its payment. `more` are facts of one of the two."""
        world = self._session.world
        amount_msat = None if amount is None else whole_msat("amount", amount)
        delay_ms = span_from("delay", delay)
        check_outcome(outcome)  # before a scan requests an invoice
        named = {"payer": self.name, "request": request, "amount": amount_msat, "outcome": outcome}
        if late:
            named["late"] = True
        with self._session.record(kind, **named, delay_ms=delay_ms, **more) as facts:
            if kind == "scan":
                comment, base_url = more["comment"] or "", world.public_url
                invoice = fetch_lnurl_invoice(
                    request,
                    amount_msat,
                    comment,
                    self._fetch,
                    base_url=base_url,
                    identifier_of=world.service.static_charges.identifier_of,
                )
                request, amount_msat = strip_scheme(invoice), None
            pay = partial(world.payments.pay, request, payer=self.name, amount_msat=amount_msat, scheduled=True)
            with world.exclusive():
                facts["id"] = pay(outcome=outcome, delay_ms=delay_ms, late=late)["id"]
        return Payment(self._session, facts["id"])

    def _fetch(self, url: str) -> Any:
        # The host of the code is ignored: a fork has the codes of its parent, but answers them itself.
        parts = urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        return orjson.loads(self._session.world.request("GET", target).body)

    @property
    def payments(self) -> list[Payment]:
        """The payments that this wallet started or scheduled, oldest first. Those that `run(spill=)` wrote to files, or
        that a bound removed, are missing, and the list says so."""
        without = self._session.world.removed.without("payments", " of all wallets")
        return KeptList([Payment(self._session, row["id"]) for row in self._rows()], without)

    def _rows(self) -> list[PaymentRow]:
        with self._session.world.exclusive():
            return list(self._session.world.payments.rows.find("payer", self.name))

    def _summary(self, rows: list[PaymentRow]) -> str:
        """A line about the wallet's payments."""
        if self._session.is_closed:
            return f"Wallet({self.name!r}, of a closed sandbox)"
        if self._session.world.engine is None:
            balance = "unlimited balance"
        else:
            node = recorded_network(self._session).wallet(self.name)
            balance = f"node {node.name} with {node.outbound_msat} msat outbound"
        removed = self._session.world.removed
        without = removed.without("payments", " of all wallets")
        if not rows:
            nothing = removed.nothing("payments", "no payment", " of all wallets")
            mend = "" if without else " yet, schedule one with pay(charge)"
            return f"Wallet({self.name!r}): {balance}, {nothing}{mend}"
        states = Counter(row["status"] for row in rows)
        counted = ", ".join(f"{count} {status}" for status, count in sorted(states.items()))
        settled = [part for row in rows for part in row["attempts"] if part["status"] == "settled"]
        paid_msat = sum(part["amount_msat"] for part in settled)
        fees_msat = sum(part.get("fee_msat", 0) for part in settled)
        figures = [counted, f"{paid_msat} msat paid", f"{fees_msat} msat fees", *filter(None, [without])]
        return f"Wallet({self.name!r}): {balance}, payments: {', '.join(figures)}"

    def __repr__(self) -> str:
        rows = [] if self._session.is_closed else self._rows()
        shown = [f"  {Payment(self._session, row['id'])!r}" for row in rows[-_SHOWN:]]
        return "\n".join([self._summary(rows) + (", the newest:" if shown else ""), *shown])

    def _repr_html_(self) -> str:
        rows = [] if self._session.is_closed else self._rows()
        columns = ("created_at", "amount_msat", "status", "outcome", "reason")
        shown = [(to_iso(row["created_at"]), *(row[name] for name in columns[1:])) for row in rows[-_SHOWN:]]  # type: ignore[literal-required]
        return html_grid(columns, shown, caption=self._summary(rows))


def _payment_request(what: Any) -> str:
    if isinstance(what, str):
        return what
    if not isinstance(what, Charge | StaticCharge):
        raise ArgumentError(
            f"{quoted(what)} cannot be paid: give a Charge, a Static Charge or the text of a payment request"
        )
    return what.request


def _resource_id(what: Charge | StaticCharge | str) -> str | None:
    return None if isinstance(what, str) else what.id
