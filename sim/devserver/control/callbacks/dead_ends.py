"""Why no more deliveries can be in the state that a wait is for: it ends at once then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leyden.devserver.control.callbacks.charge_events import events_of, maker_of, ways_of
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.deliveries import BLOCKED, DELIVERED, EXHAUSTED, PENDING, STOPPED
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.charges.rows import ChargeRow, StaticChargeRow
from leyden.server.contract.lifecycle_rows import CREATION
from leyden.world.world import World

ANY = "any"  # the state of a wait for deliveries in any state
_GIVE_URL = "give it one for its further payments"
_MEANINGS = {
    DELIVERED: "after a 2xx response",
    EXHAUSTED: "when all attempts have failed",
    BLOCKED: "when its address is not allowed or the document refuses its body",
    STOPPED: "when its URL answers 410, to it or to an earlier callback",
    PENDING: "while attempts remain",
}


def dead_end(world: World, wanted: Mapping[str, Any]) -> str | None:
    """Why no more deliveries about the Charge can be in the state waited for, or None while they can."""
    service, charge_id, status = world.service, wanted.get("chargeId"), wanted["status"]
    if charge_id is None:
        return _beyond_keep(world, wanted)
    charge = service.charges.charges.row(charge_id)
    static = service.static_charges.static_charges.row(charge_id)
    if charge is not None and charge["callback_url"] is None:
        return f"it has no callbackUrl, so no callback is sent: {_other_charge(world, charge['static_charge_id'])}"
    is_open = static is not None and not has_ended(world, static)
    if static is not None and is_open and static["callback_url"] is None and not _may_still_send(world, charge_id):
        return without_url(world, charge_id) + replay_text(world, wanted)
    event, sent = wanted.get("event"), events_of(world, maker_of(charge))
    if event is not None and event not in sent:
        about = "a Charge" if charge is not None else "a Static Charge"
        of_static = " of a Static Charge" if charge is not None and charge["static_charge_id"] is not None else ""
        return f"{about}{of_static} sends no callback with the event {event}: wait for {' or '.join(sorted(sent))}"
    if charge is None:
        return _ended_static_charge(world, wanted) or _beyond_keep(world, wanted)
    if (closed := _closed_child(world, charge)) is not None:
        return closed
    table = service.charges.lifecycle.table
    is_open = charge["status"] == table.initial
    if is_open and any("notify" in row.effects and row.source not in (CREATION, table.initial) for row in table.rows):
        return None  # a document of the user's own, in which a Charge sends several
    rows = [row for row in service.outbox.deliveries(charge_id) if event in (None, row["event"])]
    ended = [row for row in rows if status != ANY and row["status"] not in (status, PENDING)]
    if len(rows) - len(ended) + is_open >= wanted["count"]:
        return None
    of_charge = service.outbox.deliveries(charge_id)
    if is_open:  # its end sends the one callback that is left
        count = len(rows) - len(ended) + 1
        return f"a Charge sends one callback, when it ends: wait for a count of {count}"
    if ended and len(rows) >= wanted["count"]:
        return f"{of_ended(world, ended[-1])}{meaning_of(status)}"
    start = f"the Charge is {charge['status']} and sends no {_more(of_charge)}"
    if rows:
        return f"{start}: wait for a count of {len(rows)}"
    others = sorted({row["event"] for row in of_charge})
    if others:
        return f"{start}, and has none with the event {wanted['event']}: wait for {' or '.join(others)}"
    is_kept = "none is kept that it sent" if world.removed.counts()["deliveries"] else "it sent none"
    return f"{start}, and {is_kept}: wait for another Charge"


def _closed_child(world: World, charge: ChargeRow) -> str | None:
    """Why no callback of a Charge comes whose invoice takes no more payments, and where those of its Static Charge are
    awaited; None for one that may still send a callback or has sent one."""
    service, static_id = world.service, charge["static_charge_id"]
    is_open = charge["status"] == service.charges.lifecycle.table.initial
    expires = ways_of(world, maker_of(charge), None, "", "yes", "")
    if static_id is None or not is_open or "closed" not in charge or expires or service.outbox.deliveries(charge["id"]):
        return None
    static = service.static_charges.static_charges.row(static_id)
    mend = "wait for another Charge"
    if static is not None and not has_ended(world, static):
        mend = f"wait for those of its Static Charge (chargeId {static_id})"
    return f"Charge {charge['id']} can no longer be paid, so that it sends no callback: {mend}"


def _more(rows: Sequence[Mapping[str, Any]]) -> str:
    """The callbacks that no longer come. An attempt that is still due belongs to a delivery that is there."""
    is_pending = any(row["status"] == PENDING for row in rows)
    return "callback besides those that it has, retries and replays included" if is_pending else "more callbacks"


def of_ended(world: World, row: DeliveryRow) -> str:
    """How a delivery ended, and what sends it again."""
    start = f"delivery {row['id']} ended as {row['status']} and is not sent again"
    if row["status"] == BLOCKED:
        return f"{start}: {AttemptLog(row).attempts()[-1].note}"  # which says what would allow it
    if not world.service.outbox.has_rule(row):
        return f"{start}, because its callback is not in the spec: wait for another Charge"
    return f"{start}: replay it to try again"


def _latest_ended(world: World, wanted: Mapping[str, Any]) -> DeliveryRow | None:
    """The latest delivery about a Static Charge that ended in another state than the awaited one; before those that
    nothing sends again."""
    about = {"endpoint_id": wanted["chargeId"]}
    if wanted.get("event") is not None:
        about["event"] = wanted["event"]
    others = {DELIVERED, EXHAUSTED, STOPPED, BLOCKED} - {wanted["status"]} if wanted["status"] != ANY else ()
    rows = world.service.outbox.rows
    found = [row for status in sorted(others) for row in rows.page({**about, "status": status}, limit=1)]
    return max(found, key=lambda row: (world.service.outbox.has_rule(row), row.doc_id), default=None)


def replay_text(world: World, wanted: Mapping[str, Any]) -> str:
    """That a replay may bring a match of a wait about a Static Charge; empty if none can."""
    row = _latest_ended(world, wanted)
    return f"; {of_ended(world, row)}" if row is not None and world.service.outbox.has_rule(row) else ""


def meaning_of(status: str) -> str:
    """When a delivery is in this status; empty for any."""
    meaning = _MEANINGS.get(status)
    return f"; a delivery is {status} {meaning}" if meaning else ""


def _may_still_send(world: World, charge_id: str) -> bool:
    """Whether a Static Charge without a callbackUrl may have had one before: deliveries or Charges of it are left."""
    service, initial = world.service, world.service.charges.lifecycle.table.initial
    return bool(
        service.outbox.rows.count_with({"endpoint_id": charge_id, "status": PENDING})
        or service.charges.charges.count_with({"static_charge_id": charge_id, "status": initial})
    )


def _beyond_keep(world: World, wanted: Mapping[str, Any]) -> str | None:
    """Why so many deliveries that ended are never there together; None if they may be."""
    if world.retention is None or wanted["status"] in (PENDING, ANY) or wanted["count"] <= world.retention.keep:
        return None
    keep = world.retention.keep
    return f"--keep {keep} keeps no more than {keep} deliveries that ended: wait for a count of {keep}"


def _other_charge(world: World, static_id: str | None) -> str:
    """How a Charge like one without a callbackUrl gets one; it may be a payment of this Static Charge."""
    if static_id is None:
        return "create it with a callbackUrl"
    static = world.service.static_charges.static_charges.row(static_id)
    if static is None or has_ended(world, static):
        return "wait for another Charge"
    return f"wait for another payment of its Static Charge, and {changed_for_further(world, static, _GIVE_URL)}"


def has_ended(world: World, static: StaticChargeRow) -> bool:
    """Whether the Static Charge is in a state that it never leaves."""
    return static["status"] in world.service.static_charges.lifecycle.table.terminal


def takes_payment(world: World, static: StaticChargeRow) -> bool:
    """Whether an invoice of the Static Charge can be requested now."""
    lifecycle = world.service.static_charges.lifecycle
    return lifecycle.decide(static, "invoice_requested", world.clock.now()).to is not None


def changed_for_further(world: World, static: StaticChargeRow, change: str = "") -> str:
    """The request that changes what holds for the further payments of a Static Charge, which may have no slot left."""
    if not takes_payment(world, static):
        change += f"{' and ' if change else ''}raise its allowedSlots, so that it takes another one"
    return f"{change} (PATCH /v0/static-charges/{static['id']})"


def without_url(world: World, static_id: str) -> str:
    """That a Static Charge has no callbackUrl, any more or at all, and the mend."""
    rows = world.service.outbox.rows
    callback = "further callback" if rows.count_with({"endpoint_id": static_id}) else "callback"
    if rows.count_with({"endpoint_id": static_id, "status": PENDING}):
        callback = f"{_more([{'status': PENDING}])},"
    static = world.service.static_charges.static_charges.existing(static_id)
    return f"it has no callbackUrl, so no {callback} is sent: {changed_for_further(world, static, _GIVE_URL)}"


def _ended_static_charge(world: World, wanted: Mapping[str, Any]) -> str | None:
    """The reason why no further delivery about a Static Charge can reach the awaited state; None while one still
    can."""
    service, charge_id = world.service, wanted["chargeId"]
    static = service.static_charges.static_charges.existing(charge_id)
    open_charges = {"static_charge_id": charge_id, "status": service.charges.lifecycle.table.initial}
    if not has_ended(world, static) or service.charges.charges.count_with(open_charges):
        return None
    about = {"endpoint_id": charge_id, **({} if wanted.get("event") is None else {"event": wanted["event"]})}
    states: list[dict[str, Any]] = [{}]
    if wanted["status"] != ANY:
        states = [{"status": status} for status in {wanted["status"], PENDING}]
    count = sum(service.outbox.rows.count_with({**about, **state}) for state in states)
    if count >= wanted["count"]:
        return None
    ended = _latest_ended(world, wanted)
    if ended is not None:
        count = service.outbox.rows.count_with(about)
        if count >= wanted["count"]:
            return f"{of_ended(world, ended)}{meaning_of(wanted['status'])}"
    pending = service.outbox.rows.count_with({"endpoint_id": charge_id, "status": PENDING})
    start = f"the Static Charge is {static['status']} and sends no {_more([{'status': PENDING}] * bool(pending))}"
    return f"{start}: wait for a count of {count}" if count else f"{start}: wait for those of another one"
