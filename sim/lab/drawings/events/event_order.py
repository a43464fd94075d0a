"""The order of the events of one Charge: by instant, then by the entries that the journal has of them, then by rank.

An instant may hold several acts, such as a payment, another one and a replay, in any order. The journal says in which
order they happened. The ranks order the events of one entry, those of an instant with one act, and those of an instant
that the journal no longer has; they put no effect before its cause, and callbacks last, as they are sent last.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence, Set

from leyden.lab.drawings.events.payment_events import ARRIVAL, Event
from leyden.lightning.payer.payment_rows import PaymentRow
from leyden.lightning.receiver.invoice_row import InvoiceRow
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.stepwise import Steps
from leyden.world.event_journal import Entry
from leyden.world.world import World

_INVOICE = frozenset({"invoice_accepted", "invoice_settled", "invoice_canceled"})
_PARTS = frozenset({"htlc_refused", "htlc_waiting"})
_CALLBACK_ENDS = frozenset({"callback_answered", "callback_failed", "callback_not_sent"})


def in_order(
    world: World,
    events: Sequence[Event],
    invoice: InvoiceRow | None,
    payments: Sequence[PaymentRow],
    deliveries: Sequence[DeliveryRow],
) -> Steps[list[Event]]:
    """The events, the first one first, in steps: one for each row."""
    crowded = yield from _crowded_instants({event.at for event in events}, invoice, payments, deliveries)
    noted = _Noted(world.journal.entries(instants=crowded) if crowded else [])
    return sorted(events, key=lambda event: (event.at, noted.sequence(event), event.rank))


def _crowded_instants(
    instants: Set[int], invoice: InvoiceRow | None, payments: Sequence[PaymentRow], deliveries: Sequence[DeliveryRow]
) -> Steps[set[int]]:
    """Those of the instants that have more than one act. A payment that ends in its own instant is one act, and a
    callback is a part of the act that it is about."""
    acts: Counter[int] = Counter()
    ends: set[int] = set()
    for row in payments:
        begun = {row.get("starts_at", row["created_at"]), *(attempt["at"] for attempt in row["attempts"])}
        over = {at for at in (row["resolved_at"], row["gave_up_at"]) if at is not None}
        ends |= (over - begun) & instants
        acts.update((begun | over) & instants)
        yield
    for delivery in deliveries:
        acts.update(ends.intersection(one.at for one in AttemptLog(delivery).attempts()))
        acts.update(order["at"] for order in delivery.get("replay_orders", ()))
        acts.update([delivery["created_at"]] if delivery.get("replay_orders") else ())
        yield
    if invoice is not None:
        held = invoice.get("holds_at", [])
        acts.update(held)
        acts.update(at for at in (invoice["closed_at"], invoice["settled_at"] if held else None) if at is not None)
    return {at for at, count in acts.items() if count > 1 and at in instants}


class _Noted:
    """The entries of some instants, as far as the journal has them."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._instants = {entry.at_ms for entry in entries}
        self._invoices: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
        self._found: dict[tuple[int, str, str, object], int] = {}
        counts: Counter[tuple[int, str, str]] = Counter()
        for entry in entries:
            at, kind, facts = entry.at_ms, entry.kind, entry.facts
            kind = "callback_ended" if kind in _CALLBACK_ENDS else kind
            subject = str(facts.get("delivery", entry.subject))
            if kind in _INVOICE:
                self._invoices[at, subject].append(entry.sequence)
            which = facts.get("htlc") or facts.get("attempt")
            if not isinstance(which, (str, int)):  # none; the journal of a saved sandbox may have any facts
                which = counts[at, kind, subject]
                counts[at, kind, subject] += 1
            self._found.setdefault((at, kind, subject, which), entry.sequence)

    def sequence(self, event: Event) -> int:
        """The number of the entry of an event; 0 is before all entries, and where nothing is known."""
        if event.at not in self._instants or event.noted is None:
            return 0
        kind, subject, which = event.noted
        sequence = self._found.get((event.at, kind, subject, which))
        if kind == ARRIVAL:
            sequence = self._arrival(event.at, subject, *str(which).split(" "))
        if sequence is None:  # a payment that fails on its way
            started = [self._found.get((event.at, "payment_started", owner, 0), 0) for _, owner in event.within]
            sequence = max(started, default=0)
        return sequence

    def _arrival(self, at: int, payment_hash: str, payment_id: str, htlc: str) -> int | None:
        """The sequence of the entry of an HTLC that arrives: it is refused, waits, or completes the payment."""
        for kind in _PARTS:
            if (at, kind, payment_hash, htlc) in self._found:
                return self._found[at, kind, payment_hash, htlc]
        started = self._found.get((at, "payment_started", payment_id, 0), 0)
        return next((sequence for sequence in self._invoices[at, payment_hash] if sequence > started), started)
