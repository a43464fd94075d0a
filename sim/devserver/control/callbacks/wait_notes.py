"""What a wait for deliveries says that ended without the number that it was asked for.

A note has the states that are there, the instants that are set, and requests that this state allows and that may bring
a match. What payers, customers, receivers and other clients will do is not foretold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop
from typing import Any, cast

from leyden.devserver.control.callbacks.charge_events import (
    events_of,
    first_expiry,
    instant_text,
    maker_of,
    never_comes,
    new_expiry_text,
    until_text,
    ways_of,
)
from leyden.devserver.control.callbacks.dead_ends import (
    ANY,
    changed_for_further,
    dead_end,
    has_ended,
    meaning_of,
    of_ended,
    replay_text,
    takes_payment,
    without_url,
)
from leyden.devserver.control.callbacks.next_attempts import now_text, of_delivery
from leyden.lightning.engine.htlc import HELD, payment_of
from leyden.lightning.payer.payment_rows import PaymentRow
from leyden.server.callbacks.deliveries import BLOCKED, DELIVERED, PENDING, STOPPED
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.callbacks.outbox import TIMER
from leyden.server.charges.rows import ChargeRow, StaticChargeRow
from leyden.world.world import World

_READ_AT_ONCE = 100
_NAMED = 3  # payments that a note names, at most
_ACCEPTED, _OPEN = "ACCEPTED", "OPEN"  # states of invoices
_PAY = "(POST /sandbox/v1/payments)"
_REPLAY_STOPPED = ", or replay those that were stopped"
_FAIL = "(POST /sandbox/v1/charges/{}/fail)"


async def wait_note(world: World, wanted: Mapping[str, Any], filters: Mapping[str, Any]) -> str:
    """Why a wait ended without enough deliveries: the next step of the pending one that may match, or the state of the
    Charges; and what may bring a match. `filters` are the fields of the rows about the Charge and the event."""
    ended = dead_end(world, wanted)
    if ended is not None:
        return ended + _removed(world)
    # Pending deliveries bring a match only where they match not yet.
    pending = None
    if wanted["status"] not in (PENDING, ANY):
        outbox = world.service.outbox
        pending = await _next_pending(world, {**filters, "status": PENDING})
        if world.service.outbox is not outbox:
            return ""  # a reset: the caller says so
    meaning = "" if wanted["status"] == DELIVERED else meaning_of(wanted["status"])
    if pending is not None:
        return of_delivery(world, pending, wanted["status"]) + meaning + _removed(world)
    if wanted.get("chargeId") is None:
        note = _latest(world, wanted, filters) + _of_any(world, wanted)
    else:
        note = _of_resource(world, wanted)
    return note + _next_event(world, note) + meaning + _removed(world)


def _removed(world: World) -> str:
    return world.removed.hint() if world.removed.counts()["deliveries"] else ""


def _latest(world: World, wanted: Mapping[str, Any], filters: Mapping[str, Any]) -> str:
    """How the latest delivery ended, if in another state than the awaited one; otherwise empty."""
    latest = world.service.outbox.rows.page(filters, limit=1)
    if wanted["status"] in (PENDING, ANY) or not latest or latest[0]["status"] in (wanted["status"], PENDING):
        return ""
    return f"{of_ended(world, cast(DeliveryRow, latest[0]))}; "


def _next_event(world: World, note: str) -> str:
    """The next event of the clock, unless the note has its instant, and the number of payers: they may change what the
    note says."""
    due_ms, payers = world.clock.next_due(), world.payers.count
    text = ""
    if due_ms is not None and due_ms <= world.clock.now():
        text = f"; an event is due{now_text(world)}"
    elif due_ms is not None and not never_comes(due_ms) and instant_text(due_ms) not in note:
        text = f"; the next event of the clock is due at {instant_text(due_ms)}"
    if payers:
        text += f"; {payers} payer{' is' if payers == 1 else 's are'} set (GET /sandbox/v1/payers)"
    return text


# One resource


def _of_resource(world: World, wanted: Mapping[str, Any]) -> str:
    """The state of the Charge or Static Charge of the wait, and what may bring a callback of it."""
    service, charge_id, event = world.service, wanted["chargeId"], wanted.get("event")
    charge = service.charges.charges.row(charge_id)
    if charge is not None:
        return _of_charge(world, charge, event) + _of_url(world, charge, wanted)
    static = service.static_charges.static_charges.existing(charge_id)
    url = _of_url(world, static, wanted)
    return _of_static(world, static, event) + (
        url if url.endswith(_REPLAY_STOPPED) else url + replay_text(world, wanted)
    )


def _of_charge(world: World, charge: ChargeRow, event: str | None) -> str:
    sent = len(world.service.outbox.deliveries(charge["id"]))  # a document of the user's own may let it send several
    has_sent = "no callback" if not sent else "1 callback" if sent == 1 else f"{sent} callbacks"
    facts = [f"Charge {charge['id']} is {charge['status']} and has sent {has_sent}", *_payments(world, charge)]
    if ways := _ways(world, charge, event, "it"):
        return f"{'; '.join(facts)}: {ways}"
    if never_comes(charge["expires_at"]) and event is not None:
        facts.append(f"it expires at {instant_text(charge['expires_at'])}")
    elif "closed" in charge:
        facts.append("it can no longer be paid")
    others = sorted(events_of(world, maker_of(charge)) - {event})
    return f"{'; '.join(facts)}: wait for {' or '.join(others) or 'another Charge'}"


def _ways(world: World, charge: ChargeRow, event: str | None, what: str) -> str:
    """The requests that may bring a callback with this event of an unpaid Charge, which the text calls `what`."""
    is_closed, expires_at = "closed" in charge, charge["expires_at"]
    pay = "" if is_closed else _pay_text(world, charge, what)
    expire = f"{until_text(world, expires_at)}, when {what} expires unless it is paid"
    expire = "" if never_comes(expires_at) else expire
    invoice = "its invoice" if what == "it" else f"the invoice of {what}"
    fail = "" if is_closed else f"let {invoice} fail {_FAIL.format(charge['id'])}"
    return ways_of(world, maker_of(charge), event, pay, expire, fail)


def _pay_text(world: World, charge: ChargeRow, what: str) -> str:
    """The request that pays a Charge, or settles the payment that the node holds. Parts that wait accept only their own
    total."""
    invoice = world.node.invoices.row(charge["payment_hash"])
    if invoice is not None and invoice["state"] == _ACCEPTED:
        held = [row["id"] for row in _unresolved(world, charge) if row["status"] == HELD]
        if held:
            return f"settle the held payment of {what} (POST /sandbox/v1/payments/{held[0]}/settle)"
    waiting = [] if invoice is None or invoice["state"] != _OPEN else invoice["parts"]
    part = next((one for one in waiting if one["state"] == HELD), None)
    if part is None or part["total_msat"] == charge["amount_msat"]:
        return f"pay {what} {_PAY}"
    total = f"a part of payment {payment_of(part['id'])} waits for that total"
    return f"pay {what} {_PAY} with the amount {part['total_msat']} ({total})"


def _payments(world: World, charge: ChargeRow) -> list[str]:
    """The payments of the Charge's invoice that have not ended: their states, and when their next parts start."""
    rows = _unresolved(world, charge)
    named = [_payment(row) for row in rows[:_NAMED]]
    more = len(rows) - _NAMED
    return (
        named if more <= 0 else [*named, f"{more} more payment{'s of it have' if more > 1 else ' of it has'} not ended"]
    )


def _payment(row: PaymentRow) -> str:
    if row["next_part_at"] is not None:
        return f"the next part of payment {row['id']} of it is due at {instant_text(row['next_part_at'])}"
    return f"payment {row['id']} of it is {row['status']}"


def _unresolved(world: World, charge: ChargeRow) -> Sequence[PaymentRow]:
    rows = world.payments.rows.find("payment_hash", charge["payment_hash"])
    return [row for row in rows if row["resolved_at"] is None]


def _of_static(world: World, static: StaticChargeRow, event: str | None) -> str:
    static_id = static["id"]
    count, are = _pending_children(world, static_id)
    start = f"the Static Charge is {static['status']}, and {are}"
    create = "wait for those of another one"
    fail = f"let the invoice of one of them fail {_FAIL.format('{id}')}" if count else ""
    if has_ended(world, static):  # its pending Charges may still be paid
        return f"{start}: {ways_of(world, 'createStaticCharge', event, f'pay one of them {_PAY}', '', fail) or create}"
    if static["callback_url"] is None:
        which = "; those of its Charges that are pending may have one from before" if count else ""
        return without_url(world, static_id) + which
    pay = f"pay it by its LNURL {_PAY}"
    if not takes_payment(world, static):
        pay = f"{changed_for_further(world, static)}, then {pay}"
        start += "; it takes no payment"
    fail = fail or f"request an invoice of it and let that fail {_FAIL.format('{id}')}"
    return f"{start}: {ways_of(world, 'createStaticCharge', event, pay, '', fail) or create}"


def _pending_children(world: World, static_id: str) -> tuple[int, str]:
    """How many pending Charges of a Static Charge can still be paid, as far as `_READ_AT_ONCE` of them are read, and
    how many are pending."""
    charges, initial = world.service.charges.charges, world.service.charges.lifecycle.table.initial
    of_it = {"static_charge_id": static_id, "status": initial}
    count = charges.count_with(of_it)
    closed = sum("closed" in row for row in charges.page_up(of_it, limit=_READ_AT_ONCE))
    text = f"{count or 'no'} Charge{'s of it are' if count > 1 else ' of it is'} pending"
    if closed:
        text += f", of which {closed}{' or more' if count > _READ_AT_ONCE else ''} can no longer be paid"
    return count - closed, text


def _of_url(world: World, resource: ChargeRow | StaticChargeRow, wanted: Mapping[str, Any]) -> str:
    """What is known of the URL that decides how a callback ends: it has answered 410, or it is not allowed."""
    url, static_id = resource["callback_url"], str(resource.get("static_charge_id") or resource["id"])
    if url is None:
        return ""
    rows = world.service.outbox.rows
    if wanted["status"] != STOPPED and (static_id, url) in world.service.outbox.in_flight.disabled:
        about = wanted.get("chargeId") or resource["id"]
        count = rows.count_with({"endpoint_id" if about == static_id else "resource_id": about, "status": STOPPED})
        if "static_charge_id" in resource:  # a Charge keeps its URL
            mend = "replay its callback when it has ended as stopped"
        else:
            mend = _other_url(world, static_id) + (_REPLAY_STOPPED if count else "")
        return f"; {url[:200]} has answered 410, so that only replays are sent there: {mend}"
    forbidden = "" if wanted["status"] == BLOCKED else world.transport.forbidden_note(url)
    return f"; its address is not allowed, which ends each callback as blocked: {forbidden}" if forbidden else ""


def _other_url(world: World, static_id: str) -> str:
    static = world.service.static_charges.static_charges.row(static_id)
    if static is None or has_ended(world, static):
        return "create another one with another callbackUrl"
    return changed_for_further(world, static, "give its further payments another callbackUrl")


# Any Charge


def _of_any(world: World, wanted: Mapping[str, Any]) -> str:
    """How many deliveries and Charges are pending, and what may bring a callback with the event of the wait."""
    event, charges = wanted.get("event"), world.service.charges.charges
    initial = world.service.charges.lifecycle.table.initial
    unpaid = charges.counts("status").get((initial,), 0)
    are = f"{unpaid} Charges are" if unpaid > 1 else f"{unpaid or 'no'} Charge is"
    facts = f"{_pending_text(world, event)}, and {are} pending"
    hindered, with_url = "", 0
    for row in charges.page_up({"status": initial}, limit=_READ_AT_ONCE):
        charge = cast(ChargeRow, row)
        if charge["callback_url"] is None:
            continue
        with_url += 1
        if ways := _ways(world, charge, event, f"Charge {charge['id']}"):
            # The wait for any state counts the callback, however its URL makes it end.
            hindrance = "" if wanted["status"] == ANY else _of_url(world, charge, wanted)
            if not hindrance:
                return f"{facts}: {ways}"
            hindered = hindered or f"{ways}{hindrance}"
    if hindered:
        return f"{facts}: {hindered}"
    if unpaid and not with_url:
        facts += f", none{f' of the oldest {_READ_AT_ONCE}' if unpaid > _READ_AT_ONCE else ''} with a callbackUrl"
    create = "create one with a callbackUrl"
    fail = f"let its invoice fail {_FAIL.format('{id}')}"
    if ways := ways_of(world, "createCharge", event, f"pay it {_PAY}", new_expiry_text(world), fail):
        return f"{facts}: {create}, then {ways}"
    known = events_of(world, "createCharge")
    if event in known:
        facts += f"; the earliest expiry of a new Charge is {instant_text(first_expiry(world))}"
    return f"{facts}: wait for {' or '.join(sorted(known - {event}))}"


def _pending_text(world: World, event: str | None) -> str:
    """How many deliveries with this event are pending, and how many with each of the others, with the oldest one."""
    rows, others = world.service.outbox.rows, list[str]()
    counts: dict[str, int] = {}
    for (status, name), count in rows.counts("status", "event").items():
        if status == PENDING:
            counts[str(name)] = counts.get(str(name), 0) + count
    number = sum(counts.values()) if event is None else counts.pop(event, 0)
    with_event = "" if event is None else f" with the event {event}"
    text = f"{number or 'no'} {'deliveries' if number > 1 else 'delivery'}{with_event}"
    text += f" {'are' if number > 1 else 'is'} pending"
    for name, count in sorted(counts.items()) if event is not None else ():
        [oldest] = rows.page_up({"status": PENDING, "event": name}, limit=1)
        one = f"delivery {oldest['id']} with the event {name} is"
        others.append(one if count == 1 else f"{count} deliveries with the event {name} are, the oldest {oldest['id']}")
    return f"{text} ({'; '.join(others)})" if others else text


async def _next_pending(world: World, filters: Mapping[str, Any]) -> DeliveryRow | None:
    """The oldest of these pending deliveries that is in flight; if none is, the one that is due next. There may be very
    many rows: they are read in the order of their timers, and other requests are answered in between."""
    outbox, slices = world.service.outbox, world.slices()

    def pending(delivery_id: str) -> DeliveryRow | None:
        row = outbox.delivery(delivery_id)
        return row if row is not None and all(row.get(field) == value for field, value in filters.items()) else None

    in_flight = [row for row in map(pending, tuple(outbox.in_flight.attempts)) if row is not None]
    if in_flight:
        return min(in_flight, key=lambda row: (row["created_at"], row["sequence"]))
    timers = [entry for entry in world.clock.timers() if entry[3] == TIMER]
    heapify(timers)
    while timers:
        row = pending(heappop(timers)[4])
        if row is not None:
            return row
        if slices.is_over():
            await slices.pause()
    # It waits for a place, or for another one of its Charge.
    waiting = (row["id"] for row in outbox.rows.page_up(filters, limit=_READ_AT_ONCE))
    return next(filter(None, map(pending, waiting)), None)
