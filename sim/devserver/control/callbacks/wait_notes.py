"""Why a wait for deliveries ended without the number that it was asked for, and what brings the next one."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop
from typing import Any, cast

from leyden.devserver.control.callbacks.customers import next_customer
from leyden.devserver.control.callbacks.dead_ends import (
    ANY,
    changed_for_further,
    condition_of,
    dead_end,
    has_ended,
    never_blocked,
    of_ended,
    takes_payment,
    without_url,
)
from leyden.devserver.control.callbacks.new_charges import creation_text
from leyden.devserver.control.callbacks.next_attempts import now_text, of_delivery
from leyden.devserver.control.callbacks.scheduled_payments import (
    Decision,
    decision_of,
    earliest_ms,
    outlook_of,
    waiting_total,
)
from leyden.devserver.control.callbacks.unpaid_charges import (
    expiry_text,
    is_taken,
    maker_of,
    pay_text,
    unpaid_note,
    way_of,
    ways_of,
)
from leyden.lightning.engine.htlc import HELD
from leyden.server.callbacks.deliveries import BLOCKED, DELIVERED, PENDING, STOPPED
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.callbacks.outbox import TIMER
from leyden.server.charges.charges import TIMER as CHARGE_TIMER
from leyden.server.charges.rows import ChargeRow, StaticChargeRow
from leyden.world.world import World

_IN_FLIGHT = "in_flight"  # of a payment
_READ_AT_ONCE = 100
_PAY_STATIC = "pay the Static Charge by its LNURL (POST /sandbox/v1/payments)"


def _of_latest(world: World, wanted: Mapping[str, Any], filters: Mapping[str, Any]) -> str:
    """How the latest delivery ended, if in another state than the awaited one; otherwise empty."""
    latest = world.service.outbox.rows.page(filters, limit=1)
    if wanted["status"] in (PENDING, ANY) or not latest or latest[0]["status"] in (wanted["status"], PENDING):
        return ""
    ended = of_ended(world, cast(DeliveryRow, latest[0]), wanted["status"])
    return f"{ended.removesuffix(_only_if(world, wanted))}; "  # the end of the note has it


async def wait_note(world: World, wanted: Mapping[str, Any], filters: Mapping[str, Any]) -> str:
    """The reason why a wait ended without enough deliveries: the state of the next delivery that could match, and what
    to do next. `filters` are the fields of the rows about the Charge and the event."""
    ended = dead_end(world, wanted)
    if ended is not None:
        return ended + _removed(world)
    # Pending deliveries bring a match only where they match not yet.
    if wanted["status"] not in (PENDING, ANY):
        outbox = world.service.outbox
        pending = await _next_pending(world, {**filters, "status": PENDING}, wanted["status"])
        if world.service.outbox is not outbox:
            return ""  # a reset: the caller says so
        if pending is not None:
            return of_delivery(world, pending, wanted["status"]) + _only_if(world, wanted, pending["url"])
    due_ms = world.clock.next_due()
    if due_ms is not None and due_ms <= world.clock.now():  # it may change all that follows: a payer pays, for example
        return f"an event is due{now_text(world)}"
    if wanted.get("chargeId") is not None:
        return await _of_resource(world, wanted) + _removed(world)
    note = await _of_any(world, wanted)
    return _of_latest(world, wanted, filters) + note + _only_if(world, wanted) + _removed(world)


def _removed(world: World) -> str:
    return world.removed.hint() if world.removed.counts()["deliveries"] else ""


async def _of_resource(world: World, wanted: Mapping[str, Any]) -> str:
    """What brings a callback of the Charge or Static Charge of the wait."""
    service, charge_id = world.service, wanted["chargeId"]
    charge = service.charges.charges.row(charge_id)
    if charge is not None:
        if unsendable := _unsendable(world, wanted, charge):
            return unsendable
        return unpaid_note(world, charge, wanted.get("event")) + _only_if(world, wanted, charge["callback_url"])
    initial = service.charges.lifecycle.table.initial
    filters = {"static_charge_id": charge_id, "status": initial}
    child = await _first_paid(world, wanted, charge_id) or await _open_charge(
        world, filters, wanted.get("event"), wanted
    )
    unsendable = "" if child is None else _unsendable(world, wanted, child)
    if child is not None and not unsendable:
        return unpaid_note(world, child, wanted.get("event")) + _only_if(world, wanted, child["callback_url"])
    static = service.static_charges.static_charges.existing(charge_id)
    if has_ended(world, static):
        return unsendable or f"the Static Charge is {static['status']} and takes no payment: create another one"
    if static["callback_url"] is None:
        return unsendable or without_url(world, charge_id)
    if unsendable := _unsendable(world, wanted, static):
        return unsendable
    change = f"raise its allowedSlots (PATCH /v0/static-charges/{charge_id})"
    if static["status"] == service.static_charges.lifecycle.table.initial:
        customer = next_customer(world, wanted.get("event"), charge_id)
        pay = _PAY_STATIC if takes_payment(world, static) else f"{change}, then {_PAY_STATIC}"
        ways = [pay, *([] if customer is None else [customer[1]])]
        count = service.charges.charges.count_with(filters)
        which = "the open payment of the Static Charge sends no callback that is waited for"
        if count != 1:
            which = f"the {count} open payments of the Static Charge send no callback that is waited for"
        start = which if count else "no payment of the Static Charge is open"
        return f"{start}: {', or '.join(ways)}{_only_if(world, wanted, static['callback_url'])}"
    return f"the Static Charge is {static['status']} and takes no payment: {change}, or create another one"


def _only_if(world: World, wanted: Mapping[str, Any], url: str | None = None) -> str:
    """What else has to be, for a callback to end in a state that is not the usual one. Of the callbacks to a `url` it
    may be known."""
    if wanted["status"] == BLOCKED and url is not None and world.transport.forbidden_note(url):
        return "; its callback ends as blocked, because its URL leads to an address that is not allowed"
    if wanted["status"] == STOPPED and _has_answered_410(world, wanted, url):
        return "; its callback ends as stopped without being sent, because its URL has answered 410"
    return "" if wanted["status"] == DELIVERED else condition_of(wanted["status"])


def _has_answered_410(world: World, wanted: Mapping[str, Any], url: str | None) -> bool:
    """Whether no more callbacks of the resource of the wait are sent to this URL."""
    about = wanted.get("chargeId")
    charge = None if about is None else world.service.charges.charges.row(about)
    endpoint = about if charge is None else charge["static_charge_id"] or about
    return (endpoint, url) in world.service.outbox.in_flight.disabled


def _unsendable(world: World, wanted: Mapping[str, Any], resource: ChargeRow | StaticChargeRow) -> str:
    """Why no callback of this resource can come to the awaited state, whatever brings one about; empty if it can."""
    url, status = resource["callback_url"], wanted["status"]
    if url is None or status == ANY:
        return ""
    about = wanted.get("chargeId")
    static_id = resource.get("static_charge_id") or resource["id"]
    name, change = f"Charge {resource['id']}", "create another one with another callbackUrl"
    static, further = world.service.static_charges.static_charges.row(static_id), ""
    if static is not None:
        further = "further " if world.service.outbox.rows.count_with({"endpoint_id": static_id}) else ""
        name = f"Static Charge {static_id}"
        if not has_ended(world, static):
            change = changed_for_further(world, static, "give its further payments another callbackUrl")
            if about != static_id:
                change = f"wait for another payment of it, and {change}"
    outbox = world.service.outbox
    if status != STOPPED and (static_id, url) in outbox.in_flight.disabled:
        event = {} if wanted.get("event") is None else {"event": wanted["event"]}
        # A wait for one payment of a Static Charge does not want the callbacks of the others.
        of = {"endpoint_id" if about == static_id else "resource_id": about or resource["id"], **event}
        replay = ", or replay those that were stopped" if outbox.rows.count_with({**of, "status": STOPPED}) else ""
        only = f"only replays of the callbacks of {name} are sent there"
        return f"{url[:200]} has answered 410, so that {only}: {change}{replay}"
    if never := never_blocked(world, url, status):
        return f"no {further}callback of {name} is blocked, because {never}: {change}"
    if status != BLOCKED and (forbidden := world.transport.forbidden_note(url)):
        return f"each {further}callback of {name} will be blocked: {forbidden}"
    return ""


def _may_match(world: World, wanted: Mapping[str, Any], charge: ChargeRow) -> bool:
    """Whether a callback of this Charge may come to the state of a wait for those of any Charge."""
    return wanted["status"] != BLOCKED or not _unsendable(world, wanted, charge)


async def _of_any(world: World, wanted: Mapping[str, Any]) -> str:
    """What brings a callback with the event of the wait, of any Charge, besides those that are pending."""
    event = wanted.get("event")
    charges, initial = world.service.charges.charges, world.service.charges.lifecycle.table.initial
    unpaid = charges.counts("status").get((initial,), 0)
    customer = next_customer(world, event)
    scheduled = await _first_payment(world, wanted), await _first_expiry(world, wanted)
    one = await _open_charge(world, {"status": initial}, event, wanted if wanted["status"] == BLOCKED else None)
    one = one if one is None or _may_match(world, wanted, one) else None
    by_itself = min((found for found in scheduled if found is not None), default=None)
    ways = [by_itself[1]] if by_itself is not None else []
    if one is not None:
        decision = decision_of(world, one)
        name, path = f"Charge {one['id']}", f"POST /sandbox/v1/charges/{one['id']}/fail"
        pay, waiting = pay_text(world, one, name), waiting_total(world, one)
        if waiting is None or waiting[0] == one["amount_msat"]:
            pay = pay_text(world, one, f"{name} or another one that has a callbackUrl")
        pay = "" if is_taken(decision) else pay
        now = ways_of(world, maker_of(one), event, pay, "", f"let the invoice of {name} fail ({path})")
        ways = [*filter(None, [now]), *ways]
    are = _pending_text(world, event)
    if ways:
        ways += [] if customer is None or (by_itself is not None and by_itself < customer) else [customer[1]]
        charges_are = "1 Charge is" if unpaid == 1 else f"{unpaid} Charges are"
        return f"{are}, and {charges_are} pending: {', or '.join(ways)}"
    start = "and no Charge is pending"
    if unpaid:
        send = "the 1 pending Charge sends" if unpaid == 1 else f"the {unpaid} pending Charges send"
        start = f"and {send} no callback{_with(event)}{' that can be blocked' if wanted['status'] == BLOCKED else ''}"
    ways = [creation_text(world, event), *([] if customer is None else [customer[1]])]
    return f"{are}, {start}: {', or '.join(ways)}"


def _with(event: str | None) -> str:
    return "" if event is None else f" with the event {event}"


def _pending_text(world: World, event: str | None) -> str:
    """How many deliveries with this event are pending, and how many with each of the others, with the oldest one."""
    rows, others = world.service.outbox.rows, list[str]()
    counts: dict[str, int] = {}
    for (status, name), count in rows.counts("status", "event").items():
        if status == PENDING:
            counts[str(name)] = counts.get(str(name), 0) + count
    number = sum(counts.values()) if event is None else counts.pop(event, 0)
    text = f"{number or 'no'} {'deliveries' if number > 1 else 'delivery'}{_with(event)}"
    text += f" {'are' if number > 1 else 'is'} pending"
    for name, count in sorted(counts.items()) if event is not None else ():
        [oldest] = rows.page_up({"status": PENDING, "event": name}, limit=1)
        one = f"delivery {oldest['id']}{_with(name)} is"
        others.append(one if count == 1 else f"{count} deliveries{_with(name)} are, the oldest {oldest['id']}")
    return f"{text} ({'; '.join(others)})" if others else text


async def _first_payment(world: World, wanted: Mapping[str, Any]) -> tuple[int, str] | None:
    """The first payment that completes a Charge which sends a callback with this event then: the instant, and what
    lets it do so."""
    found = await _first_completion(world, wanted)
    return None if found is None else (found[1].at_ms, way_of(world, found[1], f"Charge {found[0]['id']}"))


async def _first_paid(world: World, wanted: Mapping[str, Any], static_id: str) -> ChargeRow | None:
    """The open payment of a Static Charge that is completed first by what is scheduled, if one is."""
    found = await _first_completion(world, wanted, static_id)
    return None if found is None else found[0]


async def _first_completion(
    world: World, wanted: Mapping[str, Any], static_id: str | None = None
) -> tuple[ChargeRow, Decision] | None:
    """The first Charge, or payment of this Static Charge, that a payment completes which is on its way, and which sends
    a callback with the event of the wait then; with what decides it."""
    charges, slices = world.service.charges.charges, world.slices()
    event, initial, earliest = wanted.get("event"), world.service.charges.lifecycle.table.initial, dict[str, int]()
    for status in (HELD, _IN_FLIGHT):
        after = None
        while rows := world.payments.rows.page_up({"status": status}, after, _READ_AT_ONCE):
            for row in rows:
                charge = charges.first("payment_hash", row["payment_hash"])
                if charge is None or charge["status"] != initial or charge["callback_url"] is None:
                    continue
                if static_id not in (None, charge["static_charge_id"]) or not _may_match(world, wanted, charge):
                    continue
                at_ms = None if charge["id"] in earliest else earliest_ms(world, charge)
                if at_ms is not None and ways_of(world, maker_of(charge), event, "yes", "", ""):
                    earliest[charge["id"]] = at_ms
            after = rows[-1].doc_id
            if slices.is_over():
                await slices.pause()
    found: tuple[ChargeRow, Decision] | None = None
    for charge_id, at_ms in sorted(earliest.items(), key=lambda item: item[1]):
        if found is not None and found[1].at_ms <= at_ms:
            break
        charge = charges.row(charge_id)
        decision = None if charge is None or charge["status"] != initial else decision_of(world, charge)
        if charge is not None and decision is not None and (found is None or decision.at_ms < found[1].at_ms):
            found = charge, decision
        if slices.is_over():
            await slices.pause()
    return found


async def _first_expiry(world: World, wanted: Mapping[str, Any]) -> tuple[int, str] | None:
    """The first expiry of a Charge which sends a callback with this event then: the instant, and what lets it come."""
    charges, slices, event = world.service.charges.charges, world.slices(), wanted.get("event")
    initial = world.service.charges.lifecycle.table.initial
    timers = [entry for entry in world.clock.timers() if entry[3] == CHARGE_TIMER]
    heapify(timers)
    while timers:
        charge = charges.row(heappop(timers)[4])
        is_open = charge is not None and charge["status"] == initial and charge["callback_url"] is not None
        sends = charge is not None and is_open and ways_of(world, maker_of(charge), event, "", "yes", "")
        if charge is not None and sends and _may_match(world, wanted, charge):
            expire = expiry_text(world, charge, f"Charge {charge['id']}", outlook_of(world, charge))
            if expire:
                return charge["expires_at"], expire
        if slices.is_over():
            await slices.pause()
    return None


async def _open_charge(
    world: World, filters: Mapping[str, Any], event: str | None, wanted: Mapping[str, Any] | None = None
) -> ChargeRow | None:
    """The oldest of these Charges that sends callbacks with this event and whose invoice can be paid; one whose
    payment holds it, if all have one; one whose callbacks cannot come to the state that is `wanted`, if none can."""
    charges, slices, after = world.service.charges.charges, world.slices(), None
    held: ChargeRow | None = None
    unsendable: ChargeRow | None = None
    while rows := charges.page_up(filters, after, _READ_AT_ONCE):
        for row in rows:
            charge = cast(ChargeRow, row)
            sends = charge["callback_url"] is not None and ways_of(world, maker_of(charge), event, "yes", "yes", "yes")
            if sends and "closed" not in charge:
                if wanted is not None and _unsendable(world, wanted, charge):
                    unsendable = unsendable or charge
                    continue
                decision = decision_of(world, charge)
                if not is_taken(decision):
                    return charge
                held = held or charge
        after = rows[-1].doc_id
        if slices.is_over():
            await slices.pause()
    return held or unsendable


async def _next_pending(world: World, filters: Mapping[str, Any], status: str) -> DeliveryRow | None:
    """The oldest of these pending deliveries that is in flight and may come to this status; if none is, the one that is
    due next. There may be very many rows: they are read in the order of their timers, and other requests are answered
    in between."""
    outbox, slices = world.service.outbox, world.slices()

    def pending(delivery_id: str) -> DeliveryRow | None:
        row = outbox.delivery(delivery_id)
        if row is None or never_blocked(world, row["url"], status):
            return None
        return row if all(row.get(field) == value for field, value in filters.items()) else None

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
