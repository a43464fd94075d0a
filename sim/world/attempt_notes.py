"""The notes of attempts, as the control plane and the tables show them."""

from __future__ import annotations

from collections.abc import Sequence

from leyden.callbacks.receivers import is_built_in
from leyden.server.callbacks.attempts import Attempt
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.callbacks.retry_after import NAME, retry_after_note
from leyden.world.world import World

_ON_NETWORK = "its receiver on the network has not answered yet: it is waited for in real time"


def attempt_note(world: World, row: DeliveryRow, number: int, attempts: Sequence[Attempt]) -> str:
    """The note of attempt `number` of a delivery, and what became of its `Retry-After`; of one in flight, what it waits
    for and until when."""
    attempt = attempts[number - 1]
    notes = [world.faults.attempt_note(row["id"], number, attempt)]
    if attempt.ended_at is None and not world.faults.hits.is_dropped(row["id"], number):
        built_in = is_built_in(row["url"])
        notes.append(world.receivers.attempt_note(row["id"], number) if built_in else _ON_NETWORK)
    if any(name == NAME for name, _ in attempt.response_headers):
        contract = world.config.contract
        rules = {rule.name: rule.delivery for one in contract.operations.values() for rule in one.callbacks}
        if row["rule"] in rules:
            notes.append(retry_after_note(row, number, attempts, rules[row["rule"]]))
    return "; ".join(filter(None, notes))
