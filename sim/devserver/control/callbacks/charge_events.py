"""The events of the callbacks that a Charge sends, what brings each, and how the clock gets to an instant."""

from __future__ import annotations

from leyden.server.charges.rows import ChargeRow
from leyden.server.timestamps import to_iso
from leyden.world.time.clock import LAST_MS
from leyden.world.world import World


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
