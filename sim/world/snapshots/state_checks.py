"""Checks of a saved sandbox across its rows: timers have their rows, and document ids are those of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.callbacks import faults, receivers
from leyden.lightning.payer import automatic_payments, payments
from leyden.lightning.payer.network_rows import BACKGROUND_TIMER, NETWORK_TIMER
from leyden.lightning.receiver import invoices
from leyden.server.callbacks import outbox
from leyden.server.charges import charges, static_charges
from leyden.server.errors import StoreError
from leyden.server.printable import cut
from leyden.server.store.store import Store
from leyden.world.config import WorldConfig
from leyden.world.traffic import generator as traffic
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
    invoices.HOLD_TIMER: "invoices",
    receivers.TIMER: "late_answers",
    traffic.TIMER: "traffic",
    traffic.RETURN_TIMER: "traffic_returns",
    faults.TIMER: None,
    NETWORK_TIMER: None,
    BACKGROUND_TIMER: None,
}


def check_project(config: WorldConfig, store: Store) -> None:
    """Raise `StoreError` when the API key of the configuration belongs to another project than the configured one."""
    rows = store.table_data("keys").rows.values()
    holder = next((row["project"] for row in rows if row["id"] == config.api_key), config.project)
    if holder != config.project:
        raise StoreError(
            f"config/project is {cut(config.project, 60)!r}, and the table keys has its API key for {cut(holder, 60)!r}"
        )


def check_ids(tables: Mapping[str, Any]) -> None:
    """Raise `StoreError` for document ids that a table cannot have."""
    for name, table in tables.items():
        ids = [doc_id for doc_id, _ in table["rows"]]
        if len(set(ids)) != len(ids) or min(ids, default=1) < 1:
            raise StoreError(f"the table {name}: document ids are different numbers from 1")


def check_timers(world: World, snapshot: Mapping[str, Any]) -> None:
    """Raise `StoreError` for timers without their rows."""
    keys = {name: world.store.table_data(name).keys for name in _TIMER_TABLES.values() if name is not None}
    for kind, key in (timer[3:] for timer in snapshot["clock"]["timers"]):
        if kind not in _TIMER_TABLES:
            raise StoreError(f"there are no timers of the kind {cut(kind, 60)!r}")
        name = _TIMER_TABLES[kind]
        if name is not None and key not in keys[name]:
            raise StoreError(f"the timer {kind} {cut(key, 60)!r} has no row in the table {name}")
