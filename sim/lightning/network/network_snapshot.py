"""A network as it stands, written down: so that a fork or a later day goes on from the very same point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.event_queue import Agenda
from leyden.lightning.engine.shard import Alarm, Shard
from leyden.lightning.engine.undo_log import Undo
from leyden.lightning.payer.payment_session import Order
from leyden.lightning.routing.mission_control import Lessons
from leyden.lightning.routing.pathfinding import Route
from leyden.lightning.topology.channel_operations import close_channel, open_channel, opened_since

_ORDER = (
    "id", "payer", "target", "amount_msat", "fee_limit_msat", "luck", "gives_up_at", "final_blocks", "most_parts",
    "most_tries", "smallest_msat", "fees_msat", "parts", "received_msat", "sent", "outcome", "halted",
)  # fmt: skip
_SHARD = (
    "id", "number", "luck", "edges", "amounts", "blocks", "final", "place", "phase", "answer", "fate", "code",
    "reporter", "why",
)  # fmt: skip


def beside(engine: Engine) -> Engine:
    """An engine with the same channels, balances and weather, and nothing in flight yet: `stand` brings that.

    The map, its routes and the weather are shared: they are never changed, only replaced.
    """
    twin = copy(engine)
    Undo.__init__(twin)
    twin.balance = engine.balance.copy()
    twin.in_flight, twin.slots = [0] * len(engine.in_flight), [0] * len(engine.slots)
    twin.agenda, twin.live = Agenda(), {}
    twin.intercept = twin.quick = twin.stirred = None
    return twin


def written(engine: Engine, orders: Mapping[Any, Order], lessons: Lessons) -> dict[str, Any]:
    """Everything about a network that time and payments changed, as JSON values. Costs a copy of the balances."""
    return {
        **engine_row(engine),
        "balance": engine.balance.copy(),
        "orders": [order_row(order) for order in orders.values()],
        "shards": [shard_row(shard) for shard in engine.live.values()],
        "agenda": [due_row(due, items) for due, items in sorted(engine.agenda.slots.items())],
        "lessons": lessons.written(),
    }


def engine_row(engine: Engine) -> dict[str, Any]:
    """Where an engine stands, without its channels and what is under way."""
    return {
        "now": engine.now,
        "events": engine.events,
        "made": engine.made,
        "reseeded": [list(pair) for pair in engine.reseeded],
        "opened": opened_since(engine, engine.first_channels),
        "closed": sorted(engine.closed),
    }


def order_row(order: Order) -> dict[str, Any]:
    """An order under way."""
    return {
        **{name: getattr(order, name) for name in _ORDER},
        "chances": sorted(order.chances),
        "waiting": [shard.id for shard in order.waiting],
    }


def shard_row(shard: Shard) -> dict[str, Any]:
    """A shard under way."""
    return {
        **{name: getattr(shard, name) for name in _SHARD},
        "owner": shard.owner.id,
        "times": [list(times) for times in shard.times],
    }


def due_row(due: int, items: tuple[Any, ...]) -> list[Any]:
    """What is due at an instant, in order."""
    return [due, [["alarm", item.shard.id] if isinstance(item, Alarm) else ["shard", item.id] for item in items]]


def stand(engine: Engine, saved: Mapping[str, Any], secret: Callable[[str], bytes]) -> tuple[dict[Any, Order], Lessons]:
    """Bring a fresh engine of the same map, or one made by `beside`, to where `saved` was written. Its `balance` is
    that of every edge, or by edge where it is not the map's.

    The orders under way, by their ids, and what their payers believe.
    """
    for a, b, capacity, local, base, ppm in saved["opened"][engine.graph.channels - engine.first_channels :]:
        open_channel(engine, a, b, capacity, local, base, ppm)
    for channel in saved["closed"]:
        if channel not in engine.closed:
            close_channel(engine, channel)
    for at, luck in saved["reseeded"][len(engine.reseeded) :]:
        engine.now = at
        engine.reseed(luck, secret)
    engine.now, engine.events, engine.made = saved["now"], saved["events"], saved["made"]
    engine.quick = None
    if isinstance(saved["balance"], dict):
        for edge, amount_msat in saved["balance"].items():
            engine.balance[edge] = amount_msat
    else:
        engine.balance = list(saved["balance"])
    orders = {}
    for row in saved["orders"]:
        order = Order(row["id"], row["payer"], row["target"], row["amount_msat"])
        for name in _ORDER:
            setattr(order, name, row[name])
        order.chances = frozenset(row["chances"])
        orders[order.id] = order
    for row in saved["shards"]:
        route = Route(row["edges"], row["amounts"], row["blocks"])
        shard = Shard(row["id"], orders[row["owner"]], row["number"], row["luck"], route, row["final"])
        for name in _SHARD:
            setattr(shard, name, row[name])
        shard.times = tuple((offered, resolved) for offered, resolved in row["times"])
        engine.live[shard.id] = shard
        for place in range(shard.place + 1):
            engine.in_flight[shard.edges[place] >> 1] += shard.amounts[place]
            engine.slots[shard.edges[place]] += 1
    for row in saved["orders"]:
        orders[row["id"]].waiting = tuple(engine.live[number] for number in row["waiting"])
    for due, items in saved["agenda"]:
        for kind, number in items:
            engine.agenda.push(due, Alarm(engine.live[number]) if kind == "alarm" else engine.live[number])
    return orders, Lessons.restored(engine, saved["lessons"], engine.capacity)
