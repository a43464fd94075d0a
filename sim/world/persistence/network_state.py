"""A network's rows in its store: each commit writes what it changed, so that an opened directory continues from there.

Rows of the table `network`, by id: `engine` (time, channels opened and closed), `channel-5` (the balances of both
sides), `session-<payment>` and `shard-7` (payments and shards in flight), `events-<ms>` (what is due at that instant),
`payer-3` (what mission control knows for the payer at that node). Everything without a row is as in the graph. The rows
belong to the commit that changed the Charge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any

from jsonschema_rs import Draft4Validator

from leyden.files.json_files import DocumentKind
from leyden.lightning.engine.shard import Shard
from leyden.lightning.payer.network_rows import NetworkRow
from leyden.lightning.payer.network_snapshot import engine_row, events_row, session_row, shard_row
from leyden.lightning.payer.payment_session import PaymentSession
from leyden.lightning.payer.routed_payments import RoutedPayments
from leyden.lightning.topology.graph import Graph
from leyden.server.contract.schema_errors import with_short_alternatives
from leyden.server.errors import StoreError
from leyden.server.store.store import Store
from leyden.world.persistence.directory_checks import MEND, is_trusted
from leyden.world.persistence.row_schemas import schema_of

TABLE = "network"

Row = dict[str, Any]


class NetworkState:
    """Reads and writes the rows of one network."""

    def __init__(self, store: Store, payments: RoutedPayments) -> None:
        self._store = store
        self.rows = store.table(TABLE, key="id")
        self._payments = payments
        self._engine = payments.engine
        # A commit that only moves money inside the network changes no other row, and must be written all the same.
        self._engine.on_first_change = self._write_engine

    def write(self) -> None:
        """Write what changed since the commit started; called at its end, inside of it."""
        engine, mission_control = self._engine, self._payments.mission_control
        if not engine.saved:
            return
        self._write_engine()
        balances = (engine.balance, engine.saved.get("balance"))
        open_sessions, open_shards, events_at = self._payments.open_sessions, engine.shards, engine.queue.events_at
        channels: set[int] = set()
        sessions: set[str] = set()
        shards: set[int] = set()
        for items, key in engine.changed_items():
            if any(items is column for column in balances):
                channels.add(key >> 1)
            elif items is open_shards:
                shards.add(key)
            elif items is open_sessions:
                sessions.add(key)
        for thing in engine.changed_objects():
            if isinstance(thing, Shard):
                shards.add(thing.id)
            elif isinstance(thing, PaymentSession):
                sessions.add(thing.id)
        for channel in sorted(channels):
            pair = engine.balance[2 * channel : 2 * channel + 2].tolist()
            self.rows.put({"id": f"channel-{channel}", "channel": channel, "balance": pair})
        times, payers = engine.queue.changed_times(), mission_control.changed_payers
        self._write(
            "session", sessions, {each: session_row(open_sessions[each]) for each in sessions & open_sessions.keys()}
        )
        self._write("shard", shards, {each: shard_row(open_shards[each]) for each in shards & open_shards.keys()})
        self._write("events", times, {each: events_row(each, events_at[each]) for each in times & events_at.keys()})
        self._write("payer", payers, {row[0]: row for row in mission_control.dump(payers)})
        payers.clear()

    def write_restored(self) -> None:
        """Write all rows, after the network was returned to a snapshot."""
        engine, mission_control = self._engine, self._payments.mission_control
        self._write_engine()
        for channel in range(engine.graph.channels):
            pair = engine.balance[2 * channel : 2 * channel + 2].tolist()
            self.rows.put({"id": f"channel-{channel}", "channel": channel, "balance": pair})
        sessions, events_at = self._payments.open_sessions, engine.queue.events_at
        self._write("session", sessions, {each: session_row(sessions[each]) for each in sessions})
        self._write("shard", engine.shards, {each: shard_row(shard) for each, shard in engine.shards.items()})
        self._write("events", events_at, {each: events_row(each, items) for each, items in events_at.items()})
        self._write("payer", payers := {row[0]: row for row in mission_control.dump()}, payers)
        mission_control.changed_payers.clear()

    def restore(self, secret: Callable[[str], bytes]) -> None:
        """Bring the network to the state that the rows describe; a fresh network stays as it is.

        Raises `StoreError` for rows that no network writes.
        """
        saved = self.saved()
        if saved is not None:
            self._payments.restore(saved, secret)
            if not is_trusted(self._store):
                self._payments.check()

    def saved(self) -> Row | None:
        """All rows in the form of `leyden.lightning.payer.network_snapshot.dump_network`; None when there are
        none.
        """
        engine = self.rows.row("engine")
        if engine is None:
            if len(self.rows):
                raise StoreError(f"the table {TABLE} has rows, and none with the id 'engine'; {MEND}")
            return None
        kinds: dict[str, list[Any]] = {"session": [], "shard": [], "events": [], "payer": []}
        balance: dict[int, int] = {}
        for row in self.rows:
            row_id = row.get("id")
            kind = row_id.partition("-")[0] if isinstance(row_id, str) else "channel"
            if not (_is_channel(row) if kind == "channel" else kind not in kinds or "data" in row):
                raise StoreError(f"the table {TABLE}, row {row_id!r:.60}: no network writes it; {MEND}")
            if kind == "channel":
                balance[2 * row["channel"]], balance[2 * row["channel"] + 1] = row["balance"]
            elif kind in kinds:
                kinds[kind].append(row["data"])
        saved = {
            **engine,
            "balance": [],
            "sessions": kinds["session"],
            "shards": kinds["shard"],
            "events": kinds["events"],
            "mission_control": kinds["payer"],
        }
        _kind().check(saved, f"the table {TABLE}")
        return {**saved, "balance": balance, "events": sorted(kinds["events"])}

    def map_fingerprint(self) -> str:
        """The fingerprint of the map with which the network started, without channels that were opened later."""
        return fingerprint(self._engine.graph, self._engine.initial_channels)

    def _write_engine(self) -> None:
        self.rows.put({"id": "engine", **engine_row(self._engine)})

    def _write(self, kind: str, names: Iterable[Any], present: Mapping[Any, Any]) -> None:
        for name in sorted(names):
            key = f"{kind}-{name}"
            if name in present:
                self.rows.put({"id": key, "data": present[name]})
            else:
                self.rows.delete(key)


@cache
def _kind() -> DocumentKind:
    schema = with_short_alternatives(schema_of(NetworkRow))
    return DocumentKind("state of a network", StoreError, MEND, Draft4Validator(schema), 0)


def _is_channel(row: Mapping[str, Any]) -> bool:
    pair = row.get("balance")
    numbers = [row.get("channel"), *(pair if isinstance(pair, list) else ())]
    return (
        len(numbers) == 3
        and all(type(number) is int for number in numbers)
        and row.get("id") == f"channel-{numbers[0]}"
    )


def fingerprint(graph: Graph, channels: int) -> str:
    """16 hex digits that depend on the first `channels` channels of a map."""
    digest = sha256(",".join(graph.names).encode())
    for column in (graph.source, graph.target, graph.local_msat, graph.base_msat, graph.ppm):
        digest.update(column[: 2 * channels].tobytes())
    digest.update(graph.capacity_msat[:channels].tobytes())
    return digest.hexdigest()[:16]


def check_map(graph: Graph, expected_fingerprint: str) -> None:
    """Raises `StoreError` when this is not the map with which a directory was created."""
    if fingerprint(graph, graph.channels) != expected_fingerprint:
        raise StoreError(
            "this directory was created with another map, drawn by another version of Leyden from the same seed: open "
            "it with the version that created it, or use a new directory"
        )
