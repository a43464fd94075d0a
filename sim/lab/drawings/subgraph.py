"""The part of a network that fits on a page: the shop, its neighbours, and the routes of its payers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
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
    `near` or in flight. `force_closed` is the number of channels that a node closed on the chain: nothing moves over
    them, and `on_chain_msat` is what both nodes have there.
    """

    far: int
    near: int
    is_level: bool  # the two nodes have the same distance to the shop
    capacity_msat: int = 0
    forward_msat: int = 0
    in_flight_msat: int = 0
    channels: int = 0
    disabled: bool = True
    force_closed: int = 0
    on_chain_msat: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subgraph:
    """The shown part of a network, and figures of the rest.

    `hops` has the distance of each shown node from the shop, `pairs` their open channels. `channels` is the number of
    all open channels. `payers` are the wallets by node, `distant` those whose node is too far away to be shown: the
    name, the node's name and its distance.
    """

    shop: int
    names: list[str]
    channels: int
    hops: dict[int, int]
    pairs: list[NodePair]
    payers: dict[int, list[str]]
    distant: list[tuple[str, str, int | None]]
    offline: set[int]
    inbound_msat: int
    outbound_msat: int
    hidden_peers: int
    hidden_inbound_msat: int

    @property
    def hidden_nodes(self) -> int:
        """The number of nodes that are not shown."""
        return len(self.names) - len(self.hops)

    @property
    def hidden_channels(self) -> int:
        """The number of channels that are not among the shown nodes."""
        return self.channels - sum(pair.channels for pair in self.pairs)

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
    newest = dict.fromkeys(row["payer"] for row in reversed(list(payments.rows)))
    homes = {payer: payments.node_of(payer) for payer in sorted(list(newest)[:_MOST_PAYERS])}
    shown = _nodes_shown(engine, shop, hops, [homes[payer] for payer in newest if payer in homes])
    own = [(edge, peer) for edge, peer in _edges(engine, shop) if edge >> 1 not in engine.closed]
    inbound = [(peer, engine.balance[edge ^ 1]) for edge, peer in own]
    hidden = [(peer, balance_msat) for peer, balance_msat in inbound if peer not in shown]
    return Subgraph(
        shop=shop,
        names=names,
        channels=engine.graph.channels - len(_gone(engine)),
        hops={node: hops[node] for node in sorted(shown)},
        pairs=_pairs(engine, shown, hops, engine.conditions.height(world.clock.now())),
        payers={node: [payer for payer in homes if homes[payer] == node] for node in homes.values() if node in shown},
        distant=[(payer, names[node], hops.get(node)) for payer, node in homes.items() if node not in shown],
        offline={node for node in shown if not engine.conditions.is_up(node, world.clock.now())},
        inbound_msat=sum(balance_msat for _, balance_msat in inbound),
        outbound_msat=sum(engine.balance[edge] for edge, _ in own),
        hidden_peers=len({peer for peer, _ in hidden}),
        hidden_inbound_msat=sum(balance_msat for _, balance_msat in hidden),
    )


def _edges(engine: Engine, node: int) -> list[tuple[int, int]]:
    """The edges of open and of force closed channels that start at a node, with the node at their other end."""
    target, gone = engine.policies.target, _gone(engine)
    return [(edge, target[edge]) for edge in engine.out_edges(node) if edge >> 1 not in gone]


def _gone(engine: Engine) -> set[int]:
    """The channels that are closed and have nothing on the chain."""
    return {*engine.closed} - {*engine.force_closed}


def _distances(engine: Engine, shop: int) -> dict[int, int]:
    """The number of channels from each node to the shop; a node without a route is left out."""
    hops, queue = {shop: 0}, [shop]
    for node in queue:
        for _, peer in _edges(engine, node):
            if peer not in hops:
                hops[peer] = hops[node] + 1
                queue.append(peer)
    return hops


def _nodes_shown(engine: Engine, shop: int, hops: dict[int, int], homes: list[int]) -> set[int]:
    """The nodes to show: all of a small network; else the payers' routes, the largest peers, and nodes behind them."""
    if len(engine.graph.names) <= _WHOLE:
        return {node for node, far in hops.items() if far <= _FARTHEST}
    shown = {shop}
    for node in homes:
        while node not in shown and hops.get(node, _FARTHEST + 1) <= _FARTHEST:
            shown.add(node)
            # On to the neighbour closer to the shop with the largest balance in that direction.
            closer = [
                (engine.balance[edge], -edge, peer) for edge, peer in _edges(engine, node) if hops[peer] < hops[node]
            ]
            node = max(closer)[2]
    for far in range(1, _FARTHEST + 1):
        # The nodes at this distance with the largest capacity to the shown ones.
        room: Counter[int] = Counter()
        for node in shown:
            for edge, peer in _edges(engine, node):
                if hops[node] == far - 1 and peer not in shown and hops[peer] == far:
                    room[peer] += engine.capacity[edge >> 1]
        free = max(0, min(_NEAR - len(shown), _MOST_PEERS))
        shown.update(sorted(room, key=lambda peer: (-room[peer], peer))[:free])
    return shown


def _pairs(engine: Engine, shown: set[int], hops: dict[int, int], height: int) -> list[NodePair]:
    """The channels among the shown nodes, at a block height."""
    from leyden.lightning.network.network_tables import on_chain_msat

    pairs: dict[tuple[int, int], NodePair] = {}
    for node in sorted(shown):
        for edge, peer in _edges(engine, node):
            if peer not in shown or (hops[node], node) < (hops[peer], peer):
                continue
            pair = pairs.setdefault((node, peer), NodePair(node, peer, hops[node] == hops[peer]))
            pair.capacity_msat += engine.capacity[edge >> 1]
            if edge >> 1 in engine.force_closed:
                pair.force_closed += 1
                pair.on_chain_msat += sum(on_chain_msat(engine, side, height) for side in (edge, edge ^ 1))
            else:
                pair.forward_msat += engine.balance[edge]
            pair.in_flight_msat += engine.in_flight[edge >> 1]
            pair.channels += 1
            pair.disabled = pair.disabled and engine.policies.disabled[edge]
    return list(pairs.values())
