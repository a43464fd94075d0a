"""Why a wait for deliveries ended without the number that it was asked for, and what brings the next one."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop
from typing import Any, cast

from leyden.callbacks import faults
from leyden.devserver.control.callbacks.unpaid_charges import (
    IS_HELD,
    decision_of,
    events_of,
    maker_of,
    unpaid_note,
    until_text,
    way_of,
    ways_of,
    will_be_completed,
)
from leyden.lightning.engine.htlc import HELD
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.deliveries import BLOCKED, EXHAUSTED, PENDING, STOPPED, is_in_flight
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.callbacks.outbox import TIMER
from leyden.server.charges.charges import TIMER as CHARGE_TIMER
from leyden.server.charges.rows import ChargeRow, StaticChargeRow
from leyden.server.timestamps import to_iso
from leyden.world.world import World

_ANY = "any"
_IN_FLIGHT = "in_flight"  # of a payment
_GIVE_URL = "give it one for its further payments (PATCH /v0/static-charges/{})"
_READ_AT_ONCE = 100
_CREATION = "(creation)"  # of a lifecycle row
_CONDITIONS = {
    EXHAUSTED: "all its attempts fail",
    BLOCKED: "its URL leads to an address that is not allowed",
    STOPPED: "its URL answers 410",
}


def dead_end(world: World, wanted: Mapping[str, Any]) -> str | None:
    """Why no more deliveries about the Charge can be in the state waited for, or None while they can."""
    service, charge_id, status = world.service, wanted.get("chargeId"), wanted["status"]
    if charge_id is None:
        return None
    charge = service.charges.charges.row(charge_id)
    resource = charge or service.static_charges.static_charges.row(charge_id)
    if resource is not None and resource["callback_url"] is None and not _may_still_send(world, charge_id):
        mend = "create it with a callbackUrl" if charge is not None else _GIVE_URL.format(charge_id)
        return f"it has no callbackUrl, so no callback is sent: {mend}"
    event, sent = wanted.get("event"), events_of(world, maker_of(charge))
    if event is not None and event not in sent:
        about = "a Charge" if charge is not None else "a Static Charge"
        of_static = " of a Static Charge" if charge is not None and charge["static_charge_id"] is not None else ""
        return f"{about}{of_static} sends no callback with the event {event}: wait for {' or '.join(sorted(sent))}"
    if charge is None:
        return _ended_static_charge(world, wanted)
    table = service.charges.lifecycle.table
    is_open = charge["status"] == table.initial
    if is_open and any("notify" in row.effects and row.source not in (_CREATION, table.initial) for row in table.rows):
        return None  # a document of the user's own, in which a Charge sends several
    rows = [row for row in service.outbox.deliveries(charge_id) if event in (None, row["event"])]
    ended = [row for row in rows if status != _ANY and row["status"] not in (status, PENDING)]
    if len(rows) - len(ended) + is_open >= wanted["count"]:
        return None
    if is_open:  # its end sends the one callback that is left
        count = len(rows) - len(ended) + 1
        return f"a Charge sends one callback, when it ends: wait for a count of {count}"
    if ended:
        return _of_ended(ended[-1])
    start = f"the Charge is {charge['status']} and sends no more callbacks"
    if rows:
        return f"{start}: wait for a count of {len(rows)}"
    others = sorted({row["event"] for row in service.outbox.deliveries(charge_id)})
    if others:
        return f"{start}, and has none with the event {wanted['event']}: wait for {' or '.join(others)}"
    return f"{start}, and it sent none: wait for another Charge"


def _of_ended(row: DeliveryRow) -> str:
    """How a delivery ended, and the mend."""
    start = f"delivery {row['id']} ended as {row['status']} and is not sent again"
    if row["status"] == BLOCKED:
        return f"{start}: {AttemptLog(row).attempts()[-1].note}"  # which says what would allow it
    return f"{start}: replay it to try again"


def _of_latest(world: World, wanted: Mapping[str, Any], filters: Mapping[str, Any]) -> str:
    """How the latest delivery ended, if in another state than the awaited one; otherwise empty."""
    latest = world.service.outbox.rows.page(filters, limit=1)
    if wanted["status"] in (PENDING, _ANY) or not latest or latest[0]["status"] in (wanted["status"], PENDING):
        return ""
    return f"{_of_ended(cast(DeliveryRow, latest[0]))}; "


def _may_still_send(world: World, charge_id: str) -> bool:
    """Whether a Static Charge without a callbackUrl may have had one before: deliveries or Charges of it are left."""
    service, initial = world.service, world.service.charges.lifecycle.table.initial
    return bool(
        service.outbox.rows.count_with({"endpoint_id": charge_id, "status": PENDING})
        or service.charges.charges.count_with({"static_charge_id": charge_id, "status": initial})
    )


def _ended_static_charge(world: World, wanted: Mapping[str, Any]) -> str | None:
    """The reason why no further delivery about a Static Charge can reach the awaited state; None while one still
    can."""
    service, charge_id = world.service, wanted["chargeId"]
    static, statics = service.static_charges.static_charges.existing(charge_id), service.static_charges.lifecycle.table
    open_charges = {"static_charge_id": charge_id, "status": service.charges.lifecycle.table.initial}
    if static["status"] not in statics.terminal or service.charges.charges.count_with(open_charges):
        return None
    about = {"endpoint_id": charge_id, **({} if wanted.get("event") is None else {"event": wanted["event"]})}
    states: list[dict[str, Any]] = [{}]
    if wanted["status"] != _ANY:
        states = [{"status": status} for status in {wanted["status"], PENDING}]
    count = sum(service.outbox.rows.count_with({**about, **state}) for state in states)
    if count >= wanted["count"]:
        return None
    start = f"the Static Charge is {static['status']} and sends no more callbacks"
    return f"{start}: wait for a count of {count}" if count else f"{start}: wait for those of another one"


async def wait_note(world: World, wanted: Mapping[str, Any], filters: Mapping[str, Any]) -> str:
    """The reason why a wait ended without enough deliveries: the state of the next delivery that could match, and what
    to do next. `filters` are the fields of the rows about the Charge and the event."""
    ended = dead_end(world, wanted)
    if ended is not None:
        return ended
    # Pending deliveries bring a match only where they match not yet.
    if wanted["status"] not in (PENDING, _ANY):
        outbox = world.service.outbox
        pending = await _next_pending(world, {**filters, "status": PENDING})
        if world.service.outbox is not outbox:
            return ""  # a reset: the caller says so
        if pending is not None:
            return _of_delivery(world, pending, wanted["status"]) + _only_if(wanted)
    service, charge_id = world.service, wanted.get("chargeId")
    if charge_id is None:
        return _of_latest(world, wanted, filters) + await _of_any(world, wanted.get("event")) + _only_if(wanted)
    charge = service.charges.charges.row(charge_id)
    if charge is not None:
        unpaid = unpaid_note(world, charge, wanted.get("event"))
        return _unsendable(world, wanted, charge) or unpaid + _only_if(wanted)
    initial = service.charges.lifecycle.table.initial
    child = await _open_charge(world, {"static_charge_id": charge_id, "status": initial}, wanted.get("event"))
    if child is not None:
        unpaid = unpaid_note(world, child, wanted.get("event"))
        return _unsendable(world, wanted, child) or unpaid + _only_if(wanted)
    static = service.static_charges.static_charges.existing(charge_id)
    if static["status"] in service.static_charges.lifecycle.table.terminal:
        return f"the Static Charge is {static['status']} and takes no payment: create another one"
    if static["callback_url"] is None:
        return f"it has no callbackUrl, so no further callback is sent: {_GIVE_URL.format(charge_id)}"
    if unsendable := _unsendable(world, wanted, static):
        return unsendable
    if static["status"] == service.static_charges.lifecycle.table.initial:
        return "no payment of the Static Charge is open: pay it (POST /sandbox/v1/payments)"
    change = f"raise its allowedSlots (PATCH /v0/static-charges/{charge_id})"
    return f"the Static Charge is {static['status']} and takes no payment: {change}, or create another one"


def _only_if(wanted: Mapping[str, Any]) -> str:
    """What else has to be, for a callback to end in a state that is not the usual one."""
    condition = _CONDITIONS.get(wanted["status"])
    return f"; its callback ends as {wanted['status']} only if {condition}" if condition else ""


def _unsendable(world: World, wanted: Mapping[str, Any], resource: ChargeRow | StaticChargeRow) -> str:
    """Why no callback of this resource can come to the awaited state, whatever brings one about; empty if it can."""
    url, status = resource["callback_url"], wanted["status"]
    if url is None or status == _ANY:
        return ""
    static_id = resource.get("static_charge_id") or resource["id"]
    name, change = f"Charge {resource['id']}", "create another one with another callbackUrl"
    if world.service.static_charges.static_charges.row(static_id) is not None:
        name = f"Static Charge {static_id}"
        change = f"give its further payments another callbackUrl (PATCH /v0/static-charges/{static_id})"
    if status != STOPPED and (static_id, url) in world.service.outbox.in_flight.disabled:
        return (
            f"{url[:200]} has answered 410, so that no further callback of {name} is sent there: {change}, or replay"
            " those that were stopped"
        )
    if status != BLOCKED and (forbidden := world.transport.forbidden_note(url)):
        return f"each callback of {name} will be blocked: {forbidden}"
    return ""


async def _of_any(world: World, event: str | None) -> str:
    """What brings a callback with this event, of any Charge, where no delivery is pending."""
    charges, initial = world.service.charges.charges, world.service.charges.lifecycle.table.initial
    unpaid = charges.counts("status").get((initial,), 0)
    scheduled = await _first_payment(world, event), await _first_expiry(world, event)
    one = await _open_charge(world, {"status": initial}, event)
    by_itself = min((found for found in scheduled if found is not None), default=None)
    ways = [by_itself[1]] if by_itself is not None else []
    if one is not None:
        decision = decision_of(world, one)
        name, path = f"Charge {one['id']}", f"POST /sandbox/v1/charges/{one['id']}/fail"
        is_held = decision is not None and decision.kind == IS_HELD
        pay = "" if is_held else f"pay {name} or another one that has a callbackUrl (POST /sandbox/v1/payments)"
        now = ways_of(world, maker_of(one), event, pay, "", f"let the invoice of {name} fail ({path})")
        ways = [*filter(None, [now]), *ways]
    if ways:
        have = "1 pending Charge has" if unpaid == 1 else f"{unpaid} pending Charges have"
        return f"no delivery is pending, and {have} sent none: {', or '.join(ways)}"
    start = "and no Charge is pending"
    if unpaid:
        start = "and the 1 pending Charge sends none" if unpaid == 1 else f"and the {unpaid} pending Charges send none"
    create = ways_of(
        world,
        "createCharge",
        event,
        "pay it (POST /sandbox/v1/payments)",
        "advance the clock until it expires",
        "let its invoice fail (POST /sandbox/v1/charges/{id}/fail)",
    )
    return f"no delivery is pending, {start}: create one with a callbackUrl, then {create}"


async def _first_payment(world: World, event: str | None) -> tuple[int, str] | None:
    """The first payment that completes a Charge which sends a callback with this event then: the instant, and what
    lets it do so."""
    charges, slices, found = world.service.charges.charges, world.slices(), None
    initial, seen = world.service.charges.lifecycle.table.initial, set()
    for status in (HELD, _IN_FLIGHT):
        after = None
        while rows := world.payments.rows.page_up({"status": status}, after, _READ_AT_ONCE):
            for row in rows:
                payment_hash = row["payment_hash"]
                charge = None if payment_hash in seen else charges.first("payment_hash", payment_hash)
                seen.add(payment_hash)
                if charge is None or charge["status"] != initial or charge["callback_url"] is None:
                    continue
                decision = decision_of(world, charge)
                what = f"Charge {charge['id']}"
                if decision is not None and ways_of(world, maker_of(charge), event, "yes", "", ""):
                    one = decision.at_ms, way_of(world, decision, what)
                    found = one if found is None else min(found, one)
            after = rows[-1].doc_id
            if slices.is_over():
                await slices.pause()
    return found


async def _first_expiry(world: World, event: str | None) -> tuple[int, str] | None:
    """The first expiry of a Charge which sends a callback with this event then: the instant, and what lets it come."""
    charges, slices, initial = (
        world.service.charges.charges,
        world.slices(),
        world.service.charges.lifecycle.table.initial,
    )
    timers = [entry for entry in world.clock.timers() if entry[3] == CHARGE_TIMER]
    heapify(timers)
    while timers:
        charge = charges.row(heappop(timers)[4])
        if charge is not None and charge["status"] == initial and charge["callback_url"] is not None:
            sends = ways_of(world, maker_of(charge), event, "", "yes", "")
            if sends and not will_be_completed(decision_of(world, charge)):
                until = until_text(world, charge["expires_at"])
                return charge["expires_at"], f"{until}, when Charge {charge['id']} expires"
        if slices.is_over():
            await slices.pause()
    return None


async def _open_charge(world: World, filters: Mapping[str, Any], event: str | None) -> ChargeRow | None:
    """The oldest of these Charges that sends callbacks with this event and whose invoice can be paid; one with a held
    payment, if all have one."""
    charges, slices, after = world.service.charges.charges, world.slices(), None
    held: ChargeRow | None = None
    while rows := charges.page_up(filters, after, _READ_AT_ONCE):
        for row in rows:
            charge = cast(ChargeRow, row)
            sends = charge["callback_url"] is not None and ways_of(world, maker_of(charge), event, "yes", "yes", "yes")
            if sends and "closed" not in charge:
                decision = decision_of(world, charge)
                if decision is None or decision.kind != IS_HELD:
                    return charge
                held = held or charge
        after = rows[-1].doc_id
        if slices.is_over():
            await slices.pause()
    return held


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
    return next(iter(outbox.rows.page_up(filters, limit=1)), None)  # it waits for another one of its Charge


def _of_delivery(world: World, row: DeliveryRow, status: str) -> str:
    """The next step of a pending delivery, and how to reach it. `status` is the awaited one."""
    if not is_in_flight(row):
        held = world.faults.held(row["id"])
        what = f"the next attempt of delivery {row['id']}"
        if held is not None:
            what = f"an attempt of delivery {row['id']}, which a fault of the kind {held['kind']} delays,"
        forbidden = world.transport.forbidden_note(row["url"])
        if forbidden and status != BLOCKED:
            return f"{what} will be blocked, which ends it: {forbidden}"
        return _due(world, f"{what} is due", row["due_at"] or 0)
    number = AttemptLog(row).attempt_count
    what = f"attempt {number} of delivery {row['id']}"
    for due_ms, _, _, kind, key in world.clock.timers():
        if key == f"{row['id']}#{number}":
            return _due(
                world, f"{what} {'was dropped by a fault and times out' if kind == faults.TIMER else 'ends'}", due_ms
            )
    return f"{what} is in flight: let the receiver at {row['url'][:200]} answer, and wait again"


def _due(world: World, what: str, due_ms: int) -> str:
    """The event at an instant, and how to move the clock there."""
    clock = world.clock
    left_ms = due_ms - clock.now()
    if left_ms <= 0:
        # In process nothing runs what is due on a paused clock before time is moved.
        waits = clock.rate or (world.server is not None and world.server.runs_here())
        return f"{what} now: advance the clock by 0s{', or wait again' if waits else ''}"
    if not clock.rate:
        return f"{what} at {to_iso(due_ms)} and the clock is paused: advance the clock"
    return f"{what} at {to_iso(due_ms)}, in {left_ms / 1_000 / clock.rate:.1f} s: wait again, or advance the clock"
