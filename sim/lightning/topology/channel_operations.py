"""Channels that open and close while the network runs, and money that its owner sends around in a circle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leyden.errors import GraphError
from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.forwarding_checks import MAX_ACCEPTED_HTLCS
from leyden.lightning.routing.pathfinding import EdgePolicies, Router
from leyden.lightning.topology.graph import DEFAULT_POLICY, Graph, Ints

_MOST_CIRCLES = 16


def open_channel(
    engine: Engine, a: int, b: int, capacity_msat: int, a_local_msat: int, base_msat: int, ppm: int
) -> int:
    """A new channel between two nodes, both sides with these fees; its number. It can be used at once: neither the
    blocks nor the gossip that this takes on the real network are simulated. Raises `GraphError`."""
    if a == b or capacity_msat <= 0 or not 0 <= a_local_msat <= capacity_msat or base_msat < 0 or ppm < 0:
        raise GraphError("a channel joins two nodes, holds more than 0 msat, and each side's balance is a part of that")
    graph = engine.graph
    sides = [a_local_msat, capacity_msat - a_local_msat]
    _replace_graph(
        engine,
        replace(
            graph,
            source=_appended(graph.source, [a, b]),
            target=_appended(graph.target, [b, a]),
            base_msat=_appended(graph.base_msat, [base_msat] * 2),
            ppm=_appended(graph.ppm, [ppm] * 2),
            cltv_delta=_appended(graph.cltv_delta, [DEFAULT_POLICY[2]] * 2),
            htlc_min_msat=_appended(graph.htlc_min_msat, [DEFAULT_POLICY[3]] * 2),
            htlc_max_msat=_appended(graph.htlc_max_msat, [capacity_msat] * 2),
            disabled=np.concatenate([graph.disabled, [False, False]]),
            local_msat=_appended(graph.local_msat, sides),
            capacity_msat=_appended(graph.capacity_msat, [capacity_msat]),
        ),
    )
    engine.balance = [*engine.balance, *sides]
    engine.initial_balance = [*engine.initial_balance, *sides]
    engine.slots = [*engine.slots, 0, 0]
    engine.in_flight = [*engine.in_flight, 0]
    engine.capacity = engine.graph.capacity_msat.tolist()
    engine.reserve = engine.graph.reserve_msat.tolist()
    return engine.graph.channels - 1


def close_channel(engine: Engine, channel: int) -> None:
    """No HTLC is added to this channel any more; those in it run their course first (BOLT 2, "shutdown").

    What lies in it is then its owners' on the chain, which is not simulated. Raises `GraphError`.
    """
    if not 0 <= channel < engine.graph.channels or channel in engine.closed:
        raise GraphError(f"there is no open channel {channel}: they are listed with their nodes")
    disabled = engine.graph.disabled.copy()
    disabled[2 * channel : 2 * channel + 2] = True
    _replace_graph(engine, replace(engine.graph, disabled=disabled))
    engine.closed |= {channel}


def rebalance(engine: Engine, node: int, amount_msat: int, out: int | None, into: int | None) -> tuple[list[int], int]:
    """Send an amount from a node to itself: out over a channel to one peer, back in over one from another.

    The route and the fee paid (msat). It happens at once, in trial and error over what would carry it, as a payment
    by somebody who can wait. Raises `GraphError` when no circle carries the amount.
    """
    terms = engine.policies
    own = [edge for edge in engine.out_edges(node) if edge >> 1 not in engine.closed]
    first = [edge for edge in own if out in (None, terms.target[edge]) and engine.spendable_msat(edge) >= amount_msat]
    last = [
        edge ^ 1
        for edge in own
        if into in (None, terms.target[edge]) and engine.spendable_msat(edge ^ 1) >= amount_msat
    ]
    # From where most lies to where least does, unless told.
    first.sort(key=lambda edge: (-engine.spendable_msat(edge), edge))
    last.sort(key=lambda edge: (-engine.spendable_msat(edge), edge))
    shunned = {edge: (0, 0, engine.now) for mine in own for edge in (mine, mine ^ 1)}
    for back in last:
        onto = next((edge for edge in first if terms.target[edge] != terms.source[back]), None)
        if onto is None:
            continue
        known = {edge: belief for edge, belief in shunned.items() if edge != onto}
        for _ in range(_MOST_CIRCLES):
            found, _guide = engine.router.route(
                node, terms.source[back], amount_msat,
                spendable_msat=lambda edge, onto=onto: engine.spendable_msat(edge) if edge == onto else 0,  # type: ignore[misc]
                bounds=known, fee_limit_msat=amount_msat,
            )  # fmt: skip
            if found is None:
                break
            circle = terms.route([*found.edges, back], amount_msat)
            dry = next(
                (
                    e
                    for e, carried in zip(circle.edges, circle.amounts, strict=True)
                    if not _can_forward(engine, e, carried)
                ),
                None,
            )
            if dry is None:
                for edge, carried in zip(circle.edges, circle.amounts, strict=True):
                    engine.move_balance(edge, carried)
                return circle.edges, circle.amounts[0] - amount_msat
            if dry in (onto, back):
                break
            known[dry] = (0, amount_msat, engine.now)
    raise GraphError(
        f"no circle carries {amount_msat} msat: it needs a channel with that much on the node's side, another with "
        "that much on the peer's, and a way between the two; try less"
    )


def _appended(column: Ints, more: list[int]) -> Ints:
    return np.concatenate([column, np.array(more, dtype=np.int64)])


def _can_forward(engine: Engine, edge: int, carried: int) -> bool:
    terms = engine.policies
    fits = terms.htlc_min_msat[edge] <= carried <= terms.htlc_max_msat[edge] and engine.slots[edge] < MAX_ACCEPTED_HTLCS
    return fits and carried <= engine.spendable_msat(edge) and engine.conditions.is_up(terms.target[edge], engine.now)


def _replace_graph(engine: Engine, graph: Graph) -> None:
    """Let the engine go by another map; everything that is replaced can be taken back."""
    engine.before_change()
    engine.graph = graph
    engine.policies = EdgePolicies(graph)
    engine.router = Router(graph, engine.policies)


def opened_since(engine: Engine, channels: int) -> list[list[int]]:
    """The channels that were opened after the first `channels`, as JSON values: what `open_channel` was given."""
    graph = engine.graph
    columns: list[Ints] = [graph.source, graph.target, graph.local_msat, graph.base_msat, graph.ppm]
    rows = []
    for channel in range(channels, graph.channels):
        a, b, local, base, ppm = (int(column[2 * channel]) for column in columns)
        rows.append([a, b, int(graph.capacity_msat[channel]), local, base, ppm])
    return rows
