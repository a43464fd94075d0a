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


def instant_text(due_ms: int) -> str:
    """An instant as each note names it; of one after the end of the clock, that it never comes."""
    at = to_iso(due_ms)
    return f"{at}, which never comes, because the clock ends at {to_iso(LAST_MS)}" if never_comes(due_ms) else at


def first_expiry(world: World) -> int:
    """The earliest expiry that a Charge created now can have: its life is counted from a whole second."""
    return (world.clock.now() // 1_000 + 1) * 1_000


def new_expiry_text(world: World) -> str:
    """How a Charge that is created now gets to its expiry; empty if each would be after the end of the clock."""
    if never_comes(first_expiry(world)):
        return ""
    body = world.config.contract.operations["createCharge"].body
    default_s, most_s = body.defaults.get("expiresIn") if body else None, (LAST_MS - first_expiry(world)) // 1_000 + 1
    life = "" if default_s is not None and default_s <= most_s else f", with an expiresIn of at most {most_s}"
    return f"advance the clock until it expires{life}"


def until_text(world: World, due_ms: int) -> str:
    """How the clock gets to an instant, which must not be after its end."""
    clock = world.clock
    if due_ms <= clock.now():
        return "advance the clock by 0s"
    if not clock.rate:
        return f"advance the clock to {instant_text(due_ms)}"
    left_s = (due_ms - clock.now()) / 1_000 / clock.rate
    return f"wait {left_s:.1f} s longer, or advance the clock to {instant_text(due_ms)}"
