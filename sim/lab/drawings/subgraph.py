"""The part of a network that fits on a page: the shop, its neighbours, and the routes of its payers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leyden.world.world import World

if TYPE_CHECKING:
    from leyden.lightning.engine.engine import Engine

# A network of up to `_WHOLE` nodes is shown whole; of a larger one, about `_NEAR` nodes.
_WHOLE, _NEAR = 16, 14
_MOST_PEERS, _MOST_PAYERS, _FARTHEST = 9, 4, 5
# More links between nodes of equal distance to the shop are not drawn.
_MAX_LEVEL_LINKS = 8


@dataclass(slots=True)
class NodePair:
    """All channels between two nodes as one: `near` is closer to the shop, or has the lower number.

    `forward_msat` is the balance of `far`, which can move towards the shop; the rest of the capacity is the balance of
    `near` or in flight.
    """

    far: int
    near: int
    is_level: bool  # the two nodes have the same distance to the shop
    capacity_msat: int = 0
    forward_msat: int = 0
    in_flight_msat: int = 0
    channels: int = 0
    disabled: bool = True


@dataclass(slots=True)
class Subgraph:
    """The shown part of a network, and figures of the rest.

    `hops` has the distance of each shown node from the shop, `pairs` their channels. `payers` are the wallets by node,
    `distant` those whose node is too far away to be shown.
    """

    shop: int
    names: list[str]
    channels: int
    hops: dict[int, int]
    pairs: list[NodePair]
    payers: dict[int, list[str]]
    offline: set[int]
    inbound_msat: int = 0
    outbound_msat: int = 0
    hidden_nodes: int = 0
    hidden_channels: int = 0
    hidden_peers: int = 0
    hidden_inbound_msat: int = 0
    distant: list[tuple[str, str, int | None]] = field(default_factory=list)

    @property
    def drawn_pairs(self) -> list[NodePair]:
        """The pairs that are drawn: not those of equal distance to the shop if they are many."""
        towards = [pair for pair in self.pairs if not pair.is_level]
        return towards if len(self.pairs) - len(towards) > _MAX_LEVEL_LINKS else self.pairs


def shop_subgraph(world: World, engine: Engine) -> Subgraph:
    """The part of the world's network that a drawing shows."""
    from leyden.lightning.payer.routed_payments import RoutedPayments

    payments = world.payments
    assert isinstance(payments, RoutedPayments)
    shop, names = payments.shop, engine.graph.names
    hops = _distances(engine, shop)
    homes: dict[str, int] = {}
    for row in reversed(list(payments.rows)):
        if row["payer"] not in homes and len(homes) < _MOST_PAYERS:
            homes[row["payer"]] = payments.node_of(row["payer"])
    shown = _nodes_shown(engine, shop, hops, homes.values())
    payers: dict[int, list[str]] = {}
    for payer in sorted(homes):
        if homes[payer] in shown:
            payers.setdefault(homes[payer], []).append(payer)
    pairs = _pairs(engine, shown, hops)
    drawn = Subgraph(
        shop,
        names,
        engine.graph.channels,
        {node: hops[node] for node in sorted(shown)},
        pairs,
        payers,
        {node for node in shown if not engine.conditions.is_up(node, world.clock.now())},
    )
    drawn.hidden_nodes = len(names) - len(shown)
    drawn.hidden_channels = engine.graph.channels - sum(pair.channels for pair in pairs)
    drawn.distant = [(payer, names[home], hops.get(home)) for payer, home in sorted(homes.items()) if home not in shown]
    hidden: set[int] = set()
    for edge in engine.router.out_edges(shop):
        peer, inbound = engine.policies.target[edge], engine.balance[edge ^ 1]
        drawn.inbound_msat += inbound
        drawn.outbound_msat += engine.balance[edge]
        if peer not in shown:
            hidden.add(peer)
            drawn.hidden_inbound_msat += inbound
    drawn.hidden_peers = len(hidden)
    return drawn


def _distances(engine: Engine, shop: int) -> dict[int, int]:
    """The number of channels from each node to the shop; a node without a route is left out."""
    hops, layer = {shop: 0}, [shop]
    while layer:
        following: list[int] = []
        for node in layer:
            for edge in engine.router.out_edges(node):
                peer = engine.policies.target[edge]
                if peer not in hops:
                    hops[peer] = hops[node] + 1
                    following.append(peer)
        layer = following
    return hops


def _nodes_shown(engine: Engine, shop: int, hops: dict[int, int], homes: Iterable[int]) -> set[int]:
    """The nodes to show: all of a small network; else the payers' routes, the largest peers, and nodes behind them."""
    if len(engine.graph.names) <= _WHOLE:
        return {node for node, far in hops.items() if far <= _FARTHEST}
    shown = {shop}
    for home in homes:
        node = home
        if hops.get(home, _FARTHEST + 1) > _FARTHEST:
            continue
        while node not in shown:
            shown.add(node)
            node = _next_towards_shop(engine, node, hops)
    for far in range(1, _FARTHEST + 1):
        free = min(_NEAR - len(shown), _MOST_PEERS)
        ring = _by_capacity(engine, [node for node in shown if hops[node] == far - 1], shown, hops)
        shown.update(ring[: max(0, free)])
    return shown


def _next_towards_shop(engine: Engine, node: int, hops: dict[int, int]) -> int:
    """The neighbour closer to the shop with the largest balance in that direction."""
    edges = [e for e in engine.router.out_edges(node) if hops[engine.policies.target[e]] < hops[node]]
    return engine.policies.target[max(edges, key=lambda edge: (engine.balance[edge], -edge))]


def _by_capacity(engine: Engine, ring: list[int], shown: set[int], hops: dict[int, int]) -> list[int]:
    """The nodes one hop behind the ring that are not shown yet, by capacity to the ring, largest first."""
    room: dict[int, int] = {}
    for node in ring:
        for edge in engine.router.out_edges(node):
            peer = engine.policies.target[edge]
            if peer not in shown and hops[peer] == hops[node] + 1:
                room[peer] = room.get(peer, 0) + engine.capacity[edge >> 1]
    return sorted(room, key=lambda peer: (-room[peer], peer))


def _pairs(engine: Engine, shown: set[int], hops: dict[int, int]) -> list[NodePair]:
    """The channels among the shown nodes."""
    pairs: dict[tuple[int, int], NodePair] = {}
    for node in sorted(shown):
        for edge in engine.router.out_edges(node):
            peer = engine.policies.target[edge]
            if peer not in shown or (hops[node], node) < (hops[peer], peer):
                continue
            pair = pairs.setdefault((node, peer), NodePair(node, peer, hops[node] == hops[peer]))
            pair.capacity_msat += engine.capacity[edge >> 1]
            pair.forward_msat += engine.balance[edge]
            pair.in_flight_msat += engine.in_flight[edge >> 1]
            pair.channels += 1
            pair.disabled = pair.disabled and engine.policies.disabled[edge]
    return list(pairs.values())
