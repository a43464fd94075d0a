"""What the schema of a saved sandbox cannot say: timers have their rows, and names are those of the spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from leyden.callbacks import faults, receivers
from leyden.lightning.payer import automatic_payments, payments
from leyden.lightning.payer.network_rows import NETWORK_TIMER
from leyden.lightning.receiver import invoices
from leyden.server.callbacks import outbox
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.deliveries import PENDING
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.charges import charges, static_charges
from leyden.server.errors import StoreError
from leyden.server.store.typed_table import TypedTable
from leyden.world import traffic
from leyden.world.world import World

# The kinds of timers, and the table that has the row of each; None: there is no such table.
_TIMER_TABLES: Mapping[str, str | None] = {
    charges.TIMER: "charges",
    static_charges.TIMER: "static_charges",
    outbox.TIMER: "deliveries",
    payments.TIMER: "payments",
    payments.PATIENCE_TIMER: "payments",
    automatic_payments.TIMER: "payer_invoices",
    invoices.MPP_TIMER: "invoices",
    receivers.TIMER: "late_answers",
    traffic.TIMER: "traffic",
    faults.TIMER: None,
    NETWORK_TIMER: None,
}
_RESOURCES = {"charges": "Charge", "static_charges": "StaticCharge"}


def check_rows(world: World, snapshot: Mapping[str, Any]) -> None:
    """Raise `StoreError` for rows that nothing can read, and for timers without their rows."""
    for kind, key in (timer[3:] for timer in snapshot["clock"]["timers"]):
        if kind not in _TIMER_TABLES:
            raise StoreError(f"there are no timers of the kind {kind[:60]!r}")
        table = _TIMER_TABLES[kind]
        if table is not None and world.store.table(table).row(key) is None:
            raise StoreError(f"the timer {kind} {key[:60]!r} has no row in the table {table}")
    operations = world.config.contract.operations.values()
    rules = {rule.name for operation in operations for rule in operation.callbacks}
    for delivery in cast(TypedTable[DeliveryRow], world.store.table("deliveries")):
        AttemptLog(delivery).attempts()
        if delivery["status"] == PENDING and delivery["rule"] not in rules:
            raise StoreError(f"the delivery {delivery['id'][:60]!r} has the unknown rule {delivery['rule'][:60]!r}")
    for name, resource in _RESOURCES.items():
        lifecycle = world.config.contract.lifecycles.get(resource)
        for row in world.store.table(name):
            if lifecycle is not None and row["status"] not in lifecycle.states:
                raise StoreError(f"the {resource} {row['id'][:60]!r} has the unknown status {row['status'][:60]!r}")
