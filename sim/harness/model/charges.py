"""Charges, Static Charges and payments by the rows of the lifecycle tables.

Each row that applies is recorded in `reached`: resource, state, trigger, guard, and the new state or the refusal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from leyden.harness.model.callbacks import Outbox
from leyden.harness.model.records import Charge, Payment, StaticCharge
from leyden.harness.model.rules import Interpretation
from leyden.harness.model.timeline import EXPIRY, SETTLEMENT, Timeline

CoverageItem = tuple[str, ...]
# [scripted-payments]: the 80 blocks of an invoice, without the margin of 18, of ten minutes each.
HOLD_LIMIT_MS = (80 - 18) * 600_000
PARTS_LIMIT_MS = 120_000  # within which all parts of a payment must arrive [BOLT 4]


def row_name(item: CoverageItem) -> str:
    """A row of a lifecycle table in words."""
    _, resource, state, trigger, when, then = item
    return f"{resource}: {state}, {trigger}{f' ({when})' if when else ''} -> {then}"


class ModelLedger:
    """All Charges, Static Charges, payments and balances."""

    def __init__(
        self,
        timeline: Timeline,
        interpretation: Interpretation,
        outbox: Outbox,
        changed: Callable[[Charge | StaticCharge], None],
    ) -> None:
        self._timeline = timeline
        self._interpretation = interpretation
        self._outbox = outbox
        self._changed = changed
        self.charges: dict[str, Charge] = {}
        self.static_charges: dict[str, StaticCharge] = {}
        self.payments: dict[str, Payment] = {}
        self.balances = Counter[str]()
        self.reached: list[CoverageItem] = []
        self.hold_limit_ms: int | None = HOLD_LIMIT_MS  # None: not known

    @property
    def resources(self) -> list[Charge | StaticCharge]:
        """All Charges, then all Static Charges."""
        return [*self.charges.values(), *self.static_charges.values()]

    def _row(self, resource: str, state: str, trigger: str, when: str, then: str) -> None:
        self.reached.append(("row", resource, state, trigger, when, then))

    def _event(self, resource: Charge | StaticCharge, trigger: str) -> None:
        resource.history.append((self._timeline.now, trigger, resource.status))

    def invoice_requested(self, static: StaticCharge) -> None:
        """The Static Charge issues an invoice."""
        self._event(static, "invoice_requested")

    # Creation and time

    def open(self, charge: Charge) -> None:
        """A new Charge: pending, with an invoice."""
        self.charges[charge.label] = charge
        self._changed(charge)
        self._row("Charge", "(creation)", "created", "", "pending")
        self._event(charge, "created")
        self.schedule_expiry(charge)

    def open_static(self, static: StaticCharge) -> None:
        """A new Static Charge: active, with an LNURL."""
        self.static_charges[static.label] = static
        self._changed(static)
        self._row("StaticCharge", "(creation)", "created", "", "active")
        self._event(static, "created")
        self.schedule_expiry(static)

    def schedule_expiry(self, resource: Charge | StaticCharge) -> None:
        """The resource expires at its `expires_at`, and at no time that was scheduled for it before."""
        at = resource.expires_at
        if at is None:
            return

        def expire() -> None:
            if resource.expires_at != at:
                return
            if isinstance(resource, Charge):
                self._expire(resource)
            else:
                self._expire_static(resource)

        self._timeline.schedule(at, EXPIRY, expire)

    def _expire(self, charge: Charge) -> None:
        if charge.status == "pending":
            self._end_unpaid(charge, "expiry_reached", "expired")
        else:
            self._refused(charge, "expiry_reached")

    def _end_unpaid(self, charge: Charge, trigger: str, status: str) -> None:
        self._row("Charge", "pending", trigger, "", status)
        charge.status = status
        self._event(charge, trigger)
        self._cancel(charge)
        if charge.parent is None:
            self._outbox.notify(charge, f"charge.{status}")
        self._changed(charge)

    def _expire_static(self, static: StaticCharge) -> None:
        self._row("StaticCharge", static.status, "expiry_reached", "", "expired")
        static.status = "expired"
        self._event(static, "expiry_reached")
        self._changed(static)
        for child in static.children:
            self._cancel(child)

    def _refused(self, charge: Charge, trigger: str) -> None:
        refusals = {"completed": "already_completed", "expired": "already_expired", "error": "already_failed"}
        self._row("Charge", charge.status, trigger, "", refusals[charge.status])

    def restart(self) -> None:
        """The service restarts and sets its timers again: what has expired does not expire again."""
        for charge in self.charges.values():
            if charge.status == "expired":
                self._refused(charge, "expiry_reached")
        for static in self.static_charges.values():
            if static.status == "expired":
                self._row("StaticCharge", "expired", "expiry_reached", "", "static_charge_expired")

    # Payments

    def send(self, payment: Payment, delay_ms: int) -> None:
        """Start a payment, which arrives after the delay."""
        self.payments[payment.label] = payment
        payment.is_delayed = delay_ms > 0
        if delay_ms:
            self._timeline.schedule(self._timeline.now + delay_ms, SETTLEMENT, lambda: self._arrive(payment))
        else:
            self._arrive(payment)

    def _arrive(self, payment: Payment) -> None:
        charge = payment.charge
        self._changed(charge)
        if payment.status != "in_flight":
            return
        payment.started_at = self._timeline.now
        self.reached.append(("payment", payment.outcome, charge.invoice))
        if payment.outcome == "fail" or not self._accepts(charge, payment):
            self._resolve(payment, "failed")
        elif payment.outcome == "hold":
            payment.status, charge.invoice, charge.held = "held", "held", payment
            payment.held_at = self._timeline.now
            if self.hold_limit_ms is not None:
                self._timeline.schedule(payment.held_at + self.hold_limit_ms, EXPIRY, lambda: self.give_back(payment))
        elif payment.outcome == "incomplete":
            charge.waiting.append(payment)
            self._timeline.schedule(self._timeline.now + PARTS_LIMIT_MS, EXPIRY, lambda: self._return_parts(charge))
        else:
            self._settle(charge, payment)

    def _accepts(self, charge: Charge, payment: Payment) -> bool:
        """Whether the invoice accepts the payment: before the expiry, with its secret, and with a valid amount."""
        now, parent = self._timeline.now, charge.parent
        late = now > charge.expires_at if self._interpretation.payable_at_expiry else now >= charge.expires_at
        if charge.invoice != "open":
            if charge.status != "pending":
                self._refused(charge, "payment_settled")
            if parent is not None and parent.status == "disabled" and not self._interpretation.count_on_settle:
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
            self._event(parent, "payment_settled")
            self._changed(parent)
        when = "at_or_before_expiry" if self._interpretation.payable_at_expiry else "before_expiry"
        self._row("Charge", "pending", "payment_settled", when, "completed")
        charge.status, charge.invoice, charge.held = "completed", "settled", None
        charge.confirmed_at = self._timeline.now
        self._event(charge, "payment_settled")
        self.balances[charge.project] += payment.amount_msat
        self._resolve(payment, "succeeded")
        self._outbox.notify(charge, "charge.completed")
        self._changed(charge)
        if parent is not None and parent.full and parent.status == "active":
            self.disable(parent)

    def _resolve(self, payment: Payment, status: str) -> None:
        payment.status, payment.resolved_at = status, self._timeline.now

    def _cancel(self, charge: Charge) -> None:
        """Cancel the invoice; a held payment fails."""
        if charge.invoice in {"open", "held"}:
            charge.invoice = "cancelled"
            self._changed(charge)
            if charge.held is not None:
                self._resolve(charge.held, "failed")
                charge.held = None
            self._return_parts(charge)

    def _return_parts(self, charge: Charge) -> None:
        """The node returns the parts of payments of which others are missing."""
        while charge.waiting:
            self._resolve(charge.waiting.pop(), "failed")

    def give_back(self, payment: Payment) -> None:
        """The node returns a payment that it held for too long [scripted-payments]: the invoice can be paid again."""
        if payment.status == "held":
            payment.charge.invoice, payment.charge.held = "open", None
            self._changed(payment.charge)
            self._resolve(payment, "failed")

    def settle_held(self, payment: Payment) -> bool:
        """Settle a held payment. Returns False if it is not held."""
        if payment.status != "held":
            return False
        self._settle(payment.charge, payment)
        return True

    def cancel_held(self, payment: Payment) -> bool:
        """Cancel a held payment: its Charge goes to error. Returns False if it is not held."""
        if payment.status != "held":
            return False
        return self.fail(payment.charge)

    def fail(self, charge: Charge) -> bool:
        """The node can no longer settle the invoice [charge-error]. Returns False if that changes nothing."""
        if charge.status != "pending":
            self._refused(charge, "invoice_failed")
            return False
        if charge.invoice == "cancelled":
            return False  # the Static Charge has ended: its invoice is cancelled already, and the Charge will expire
        self._end_unpaid(charge, "invoice_failed", "error")
        return True

    # Slots

    def can_issue_invoice(self, static: StaticCharge) -> bool:
        """Whether the Static Charge issues an invoice now."""
        if static.status != "active":
            refusals = {"disabled": "slots_used", "expired": "static_charge_expired"}
            self._row("StaticCharge", static.status, "invoice_requested", "", refusals[static.status])
            return False
        used = static.slots
        if self._interpretation.reserve_on_issue:
            used += sum(child.status == "pending" and child.invoice in {"open", "held"} for child in static.children)
        if static.allowed is not None and used >= static.allowed:
            self._row("StaticCharge", "active", "invoice_requested", "", "no_slot_left")
            return False
        free = "slot_unreserved" if self._interpretation.reserve_on_issue else "slot_free"
        self._row("StaticCharge", "active", "invoice_requested", free, "active")
        return True

    def disable(self, static: StaticCharge) -> None:
        """The last slot is used: no other invoice can be paid [last-slot], except with `count-on-settle`."""
        self._row("StaticCharge", "active", "slots_filled", "", "disabled")
        static.status = "disabled"
        self._event(static, "slots_filled")
        self._changed(static)
        if not self._interpretation.count_on_settle:
            for child in static.children:
                self._cancel(child)

    def update_status(self, static: StaticCharge, *, slots_given: bool) -> None:
        """Disable or reopen after a change. `slots_given`: the change contained `allowedSlots`."""
        if static.full and static.status == "active":
            self.disable(static)
        elif static.full and slots_given:
            self._row("StaticCharge", "disabled", "slots_reopened", "", "no_slot_left")
        elif static.full:
            self._row("StaticCharge", "disabled", "slots_filled", "", "slots_used")
        elif static.status == "active":
            self._row("StaticCharge", "active", "slots_reopened", "", "already_open")
        else:
            self._row("StaticCharge", "disabled", "slots_reopened", "slot_free", "active")
            static.status = "active"
            self._event(static, "slots_reopened")
            self._changed(static)

    def rejects_changes(self, static: StaticCharge) -> bool:
        """Whether the Static Charge has expired and can no longer be changed [static-updates]."""
        if static.status != "expired":
            return False
        for trigger in ("slots_filled", "slots_reopened"):
            self._row("StaticCharge", "expired", trigger, "", "static_charge_expired")
        return True
