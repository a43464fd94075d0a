"""Channels that are opened and closed while the network runs, and circular rebalancing."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from operator import length_hint
from typing import NamedTuple

import numpy as np

from leyden.errors import GraphError
from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.forwarding_checks import MAX_ACCEPTED_HTLCS
from leyden.lightning.routing.pathfinding import LiquidityBound, Route
from leyden.lightning.topology.graph import DEFAULT_POLICY, Ints
from leyden.stepwise import Stepwise, run_to_end

_MAX_ATTEMPTS = 16
_MAX_FIRST = 8  # of the node's own channels, those with the most, that are tried with each one back
# The searches for one circle, and for the amounts that are tried instead: fewer on a large network, where each takes
# longer.
_LEAST_SEARCHES, _MOST_SEARCHES, _SEARCHED_CHANNELS = 100, 2_000, 10_000_000
_ORIGINS, _NO_NODES = 2, frozenset[int]()
_POWERS = 13  # amounts that are tried instead: 1 msat, 10, ... up to 10 BTC


class NewChannel(NamedTuple):
    """A channel between two nodes to be opened, with the balance of the first one and the fees of both sides."""

    a: int
    b: int
    capacity_msat: int
    a_local_msat: int
    base_msat: int
    ppm: int


def open_channel(engine: Engine, channel: NewChannel) -> int:
    """Open a channel and return its number. It is usable at once: confirmations and gossip are not simulated. Raises
    `GraphError`."""
    open_channels(engine, [channel])
    return engine.graph.channels - 1


def open_channels(engine: Engine, channels: Sequence[NewChannel]) -> None:
    """Open one or more channels, in this order, for the cost of one. Raises `GraphError`."""
    for a, b, capacity_msat, a_local_msat, base_msat, ppm in channels:
        if a == b or capacity_msat <= 0 or not 0 <= a_local_msat <= capacity_msat or base_msat < 0 or ppm < 0:
            raise GraphError(
                "a channel joins two nodes, holds more than 0 msat, and each side's balance is a part of that"
            )
    graph, edges = engine.graph, 2 * len(channels)
    capacities = [one.capacity_msat for one in channels]
    sides = [msat for one in channels for msat in (one.a_local_msat, one.capacity_msat - one.a_local_msat)]
    engine.replace_graph(
        replace(
            graph,
            source=_appended(graph.source, [node for one in channels for node in (one.a, one.b)]),
            target=_appended(graph.target, [node for one in channels for node in (one.b, one.a)]),
            base_msat=_appended(graph.base_msat, [one.base_msat for one in channels for _ in range(2)]),
            ppm=_appended(graph.ppm, [one.ppm for one in channels for _ in range(2)]),
            cltv_delta=_appended(graph.cltv_delta, [DEFAULT_POLICY[2]] * edges),
            htlc_min_msat=_appended(graph.htlc_min_msat, [DEFAULT_POLICY[3]] * edges),
            htlc_max_msat=_appended(graph.htlc_max_msat, [msat for msat in capacities for _ in range(2)]),
            disabled=np.concatenate([graph.disabled, [False] * edges]),
            local_msat=_appended(graph.local_msat, sides),
            capacity_msat=_appended(graph.capacity_msat, capacities),
        ),
    )
    engine.balance = engine.balance + array("q", sides)  # a new object: a rollback restores the former one
    engine.initial_balance = (*engine.initial_balance, *sides)
    engine.slots = [*engine.slots, *[0] * edges]
    engine.in_flight = [*engine.in_flight, *[0] * len(channels)]
    engine.capacity = (*engine.capacity, *capacities)
    engine.reserve = (*engine.reserve, *engine.graph.reserve_msat[-len(channels) :].tolist())


def close_channel(engine: Engine, channel: int) -> None:
    """Close a channel by agreement: it takes no new HTLC, and those in flight are resolved first (BOLT 2, "shutdown").

    The closing transaction is not simulated. `Channels.force_close` is the other way. Raises `GraphError`.
    """
    if not 0 <= channel < engine.graph.channels or channel in engine.closed:
        raise GraphError(f"there is no open channel {channel}: each node lists its channels")
    engine.close([channel])


def find_circle(engine: Engine, node: int, amount_msat: int, out: int | None, into: int | None) -> Stepwise[Route]:
    """Find a route from a node to itself that carries an amount after the last step: out over a channel to one peer,
    and in over one from another.

    Routes that would fail are skipped, as by a payer that can wait. Raises `GraphError` if no circle carries the
    amount, or if none was found in a number of searches that is smaller for a larger network.
    """
    _check_circle(engine, node, engine.open_edges(node), out, into)
    most = max(_LEAST_SEARCHES, min(_MOST_SEARCHES, _SEARCHED_CHANNELS // engine.graph.channels))
    searches = iter(range(most))
    circle = yield from _circle(engine, node, amount_msat, out, into, searches)
    if circle is None:
        is_certain = next(searches, None) is not None
        refusal = yield from _no_circle(engine, node, amount_msat, out, into, iter(range(most)), is_certain=is_certain)
        raise GraphError(refusal)
    return circle


def send_over(engine: Engine, route: Route) -> int:
    """Send the amount of a route, which takes no time. Returns the fee (msat)."""
    for edge, amount in zip(route.edges, route.amounts, strict=True):
        engine.move_balance(edge, amount)
    return route.amounts[0] - route.amounts[-1]


def _circle(
    engine: Engine, node: int, amount_msat: int, out: int | None, into: int | None, searches: Iterator[int]
) -> Stepwise[Route | None]:
    """A route from a node to itself that carries an amount now; None if none was found in these searches."""
    policies, own = engine.policies, engine.open_edges(node)

    def able(edges: list[int]) -> list[int]:
        """Those that can send the amount; by default over the largest balance."""
        found = [edge for edge in edges if engine.spendable_msat(edge) >= amount_msat]
        return sorted(found, key=lambda edge: (-engine.spendable_msat(edge), edge))

    yield  # a node may have a thousand channels
    first = able([edge for edge in own if out in (None, policies.target[edge])])
    last = able([edge ^ 1 for edge in own if into in (None, policies.target[edge])])
    excluded = {edge: (0, 0, engine.now, engine.now) for own_edge in own for edge in (own_edge, own_edge ^ 1)}
    yield
    for back in last:
        others = (edge for edge in first if policies.target[edge] != policies.source[back])
        for outgoing in islice(others, _MAX_FIRST):
            if not length_hint(searches):  # there may be a million pairs of its channels
                return None
            bounds = {edge: bound for edge, bound in excluded.items() if edge != outgoing}
            ends = (node, policies.source[back])
            circle = yield from _found(
                engine, ends, amount_msat, bounds, amount_msat, searches, first=(outgoing,), last=(back,)
            )
            if circle is not None:
                return circle
    return None


def _no_circle(
    engine: Engine,
    node: int,
    amount_msat: int,
    out: int | None,
    into: int | None,
    searches: Iterator[int],
    *,
    is_certain: bool,
) -> Stepwise[str]:
    """Why no circle carries an amount, or (not `is_certain`) none was found, with another amount that one carries now,
    if any that is tried does."""
    if not (yield from _has_circle(engine, node, out, into)):
        return (
            "no circle carries any amount: no channels with liquidity lead from the node's own over its peers back to "
            "it, so open a channel between two of its peers"
        )
    problem = f"no circle {'carries' if is_certain else 'was found that carries'} {amount_msat} msat"
    needs = "a channel with that much on the node's side, another with that much on the peer's, and a route between"
    refused = f"{problem}: it needs {needs} the two"
    powers = [10**power for power in range(_POWERS)]
    less = [one * digit for one in powers[::-1] for digit in (5, 2, 1) if one * digit < amount_msat]
    more = [one for one in powers if one > amount_msat]
    for amount in less if length_hint(searches) else ():
        if (yield from _circle(engine, node, amount, out, into, searches)) is not None:
            return f"{refused}: give a smaller amount, such as {amount}"
    for amount in more if length_hint(searches) else ():
        if (yield from _circle(engine, node, amount, out, into, searches)) is not None:
            small = "is too small for the least amounts of channels, or for a fee that is no more than the amount"
            return f"{problem}: it {small}; give a larger one, such as {amount}"
    return f"{refused}: open a channel between two of its peers"


def _has_circle(engine: Engine, node: int, out: int | None, into: int | None) -> Stepwise[bool]:
    """Whether channels that can send something lead from a node over one peer and back over another."""
    policies = engine.policies
    own = engine.open_edges(node)
    starts = {policies.target[edge] for edge in own if out in (None, policies.target[edge]) and _sends(engine, edge)}
    backs = {
        policies.target[edge] for edge in own if into in (None, policies.target[edge]) and _sends(engine, edge ^ 1)
    }
    # The starts from which each node is reached. Two are enough: one of them is not the node itself.
    reached = {start: {start} for start in starts}
    waiting = [(start, start) for start in starts]
    while waiting:
        at, start = waiting.pop()
        for edge in engine.out_edges(at):
            far = policies.target[edge]
            origins = reached.get(far, _NO_NODES)
            if far == node or start in origins or len(origins) == _ORIGINS or not _sends(engine, edge):
                continue
            if far in backs and far != start:
                return True
            reached[far] = {*origins, start}
            waiting.append((far, start))
        yield
    return False


def _sends(engine: Engine, edge: int) -> bool:
    return engine.spendable_msat(edge) > 0 and engine.conditions.is_up(engine.policies.target[edge], engine.now)


def _check_circle(engine: Engine, node: int, own: list[int], out: int | None, into: int | None) -> None:
    """Raise `GraphError` when no amount can go in a circle from a node over these two peers."""
    names, peers = engine.graph.names, {engine.policies.target[edge] for edge in own}
    for name, peer in (("out", out), ("into", into)):
        if peer is not None and peer not in peers:
            listed = ", ".join(sorted(names[each] for each in peers)) or "none"
            raise GraphError(
                f"{name}={names[peer]}: {names[node]} has no open channel to it, so give one of its peers: {listed}"
            )
    if out is not None and out == into:
        raise GraphError(f"out and into are both {names[into]}: a circle needs channels to two peers, so give another")
    if len(peers) < 2:
        only = ", ".join(names[peer] for peer in peers) or "no node"
        raise GraphError(
            f"{names[node]} has open channels to {only} alone, and a circle needs two peers: open one more"
        )


def send_at_once(engine: Engine, payer: int, target: int, amount_msat: int, fee_limit_msat: int) -> Route | None:
    """Send an amount from a node to another. It takes no time: routes that would fail are skipped, as by a payer that
    can wait. Returns the route; None if no route carries the amount, or the payer gave up.
    """
    searches = iter(range(_MAX_ATTEMPTS))
    route = run_to_end(_found(engine, (payer, target), amount_msat, {}, fee_limit_msat, searches))
    if route is not None:
        send_over(engine, route)
    return route


def _found(
    engine: Engine,
    ends: tuple[int, int],
    amount_msat: int,
    bounds: dict[int, LiquidityBound],
    fee_limit_msat: int,
    searches: Iterator[int],
    *,
    first: tuple[int, ...] = (),
    last: tuple[int, ...] = (),
) -> Stepwise[Route | None]:
    """A route that carries an amount now from one of the ends to the other and over the edges `last`. It starts with an
    edge of `first`, if there are any. None if none was found in `_MAX_ATTEMPTS` of these searches; each that fails is a
    step.

    An edge that cannot forward becomes a bound of those that are searched with."""
    for _ in islice(searches, _MAX_ATTEMPTS):
        found, _hint = engine.router.route(
            *ends,
            amount_msat,
            spendable_msat=lambda edge: engine.spendable_msat(edge) if not first or edge in first else 0,
            bounds=bounds,
            fee_limit_msat=fee_limit_msat,
        )
        if found is None:
            yield
            return None
        route = engine.policies.route([*found.edges, *last], amount_msat)
        hops = list(zip(route.edges, route.amounts, strict=True))
        failing = next((edge for edge, amount in hops if not can_forward(engine, edge, amount)), None)
        if failing is None:
            return route
        yield
        if failing in first or failing in last:
            return None
        bounds[failing] = (0, amount_msat, engine.now, engine.now)
    return None


def _appended(column: Ints, more: list[int]) -> Ints:
    return np.concatenate([column, np.array(more, dtype=np.int64)])


def can_forward(engine: Engine, edge: int, amount: int) -> bool:
    """Whether an edge can carry an amount (msat) now: its limits, its liquidity and slots, and its far node online."""
    policies = engine.policies
    fits = (
        policies.htlc_min_msat[edge] <= amount <= policies.htlc_max_msat[edge]
        and engine.slots[edge] < MAX_ACCEPTED_HTLCS
    )
    is_online = engine.conditions.is_up(policies.target[edge], engine.now) and (
        engine.outage is None or engine.outage(None, edge) is None
    )
    return fits and is_online and amount <= engine.spendable_msat(edge)


def opened_since(engine: Engine, channels: int) -> list[list[int]]:
    """The channels after the first `channels`, as JSON values: each a `NewChannel`."""
    graph = engine.graph
    columns: list[Ints] = [graph.source, graph.target, graph.local_msat, graph.base_msat, graph.ppm]
    rows = []
    for channel in range(channels, graph.channels):
        a, b, local, base, ppm = (int(column[2 * channel]) for column in columns)
        rows.append([a, b, int(graph.capacity_msat[channel]), local, base, ppm])
    return rows
