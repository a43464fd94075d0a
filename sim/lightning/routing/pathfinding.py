"""Ways through the network: what a route costs, how likely it holds, and the best one for an amount."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, log
from typing import NamedTuple

import numpy as np

from leyden.lightning.routing.edge_costs import ATTEMPT_MSAT, ATTEMPT_SHARE, EdgeCosts, bucket_of
from leyden.lightning.routing.shortest_path_trees import MAX_HOPS, CachedPath, SearchLimitReached, ShortestPathTree
from leyden.lightning.topology.graph import Graph

# What a payer believes of a direction: it carries `low`, does not carry `high` (msat), and since when it knows.
LiquidityBound = tuple[int, int, int]

MAX_CLTV_BLOCKS = 2_016  # two weeks: no payer lets its money be locked for longer

_MOST_DETOURS = 12
_MOST_LOOKS = 40  # beyond that a search from the other side is cheaper
_ALMOST = 1 - 1e-9  # products of fractions are not exact
_NO_BOUND = 10**18


def hop_fee(amount_msat: int, base_msat: int, ppm: int) -> int:
    """What a node asks for forwarding `amount_msat`. BOLT 7: base + amount * proportional / 1,000,000, rounded down."""
    return base_msat + amount_msat * ppm // 1_000_000


class Route(NamedTuple):
    """Edges, what each carries (msat) and for how many blocks more than the last one. `vetted` are the terms that were
    kept when it was made: no hop need look at them again while they stand."""

    edges: list[int]
    amounts: list[int]
    cltv_offsets: list[int]
    checked_policies: object = None


class EdgePolicies:
    """The policies of every edge as plain lists, which are read one at a time far faster than arrays."""

    __slots__ = ("base_msat", "cltv_delta", "disabled", "htlc_max_msat", "htlc_min_msat", "ppm", "source", "target")

    def __init__(self, graph: Graph) -> None:
        self.source: list[int] = graph.source.tolist()
        self.target: list[int] = graph.target.tolist()
        self.base_msat: list[int] = graph.base_msat.tolist()
        self.ppm: list[int] = graph.ppm.tolist()
        self.cltv_delta: list[int] = graph.cltv_delta.tolist()
        self.htlc_min_msat: list[int] = graph.htlc_min_msat.tolist()
        # Everybody sees what a channel holds.
        self.htlc_max_msat: list[int] = np.minimum(graph.htlc_max_msat, np.repeat(graph.capacity_msat, 2)).tolist()
        self.disabled: list[bool] = graph.disabled.tolist()

    def route(self, edges: Sequence[int], amount_msat: int) -> Route:
        """The route over these edges with which `amount_msat` arrives, whether or not the hops would take it.

        Fees and deltas add up from the receiver backwards (BOLT 7); the first edge is the payer's own and costs
        nothing.
        """
        last = len(edges) - 1
        amounts, blocks, delta = [amount_msat] * len(edges), [0] * len(edges), 0
        for place in range(last, 0, -1):
            edge = edges[place]
            amount_msat += self.base_msat[edge] + amount_msat * self.ppm[edge] // 1_000_000
            delta += self.cltv_delta[edge]
            amounts[place - 1], blocks[place - 1] = amount_msat, delta
        return Route(list(edges), amounts, blocks)


class SearchHint(NamedTuple):
    """What a payer worked out for itself, to be given back when it tries again: for amounts of this bucket, what it
    costs to be reached from it, and what that adds for edges that it knew more about."""

    bucket: int
    tree: ShortestPathTree
    included_penalties: Mapping[int, float]


class Router:
    """Finds routes on one graph, for payers that see capacities and policies but no balances.

    One tree from a receiver serves all payers of about one amount; where a payer knows better, because an attempt
    failed, the tree guides a search around what failed. What is found depends on what is asked alone, so that forks
    may share a router.
    """

    def __init__(self, graph: Graph, terms: EdgePolicies) -> None:
        self._policies = terms
        self.costs = EdgeCosts(graph, terms.source, terms.target)
        self._trees, self._capacity = self.costs.trees, self.costs.capacity

    def out_edges(self, node: int) -> list[int]:
        """The edges that begin at a node; not to be changed."""
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
        max_cltv_blocks: int = MAX_CLTV_BLOCKS,
        hint: SearchHint | None = None,
    ) -> tuple[Route | None, SearchHint | None]:
        """The best route for an amount that has to arrive, or None, and the guide for another try.

        `able` tells what an own edge of the payer can send now (msat); `known` is what it learnt about edges; `guide`
        is from its last try of this payment.
        """
        bucket = bucket_of(amount_msat)
        tree = self._trees.get((target, bucket)) or self.costs.tree(target, bucket)
        first = tree.best_first_edge(payer)
        if first is None:
            return None, hint
        rest = spendable_msat(first)
        if tree.precomputed and (rest >= amount_msat or not bounds):
            plain = self._cheapest(tree, payer, first, rest, amount_msat, spendable_msat, bounds)
            if (
                plain is not None
                and plain.amounts[0] - amount_msat <= fee_limit_msat
                and plain.cltv_offsets[0] <= max_cltv_blocks
                and len(plain.edges) <= MAX_HOPS
            ):
                return plain, hint
        unfit: set[int] = set()
        if rest >= amount_msat:
            edges = [first, *tree.path(tree.far_of[first])]
            offered = self._priced(edges, amount_msat, bounds, fee_limit_msat, max_cltv_blocks)
            if isinstance(offered, int):
                unfit.add(offered)
            elif rest >= offered.amounts[0] and len(edges) <= MAX_HOPS:
                return offered, hint
        if hint is not None and hint.bucket != bucket:
            hint = None
        extra = self._penalty_of(amount_msat, bounds, unfit)
        odd = {*bounds, *unfit}
        for _ in range(_MOST_DETOURS):
            found = None
            if hint is None:
                firsts = [
                    edge
                    for edge in tree.first_edges(payer)
                    if spendable_msat(edge) >= amount_msat and extra(edge) is not None
                ]
                try:
                    found = tree.search(payer, firsts, odd, extra, _MOST_LOOKS)
                except SearchLimitReached:
                    hint = self._search_hint(payer, bucket, amount_msat, spendable_msat, odd, extra)
            if hint is not None:
                found = hint.tree.search(target, None, odd, _since(hint.included_penalties, extra), -1)
                found = None if found is None else found[::-1]
            if found is None:
                return None, hint
            offered = self._priced(found, amount_msat, bounds, fee_limit_msat, max_cltv_blocks)
            if not isinstance(offered, int):
                if spendable_msat(found[0]) >= offered.amounts[0]:
                    return offered, hint
                offered = found[0]
            unfit.add(offered)
            odd.add(offered)
        return None, hint

    def _penalty_of(
        self, amount_msat: int, known: Mapping[int, LiquidityBound], unfit: set[int]
    ) -> Callable[[int], float | None]:
        """What an edge costs a payer besides what everybody would expect; None for one it will not use."""
        attempt = ATTEMPT_MSAT + ATTEMPT_SHARE * amount_msat
        capacity = self._capacity
        most, least = self._policies.htlc_max_msat, self._policies.htlc_min_msat

        def extra(edge: int) -> float | None:
            if edge in unfit or amount_msat > most[edge] or amount_msat < least[edge]:
                return None
            belief = known.get(edge)
            if belief is None:
                return 0.0
            low, high, _ = belief
            if amount_msat >= high:
                return None
            if amount_msat <= low:
                return 0.0  # no dearer than the tree says
            expected = capacity.item(edge) + 1
            prior = log(max(expected - amount_msat, 1) / expected)
            return max(0.0, attempt * (prior - log((high - amount_msat) / (high - low))))

        return extra

    def _priced(
        self,
        edges: list[int],
        amount_msat: int,
        known: Mapping[int, LiquidityBound],
        fee_limit_msat: int,
        blocks_left: int,
    ) -> Route | int:
        """The route over these edges, exactly; or the edge that speaks against it most."""
        terms = self._policies
        base, ppm, least, most, delta = (
            terms.base_msat,
            terms.ppm,
            terms.htlc_min_msat,
            terms.htlc_max_msat,
            terms.cltv_delta,
        )
        place, carried, waited = len(edges) - 1, amount_msat, 0
        amounts, blocks = [carried] * len(edges), [0] * len(edges)
        while True:
            edge = edges[place]
            if carried > most[edge] or carried < least[edge]:
                return edge
            if known:
                belief = known.get(edge)
                if belief is not None and belief[1] <= carried:
                    return edge
            if not place:
                break
            carried += base[edge] + carried * ppm[edge] // 1_000_000
            waited += delta[edge]
            place -= 1
            amounts[place], blocks[place] = carried, waited
        if carried - amount_msat > fee_limit_msat:
            return max(edges[1:], key=lambda edge: hop_fee(amount_msat, base[edge], ppm[edge]))
        if waited > blocks_left:
            return max(edges[1:], key=lambda edge: delta[edge])
        return Route(edges, amounts, blocks, terms)

    def _cheapest(
        self,
        tree: ShortestPathTree,
        payer: int,
        first: int,
        rest: int,
        amount_msat: int,
        able: Callable[[int], int],
        known: Mapping[int, LiquidityBound],
    ) -> Route | None:
        """The route of a payer that has no reason not to take the best way, which is nearly every one; None where
        anything speaks against it, or might.

        `first` is the best edge to begin with, `rest` what it can send now. Where that is too little, the next best
        one that can send the amount is as good, unless the way from there comes back to the payer.
        """
        terms = self._policies
        base, ppm, least, most = terms.base_msat, terms.ppm, terms.htlc_min_msat, terms.htlc_max_msat
        second = rest < amount_msat
        if second:
            for first in tree.first_edges(payer):
                rest = able(first)
                if rest >= amount_msat and least[first] <= amount_msat <= most[first]:
                    break
            else:
                return None
        node = tree.far_of[first]
        tail, blocks, lowest, highest, _, _ = tree.cached_paths.get(node) or self._cached_path(tree, node)
        if not lowest <= amount_msat <= highest:
            return None
        carried, amounts = amount_msat, [amount_msat]
        for edge in tail[::-1]:
            carried += base[edge] + carried * ppm[edge] // 1_000_000
            amounts.append(carried)
        if carried > rest or not least[first] <= carried <= most[first]:
            return None
        edges = [first, *tail]
        if known and not known.keys().isdisjoint(edges):
            return None
        if second and payer in map(tree.far_of.__getitem__, tail):
            return None
        amounts.reverse()
        return Route(edges, amounts, blocks, terms)

    def _cached_path(self, tree: ShortestPathTree, node: int) -> CachedPath:
        """The way from a node to a tree's root, and what it takes."""
        if node == tree.root:
            lane = CachedPath([], [0], 0, _NO_BOUND, 0, 1.0)
        else:
            terms, edge = self._policies, tree.next_edge(node)
            further = tree.far_of[edge]
            rest = tree.cached_paths.get(further) or self._cached_path(tree, further)
            lane = CachedPath(
                [edge, *rest.edges],
                [terms.cltv_delta[edge] + rest.cltv_offsets[0], *rest.cltv_offsets],
                max(terms.htlc_min_msat[edge], rest.min_msat),
                min(int(terms.htlc_max_msat[edge] / rest.rate * _ALMOST) - rest.base_msat, rest.max_msat),
                terms.base_msat[edge] + rest.base_msat,
                (1.0 + terms.ppm[edge] / 1e6) * rest.rate,
            )
        tree.cache_path(node, lane)
        return lane

    def _search_hint(
        self,
        payer: int,
        bucket: int,
        amount_msat: int,
        able: Callable[[int], int],
        odd: Iterable[int],
        extra: Callable[[int], float | None],
    ) -> SearchHint:
        """A tree of a payer's own, from where it stands, that minds all it knows now."""
        minded = {edge: more for edge in odd if (more := extra(edge)) is not None}
        changed = {edge: minded.get(edge, inf) for edge in odd}
        own = {
            edge: 0.0 if able(edge) >= amount_msat and extra(edge) is not None else inf
            for edge in self.costs.outgoing.edges_of(payer)
        }
        return SearchHint(bucket, self.costs.payer_tree(payer, bucket, changed, own), minded)


def _since(minded: Mapping[int, float], extra: Callable[[int], float | None]) -> Callable[[int], float | None]:
    """What an edge costs besides what a guide minds already."""

    def more(edge: int) -> float | None:
        now = extra(edge)
        return None if now is None else max(0.0, now - minded.get(edge, 0.0))

    return more
