"""Generated graphs: `scale-free:400`, `hub:50`, `line:4`, `star:12`; the same for the same seed.

Sizes and policies follow a public snapshot of about 2021 (6,006 nodes, 30,457 channels).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from leyden.arguments import NETWORK_FORMS
from leyden.errors import GraphError
from leyden.lightning.topology.graph import Graph, assemble
from leyden.lightning.topology.liquidity import LND_SCALE_SAT, UNIFORM, balances
from leyden.lightning.topology.policies import FEES_2021, FEES_2024, policies_of_2021, policies_of_2024
from leyden.lightning.topology.scale_free import Ends, capacities, scale_free, with_parallel
from leyden.server.printable import quoted

MAX_NODES = 100_000


def generate(
    what: str,
    seed: int,
    liquidity: str = UNIFORM,
    scale_sat: float = LND_SCALE_SAT,
    *,
    parallel_share: float = 0.0,
    fees: str = FEES_2021,
) -> Graph:
    """The graph that `what` describes: a shape, a colon and the number of nodes. Raises `GraphError`.

    `liquidity` and its scale are as in `leyden.lightning.topology.liquidity`; they change the balances alone. `fees`
    are as in `leyden.lightning.topology.policies`; they change the policies alone. `parallel_share` is the share of
    further channels between two nodes that have one, of scale-free graphs.
    """
    shape, _, size = what.partition(":")
    if shape not in SHAPES or not (size.isascii() and size.isdigit()):
        raise GraphError(f"network={quoted(what, 80)} is not a network: {NETWORK_FORMS}")
    nodes = int(size)
    least = LEAST_NODES.get(shape, 2)
    if not least <= nodes <= MAX_NODES:
        raise GraphError(f"network={quoted(what)}: {shape} has {least} to {MAX_NODES} nodes")
    if parallel_share and shape != SCALE_FREE:
        raise GraphError(f"conditions: parallel is of {SCALE_FREE} networks: leave it out for {quoted(what)}")
    rng = np.random.default_rng(seed)
    a, b = SHAPES[shape](nodes, rng)
    if parallel_share:
        a, b = with_parallel(a, b, parallel_share, np.random.default_rng([seed, _PARALLEL_STREAM]))
    degree = np.bincount(a, minlength=nodes) + np.bincount(b, minlength=nodes)
    capacity = capacities(a, b, degree, rng, is_scale_free=shape == SCALE_FREE)
    local = balances(capacity, rng.random(len(capacity)), liquidity, scale_sat)
    policies = policies_of_2021(capacity, rng)
    if shape == SCALE_FREE:
        # A shop that is set up to receive: at least ten channels, but not a hub.
        fit = np.flatnonzero((degree >= 10) & (degree <= 50))
        fit = fit if len(fit) else np.argsort(degree)[-1:]
        shop = int(fit[int(rng.random() * len(fit))])
    else:
        shop = nodes - 1
    if fees == FEES_2024:
        policies = policies_of_2024(capacity, policies, np.random.default_rng([seed, _FEES_STREAM]))
    return assemble([f"n{number}" for number in range(nodes)], a, b, capacity, local, policies, shop=shop)


def _hub(nodes: int, rng: np.random.Generator) -> Ends:
    """Hubs that are all connected to one another; every other node has channels to two of them."""
    hubs = max(3, round(nodes**0.5 / 2))
    first, second = np.triu_indices(hubs, 1)
    others = np.arange(hubs, nodes)
    one = (rng.random(len(others)) * hubs).astype(np.int64)
    other = (one + 1 + (rng.random(len(others)) * (hubs - 1)).astype(np.int64)) % hubs
    return np.concatenate([first, one, other]).astype(np.int64), np.concatenate([second, others, others])


def _line(nodes: int, rng: np.random.Generator) -> Ends:
    """A path: each node has a channel to the next."""
    return np.arange(nodes - 1), np.arange(1, nodes)


def _star(nodes: int, rng: np.random.Generator) -> Ends:
    """One node in the middle, to which every other has one channel."""
    return np.zeros(nodes - 1, dtype=np.int64), np.arange(1, nodes)


SCALE_FREE = "scale-free"
SHAPES: dict[str, Callable[[int, np.random.Generator], Ends]] = {
    SCALE_FREE: scale_free,
    "hub": _hub,
    "line": _line,
    "star": _star,
}
LEAST_NODES = {SCALE_FREE: 10, "hub": 6}  # of the others: 2

# What is drawn beside the graph, so that it is the same without.
_PARALLEL_STREAM, _FEES_STREAM = 1, 2
