"""What is scheduled for an unpaid Charge: the payments of its invoice that have not ended, and what each will do."""

from __future__ import annotations

from typing import NamedTuple, TypeGuard

from leyden.lightning.engine.htlc import HELD
from leyden.lightning.payer.payment_rows import PaymentRow
from leyden.server.charges.rows import ChargeRow
from leyden.server.timestamps import to_iso
from leyden.world.time.clock import LAST_MS
from leyden.world.world import World

# What a payment does to the Charge: it is held now, will be held, completes it, or may do so by way of the network.
IS_HELD, WILL_BE_HELD, COMPLETES, TRAVELS = "is held", "will be held", "completes", "travels"
_HOLDS, _SETTLES = "hold", ("settle", "overpay")  # scripts of payers


class Decision(NamedTuple):
    """A payment that decides about a Charge, what it does (one of the texts above), and the instant."""

    payment: PaymentRow
    kind: str
    at_ms: int


def decision_of(world: World, charge: ChargeRow) -> Decision | None:
    """The first payment that completes the Charge before it expires, or may do so; None if there is none.

    A payment that its script lets fail, and one that comes when the Charge has expired, or never, decides nothing.
    """
    rows = world.payments.rows.find("payment_hash", charge["payment_hash"])
    found = (_decision(world, charge, row) for row in rows)
    decisions = [one for one in found if one is not None and not never_comes(one.at_ms)]
    first = min(decisions, key=lambda one: one.at_ms, default=None)
    return None if will_be_completed(first) and _closes_before(world, charge, first.at_ms) else first


def _closes_before(world: World, charge: ChargeRow, at_ms: int) -> bool:
    """Whether payments of other Charges fill the slots of its Static Charge before the instant."""
    static = world.service.static_charges.static_charges.row(charge["static_charge_id"] or "")
    if static is None or static["allowed_slots"] is None:
        return False
    left = static["allowed_slots"] - static["slots"]
    for other in world.service.charges.charges.find("static_charge_id", static["id"]):
        if other["status"] != charge["status"] or other["id"] == charge["id"] or left <= 0:
            continue
        found = [
            _decision(world, other, row) for row in world.payments.rows.find("payment_hash", other["payment_hash"])
        ]
        left -= any(one is not None and one.kind == COMPLETES and one.at_ms < at_ms for one in found)
    return left <= 0


def late_payment(world: World, charge: ChargeRow) -> tuple[PaymentRow, int] | None:
    """The first payment of the Charge's invoice that arrives when it has expired, and its instant; or None."""
    rows = world.payments.rows.find("payment_hash", charge["payment_hash"])
    late = [(row, row["next_part_at"]) for row in rows if row["resolved_at"] is None]
    found = [(row, at_ms) for row, at_ms in late if at_ms is not None and at_ms >= charge["expires_at"]]
    return min(found, key=lambda one: one[1], default=None)


def way_of(world: World, decision: Decision, what: str) -> str:
    """What lets the payment complete the Charge, which the text calls `what`."""
    payment, kind, at_ms = decision
    name = f"payment {payment['id']}"
    settle = f"POST /sandbox/v1/payments/{payment['id']}/settle"
    if kind == IS_HELD:
        return f"settle the held {name} of {what} ({settle})" if what != "it" else f"settle its held payment ({settle})"
    until = until_text(world, at_ms)
    if kind == WILL_BE_HELD:
        return f"{until}, when {name} of {what} is held, then settle that ({settle})"
    if kind == COMPLETES:
        return f"{until}, when {name} completes {what}"
    if payment["next_part_at"] is not None:
        return f"{until}, when {name} of {what} starts over the network, and wait again"
    return f"{until}, the next event of the network over which {name} of {what} travels, and wait again"


def never_comes(due_ms: int) -> bool:
    """Whether an instant is after the end of the clock [clock-range]."""
    return due_ms > LAST_MS


def never_text(what: str) -> str:
    """That something never comes, because it is due after the end of the clock."""
    return f"{what} never comes, because the clock ends at {to_iso(LAST_MS)}"


def until_text(world: World, due_ms: int) -> str:
    """How the clock gets to an instant."""
    clock = world.clock
    if due_ms <= clock.now():
        return "advance the clock by 0s"
    if not clock.rate:
        return f"advance the clock to {to_iso(due_ms)}"
    left_s = (due_ms - clock.now()) / 1_000 / clock.rate
    return f"wait {left_s:.1f} s longer, or advance the clock to {to_iso(due_ms)}"


def unpaid_note(world: World, charge: ChargeRow, event: str | None) -> str:
    """What makes an unpaid Charge send a callback with this event."""
    decision = decision_of(world, charge)
    expiry = to_iso(charge["expires_at"])
    expire = f"{until_text(world, charge['expires_at'])}, when it expires"
    if will_be_completed(decision) or never_comes(charge["expires_at"]):
        expire = ""
    if expire and decision is not None and decision.kind == TRAVELS:
        expire += f" if payment {decision.payment['id']} does not complete it before"
    fail = "" if "closed" in charge else f"let its invoice fail (POST /sandbox/v1/charges/{charge['id']}/fail)"
    ways = ways_of(world, maker_of(charge), event, _payment(world, charge, decision), expire, fail)
    about = f"Charge {charge['id']} is {charge['status']} and has sent no callback"
    if ways:
        return f"{about}: {ways}"
    if decision is not None and will_be_completed(decision) and event in _expiry_events(world, charge):
        paid = (
            f"payment {decision.payment['id']} completes it at {to_iso(decision.at_ms)}, before it expires at {expiry}"
        )
        return f"{about}, and {paid}: wait for {' or '.join(sorted(events_of(world, maker_of(charge)) - {event}))}"
    if never_comes(charge["expires_at"]) and event in _expiry_events(world, charge):
        return f"{about}, and {never_text(f'its expiry, {expiry},')}: wait for another event"
    if "closed" in charge:
        return f"{about}, and can no longer be paid: pay another invoice of its Static Charge, if that takes more"
    return f"{about}, and sends none with the event {event}: wait for another event"


def _payment(world: World, charge: ChargeRow, decision: Decision | None) -> str:
    """What completes an unpaid Charge; empty if nothing does."""
    if decision is not None:
        return way_of(world, decision, "it")
    if "closed" in charge:
        return ""
    late = late_payment(world, charge)
    if late is None:
        return "pay it (POST /sandbox/v1/payments)"
    payment, at_ms = late
    return (
        f"pay it (POST /sandbox/v1/payments) before it expires at {to_iso(charge['expires_at'])}, because payment"
        f" {payment['id']} comes only at {to_iso(at_ms)}"
    )


def will_be_completed(decision: Decision | None) -> TypeGuard[Decision]:
    """Whether the payment completes the Charge before it expires, if nothing else is done."""
    return decision is not None and decision.kind == COMPLETES


def is_taken(decision: Decision | None) -> bool:
    """Whether the payment is held, or travels over the network: one that is made now fails, or arrives later."""
    if decision is None or decision.kind != TRAVELS:
        return decision is not None and decision.kind == IS_HELD
    return decision.payment["next_part_at"] is None


def _expiry_events(world: World, charge: ChargeRow) -> set[str | None]:
    """The events of the callback of a Charge's expiry."""
    return {
        event for event in events_of(world, maker_of(charge)) if ways_of(world, maker_of(charge), event, "", "yes", "")
    }


def maker_of(charge: ChargeRow | None) -> str:
    """The operation that made a Charge, or a Static Charge (None): its callbacks are those of the resource."""
    return "createCharge" if charge is not None and charge["static_charge_id"] is None else "createStaticCharge"


def events_of(world: World, operation: str) -> set[str]:
    """The events of the callbacks of what this operation makes."""
    rules = world.config.contract.operations[operation].callbacks
    return {name for rule in rules for name in rule.delivery.events.values()}


def ways_of(world: World, operation: str, event: str | None, pay: str, expire: str, fail: str) -> str:
    """Those of three texts that say how an unpaid Charge comes to a callback with this event. An invoice is let fail
    only for the event that asks for it."""
    table = world.service.charges.lifecycle.table
    texts = {"payment_settled": pay, "expiry_reached": expire, "invoice_failed": event and fail}
    [rule] = world.config.contract.operations[operation].callbacks
    events = {state for state, name in rule.delivery.events.items() if event in (None, name)}
    ways = [texts.get(row.trigger) for row in table.rows if row.source == table.initial and row.to in events]
    return ", or ".join(filter(None, ways))


def _decision(world: World, charge: ChargeRow, row: PaymentRow) -> Decision | None:
    now = world.clock.now()
    if row["resolved_at"] is not None:
        return None
    if row["status"] == HELD:
        invoice = world.node.invoices.row(charge["payment_hash"])
        is_held = invoice is not None and invoice["state"] == "ACCEPTED"  # else its end travels back to the payer
        return Decision(row, IS_HELD, now) if is_held else None
    if "closed" in charge:
        return None
    script, at_ms, gives_up_ms = row["script"], row["next_part_at"], row["gives_up_at"]
    if script is None or script["outcome"] not in (_HOLDS, *_SETTLES) or not _suffices(charge, row):
        return None
    if world.engine is not None:
        if at_ms is None:
            due_ms = world.engine.next_event_ms()
            return None if due_ms is None else Decision(row, TRAVELS, due_ms)
        return Decision(row, TRAVELS, at_ms) if at_ms < charge["expires_at"] else None
    if at_ms is None:
        return None  # its parts wait for one that does not come
    at_ms += script["gap_ms"] * max(0, script["sent_parts"] - len(row["attempts"]) - 1)
    if at_ms >= charge["expires_at"] or (gives_up_ms is not None and at_ms > gives_up_ms):
        return None
    return Decision(row, WILL_BE_HELD if script["outcome"] == _HOLDS else COMPLETES, at_ms)


def _suffices(charge: ChargeRow, row: PaymentRow) -> bool:
    """Whether the receiver takes the amount: from that of the invoice to twice as much (BOLT 4)."""
    paid_msat = row["amount_msat"] or 0
    return charge["amount_msat"] <= paid_msat <= 2 * charge["amount_msat"]
