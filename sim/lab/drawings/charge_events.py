"""The events of one Charge, read from the stored rows: the timeline and the sequence diagram draw them.

A world that is reopened from a directory has the same rows, so it draws the same. The journal adds what leaves no row
(faults that applied, refusals, replays), as far back as it goes. Events of one instant are ordered by cause and effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from leyden.errors import DrawingError
from leyden.lab.charge_states import EXPIRY_REACHED, INVOICE_FAILED, PAYMENT_SETTLED, states_entered
from leyden.lab.drawings.payment_events import (
    CALLBACK,
    CLIENT,
    NODE,
    PAYER,
    SERVICE,
    Event,
    Row,
    payment_events,
    short_name,
)
from leyden.lab.drawings.svg import BAD, GOOD, OPEN, OTHER, WAIT, clock_time, sat
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.deliveries import EXHAUSTED, PENDING
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.charges.lifecycle import CREATION
from leyden.server.contract.types import LifecycleTable
from leyden.server.docs.tables import span_in_words
from leyden.world.world import World

_MAX_EVENTS, _EVENTS_BEFORE_GAP = 64, 40
_STATE_TONES = {PAYMENT_SETTLED: GOOD, EXPIRY_REACHED: WAIT, INVOICE_FAILED: BAD, "slots_filled": OTHER}


@dataclass(frozen=True, slots=True)
class ChargeEvents:
    """The events of a Charge so far, its scheduled events, and the present instant.

    `omitted` is the number of events left out in the middle, after the first `shown_before_gap` ones.
    """

    charge: Row
    tone: str
    events: tuple[Event, ...]
    scheduled: tuple[Event, ...]
    now: int
    shown_before_gap: int
    omitted: int

    @property
    def title(self) -> str:
        """The title of a drawing of the Charge."""
        return f"Charge of {sat(self.charge['amount_msat'])}"


class Transition(NamedTuple):
    """A trigger that changed the state of a resource, or was refused (`to` is then None)."""

    at: int
    trigger: str
    source: str
    to: str | None
    because: str = ""


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
        *(event for place, row in enumerate(payments) for event in _payment_events(world, row, place, invoice)),
        *(event for row in deliveries for event in _delivery_events(world, row)),
        *_journal_events(world, deliveries),
    ]
    events.sort(key=lambda event: (event.at, event.rank))
    scheduled = sorted(
        _scheduled_events(world, charge, invoice, payments, deliveries), key=lambda event: (event.at, event.rank)
    )
    omitted = max(0, len(events) - _MAX_EVENTS)
    shown = events[:_EVENTS_BEFORE_GAP] + events[_EVENTS_BEFORE_GAP + omitted :] if omitted else events
    return ChargeEvents(
        charge,
        state_tone(world.service.contract.lifecycles["Charge"], charge["status"]),
        tuple(shown),
        tuple(scheduled),
        world.clock.now(),
        _EVENTS_BEFORE_GAP if omitted else len(shown),
        omitted,
    )


def state_tone(table: LifecycleTable, status: str) -> str:
    """The tone of a state, by the trigger that enters it."""
    return next((tone for trigger, tone in _STATE_TONES.items() if status in states_entered(table, trigger)), OPEN)


def transitions_of(world: World, resource: str, resource_id: str, row: Row) -> list[Transition]:
    """The transitions of a resource, oldest first, with the refused ones in between.

    They are read from the journal. When the journal does not reach back to the creation, the list is empty; only for a
    Charge can the transition be inferred from its state, because its table has one way to each state.
    """
    table = world.service.contract.lifecycles[resource]
    transitions: list[Transition] = []
    state = CREATION
    for entry in world.journal.entries(subject=resource_id):
        if entry.kind == "refused":
            rules = [r for r in table.rows if (r.source, r.trigger) == (state, entry.facts["trigger"])]
            because = next((r.because for r in rules if r.refuse == entry.facts["refuse"]), None)
            transitions.append(
                Transition(entry.at_ms, entry.facts["trigger"], state, None, because or entry.facts["refuse"])
            )
        elif entry.facts.get("resource") == resource and "status" in entry.facts:
            transitions.append(Transition(entry.at_ms, entry.kind, state, entry.facts["status"]))
            state = entry.facts["status"]
    if transitions and transitions[0].source == CREATION and transitions[0].to is not None and state == row["status"]:
        return transitions
    rules = [r for r in table.rows if (r.source, r.to) == (table.initial, row["status"])]
    if resource != "Charge" or (row["status"] != table.initial and len(rules) != 1):
        return []
    created = Transition(row["created_at"], "created", CREATION, table.initial)
    if row["status"] == table.initial:
        return [created]
    invoice = world.node.invoices.row(row["payment_hash"]) or {}
    ended = row["confirmed_at"] or invoice.get("closed_at") or row["expires_at"]
    return [created, Transition(ended, rules[0].trigger, table.initial, row["status"])]


def _payment_events(world: World, row: Row, place: int, invoice: Row | None) -> Iterator[Event]:
    """The events of a payment. A payment that starts in the instant in which the invoice closed comes after that; the
    journal has the order."""
    events = payment_events(row, place, invoice or {})
    if invoice is None or invoice["closed_at"] is None or invoice["closed_at"] != row["created_at"]:
        return events
    started = [entry.sequence for entry in world.journal.entries(kind="payment_started", subject=row["id"])]
    closed = [entry.sequence for entry in world.journal.entries(kind="invoice_canceled", subject=row["payment_hash"])]
    if not started or not closed or started[0] < closed[0]:
        return events
    return (event._replace(rank=(10 + event.rank[0], *event.rank[1:])) for event in events)


def _charge_events(world: World, charge: Row, invoice: Row | None) -> Iterator[Event]:
    created_at = charge["created_at"] if invoice is None else invoice["opened_at"]
    table = world.service.contract.lifecycles["Charge"]
    key = (SERVICE, charge["id"])
    child = charge["static_charge_id"]
    detail = f"{sat(charge['amount_msat'])}, payable until {clock_time(charge['expires_at'])}"
    yield Event(
        created_at,
        (0,),
        PAYER if child else CLIENT,
        SERVICE,
        "asks for an invoice" if child else "creates the Charge",
        detail + (f" · “{charge['description']}”" if charge["description"] else ""),
        OPEN,
        opens=key,
        response=table.initial,
    )
    for transition in transitions_of(world, "Charge", charge["id"], charge):
        if transition.source == CREATION:
            continue
        if transition.to is None:
            yield Event(
                transition.at, (5,), SERVICE, SERVICE, f"refuses {transition.trigger}", transition.because, WAIT
            )
            continue
        tone = state_tone(table, transition.to)
        closes = key if transition.to in table.terminal else None
        yield Event(
            transition.at, (5,), SERVICE, SERVICE, transition.to, f"by {transition.trigger}", tone, closes=closes
        )


def _invoice_events(invoice: Row) -> Iterator[Event]:
    key = (NODE, invoice["payment_hash"])
    request = f"{invoice['request'][:17]}…"
    yield Event(invoice["opened_at"], (0.5,), SERVICE, NODE, "issues the invoice", request, OPEN, opens=key)
    if invoice["accepted_at"] is not None:
        yield Event(invoice["accepted_at"], (4,), NODE, NODE, "holds the payment", "all parts have arrived", WAIT)
    if invoice["settled_at"] is not None:
        got = f"received {sat(invoice['received_msat'])}"
        yield Event(invoice["settled_at"], (4,), NODE, SERVICE, "invoice settled", got, GOOD, closes=key)
    if invoice["closed_at"] is not None:
        yield Event(
            invoice["closed_at"], (4,), NODE, NODE, "invoice closed", invoice["closed_because"], WAIT, closes=key
        )


def _delivery_events(world: World, row: DeliveryRow) -> Iterator[Event]:
    host, key = host_of(row["url"]), (CALLBACK, row["id"])
    attempts = AttemptLog(row).attempts()
    for number, attempt in enumerate(attempts, 1):
        rank = (6.0, row["sequence"], number)
        last = number == len(attempts) and row["status"] != PENDING
        ended = attempt.ended_at is not None
        response, tone = _response_text(attempt.status, attempt.error)
        more = f"{row['event']} to {row['url']}" if number == 1 else ""
        opens, closes = (key if number == 1 else None), (key if last else None)
        result = _delivery_result(row, len(attempts)) if last else ""
        if attempt.ended_at == attempt.at:
            answer = response + (f" · {result}" if result else "")
            sent = Event(attempt.at, rank, SERVICE, CALLBACK, f"callback {number}", more, tone, host, answer)
            yield sent._replace(opens=opens, closes=closes)
            continue
        sent = Event(
            attempt.at, (*rank, 0), SERVICE, CALLBACK, f"callback {number} sent", more, OPEN, host, opens=opens
        )
        yield sent
        if ended and attempt.ended_at is not None:
            took = f"after {span_in_words(attempt.ended_at - attempt.at)}" + (f" · {result}" if result else "")
            back = (*rank, 1)
            words = f"callback {number}: {response}"
            yield Event(attempt.ended_at, back, CALLBACK, SERVICE, words, took, tone, host, closes=closes)
    if not attempts and row["status"] != PENDING:
        more = "the receiver had answered 410 before"
        yield Event(row["created_at"], (6, row["sequence"]), SERVICE, SERVICE, "no callback", more, WAIT)


def _response_text(status: int | None, error: str | None) -> tuple[str, str]:
    """A receiver's response as text, and its colour."""
    if status is None:
        return error or "no answer yet", BAD if error else WAIT
    return str(status), GOOD if 200 <= status <= 299 else BAD


def _delivery_result(row: Row, attempts: int) -> str:
    if row["status"] == EXHAUSTED:
        return f"exhausted after {attempts} attempts"
    return str(row["status"])


def _journal_events(world: World, deliveries: list[DeliveryRow]) -> Iterator[Event]:
    """Events that leave no row of their own."""
    mine = {row["id"]: row for row in deliveries}
    if not mine:
        return
    for entry in world.journal.entries():
        row = mine.get(entry.facts.get("delivery", "")) or mine.get(entry.subject)
        if row is None:
            continue
        rank, host = (5.5, entry.sequence), host_of(row["url"])
        if entry.kind == "fault_hit":
            number = entry.facts.get("attempt")
            more = f"applies to callback {number}"
            yield Event(entry.at_ms, rank, CALLBACK, CALLBACK, f"fault: {entry.facts['fault']}", more, OTHER, host)
        elif entry.kind == "callback_replayed":
            yield Event(entry.at_ms, rank, SERVICE, SERVICE, "replay", "the message is sent again", OTHER)


def _scheduled_events(
    world: World, charge: Row, invoice: Row | None, payments: list[dict[str, Any]], deliveries: list[DeliveryRow]
) -> Iterator[Event]:
    """Scheduled events, including those that another event may cancel."""
    if charge["status"] not in world.service.contract.lifecycles["Charge"].terminal:
        more = "if it is not paid before"
        yield Event(charge["expires_at"], (5,), SERVICE, SERVICE, "expires", more, WAIT)
    if invoice is not None and invoice["mpp_due_at"] is not None:
        more = "the waiting parts are returned"
        yield Event(invoice["mpp_due_at"], (4,), NODE, NODE, "stops waiting for the missing parts", more, WAIT)
    for place, row in enumerate(payments):
        if row["outcome"] is not None:
            continue
        payer = short_name(row["payer"])
        if row["next_part_at"] is not None:
            more = f"{len(row['attempts'])} of {row['script']['sent_parts']} parts were sent"
            words = f"{payer}'s payment starts" if not row["attempts"] else f"{payer} sends the next part"
            more = more if row["attempts"] else ""
            yield Event(row["next_part_at"], (2, place), PAYER, PAYER, words, more, OPEN, payer)
        if row["gives_up_at"] is not None and row["gave_up_at"] is None:
            yield Event(
                row["gives_up_at"], (9, place), PAYER, PAYER, f"{payer} gives up", "if not paid by then", WAIT, payer
            )
    for delivery in deliveries:
        if delivery["status"] == PENDING and delivery["due_at"] is not None:
            number, order = AttemptLog(delivery).attempt_count + 1, (6, delivery["sequence"])
            words, host = f"callback {number} is due", host_of(delivery["url"])
            yield Event(delivery["due_at"], order, SERVICE, CALLBACK, words, delivery["event"], OPEN, host)


def host_of(url: str) -> str:
    """The short host name of a URL: `shop` for `http://shop.localhost/paid`."""
    return (urlsplit(url).hostname or url).removesuffix(".localhost")


def _unknown_charge(world: World, charge_id: object) -> DrawingError:
    static = world.service.static_charges.static_charges.row(str(charge_id))
    if static is None:
        return DrawingError(f"there is no Charge {charge_id!r} in this world: give the id of one of its Charges")
    children = [row["id"] for row in world.service.charges.charges.find("static_charge_id", static["id"])]
    advice = (
        f"one of its {len(children)} Charges, the newest is {children[-1]}" if children else "wait for its first payer"
    )
    return DrawingError(f"{charge_id} is a Static Charge, and only Charges can be drawn: draw {advice}")
