"""Scale-free graphs: a few nodes with very many channels, and many with one or two.

Degrees and capacities are those of the snapshot of about 2021 that the CLoTH simulator has (6,006 nodes, 30,457
channels; `channels_ln.csv` of github.com/marcono/cloth): of the number of channels of a node the median and the 75th,
90th and 99th percentiles are 2, 6, 16 and 196, and the largest is 1,227; a hundredth of the nodes has 60 % of the
capacity.

Graphs of at most 1,000 nodes are drawn in another way, in which the largest nodes get about three quarters of the
channels that they are due, and no channel has more than 2**24 sat. There the largest node is due a fifth of the nodes,
so that there is hardly a hub to miss.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from leyden.lightning.topology.graph import Ints

Floats = npt.NDArray[np.float64]
Ends = tuple[Ints, Ints]

MOST_NODES_OF_SMALL = 1_000
SNAPSHOT_NODES = 6_006
LARGEST_DEGREE = 1_227

# Quantiles of the number of channels of a node, in small graphs and in the others.
_SMALL_DEGREE = (
    (0.0, 0.35, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999, 1.0),
    (1, 1, 2, 6, 16, 30, 66, 196, 280, 520, LARGEST_DEGREE),
)
_DEGREE = (_SMALL_DEGREE[0], (1, 1, 2, 6, 16, 31, 56, 196, 289, 652, LARGEST_DEGREE))

# Hubs, the share of nodes that choose all their peers themselves, and how much they prefer nodes that want many
# channels: with the square root three quarters of the pairs of hubs have a channel, in the snapshot six in ten.
_HUBS, _PREFERENCE = 0.01, 0.5
_ROUNDS, _ROUNDS_OF_ENDS = 50, 20

# Log-normal: the median, and a sigma between those of the snapshot's quantiles (1.96 to 2.17). Below 20,000 sat a
# channel is hardly worth its transaction. 2**24 sat is the former limit of BOLT 2, at which many channels are.
_CAPACITY_MEDIAN_SAT, _CAPACITY_SIGMA = 800_000, 2.0
_CAPACITY_LEAST_SAT, _CAPACITY_MOST_SAT = 20_000, 2**24
# The snapshot's quantiles of the few channels beyond it.
_LARGE_CAPACITY = ((0.98, 0.99, 0.995, 0.998, 0.9995, 1.0), (2**24, 20e6, 31e6, 100e6, 200e6, 500e6))

# How many of the pairs of nodes with two channels or more have yet another.
_ONE_MORE = 0.28

# How a channel's capacity depends on the degree of its smaller node: payments then succeed as often as on the real
# network. In graphs that are not small the dependence has a floor (nodes with one channel and with two have channels of
# much the same size) and is stronger between hubs, and channels of the same large node resemble one another.
_BY_DEGREE_OF_SMALL = 0.6
_BY_DEGREE, _BY_NODE, _BETWEEN_HUBS = 0.7, 0.4, 1.3
_LEAST_SCORE, _HUB_SCORE = -1.0, 1.3


def normal(count: int, rng: np.random.Generator) -> Floats:
    """Normally distributed numbers (Box and Muller): uniform ones stay the same from one numpy to the next."""
    drawn: Floats = np.sqrt(-2.0 * np.log(1.0 - rng.random(count))) * np.cos(2.0 * np.pi * rng.random(count))
    return drawn


def logistic(shares: Floats) -> Floats:
    """The logistic scores of shares between 0 and 1, with a standard deviation of 1: close to those of the normal
    distribution."""
    scores: Floats = np.log(shares / (1 - shares)) * 3**0.5 / np.pi
    return scores


def scale_free(nodes: int, rng: np.random.Generator) -> Ends:
    """The ends of the channels of a connected graph: the smaller number first, no pair twice; node 0 is the largest."""
    return _small(nodes, rng) if nodes <= MOST_NODES_OF_SMALL else _large(nodes, rng)


def _largest(nodes: int) -> float:
    """The most channels of a node: with a fifth of the snapshot's nodes, and with the same share of fewer nodes."""
    return LARGEST_DEGREE * min(1.0, nodes / SNAPSHOT_NODES)


def _older(wanted: Floats, rng: np.random.Generator) -> Ints:
    """For each node but the first an earlier one, in proportion to what it wants: the graph is connected."""
    weight, newer = np.cumsum(wanted), np.arange(1, len(wanted))
    older: Ints = np.searchsorted(weight, rng.random(len(newer)) * weight[newer - 1], side="right")
    return np.minimum(older, newer - 1)


def _small(nodes: int, rng: np.random.Generator) -> Ends:
    """Each node connects to others in proportion to what it wants."""
    at, values = _SMALL_DEGREE
    shares = (np.arange(nodes) + 0.5) / nodes
    wanted = np.minimum(np.exp(np.interp(shares, at, np.log(values)))[::-1], max(3.0, _largest(nodes)))
    newer = np.arange(1, nodes)
    older = _older(wanted, rng)
    channels = max(nodes - 1, round(float(wanted.sum()) / 2))
    left = np.maximum(wanted - np.bincount(newer, minlength=nodes) - np.bincount(older, minlength=nodes), 0)
    keys = np.sort(older * nodes + newer)
    reach = np.cumsum(left)
    for _ in range(_ROUNDS):
        missing = channels - len(keys)
        if missing <= 0 or reach[-1] <= 0:
            break
        drawn = np.searchsorted(reach, rng.random((2, missing + 8)) * reach[-1], side="right").clip(max=nodes - 1)
        low, high = drawn.min(axis=0), drawn.max(axis=0)
        fresh = np.setdiff1d((low * nodes + high)[low != high], keys)
        keys = np.sort(np.concatenate([keys, fresh[: max(missing, 0)]]))
    return (keys // nodes).astype(np.int64), (keys % nodes).astype(np.int64)


def _large(nodes: int, rng: np.random.Generator) -> Ends:
    """Hubs choose their peers first, the largest hub before the others; then the others are joined at random."""
    at, values = _DEGREE
    wanted = np.exp(np.interp(np.arange(nodes) / (nodes - 1), at, np.log(values)))
    wanted = np.sort(np.floor(np.minimum(wanted, _largest(nodes)) + rng.random(nodes)).astype(np.int64))[::-1]
    newer = np.arange(1, nodes)
    older = _older(wanted.astype(np.float64), rng)
    keys = np.sort(older * nodes + newer)
    left = np.maximum(wanted - np.bincount(newer, minlength=nodes) - np.bincount(older, minlength=nodes), 0)
    chosen = [keys]
    hubs = round(nodes * _HUBS)
    for hub in range(hubs):
        is_free = left[hub + 1 :] > 0
        is_free[newer[older == hub] - hub - 1] = False
        free = hub + 1 + np.flatnonzero(is_free)
        count = min(int(left[hub]), len(free))
        if count:
            # The smallest of exponentially distributed times: drawn without replacement, in proportion to the rates.
            times = -np.log(1.0 - rng.random(len(free))) / left[free] ** _PREFERENCE
            peers = free[np.argpartition(times, count - 1)[:count]]
            left[peers] -= 1
            chosen.append(hub * nodes + peers)
    left[:hubs] = 0
    keys = np.sort(np.concatenate(chosen))
    for _ in range(_ROUNDS_OF_ENDS):
        # Each node has as many ends as it still wants; two ends make a channel, unless there is one already.
        ends = np.repeat(np.arange(nodes), left)
        if len(ends) < 2:
            break
        ends = ends[np.argsort(rng.random(len(ends)))]
        pairs = ends[: len(ends) // 2 * 2].reshape(2, -1)
        low, high = pairs.min(axis=0), pairs.max(axis=0)
        fresh = np.setdiff1d((low * nodes + high)[low != high], keys)
        left = left - np.bincount(fresh // nodes, minlength=nodes) - np.bincount(fresh % nodes, minlength=nodes)
        if not len(fresh):
            break
        keys = np.sort(np.concatenate([keys, fresh]))
    return (keys // nodes).astype(np.int64), (keys % nodes).astype(np.int64)


def with_parallel(a: Ints, b: Ints, share: float, rng: np.random.Generator) -> Ends:
    """As many channels, of which a share are further ones between two nodes that have one already.

    Channels drawn at random are taken away, those excepted that keep the graph connected, and others of these are
    repeated, so that degrees stay much as they were: each that is drawn once, and once more with a probability of 0.28.
    In the snapshot the share is 0.110: 27,100 pairs of nodes have 30,457 channels; 2,404 pairs have more than one,
    1,925 of them two, 316 three, and one 61. There are fewer if the graph has not as many channels to spare.
    """
    wanted = round(share * len(a))
    # Each node has a channel to one of a smaller number: of these channels the first connects it.
    is_spare = np.ones(len(a), dtype=np.bool_)
    is_spare[np.unique(b, return_index=True)[1]] = False
    spare = np.flatnonzero(is_spare)
    spare = spare[np.argsort(rng.random(len(spare)))]
    gone, left = spare[:wanted], spare[wanted:]
    if not len(gone):
        return a, b
    kept = np.setdiff1d(np.arange(len(a)), gone)
    order = left if len(left) else kept
    further = 1 + (np.log(1.0 - rng.random(len(order))) / np.log(_ONE_MORE)).astype(np.int64)
    # If these are too few, it begins again with the first.
    repeated = np.resize(np.repeat(order, further), len(gone))
    chosen = np.sort(np.concatenate([kept, repeated]))
    return a[chosen], b[chosen]


def capacities(a: Ints, b: Ints, degree: Ints, rng: np.random.Generator, *, is_scale_free: bool) -> Ints:
    """The capacity (msat) of each channel: larger ones between nodes with more channels."""
    channels = len(a)
    sizes = _CAPACITY_MEDIAN_SAT * np.exp(_CAPACITY_SIGMA * normal(channels, rng))
    places = np.argsort(np.argsort(np.minimum(degree[a], degree[b]) + rng.random(channels)))
    if not is_scale_free or len(degree) <= MOST_NODES_OF_SMALL:
        by_degree = places / channels - 0.5
        score = _BY_DEGREE_OF_SMALL * by_degree * 12**0.5 + (1 - _BY_DEGREE_OF_SMALL**2) ** 0.5 * normal(channels, rng)
        sizes = np.minimum(np.sort(sizes), _CAPACITY_MOST_SAT)
    else:
        by_degree = np.maximum(logistic((places + 0.5) / channels), _LEAST_SCORE)
        by_node = normal(len(degree), rng)[np.where(degree[a] >= degree[b], a, b)]
        score = _BY_DEGREE * by_degree + _BETWEEN_HUBS * np.maximum(by_degree - _HUB_SCORE, 0) + _BY_NODE * by_node
        score += (1 - _BY_DEGREE**2 - _BY_NODE**2) ** 0.5 * normal(channels, rng)
        sizes = _with_large_ones(np.sort(sizes))
    placed: Floats = sizes[np.argsort(np.argsort(score))]
    return np.maximum(placed, _CAPACITY_LEAST_SAT).astype(np.int64) * 1_000


def _with_large_ones(ascending: Floats) -> Floats:
    """Capacities (sat) of which the largest have the quantiles of the snapshot."""
    at, values = _LARGE_CAPACITY
    shares = (np.arange(len(ascending)) + 0.5) / len(ascending)
    large = np.exp(np.interp(shares, at, np.log(values)))
    return np.where(shares >= at[0], large, np.minimum(ascending, _CAPACITY_MOST_SAT))
