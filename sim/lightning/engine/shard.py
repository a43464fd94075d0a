"""A shard: one part of a payment on one route, from the first HTLC to the result at the payer."""

from __future__ import annotations

from typing import Any

from leyden.lightning.routing.pathfinding import Route
from leyden.lightning.undo_log import Recorded

FORWARD, BACKWARD = 0, 1
Times = tuple[tuple[int, int | None], ...]


class Shard(Recorded):
    """One part of a payment, with HTLCs in flight on the edges up to `hop` (-1: on none).

    Edge `n` of its route carries `amounts[n]` msat until block `final_expiry + cltv_offsets[n]`. `latency_seed` picks
    its latencies. `settled` is None until it is resolved; a failure has a `code`, a `reporter_hop` (the hop of the node
    that failed it, 0 being the payer) and a `reason`, which the payer does not receive. `status` is what the receiver
    does with it until then. `times` are the times at which each hop was locked and unlocked, if the engine traces.
    `edges` are those that the payer chose; `taken` are those over which it goes, of which one may be of another channel
    to the same peer (`leyden.lightning.engine.channels.Channels.other_edge`). The payer does not learn of it.
    """

    __slots__ = (
        "amounts", "checked_policies", "cltv_offsets", "code", "edges", "final_expiry", "hop", "id", "latency_seed",
        "number", "owner", "phase", "reason", "reporter_hop", "settled", "status", "taken", "times",
    )  # fmt: skip
    recorded_fields = ("hop", "phase", "settled", "code", "reporter_hop", "reason", "status", "taken", "times")

    def __init__(self, id: int, owner: Any, number: int, latency_seed: int, route: Route, final_expiry: int) -> None:
        self.id = id
        self.owner = owner
        self.number = number
        self.latency_seed = latency_seed
        self.edges, self.amounts, self.cltv_offsets, self.checked_policies = route
        self.taken = self.edges
        self.final_expiry = final_expiry
        self.hop = -1
        self.phase = FORWARD
        self.settled: bool | None = None
        self.status = self.reason = ""
        self.code = self.reporter_hop = 0
        self.times: Times = ()

    @property
    def expiries(self) -> list[int]:
        """The block height at which the HTLC of each hop expires."""
        return [self.final_expiry + blocks for blocks in self.cltv_offsets]
