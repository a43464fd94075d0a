"""Ways through the network: what a route costs, how likely it holds, and the best one for an amount."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, floor, log, log2
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sim.lightning.graph import Graph
from sim.lightning.trees import MOST_HOPS, Floats, Star, TooFar, Tree

# What a payer believes of a direction: it carries `low`, does not carry `high` (msat), and since when it knows.
Bounds = tuple[int, int, int]

MOST_BLOCKS = 2_016  # two weeks: no payer lets its money be locked for longer

# What a payer would pay to avoid things, as LND weighs them: a failed attempt costs 100 sat and 0.1 % of the amount,
# an amount locked for a block 15 parts in a thousand millions.
_ATTEMPT_MSAT, _ATTEMPT_SHARE = 100_000, 0.001
_RISK_PER_BLOCK = 15e-9
_PER_DOUBLING = 2  # amounts within half a doubling share a tree
_KEPT_TREES = 256
_BEYOND = 1e300
_KEPT_WEIGHTS = 64
_MOST_DETOURS = 12
_MOST_LOOKS = 40  # beyond that a search from the other side is cheaper
_CLOSE = 1e-9  # sums of the same numbers in another order
_LEAST_SHARE = 1e-3  # a channel of just the amount's size may still carry it
_ALMOST = 1 - 1e-9  # logarithms are not exact


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
        self._nodes = len(graph.names)
        self._hub = int(graph.degree.argmax())
        self._out = Star(graph.source, graph.target, self._nodes)
        self._in = Star(graph.target, graph.source, self._nodes)
        self._capacity = np.repeat(graph.capacity_msat, 2).astype(np.float64)
        self._base = graph.base_msat.astype(np.float64)
        self._rate = graph.ppm / 1e6 + graph.cltv_delta * _RISK_PER_BLOCK
        self._least = graph.htlc_min_msat
        self._most = np.minimum(graph.htlc_max_msat, np.repeat(graph.capacity_msat, 2))
        # Who has one channel only forwards nothing; as a payer it begins beside the tree.
        self._shut = graph.disabled | (graph.degree[graph.source] < 2)
        self._priced: dict[int, tuple[Floats, Any]] = {}
        self._whole: tuple[Any, Any] | None = None
        self._trees: dict[tuple[int, int], Tree] = {}

    def out_edges(self, node: int) -> list[int]:
        """The edges that begin at a node; not to be changed."""
        return self._out.out(node)

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
        bucket = floor(log2(amount_msat) * _PER_DOUBLING)
        tree = self._tree(target, bucket)
        far_of = tree.far_of
        first = tree.best(payer)
        if first is None:
            return None, guide
        unfit: set[int] = set()
        rest = able(first)
        if rest >= amount_msat:
            edges = [first, *tree.way(far_of[first])]
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
        attempt = _ATTEMPT_MSAT + _ATTEMPT_SHARE * amount_msat
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

    def _tree(self, target: int, bucket: int) -> Tree:
        tree = self._trees.get((target, bucket))
        if tree is None:
            weights, matrix = self._prices(bucket)
            if len(self._trees) == _KEPT_TREES:
                del self._trees[next(iter(self._trees))]
            distance = self._grow(target, matrix)
            terms = self._terms
            tree = Tree(target, distance, weights, self._out, terms.source, terms.target)
            self._trees[target, bucket] = tree
        return tree

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
        weights = self._prices(bucket)[0].copy()
        minded = {edge: more for edge in odd if (more := extra(edge)) is not None}
        for edge in odd:
            weights[edge] += minded.get(edge, np.inf)
        for edge in self._out.out(payer):
            weights[edge] = 0.0 if able(edge) >= amount_msat and extra(edge) is not None else np.inf
        star, terms = self._out, self._terms
        distance = self._grow(payer, _matrix(weights[star.edges], star))
        return Guide(bucket, Tree(payer, distance, weights, self._in, terms.target, terms.source), minded)

    def _grow(self, root: int, matrix: Any) -> Floats:
        """The length of the shortest way from `root` to every node."""
        from scipy.sparse.csgraph import dijkstra  # type: ignore[import-untyped]

        # With a limit, edges of infinite weight are never put on scipy's heap.
        distance: Floats = dijkstra(matrix, indices=root, limit=_BEYOND)
        return distance

    def _prices(self, bucket: int) -> tuple[Floats, Any]:
        """What every edge costs a payer that knows only what everybody knows, infinity where no amount of this bucket
        can pass, and the matrix of what is worth a look. Whether a payer's own amount passes is looked at exactly,
        later.
        """
        found = self._priced.get(bucket)
        if found is not None:
            return found
        lowest, middle, highest = (2 ** ((bucket + more) / _PER_DOUBLING) for more in (0, 0.5, 1))
        shut = self._shut | (self._most < floor(lowest * _ALMOST)) | (self._least > ceil(highest))
        share = np.maximum((self._capacity + 1.0 - middle) / (self._capacity + 1.0), _LEAST_SHARE)
        attempt = _ATTEMPT_MSAT + _ATTEMPT_SHARE * middle
        # One more msat for each hop: of two free ways the shorter one.
        weights: Floats = self._base + 1.0 + middle * self._rate - attempt * np.log(share)
        weights[shut] = np.inf
        # An edge that costs more than the way by the largest node is on no shortest way: three in four are not.
        out, back = self._out, self._in
        if self._whole is None:
            self._whole = _matrix(weights[out.edges], out), _matrix(weights[back.edges], back)
        for matrix, star in zip(self._whole, (out, back), strict=True):
            matrix.data = weights[star.edges]
        onward, toward = (self._grow(self._hub, matrix) for matrix in self._whole)
        by_hub = np.repeat(onward, np.diff(back.indptr)) + toward[back.ends]
        kept = weights[back.edges] <= by_hub * (1.0 + _CLOSE) + _CLOSE
        kept &= weights[back.edges] < np.inf
        found = weights, _matrix(weights[back.edges], back, kept)
        if len(self._priced) == _KEPT_WEIGHTS:
            del self._priced[next(iter(self._priced))]
        self._priced[bucket] = found
        return found


def _since(minded: Mapping[int, float], extra: Callable[[int], float | None]) -> Callable[[int], float | None]:
    """What an edge costs besides what a guide minds already."""

    def more(edge: int) -> float | None:
        now = extra(edge)
        return None if now is None else max(0.0, now - minded.get(edge, 0.0))

    return more


def _matrix(data: Floats, star: Star, kept: npt.NDArray[np.bool_] | None = None) -> Any:
    """Weights in a star's order as scipy wants them; only those that are kept."""
    from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

    columns, rows = star.ends, star.indptr
    if kept is not None:
        counts = np.concatenate([[0], np.cumsum(kept)])
        data, columns, rows = data[kept], columns[kept], counts[rows].astype(np.int32)
    return csr_matrix((data, columns, rows), shape=(len(rows) - 1, len(rows) - 1))
