"""What the payments of an unpaid Charge that have not ended will do to it, if nothing else is done.

Direct payments are tried: copies of their rows run on a clock and at a node of their own, with those of the other
Charges that use slots of the same Static Charge, in the order of their timers. What travels over a network depends on
more than these rows: it is only said to be on its way.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from leyden.lightning.engine.htlc import HELD, WAITING, payment_of
from leyden.lightning.payer.payment_rows import PaymentRow
from leyden.lightning.payer.payment_scripts import part_amount
from leyden.lightning.payer.payments import PATIENCE_TIMER, TIMER, Payments
from leyden.lightning.receiver.invoice_row import InvoiceRow
from leyden.lightning.receiver.invoices import HOLD_TIMER, MPP_TIMER
from leyden.lightning.receiver.node import DirectNode
from leyden.rng import RandomStreams
from leyden.server.charges.charges import TIMER as CHARGE_TIMER
from leyden.server.charges.rows import ChargeRow, StaticChargeRow
from leyden.server.ports import EXPIRY, SETTLEMENT, USER, SettledInvoice
from leyden.server.store.store import Store
from leyden.world.time.clock import LAST_MS, VirtualClock
from leyden.world.world import World

# What a payment does to the Charge: it is held now, will be held, completes it, or may do so by way of the network.
IS_HELD, WILL_BE_HELD, COMPLETES, TRAVELS = "is held", "will be held", "completes", "travels"
_ACCEPTED, _SETTLED, _OPEN = "ACCEPTED", "SETTLED", "OPEN"  # states of invoices
_FAIL = ("fail", "wrong_secret")  # scripts whose parts never pay


class Decision(NamedTuple):
    """A payment that decides about a Charge, what it does (one of the texts above), and the instant."""

    payment: PaymentRow
    kind: str
    at_ms: int


class Outlook(NamedTuple):
    """The first payment that is held for the Charge, completes it or may do so before it expires (None if none does);
    the one that completes it then, if nothing else is done; and the payments on a network that may do so."""

    decision: Decision | None = None
    completion: Decision | None = None
    travelling: tuple[PaymentRow, ...] = ()


def decision_of(world: World, charge: ChargeRow) -> Decision | None:
    """The decision of the Charge's outlook.

    A payment that its script lets fail, and one that comes when the Charge has expired, or never, decides nothing.
    """
    return outlook_of(world, charge).decision


def outlook_of(world: World, charge: ChargeRow) -> Outlook:
    """What the payments of the Charge's invoice that have not ended will do."""
    rows = _unresolved(world, charge)
    invoice = world.node.invoices.row(charge["payment_hash"])
    if not rows or invoice is None or "closed" in charge:
        return Outlook()
    held = None
    if invoice["state"] == _ACCEPTED:  # else the end of a payment that is held travels back to the payer
        held = next((Decision(row, IS_HELD, world.clock.now()) for row in rows if row["status"] == HELD), None)
    if world.engine is not None:
        return _over_network(world, charge, rows, held)
    if not any(row["next_part_at"] is not None for row in rows):
        return Outlook(held)
    return _Trial(world, charge).outlook(held)


def earliest_ms(world: World, charge: ChargeRow) -> int | None:
    """An instant before which no payment of the Charge's invoice decides; None if none will."""
    rows = _unresolved(world, charge)
    if any(row["status"] == HELD or (world.engine is not None and row["next_part_at"] is None) for row in rows):
        return world.clock.now()
    return min((row["next_part_at"] for row in rows if row["next_part_at"] is not None), default=None)


def waiting_total(world: World, charge: ChargeRow) -> tuple[int, str] | None:
    """The total (msat) that parts announce which wait for others, and the payment of the first; None if none waits. A
    payment of another total is refused, and they with it."""
    invoice = world.node.invoices.row(charge["payment_hash"])
    waiting = [] if invoice is None or invoice["state"] != _OPEN else invoice["parts"]
    return next(((part["total_msat"], payment_of(part["id"])) for part in waiting if part["state"] == HELD), None)


def _unresolved(world: World, charge: ChargeRow) -> list[PaymentRow]:
    rows = world.payments.rows.find("payment_hash", charge["payment_hash"])
    return [row for row in rows if row["resolved_at"] is None]


def _over_network(world: World, charge: ChargeRow, rows: list[PaymentRow], held: Decision | None) -> Outlook:
    """Payments of one total pay together: those whose parts, sent or still to be sent, can make it up."""
    assert world.engine is not None
    now, event_ms = world.clock.now(), world.engine.next_event_ms()
    sent: dict[int, int] = {}
    coming: list[Decision] = []
    for row in rows:
        script, total_msat, start_ms = row["script"], row["amount_msat"] or 0, row["next_part_at"]
        least, most = charge["amount_msat"], 2 * charge["amount_msat"]  # BOLT 4
        if script is None or script["outcome"] in _FAIL or not least <= total_msat <= most or row["status"] == HELD:
            continue
        if start_ms is not None and not now <= start_ms < min(charge["expires_at"], LAST_MS + 1):
            continue
        parts = (part_amount(total_msat, script["parts"], number) for number in range(script["sent_parts"]))
        sent[total_msat] = sent.get(total_msat, 0) + sum(parts)
        at_ms = event_ms if start_ms is None else start_ms
        is_there = start_ms is None and {one["status"] for one in row["attempts"]} == {WAITING}
        if at_ms is not None and not is_there:
            coming.append(Decision(row, TRAVELS, at_ms))
    able = [one for one in coming if sent[one.payment["amount_msat"] or 0] >= (one.payment["amount_msat"] or 0)]
    first = min(able, key=lambda one: one.at_ms, default=None)
    return Outlook(held or first, None, tuple(one.payment for one in able))


class _Trial:
    """Copies of the payments and the invoices of a Charge and of those that compete with it for a slot."""

    def __init__(self, world: World, charge: ChargeRow) -> None:
        self._charge, self._statics = charge, world.service.static_charges
        self._clock = VirtualClock(world.clock.now())
        store, self._node_rows = Store.memory(), world.node.invoices
        streams = RandomStreams(0)
        self._node = DirectNode(store, self._clock, streams, _NoJournal(), policy=world.node.invoices.policy)
        self._payments = Payments(store, self._clock, self._node, streams.stream("payments"), _NoJournal())
        self._static: StaticChargeRow | None = None
        charges = [charge, *self._competing(world)]
        self._open: dict[str, str] = {}  # the payment hash of each Charge
        self._clock.on(CHARGE_TIMER, self._expire)
        self._node.on_settled(self._settled)
        timers: list[tuple[int, int, int, str, str]] = []
        for one in charges:
            rows, invoice = _unresolved(world, one), self._node_rows.row(one["payment_hash"])
            if rows and invoice is not None:
                self._open[one["id"]] = one["payment_hash"]
                timers += self._copy(world, one, rows, invoice)
        for _, due_ms, priority, kind, key in sorted(timers):
            self._clock.call_at(due_ms, priority, kind, key)

    def outlook(self, held: Decision | None) -> Outlook:
        """Run what is due until the Charge is completed or can no longer be paid."""
        decision, payment_hash = held, self._charge["payment_hash"]
        while (due_ms := self._clock.next_due()) is not None:
            self._clock.advance_to(due_ms)
            invoice = self._invoice(payment_hash)
            if invoice["state"] == _SETTLED:
                completion = Decision(self._last(invoice), COMPLETES, due_ms)
                return Outlook(decision or completion, completion)
            if invoice["state"] == _ACCEPTED and decision is None:
                decision = Decision(self._last(invoice), WILL_BE_HELD, due_ms)
            if invoice["state"] not in (_OPEN, _ACCEPTED):
                break
        return Outlook(decision)

    def _competing(self, world: World) -> list[ChargeRow]:
        """The Charges of the same Static Charge that may be paid before this one; none if it has slots for all."""
        static = self._statics.static_charges.row(self._charge["static_charge_id"] or "")
        if static is None or static["allowed_slots"] is None:
            return []
        others = [one for one in world.service.charges.outstanding(static["id"]) if one["id"] != self._charge["id"]]
        others = [one for one in others if _unresolved(world, one)]
        if len(others) < static["allowed_slots"] - static["slots"]:
            return []
        self._static = cast(StaticChargeRow, dict(static))
        return others

    def _copy(
        self, world: World, charge: ChargeRow, rows: list[PaymentRow], invoice: InvoiceRow
    ) -> list[tuple[int, int, int, str, str]]:
        """Copy what belongs to a Charge; its timers, each with its place in the order in which all were set."""
        payment_hash = charge["payment_hash"]
        self._node.invoices.rows.put(invoice)
        due: list[tuple[int | None, int, str, str]] = [
            (charge["expires_at"], EXPIRY, CHARGE_TIMER, charge["id"]),
            (invoice["mpp_due_at"], EXPIRY, MPP_TIMER, payment_hash),
            (self._node_rows.returns_at(invoice), EXPIRY, HOLD_TIMER, payment_hash),
        ]
        for row in rows:
            self._payments.rows.put(cast(PaymentRow, dict(row)))
            due += [
                (row["next_part_at"], SETTLEMENT, TIMER, row["id"]),
                (row["gives_up_at"], USER, PATIENCE_TIMER, row["id"]),
            ]
        found = []
        for at_ms, priority, kind, key in due:
            place = world.clock.sequence_of(kind, key)
            if at_ms is not None and place is not None:
                found.append((place, at_ms, priority, kind, key))
        return found

    def _invoice(self, payment_hash: str) -> InvoiceRow:
        found = self._node.invoices.row(payment_hash)
        assert found is not None
        return found

    def _last(self, invoice: InvoiceRow) -> PaymentRow:
        """The payment whose part came last and made up the amount."""
        last = [part["id"] for part in invoice["parts"] if part["state"] in ("held", "settled")][-1]
        return self._payments.rows.existing(payment_of(last))

    def _expire(self, charge_id: str) -> None:
        self._node.cancel(self._open.pop(charge_id))

    def _settled(self, settled: SettledInvoice) -> None:
        """A Charge is completed, and takes a slot: the last one closes the invoices of the others."""
        for charge_id, payment_hash in [*self._open.items()]:
            if payment_hash == settled.payment_hash:
                del self._open[charge_id]
                self._clock.cancel(CHARGE_TIMER, charge_id)
        if self._static is None:
            return
        self._apply("payment_settled")
        allowed = self._static["allowed_slots"]
        if allowed is not None and self._static["slots"] >= allowed:
            self._apply("slots_filled")

    def _apply(self, trigger: str) -> None:
        """What the document's table says of the Static Charge."""
        static: Any = self._static
        row = self._statics.lifecycle.decide(static, trigger, self._clock.now())
        if row.to is None:
            return
        static["status"] = row.to
        static["slots"] += "take_slot" in row.effects
        if "cancel_outstanding" in row.effects:
            for payment_hash in self._open.values():
                self._node.cancel(payment_hash)


class _NoJournal:
    """A trial is not recorded."""

    def note(self, kind: str, subject: str, **facts: Any) -> None:
        """Nothing is kept."""
