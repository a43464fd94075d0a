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
from leyden.stepwise import Stepwise
from leyden.world.event_journal import Entry
from leyden.world.world import World

_INVOICE = frozenset({"invoice_accepted", "invoice_settled", "invoice_canceled"})
_PARTS = frozenset({"htlc_refused", "htlc_waiting"})
_READ_AT_ONCE = 200  # entries
_SORTED_AT_ONCE = _FREED_AT_ONCE = 1_000
_CALLBACK_ENDS = frozenset({"callback_answered", "callback_failed", "callback_not_sent"})


class ActionCounts:
    """How many actions each instant has. A payment that ends in its own instant is one action, and a callback is a part
    of the action that it is about."""

    def __init__(self, invoice: InvoiceRow | None) -> None:
        self._counts: Counter[int] = Counter()
        self._ends: set[int] = set()  # of payments
        self._attempts: list[set[int]] = []  # of each delivery
        if invoice is not None:
            held = invoice.get("holds_at", [])
            ends = (invoice["closed_at"], invoice["settled_at"] if held else None)
            self._counts.update([*held, *(at for at in ends if at is not None)])

    def add_payment(self, row: PaymentRow) -> None:
        """Count the actions of a payment."""
        starts = {row.get("starts_at", row["created_at"]), *(attempt["at"] for attempt in row["attempts"])}
        ends = {at for at in (row["resolved_at"], row["gave_up_at"]) if at is not None}
        self._ends |= ends - starts
        self._counts.update(starts | ends)

    def add_delivery(self, row: DeliveryRow) -> None:
        """Count the actions of a delivery."""
        orders = row.get("replay_orders", ())
        self._attempts.append({attempt.at for attempt in AttemptLog(row).attempts()})
        self._counts.update(order["at"] for order in orders)
        self._counts.update([row["created_at"]] if orders else ())

    def crowded(self, instants: Set[int]) -> set[int]:
        """Those of the instants that have more than one action."""
        callbacks = Counter(at for attempts in self._attempts for at in attempts & self._ends & instants)
        return {at for at in instants if self._counts[at] + callbacks[at] > 1}


def order_of(world: World, crowded: Set[int], first: int, last: int) -> Stepwise[EventOrder]:
    """The order of events of which the instants `crowded` have more than one action, in steps: an instant may have
    thousands."""
    noted, after = _Noted(), 0
    while crowded and (entries := world.journal.entries(after, _READ_AT_ONCE, instants=crowded)):
        noted.add(entries)
        after = entries[-1].sequence
        yield
    return EventOrder(noted, first, last)


class EventOrder:
    """The `first` and the `last` ones of the events that were added, in order; all of them if there are no more."""

    def __init__(self, noted: _Noted, first: int, last: int) -> None:
        self._noted, self._first, self._last, self._count = noted, first, last, 0
        self._keyed: list[tuple[int, int, tuple[float, ...], int, Event]] = []

    def add(self, event: Event) -> None:
        """Add an event."""
        self._keyed.append((event.at, self._noted.sequence(event), event.rank, self._count, event))
        self._count += 1
        if len(self._keyed) >= self._first + self._last + _SORTED_AT_ONCE:
            self._sort()

    def events(self) -> Stepwise[list[Event]]:
        """The events, the first one first, in steps. Nothing can be added afterwards."""
        self._sort()
        yield from self._noted.free()
        return [event for *_, event in self._keyed]

    def _sort(self) -> None:
        self._keyed.sort()
        del self._keyed[self._first : max(self._first, len(self._keyed) - self._last)]


class _Noted:
    """The entries of some instants, as far as the journal has them."""

    def __init__(self) -> None:
        self._instants: set[int] = set()
        self._invoices: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
        self._found: dict[tuple[int, str, str, object], int] = {}
        self._counts: Counter[tuple[int, str, str]] = Counter()

    def add(self, entries: Sequence[Entry]) -> None:
        """Add the next entries of the journal."""
        counts = self._counts
        for entry in entries:
            at, kind, facts = entry.at_ms, entry.kind, entry.facts
            self._instants.add(at)
            kind = "callback_ended" if kind in _CALLBACK_ENDS else kind
            subject = str(facts.get("delivery", entry.subject))
            if kind in _INVOICE:
                self._invoices[at, subject].append(entry.sequence)
            which = facts.get("htlc") or facts.get("attempt")
            if not isinstance(which, (str, int)):  # none; the journal of a saved sandbox may have any facts
                which = counts[at, kind, subject]
                counts[at, kind, subject] += 1
            self._found.setdefault((at, kind, subject, which), entry.sequence)

    def free(self) -> Stepwise[None]:
        """Discard the entries in steps: to free thousands at once takes long."""
        for one in (self._found, self._invoices, self._counts):
            while one:
                for _ in range(min(_FREED_AT_ONCE, len(one))):
                    one.popitem()
                yield

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
