"""A shard: one part of a payment on one route, from the payer's first channel to the answer that comes back."""

from __future__ import annotations

from typing import Any

from leyden.lightning.engine.undo_log import Changing
from leyden.lightning.routing.pathfinding import Route

FORWARD, BACK, ALARM = 0, 1, 2
Times = tuple[tuple[int, int | None], ...]


class Shard(Changing):
    """One part of a payment, locked on the edges up to `place` (-1: on none).

    Edge `n` of its route carries `amounts[n]` msat until block `final + blocks[n]`. `luck` picks its latencies. On the
    way out `answer` is None, then whether it was settled; `code` and `reporter` (the place in the route of the node
    that answered, 0 being the payer) come back with a failure, and `why`, which the payer is not told. `fate` is what
    the receiver does with it while it keeps it. `times` are the
    instants at which each hop was locked and unlocked, where the engine writes them down.
    """

    __slots__ = (
        "amounts", "answer", "blocks", "code", "edges", "fate", "final", "id", "luck", "number", "owner", "phase",
        "place", "reporter", "times", "vetted", "why",
    )  # fmt: skip
    changing = ("place", "phase", "answer", "code", "reporter", "why", "fate", "times")

    def __init__(self, id: int, owner: Any, number: int, luck: int, route: Route, final: int) -> None:
        self.id = id
        self.owner = owner
        self.number = number
        self.luck = luck
        self.edges, self.amounts, self.blocks, self.vetted = route
        self.final = final
        self.place = -1
        self.phase = FORWARD
        self.answer: bool | None = None
        self.fate = self.why = ""
        self.code = self.reporter = 0
        self.times: Times = ()

    @property
    def expiries(self) -> list[int]:
        """The block at which each hop's HTLC runs out."""
        return [self.final + blocks for blocks in self.blocks]


class Alarm:
    """A reminder about a shard."""

    __slots__ = ("phase", "shard")

    def __init__(self, shard: Shard) -> None:
        self.phase = ALARM
        self.shard = shard
