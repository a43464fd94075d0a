"""The search of askrene for flows. `leyden.lightning.payer_models.cln` names the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from leyden.lightning.payer_models.flow_costs import MU_MAX, edge_steps
from leyden.lightning.payer_models.flow_refinement import Flow, Limits, reduced, refined, squashed
from leyden.lightning.payer_models.min_cost_flow import min_cost_flow, paths_of
from leyden.lightning.routing.pathfinding import MAX_CLTV_BLOCKS, Route
from leyden.lightning.routing.shortest_path_trees import MAX_HOPS

UNITS, SINGLE_PATH_MSAT = 1_000, 1_000_000
_MOST_DELAY_WEIGHT = 10.0
_MAX_ROUNDS = 60  # of one search; askrene stops after 10 seconds


class ClnSearch(NamedTuple):
    """A search for routes that deliver an amount together.

    `most_fees_msat` is what they may cost together, `most_parts` their number. `limits` is what each edge may carry, as
    far as the payer knows; what the routes take is reserved in it. `edges_from` gives the edges of a node.
    """

    payer: int
    target: int
    amount_msat: int
    most_fees_msat: int
    most_parts: int
    final_cltv_blocks: int
    limits: Limits
    edges_from: Callable[[int], Sequence[int]]

    def routes(self) -> list[Route]:
        """The routes; none if there are none."""
        limits, fee_budget, left = self.limits, self.most_fees_msat, self.amount_msat
        flows: list[Flow] = []
        mu, delay_weight = 1, 1e-6
        for _ in range(_MAX_ROUNDS):
            if not left:
                break
            new = self._flows(left, mu, delay_weight)
            if new is None:
                return []
            new = refined(limits, left, new)
            delivered = sum(flow.msat for flow in new)
            if not delivered:
                continue
            fees = sum(limits.fee_msat(flow) for flow in new)
            if fees > fee_budget * delivered / left:
                if mu < MU_MAX:
                    mu = 10 if mu == 1 else min(mu + 10, MU_MAX)
                    continue
                if fees > fee_budget:
                    return []
            if self.final_cltv_blocks + max(limits.blocks(flow) for flow in new) > MAX_CLTV_BLOCKS:
                if delay_weight > _MOST_DELAY_WEIGHT:
                    return []
                delay_weight *= 2
                continue
            for flow in new:
                if limits.reserve(flow, checked=True):
                    flows.append(flow)
                    left -= flow.msat
                    fee_budget -= limits.fee_msat(flow)
        else:
            return []
        limits.release(flows)
        chosen = reduced(limits, squashed(limits, flows), self.amount_msat, self.most_parts)
        if chosen is None or sum(map(limits.fee_msat, chosen)) > self.most_fees_msat:
            return []
        return [limits.policies.route(flow.edges, flow.msat) for flow in chosen]

    def _flows(self, amount_msat: int, mu: int, delay_weight: float) -> list[Flow] | None:
        """The cheapest flows of an amount; None if it cannot flow."""
        unit_msat = amount_msat if amount_msat <= SINGLE_PATH_MSAT else max(1, -(-amount_msat // UNITS))
        steps = edge_steps(self.limits, amount_msat, unit_msat, mu, delay_weight)
        ends = self.limits.policies.target
        flow = min_cost_flow(self.payer, self.target, -(-amount_msat // unit_msat), steps, self.edges_from, ends)
        if flow is None:
            return None
        paths = paths_of(self.payer, self.target, flow, ends)
        if any(len(edges) > MAX_HOPS for edges, _ in paths):
            return None
        return [Flow(edges, count * unit_msat) for edges, count in paths]
