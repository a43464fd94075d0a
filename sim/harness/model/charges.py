"""Charges, Static Charges and payments as promised: what becomes of each, row by row of the lifecycle tables.

Every decision is noted in `reached` as the row that made it: resource, state, trigger, guard, and what followed.
"""

from __future__ import annotations

from collections.abc import Callable

from leyden.harness.model.callbacks import Outbox
from leyden.harness.model.records import Charge, Payment, Static
from leyden.harness.model.rules import Reading
from leyden.harness.model.time import EXPIRY, SETTLEMENT, Timeline

Cell = tuple[str, ...]


class Book:
    """Every Charge and Static Charge, and the payments that were tried."""

    def __init__(
        self, time: Timeline, reading: Reading, outbox: Outbox, changed: Callable[[Charge | Static], None]
    ) -> None:
        self._time = time
        self._reading = reading
        self._outbox = outbox
        self._changed = changed
        self.charges: dict[str, Charge] = {}
        self.statics: dict[str, Static] = {}
        self.payments: dict[str, Payment] = {}
        self.balances: dict[str, int] = {}
        self.reached: list[Cell] = []

    @property
    def things(self) -> list[Charge | Static]:
        """Every Charge, then every Static Charge."""
        return [*self.charges.values(), *self.statics.values()]

    def _row(self, resource: str, state: str, trigger: str, when: str, then: str) -> None:
        self.reached.append(("row", resource, state, trigger, when, then))

    # Creation and time

    def open(self, charge: Charge) -> None:
        """A new Charge: pending, with an invoice."""
        self.charges[charge.label] = charge
        self._row("Charge", "(creation)", "created", "", "pending")
        self._time.at(charge.expires_at, EXPIRY, lambda: self._expire(charge))

    def open_static(self, static: Static) -> None:
        """A new Static Charge: active, with an LNURL."""
        self.statics[static.label] = static
        self._row("StaticCharge", "(creation)", "created", "", "active")
        if static.expires_at is not None:
            self._time.at(static.expires_at, EXPIRY, lambda: self._expire_static(static))

    def _expire(self, charge: Charge) -> None:
        if charge.status == "pending":
            self._row("Charge", "pending", "expiry_reached", "", "expired")
            charge.status = "expired"
            self._cancel(charge)
            if charge.parent is None:
                self._outbox.tell(charge, "charge.expired")
            self._changed(charge)
        else:
            self._refused(charge, "expiry_reached")

    def _expire_static(self, static: Static) -> None:
        self._row("StaticCharge", static.status, "expiry_reached", "", "expired")
        static.status = "expired"
        self._changed(static)
        for child in static.children:
            self._cancel(child)

    def _refused(self, charge: Charge, trigger: str) -> None:
        words = {"completed": "already_completed", "expired": "already_expired", "error": "already_failed"}
        self._row("Charge", charge.status, trigger, "", words[charge.status])

    def restart(self) -> None:
        """The service sets its timers anew: what has expired before does not expire again."""
        for charge in self.charges.values():
            if charge.status == "expired":
                self._refused(charge, "expiry_reached")
        for static in self.statics.values():
            if static.status == "expired":
                self._row("StaticCharge", "expired", "expiry_reached", "", "static_charge_expired")

    # Money

    def send(self, payment: Payment, delay_ms: int) -> None:
        """A payment is begun: it arrives after the delay, and at once without one."""
        self.payments[payment.label] = payment
        if delay_ms:
            self._time.at(self._time.now + delay_ms, SETTLEMENT, lambda: self._arrive(payment))
        else:
            self._arrive(payment)

    def _arrive(self, payment: Payment) -> None:
        charge = payment.charge
        self._changed(charge)
        if payment.status != "in_flight":
            return
        self.reached.append(("payment", payment.outcome, charge.invoice))
        if payment.outcome == "fail" or not self._takes(charge, payment):
            self._resolve(payment, "failed")
        elif payment.outcome == "hold":
            payment.status, charge.invoice, charge.held = "held", "held", payment
        else:
            self._settle(charge, payment)

    def _takes(self, charge: Charge, payment: Payment) -> bool:
        """Whether the invoice accepts what arrives: in time, with its secret, and not too little or too much."""
        now, parent = self._time.now, charge.parent
        late = now > charge.expires_at if self._reading.payable_at_expiry else now >= charge.expires_at
        if charge.invoice != "open":
            if charge.status != "pending":
                self._refused(charge, "payment_settled")
            if parent is not None and parent.status == "disabled" and not self._reading.count_on_settle:
                self._row("StaticCharge", "disabled", "payment_settled", "", "slots_used")
            elif parent is not None and parent.status == "expired":
                self._row("StaticCharge", "expired", "payment_settled", "", "static_charge_expired")
            return False
        if late:
            self._row("Charge", "pending", "payment_settled", "", "too_late")
            return False
        return (
            payment.outcome != "wrong_secret"
            and charge.amount_msat <= payment.amount_msat <= 2 * charge.amount_msat  # BOLT 4
        )

    def _settle(self, charge: Charge, payment: Payment) -> None:
        parent = charge.parent
        if parent is not None:
            free = "slot_free" if parent.status == "active" else ""
            self._row("StaticCharge", parent.status, "payment_settled", free, parent.status)
            parent.slots += 1
            self._changed(parent)
        when = "at_or_before_expiry" if self._reading.payable_at_expiry else "before_expiry"
        self._row("Charge", "pending", "payment_settled", when, "completed")
        charge.status, charge.invoice, charge.held = "completed", "settled", None
        charge.confirmed_at = self._time.now
        self.balances[charge.project] = self.balances.get(charge.project, 0) + payment.amount_msat
        self._resolve(payment, "succeeded")
        self._outbox.tell(charge, "charge.completed")
        self._changed(charge)
        if parent is not None and parent.full and parent.status == "active":
            self.disable(parent)

    def _resolve(self, payment: Payment, status: str) -> None:
        payment.status, payment.resolved_at = status, self._time.now

    def _cancel(self, charge: Charge) -> None:
        """The invoice is closed; what it held goes back to the payer."""
        if charge.invoice in {"open", "held"}:
            charge.invoice = "cancelled"
            self._changed(charge)
            if charge.held is not None:
                self._resolve(charge.held, "failed")
                charge.held = None

    def settle_held(self, payment: Payment) -> bool:
        """The receiver takes a held payment; False when it holds none."""
        if payment.status != "held":
            return False
        self._settle(payment.charge, payment)
        return True

    def cancel_held(self, payment: Payment) -> bool:
        """The receiver's node fails a held payment: its Charge goes to error. False when it holds none."""
        if payment.status != "held":
            return False
        return self.fail(payment.charge)

    def fail(self, charge: Charge) -> bool:
        """The node can no longer honour the invoice [charge-error]. False when that changes nothing."""
        if charge.status != "pending":
            self._refused(charge, "invoice_failed")
            return False
        if charge.invoice == "cancelled":
            return False  # the link is used up or over: there is no invoice left to lose, and the Charge will expire
        self._row("Charge", "pending", "invoice_failed", "", "error")
        charge.status = "error"
        self._cancel(charge)
        if charge.parent is None:
            self._outbox.tell(charge, "charge.error")
        self._changed(charge)
        return True

    # Slots

    def free_for_invoice(self, static: Static) -> bool:
        """Whether the Static Charge hands out another invoice now."""
        if static.status != "active":
            words = {"disabled": "slots_used", "expired": "static_charge_expired"}
            self._row("StaticCharge", static.status, "invoice_requested", "", words[static.status])
            return False
        spoken_for = static.slots
        if self._reading.reserve_on_issue:
            spoken_for += sum(
                child.status == "pending" and child.invoice in {"open", "held"} for child in static.children
            )
        if static.allowed is not None and spoken_for >= static.allowed:
            self._row("StaticCharge", "active", "invoice_requested", "", "no_slot_left")
            return False
        free = "slot_unreserved" if self._reading.reserve_on_issue else "slot_free"
        self._row("StaticCharge", "active", "invoice_requested", free, "active")
        return True

    def disable(self, static: Static) -> None:
        """The last slot is gone: no other invoice may be paid [last-slot], unless that is read otherwise."""
        self._row("StaticCharge", "active", "slots_filled", "", "disabled")
        static.status = "disabled"
        self._changed(static)
        if not self._reading.count_on_settle:
            for child in static.children:
                self._cancel(child)

    def recount(self, static: Static, *, asked: bool) -> None:
        """After a change: closed when no slot is free, open when one is. `asked` says that slots were in the change."""
        if static.full and static.status == "active":
            self.disable(static)
        elif static.full and asked:
            self._row("StaticCharge", "disabled", "slots_reopened", "", "no_slot_left")
        elif static.full:
            self._row("StaticCharge", "disabled", "slots_filled", "", "slots_used")
        elif static.status == "active":
            self._row("StaticCharge", "active", "slots_reopened", "", "already_open")
        else:
            self._row("StaticCharge", "disabled", "slots_reopened", "slot_free", "active")
            static.status = "active"
            self._changed(static)

    def unchangeable(self, static: Static) -> bool:
        """Whether the Static Charge has expired, after which nothing about it changes [static-updates]."""
        if static.status != "expired":
            return False
        for trigger in ("slots_filled", "slots_reopened"):
            self._row("StaticCharge", "expired", trigger, "", "static_charge_expired")
        return True
