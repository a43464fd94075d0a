"""The widest path, whose smallest width is the greatest of all paths between two nodes, and the shortest path."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from leyden.lightning.routing.edge_costs import EdgeCosts, edge_matrix
from leyden.lightning.topology.graph import Ints


def widest_path(costs: EdgeCosts, widths: Ints, start: int, end: int, most: int = 2**62) -> list[int]:
    """The edges of the widest path from a node to another one, and of the widest paths one with the fewest hops; empty
    if there is none. `widths` are by edge: what it can carry (msat), 0 if it is not usable. No path is wider than
    `most`, if the caller knows that."""
    own, last = widths[costs.outgoing.edges_of(start)], widths[costs.incoming.edges_of(end)]
    most = min(most, own.max(initial=0), last.max(initial=0))
    # Mostly one of the ends is the narrowest of the path.
    found = shortest_path(costs, widths >= most, start, end) if most else []
    width = 0 if found or not most else _greatest_width(costs, widths, start, end, most)
    return shortest_path(costs, widths >= width, start, end) if width else found


def _greatest_width(costs: EdgeCosts, widths: Ints, start: int, end: int, most: int) -> int:
    """The width of the widest path, at most `most`; 0 if there is none.

    Bellman and Ford: in each round every node takes the best width over its edges, until no node with a greater width
    than that of `start` changes. There are few rounds, one for each hop of the widest path, and all are in arrays.
    """
    outgoing = costs.outgoing
    nodes = np.flatnonzero(np.diff(outgoing.indptr))
    firsts, by_source = outgoing.indptr[nodes], widths[outgoing.edges]
    best = np.zeros(len(outgoing.indptr) - 1, dtype=np.int64)
    best[end] = most
    while True:
        over_edges = np.maximum.reduceat(np.minimum(by_source, best[outgoing.ends]), firsts)
        changed = over_edges > best[nodes]
        best[nodes[changed]] = over_edges[changed]
        if not (over_edges[changed] > best[start]).any():
            return int(best[start])


def shortest_path(costs: EdgeCosts, usable: npt.NDArray[np.bool_], start: int, end: int) -> list[int]:
    """The edges of a path with the fewest hops over `usable` edges; empty if there is none."""
    from scipy.sparse.csgraph import breadth_first_order  # type: ignore[import-untyped]

    incoming = costs.incoming
    included = usable[incoming.edges]
    _, successors = breadth_first_order(edge_matrix(included.astype(np.float64), incoming, included), end)
    path, node = list[int](), start
    while node != end:
        next_node = int(successors[node])
        if next_node < 0:
            return []
        path.append(
            next(edge for edge in costs.outgoing.edges_of(node) if usable[edge] and costs.target[edge] == next_node)
        )
        node = next_node
    return path
