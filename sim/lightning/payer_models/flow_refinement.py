"""Flows of payments and the limits of channels, as in Core Lightning's askrene (plugins/askrene/child/refine.c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from leyden.lightning.routing.pathfinding import EdgePolicies

_LEAST_MSAT, _LEAST_SHARE, _TOLERANCE = 1_000, 0.2, 0.02
_SMALL_MSAT = 10_000


class Flow(NamedTuple):
    """The edges of a route and the amount that arrives."""

    edges: list[int]
    msat: int


@dataclass
class Limits:
    """What edges may carry: `known` has the bounds of those of which something is known, without what is reserved.
    `local` are the payer's own edges, which cost nothing; `disabled` those that are not used."""

    policies: EdgePolicies
    capacity: Sequence[int]
    known: dict[int, tuple[int, int]]
    local: frozenset[int]
    disabled: set[int]
    reserved: dict[int, int] = field(default_factory=dict)

    def bounds(self, edge: int) -> tuple[int, int]:
        """What an edge carries for certain, and at most."""
        low, high = self.known.get(edge) or (0, self.capacity[edge >> 1])
        reserved = self.reserved.get(edge, 0)
        return (max(0, low - reserved), max(0, high - reserved)) if reserved else (low, high)

    def most(self, edge: int) -> int:
        """The largest HTLC that may pass an edge."""
        return min(self.bounds(edge)[1], self.policies.htlc_max_msat[edge])

    def amounts(self, flow: Flow) -> list[int]:
        """The amount on each edge of a flow."""
        return self.policies.route(flow.edges, flow.msat).amounts

    def fee_msat(self, flow: Flow) -> int:
        """The fees of a flow."""
        return self.amounts(flow)[0] - flow.msat

    def blocks(self, flow: Flow) -> int:
        """By how many blocks the first HTLC expires after the last."""
        return self.policies.route(flow.edges, flow.msat).cltv_offsets[0]

    def reserve(self, flow: Flow, *, checked: bool = False) -> bool:
        """Reserve the amounts of a flow; False, and nothing is reserved, if an edge cannot carry it (`checked`)."""
        amounts = self.amounts(flow)
        if checked and any(amount > self.bounds(edge)[1] for edge, amount in zip(flow.edges, amounts, strict=True)):
            return False
        for edge, amount in zip(flow.edges, amounts, strict=True):
            self.reserved[edge] = self.reserved.get(edge, 0) + amount
        return True

    def release(self, flows: list[Flow]) -> None:
        """Undo reservations."""
        for flow in flows:
            for edge, amount in zip(flow.edges, self.amounts(flow), strict=True):
                self.reserved[edge] -= amount

    def deliverable(self, flow: Flow) -> int:
        """The most that the edges of a flow deliver."""
        most = self.most(flow.edges[0])
        for edge in flow.edges[1:]:
            most = min(self._after_fee(most, edge), self.most(edge))
        return most

    def _after_fee(self, amount_msat: int, edge: int) -> int:
        """What a node forwards of an amount."""
        base, ppm = self.policies.base_msat[edge], self.policies.ppm[edge]
        rest = max(0, (amount_msat - base) * 1_000_000 // (1_000_000 + ppm))
        while rest + 1 + base + (rest + 1) * ppm // 1_000_000 <= amount_msat:
            rest += 1
        return rest


def refined(limits: Limits, amount_msat: int, flows: list[Flow]) -> list[Flow]:
    """The flows that edges can carry, with the amount together if they can; edges that are too small are disabled."""
    kept: list[Flow] = []
    for flow in flows:
        most = limits.deliverable(flow)
        if most < _LEAST_MSAT or most / flow.msat < _LEAST_SHARE:
            limits.disabled.add(min(flow.edges, key=limits.most))
        else:
            kept.append(flow._replace(msat=min(flow.msat, most)))
    if not kept:
        return []
    kept = _increased(limits, _without_excess(kept, amount_msat), amount_msat, _TOLERANCE)[0]
    good = []
    for flow in kept:
        small = [
            edge
            for edge, amount in zip(flow.edges, limits.amounts(flow), strict=True)
            if amount < limits.policies.htlc_min_msat[edge]
        ]
        if small:
            limits.disabled.add(small[-1])
        elif flow.msat:
            good.append(flow)
    return sorted(good, key=_by_size)


def _by_size(flow: Flow) -> int:
    return -flow.msat


def _without_excess(flows: list[Flow], amount_msat: int) -> list[Flow]:
    """The flows with no more than an amount together: the smallest are left out, then all deliver less."""
    total = sum(flow.msat for flow in flows)
    excess = total - amount_msat
    if excess <= 0:
        return flows
    kept = sorted(flows, key=_by_size)
    while len(kept) > 1 and kept[-1].msat <= excess:
        excess -= kept.pop().msat
    total, left = sum(flow.msat for flow in kept), excess
    for number, flow in enumerate(kept):
        less = min(int(excess * (flow.msat / total)), left)
        left -= less
        kept[number] = flow._replace(msat=flow.msat - less)
    kept[0] = kept[0]._replace(msat=kept[0].msat - left)
    return kept


def _increased(limits: Limits, flows: list[Flow], amount_msat: int, tolerance: float | None) -> tuple[list[Flow], bool]:
    """The flows with more of what is missing, each by at most a share of it (None: by any); and whether nothing is."""
    ceilings = [amount_msat if tolerance is None else int(flow.msat * (1 + tolerance)) for flow in flows]
    flows = list(flows)
    while (missing := amount_msat - sum(flow.msat for flow in flows)) > 0:
        for flow in flows:
            limits.reserve(flow)
        rooms = []
        for flow, ceiling in zip(flows, ceilings, strict=True):
            limits.release([flow])
            rooms.append(min(limits.deliverable(flow), ceiling) - flow.msat)
            limits.reserve(flow)
        limits.release(flows)
        best = max(range(len(flows)), key=rooms.__getitem__)
        more = missing if missing < _SMALL_MSAT else -(-missing // len(flows))
        if rooms[best] < more:
            return flows, False
        flows[best] = flows[best]._replace(msat=flows[best].msat + more)
    return flows, True


def squashed(limits: Limits, flows: list[Flow]) -> list[Flow]:
    """The flows with those of the same edges as one."""
    found: dict[tuple[int, ...], Flow] = {}
    apart = []
    for flow in flows:
        same = found.get(tuple(flow.edges))
        together = flow if same is None else flow._replace(msat=flow.msat + same.msat)
        if same is not None and together.msat > limits.deliverable(flow):
            apart.append(flow)
        else:
            found[tuple(flow.edges)] = together
    return [*(found[key] for key in sorted(found)), *apart]


def reduced(limits: Limits, flows: list[Flow], amount_msat: int, parts: int) -> list[Flow] | None:
    """At most so many flows with the amount: the largest, which deliver more; None if they cannot."""
    if len(flows) <= parts:
        return flows
    flows, is_whole = _increased(limits, sorted(flows, key=_by_size)[:parts], amount_msat, None)
    return flows if is_whole else None
