"""The events of one Charge, read from the stored rows: the timeline and the sequence diagram draw them.

A world that is reopened from a directory has the same rows, so it draws the same. The journal adds what leaves no row,
refused transitions and force closes, as far back as it goes; a note says when it does not go back to the Charge. Events
of one instant are ordered by cause and effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import cast
from urllib.parse import urlsplit

from leyden.callbacks.callback_rows import LateReplyRow, RequestRow, WaitingRow, attempt_of
from leyden.callbacks.fault_hits import APPLIED, HELD, UNMET
from leyden.callbacks.fault_kinds import HOLDING_KINDS
from leyden.callbacks.faults import COPY_ANSWERED, COPY_NOT_SENT, COPY_STARTED
from leyden.callbacks.faults import TIMER as FAULT
from leyden.callbacks.receivers import TIMER as RESPONSE
from leyden.callbacks.replies import PROTOCOL, RESET, TIMEOUT, TLS, UNRESOLVED
from leyden.errors import DrawingError
from leyden.lab.charge_states import (
    EXPIRY_REACHED,
    INVOICE_FAILED,
    PAYMENT_SETTLED,
    lost_history,
    states_entered,
    transitions_of,
)
from leyden.lab.drawings.event_order import in_order
from leyden.lab.drawings.payment_events import (
    CALLBACK,
    CLIENT,
    NODE,
    PAYER,
    SERVICE,
    Event,
    force_closes,
    payment_events,
    short_name,
)
from leyden.lab.drawings.svg import BAD, GOOD, OPEN, OTHER, WAIT, clock_time, day, sat
from leyden.lightning.payer.payment_rows import PaymentRow
from leyden.lightning.receiver.invoice_row import InvoiceRow
from leyden.server.callbacks.attempts import Attempt, AttemptLog
from leyden.server.callbacks.deliveries import BLOCKED, EXHAUSTED, LOST, PENDING
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.charges.lifecycle import CREATION
from leyden.server.charges.rows import ChargeRow
from leyden.server.contract.types import LifecycleTable
from leyden.server.store.typed_table import TypedTable
from leyden.server.timestamps import span_in_words
from leyden.world.world import World

_MAX_EVENTS, EVENTS_BEFORE_GAP = 64, 40
_order = attrgetter("at", "rank")
# Errors of attempts of which nothing was sent, and those in which the receiver was heard.
_UNSENT = frozenset({BLOCKED, UNRESOLVED})
_FROM_RECEIVERS = frozenset({RESET, TLS, PROTOCOL})
_FAULT_WORDS = {APPLIED: "applies to", HELD: "holds", UNMET: "had no effect on"}
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
    charge = world.service.charges.charges.row(charge_id)
    if charge is None:
        raise _unknown_charge(world, charge_id)
    invoice = world.node.invoices.row(charge["payment_hash"])
    payments = list(world.payments.rows.find("payment_hash", charge["payment_hash"]))
    deliveries = world.service.outbox.deliveries(charge_id)
    events = [
        *_charge_events(world, charge, invoice),
        *(_invoice_events(invoice) if invoice is not None else ()),
        *(event for place, row in enumerate(payments) for event in payment_events(row, place, invoice)),
        *force_closes(world, payments),
        *(event for row in deliveries for event in _delivery_events(world, row)),
        *(event for row in deliveries for event in _fault_events(world, row)),
    ]
    events = in_order(world, events, invoice, payments, deliveries)
    omitted = max(0, len(events) - _MAX_EVENTS)
    shown = events[:EVENTS_BEFORE_GAP] + events[EVENTS_BEFORE_GAP + omitted :]
    scheduled = sorted(_scheduled_events(world, charge, invoice, payments, deliveries), key=_order)
    tone = state_tone(world.service.contract.lifecycles["Charge"], charge["status"])
    in_flight = any(row["outcome"] is None and row["attempts"] for row in payments)
    kinds = "refused transitions" if world.engine is None else "force closes and refused transitions"
    lost = lost_history(world, charge_id, kinds)
    return ChargeEvents(charge, tone, shown, scheduled, world.clock.now(), in_flight, omitted, lost)


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
    expires = f"expires {'after' if is_last else 'at'} {_until(charge['expires_at'], at)}"
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


def _until(end: int, at: int) -> str:
    """The end of a span that begins at `at`, with its date when it is on another day."""
    return clock_time(end) if day(end) == day(at) else f"{day(end)} {clock_time(end)}"


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


def _delivery_events(world: World, row: DeliveryRow) -> Iterator[Event]:
    """The attempts of a delivery. Only what left the service is an arrow to its receiver, and only what came from there
    is an arrow back."""
    host, key = host_of(row["url"]), (CALLBACK, row["id"])
    attempts = AttemptLog(row).attempts()
    over = row["status"] != PENDING
    for number, attempt in enumerate(attempts, 1):
        rank, words = (26, row["sequence"], number), f"callback {number}"
        more, opens = (f"{row['event']} to {row['url']}", key) if number == 1 else ("", None)
        response, tone = response_of(attempt)
        result, closes = (f" · {_result(row, number)}", key) if over and number == len(attempts) else ("", None)
        result = "" if result == f" · {response}" else result
        is_dropped = world.faults.hits.is_dropped(row["id"], number)
        source = CALLBACK if attempt.status is not None or attempt.error in _FROM_RECEIVERS else SERVICE
        target = SERVICE if is_dropped or attempt.error in _UNSENT else CALLBACK
        noted = ("callback_started", row["id"], number)
        start = Event(attempt.at, rank, SERVICE, target, words, more, tone, host, opens=opens, noted=noted)
        if attempt.ended_at == attempt.at:
            if source == CALLBACK:
                yield start._replace(response=response + result, closes=closes)
            else:
                yield start._replace(text=f"{words}: {response}{result}", closes=closes)
            continue
        yield start._replace(text=f"{words} {'is dropped by a fault' if is_dropped else 'sent'}", tone=OPEN)
        if attempt.ended_at is not None:
            words, took = f"{words}: {response}", f"after {_duration(attempt, attempt.ended_at - attempt.at)}{result}"
            end = Event(attempt.ended_at, (*rank, 1), source, SERVICE, words, took, tone, host, closes=closes)
            yield end._replace(noted=("callback_ended", row["id"], number))
    if over and not attempts:
        more = "the receiver had answered 410 before"
        yield Event(row["created_at"], (26, row["sequence"]), SERVICE, SERVICE, "no callback", more, WAIT)


def _duration(attempt: Attempt, clock_ms: int) -> str:
    """How long an attempt took. Of one on the network that is real time, which the clock need not show."""
    if attempt.error == LOST or attempt.latency_ms == clock_ms:
        return span_in_words(clock_ms)
    return f"{span_in_words(attempt.latency_ms)} in real time"


def response_of(attempt: Attempt) -> tuple[str, str]:
    """A receiver's response as text, and its tone."""
    if attempt.status is None:
        return attempt.error or "no answer yet", BAD if attempt.error else WAIT
    return str(attempt.status), GOOD if 200 <= attempt.status <= 299 else BAD


def _result(row: DeliveryRow, attempts: int) -> str:
    return f"exhausted after {attempts} attempts" if row["status"] == EXHAUSTED else str(row["status"])


def _fault_events(world: World, row: DeliveryRow) -> Iterator[Event]:
    """What faults did to a delivery, and its replays."""
    host, sequence = host_of(row["url"]), row["sequence"]
    yield from _replay_events(row)
    happened = list(world.faults.hits.events(row["id"], [one.at for one in AttemptLog(row).attempts()]))
    unsent = {number for number, event in happened if event["event"] == COPY_NOT_SENT}
    for place, (number, event) in enumerate(happened):
        at, fault, answer = event["at"], event["fault"], event["answer"]
        rank = (26, sequence, number, 1, place)
        nth = sum((one["at"], one["event"]) == (at, event["event"]) for _, one in happened[:place])
        if event["event"] in _FAULT_WORDS:
            does = _FAULT_WORDS[event["event"]]
            if event["event"] == UNMET and fault in HOLDING_KINDS:
                does = "had no effect but the delay on"
            words, more = f"fault: {fault}", f"{does} callback {number}"
            # What changes a message comes before the message, although the journal notes it after its start.
            kind = "callback_started" if event["event"] == APPLIED and fault not in HOLDING_KINDS else event["event"]
            yield Event(
                at,
                (25.5, sequence, number, place),
                CALLBACK,
                CALLBACK,
                words,
                more,
                OTHER,
                host,
                noted=(kind, row["id"], number),
            )
        elif event["event"] == COPY_STARTED:
            target, words = (SERVICE, "copy is due") if number in unsent else (CALLBACK, "copy sent")
            yield Event(
                at,
                rank,
                SERVICE,
                target,
                words,
                f"by the fault {fault}",
                OTHER,
                host,
                noted=(COPY_STARTED, row["id"], nth),
            )
        else:
            heard = event["event"] == COPY_ANSWERED or answer in _FROM_RECEIVERS
            yield Event(
                at,
                rank,
                CALLBACK if heard else SERVICE,
                SERVICE,
                f"copy: {answer}",
                "",
                OTHER,
                host,
                noted=(event["event"], row["id"], nth),
            )


def _replay_events(row: DeliveryRow) -> Iterator[Event]:
    """The requests to send the message again. One after which there was no attempt yet is replaced by the next."""
    sequence, orders, attempts = row["sequence"], row.get("replay_orders", []), AttemptLog(row).attempts()
    for place, order in enumerate(orders):
        at, due_at, before = order["at"], order["due_at"], orders[place - 1] if place else None
        words, more = "replay", "the message is sent again"
        number = order["attempts"]
        if number < len(attempts) and attempts[number].error in _UNSENT:
            more = f"the message cannot be sent again: {attempts[number].error}"
        if due_at > at:
            words, more = "replay is ordered", f"the message is to be sent again at {_until(due_at, at)}"
        if before is not None and before["attempts"] == order["attempts"]:
            is_other = before["due_at"] != due_at
            more += f", instead of at {_until(before['due_at'], at)}" if is_other else ", as was ordered before"
        rank, nth = (26, sequence, order["attempts"], 2, place), [one["at"] for one in orders[:place]].count(at)
        yield Event(at, rank, SERVICE, SERVICE, words, more, OTHER, noted=("callback_replayed", row["id"], nth))


def _scheduled_events(
    world: World,
    charge: ChargeRow,
    invoice: InvoiceRow | None,
    payments: list[PaymentRow],
    deliveries: list[DeliveryRow],
) -> Iterator[Event]:
    """Scheduled events, including those that another event may cancel."""
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
    for place, row in enumerate(payments):
        if row["outcome"] is not None:
            continue
        payer, sent, script = short_name(row["payer"]), len(row["attempts"]), row["script"]
        if row["next_part_at"] is not None:
            more = f"{sent} of {script['sent_parts']} parts were sent" if sent and script is not None else ""
            words = f"{payer} sends the next part" if sent else f"{payer}'s payment starts"
            yield Event(row["next_part_at"], (2, place), PAYER, PAYER, words, more, OPEN, payer)
        if row["gives_up_at"] is not None and row["gave_up_at"] is None:
            words, more = f"{payer} gives up", "if not paid by then"
            yield Event(row["gives_up_at"], (9, place), PAYER, PAYER, words, more, WAIT, payer)
    for delivery in deliveries:
        if delivery["status"] == PENDING and delivery["due_at"] is not None:
            words = f"callback {AttemptLog(delivery).attempt_count + 1} is due"
            rank, host = (26, delivery["sequence"]), host_of(delivery["url"])
            start = Event(delivery["due_at"], rank, SERVICE, CALLBACK, words, delivery["event"], OPEN, host)
            if forbidden := world.transport.forbidden_note(delivery["url"]):
                more = f"{delivery['event']}: {rule_of(forbidden)}"
                start = start._replace(target=SERVICE, text=f"{words} and is blocked", detail=more, tone=WAIT)
            yield start
        yield from (event for _, _, event in callback_waits(world, delivery["id"]))


def callback_waits(world: World, delivery_id: str | None = None) -> Iterator[tuple[str, str, Event]]:
    """What is scheduled for attempts that were made, of one delivery or of all: the responses of receivers, the
    time-outs of dropped attempts, and the copies that faults send. Each with the kind and the key of its timer."""
    late = cast(TypedTable[LateReplyRow], world.store.table("late_answers"))
    posts = cast(TypedTable[WaitingRow], world.store.table("fault_posts"))
    for row in late:
        found, number = attempt_of(row["post"])
        if "due_at" not in row or delivery_id not in (None, found):
            continue
        host, what = host_of(row["post"]["url"]), "the copy" if row["post"]["copied_by"] else f"callback {number}"
        source, words, tone = CALLBACK, f"{host} responds to {what}", OPEN
        if row["reply"]["error"] == TIMEOUT:
            source, words, tone = SERVICE, f"{what} times out", WAIT
        yield RESPONSE, row["id"], _wait_event(world, row["post"], row["due_at"], source, SERVICE, words, "", tone)
    for waiting in posts:
        found, number = attempt_of(waiting["post"])
        if delivery_id not in (None, found):
            continue
        target, words, more, tone = SERVICE, f"callback {number} times out", "a fault has dropped it", WAIT
        if waiting["is_copy"]:
            target, words, more, tone = CALLBACK, "copy is due", "by a fault", OTHER
        event = _wait_event(world, waiting["post"], waiting["due_at"], SERVICE, target, words, more, tone)
        yield FAULT, waiting["id"], event


def _wait_event(
    world: World, post: RequestRow, at: int, source: str, target: str, words: str, more: str, tone: str
) -> Event:
    delivery_id, number = attempt_of(post)
    delivery = world.service.outbox.delivery(delivery_id)
    rank = (26, 0 if delivery is None else delivery["sequence"], number)
    more = more or ("" if delivery is None else delivery["event"])
    return Event(at, rank, source, target, words, more, tone, host_of(post["url"]))


def host_of(url: str) -> str:
    """The short host name of a URL: `shop` for `http://shop.localhost/paid`."""
    return (urlsplit(url).hostname or url).removesuffix(".localhost")


def rule_of(note: str) -> str:
    """The name of the egress rule with which the note of a blocked attempt begins."""
    return note.partition(":")[0]


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
