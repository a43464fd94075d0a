"""Why a wait for deliveries ended without the number that it was asked for, and what brings the next one."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop
from typing import Any, cast

from leyden.callbacks import faults
from leyden.lightning.engine.htlc import HELD
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.deliveries import BLOCKED, PENDING, is_in_flight
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.callbacks.outbox import TIMER
from leyden.server.charges.rows import ChargeRow
from leyden.server.timestamps import to_iso
from leyden.world.world import World

_ANY = "any"
_READ_AT_ONCE = 100


def dead_end(world: World, wanted: Mapping[str, Any]) -> str | None:
    """Why no more deliveries about the Charge can be in the state waited for, or None while they can."""
    service, charge_id, status = world.service, wanted.get("chargeId"), wanted["status"]
    if charge_id is None:
        return None
    charge = service.charges.charges.row(charge_id)
    resource = charge or service.static_charges.static_charges.row(charge_id)
    if resource is not None and resource["callback_url"] is None:
        return "it has no callbackUrl, so no callback is sent: create it with a callbackUrl"
    event, sent = wanted.get("event"), _events(world, _maker(charge))
    if event is not None and event not in sent:
        about = "a Charge" if charge is not None else "a Static Charge"
        of_static = " of a Static Charge" if charge is not None and charge["static_charge_id"] is not None else ""
        return f"{about}{of_static} sends no callback with the event {event}: wait for {' or '.join(sorted(sent))}"
    if charge is None:
        return _ended_static_charge(world, wanted)
    if charge["status"] == service.charges.lifecycle.table.initial:
        return None
    rows = [row for row in service.outbox.deliveries(charge_id) if event in (None, row["event"])]
    ended = [row for row in rows if status != _ANY and row["status"] not in (status, PENDING)]
    if len(rows) - len(ended) >= wanted["count"]:
        return None
    if ended:
        last = ended[-1]
        start = f"delivery {last['id']} ended as {last['status']} and is not sent again"
        if last["status"] == BLOCKED:
            return f"{start}: {AttemptLog(last).attempts()[-1].note}"  # which says what would allow it
        return f"{start}: replay it to try again"
    start = f"the Charge is {charge['status']} and sends no more callbacks"
    if rows:
        return f"{start}: wait for a count of {len(rows)}"
    others = sorted({row["event"] for row in service.outbox.deliveries(charge_id)})
    if others:
        return f"{start}, and has none with the event {wanted['event']}: wait for {' or '.join(others)}"
    return f"{start}, and it sent none: wait for another Charge"


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
            return _of_delivery(world, pending)
    service, charge_id = world.service, wanted.get("chargeId")
    initial, charges = service.charges.lifecycle.table.initial, service.charges.charges
    if charge_id is None:
        unpaid = charges.counts("status").get((initial,), 0)
        start = (
            f"and {unpaid} unpaid Charges have sent none:" if unpaid else "and no Charge is unpaid: create one, then"
        )
        pay = "pay one that has a callbackUrl (POST /sandbox/v1/payments)"
        fail = "let the invoice of one fail (POST /sandbox/v1/charges/{id}/fail)"
        ways = _ways(world, "createCharge", wanted.get("event"), pay, "advance the clock until one expires", fail)
        return f"no delivery is pending, {start} {ways}"
    charge = charges.row(charge_id)
    if charge is not None:
        return _of_unpaid(world, charge, wanted.get("event"))
    child = await _open_charge(world, {"static_charge_id": charge_id, "status": initial})
    if child is not None:
        return _of_unpaid(world, child, wanted.get("event"))
    static = service.static_charges.static_charges.existing(charge_id)
    if static["status"] == service.static_charges.lifecycle.table.initial:
        return "no payment of the Static Charge is open: pay it (POST /sandbox/v1/payments)"
    if static["status"] in service.static_charges.lifecycle.table.terminal:
        return f"the Static Charge is {static['status']} and takes no payment: create another one"
    change = f"raise its allowedSlots (PATCH /v0/static-charges/{charge_id})"
    return f"the Static Charge is {static['status']} and takes no payment: {change}, or create another one"


async def _open_charge(world: World, filters: Mapping[str, Any]) -> ChargeRow | None:
    """The oldest of these Charges whose invoice can be paid."""
    charges, slices, after = world.service.charges.charges, world.slices(), None
    while rows := charges.page_up(filters, after, _READ_AT_ONCE):
        for row in rows:
            if "closed" not in row:
                return cast(ChargeRow, row)
        after = rows[-1].doc_id
        if slices.is_over():
            await slices.pause()
    return None


async def _next_pending(world: World, filters: Mapping[str, Any]) -> DeliveryRow | None:
    """The oldest of these pending deliveries that is in flight; if none is, the one that is due next. There may be very
    many rows: they are read in the order of their timers, and other requests are answered in between."""
    outbox, slices = world.service.outbox, world.slices()

    def pending(delivery_id: str) -> DeliveryRow | None:
        row = outbox.delivery(delivery_id)
        return row if row is not None and all(row.get(field) == value for field, value in filters.items()) else None

    in_flight = [row for row in map(pending, outbox.in_flight) if row is not None]
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


def _of_delivery(world: World, row: DeliveryRow) -> str:
    """The next step of a pending delivery, and how to reach it."""
    if not is_in_flight(row):
        held = world.faults.held(row["id"])
        what = "the next attempt" if held is None else f"an attempt that a fault of the kind {held['kind']} delays,"
        return _due(world, f"{what} of delivery {row['id']} is due", row["due_at"] or 0)
    number = AttemptLog(row).attempt_count
    what = f"attempt {number} of delivery {row['id']}"
    for due_ms, _, _, kind, key in world.clock.timers():
        if key == f"{row['id']}#{number}":
            return _due(
                world, f"{what} {'was dropped by a fault and times out' if kind == faults.TIMER else 'ends'}", due_ms
            )
    return f"{what} is in flight: let the receiver at {row['url'][:200]} answer, and wait again"


def _of_unpaid(world: World, charge: ChargeRow, event: str | None) -> str:
    """The action after which an unpaid Charge sends a callback with this event."""
    ways = _ways(
        world,
        _maker(charge),
        event,
        _payment(world, charge),
        f"advance the clock to {to_iso(charge['expires_at'])}, when it expires",
        f"let its invoice fail (POST /sandbox/v1/charges/{charge['id']}/fail)",
    )
    about = f"Charge {charge['id']} is {charge['status']} and has sent no callback"
    if ways:
        return f"{about}: {ways}"
    if "closed" in charge:
        return f"{about}, and can no longer be paid: pay another invoice of its Static Charge, if that takes more"
    return f"{about}, and sends none with the event {event}: wait for another event"


def _payment(world: World, charge: ChargeRow) -> str:
    """The action that completes an unpaid Charge; empty if there is none."""
    for payment in world.payments.rows.find("payment_hash", charge["payment_hash"]):
        if payment["status"] == HELD:
            return f"settle its held payment (POST /sandbox/v1/payments/{payment['id']}/settle)"
        due_ms = world.clock.next_due()
        if payment["resolved_at"] is None and due_ms is not None:
            return f"advance the clock until payment {payment['id']} ends, with the next event at {to_iso(due_ms)}"
    return "" if "closed" in charge else "pay it (POST /sandbox/v1/payments)"


def _maker(charge: ChargeRow | None) -> str:
    """The operation that created a Charge, or a Static Charge (None). The callbacks of the resource are declared
    there."""
    return "createCharge" if charge is not None and charge["static_charge_id"] is None else "createStaticCharge"


def _events(world: World, operation: str) -> set[str]:
    """The events of the callbacks about resources that this operation creates."""
    rules = world.config.contract.operations[operation].callbacks
    return {name for rule in rules for name in rule.delivery.events.values()}


def _ways(world: World, operation: str, event: str | None, pay: str, expire: str, fail: str) -> str:
    """Those of three texts that say how an unpaid Charge comes to a callback with this event. An invoice is let fail
    only for the event that asks for it."""
    table = world.service.charges.lifecycle.table
    texts = {"payment_settled": pay, "expiry_reached": expire, "invoice_failed": event and fail}
    [rule] = world.config.contract.operations[operation].callbacks
    events = {state for state, name in rule.delivery.events.items() if event in (None, name)}
    ways = [texts.get(row.trigger) for row in table.rows if row.source == table.initial and row.to in events]
    return ", or ".join(filter(None, ways))


def _due(world: World, what: str, due_ms: int) -> str:
    """The event at an instant, and how to move the clock there."""
    clock = world.clock
    left_ms = due_ms - clock.now()
    if left_ms <= 0:
        return f"{what} now: advance the clock by 0s, or wait again"
    if not clock.rate:
        return f"{what} at {to_iso(due_ms)} and the clock is paused: advance the clock"
    return f"{what} at {to_iso(due_ms)}, in {left_ms / 1_000 / clock.rate:.1f} s: wait again, or advance the clock"
