"""A network as it stands, written down: so that a fork or a later day goes on from the very same point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.event_queue import EventQueue
from leyden.lightning.engine.shard import Alarm, Shard
from leyden.lightning.engine.undo_log import UndoLog
from leyden.lightning.payer.payment_session import PaymentSession
from leyden.lightning.routing.mission_control import MissionControl
from leyden.lightning.routing.pathfinding import Route
from leyden.lightning.topology.channel_operations import close_channel, open_channel, opened_since

# Attribute: its name in the stored row.
_SESSION_FIELDS = {
    "id": "id", "payer": "payer", "target": "target", "amount_msat": "amount_msat", "fee_limit_msat": "fee_limit_msat",
    "latency_seed": "luck", "gives_up_at": "gives_up_at", "final_cltv_blocks": "final_blocks",
    "max_parts": "most_parts", "max_attempts": "most_tries", "min_shard_msat": "smallest_msat",
    "fees_msat": "fees_msat", "parts_in_flight": "parts", "received_msat": "received_msat", "attempt_count": "sent",
    "outcome": "outcome", "pending_outcome": "halted",
}  # fmt: skip
_SHARD_FIELDS = {
    "id": "id", "number": "number", "latency_seed": "luck", "edges": "edges", "amounts": "amounts",
    "cltv_offsets": "blocks", "final_expiry": "final", "hop": "place", "phase": "phase", "settled": "answer",
    "status": "fate", "code": "code", "reporter_hop": "reporter", "reason": "why",
}  # fmt: skip


def fork_engine(engine: Engine) -> Engine:
    """An engine with the same channels, balances and weather, and nothing in flight yet: `stand` brings that.

    The map, its routes and the weather are shared: they are never changed, only replaced.
    """
    twin = copy(engine)
    UndoLog.__init__(twin)
    twin.balance = engine.balance.copy()
    twin.in_flight, twin.slots = [0] * len(engine.in_flight), [0] * len(engine.slots)
    twin.queue, twin.shards = EventQueue(), {}
    twin.intercept = twin.on_first_change = None
    return twin


def dump_network(engine: Engine, orders: Mapping[Any, PaymentSession], lessons: MissionControl) -> dict[str, Any]:
    """Everything about a network that time and payments changed, as JSON values. Costs a copy of the balances."""
    return {
        **engine_row(engine),
        "balance": engine.balance.copy(),
        "orders": [session_row(order) for order in orders.values()],
        "shards": [shard_row(shard) for shard in engine.shards.values()],
        "agenda": [events_row(due, items) for due, items in sorted(engine.queue.events_at.items())],
        "lessons": lessons.dump(),
    }


def engine_row(engine: Engine) -> dict[str, Any]:
    """Where an engine stands, without its channels and what is under way."""
    return {
        "now": engine.now,
        "events": engine.event_count,
        "made": engine.shard_count,
        "reseeded": [list(pair) for pair in engine.reseeds],
        "opened": opened_since(engine, engine.initial_channels),
        "closed": sorted(engine.closed),
    }


def session_row(order: PaymentSession) -> dict[str, Any]:
    """An order under way."""
    return {
        **{stored: getattr(order, name) for name, stored in _SESSION_FIELDS.items()},
        "chances": sorted(order.policy_retries),
        "waiting": [shard.id for shard in order.waiting],
    }


def shard_row(shard: Shard) -> dict[str, Any]:
    """A shard under way."""
    return {
        **{stored: getattr(shard, name) for name, stored in _SHARD_FIELDS.items()},
        "owner": shard.owner.id,
        "times": [list(times) for times in shard.times],
    }


def events_row(due: int, items: tuple[Any, ...]) -> list[Any]:
    """What is due at an instant, in order."""
    return [due, [["alarm", item.shard.id] if isinstance(item, Alarm) else ["shard", item.id] for item in items]]


def restore_network(
    engine: Engine, saved: Mapping[str, Any], secret: Callable[[str], bytes]
) -> tuple[dict[Any, PaymentSession], MissionControl]:
    """Bring a fresh engine of the same map, or one made by `beside`, to where `saved` was written. Its `balance` is
    that of every edge, or by edge where it is not the map's.

    The orders under way, by their ids, and what their payers believe.
    """
    for a, b, capacity, local, base, ppm in saved["opened"][engine.graph.channels - engine.initial_channels :]:
        open_channel(engine, a, b, capacity, local, base, ppm)
    for channel in saved["closed"]:
        if channel not in engine.closed:
            close_channel(engine, channel)
    for at, luck in saved["reseeded"][len(engine.reseeds) :]:
        engine.now = at
        engine.reseed(luck, secret)
    engine.now, engine.event_count, engine.shard_count = saved["now"], saved["events"], saved["made"]
    if isinstance(saved["balance"], dict):
        for edge, amount_msat in saved["balance"].items():
            engine.balance[edge] = amount_msat
    else:
        engine.balance = list(saved["balance"])
    orders = {}
    for row in saved["orders"]:
        order = PaymentSession(row["id"], row["payer"], row["target"], row["amount_msat"])
        for name, stored in _SESSION_FIELDS.items():
            setattr(order, name, row[stored])
        order.policy_retries = frozenset(row["chances"])
        orders[order.id] = order
    for row in saved["shards"]:
        route = Route(row["edges"], row["amounts"], row["blocks"])
        shard = Shard(row["id"], orders[row["owner"]], row["number"], row["luck"], route, row["final"])
        for name, stored in _SHARD_FIELDS.items():
            setattr(shard, name, row[stored])
        shard.times = tuple((offered, resolved) for offered, resolved in row["times"])
        engine.shards[shard.id] = shard
        for place in range(shard.hop + 1):
            engine.in_flight[shard.edges[place] >> 1] += shard.amounts[place]
            engine.slots[shard.edges[place]] += 1
    for row in saved["orders"]:
        orders[row["id"]].waiting = tuple(engine.shards[number] for number in row["waiting"])
    for due, items in saved["agenda"]:
        for kind, number in items:
            engine.queue.push(due, Alarm(engine.shards[number]) if kind == "alarm" else engine.shards[number])
    return orders, MissionControl.restore(engine, saved["lessons"], engine.capacity)
