"""LND's search for a path (`findPath`). `leyden.lightning.payer_models.lnd` names the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from leyden.lightning.payer_models.lnd_estimators import Estimator, NodeResults
from leyden.lightning.routing.pathfinding import MAX_CLTV_BLOCKS, EdgePolicies, Route
from leyden.lightning.routing.shortest_path_trees import MAX_HOPS, AdjacencyIndex

RISK_FACTOR_BILLIONTHS = 15
_NO_RESULTS: NodeResults = {}


class PathCosts(NamedTuple):
    """What an attempt costs by itself (msat, and millionths of the amount), and the least probability of a path."""

    attempt_msat: int = 100_000
    attempt_ppm: int = 1_000
    min_probability: float = 0.01


class _Label(NamedTuple):
    """The best path found from a node to the receiver."""

    distance: int
    weight: int
    received_msat: int  # what the node has to receive
    blocks: int
    probability: float
    edge: int
    hops: int


class LndSearch(NamedTuple):
    """A search for the route of an amount at `now_ms`.

    `most_fees_msat` is what it may cost. `results` is what the payer remembers, by the first node of a pair, `local`
    what its own channels can send, by edge; `degree` is the number of channels by node.
    """

    payer: int
    target: int
    amount_msat: int
    most_fees_msat: int
    final_cltv_blocks: int
    now_ms: int
    results: Mapping[int, NodeResults]
    local: Mapping[int, int]
    policies: EdgePolicies
    capacity: Sequence[int]
    incoming: AdjacencyIndex
    degree: Sequence[int]
    estimator: Estimator
    costs: PathCosts

    def routes(self) -> list[Route]:
        """The route; none if there is none."""
        edges = self.path()
        return [] if edges is None else [self.policies.route(edges, self.amount_msat)]

    def path(self) -> list[int] | None:
        """The edges of the path with the least distance; None without one that is probable enough.

        The search goes from the receiver to the payer. The distance of a path is the sum of its fees and time lock
        costs, and the attempt cost divided by its probability: a path that was improved is expanded again.
        """
        policies, payer, target, amount_msat = self.policies, self.payer, self.target, self.amount_msat
        source, results, estimator, now = policies.source, self.results, self.estimator, self.now_ms
        capacity, degree, costs = self.capacity, self.degree, self.costs
        attempt_cost = costs.attempt_msat + amount_msat * costs.attempt_ppm // 1_000_000
        most_received = amount_msat + self.most_fees_msat
        most_blocks = MAX_CLTV_BLOCKS - self.final_cltv_blocks
        labels: dict[int, _Label] = {}
        heap: list[tuple[int, float, int, int, _Label]] = []
        label, node, serial = _Label(0, 0, amount_msat, 0, 1.0, -1, 0), target, 0
        while True:
            sent = label.received_msat
            for edge in self.incoming.edges_of(node) if sent <= most_received else ():
                origin = source[edge]
                if origin == target or not policies.htlc_min_msat[edge] <= sent <= policies.htlc_max_msat[edge]:
                    continue
                known, best = results.get(origin, _NO_RESULTS), labels.get(origin)
                if origin == payer:
                    if self.local[edge] < sent:
                        continue
                    fee, blocks, weight = 0, 0, label.weight
                    probability = estimator.local_pair(now, known, node)
                elif policies.disabled[edge] or degree[origin] < 2:  # a node with one channel forwards nothing
                    continue
                else:
                    fee = policies.base_msat[edge] + sent * policies.ppm[edge] // 1_000_000
                    blocks = policies.cltv_delta[edge]
                    weight = label.weight + fee + sent * blocks * RISK_FACTOR_BILLIONTHS // 1_000_000_000
                    # Its probability makes no path cheaper.
                    if best is not None and int(weight + attempt_cost / label.probability) > best.distance:
                        continue
                    probability = estimator.pair(now, known, node, sent, capacity[edge >> 1])
                probability *= label.probability
                if not probability or probability < costs.min_probability or label.blocks + blocks > most_blocks:
                    continue
                distance = int(weight + attempt_cost / probability)
                if best is not None and (
                    distance > best.distance or (distance == best.distance and probability <= best.probability)
                ):
                    continue
                if label.hops == MAX_HOPS:
                    continue
                found = _Label(distance, weight, sent + fee, label.blocks + blocks, probability, edge, label.hops + 1)
                labels[origin] = found
                serial += 1
                heappush(heap, (distance, -probability, serial, origin, found))
            while heap:
                _, _, _, node, label = heappop(heap)
                if labels[node] is label:
                    break
            else:
                return None
            if node == payer:
                break
        edges = []
        while node != target:
            edges.append(labels[node].edge)
            node = policies.target[edges[-1]]
        return edges
