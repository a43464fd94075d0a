"""Shortest-path trees: the cheapest paths from all nodes to one, shared by all payers of that receiver."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MAX_HOPS = 20  # BOLT 4: the hops for which an onion of 1300 bytes has space
_MAX_PATHS, _MAX_RANKED = 2_000, 500  # per tree
_INFINITE = float("inf")
_FEW = 24  # beyond that numpy is faster
PRECOMPUTE_AFTER = 60  # after so many queries the best edges of all nodes are computed at once


class CachedPath(NamedTuple):
    """A path to the root. `cltv_offsets` are those of the edge before it and of each of its edges. All edges carry any
    amount from `min_msat` to `max_msat`; the edge before it then carries at most (amount + `base_msat`) * `rate`."""

    edges: list[int]
    cltv_offsets: list[int]
    min_msat: int
    max_msat: int
    base_msat: int
    rate: float


class AdjacencyIndex:
    """The edges of a graph by their source node (or, reversed, by their target): an adjacency list in arrays.

    `edges[starts[n]:starts[n + 1]]` are the edges of node `n`; `ends` are their other ends. That of a graph
    which has more edges than a `former` one is built from that one.
    """

    __slots__ = ("_firsts", "edges", "ends", "indptr", "own", "starts")

    edges: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int32]

    def __init__(
        self,
        source: npt.NDArray[np.int64],
        target: npt.NDArray[np.int64],
        nodes: int,
        former: AdjacencyIndex | None = None,
    ) -> None:
        if former is None:
            self.edges = np.argsort(source, kind="stable").astype(np.int32)
        else:
            more = np.arange(len(former.edges), len(source), dtype=np.int32)
            self.edges = np.insert(former.edges, former.indptr[source[more] + 1], more)
        self.ends = target[self.edges].astype(np.int32)
        counts = np.zeros(nodes + 1, dtype=np.int64)
        np.cumsum(np.bincount(source, minlength=nodes), out=counts[1:])
        self.indptr = counts.astype(np.int32)
        self.starts: list[int] = counts.tolist()
        self.own: dict[int, list[int]] = {}
        # The nodes that have edges, where their edges start, and for each edge the place of its node among these.
        self._firsts: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None

    def cheapest_edges(self, costs: Floats) -> list[int]:
        """The first of the cheapest edges of each node, by costs in the order of `edges`; -1 if none is finite."""
        if self._firsts is None:
            counts = np.diff(self.indptr)
            nodes = np.flatnonzero(counts)
            self._firsts = nodes, self.indptr[nodes].astype(np.int64), np.repeat(np.arange(len(nodes)), counts[nodes])
        nodes, starts, owner = self._firsts
        cheapest = np.flatnonzero((costs == np.minimum.reduceat(costs, starts)[owner]) & (costs < np.inf))
        found = np.full(len(self.indptr) - 1, -1, dtype=np.int64)
        # The last value written stays, which is the first of equals.
        found[nodes[owner[cheapest[::-1]]]] = self.edges[cheapest[::-1]]
        edges: list[int] = found.tolist()
        return edges

    def edges_of(self, node: int) -> list[int]:
        """The edges of a node; read only."""
        found = self.own.get(node)
        if found is None:
            found = self.own[node] = self.edges[self.starts[node] : self.starts[node + 1]].tolist()
        return found


class SearchLimitReached(Exception):
    """A search took too many steps: a tree from the payer is cheaper."""


class ShortestPathTree:
    """The cheapest paths from all nodes to `root`; or, with all edges reversed, from `root` to all nodes.

    `weights` are by edge, `distance` (to the root) by node; `near_of` and `far_of` are the two ends of an edge, the
    second being nearer to the root. Results are cached; when `precomputed`, the best edges of all nodes are known.
    """

    __slots__ = (
        "_all_first_edges",
        "_all_next_edges",
        "_first_edges",
        "_next_edges",
        "_queries",
        "_ranked_edges",
        "adjacency",
        "cached_paths",
        "distance",
        "far_of",
        "near_of",
        "precomputed",
        "root",
        "weights",
    )  # fmt: skip

    def __init__(
        self,
        root: int,
        distance: Floats,
        weights: Floats,
        adjacency: AdjacencyIndex,
        near_of: Sequence[int],
        far_of: Sequence[int],
    ) -> None:
        self.root, self.distance, self.weights, self.adjacency = root, distance, weights, adjacency
        self.near_of, self.far_of = near_of, far_of
        self._queries = 0
        self.precomputed = False
        self._all_first_edges: list[int] | None = None
        self._all_next_edges: list[int] | None = None
        self._next_edges: dict[int, int] = {}
        self.cached_paths: dict[int, CachedPath] = {}
        self._ranked_edges: dict[int, tuple[list[int], list[float]]] = {}
        self._first_edges: dict[int, list[int]] = {}

    def best_first_edge(self, payer: int) -> int | None:
        """The first of `first_edges`, without ranking the others; None if there is none."""
        if self._all_first_edges is not None:
            edge = self._all_first_edges[payer]
            return edge if edge >= 0 else None
        self._queries += 1
        if self._queries == PRECOMPUTE_AFTER:
            costs = self.distance[self.adjacency.ends]
            self.precomputed = True
            self._all_first_edges, self._all_next_edges = (
                self.adjacency.cheapest_edges(costs),
                self.adjacency.cheapest_edges(costs + self.weights[self.adjacency.edges]),
            )
        found = self._first_edges.get(payer)
        if found is not None:
            return found[0] if found else None
        own = self.adjacency.edges_of(payer)
        if len(own) > _FEW:
            return next(iter(self.first_edges(payer)), None)
        cost_of, far_of, least, best = self.distance.item, self.far_of, _INFINITE, None
        for edge in own:
            cost = cost_of(far_of[edge])
            if cost < least:
                least, best = cost, edge
        return best

    def first_edges(self, payer: int) -> list[int]:
        """A payer's own edges, the best first, without those from which the root cannot be reached.

        Own edges cost the payer nothing: they are ranked by the distance of their other end.
        """
        found = self._first_edges.get(payer)
        if found is None:
            if len(self._first_edges) > _MAX_PATHS:
                self._first_edges.clear()
            adjacency, own = self.adjacency, self.adjacency.edges_of(payer)
            if len(own) > _FEW:
                some = slice(adjacency.starts[payer], adjacency.starts[payer + 1])
                costs = self.distance[adjacency.ends[some]]
                order = np.argsort(costs, kind="stable")
                found = adjacency.edges[some][order[: np.count_nonzero(costs < np.inf)]].tolist()
            else:
                cost_of, far_of = self.distance.item, self.far_of
                ranked = [(cost_of(far_of[edge]), edge) for edge in own]
                if len(ranked) > 1:
                    ranked.sort()
                found = [edge for cost, edge in ranked if cost < _INFINITE]
            self._first_edges[payer] = found
        return found

    def next_edge(self, node: int) -> int:
        """The first edge of the cheapest path from a node, which is not the root and can reach it."""
        if self._all_next_edges is not None:
            return self._all_next_edges[node]
        found = self._next_edges.get(node)
        if found is None:
            adjacency = self.adjacency
            some = slice(adjacency.starts[node], adjacency.starts[node + 1])
            # The first of equals: ties do not depend on earlier queries.
            best = (self.weights[adjacency.edges[some]] + self.distance[adjacency.ends[some]]).argmin()
            found = self._next_edges[node] = int(adjacency.edges[some][best])
        return found

    def path(self, node: int) -> list[int]:
        """The edges of the cheapest path from a node that can reach the root."""
        found: list[int] = []
        while node != self.root:
            found.append(self.next_edge(node))
            node = self.far_of[found[-1]]
        return found

    def cache_path(self, node: int, path: CachedPath) -> None:
        """Cache the path from a node, up to a number of nodes."""
        if len(self.cached_paths) < _MAX_PATHS:
            self.cached_paths[node] = path

    def ranked_edges(self, node: int) -> tuple[list[int], list[float]]:
        """The edges of a node and the cost of the path over each, the cheapest first, without unusable ones."""
        found = self._ranked_edges.get(node)
        if found is None:
            adjacency = self.adjacency
            some = slice(adjacency.starts[node], adjacency.starts[node + 1])
            costs = self.weights[adjacency.edges[some]] + self.distance[adjacency.ends[some]]
            order = np.argsort(costs, kind="stable")
            order = order[: np.count_nonzero(costs < np.inf)]
            found = adjacency.edges[some][order].tolist(), costs[order].tolist()
            if len(self._ranked_edges) > _MAX_RANKED:
                self._ranked_edges.clear()
            self._ranked_edges[node] = found
        return found

    def search(
        self,
        start: int,
        first_edges: list[int] | None,
        penalized: Container[int],
        penalty: Callable[[int], float | None],
        max_steps: int,
    ) -> list[int] | None:
        """The cheapest path from `start` to the root when the edges in `penalized` cost more than in the tree.

        It starts with one of `first_edges`, which cost nothing, or with any edge. `penalty(edge)` is the additional
        cost of a penalized edge, 0 or more, or None if it cannot be used. The search is A*: the distances of the tree
        never overestimate. Raises `SearchLimitReached` after `max_steps`, which penalties near the root cause.
        """
        distance, root, far_of = self.distance, self.root, self.far_of
        # By cost of the whole path: (cost, serial, next edge, its rank among those of its node, cost up to that node,
        # hops with it, whether its penalty was added).
        heap: list[tuple[float, int, int, int, float, int, bool]] = []
        came_from: dict[int, int] = {start: -1}
        serial = 0
        if first_edges is None:
            edges, costs = self.ranked_edges(start)
            if edges:
                heap.append((costs[0], serial, edges[0], 0, 0.0, 1, False))
        else:
            for edge in first_edges:
                serial += 1
                heap.append((distance.item(far_of[edge]), serial, edge, -1, 0.0, 1, True))
            heapify(heap)
        while heap:
            max_steps -= 1
            if not max_steps:
                raise SearchLimitReached
            cost, _, edge, rank, spent, hops, paid = heappop(heap)
            if rank >= 0:
                # The node's next edge is looked at when nothing else is as cheap.
                edges, costs = self.ranked_edges(self.near_of[edge])
                if rank + 1 < len(edges):
                    serial += 1
                    heappush(heap, (spent + costs[rank + 1], serial, edges[rank + 1], rank + 1, spent, hops, False))
            end = far_of[edge]
            if end in came_from:
                continue
            if not paid and edge in penalized:
                more = penalty(edge)
                if more is None:
                    continue
                if more > 0.0:
                    serial += 1
                    heappush(heap, (cost + more, serial, edge, -1, spent, hops, True))
                    continue
            came_from[end] = edge
            if end == root:
                return _path_to(came_from, end, start, self.near_of)
            if hops < MAX_HOPS:
                edges, costs = self.ranked_edges(end)
                if edges:
                    serial += 1
                    spent = cost - distance.item(end)
                    heappush(heap, (spent + costs[0], serial, edges[0], 0, spent, hops + 1, False))
        return None


def _path_to(came_from: dict[int, int], node: int, begin: int, near_of: Sequence[int]) -> list[int]:
    edges = []
    while node != begin:
        edge = came_from[node]
        edges.append(edge)
        node = near_of[edge]
    return edges[::-1]
