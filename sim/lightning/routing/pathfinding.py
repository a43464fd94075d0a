"""Pathfinding: the cheapest route for an amount, by fees, time locks and the probability of success.

The weights are LND's, the probabilities are not: see `sim/lightning/README.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, log
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from leyden.lightning.routing.edge_costs import ATTEMPT_MSAT, ATTEMPT_SHARE, EdgeCosts, bucket_of
from leyden.lightning.routing.shortest_path_trees import MAX_HOPS, CachedPath, SearchLimitReached, ShortestPathTree
from leyden.lightning.topology.graph import Graph

# What a payer learned of an edge: it carried `low` at time `low_at` and failed from `high` (msat) at time `high_at`:
# `(low, high, low_at, high_at)`.
LiquidityBound = tuple[int, int, int, int]

# Two weeks: the longest time lock that a payer accepts, with the final delta (LND: max_cltv_limit), and that a node
# forwards (BOLT 4: max_htlc_cltv).
MAX_CLTV_BLOCKS = 2_016

_MAX_SEARCHES = 12
_MAX_STEPS = 40  # beyond that a tree from the payer is cheaper
_MAX_HINT_STEPS = 400  # beyond that a new tree from the payer is cheaper, as when its own edges are excluded
_ALMOST = 1 - 1e-9  # products of fractions are not exact
_NO_BOUND = 10**18
_COLUMNS = (
    "source", "target", "base_msat", "ppm", "cltv_delta", "htlc_min_msat", "htlc_max_msat", "disabled",
)  # fmt: skip


def hop_fee(amount_msat: int, base_msat: int, ppm: int) -> int:
    """The fee for forwarding `amount_msat`. BOLT 7: base + amount * proportional / 1,000,000, rounded down."""
    return base_msat + amount_msat * ppm // 1_000_000


class Route(NamedTuple):
    """The edges, the amount of each (msat), and by how many blocks its HTLC expires after the last one.

    `checked_policies` are the policies that the route satisfies: while they are in force no hop checks them again.
    """

    edges: list[int]
    amounts: list[int]
    cltv_offsets: list[int]
    checked_policies: object = None


class EdgePolicies:
    """The policies of every edge as tuples, whose items are read much faster than those of arrays, and which the
    garbage collector does not visit. Those of a graph that replaces a `former` one share its columns: a channel that is
    opened is appended to them, and one that is closed changes one of them."""

    __slots__ = (*_COLUMNS, "_arrays")

    source: tuple[int, ...]
    target: tuple[int, ...]
    base_msat: tuple[int, ...]
    ppm: tuple[int, ...]
    cltv_delta: tuple[int, ...]
    htlc_min_msat: tuple[int, ...]
    htlc_max_msat: tuple[int, ...]
    disabled: tuple[bool, ...]

    def __init__(self, graph: Graph, former: EdgePolicies | None = None) -> None:
        self._arrays: dict[str, npt.NDArray[Any]] = {name: getattr(graph, name) for name in _COLUMNS}
        # The capacity of a channel is public.
        self._arrays["htlc_max_msat"] = np.minimum(graph.htlc_max_msat, np.repeat(graph.capacity_msat, 2))
        for name, array in self._arrays.items():
            setattr(self, name, tuple(array.tolist()) if former is None else former._continued(name, array))

    def _continued(self, name: str, array: npt.NDArray[Any]) -> tuple[Any, ...]:
        """The items of a column that begins as this one of the same name, or of another column."""
        items: tuple[Any, ...] = getattr(self, name)
        if len(array) >= len(items) and np.array_equal(array[: len(items)], self._arrays[name]):
            return (*items, *array[len(items) :].tolist()) if len(array) > len(items) else items
        return tuple(array.tolist())

    def column(self, name: str) -> npt.NDArray[Any]:
        """One of the columns as an array; read only."""
        return self._arrays[name]

    def route(self, edges: Sequence[int], amount_msat: int) -> Route:
        """The route over these edges with which `amount_msat` arrives; policies are not checked.

        Fees and deltas add up from the receiver backwards (BOLT 7); the first edge, the payer's own, costs nothing.
        """
        last = len(edges) - 1
        amounts, cltv_offsets, delta = [amount_msat] * len(edges), [0] * len(edges), 0
        for hop in range(last, 0, -1):
            edge = edges[hop]
            amount_msat += self.base_msat[edge] + amount_msat * self.ppm[edge] // 1_000_000
            delta += self.cltv_delta[edge]
            amounts[hop - 1], cltv_offsets[hop - 1] = amount_msat, delta
        return Route(list(edges), amounts, cltv_offsets)


class SearchHint(NamedTuple):
    """The result of a search from the payer, for its next attempt: the bucket of amounts, the tree of the payer, and
    the penalties that the tree includes, by edge."""

    bucket: int
    tree: ShortestPathTree
    included_penalties: Mapping[int, float]


class Router:
    """Finds routes on one graph, for payers that know capacities and policies but no balances.

    One tree towards a receiver serves all payers of similar amounts. For a payer with penalties the tree guides a
    search (A*). A result depends only on the arguments, so forks share a router.
    """

    costs: EdgeCosts

    def __init__(self, graph: Graph, policies: EdgePolicies, former: Router | None = None) -> None:
        """`former` is that of a graph that has the first of these channels."""
        self._policies = policies
        self.costs = EdgeCosts(graph, policies.source, policies.target, None if former is None else former.costs)
        self._trees, self._capacity = self.costs.trees, self.costs.capacity

    def out_edges(self, node: int) -> list[int]:
        """The edges that start at a node; read only."""
        return self.costs.outgoing.edges_of(node)

    def route(
        self,
        payer: int,
        target: int,
        amount_msat: int,
        *,
        spendable_msat: Callable[[int], int],
        bounds: Mapping[int, LiquidityBound],
        fee_limit_msat: int,
        final_cltv_blocks: int = 0,
        hint: SearchHint | None = None,
    ) -> tuple[Route | None, SearchHint | None]:
        """The best route by which an amount arrives, or None, and the hint for the next attempt.

        `spendable_msat` returns what an own edge of the payer can send now; `bounds` are what it learned of edges;
        the last HTLC lives for `final_cltv_blocks`, and no HTLC for more than `MAX_CLTV_BLOCKS`; `hint` is from the
        last attempt of this payment.
        """
        cltv_limit = MAX_CLTV_BLOCKS - final_cltv_blocks
        if cltv_limit < 0:
            return None, hint
        bucket = bucket_of(amount_msat)
        tree = self._trees.get((target, bucket)) or self.costs.tree(target, bucket)
        first = tree.best_first_edge(payer)
        if first is None:
            return None, hint
        rest = spendable_msat(first)
        if tree.precomputed and (rest >= amount_msat or not bounds):
            cheapest = self._cheapest(tree, payer, first, rest, amount_msat, spendable_msat, bounds)
            if (
                cheapest is not None
                and cheapest.amounts[0] - amount_msat <= fee_limit_msat
                and cheapest.cltv_offsets[0] <= cltv_limit
                and len(cheapest.edges) <= MAX_HOPS
            ):
                return cheapest, hint
        excluded: set[int] = set()
        if rest >= amount_msat:
            edges = [first, *tree.path(tree.far_of[first])]
            result = self._priced(edges, amount_msat, bounds, fee_limit_msat, cltv_limit)
            if isinstance(result, int):
                excluded.add(result)
            elif rest >= result.amounts[0] and len(edges) <= MAX_HOPS:
                return result, hint
        if hint is not None and hint.bucket != bucket:
            hint = None
        penalty = self._penalty_of(amount_msat, bounds, excluded)
        penalized = {*bounds, *excluded}
        for _ in range(_MAX_SEARCHES):
            found = None
            if hint is None:
                first_edges = [
                    edge
                    for edge in tree.first_edges(payer)
                    if spendable_msat(edge) >= amount_msat and penalty(edge) is not None
                ]
                try:
                    found = tree.search(payer, first_edges, penalized, penalty, _MAX_STEPS)
                except SearchLimitReached:
                    hint = self._search_hint(payer, bucket, amount_msat, spendable_msat, penalized, penalty)
            if hint is not None:
                for max_steps in (_MAX_HINT_STEPS, -1):
                    more = _beyond(hint.included_penalties, penalty)
                    try:
                        found = hint.tree.search(target, None, penalized, more, max_steps)
                        break
                    except SearchLimitReached:
                        hint = self._search_hint(payer, bucket, amount_msat, spendable_msat, penalized, penalty)
                found = None if found is None else found[::-1]
            if found is None:
                return None, hint
            result = self._priced(found, amount_msat, bounds, fee_limit_msat, cltv_limit)
            if not isinstance(result, int):
                if spendable_msat(found[0]) >= result.amounts[0]:
                    return result, hint
                result = found[0]
            excluded.add(result)
            penalized.add(result)
        return None, hint

    def _penalty_of(
        self, amount_msat: int, bounds: Mapping[int, LiquidityBound], excluded: set[int]
    ) -> Callable[[int], float | None]:
        """The function of an edge's cost to this payer beyond that of the tree; None: the edge cannot be used."""
        attempt = ATTEMPT_MSAT + ATTEMPT_SHARE * amount_msat
        capacity = self._capacity
        most, least = self._policies.htlc_max_msat, self._policies.htlc_min_msat

        def penalty(edge: int) -> float | None:
            if edge in excluded or amount_msat > most[edge] or amount_msat < least[edge]:
                return None
            bound = bounds.get(edge)
            if bound is None:
                return 0.0
            low, high, _, _ = bound
            if amount_msat >= high:
                return None
            if amount_msat <= low:
                return 0.0  # at least as likely as the tree assumes
            expected = capacity.item(edge) + 1
            prior = log(max(expected - amount_msat, 1) / expected)
            return max(0.0, attempt * (prior - log((high - amount_msat) / (high - low))))

        return penalty

    def _priced(
        self,
        edges: list[int],
        amount_msat: int,
        bounds: Mapping[int, LiquidityBound],
        fee_limit_msat: int,
        cltv_limit: int,
    ) -> Route | int:
        """The route over these edges with exact fees; or the edge to exclude if a limit is exceeded."""
        policies = self._policies
        least, most, base, ppm = policies.htlc_min_msat, policies.htlc_max_msat, policies.base_msat, policies.ppm
        _, amounts, cltv_offsets, _ = policies.route(edges, amount_msat)
        for edge, carried_msat in zip(edges[::-1], amounts[::-1], strict=True):
            if carried_msat > most[edge] or carried_msat < least[edge]:
                return edge
            if bounds:
                bound = bounds.get(edge)
                if bound is not None and bound[1] <= carried_msat:
                    return edge
        if amounts[0] - amount_msat > fee_limit_msat:
            return max(edges[1:], key=lambda edge: hop_fee(amount_msat, base[edge], ppm[edge]))
        if cltv_offsets[0] > cltv_limit:
            return max(edges[1:], key=policies.cltv_delta.__getitem__)
        return Route(edges, amounts, cltv_offsets, policies)

    def _cheapest(
        self,
        tree: ShortestPathTree,
        payer: int,
        first: int,
        rest: int,
        amount_msat: int,
        spendable_msat: Callable[[int], int],
        bounds: Mapping[int, LiquidityBound],
    ) -> Route | None:
        """The cheapest path of the tree, which nearly every payer can use; None if a search may be needed.

        `first` is the best first edge and `rest` what it can send now. If that is too little, the next best edge that
        can send the amount is used, unless the path from there leads back to the payer.
        """
        policies = self._policies
        base, ppm, least, most = policies.base_msat, policies.ppm, policies.htlc_min_msat, policies.htlc_max_msat
        other_first = rest < amount_msat
        if other_first:
            for first in tree.first_edges(payer):
                rest = spendable_msat(first)
                if rest >= amount_msat and least[first] <= amount_msat <= most[first]:
                    break
            else:
                return None
        node = tree.far_of[first]
        tail, cltv_offsets, lowest, highest, _, _ = tree.cached_paths.get(node) or self._cached_path(tree, node)
        if not lowest <= amount_msat <= highest:
            return None
        carried_msat, amounts = amount_msat, [amount_msat]
        for edge in tail[::-1]:
            carried_msat += base[edge] + carried_msat * ppm[edge] // 1_000_000
            amounts.append(carried_msat)
        if carried_msat > rest or not least[first] <= carried_msat <= most[first]:
            return None
        edges = [first, *tail]
        if bounds and not bounds.keys().isdisjoint(edges):
            return None
        if other_first and payer in map(tree.far_of.__getitem__, tail):
            return None
        amounts.reverse()
        return Route(edges, amounts, cltv_offsets, policies)

    def _cached_path(self, tree: ShortestPathTree, node: int) -> CachedPath:
        """The path from a node to the root of a tree, with its limits and costs."""
        if node == tree.root:
            path = CachedPath([], [0], 0, _NO_BOUND, 0, 1.0)
        else:
            policies, edge = self._policies, tree.next_edge(node)
            next_node = tree.far_of[edge]
            rest = tree.cached_paths.get(next_node) or self._cached_path(tree, next_node)
            path = CachedPath(
                [edge, *rest.edges],
                [policies.cltv_delta[edge] + rest.cltv_offsets[0], *rest.cltv_offsets],
                max(policies.htlc_min_msat[edge], rest.min_msat),
                min(int(policies.htlc_max_msat[edge] / rest.rate * _ALMOST) - rest.base_msat, rest.max_msat),
                policies.base_msat[edge] + rest.base_msat,
                (1.0 + policies.ppm[edge] / 1e6) * rest.rate,
            )
        tree.cache_path(node, path)
        return path

    def _search_hint(
        self,
        payer: int,
        bucket: int,
        amount_msat: int,
        spendable_msat: Callable[[int], int],
        penalized: Iterable[int],
        penalty: Callable[[int], float | None],
    ) -> SearchHint:
        """A tree from the payer that includes its penalties."""
        included = {edge: more for edge in penalized if (more := penalty(edge)) is not None}
        changed = {edge: included.get(edge, inf) for edge in penalized}
        own = {
            edge: 0.0 if spendable_msat(edge) >= amount_msat and penalty(edge) is not None else inf
            for edge in self.costs.outgoing.edges_of(payer)
        }
        return SearchHint(bucket, self.costs.payer_tree(payer, bucket, changed, own), included)


def _beyond(included: Mapping[int, float], penalty: Callable[[int], float | None]) -> Callable[[int], float | None]:
    """The penalty of an edge beyond that which a hint includes."""

    def more(edge: int) -> float | None:
        now = penalty(edge)
        return None if now is None else max(0.0, now - included.get(edge, 0.0))

    return more
