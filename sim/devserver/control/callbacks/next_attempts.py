"""The next step of a pending delivery: its attempt in flight, the next one, or what it waits for; how to reach it."""

from __future__ import annotations

from leyden.callbacks.faults import faults
from leyden.callbacks.faults.kinds import FaultRow
from leyden.devserver.control.callbacks.charge_events import instant_text, never_comes, until_text
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.deliveries import BLOCKED, is_in_flight
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.world.attempt_notes import is_behind, place_note, shorter_timeout
from leyden.world.world import World

_DELAY = "delay"  # of the kinds of faults that hold attempts, the one that nothing releases before


def of_delivery(world: World, row: DeliveryRow, status: str) -> str:
    """The next step of a pending delivery, and how to reach it. `status` is the awaited one."""
    if is_in_flight(row):
        return _of_attempt(world, row)
    number, due_ms = AttemptLog(row).attempt_count + 1, row["due_at"] or 0
    held, what = world.faults.held(row["id"]), f"the next attempt of delivery {row['id']}"
    postponing = None if held is not None else world.faults.postponing(row, number, max(due_ms, world.clock.now()))
    latest = ""
    if held is not None:
        what = f"an attempt of delivery {row['id']}, which a fault of the kind {held['kind']} delays,"
        latest = "" if held["kind"] == _DELAY else " at the latest"
    forbidden = world.transport.forbidden_note(row["url"])
    if forbidden and status != BLOCKED:
        return f"{what} will be blocked, which ends it: {forbidden}"
    if (first := is_behind(world, row)) is not None:
        before = of_delivery(world, first, status)
        return f"delivery {row['id']} waits for the end of an older one of its Charge, delivery {first['id']}; {before}"
    if waits := place_note(world, row):
        return f"{what} {waits}: {_end_of_one(world)}"
    if postponing is not None:
        fault, due_ms = postponing
        what = f"{what}, which {_postpones(fault, row)},"
        latest = "" if fault["kind"] == _DELAY else " at the latest"
    mend = ": replay it to try again now" if never_comes(due_ms) and held is None and postponing is None else ""
    return due_text(world, f"{what} is due", due_ms, latest) + mend


def _postpones(fault: FaultRow, row: DeliveryRow) -> str:
    """What a fault that waits for an attempt does to this one, and whether another one may meet it before."""
    delays = f"fault {fault['id']} of the kind {fault['kind']} delays from {instant_text(row['due_at'] or 0)} on"
    # Only one attempt of a Charge comes next.
    is_sure = fault["count"] is None or fault["charge"] == row["resource_id"]
    return delays if is_sure else f"{delays}, unless another attempt meets it before"


def _end_of_one(world: World) -> str:
    """How one of the attempts in flight ends, so that another one can be sent."""
    in_flight = world.service.outbox.in_flight.attempts
    keys = {f"{delivery_id}#{number}": (delivery_id, number) for delivery_id, number in in_flight.items()}
    ends = {key: due_ms for due_ms, _, _, _, key in world.clock.timers() if key in keys}
    ways = []
    if ends:
        first = min(ends, key=lambda key: ends[key])
        delivery_id, number = keys[first]
        what = f"attempt {number} of delivery {delivery_id} ends"
        is_late = never_comes(ends[first])
        ways.append(
            f"{what} at {instant_text(ends[first])}" if is_late else f"{until_text(world, ends[first])}, when {what}"
        )
    if len(ends) < len(in_flight):  # the receivers of the others are on the network
        ways.append(f"let a receiver of theirs answer, and wait again{shorter_timeout(world)}")
    return ", or ".join(ways)


def _of_attempt(world: World, row: DeliveryRow) -> str:
    """How the attempt in flight ends."""
    number = AttemptLog(row).attempt_count
    what = f"attempt {number} of delivery {row['id']}"
    for due_ms, _, _, kind, key in world.clock.timers():
        if key == f"{row['id']}#{number}":
            ends = "was dropped by a fault and times out" if kind == faults.TIMER else "ends"
            return due_text(world, f"{what} {ends}", due_ms)
    return f"{what} is in flight: let the receiver at {row['url'][:200]} answer, and wait again"


def now_text(world: World) -> str:
    """That an event is due now, and what runs it."""
    # In process nothing runs what is due on a paused clock before time is moved.
    waits = world.clock.rate or (world.server is not None and world.server.runs_here())
    return f" now: advance the clock by 0s{', or wait again' if waits else ''}"


def due_text(world: World, what: str, due_ms: int, latest: str = "") -> str:
    """The event at an instant, and how to move the clock there. `latest` follows an instant that it may precede."""
    clock = world.clock
    left_ms = due_ms - clock.now()
    if left_ms <= 0:
        return f"{what}{now_text(world)}"
    if never_comes(due_ms):
        return f"{what} at {instant_text(due_ms)}"
    at = f"{what} at {instant_text(due_ms)}{latest}"
    if not clock.rate:
        return f"{at} and the clock is paused: advance the clock"
    return f"{at}, in {left_ms / 1_000 / clock.rate:.1f} s: wait again, or advance the clock"
