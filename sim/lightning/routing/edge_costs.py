"""Edge costs for amounts of similar size (fee, time lock, probability of success), and trees of the cheapest paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log2
from typing import Any

import numpy as np
import numpy.typing as npt

from leyden.lightning.routing.shortest_path_trees import AdjacencyIndex, Floats, ShortestPathTree
from leyden.lightning.topology.graph import Graph

# LND's weights: a failed attempt costs 100 sat and 0.1 % of the amount (attempt cost), an amount locked for a block
# 15 parts per billion of it (risk factor).
ATTEMPT_MSAT, ATTEMPT_SHARE = 100_000, 0.001
_RISK_PER_BLOCK = 15e-9
_PER_DOUBLING = 2  # amounts within half a doubling share a tree
_MAX_TREES, _MAX_WEIGHTS = 256, 64
_LIMIT = 1e300
_CLOSE = 1e-9  # the same numbers added in another order
_MIN_SHARE = 1e-3  # a channel whose capacity is just the amount may still carry it
_ALMOST = 1 - 1e-9  # logarithms are not exact


def bucket_of(amount_msat: int) -> int:
    """The bucket of amounts that share trees with this one."""
    return int(log2(amount_msat) * _PER_DOUBLING)


class EdgeCosts:
    """The costs of a graph's edges by bucket of amounts, for a payer that knows only public data.

    `source` and `target` are the ends of each edge. `trees` are cached by root and bucket. `former` are those of a
    graph that has the first of these channels.
    """

    outgoing: AdjacencyIndex
    incoming: AdjacencyIndex

    def __init__(
        self, graph: Graph, source: Sequence[int], target: Sequence[int], former: EdgeCosts | None = None
    ) -> None:
        self.source, self.target = source, target
        self._hub = int(graph.degree.argmax())
        outgoing, incoming = (None, None) if former is None else (former.outgoing, former.incoming)
        self.outgoing = AdjacencyIndex(graph.source, graph.target, len(graph.names), outgoing)
        self.incoming = AdjacencyIndex(graph.target, graph.source, len(graph.names), incoming)
        capacity = np.repeat(graph.capacity_msat, 2)
        self.capacity = capacity.astype(np.float64)
        self._base = graph.base_msat.astype(np.float64)
        self._rate = graph.ppm / 1e6 + graph.cltv_delta * _RISK_PER_BLOCK
        self._htlc_min = graph.htlc_min_msat
        self._htlc_max = np.minimum(graph.htlc_max_msat, capacity)
        # A node with one channel forwards nothing; a payer's own edges are no part of the tree.
        self._unusable = graph.disabled | (graph.degree[graph.source] < 2)
        self._weights: dict[int, Floats] = {}
        self._pruned: dict[int, Any] = {}
        self._whole: dict[AdjacencyIndex, Any] = {}
        self.trees: dict[tuple[int, int], ShortestPathTree] = {}

    def tree(self, target: int, bucket: int) -> ShortestPathTree:
        """The tree of the cheapest paths from all nodes to `target`."""
        found = self.trees.get((target, bucket))
        if found is None:
            weights = self.weights(bucket)
            # The tree of the largest node uses all edges: the pruned matrix is computed from it.
            matrix = self._full_matrix(weights, self.incoming) if target == self._hub else self.pruned_matrix(bucket)
            _make_room(self.trees, _MAX_TREES)
            distance = _distances_from(target, matrix)
            found = ShortestPathTree(target, distance, weights, self.outgoing, self.source, self.target)
            self.trees[target, bucket] = found
        return found

    def payer_tree(
        self, payer: int, bucket: int, changed: Mapping[int, float], own: Mapping[int, float]
    ) -> ShortestPathTree:
        """The tree of the cheapest paths from a payer, with `changed` added to weights and `own` replacing them."""
        weights = self.weights(bucket).copy()
        for edge, more in changed.items():
            weights[edge] += more
        for edge, cost in own.items():
            weights[edge] = cost
        distance = _distances_from(payer, edge_matrix(weights[self.outgoing.edges], self.outgoing))
        return ShortestPathTree(payer, distance, weights, self.incoming, self.target, self.source)

    def weights(self, bucket: int) -> Floats:
        """The cost of every edge, infinite if it carries no amount of this bucket; exact amounts are checked later."""
        found = self._weights.get(bucket)
        if found is None:
            lowest, middle, highest = (2 ** ((bucket + more) / _PER_DOUBLING) for more in (0, 0.5, 1))
            unusable = self._unusable | (self._htlc_max < floor(lowest * _ALMOST)) | (self._htlc_min > ceil(highest))
            share = np.maximum((self.capacity + 1.0 - middle) / (self.capacity + 1.0), _MIN_SHARE)
            attempt = ATTEMPT_MSAT + ATTEMPT_SHARE * middle
            # One more msat per hop: of two paths without fees the shorter one is cheaper.
            found = self._base + 1.0 + middle * self._rate - attempt * np.log(share)
            found[unusable] = np.inf
            _make_room(self._weights, _MAX_WEIGHTS)
            self._weights[bucket] = found
        return found

    def pruned_matrix(self, bucket: int) -> Any:
        """The matrix of the edges that can be on a shortest path.

        An edge that costs more than the path over the largest node is on none: three in four are not.
        """
        matrix = self._pruned.get(bucket)
        if matrix is None:
            back, hub, weights = self.incoming, self._hub, self.weights(bucket)
            to_hub = self.tree(hub, bucket).distance
            from_hub = _distances_from(hub, self._full_matrix(weights, self.outgoing))
            by_hub = np.repeat(from_hub, np.diff(back.indptr)) + to_hub[back.ends]
            costs = weights[back.edges]
            matrix = edge_matrix(costs, back, (costs <= by_hub * (1.0 + _CLOSE) + _CLOSE) & (costs < np.inf))
            _make_room(self._pruned, _MAX_WEIGHTS)
            self._pruned[bucket] = matrix
        return matrix

    def _full_matrix(self, weights: Floats, adjacency: AdjacencyIndex) -> Any:
        """The matrix of all edges, valid until the next call: one matrix per index is filled with new weights."""
        matrix = self._whole.get(adjacency)
        if matrix is None:
            matrix = self._whole[adjacency] = edge_matrix(weights[adjacency.edges], adjacency)
        else:
            matrix.data = weights[adjacency.edges]
        return matrix


def _make_room(cache: dict[Any, Any], limit: int) -> None:
    """Remove the oldest entry of a cache that is full."""
    if len(cache) == limit:
        del cache[next(iter(cache))]


def _distances_from(root: int, matrix: Any) -> Floats:
    """The length of the shortest path from `root` to every node."""
    from scipy.sparse.csgraph import dijkstra  # type: ignore[import-untyped]

    # With a limit, edges of infinite weight are never put on scipy's heap.
    distance: Floats = dijkstra(matrix, indices=root, limit=_LIMIT)
    return distance


def edge_matrix(data: Floats, adjacency: AdjacencyIndex, included: npt.NDArray[np.bool_] | None = None) -> Any:
    """A sparse matrix for scipy of weights in the order of `adjacency.edges`; only those in `included`."""
    from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

    columns, rows = adjacency.ends, adjacency.indptr
    if included is not None:
        counts = np.concatenate([[0], np.cumsum(included)])
        data, columns, rows = data[included], columns[included], counts[rows].astype(np.int32)
    return csr_matrix((data, columns, rows), shape=(len(rows) - 1, len(rows) - 1))
