"""A network kept on disk: each commit writes down what it changed, so that who opens it again stands where it was left.

Rows of the table `network`, by their ids: `engine` (time, channels opened and closed), `channel-5` (what either side
has), `order-<payment>` and `shard-7` (what is under way), `due-<ms>` (what comes when), `payer-3` (what it believes).
They are part of the very commit that changed the charge. What is not there is as the map has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.shard import Shard
from leyden.lightning.network.network_snapshot import engine_row, events_row, session_row, shard_row
from leyden.lightning.payer.payment_session import PaymentSession
from leyden.lightning.routing.mission_control import MissionControl
from leyden.lightning.topology.graph import Graph
from leyden.server.errors import StoreError
from leyden.server.store.store import Store

TABLE = "network"

Row = dict[str, Any]


class Keeper:
    """Writes one network's changes into its store."""

    def __init__(self, store: Store, engine: Engine, orders: Mapping[str, PaymentSession]) -> None:
        self.rows = store.table(TABLE, key="id")
        self._engine = engine
        self._orders = orders
        # A commit that only moved money along writes nothing else, and must be kept all the same.
        engine.on_first_change = self._stir

    def _stir(self) -> None:
        self.rows.put({"id": "engine", **engine_row(self._engine)})

    def write(self, lessons: MissionControl) -> None:
        """Write down what changed since the commit began: called inside of it, at its end."""
        engine = self._engine
        if not engine.saved:
            return
        self._stir()
        balances = (engine.balance, engine.saved.get("balance"))
        channels: set[int] = set()
        orders: set[str] = set()
        shards: set[int] = set()
        for items, key in engine.changed_items():
            if any(items is column for column in balances):
                channels.add(key >> 1)
            elif items is engine.shards:
                shards.add(key)
            elif items is self._orders:
                orders.add(key)
        for thing in engine.changed_objects():
            if isinstance(thing, Shard):
                shards.add(thing.id)
            elif isinstance(thing, PaymentSession):
                orders.add(thing.id)
        for channel in sorted(channels):
            pair = engine.balance[2 * channel : 2 * channel + 2]
            self.rows.put({"id": f"channel-{channel}", "channel": channel, "balance": pair})
        live, open_orders, slots = engine.shards, self._orders, engine.queue.events_at
        dues = engine.queue.changed_times()
        self._written("order", orders, {each: session_row(open_orders[each]) for each in orders & open_orders.keys()})
        self._written("shard", shards, {each: shard_row(live[each]) for each in shards & live.keys()})
        self._written("due", dues, {due: events_row(due, slots[due]) for due in dues & slots.keys()})
        self._written("payer", lessons.changed_payers, {row[0]: row for row in lessons.dump(lessons.changed_payers)})
        lessons.changed_payers.clear()

    def _written(self, kind: str, names: Iterable[Any], present: Mapping[Any, Any]) -> None:
        for name in sorted(names):
            key = f"{kind}-{name}"
            if name in present:
                self.rows.put({"id": key, "fact": present[name]})
            else:
                self.rows.delete(key)

    def saved(self) -> Row | None:
        """Everything that was written down, as `leyden.lightning.network.network_snapshot.written` has it; None where
        nothing was.
        """
        head = self.rows.row("engine")
        if head is None:
            return None
        facts: dict[str, list[Any]] = {"order": [], "shard": [], "due": [], "payer": []}
        balance: dict[int, int] = {}
        for row in self.rows:
            kind = row["id"].partition("-")[0]
            if kind == "channel":
                balance[2 * row["channel"]], balance[2 * row["channel"] + 1] = row["balance"]
            elif kind in facts:
                facts[kind].append(row["fact"])
        return {
            **head,
            "balance": balance,
            "orders": facts["order"],
            "shards": facts["shard"],
            "agenda": sorted(facts["due"]),
            "lessons": facts["payer"],
        }


def fingerprint(graph: Graph, channels: int) -> str:
    """What tells the first `channels` of a map from those of others, 16 hex digits."""
    written = sha256(",".join(graph.names).encode())
    for column in (graph.source, graph.target, graph.local_msat, graph.base_msat, graph.ppm):
        written.update(column[: 2 * channels].tobytes())
    written.update(graph.capacity_msat[:channels].tobytes())
    return written.hexdigest()[:16]


def check_map(graph: Graph, kept: str) -> None:
    """Raises `StoreError` when this is not the map on which a directory was begun."""
    if fingerprint(graph, graph.channels) != kept:
        raise StoreError(
            "this directory was begun on another map, drawn by another version of Leyden from the same seed: open it "
            "with the version that began it, or use a new directory"
        )
