"""The widest path, whose smallest width is the greatest of all paths between two nodes, and the shortest path."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from leyden.lightning.routing.edge_costs import EdgeCosts, edge_matrix
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
    # those that are left.
    tried = most
    while len(levels):
        path = shortest_path(costs, widths >= tried, start, end)
        found = path or found
        levels = levels[levels > tried * (1 + tolerance)] if path else levels[levels < tried]
        middle = len(levels) // 2
        tried = np.partition(levels, middle)[middle] if len(levels) else 0
    return found


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
