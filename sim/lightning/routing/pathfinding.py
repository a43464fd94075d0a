"""Ways through the network: what a route costs, how likely it holds, and the best one for an amount."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, log
from typing import NamedTuple

import numpy as np

from leyden.lightning.routing.edge_costs import ATTEMPT_MSAT, ATTEMPT_SHARE, Costs, bucket_of
from leyden.lightning.routing.shortest_path_trees import MOST_HOPS, Lane, TooFar, Tree
from leyden.lightning.topology.graph import Graph

# What a payer believes of a direction: it carries `low`, does not carry `high` (msat), and since when it knows.
Bounds = tuple[int, int, int]

MOST_BLOCKS = 2_016  # two weeks: no payer lets its money be locked for longer

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
    blocks: list[int]
    vetted: object = None


class Terms:
    """The policies of every edge as plain lists, which are read one at a time far faster than arrays."""

    __slots__ = ("base", "delta", "disabled", "least", "most", "ppm", "source", "target")

    def __init__(self, graph: Graph) -> None:
        self.source: list[int] = graph.source.tolist()
        self.target: list[int] = graph.target.tolist()
        self.base: list[int] = graph.base_msat.tolist()
        self.ppm: list[int] = graph.ppm.tolist()
        self.delta: list[int] = graph.cltv_delta.tolist()
        self.least: list[int] = graph.htlc_min_msat.tolist()
        # Everybody sees what a channel holds.
        self.most: list[int] = np.minimum(graph.htlc_max_msat, np.repeat(graph.capacity_msat, 2)).tolist()
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
            amount_msat += self.base[edge] + amount_msat * self.ppm[edge] // 1_000_000
            delta += self.delta[edge]
            amounts[place - 1], blocks[place - 1] = amount_msat, delta
        return Route(list(edges), amounts, blocks)


class Guide(NamedTuple):
    """What a payer worked out for itself, to be given back when it tries again: for amounts of this bucket, what it
    costs to be reached from it, and what that adds for edges that it knew more about."""

    bucket: int
    tree: Tree
    minded: Mapping[int, float]


class Router:
    """Finds routes on one graph, for payers that see capacities and policies but no balances.

    One tree from a receiver serves all payers of about one amount; where a payer knows better, because an attempt
    failed, the tree guides a search around what failed. What is found depends on what is asked alone, so that forks
    may share a router.
    """

    def __init__(self, graph: Graph, terms: Terms) -> None:
        self._terms = terms
        self.costs = Costs(graph, terms.source, terms.target)
        self._trees, self._capacity = self.costs.trees, self.costs.capacity

    def out_edges(self, node: int) -> list[int]:
        """The edges that begin at a node; not to be changed."""
        return self.costs.out.out(node)

    def route(
        self,
        payer: int,
        target: int,
        amount_msat: int,
        *,
        able: Callable[[int], int],
        known: Mapping[int, Bounds],
        fee_limit_msat: int,
        blocks_left: int = MOST_BLOCKS,
        guide: Guide | None = None,
    ) -> tuple[Route | None, Guide | None]:
        """The best route for an amount that has to arrive, or None, and the guide for another try.

        `able` tells what an own edge of the payer can send now (msat); `known` is what it learnt about edges; `guide`
        is from its last try of this payment.
        """
        bucket = bucket_of(amount_msat)
        tree = self._trees.get((target, bucket)) or self.costs.tree(target, bucket)
        first = tree.best(payer)
        if first is None:
            return None, guide
        rest = able(first)
        if tree.often and (rest >= amount_msat or not known):
            plain = self._plain(tree, payer, first, rest, amount_msat, able, known)
            if (
                plain is not None
                and plain.amounts[0] - amount_msat <= fee_limit_msat
                and plain.blocks[0] <= blocks_left
                and len(plain.edges) <= MOST_HOPS
            ):
                return plain, guide
        unfit: set[int] = set()
        if rest >= amount_msat:
            edges = [first, *tree.way(tree.far_of[first])]
            offered = self._offered(edges, amount_msat, known, fee_limit_msat, blocks_left)
            if isinstance(offered, int):
                unfit.add(offered)
            elif rest >= offered.amounts[0] and len(edges) <= MOST_HOPS:
                return offered, guide
        if guide is not None and guide.bucket != bucket:
            guide = None
        extra = self._doubts(amount_msat, known, unfit)
        odd = {*known, *unfit}
        for _ in range(_MOST_DETOURS):
            found = None
            if guide is None:
                firsts = [edge for edge in tree.begin(payer) if able(edge) >= amount_msat and extra(edge) is not None]
                try:
                    found = tree.detour(payer, firsts, odd, extra, _MOST_LOOKS)
                except TooFar:
                    guide = self._guide(payer, bucket, amount_msat, able, odd, extra)
            if guide is not None:
                found = guide.tree.detour(target, None, odd, _since(guide.minded, extra), -1)
                found = None if found is None else found[::-1]
            if found is None:
                return None, guide
            offered = self._offered(found, amount_msat, known, fee_limit_msat, blocks_left)
            if not isinstance(offered, int):
                if able(found[0]) >= offered.amounts[0]:
                    return offered, guide
                offered = found[0]
            unfit.add(offered)
            odd.add(offered)
        return None, guide

    def _doubts(self, amount_msat: int, known: Mapping[int, Bounds], unfit: set[int]) -> Callable[[int], float | None]:
        """What an edge costs a payer besides what everybody would expect; None for one it will not use."""
        attempt = ATTEMPT_MSAT + ATTEMPT_SHARE * amount_msat
        capacity = self._capacity
        most, least = self._terms.most, self._terms.least

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

    def _offered(
        self, edges: list[int], amount_msat: int, known: Mapping[int, Bounds], fee_limit_msat: int, blocks_left: int
    ) -> Route | int:
        """The route over these edges, exactly; or the edge that speaks against it most."""
        terms = self._terms
        base, ppm, least, most, delta = terms.base, terms.ppm, terms.least, terms.most, terms.delta
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

    def _plain(
        self,
        tree: Tree,
        payer: int,
        first: int,
        rest: int,
        amount_msat: int,
        able: Callable[[int], int],
        known: Mapping[int, Bounds],
    ) -> Route | None:
        """The route of a payer that has no reason not to take the best way, which is nearly every one; None where
        anything speaks against it, or might.

        `first` is the best edge to begin with, `rest` what it can send now. Where that is too little, the next best
        one that can send the amount is as good, unless the way from there comes back to the payer.
        """
        terms = self._terms
        base, ppm, least, most = terms.base, terms.ppm, terms.least, terms.most
        second = rest < amount_msat
        if second:
            for first in tree.begin(payer):
                rest = able(first)
                if rest >= amount_msat and least[first] <= amount_msat <= most[first]:
                    break
            else:
                return None
        node = tree.far_of[first]
        tail, blocks, lowest, highest, _, _ = tree.lanes.get(node) or self._lane(tree, node)
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

    def _lane(self, tree: Tree, node: int) -> Lane:
        """The way from a node to a tree's root, and what it takes."""
        if node == tree.root:
            lane = Lane([], [0], 0, _NO_BOUND, 0, 1.0)
        else:
            terms, edge = self._terms, tree.step(node)
            further = tree.far_of[edge]
            rest = tree.lanes.get(further) or self._lane(tree, further)
            lane = Lane(
                [edge, *rest.edges],
                [terms.delta[edge] + rest.blocks[0], *rest.blocks],
                max(terms.least[edge], rest.least),
                min(int(terms.most[edge] / rest.rate * _ALMOST) - rest.bases, rest.most),
                terms.base[edge] + rest.bases,
                (1.0 + terms.ppm[edge] / 1e6) * rest.rate,
            )
        tree.keep_lane(node, lane)
        return lane

    def _guide(
        self,
        payer: int,
        bucket: int,
        amount_msat: int,
        able: Callable[[int], int],
        odd: Iterable[int],
        extra: Callable[[int], float | None],
    ) -> Guide:
        """A tree of a payer's own, from where it stands, that minds all it knows now."""
        minded = {edge: more for edge in odd if (more := extra(edge)) is not None}
        changed = {edge: minded.get(edge, inf) for edge in odd}
        own = {
            edge: 0.0 if able(edge) >= amount_msat and extra(edge) is not None else inf
            for edge in self.costs.out.out(payer)
        }
        return Guide(bucket, self.costs.own_tree(payer, bucket, changed, own), minded)


def _since(minded: Mapping[int, float], extra: Callable[[int], float | None]) -> Callable[[int], float | None]:
    """What an edge costs besides what a guide minds already."""

    def more(edge: int) -> float | None:
        now = extra(edge)
        return None if now is None else max(0.0, now - minded.get(edge, 0.0))

    return more
