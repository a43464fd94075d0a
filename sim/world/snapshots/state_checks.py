"""Checks of a saved sandbox across its rows: timers have their rows, rows their timers, and document ids are those of a
table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from leyden.callbacks import receivers
from leyden.callbacks.faults import faults
from leyden.lightning.payer import automatic_payments, payments
from leyden.lightning.payer.network_rows import BACKGROUND_TIMER, NETWORK_TIMER
from leyden.lightning.receiver import invoices
from leyden.server.callbacks import outbox
from leyden.server.charges import charges, static_charges
from leyden.server.charges.lifecycle import states_after_expiry
from leyden.server.contract.types import Contract
from leyden.server.errors import StoreError
from leyden.server.printable import cut
from leyden.server.store.store import Store
from leyden.world.config import SameContract, WorldConfig
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

# The timers that a row always has while it has a value here, which is their instant. A row may have kept one longer.
_DUE: Mapping[str, Callable[[Any, Contract], int | None]] = {
    charges.TIMER: lambda row, contract: _end_of(row, contract, "Charge"),
    static_charges.TIMER: lambda row, contract: _end_of(row, contract, "StaticCharge"),
    payments.TIMER: lambda row, contract: row["next_part_at"],
    payments.PATIENCE_TIMER: lambda row, contract: (
        row["gives_up_at"] if row["resolved_at"] is None and row["gave_up_at"] is None else None
    ),
    invoices.MPP_TIMER: lambda row, contract: row["mpp_due_at"],
}


def _end_of(row: Any, contract: Contract, resource: str) -> int | None:
    """The expiry of a Charge or Static Charge, if it was not reached in any way to the state; None without one."""
    return row["expires_at"] if row["status"] in _awaiting(SameContract(contract), resource) else None


@lru_cache(maxsize=8)
def _awaiting(given: SameContract, resource: str) -> frozenset[str]:
    """The states in which a Charge or Static Charge has a timer of its expiry."""
    table = given.contract.lifecycles.get(resource)
    return frozenset() if table is None else frozenset(table.states) - {*table.terminal, *states_after_expiry(table)}


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
    check_due(world.store, world.config.contract, snapshot["clock"]["timers"], snapshot["clock"]["now"])


def check_due(store: Store, contract: Contract, timers: Iterable[Any], now_ms: int) -> None:
    """Raise `StoreError` for a row of which something is due, and which has no timer at that instant. What was overdue
    when its directory was opened has one at that later instant, which is not after `now_ms`."""
    instants = {(kind, key): due_ms for due_ms, _, _, kind, key in timers}
    for kind, due_of in _DUE.items():
        table = _TIMER_TABLES[kind]
        assert table is not None
        for row in store.tables[table].rows.values() if table in store.tables else ():
            due_ms = due_of(row, contract)
            key = row["payment_hash"] if table == "invoices" else row["id"]
            at_ms = instants.get((kind, key))
            if due_ms is not None and at_ms != due_ms and (at_ms is None or not due_ms < at_ms <= now_ms):
                found = "none" if at_ms is None else f"{at_ms}"
                raise StoreError(
                    f"the table {table}, {key!r}: its timer {kind} is due at {due_ms}, and there is {found}"
                )
