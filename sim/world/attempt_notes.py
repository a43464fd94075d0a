"""The notes of deliveries and of attempts, as the control plane and the tables show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from leyden.callbacks.receivers import is_built_in
from leyden.server.callbacks.attempts import Attempt
from leyden.server.callbacks.deliveries import PENDING, is_in_flight
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.callbacks.retry_after import NAME, retry_after_note
from leyden.server.contract.types import DeliveryRule
from leyden.world.world import World

_ON_NETWORK = "its receiver on the network has not answered yet: it is waited for in real time"
_NAMED = 3  # URLs that a note names, at most
_SHORTER_TIMEOUT = ", or use a shorter callback timeout (--callback-timeout, or callback_timeout of Sandbox)"


def attempt_note(world: World, row: DeliveryRow, number: int, attempts: Sequence[Attempt]) -> str:
    """The note of attempt `number` of a delivery, and what became of its `Retry-After`; of one in flight, what it waits
    for and until when."""
    attempt = attempts[number - 1]
    notes = [world.faults.attempt_note(row["id"], number, attempt)]
    if attempt.ended_at is None and not world.faults.hits.is_dropped(row["id"], number):
        built_in = is_built_in(row["url"])
        notes.append(world.receivers.attempt_note(row["id"], number) if built_in else _ON_NETWORK)
    rule = _rule_of(world, row) if any(name == NAME for name, _ in attempt.response_headers) else None
    if rule is not None:
        notes.append(retry_after_note(row, number, attempts, rule))
    return "; ".join(filter(None, notes))


def place_note(world: World, row: DeliveryRow) -> str:
    """Why a delivery that is due is not sent yet: as many attempts are in flight as may be at once [callback-delivery].
    Empty if it does not wait for the end of one."""
    outbox, due_ms = world.service.outbox, row["due_at"]
    taken = outbox.in_flight.attempts
    if row["status"] != PENDING or due_ms is None or due_ms > world.clock.now() or not taken:
        return ""
    rule = _rule_of(world, row)
    if rule is None or len(taken) < rule.in_flight or is_behind(world, row) is not None:
        return ""
    urls = Counter(one["url"][:200] for one in map(outbox.delivery, taken) if one is not None)
    to = [f"{url} ({count})" for url, count in urls.most_common(_NAMED)]
    to += [f"{len(urls) - _NAMED} more URLs"] if len(urls) > _NAMED else []
    return (
        f"is due and waits until one of the {len(taken)} attempts in flight ends, the most at once: to {', '.join(to)}"
    )


def shorter_timeout(world: World) -> str:
    """The end of a mend: the option that ends the attempts in flight earlier; empty if it concerns none of them,
    because all go to built-in receivers."""
    outbox = world.service.outbox
    rows = [row for row in map(outbox.delivery, outbox.in_flight.attempts) if row is not None]
    return "" if all(is_built_in(row["url"]) for row in rows) else _SHORTER_TIMEOUT


def is_behind(world: World, row: DeliveryRow) -> DeliveryRow | None:
    """The older pending delivery of the same Charge, behind which this one waits; None if there is none."""
    if is_in_flight(row):
        return None
    rows = world.service.outbox.rows.find("resource_id", row["resource_id"])
    first = next((one for one in rows if one["status"] == PENDING), row)
    return None if first["id"] == row["id"] else first


def _rule_of(world: World, row: DeliveryRow) -> DeliveryRule | None:
    """The rule of the callback, None if the spec has it no more."""
    operations = world.config.contract.operations.values()
    return next((rule.delivery for one in operations for rule in one.callbacks if rule.name == row["rule"]), None)
