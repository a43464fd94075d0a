"""The events of one Charge, read from the stored rows: the timeline and the sequence diagram draw them.

A world that is reopened from a directory has the same rows, so it draws the same. The journal adds what leaves no row,
refused transitions and force closes, as far back as it goes; a note says when it does not go back to the Charge. Events
of one instant are ordered by cause and effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

from leyden.errors import DrawingError
from leyden.lab.charge_states import lost_history, states_entered, transitions_of
from leyden.lab.drawings.events.callback_events import callback_events, callback_waits, host_of, rule_of, until_text
from leyden.lab.drawings.events.event_order import ActionCounts, in_order
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
    `omitted` is the number of events left out in the middle, after the first `EVENTS_BEFORE_GAP` ones. `lost` says
    which events are missing because the journal no longer has them; empty if none can be.
    """

    charge: ChargeRow
    tone: str
    events: list[Event]
    scheduled: list[Event]
    now: int
    in_flight: bool
    omitted: int
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
    deliveries = world.service.outbox.deliveries(charge_id)
    kinds = "refused transitions" if world.engine is None else "force closes and refused transitions"
    lost = lost_history(world, charge_id, kinds)
    timeline, actions = _Timeline(), ActionCounts(invoice)
    timeline.events.extend(_charge_events(world, charge, invoice))
    timeline.events.extend(_invoice_events(invoice) if invoice is not None else ())
    timeline.scheduled.extend(_scheduled_events(world, charge, invoice))
    for delivery in deliveries:
        actions.add_delivery(delivery)
        yield from timeline.add(callback_events(world, delivery), _scheduled_attempts(world, delivery))
    arrivals, closed, place, in_flight = arrivals_of(invoice), force_closes(world), 0, False
    # There may be thousands of payments: their rows, and events that are not shown, do not stay in memory.
    for rows in world.payments.rows.find_in_portions("payment_hash", charge["payment_hash"], _READ_AT_ONCE):
        yield
        for row in rows:
            actions.add_payment(row)
            events = chain(payment_events(row, place, invoice, arrivals), force_close_events(world, row, closed))
            yield from timeline.add(events, _scheduled_payment(row, place))
            in_flight |= row["outcome"] is None and bool(row["attempts"])
            place += 1
    omitted = max(0, len(timeline.events) + timeline.discarded - _MAX_EVENTS)
    ends = yield from in_order(world, _at_both_ends(timeline.events), actions)
    shown = ends if not omitted else ends[:EVENTS_BEFORE_GAP] + ends[EVENTS_BEFORE_GAP - _MAX_EVENTS :]
    tone = state_tone(world.service.contract.lifecycles["Charge"], charge["status"])
    return ChargeEvents(charge, tone, shown, sorted(timeline.scheduled, key=_order), now, in_flight, omitted, lost)


class _Timeline:
    """The events of a Charge, without those in the middle that were discarded, and the scheduled ones."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.scheduled: list[Event] = []
        self.discarded = 0
        self._limit = _DISCARDED_TOGETHER

    def add(self, events: Iterable[Event], scheduled: Iterable[Event]) -> Stepwise[None]:
        """Add these, in steps."""
        for event in events:
            self.events.append(event)
            yield
        if len(self.events) > self._limit:
            ends = _at_both_ends(self.events)
            self.discarded += len(self.events) - len(ends)
            self.events, self._limit = ends, 2 * len(ends) + _DISCARDED_TOGETHER
        for event in scheduled:
            self.scheduled.append(event)
            yield


def _at_both_ends(events: list[Event]) -> list[Event]:
    """The events of the first and of the last instants: those that are shown, and others of these instants."""
    if len(events) <= _MAX_EVENTS:
        return events
    instants = sorted(event.at for event in events)
    first_ms, last_ms = instants[EVENTS_BEFORE_GAP - 1], instants[EVENTS_BEFORE_GAP - _MAX_EVENTS]
    return [event for event in events if not first_ms < event.at < last_ms]


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
