"""The meaning of a Charge's states, read from the lifecycle tables of the contract."""

from __future__ import annotations

from leyden.server.contract.types import LifecycleTable

# Triggers of the tables that figures and drawings know by name.
PAYMENT_SETTLED, EXPIRY_REACHED, INVOICE_FAILED = "payment_settled", "expiry_reached", "invoice_failed"


def states_entered(table: LifecycleTable, trigger: str) -> frozenset[str]:
    """The states that a resource enters from another state by this trigger."""
    return frozenset(
        row.to for row in table.rows if row.trigger == trigger and row.to is not None and row.to != row.source
    )
