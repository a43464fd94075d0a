"""What is scheduled for an unpaid Charge: the payments of its invoice that have not ended, and what each will do."""

from __future__ import annotations

from leyden.devserver.control.callbacks.scheduled_payments import (
    COMPLETES,
    IS_HELD,
    TRAVELS,
    WILL_BE_HELD,
    Decision,
    Outlook,
    outlook_of,
    waiting_total,
)
from leyden.lightning.payer.payment_rows import PaymentRow
from leyden.server.charges.rows import ChargeRow
from leyden.server.timestamps import to_iso
from leyden.world.time.clock import LAST_MS
from leyden.world.world import World


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
    outlook = outlook_of(world, charge)
    completion, expiry = outlook.completion, to_iso(charge["expires_at"])
    expire = expiry_text(world, charge, "it", outlook)
    fail = "" if "closed" in charge else f"let its invoice fail (POST /sandbox/v1/charges/{charge['id']}/fail)"
    ways = ways_of(world, maker_of(charge), event, _payment(world, charge, outlook.decision), expire, fail)
    sent = len(world.service.outbox.deliveries(charge["id"]))  # a document of the user's own may let it send several
    has_sent = "no callback" if not sent else "1 callback" if sent == 1 else f"{sent} callbacks"
    about = f"Charge {charge['id']} is {charge['status']} and has sent {has_sent}"
    if ways:
        return f"{about}: {ways}"
    if completion is not None and event in _expiry_events(world, charge):
        name, at = f"payment {completion.payment['id']}", to_iso(completion.at_ms)
        paid = f"{name} completes it at {at}, before it expires at {expiry}"
        return f"{about}, and {paid}: wait for {' or '.join(sorted(events_of(world, maker_of(charge)) - {event}))}"
    if never_comes(charge["expires_at"]) and event in _expiry_events(world, charge):
        return f"{about}, and {never_text(f'its expiry, {expiry},')}: wait for another event"
    if "closed" in charge:
        return f"{about}, and can no longer be paid: wait for another event"
    return f"{about}, and sends none with the event {event}: wait for another event"


def _payment(world: World, charge: ChargeRow, decision: Decision | None) -> str:
    """What completes an unpaid Charge; empty if nothing does."""
    if decision is not None:
        return way_of(world, decision, "it")
    if "closed" in charge:
        return ""
    pay, late = pay_text(world, charge, "it"), late_payment(world, charge)
    if late is None:
        return pay
    payment, at_ms = late
    before = f"before it expires at {to_iso(charge['expires_at'])}"
    return f"{pay} {before}, because payment {payment['id']} comes only at {to_iso(at_ms)}"


def pay_text(world: World, charge: ChargeRow, what: str) -> str:
    """The request that pays a Charge, which the text calls `what`: parts that wait accept only their own total."""
    pay, waiting = f"pay {what} (POST /sandbox/v1/payments)", waiting_total(world, charge)
    if waiting is None or waiting[0] == charge["amount_msat"]:
        return pay
    return f"{pay} with the amount {waiting[0]} (a part of payment {waiting[1]} waits for that total)"


def expiry_text(world: World, charge: ChargeRow, what: str, outlook: Outlook) -> str:
    """What lets the Charge, which the text calls `what`, expire; empty if a payment completes it before, or the clock
    ends."""
    if outlook.completion is not None or never_comes(charge["expires_at"]):
        return ""
    expire = f"{until_text(world, charge['expires_at'])}, when {what} expires"
    if len(outlook.travelling) == 1:
        return f"{expire} if payment {outlook.travelling[0]['id']} does not complete it before"
    return f"{expire} if no payment completes it before" if outlook.travelling else expire


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
