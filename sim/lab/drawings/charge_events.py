"""The events of one Charge, read from the stored rows: the timeline and the sequence diagram draw them.

A world that is reopened from a directory has the same rows, so it draws the same. The journal adds what leaves no row,
refused transitions and force closes, as far back as it goes; a note says when it does not go back to the Charge. Events
of one instant are ordered by cause and effect.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from leyden.errors import DrawingError
from leyden.lab.charge_states import lost_history, states_entered, transitions_of
from leyden.lab.drawings.events.callback_events import callback_events, callback_waits, host_of, rule_of, until_text
from leyden.lab.drawings.events.event_order import ActionCounts, order_of
from leyden.lab.drawings.events.payment_events import (
    CALLBACK,
    CLIENT,
    NODE,
    PAYER,
    SERVICE,
    Event,
    arrivals_of,
    force_close_events,
    force_closes,
    payment_events,
    short_name,
)
from leyden.lab.drawings.svg import BAD, GOOD, OPEN, OTHER, WAIT, sat
from leyden.lightning.payer.payment_rows import PaymentRow
from leyden.lightning.receiver.invoice_row import InvoiceRow
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.deliveries import PENDING
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.charges.rows import ChargeRow
from leyden.server.contract.lifecycle_rows import CREATION, EXPIRY_REACHED, INVOICE_FAILED, PAYMENT_SETTLED
from leyden.server.contract.types import LifecycleTable
from leyden.stepwise import Stepwise, run_to_end
from leyden.world.world import World

_MAX_EVENTS, EVENTS_BEFORE_GAP = 64, 40
_READ_AT_ONCE = 50  # rows
_DISCARDED_TOGETHER = 1_000  # events
_order = attrgetter("at", "rank")
_STATE_TONES = {PAYMENT_SETTLED: GOOD, EXPIRY_REACHED: WAIT, INVOICE_FAILED: BAD, "slots_filled": OTHER}


@dataclass(frozen=True, slots=True)
class ChargeEvents:
    """The events of a Charge so far, its scheduled events, and the present instant.

    `in_flight`: a payment is on its way through the network, whose next event has no instant of its own here.
    `omitted` is the number of events left out in the middle, after the first `EVENTS_BEFORE_GAP` ones, and
    `more_scheduled` that of the scheduled events after the last one here. `lost` says which events are missing because
    the journal no longer has them; empty if none can be.
    """

    charge: ChargeRow
    tone: str
    events: list[Event]
    scheduled: list[Event]
    now: int
    in_flight: bool
    omitted: int
    more_scheduled: int
    lost: str

    @property
    def title(self) -> str:
        """The title of a drawing of the Charge."""
        return f"Charge of {sat(self.charge['amount_msat'])}"


def charge_events(world: World, charge_id: str) -> ChargeEvents:
    """The events of one Charge. Raises `DrawingError` for an unknown id."""
    return run_to_end(charge_event_steps(world, charge_id))


def charge_event_steps(world: World, charge_id: str) -> Stepwise[ChargeEvents]:
    """The same in steps of one event or some rows, for a Charge with thousands of them. Raises `DrawingError` for an
    unknown id."""
    charge = world.service.charges.charges.row(charge_id)
    if charge is None:
        raise _unknown_charge(world, charge_id)
    invoice, now = world.node.invoices.row(charge["payment_hash"]), world.clock.now()
    kinds = "refused transitions" if world.engine is None else "force closes and refused transitions"
    lost = lost_history(world, charge_id, kinds)
    # There may be thousands of payments: their rows, and events that are not shown, do not stay in memory. They are
    # read twice, because the instants of all decide which are shown, and the journal is read for these instants.
    timeline, actions, in_flight = _Timeline(), ActionCounts(invoice), False
    for source in _sources(world, charge, invoice):
        yield
        if source.delivery is not None:
            actions.add_delivery(source.delivery)
        if source.payment is not None:
            actions.add_payment(source.payment)
            in_flight |= source.payment["outcome"] is None and bool(source.payment["attempts"])
        yield from timeline.add(source.events, source.scheduled)
    omitted = max(0, len(timeline.instants) - _MAX_EVENTS)
    is_shown = timeline.shown_instants() if omitted else None
    crowded = actions.crowded({at for at in timeline.instants if is_shown is None or is_shown(at)})
    order = yield from order_of(world, crowded, EVENTS_BEFORE_GAP, _MAX_EVENTS - EVENTS_BEFORE_GAP)
    for source in _sources(world, charge, invoice):
        yield
        for event in source.events:
            if is_shown is None or is_shown(event.at):
                order.add(event)
            yield
    shown = yield from order.events()
    tone = state_tone(world.service.contract.lifecycles["Charge"], charge["status"])
    scheduled = timeline.next_scheduled()
    return ChargeEvents(
        charge, tone, shown, scheduled, now, in_flight, omitted, timeline.scheduled_count - len(scheduled), lost
    )


class _Source(NamedTuple):
    """Events of a Charge and what is scheduled for it, with the delivery or the payment that they are about."""

    events: Iterable[Event]
    scheduled: Iterable[Event]
    delivery: DeliveryRow | None = None
    payment: PaymentRow | None = None


def _sources(world: World, charge: ChargeRow, invoice: InvoiceRow | None) -> Iterator[_Source]:
    """The Charge with its invoice, its deliveries, and its payments."""
    of_invoice = _invoice_events(invoice) if invoice is not None else ()
    own = chain(_charge_events(world, charge, invoice), of_invoice)
    yield _Source(own, _scheduled_events(world, charge, invoice))
    for delivery in world.service.outbox.deliveries(charge["id"]):
        yield _Source(callback_events(world, delivery), _scheduled_attempts(world, delivery), delivery)
    arrivals, closed, place = arrivals_of(invoice), force_closes(world), 0
    for rows in world.payments.rows.find_in_portions("payment_hash", charge["payment_hash"], _READ_AT_ONCE):
        for row in rows:
            events = chain(payment_events(row, place, invoice, arrivals), force_close_events(world, row, closed))
            yield _Source(events, _scheduled_payment(row, place), payment=row)
            place += 1


class _Timeline:
    """The instants of the events of a Charge, and its next scheduled events."""

    def __init__(self) -> None:
        self.instants = array("q")
        self.scheduled_count = 0
        self._scheduled: list[Event] = []

    def add(self, events: Iterable[Event], scheduled: Iterable[Event]) -> Stepwise[None]:
        """Add these, in steps."""
        for event in events:
            self.instants.append(event.at)
            yield
        for event in scheduled:
            self._scheduled.append(event)
            self.scheduled_count += 1
            if len(self._scheduled) > _DISCARDED_TOGETHER:
                self._scheduled = self.next_scheduled()
            yield

    def shown_instants(self) -> Callable[[int], bool]:
        """Whether an instant has one of the first or of the last events, which are shown."""
        instants = sorted(self.instants)
        first_ms, last_ms = instants[EVENTS_BEFORE_GAP - 1], instants[EVENTS_BEFORE_GAP - _MAX_EVENTS]
        return lambda at: not first_ms < at < last_ms

    def next_scheduled(self) -> list[Event]:
        """The next scheduled events, in order."""
        return sorted(self._scheduled, key=_order)[:_MAX_EVENTS]


def state_tone(table: LifecycleTable, status: str) -> str:
    """The tone of a state, by the trigger that enters it."""
    return next((tone for trigger, tone in _STATE_TONES.items() if status in states_entered(table, trigger)), OPEN)


def _charge_events(world: World, charge: ChargeRow, invoice: InvoiceRow | None) -> Iterator[Event]:
    at = charge["created_at"] if invoice is None else invoice["opened_at"]
    table = world.service.contract.lifecycles["Charge"]
    key = (SERVICE, charge["id"])
    asker, action = (PAYER, "asks for an invoice") if charge["static_charge_id"] else (CLIENT, "creates the Charge")
    # The overlay `payable-at-expiry` accepts a payment in the instant of the expiry, too.
    is_last = invoice is not None and invoice["payable_until_ms"] >= charge["expires_at"]
    expires = f"expires {'after' if is_last else 'at'} {until_text(charge['expires_at'], at)}"
    detail = f"{sat(charge['amount_msat'])}, {expires}"
    if charge["description"]:
        detail += f" · “{charge['description']}”"
    yield Event(at, (0,), asker, SERVICE, action, detail, OPEN, opens=key, response=table.initial)
    for at, trigger, source, to, because in transitions_of(world, "Charge", charge["id"], charge):
        if to is None:
            yield Event(
                at, (5,), SERVICE, SERVICE, f"refuses {trigger}", because, WAIT, noted=("refused", charge["id"], 0)
            )
        elif source != CREATION:
            closes = key if to in table.terminal else None
            tone, noted = state_tone(table, to), (trigger, charge["id"], 0)
            yield Event(at, (5,), SERVICE, SERVICE, to, f"by {trigger}", tone, closes=closes, noted=noted)


def _invoice_events(invoice: InvoiceRow) -> Iterator[Event]:
    key = (NODE, invoice["payment_hash"])
    request = f"{invoice['request'][:17]}…"
    yield Event(invoice["opened_at"], (0.5,), SERVICE, NODE, "issues the invoice", request, OPEN, opens=key)
    holds, payment_hash = holds_of(invoice), invoice["payment_hash"]
    for place, at in enumerate(holds):
        noted = ("invoice_accepted", payment_hash, holds[:place].count(at))
        yield Event(at, (3.8,), NODE, NODE, "holds the payment", "all parts have arrived", WAIT, noted=noted)
    if invoice["settled_at"] is not None:
        got = f"received {sat(invoice['received_msat'])}"
        noted = ("invoice_settled", payment_hash, 0)
        yield Event(invoice["settled_at"], (4,), NODE, SERVICE, "invoice settled", got, GOOD, closes=key, noted=noted)
    if invoice["closed_at"] is not None:
        why = invoice["closed_because"] or ""
        noted = ("invoice_canceled", payment_hash, 0)
        yield Event(invoice["closed_at"], (4,), NODE, NODE, "invoice closed", why, WAIT, closes=key, noted=noted)


def holds_of(invoice: InvoiceRow) -> list[int]:
    """The instants from which a payment was held. A row of an earlier version has only that of the present hold."""
    present = [] if invoice["accepted_at"] is None else [invoice["accepted_at"]]
    return invoice.get("holds_at", present)


def _scheduled_events(world: World, charge: ChargeRow, invoice: InvoiceRow | None) -> Iterator[Event]:
    """What is scheduled for the Charge and its invoice, including what another event may cancel."""
    if charge["status"] not in world.service.contract.lifecycles["Charge"].terminal:
        is_closed = invoice is not None and invoice["state"] == "CANCELED"
        more = "its invoice was closed and cannot be paid" if is_closed else "if it is not paid before"
        yield Event(charge["expires_at"], (5,), SERVICE, SERVICE, "expires", more, WAIT)
    if invoice is not None and invoice["mpp_due_at"] is not None:
        words, more = "stops waiting for the missing parts", "the waiting parts are returned"
        yield Event(invoice["mpp_due_at"], (4,), NODE, NODE, words, more, WAIT)
    returned_at = None if invoice is None else world.node.invoices.returns_at(invoice)
    if returned_at is not None:
        words, more = "the node holds the payment no longer", "it is returned to the payer"
        yield Event(returned_at, (4,), NODE, NODE, words, more, WAIT)


def _scheduled_payment(row: PaymentRow, place: int) -> Iterator[Event]:
    """What is scheduled for a payment; `place` as for `payment_events`."""
    if row["outcome"] is not None:
        return
    payer, sent, script = short_name(row["payer"]), len(row["attempts"]), row["script"]
    if row["next_part_at"] is not None:
        more = f"{sent} of {script['sent_parts']} parts were sent" if sent and script is not None else ""
        words = f"{payer} sends the next part" if sent else f"{payer}'s payment starts"
        yield Event(row["next_part_at"], (2, place), PAYER, PAYER, words, more, OPEN, payer)
    if row["gives_up_at"] is not None and row["gave_up_at"] is None:
        words, more = f"{payer} gives up", "if not paid by then"
        yield Event(row["gives_up_at"], (9, place), PAYER, PAYER, words, more, WAIT, payer)


def _scheduled_attempts(world: World, delivery: DeliveryRow) -> Iterator[Event]:
    """What is scheduled for a delivery."""
    if delivery["status"] == PENDING and delivery["due_at"] is not None:
        words = f"callback {AttemptLog(delivery).attempt_count + 1} is due"
        rank, host = (26, delivery["sequence"]), host_of(delivery["url"])
        start = Event(delivery["due_at"], rank, SERVICE, CALLBACK, words, delivery["event"], OPEN, host)
        if forbidden := world.transport.forbidden_note(delivery["url"]):
            more = f"{delivery['event']}: {rule_of(forbidden)}"
            start = start._replace(target=SERVICE, text=f"{words} and is blocked", detail=more, tone=WAIT)
        yield start
    yield from (event for _, _, event in callback_waits(world, delivery["id"]))


def _unknown_charge(world: World, charge_id: object) -> DrawingError:
    static = world.service.static_charges.static_charges.row(str(charge_id))
    if static is None:
        removed = world.removed.unknown("charges")
        advice = f"give the id of one of its Charges{removed}"
        return DrawingError(f"there is no Charge {charge_id!r} in this world: {advice}")
    children = [row["id"] for row in world.service.charges.charges.find("static_charge_id", static["id"])]
    newest = f"one of its {len(children)} Charges, the newest is {children[-1]}" if children else ""
    advice = newest or "wait for its first payer"
    return DrawingError(f"{charge_id} is a Static Charge, and only Charges can be drawn: draw {advice}")
