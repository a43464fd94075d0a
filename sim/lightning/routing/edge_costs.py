"""What it costs to pass a channel, for amounts of about one size, and the tree of the cheapest ways to one receiver."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, log2
from typing import Any

import numpy as np
import numpy.typing as npt

from leyden.lightning.routing.shortest_path_trees import AdjacencyIndex, Floats, ShortestPathTree
from leyden.lightning.topology.graph import Graph

# What a payer would pay to avoid things, as LND weighs them: a failed attempt costs 100 sat and 0.1 % of the amount,
# an amount locked for a block 15 parts in a thousand millions.
ATTEMPT_MSAT, ATTEMPT_SHARE = 100_000, 0.001
_RISK_PER_BLOCK = 15e-9
_PER_DOUBLING = 2  # amounts within half a doubling share a tree
_KEPT_TREES, _KEPT_WEIGHTS = 256, 64
_BEYOND = 1e300
_CLOSE = 1e-9  # sums of the same numbers in another order
_LEAST_SHARE = 1e-3  # a channel of just the amount's size may still carry it
_ALMOST = 1 - 1e-9  # logarithms are not exact


def bucket_of(amount_msat: int) -> int:
    """Which amounts this one shares its trees with."""
    return int(log2(amount_msat) * _PER_DOUBLING)


class EdgeCosts:
    """What the edges of one map cost a payer that knows only what everybody knows, by bucket of amounts.

    `source` and `target` are the ends of each edge. `trees` are those that stand, by root and bucket.
    """

    def __init__(self, graph: Graph, source: list[int], target: list[int]) -> None:
        self._source, self._target = source, target
        self._hub = int(graph.degree.argmax())
        self.outgoing = AdjacencyIndex(graph.source, graph.target, len(graph.names))
        self.incoming = AdjacencyIndex(graph.target, graph.source, len(graph.names))
        capacity = np.repeat(graph.capacity_msat, 2)
        self.capacity = capacity.astype(np.float64)
        self._base = graph.base_msat.astype(np.float64)
        self._rate = graph.ppm / 1e6 + graph.cltv_delta * _RISK_PER_BLOCK
        self._least = graph.htlc_min_msat
        self._most = np.minimum(graph.htlc_max_msat, capacity)
        # Who has one channel only forwards nothing; as a payer it begins beside the tree.
        self._unusable = graph.disabled | (graph.degree[graph.source] < 2)
        self._weights: dict[int, Floats] = {}
        self._pruned: dict[int, Any] = {}
        self._whole: dict[AdjacencyIndex, Any] = {}
        self.trees: dict[tuple[int, int], ShortestPathTree] = {}

    def tree(self, target: int, bucket: int) -> ShortestPathTree:
        """The cheapest ways to `target` from everywhere."""
        found = self.trees.get((target, bucket))
        if found is None:
            weights = self.weights(bucket)
            # Towards the largest node all of the map is searched: looking at less of it for others begins with that.
            matrix = self._full_matrix(weights, self.incoming) if target == self._hub else self.pruned_matrix(bucket)
            if len(self.trees) == _KEPT_TREES:
                del self.trees[next(iter(self.trees))]
            distance = _distances_from(target, matrix)
            found = ShortestPathTree(target, distance, weights, self.outgoing, self._source, self._target)
            self.trees[target, bucket] = found
        return found

    def payer_tree(
        self, payer: int, bucket: int, changed: Mapping[int, float], own: Mapping[int, float]
    ) -> ShortestPathTree:
        """The cheapest ways from a payer to everywhere, where some edges cost more, and its own what it says."""
        weights = self.weights(bucket).copy()
        for edge, more in changed.items():
            weights[edge] += more
        for edge, cost in own.items():
            weights[edge] = cost
        distance = _distances_from(payer, _matrix(weights[self.outgoing.edges], self.outgoing))
        return ShortestPathTree(payer, distance, weights, self.incoming, self._target, self._source)

    def weights(self, bucket: int) -> Floats:
        """What every edge costs a payer that knows only what everybody knows, infinity where no amount of this bucket
        can pass. Whether a payer's own amount passes is looked at exactly, later.
        """
        found = self._weights.get(bucket)
        if found is None:
            lowest, middle, highest = (2 ** ((bucket + more) / _PER_DOUBLING) for more in (0, 0.5, 1))
            shut = self._unusable | (self._most < floor(lowest * _ALMOST)) | (self._least > ceil(highest))
            share = np.maximum((self.capacity + 1.0 - middle) / (self.capacity + 1.0), _LEAST_SHARE)
            attempt = ATTEMPT_MSAT + ATTEMPT_SHARE * middle
            # One more msat for each hop: of two free ways the shorter one.
            found = self._base + 1.0 + middle * self._rate - attempt * np.log(share)
            found[shut] = np.inf
            if len(self._weights) == _KEPT_WEIGHTS:
                del self._weights[next(iter(self._weights))]
            self._weights[bucket] = found
        return found

    def pruned_matrix(self, bucket: int) -> Any:
        """The matrix of the edges that are worth a look.

        One that costs more than the way by the largest node is on no shortest way: three in four are not.
        """
        matrix = self._pruned.get(bucket)
        if matrix is None:
            back, hub, weights = self.incoming, self._hub, self.weights(bucket)
            toward = self.tree(hub, bucket).distance
            onward = _distances_from(hub, self._full_matrix(weights, self.outgoing))
            by_hub = np.repeat(onward, np.diff(back.indptr)) + toward[back.ends]
            costs = weights[back.edges]
            matrix = _matrix(costs, back, (costs <= by_hub * (1.0 + _CLOSE) + _CLOSE) & (costs < np.inf))
            if len(self._pruned) == _KEPT_WEIGHTS:
                del self._pruned[next(iter(self._pruned))]
            self._pruned[bucket] = matrix
        return matrix

    def _full_matrix(self, weights: Floats, star: AdjacencyIndex) -> Any:
        """The matrix of all edges, to be used at once: there is one for each star, which is filled anew."""
        matrix = self._whole.get(star)
        if matrix is None:
            matrix = self._whole[star] = _matrix(weights[star.edges], star)
        else:
            matrix.data = weights[star.edges]
        return matrix


def _distances_from(root: int, matrix: Any) -> Floats:
    """The length of the shortest way from `root` to every node."""
    from scipy.sparse.csgraph import dijkstra  # type: ignore[import-untyped]

    # With a limit, edges of infinite weight are never put on scipy's heap.
    distance: Floats = dijkstra(matrix, indices=root, limit=_BEYOND)
    return distance


def _matrix(data: Floats, star: AdjacencyIndex, kept: npt.NDArray[np.bool_] | None = None) -> Any:
    """Weights in a star's order as scipy wants them; only those that are kept."""
    from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

    columns, rows = star.ends, star.indptr
    if kept is not None:
        counts = np.concatenate([[0], np.cumsum(kept)])
        data, columns, rows = data[kept], columns[kept], counts[rows].astype(np.int32)
    return csr_matrix((data, columns, rows), shape=(len(rows) - 1, len(rows) - 1))
