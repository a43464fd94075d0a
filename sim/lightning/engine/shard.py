"""A shard: one part of a payment on one route, from the payer's first channel to the answer that comes back."""

from __future__ import annotations

from typing import Any

from leyden.lightning.engine.undo_log import Recorded
from leyden.lightning.routing.pathfinding import Route

FORWARD, BACKWARD, ALARM = 0, 1, 2
Times = tuple[tuple[int, int | None], ...]


class Shard(Recorded):
    """One part of a payment, locked on the edges up to `place` (-1: on none).

    Edge `n` of its route carries `amounts[n]` msat until block `final + blocks[n]`. `luck` picks its latencies. On the
    way out `answer` is None, then whether it was settled; `code` and `reporter` (the place in the route of the node
    that answered, 0 being the payer) come back with a failure, and `why`, which the payer is not told. `fate` is what
    the receiver does with it while it keeps it. `times` are the
    instants at which each hop was locked and unlocked, where the engine writes them down.
    """

    __slots__ = (
        "amounts",
        "checked_policies",
        "cltv_offsets",
        "code",
        "edges",
        "final_expiry",
        "hop",
        "id",
        "latency_seed",
        "number",
        "owner",
        "phase",
        "reason",
        "reporter_hop",
        "settled",
        "status",
        "times",
    )  # fmt: skip
    recorded_fields = ("hop", "phase", "settled", "code", "reporter_hop", "reason", "status", "times")

    def __init__(self, id: int, owner: Any, number: int, luck: int, route: Route, final: int) -> None:
        self.id = id
        self.owner = owner
        self.number = number
        self.latency_seed = luck
        self.edges, self.amounts, self.cltv_offsets, self.checked_policies = route
        self.final_expiry = final
        self.hop = -1
        self.phase = FORWARD
        self.settled: bool | None = None
        self.status = self.reason = ""
        self.code = self.reporter_hop = 0
        self.times: Times = ()

    @property
    def expiries(self) -> list[int]:
        """The block at which each hop's HTLC runs out."""
        return [self.final_expiry + blocks for blocks in self.cltv_offsets]


class Alarm:
    """A reminder about a shard."""

    __slots__ = ("phase", "shard")

    def __init__(self, shard: Shard) -> None:
        self.phase = ALARM
        self.shard = shard
