"""The widest path, whose smallest width is the greatest of all paths between two nodes, and the shortest path."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from leyden.lightning.routing.edge_costs import EdgeCosts
from leyden.lightning.topology.graph import Ints


def widest_path(
    costs: EdgeCosts, widths: Ints, start: int, end: int, most: int = 2**62, tolerance: float = 0.0
) -> list[int]:
    """The edges of the widest path from a node to another one, and of the widest paths one with the fewest hops; empty
    if there is none. `widths` are by edge: what it can carry (msat), 0 if it is not usable. No path is wider than
    `most`, if the caller knows that. With a `tolerance` of 0.05 another path may be 5 % wider, and fewer searches
    run."""
    own, last = widths[costs.outgoing.edges_of(start)], widths[costs.incoming.edges_of(end)]
    most = min(most, own.max(initial=0), last.max(initial=0))
    levels = widths[(widths > 0) & (widths <= most)]
    found: list[int] = []
    # Mostly one of the ends is the narrowest of the path, so the widest level is tried first, and then the median of
    # those that are left. A wider path has only edges of those over which the last one was found.
    tried, kept = most, _every(costs)
    kept_widths = widths[kept.edges]
    while len(levels):
        included = kept_widths >= tried
        wide = kept.only(included)
        path = _path(costs, widths >= tried, wide, start, end)
        if path:
            found, kept, kept_widths = path, wide, kept_widths[included]
        levels = levels[levels > tried * (1 + tolerance)] if path else levels[levels < tried]
        middle = len(levels) // 2
        tried = np.partition(levels, middle)[middle] if len(levels) else 0
    return found


def shortest_path(costs: EdgeCosts, usable: npt.NDArray[np.bool_], start: int, end: int) -> list[int]:
    """The edges of a path with the fewest hops over `usable` edges; empty if there is none."""
    every = _every(costs)
    return _path(costs, usable, every.only(usable[every.edges]), start, end)


class _Incoming(NamedTuple):
    """Some edges by the node where they end, as in an `AdjacencyIndex`."""

    edges: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int32]

    def only(self, included: npt.NDArray[np.bool_]) -> _Incoming:
        """Those of them that are included."""
        counts = np.zeros(len(included) + 1, dtype=np.int32)
        np.cumsum(included, out=counts[1:])
        return _Incoming(self.edges[included], self.ends[included], counts[self.indptr])


def _every(costs: EdgeCosts) -> _Incoming:
    return _Incoming(costs.incoming.edges, costs.incoming.ends, costs.incoming.indptr)


def _path(costs: EdgeCosts, usable: npt.NDArray[np.bool_], incoming: _Incoming, start: int, end: int) -> list[int]:
    from scipy.sparse import csr_matrix  # type: ignore[import-untyped]
    from scipy.sparse.csgraph import breadth_first_order  # type: ignore[import-untyped]

    nodes = len(incoming.indptr) - 1
    matrix = csr_matrix((np.ones(len(incoming.edges)), incoming.ends, incoming.indptr), shape=(nodes, nodes))
    _, successors = breadth_first_order(matrix, end)
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
