"""Ways through the network: what a route costs, how likely it holds, and the best one for an amount."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.lightning.graph import Graph

Floats = npt.NDArray[np.float64]

# What a payer believes of a direction: it carries `low`, does not carry `high` (msat), and since when it knows.
Bounds = tuple[int, int, int]

MOST_HOPS = 20  # BOLT 4: what a message of 1300 bytes has room for
MOST_BLOCKS = 2_016  # two weeks: no payer lets its money be locked for longer

# What a payer would pay to avoid things, as LND weighs them: a failed attempt costs 100 sat and 0.1 % of the amount,
# an amount locked for a block 15 parts in a thousand millions.
_ATTEMPT_MSAT, _ATTEMPT_SHARE = 100_000, 0.001
_RISK_PER_BLOCK = 15e-9
_PER_DOUBLING = 4  # amounts within a quarter of a doubling share a tree
_KEPT_TREES = 256
_BEYOND = 1e300
_KEPT_WEIGHTS = 64


def hop_fee(amount_msat: int, base_msat: int, ppm: int) -> int:
    """What a node asks for forwarding `amount_msat`. BOLT 7: base + amount * proportional / 1,000,000, rounded down."""
    return base_msat + amount_msat * ppm // 1_000_000


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
        self.most: list[int] = graph.htlc_max_msat.tolist()
        self.disabled: list[bool] = graph.disabled.tolist()

    def amounts(self, edges: Sequence[int], amount_msat: int) -> list[int]:
        """What each edge carries so that `amount_msat` arrives: fees add up from the receiver backwards (BOLT 7).

        The first edge is the payer's own and costs nothing.
        """
        amounts = [amount_msat] * len(edges)
        for place in range(len(edges) - 1, 0, -1):
            edge = edges[place]
            amount_msat += self.base[edge] + amount_msat * self.ppm[edge] // 1_000_000
            amounts[place - 1] = amount_msat
        return amounts

    def expiries(self, edges: Sequence[int], final: int) -> list[int]:
        """The block at which the HTLC on each edge expires, when the last one does at block `final` (BOLT 7)."""
        blocks = [final] * len(edges)
        for place in range(len(edges) - 1, 0, -1):
            final += self.delta[edges[place]]
            blocks[place - 1] = final
        return blocks


class Router:
    """Finds routes on one graph, for payers that see capacities and policies but no balances.

    One tree from a receiver serves all payers of about one amount; who knows better, because an attempt failed, is
    given a search of its own.
    """

    def __init__(self, graph: Graph, terms: Terms) -> None:
        self._graph = graph
        self._terms = terms
        self._nodes = len(graph.names)
        order = np.argsort(graph.target, kind="stable")
        self._order = order
        self._place = np.empty_like(order)
        self._place[order] = np.arange(len(order))
        starts = np.zeros(self._nodes + 1, dtype=np.int32)
        np.cumsum(np.bincount(graph.target, minlength=self._nodes), out=starts[1:])
        self._starts = starts
        self._columns = graph.source[order].astype(np.int32)
        self._capacity = np.repeat(graph.capacity_msat, 2)[order].astype(np.float64)
        self._base = graph.base_msat[order].astype(np.float64)
        self._rate = graph.ppm[order] / 1e6 + graph.cltv_delta[order] * _RISK_PER_BLOCK
        self._least, self._most = graph.htlc_min_msat[order], graph.htlc_max_msat[order]
        self._closed = graph.disabled[order]
        self._leaf = graph.degree[self._columns] < 2
        self._matrix: Any = None
        self._weights: dict[int, Floats] = {}
        self._trees: dict[tuple[int, int], tuple[Floats, npt.NDArray[np.int32]]] = {}
        self._pairs: dict[int, list[int]] = {}
        for edge, (a, b) in enumerate(zip(terms.source, terms.target, strict=True)):
            self._pairs.setdefault(a * self._nodes + b, []).append(edge)
        # The edges out of each node, found where those into it are: `2c` and `2c + 1` are one channel.
        self._inward = order.tolist()

    def out_edges(self, node: int) -> list[int]:
        """The edges that begin at a node."""
        return [edge ^ 1 for edge in self._inward[self._starts[node] : self._starts[node + 1]]]

    def route(
        self,
        payer: int,
        target: int,
        amount_msat: int,
        *,
        spendable: Mapping[int, int],
        known: Mapping[int, Bounds],
        fee_limit_msat: int,
        blocks_left: int = MOST_BLOCKS,
    ) -> list[int] | None:
        """The edges of the best route for an amount that has to arrive, or None.

        `spendable` is what each of the payer's own edges can send now; `known` what it learnt about others.
        """
        spendable = {
            edge: msat
            for edge, msat in spendable.items()
            if msat >= amount_msat and (edge not in known or known[edge][1] > amount_msat)
        }
        if not spendable:
            return None
        bucket = int(log2(amount_msat) * _PER_DOUBLING) + 1
        tree = self._tree(target, bucket)
        edges = self._read(tree, payer, target, amount_msat, spendable, known)
        if edges is not None and self._fits(edges, amount_msat, known, fee_limit_msat, blocks_left) is None:
            return edges
        return self._search(payer, target, amount_msat, spendable, known, fee_limit_msat, blocks_left)

    def _search(
        self,
        payer: int,
        target: int,
        amount_msat: int,
        spendable: Mapping[int, int],
        known: Mapping[int, Bounds],
        fee_limit_msat: int,
        blocks_left: int,
    ) -> list[int] | None:
        """A search for this payer and amount alone; an edge that turns out not to fit is left out of the next one."""
        weights = self._weighed(amount_msat)
        for edge, (low, high, _) in known.items():
            place = self._place[edge]
            if amount_msat >= high:
                weights[place] = np.inf
            elif weights[place] < np.inf:
                share = 1.0 if amount_msat <= low else (high - amount_msat) / (high - low)
                weights[place] = self._price(place, amount_msat) - _attempt(amount_msat) * float(np.log(share))
        for _ in range(6):
            edges = self._read(self._grow(target, weights), payer, target, amount_msat, spendable, known)
            if edges is None:
                return None
            unfit = self._fits(edges, amount_msat, known, fee_limit_msat, blocks_left)
            if unfit is None:
                return edges
            weights[self._place[unfit]] = np.inf
        return None

    def _read(
        self,
        tree: tuple[Floats, npt.NDArray[np.int32]],
        payer: int,
        target: int,
        amount_msat: int,
        spendable: Mapping[int, int],
        known: Mapping[int, Bounds],
    ) -> list[int] | None:
        """The best route of a tree that begins with one of the payer's own edges, whose balances it does know."""
        distance, following = tree
        end_of = self._terms.target
        first = sorted((float(distance[end_of[edge]]), edge) for edge in spendable)
        for cost, edge in first:
            if cost == np.inf:
                return None
            edges, node = [edge], end_of[edge]
            while node != target:
                onward = int(following[node])
                if onward == payer or len(edges) == MOST_HOPS:
                    break
                edges.append(self._cheapest(node, onward, amount_msat, known))
                if edges[-1] in known and known[edges[-1]][1] <= amount_msat:
                    break  # the next of the payer's channels may lead around it, without a search of its own
                node = onward
            else:
                if spendable[edge] >= self._terms.amounts(edges, amount_msat)[0]:
                    return edges
        return None

    def _cheapest(self, a: int, b: int, amount_msat: int, known: Mapping[int, Bounds]) -> int:
        """Of the channels between two nodes, the one to use."""
        edges = self._pairs[a * self._nodes + b]
        if len(edges) == 1:
            return edges[0]

        def cost(edge: int) -> tuple[bool, float]:
            place = self._place[edge]
            unfit = edge in known and known[edge][1] <= amount_msat
            unfit = unfit or self._closed[place] or not self._least[place] <= amount_msat <= self._most[place]
            return bool(unfit), self._price(place, amount_msat)

        return min(edges, key=cost)

    def _fits(
        self,
        edges: list[int],
        amount_msat: int,
        known: Mapping[int, Bounds],
        fee_limit_msat: int,
        blocks_left: int,
    ) -> int | None:
        """None when a route can be offered, exactly; otherwise the edge that speaks against it most."""
        terms = self._terms
        amounts = terms.amounts(edges, amount_msat)
        for edge, carried in zip(edges, amounts, strict=True):
            if terms.disabled[edge] or not terms.least[edge] <= carried <= terms.most[edge]:
                return edge
            if edge in known and known[edge][1] <= carried:
                return edge
        if len(edges) > 1 and amounts[0] - amount_msat > fee_limit_msat:
            return max(edges[1:], key=lambda edge: hop_fee(amount_msat, terms.base[edge], terms.ppm[edge]))
        if terms.expiries(edges, 0)[0] > blocks_left:
            return max(edges[1:], key=lambda edge: terms.delta[edge])
        return None

    def _tree(self, target: int, bucket: int) -> tuple[Floats, npt.NDArray[np.int32]]:
        tree = self._trees.get((target, bucket))
        if tree is None:
            weights = self._weights.get(bucket)
            if weights is None:
                if len(self._weights) == _KEPT_WEIGHTS:
                    del self._weights[next(iter(self._weights))]
                weights = self._weights[bucket] = self._weighed(int(2 ** (bucket / _PER_DOUBLING)))
            if len(self._trees) == _KEPT_TREES:
                del self._trees[next(iter(self._trees))]
            tree = self._trees[target, bucket] = self._grow(target, weights)
        return tree

    def _grow(self, target: int, weights: Floats) -> tuple[Floats, npt.NDArray[np.int32]]:
        """The cheapest way from every node to `target`: the distances, and each node's next one."""
        from scipy.sparse import csr_matrix  # type: ignore[import-untyped]
        from scipy.sparse.csgraph import dijkstra  # type: ignore[import-untyped]

        if self._matrix is None:
            self._matrix = csr_matrix((weights, self._columns, self._starts), shape=(self._nodes, self._nodes))
        self._matrix.data = weights
        # With a limit, edges of infinite weight are never put on scipy's heap.
        distance, following = dijkstra(self._matrix, indices=target, return_predecessors=True, limit=_BEYOND)
        return distance, following

    def _weighed(self, amount_msat: int) -> Floats:
        """What every edge costs a payer that knows only what everybody knows; infinity where the amount cannot pass."""
        share = (self._capacity + 1.0 - amount_msat) / (self._capacity + 1.0)
        # Who has one channel only forwards nothing; as a payer it begins beside the tree.
        shut = (share <= 0) | self._leaf | self._closed | (self._least > amount_msat) | (self._most < amount_msat)
        price = self._base + 1.0 + amount_msat * self._rate
        weights: Floats = price - _attempt(amount_msat) * np.log(np.where(shut, 1.0, share))
        weights[shut] = np.inf
        return weights

    def _price(self, place: int, amount_msat: int) -> float:
        # One more msat for each hop: of two free ways the shorter one.
        return float(self._base[place] + 1.0 + amount_msat * self._rate[place])


def _attempt(amount_msat: int) -> float:
    return _ATTEMPT_MSAT + _ATTEMPT_SHARE * amount_msat
