"""Generated graphs: `scale-free:400`, `hub:50`, `line:4`, `star:12`; the same for the same seed.

Sizes, fees and deltas follow a public snapshot of about 2021 (6,006 nodes, 30,457 channels).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from leyden.arguments import NETWORK_FORMS
from leyden.errors import GraphError
from leyden.lightning.topology.graph import Graph, Ints, assemble
from leyden.lightning.topology.liquidity import LND_SCALE_SAT, UNIFORM, balances
from leyden.lightning.topology.scale_free import Ends, Floats, capacities, scale_free
from leyden.server.printable import quoted

MAX_NODES = 100_000

# Quantiles of the proportional fee.
_PPM = ((0.0, 0.67, 0.75, 0.90, 0.95, 0.99, 1.0), (1, 1, 10, 300, 1_000, 4_000, 4_000))


def generate(what: str, seed: int, liquidity: str = UNIFORM, scale_sat: float = LND_SCALE_SAT) -> Graph:
    """The graph that `what` describes: a shape, a colon and the number of nodes. Raises `GraphError`.

    `liquidity` and its scale are as in `leyden.lightning.topology.liquidity`; they change the balances alone.
    """
    shape, _, size = what.partition(":")
    if shape not in SHAPES or not (size.isascii() and size.isdigit()):
        raise GraphError(f"network={quoted(what, 80)} is not a network: {NETWORK_FORMS}")
    nodes = int(size)
    least = LEAST_NODES.get(shape, 2)
    if not least <= nodes <= MAX_NODES:
        raise GraphError(f"network={quoted(what)}: {shape} has {least} to {MAX_NODES} nodes")
    rng = np.random.default_rng(seed)
    a, b = SHAPES[shape](nodes, rng)
    return _with_channels(nodes, a, b, rng, shape, (liquidity, scale_sat))


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


SHAPES: dict[str, Callable[[int, np.random.Generator], Ends]] = {
    "scale-free": scale_free,
    "hub": _hub,
    "line": _line,
    "star": _star,
}


LEAST_NODES = {"scale-free": 10, "hub": 6}  # of the others: 2


def _with_channels(
    nodes: int, a: Ints, b: Ints, rng: np.random.Generator, shape: str, liquidity: tuple[str, float]
) -> Graph:
    """A graph of these channels, with random capacities, balances and policies."""
    channels, edges = len(a), 2 * len(a)
    degree = np.bincount(a, minlength=nodes) + np.bincount(b, minlength=nodes)
    capacity = capacities(a, b, degree, rng, is_scale_free=shape == "scale-free")
    reserve = capacity // 100
    local = balances(capacity, rng.random(channels), *liquidity)
    at, values = _PPM
    policies: list[Ints] = [
        _picked(rng.random(edges), (0.58, 0.74, 0.83, 0.90, 0.96, 1.0), (1_000, 1, 0, 100, 500, 5_000)),
        np.interp(rng.random(edges), at, values).astype(np.int64),
        _picked(rng.random(edges), (0.55, 0.84, 1.0), (40, 144, 80)),
        _picked(rng.random(edges), (0.83, 0.97, 1.0), (1_000, 1, 10_000)),
        np.repeat(capacity - reserve, 2),
        np.zeros(edges, dtype=np.int64),
    ]
    if shape == "scale-free":
        # A shop that is set up to receive: at least ten channels, but not a hub.
        fit = np.flatnonzero((degree >= 10) & (degree <= 50))
        fit = fit if len(fit) else np.argsort(degree)[-1:]
        shop = int(fit[int(rng.random() * len(fit))])
    else:
        shop = nodes - 1
    return assemble([f"n{number}" for number in range(nodes)], a, b, capacity, local, policies, shop=shop)


def _picked(drawn: Floats, upto: tuple[float, ...], values: tuple[int, ...]) -> Ints:
    places = np.searchsorted(upto, drawn, side="right").clip(max=len(values) - 1)
    picked: Ints = np.array(values, dtype=np.int64)[places]
    return picked
