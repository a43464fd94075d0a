"""The notes of attempts, as the control plane and the tables show them."""

from __future__ import annotations

from collections.abc import Sequence

from leyden.callbacks.faults import Faults
from leyden.server.callbacks.attempts import Attempt
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.callbacks.retry_after import NAME, retry_after_note
from leyden.server.contract.types import Contract


def attempt_note(faults: Faults, contract: Contract, row: DeliveryRow, number: int, attempts: Sequence[Attempt]) -> str:
    """The note of attempt `number` of a delivery, and what became of its `Retry-After`."""
    attempt = attempts[number - 1]
    notes = [faults.attempt_note(row["id"], number, attempt)]
    if any(name == NAME for name, _ in attempt.response_headers):
        rules = {rule.name: rule.delivery for one in contract.operations.values() for rule in one.callbacks}
        if row["rule"] in rules:
            notes.append(retry_after_note(row, number, attempts, rules[row["rule"]]))
    return "; ".join(filter(None, notes))
