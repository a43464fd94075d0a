"""Money on its way: HTLCs lock along a route, arrive or are turned back, and nothing is ever made or lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leyden.lightning.engine.event_queue import Agenda
from leyden.lightning.engine.fast_path import RETURNING, STEP, Quick, hurry, luck_of
from leyden.lightning.engine.forwarding_checks import MOST_IN_FLIGHT, refusal
from leyden.lightning.engine.htlc import FAILED, SETTLED
from leyden.lightning.engine.network_conditions import CALM, TABLE, Conditions, Weather
from leyden.lightning.engine.shard import ALARM, BACK, FORWARD, Alarm, Shard
from leyden.lightning.engine.undo_log import Undo
from leyden.lightning.failure_codes import PERMANENT_CHANNEL_FAILURE
from leyden.lightning.routing.pathfinding import Route, Router, Terms
from leyden.lightning.topology.graph import Graph
from leyden.server.errors import LeydenError

# What a receiver says of a shard: its fate (`leyden.lightning.engine.htlc`), the code when it failed, and why.
Verdict = tuple[str, int, str]
# What somebody else makes of a shard about to be passed on at a place: ("fail", code, why), ("drop", 0, why),
# ("delay", ms, why), or None to let it be.
Intercept = Callable[[Shard, int], tuple[str, int, str] | None]

_DELAYED = "delayed"
_MASK = TABLE - 1


class BrokenConservation(LeydenError):
    """A channel no longer adds up: a defect of the simulation, which stops rather than go on with wrong money."""


class Engine(Undo):
    """The channels of one network and what is in flight on them, in whole milliseconds.

    `arrived` is asked about a shard that reached the end of its route. `returned` is told when the answer is back at
    the payer, `woken` of what `wake` asked for, `stirred` before the first change in a commit. `intercept` may change
    what becomes of a shard at any place. Whoever drives moves time with `run`. With `trace` every shard keeps the
    instants of its hops.
    """

    def __init__(
        self,
        graph: Graph,
        start_ms: int,
        secret: Callable[[str], bytes],
        *,
        weather: Weather = CALM,
        trace: bool = False,
    ) -> None:
        super().__init__()
        self.graph = graph
        self.terms = Terms(graph)
        self.router = Router(graph, self.terms)
        self.conditions = Conditions(len(graph.names), start_ms, secret, weather)
        self.now = start_ms
        self.events = 0
        self.trace = trace
        self.arrived: Callable[[Shard], Verdict] = lambda shard: (SETTLED, 0, "")
        self.returned: Callable[[Shard], None] = lambda shard: None
        self.woken: Callable[[Shard], None] = lambda shard: None
        self.intercept: Intercept | None = None
        self.balance: list[int] = graph.local_msat.tolist()
        self.begun: list[int] = self.balance.copy()
        self.capacity: list[int] = graph.capacity_msat.tolist()
        self.reserve: list[int] = graph.reserve_msat.tolist()
        self.in_flight: list[int] = [0] * graph.channels
        self.slots: list[int] = [0] * (2 * graph.channels)
        self.closed: frozenset[int] = frozenset()
        self.first_channels = graph.channels
        self.reseeded: tuple[tuple[int, int], ...] = ()
        self.agenda = Agenda()
        self.live: dict[int, Shard] = {}
        self.made = 0
        self._height = self.next_block = 0
        self.quick: Quick | None = None
        self.stirred: Callable[[], None] | None = None

    # Driving

    def next_due(self) -> int | None:
        """The instant of the next event; None when nothing is on its way."""
        return self.agenda.dues[0] if self.agenda.dues else None

    def run(self, until_ms: int) -> None:
        """Do everything due by `until_ms`, in order, and stand there.

        Raises `BrokenConservation` when a channel does not add up after an event.
        """
        if self.recording:
            self.checkpoint()
        dues = self.agenda.dues
        if dues and dues[0] <= until_ms:
            if self.recording or self.trace or self.intercept is not None:
                self._run(until_ms)
            else:
                (self.quick or self._hurry()).run(until_ms)
        if until_ms > self.now:
            self.now = until_ms

    def _run(self, until_ms: int) -> None:
        agenda = self.agenda
        while agenda.dues and agenda.dues[0] <= until_ms:
            self.now = agenda.dues[0]
            for item in agenda.pop():
                self.events += 1
                if item.phase == ALARM:
                    self.woken(item.shard)
                    continue
                self.touch(item)
                if item.phase == FORWARD:
                    self.offer(item, item.place + 1)
                else:
                    self._back(item)

    def able(self, edge: int) -> int:
        """What the source of an edge can send over it now, in msat."""
        if self.terms.disabled[edge] or self.slots[edge] >= MOST_IN_FLIGHT:
            return 0
        return self.balance[edge] - self.reserve[edge >> 1]

    def edges_of(self, node: int) -> list[int]:
        """The edges that begin at a node, closed channels included."""
        return self.router.out_edges(node)

    def height(self) -> int:
        """The present block."""
        if self.now >= self.next_block:
            self._height = self.conditions.height(self.now)
            self.next_block = self.conditions.instant_of(self._height + 1)
        return self._height

    def send(self, owner: Any, number: int, route: Route, final_expiry: int, luck: int = 0) -> Shard:
        """Offer an HTLC to the first hop of a route; the last one expires at block `final_expiry`.

        `luck` sets the payment apart from others: its latencies are the same whatever else the network carries.
        """
        if not (self.recording or self.trace or self.intercept is not None):
            return (self.quick or self._hurry()).send(owner, number, route, final_expiry, luck)
        self.checkpoint()
        self.made = made = self.made + 1
        shard = Shard(made, owner, number, luck_of(luck, number), route, final_expiry)
        self.remember(self.live, made)
        self.live[made] = shard
        self.offer(shard, 0)
        return shard

    def reseed(self, luck: int, secret: Callable[[str], bytes]) -> None:
        """Other luck from now on: latencies, blocks, who is away and what sticks. The past stays as it was."""
        self.reseeded = (*self.reseeded, (self.now, luck))
        lucks = [number for _, number in self.reseeded]
        self.conditions = self.conditions.reseeded(self.now, lambda name: secret(f"{name} after {lucks}"))
        self.next_block, self.quick = 0, None

    def _hurry(self) -> Quick:
        self.quick = hurry(self)
        return self.quick

    @staticmethod
    def draw(luck: int, place: int) -> int:
        """The place in the tables for one message: `place` of a route on the way out, 32 more on the way back."""
        return luck + place * STEP & _MASK

    def resolve(self, shard: Shard, settled: bool, code: int = 0, why: str = "") -> None:
        """The receiver's word on a shard that waited with it. Nothing happens when it was given already."""
        if shard.answer is None:
            self.checkpoint()
            self.touch(shard)
            self._answer(shard, len(shard.edges), settled, code, why)

    def wake(self, shard: Shard, after_ms: int) -> None:
        """Call `woken` with this shard after a while."""
        self.agenda.push(self.now + after_ms, Alarm(shard))

    # On the way out

    def offer(self, shard: Shard, place: int) -> None:
        """The node at `place` of the route has a shard: it offers the HTLC on the next edge, or takes it at the end."""
        if self.intercept is not None and self._intercepted(shard, place):
            return
        edges = shard.edges
        if place == len(edges):
            self.judged(shard, self.arrived(shard))
            return
        edge, carried = edges[place], shard.amounts[place]
        terms, conditions, balance = self.terms, self.conditions, self.balance
        target, channel = terms.target[edge], edge >> 1
        rest = balance[edge] - carried
        if (
            rest < self.reserve[channel]
            or self.slots[edge] >= MOST_IN_FLIGHT
            or shard.vetted is not terms
            or (place and shard.final - self.height() < 2)
            or not (conditions.always_up or conditions.up(target, self.now))
        ):
            refused = refusal(self, shard, place)
            if refused is not None:
                self._answer(shard, place, False, *refused)
                return
        if self.recording:
            self._old(edge)
        balance[edge] = rest
        flying = self.in_flight[channel] = self.in_flight[channel] + carried
        self.slots[edge] += 1
        if rest < 0 or rest + balance[edge ^ 1] + flying != self.capacity[channel]:
            self.broken(channel)
        shard.place = place
        if self.trace:
            shard.times = (*shard.times, (self.now, None))
        luck = shard.luck + place * STEP & _MASK
        if luck in conditions.stuck and place + 1 < len(edges):
            self._stick(shard, place, f"{self.graph.names[target]} never answered")
        else:
            self.agenda.push(self.now + conditions.spans_ms[target][luck >> 4], shard)

    def judged(self, shard: Shard, verdict: Verdict) -> None:
        """The receiver looked at a shard."""
        fate, code, why = verdict
        if fate in (SETTLED, FAILED):
            self._answer(shard, len(shard.edges), fate == SETTLED, code, why)
        else:
            shard.fate = fate

    def _stick(self, shard: Shard, place: int, why: str) -> None:
        """The node after edge `place` never answers. Its peer closes the channel when the HTLC runs out, and reports
        that (BOLT 5: a timed-out HTLC is claimed back on the chain; BOLT 4: the channel is gone)."""
        expiry = shard.final + shard.blocks[place]
        shard.answer, shard.code, shard.reporter = False, PERMANENT_CHANNEL_FAILURE, place
        shard.why = f"{why}: its HTLC ran out at block {expiry}"
        self._return(shard, place, max(self.conditions.instant_of(expiry), self.now + 1))

    def _intercepted(self, shard: Shard, place: int) -> bool:
        if shard.fate == _DELAYED:
            shard.fate = ""
            return False
        assert self.intercept is not None
        found = self.intercept(shard, place)
        if found is None:
            return False
        kind, number, why = found
        if kind == "delay":
            # The event that brought the shard here comes once more.
            shard.fate, shard.phase = _DELAYED, FORWARD
            self.agenda.push(self.now + number, shard)
        elif kind == "drop" and place:
            self._stick(shard, place - 1, why)
        else:
            self._answer(shard, place, False, number, why)
        return True

    # Coming back

    def _answer(self, shard: Shard, place: int, settled: bool, code: int, why: str) -> None:
        """The node at `place` of the route has the last word; it travels back from there."""
        shard.answer, shard.code, shard.reporter, shard.why, shard.fate = settled, code, place, why, ""
        self._return(shard, place - 1, self.now + (self._span_back(shard, place - 1) if place else 1))

    def _return(self, shard: Shard, place: int, due: int) -> None:
        shard.phase, shard.place = BACK, place
        self.agenda.push(due, shard)

    def _span_back(self, shard: Shard, place: int) -> int:
        """How long an answer takes back over edge `place`."""
        luck = shard.luck + (place + RETURNING) * STEP & _MASK
        return self.conditions.spans_ms[self.terms.source[shard.edges[place]]][luck >> 4]

    def _back(self, shard: Shard) -> None:
        """The answer reaches the source of edge `place`, which undoes the HTLC or makes it good (-1: none was sent)."""
        place = shard.place
        if place >= 0:
            edge, carried = shard.edges[place], shard.amounts[place]
            channel = edge >> 1
            if self.recording:
                self._old(edge)
            balance = self.balance
            flying = self.in_flight[channel] = self.in_flight[channel] - carried
            balance[edge ^ 1 if shard.answer else edge] += carried
            self.slots[edge] -= 1
            if flying < 0 or balance[edge] + balance[edge ^ 1] + flying != self.capacity[channel]:
                self.broken(channel)
            if self.trace:
                times = shard.times
                shard.times = (*times[:place], (times[place][0], self.now), *times[place + 1 :])
            shard.place = place = place - 1
            if place >= 0:
                self.agenda.push(self.now + self._span_back(shard, place), shard)
                return
        if self.recording:
            self.remember(self.live, shard.id)
        del self.live[shard.id]
        self.returned(shard)

    # Laws

    def broken(self, channel: int) -> None:
        a, b, flying = self.balance[2 * channel], self.balance[2 * channel + 1], self.in_flight[channel]
        raise BrokenConservation(
            f"channel {channel}: {a} + {b} msat and {flying} in flight are not its {self.capacity[channel]}"
        )

    def audit(self) -> None:
        """Add everything up anew: every channel, and what is in flight from the shards themselves.

        Raises `BrokenConservation`.
        """
        flying, slots = [0] * len(self.in_flight), [0] * len(self.slots)
        for shard in self.live.values():
            for place in range(shard.place + 1):
                edge = shard.edges[place]
                flying[edge >> 1] += shard.amounts[place]
                slots[edge] += 1
        if flying != self.in_flight or slots != self.slots:
            raise BrokenConservation("what the channels have in flight is not what the HTLCs on their way carry")
        for channel, capacity in enumerate(self.capacity):
            a, b = self.balance[2 * channel], self.balance[2 * channel + 1]
            if a < 0 or b < 0 or a + b + flying[channel] != capacity:
                self.broken(channel)

    def shift(self, edge: int, amount_msat: int) -> int:
        """Move balance from an edge's source to its target, as a payment would: at most what lies there. How much."""
        self.checkpoint()
        if self.recording:
            self._old(edge)
        amount_msat = min(amount_msat, self.balance[edge])
        self.balance[edge] -= amount_msat
        self.balance[edge ^ 1] += amount_msat
        return amount_msat

    # Second thoughts

    def checkpoint(self) -> None:
        """Called before anything changes."""
        if self.recording and not self.saved:
            self.saved = {name: self.__dict__[name] for name in ("now", "events", "made")}
            self.agenda.log = []
            if self.stirred is not None:
                self.stirred()

    def commit(self) -> None:
        """What changed stays."""
        super().commit()
        self.agenda.log = None

    def rollback(self) -> None:
        """Let everything be as it was at `begin`."""
        self.agenda.rollback()
        self.next_block, self.quick = 0, None
        super().rollback()

    def _old(self, edge: int) -> None:
        items = ((self.balance, edge), (self.balance, edge ^ 1), (self.in_flight, edge >> 1), (self.slots, edge))
        for column, key in items:
            self.remember(column, key)
