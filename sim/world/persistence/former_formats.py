"""Reads format 1: the rows of a directory and saved sandboxes are rewritten as format 2 has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leyden.server.errors import StoreError
from leyden.server.store.store import Store
from leyden.server.store.table import RowTable

Row = dict[str, Any]

# Fields: their names in format 1, and in format 2. Fields that are not listed keep their names.
_ENGINE = {"events": "event_count", "made": "shard_count", "reseeded": "reseeds"}
_SESSION = {
    "luck": "latency_seed", "final_blocks": "final_cltv_blocks", "most_parts": "max_parts",
    "most_tries": "max_attempts", "smallest_msat": "min_shard_msat", "parts": "parts_in_flight",
    "sent": "attempt_count", "halted": "pending_outcome", "chances": "policy_retries",
}  # fmt: skip
_SHARD = {
    "luck": "latency_seed", "blocks": "cltv_offsets", "final": "final_expiry", "place": "hop", "answer": "settled",
    "fate": "status", "reporter": "reporter_hop", "why": "reason",
}  # fmt: skip
_TRAFFIC = {"laws": "settings", "begun_at": "started_at", "most": "limit"}
_TRAFFIC_SETTINGS = {"habit": "behaviour", "hesitation": "think_time", "said": "arguments"}
_SNAPSHOT = {"plan": "config", "luck": "reseeds", "callbacks": "outbox"}
_NETWORK_KINDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "order": ("session", _SESSION), "shard": ("shard", _SHARD), "due": ("events", {}), "payer": ("payer", {}),
}  # fmt: skip


def saved_by_format_1(table: RowTable) -> Mapping[str, Any] | None:
    """The two rows of format 1 about a world, from the table `world`, as format 2 has them; None without such rows."""
    plan, present = table.row("plan"), table.row("present")
    return None if plan is None or present is None else {**_config(plan), **_state(present)}


def upgrade(store: Store) -> None:
    """Rewrite the rows of a directory of format 1, in one commit. Does nothing to any other store."""
    world = store.table("world", key="id")
    plan, present = world.row("plan"), world.row("present")
    if plan is None or present is None:
        return
    network = store.table("network", key="id")
    if any(not isinstance(row.get("id"), str) for row in [*world, *network]):
        raise StoreError("a row of the table world or network has no id: restore the directory from a copy")
    with store.commit():
        for row in list(world):
            if " " in row["id"]:
                world.put(_renamed(row, {"number": "sequence"}))
        for former in (plan, present):
            world.delete(former["id"])
        world.put(_config(plan))
        world.put(_state(present))
        for row in list(network):
            network.delete(row["id"])
            network.put(_network_row(dict(row)))
        for name, upgraded in _TABLES.items():
            table = store.table(name, key="id")
            for row in list(table):
                table.put(upgraded(dict(row)))


def upgraded_snapshot(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """A saved sandbox of format 1 as format 2 has it. Raises `StoreError` for one with members of format 2."""
    present = next((name for name in _SNAPSHOT.values() if name in snapshot), None)
    if present is not None:
        raise StoreError(f"its format is 1, and {present} is a member of format 2: take a copy that nobody changed")
    network = snapshot["network"]
    return {
        **_renamed(snapshot, _SNAPSHOT),
        "format": 2,
        "tables": {name: _table(name, table) for name, table in snapshot["tables"].items()},
        "network": None if network is None else _network(network),
    }


def _renamed(row: Mapping[str, Any], names: Mapping[str, str]) -> Row:
    return {names.get(name, name): value for name, value in row.items()}


# The table `world`


def _config(plan: Mapping[str, Any]) -> Row:
    # The first directories have no `given_start`.
    row = {"given_start": plan["start"], **plan, "id": "config", "format": 2}
    return _renamed(row, {"start": "start_ms", "given_start": "given_start_ms", "map": "map_fingerprint"})


def _state(present: Mapping[str, Any]) -> Row:
    row = {**present, "id": "state"}
    # The first directories have the real time at `now` instead of a time base.
    real_ms = row.pop("wall", None)
    time_base = None if real_ms is None else [row["now"], real_ms]
    return _renamed({"pace": time_base, **row}, {"pace": "time_base"})


# Networks


def _network_row(row: Row) -> Row:
    kind, _, name = row["id"].partition("-")
    if kind == "engine":
        return _renamed(row, _ENGINE)
    if kind not in _NETWORK_KINDS:
        return row
    new_kind, names = _NETWORK_KINDS[kind]
    data = row["fact"]
    return {"id": f"{new_kind}-{name}", "data": _renamed(data, names) if names else data}


def _network(network: Mapping[str, Any]) -> Row:
    row = _renamed(network, {**_ENGINE, "orders": "sessions", "agenda": "events", "lessons": "mission_control"})
    row["sessions"] = [_renamed(session, _SESSION) for session in row["sessions"]]
    row["shards"] = [_renamed(shard, _SHARD) for shard in row["shards"]]
    return row


# Tables


def _traffic(row: Row) -> Row:
    row = _renamed(row, _TRAFFIC)
    return {**row, "settings": _renamed(row["settings"], _TRAFFIC_SETTINGS)}


def _request(post: Mapping[str, Any]) -> Row:
    """A callback request; a copy had the fault's id and the number of the hit in its delivery id."""
    delivery_id, *copied_by = post["delivery_id"].split("~")
    row = _renamed(post, {"over_ms": "send_duration_ms"})
    return {**row, "delivery_id": delivery_id, "copied_by": [copied_by[0], int(copied_by[1])] if copied_by else None}


def _waiting(row: Row) -> Row:
    copy = row.pop("copy")
    return {**row, "post": _request(row["post"]), "is_copy": copy is not None, "sign_again": copy == "fresh"}


_TABLES: Mapping[str, Callable[[Row], Row]] = {
    "traffic": _traffic,
    "fault_posts": _waiting,
    "late_answers": lambda row: {**row, "post": _request(row["post"])},
}


def _table(name: str, table: Mapping[str, Any]) -> Row:
    upgraded = _TABLES.get(name)
    rows = table["rows"] if upgraded is None else [[number, upgraded(dict(row))] for number, row in table["rows"]]
    return {**_renamed(table, {"made": "exists", "next": "next_id"}), "rows": rows}
