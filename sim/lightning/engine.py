"""Money on its way: HTLCs lock along a route, arrive or are turned back, and nothing is ever made or lost."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from server.errors import LeydenError
from sim.lightning.conditions import CALM, Conditions, Weather
from sim.lightning.graph import Graph
from sim.lightning.htlc import FAILED, SETTLED
from sim.lightning.routing import MOST_BLOCKS, Router, Terms
from sim.lightning.undo import Changing, Undo

# BOLT 4, "Failure Messages": what the high bits of a code say about it.
UPDATE, NODE, PERM = 0x1000, 0x2000, 0x4000
TEMPORARY_CHANNEL_FAILURE = UPDATE | 7
PERMANENT_CHANNEL_FAILURE = PERM | 8
UNKNOWN_NEXT_PEER = PERM | 10
AMOUNT_BELOW_MINIMUM = UPDATE | 11
FEE_INSUFFICIENT = UPDATE | 12
INCORRECT_CLTV_EXPIRY = UPDATE | 13
EXPIRY_TOO_SOON = UPDATE | 14
CHANNEL_DISABLED = UPDATE | 20
EXPIRY_TOO_FAR = 21

MOST_IN_FLIGHT = 483  # BOLT 2: max_accepted_htlcs
_LEAST_BLOCKS = 2  # an HTLC that expires sooner than this cannot be claimed in time

_FORWARD, _BACK, _WAKE = 0, 1, 2
_Event = tuple[int, int, int, "Shard", int]


class BrokenConservation(LeydenError):
    """A channel no longer adds up: a defect of the simulation, which stops rather than go on with wrong money."""


class Shard(Changing):
    """One part of a payment on one route, locked on its first `last` edges.

    `answer` is None on the way out, then whether it was settled; `code` and `reporter` (the place in the route of the
    node that answered, 0 being the payer) come back with a failure, and `why`, which the payer is not told.
    """

    __slots__ = (
        "amounts", "answer", "code", "edges", "expiries", "final", "id", "last", "number", "owner", "reporter", "why",
    )  # fmt: skip
    changing = ("last", "answer", "code", "reporter", "why", "final")

    def __init__(
        self, id: int, owner: Any, number: int, edges: list[int], amounts: list[int], expiries: list[int]
    ) -> None:
        self.id, self.owner, self.number = id, owner, number
        self.edges, self.amounts, self.expiries = edges, amounts, expiries
        self.last = 0
        self.answer: bool | None = None
        self.final = ""
        self.code = self.reporter = 0
        self.why = ""


Arrive = Callable[[Shard], tuple[str, int, str]]


class Engine(Undo):
    """The channels of one network and what is in flight on them, in whole milliseconds on a heap of its own.

    `arrived` is asked about a shard that reached the end of its route: the fate (`sim.lightning.htlc`), the code when
    it failed, and why. `returned` is told when the answer is back at the payer, `woken` of
    what `wake` asked for. Whoever drives moves time with `run`.
    """

    def __init__(self, graph: Graph, start_ms: int, secret: Callable[[str], bytes], *, weather: Weather = CALM) -> None:
        super().__init__()
        self.graph = graph
        self.terms = Terms(graph)
        self.router = Router(graph, self.terms)
        self.conditions = Conditions(len(graph.names), start_ms, secret, weather)
        self.now = start_ms
        self.events = 0
        self.arrived: Arrive = lambda shard: (SETTLED, 0, "")
        self.returned: Callable[[Shard], None] = lambda shard: None
        self.woken: Callable[[Shard], None] = lambda shard: None
        self.balance: list[int] = graph.local_msat.tolist()
        self.capacity: list[int] = graph.capacity_msat.tolist()
        self.reserve: list[int] = graph.reserve_msat.tolist()
        self.in_flight: list[int] = [0] * graph.channels
        self._slots: dict[int, int] = {}
        self._heap: list[_Event] = []
        self._sequence = 0
        self._made = 0
        self.live: dict[int, Shard] = {}

    # Driving

    def next_due(self) -> int | None:
        """The instant of the next event; None when nothing is on its way."""
        return self._heap[0][0] if self._heap else None

    def run(self, until_ms: int) -> None:
        """Do everything due by `until_ms`, in order, and stand there.

        Raises `BrokenConservation` when a channel does not add up after an event.
        """
        self.checkpoint()
        heap = self._heap
        while heap and heap[0][0] <= until_ms:
            due, _, kind, shard, place = heappop(heap)
            self.now = due
            self.events += 1
            if kind == _FORWARD:
                self._forward(shard, place)
            elif kind == _BACK:
                self._back(shard, place)
            else:
                self.woken(shard)
        self.now = max(self.now, until_ms)

    def spendable(self, node: int) -> dict[int, int]:
        """What each of a node's own edges can send now, in msat."""
        balance, reserve = self.balance, self.reserve
        return {
            edge: balance[edge] - reserve[edge >> 1]
            for edge in self.router.out_edges(node)
            if not self.terms.disabled[edge] and self._slots.get(edge, 0) < MOST_IN_FLIGHT
        }

    def send(self, owner: Any, number: int, edges: list[int], amount_msat: int, final_expiry: int) -> Shard:
        """Offer an HTLC to the first hop of a route; `amount_msat` is what shall arrive."""
        self.checkpoint()
        amounts = self.terms.amounts(edges, amount_msat)
        self._made += 1
        shard = Shard(self._made, owner, number, edges, amounts, self.terms.expiries(edges, final_expiry))
        self.live[shard.id] = shard
        self._pass_on(shard, 0)
        return shard

    def resolve(self, shard: Shard, settled: bool, code: int = 0, why: str = "") -> None:
        """The receiver's word on a shard that waited with it. Nothing happens when it was given already."""
        if shard.answer is None:
            self.checkpoint()
            self.touch(shard)
            self._answer(shard, len(shard.edges), settled, code, why)

    def wake(self, shard: Shard, after_ms: int) -> None:
        """Call `woken` with this shard after a while."""
        self._push(self.now + after_ms, _WAKE, shard, 0)

    # Forwarding

    def _forward(self, shard: Shard, place: int) -> None:
        """An HTLC reaches the node after edge `place`."""
        self.touch(shard)
        if place + 1 < len(shard.edges):
            node = self.terms.target[shard.edges[place]]
            if self.conditions.sticks(shard.id * 64 + place):
                # It never answers. The peer before it closes the channel at the expiry and reports that (BOLT 5).
                at = self.conditions.instant_of(shard.expiries[place])
                shard.answer, shard.code, shard.reporter = False, PERMANENT_CHANNEL_FAILURE, place
                shard.why = (
                    f"{self.graph.names[node]} never answered: its HTLC ran out at block {shard.expiries[place]}"
                )
                self._push(max(at, self.now + 1), _BACK, shard, place)
                return
            self._pass_on(shard, place + 1)
            return
        fate, code, why = self.arrived(shard)
        if fate in (SETTLED, FAILED):
            self._answer(shard, len(shard.edges), fate == SETTLED, code, why)
        else:
            shard.final = fate

    def _pass_on(self, shard: Shard, place: int) -> None:
        """Offer the HTLC on edge `place`, if its source is willing and able."""
        edge = shard.edges[place]
        carried = shard.amounts[place]
        refusal = self._refusal(shard, place, edge, carried)
        if refusal:
            self._answer(shard, place, False, *refusal)
            return
        self._old(edge)
        self.balance[edge] -= carried
        self.in_flight[edge >> 1] += carried
        self._slots[edge] = self._slots.get(edge, 0) + 1
        self._check(edge)
        shard.last = place + 1
        span = self.conditions.latency_ms(self.terms.target[edge], shard.id * 64 + place)
        self._push(self.now + span, _FORWARD, shard, place)

    def _refusal(self, shard: Shard, place: int, edge: int, carried: int) -> tuple[int, str] | None:
        """Why the source of an edge does not forward, as a code and in words that the payer does not hear."""
        terms = self.terms
        if place:
            if terms.disabled[edge]:
                return CHANNEL_DISABLED, f"{self._channel(edge)} is disabled"
            if carried < terms.least[edge]:
                return AMOUNT_BELOW_MINIMUM, f"{self._channel(edge)} carries at least {terms.least[edge]} msat"
            asked = terms.base[edge] + carried * terms.ppm[edge] // 1_000_000
            # BOLT 7: the difference of the two amounts is the fee, and may not be less than asked.
            if shard.amounts[place - 1] - carried < asked:
                return FEE_INSUFFICIENT, f"{self._channel(edge)} costs {asked} msat"
            # BOLT 4: cltv_expiry of the incoming HTLC minus the delta must not be before that of the outgoing one.
            if shard.expiries[place - 1] - terms.delta[edge] < shard.expiries[place]:
                return INCORRECT_CLTV_EXPIRY, f"{self._channel(edge)} needs {terms.delta[edge]} blocks"
            left = shard.expiries[place] - self.conditions.height(self.now)
            if left < _LEAST_BLOCKS:
                return EXPIRY_TOO_SOON, f"only {left} blocks were left"
            if left > MOST_BLOCKS + _LEAST_BLOCKS:
                return EXPIRY_TOO_FAR, f"{left} blocks are more than two weeks"
        if not self.conditions.up(terms.target[edge], self.now):
            return UNKNOWN_NEXT_PEER, f"{self.graph.names[terms.target[edge]]} was offline"
        able = self.balance[edge] - self.reserve[edge >> 1]
        if carried > terms.most[edge] or carried > able:
            return TEMPORARY_CHANNEL_FAILURE, f"{self._channel(edge)} had {max(able, 0)} msat for {carried}"
        if self._slots.get(edge, 0) >= MOST_IN_FLIGHT:
            return TEMPORARY_CHANNEL_FAILURE, f"{self._channel(edge)} had {MOST_IN_FLIGHT} HTLCs in flight"
        return None

    def _channel(self, edge: int) -> str:
        names = self.graph.names
        return f"the channel from {names[self.terms.source[edge]]} to {names[self.terms.target[edge]]}"

    # Coming back

    def _answer(self, shard: Shard, place: int, settled: bool, code: int, why: str) -> None:
        """The node at `place` of the route has the last word; it travels back from there."""
        shard.answer, shard.code, shard.reporter, shard.why, shard.final = settled, code, place, why, ""
        span = 1 if not place else self.conditions.latency_ms(self._before(shard, place), shard.id * 64 + 32 + place)
        self._push(self.now + span, _BACK, shard, place - 1)

    def _before(self, shard: Shard, place: int) -> int:
        return self.terms.source[shard.edges[place - 1]]

    def _back(self, shard: Shard, place: int) -> None:
        """The answer reaches the source of edge `place`, which undoes the HTLC or makes it good (-1: none was sent)."""
        self.touch(shard)
        if place >= 0:
            edge, carried = shard.edges[place], shard.amounts[place]
            self._old(edge)
            self.in_flight[edge >> 1] -= carried
            self.balance[edge ^ 1 if shard.answer else edge] += carried
            self._slots[edge] -= 1
            self._check(edge)
            shard.last = place
        if place > 0:
            span = self.conditions.latency_ms(self._before(shard, place), shard.id * 64 + 32 + place)
            self._push(self.now + span, _BACK, shard, place - 1)
            return
        del self.live[shard.id]
        self.returned(shard)

    def _push(self, due_ms: int, kind: int, shard: Shard, place: int) -> None:
        self._sequence += 1
        heappush(self._heap, (due_ms, self._sequence, kind, shard, place))

    # Laws

    def _check(self, edge: int) -> None:
        channel = edge >> 1
        a, b, flying = self.balance[2 * channel], self.balance[2 * channel + 1], self.in_flight[channel]
        if a + b + flying != self.capacity[channel] or a < 0 or b < 0 or flying < 0:
            raise BrokenConservation(
                f"channel {channel}: {a} + {b} msat and {flying} in flight are not its {self.capacity[channel]}"
            )

    def audit(self) -> None:
        """Add everything up anew: every channel, and what is in flight from the shards themselves.

        Raises `BrokenConservation`.
        """
        flying = [0] * len(self.in_flight)
        slots: dict[int, int] = {}
        for shard in self.live.values():
            for place in range(shard.last):
                edge = shard.edges[place]
                flying[edge >> 1] += shard.amounts[place]
                slots[edge] = slots.get(edge, 0) + 1
        if flying != self.in_flight or slots != {edge: count for edge, count in self._slots.items() if count}:
            raise BrokenConservation("what the channels have in flight is not what the HTLCs on their way carry")
        for channel in range(len(self.capacity)):
            self._check(2 * channel)

    def shift(self, edge: int, amount_msat: int) -> None:
        """Move balance from an edge's source to its target, as a payment would: at most what lies there."""
        self.checkpoint()
        self._old(edge)
        amount_msat = min(amount_msat, self.balance[edge])
        self.balance[edge] -= amount_msat
        self.balance[edge ^ 1] += amount_msat
        self._check(edge)

    def checkpoint(self) -> None:
        """Called before anything changes; costs a copy of what is in flight, once in a commit."""
        if self.recording and not self.saved:
            self.saved = {
                "_heap": self._heap.copy(),
                "live": self.live.copy(),
                "now": self.now,
                "_sequence": self._sequence,
                "_made": self._made,
            }

    def _old(self, edge: int) -> None:
        if self.recording:
            for items, key in ((self.balance, edge), (self.balance, edge ^ 1), (self.in_flight, edge >> 1)):
                self.remember(items, key)
            self.remember(self._slots, edge)
