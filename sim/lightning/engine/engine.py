"""Money on its way: HTLCs lock along a route, arrive or are turned back, and nothing is ever made or lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leyden.lightning.engine.event_queue import EventQueue
from leyden.lightning.engine.fast_path import RETURNING, STEP, Quick, hurry, latency_seed
from leyden.lightning.engine.forwarding_checks import MAX_ACCEPTED_HTLCS, check_forward
from leyden.lightning.engine.htlc import FAILED, SETTLED
from leyden.lightning.engine.network_conditions import IDEAL, TABLE_SIZE, NetworkConditions, SampledConditions
from leyden.lightning.engine.shard import ALARM, BACKWARD, FORWARD, Alarm, Shard
from leyden.lightning.engine.undo_log import UndoLog
from leyden.lightning.failure_codes import PERMANENT_CHANNEL_FAILURE
from leyden.lightning.routing.pathfinding import EdgePolicies, Route, Router
from leyden.lightning.topology.graph import Graph
from leyden.server.errors import LeydenError

# What a receiver says of a shard: its fate (`leyden.lightning.engine.htlc`), the code when it failed, and why.
ReceiverDecision = tuple[str, int, str]
# What somebody else makes of a shard about to be passed on at a place: ("fail", code, why), ("drop", 0, why),
# ("delay", ms, why), or None to let it be.
InterceptHandler = Callable[[Shard, int], tuple[str, int, str] | None]

_DELAYED = "delayed"
_MASK = TABLE_SIZE - 1


class ConservationError(LeydenError):
    """A channel no longer adds up: a defect of the simulation, which stops rather than go on with wrong money."""


class Engine(UndoLog):
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
        conditions: NetworkConditions = IDEAL,
        trace: bool = False,
    ) -> None:
        super().__init__()
        self.graph = graph
        self.policies = EdgePolicies(graph)
        self.router = Router(graph, self.policies)
        self.conditions = SampledConditions(len(graph.names), start_ms, secret, conditions)
        self.now = start_ms
        self.event_count = 0
        self.trace = trace
        self.on_arrival: Callable[[Shard], ReceiverDecision] = lambda shard: (SETTLED, 0, "")
        self.on_return: Callable[[Shard], None] = lambda shard: None
        self.on_alarm: Callable[[Shard], None] = lambda shard: None
        self.intercept: InterceptHandler | None = None
        self.balance: list[int] = graph.local_msat.tolist()
        self.initial_balance: list[int] = self.balance.copy()
        self.capacity: list[int] = graph.capacity_msat.tolist()
        self.reserve: list[int] = graph.reserve_msat.tolist()
        self.in_flight: list[int] = [0] * graph.channels
        self.slots: list[int] = [0] * (2 * graph.channels)
        self.closed: frozenset[int] = frozenset()
        self.initial_channels = graph.channels
        self.reseeds: tuple[tuple[int, int], ...] = ()
        self.queue = EventQueue()
        self.shards: dict[int, Shard] = {}
        self.shard_count = 0
        self._height = self.next_block = 0
        self.quick: Quick | None = None
        self.on_first_change: Callable[[], None] | None = None

    # Driving

    def next_event_ms(self) -> int | None:
        """The instant of the next event; None when nothing is on its way."""
        return self.queue.times[0] if self.queue.times else None

    def run(self, until_ms: int) -> None:
        """Do everything due by `until_ms`, in order, and stand there.

        Raises `BrokenConservation` when a channel does not add up after an event.
        """
        if self.recording:
            self.before_change()
        dues = self.queue.times
        if dues and dues[0] <= until_ms:
            if self.recording or self.trace or self.intercept is not None:
                self._run(until_ms)
            else:
                (self.quick or self._hurry()).run(until_ms)
        if until_ms > self.now:
            self.now = until_ms

    def _run(self, until_ms: int) -> None:
        agenda = self.queue
        while agenda.times and agenda.times[0] <= until_ms:
            self.now = agenda.times[0]
            for item in agenda.pop():
                self.event_count += 1
                if item.phase == ALARM:
                    self.on_alarm(item.shard)
                    continue
                self.record_object(item)
                if item.phase == FORWARD:
                    self.forward(item, item.hop + 1)
                else:
                    self._unlock(item)

    def spendable_msat(self, edge: int) -> int:
        """What the source of an edge can send over it now, in msat."""
        if self.policies.disabled[edge] or self.slots[edge] >= MAX_ACCEPTED_HTLCS:
            return 0
        return self.balance[edge] - self.reserve[edge >> 1]

    def out_edges(self, node: int) -> list[int]:
        """The edges that begin at a node, closed channels included."""
        return self.router.out_edges(node)

    def block_height(self) -> int:
        """The present block."""
        if self.now >= self.next_block:
            self._height = self.conditions.height(self.now)
            self.next_block = self.conditions.block_time(self._height + 1)
        return self._height

    def send(self, owner: Any, number: int, route: Route, final_expiry: int, luck: int = 0) -> Shard:
        """Offer an HTLC to the first hop of a route; the last one expires at block `final_expiry`.

        `luck` sets the payment apart from others: its latencies are the same whatever else the network carries.
        """
        if not (self.recording or self.trace or self.intercept is not None):
            return (self.quick or self._hurry()).send(owner, number, route, final_expiry, luck)
        self.before_change()
        self.shard_count = made = self.shard_count + 1
        shard = Shard(made, owner, number, latency_seed(luck, number), route, final_expiry)
        self.record_item(self.shards, made)
        self.shards[made] = shard
        self.forward(shard, 0)
        return shard

    def reseed(self, luck: int, secret: Callable[[str], bytes]) -> None:
        """Other luck from now on: latencies, blocks, who is away and what sticks. The past stays as it was."""
        self.reseeds = (*self.reseeds, (self.now, luck))
        lucks = [number for _, number in self.reseeds]
        self.conditions = self.conditions.reseeded(self.now, lambda name: secret(f"{name} after {lucks}"))
        self.next_block, self.quick = 0, None

    def _hurry(self) -> Quick:
        self.quick = hurry(self)
        return self.quick

    @staticmethod
    def table_index(luck: int, place: int) -> int:
        """The place in the tables for one message: `place` of a route on the way out, 32 more on the way back."""
        return luck + place * STEP & _MASK

    def resolve(self, shard: Shard, settled: bool, code: int = 0, why: str = "") -> None:
        """The receiver's word on a shard that waited with it. Nothing happens when it was given already."""
        if shard.settled is None:
            self.before_change()
            self.record_object(shard)
            self._resolve(shard, len(shard.edges), settled, code, why)

    def set_alarm(self, shard: Shard, after_ms: int) -> None:
        """Call `woken` with this shard after a while."""
        self.queue.push(self.now + after_ms, Alarm(shard))

    # On the way out

    def forward(self, shard: Shard, place: int) -> None:
        """The node at `place` of the route has a shard: it offers the HTLC on the next edge, or takes it at the end."""
        if self.intercept is not None and self._intercepted(shard, place):
            return
        edges = shard.edges
        if place == len(edges):
            self.apply_decision(shard, self.on_arrival(shard))
            return
        edge, carried = edges[place], shard.amounts[place]
        terms, conditions, balance = self.policies, self.conditions, self.balance
        target, channel = terms.target[edge], edge >> 1
        rest = balance[edge] - carried
        if (
            rest < self.reserve[channel]
            or self.slots[edge] >= MAX_ACCEPTED_HTLCS
            or shard.checked_policies is not terms
            or (place and shard.final_expiry - self.block_height() < 2)
            or not (conditions.always_up or conditions.is_up(target, self.now))
        ):
            refused = check_forward(self, shard, place)
            if refused is not None:
                self._resolve(shard, place, False, *refused)
                return
        if self.recording:
            self._record_channel(edge)
        balance[edge] = rest
        flying = self.in_flight[channel] = self.in_flight[channel] + carried
        self.slots[edge] += 1
        if rest < 0 or rest + balance[edge ^ 1] + flying != self.capacity[channel]:
            self.raise_imbalance(channel)
        shard.hop = place
        if self.trace:
            shard.times = (*shard.times, (self.now, None))
        luck = shard.latency_seed + place * STEP & _MASK
        if luck in conditions.stuck and place + 1 < len(edges):
            self._drop(shard, place, f"{self.graph.names[target]} never answered")
        else:
            self.queue.push(self.now + conditions.latencies_ms[target][luck >> 4], shard)

    def apply_decision(self, shard: Shard, verdict: ReceiverDecision) -> None:
        """The receiver looked at a shard."""
        fate, code, why = verdict
        if fate in (SETTLED, FAILED):
            self._resolve(shard, len(shard.edges), fate == SETTLED, code, why)
        else:
            shard.status = fate

    def _drop(self, shard: Shard, place: int, why: str) -> None:
        """The node after edge `place` never answers. Its peer closes the channel when the HTLC runs out, and reports
        that (BOLT 5: a timed-out HTLC is claimed back on the chain; BOLT 4: the channel is gone)."""
        expiry = shard.final_expiry + shard.cltv_offsets[place]
        shard.settled, shard.code, shard.reporter_hop = False, PERMANENT_CHANNEL_FAILURE, place
        shard.reason = f"{why}: its HTLC ran out at block {expiry}"
        self._schedule_return(shard, place, max(self.conditions.block_time(expiry), self.now + 1))

    def _intercepted(self, shard: Shard, place: int) -> bool:
        if shard.status == _DELAYED:
            shard.status = ""
            return False
        assert self.intercept is not None
        found = self.intercept(shard, place)
        if found is None:
            return False
        kind, number, why = found
        if kind == "delay":
            # The event that brought the shard here comes once more.
            shard.status, shard.phase = _DELAYED, FORWARD
            self.queue.push(self.now + number, shard)
        elif kind == "drop" and place:
            self._drop(shard, place - 1, why)
        else:
            self._resolve(shard, place, False, number, why)
        return True

    # Coming back

    def _resolve(self, shard: Shard, place: int, settled: bool, code: int, why: str) -> None:
        """The node at `place` of the route has the last word; it travels back from there."""
        shard.settled, shard.code, shard.reporter_hop, shard.reason, shard.status = settled, code, place, why, ""
        self._schedule_return(shard, place - 1, self.now + (self._return_latency_ms(shard, place - 1) if place else 1))

    def _schedule_return(self, shard: Shard, place: int, due: int) -> None:
        shard.phase, shard.hop = BACKWARD, place
        self.queue.push(due, shard)

    def _return_latency_ms(self, shard: Shard, place: int) -> int:
        """How long an answer takes back over edge `place`."""
        luck = shard.latency_seed + (place + RETURNING) * STEP & _MASK
        return self.conditions.latencies_ms[self.policies.source[shard.edges[place]]][luck >> 4]

    def _unlock(self, shard: Shard) -> None:
        """The answer reaches the source of edge `place`, which undoes the HTLC or makes it good (-1: none was sent)."""
        place = shard.hop
        if place >= 0:
            edge, carried = shard.edges[place], shard.amounts[place]
            channel = edge >> 1
            if self.recording:
                self._record_channel(edge)
            balance = self.balance
            flying = self.in_flight[channel] = self.in_flight[channel] - carried
            balance[edge ^ 1 if shard.settled else edge] += carried
            self.slots[edge] -= 1
            if flying < 0 or balance[edge] + balance[edge ^ 1] + flying != self.capacity[channel]:
                self.raise_imbalance(channel)
            if self.trace:
                times = shard.times
                shard.times = (*times[:place], (times[place][0], self.now), *times[place + 1 :])
            shard.hop = place = place - 1
            if place >= 0:
                self.queue.push(self.now + self._return_latency_ms(shard, place), shard)
                return
        if self.recording:
            self.record_item(self.shards, shard.id)
        del self.shards[shard.id]
        self.on_return(shard)

    # Laws

    def raise_imbalance(self, channel: int) -> None:
        a, b, flying = self.balance[2 * channel], self.balance[2 * channel + 1], self.in_flight[channel]
        raise ConservationError(
            f"channel {channel}: {a} + {b} msat and {flying} in flight are not its {self.capacity[channel]}"
        )

    def audit(self) -> None:
        """Add everything up anew: every channel, and what is in flight from the shards themselves.

        Raises `BrokenConservation`.
        """
        flying, slots = [0] * len(self.in_flight), [0] * len(self.slots)
        for shard in self.shards.values():
            for place in range(shard.hop + 1):
                edge = shard.edges[place]
                flying[edge >> 1] += shard.amounts[place]
                slots[edge] += 1
        if flying != self.in_flight or slots != self.slots:
            raise ConservationError("what the channels have in flight is not what the HTLCs on their way carry")
        for channel, capacity in enumerate(self.capacity):
            a, b = self.balance[2 * channel], self.balance[2 * channel + 1]
            if a < 0 or b < 0 or a + b + flying[channel] != capacity:
                self.raise_imbalance(channel)

    def move_balance(self, edge: int, amount_msat: int) -> int:
        """Move balance from an edge's source to its target, as a payment would: at most what lies there. How much."""
        self.before_change()
        if self.recording:
            self._record_channel(edge)
        amount_msat = min(amount_msat, self.balance[edge])
        self.balance[edge] -= amount_msat
        self.balance[edge ^ 1] += amount_msat
        return amount_msat

    # Second thoughts

    def before_change(self) -> None:
        """Called before anything changes."""
        if self.recording and not self.saved:
            self.saved = {name: self.__dict__[name] for name in ("now", "event_count", "shard_count")}
            self.queue.log = []
            if self.on_first_change is not None:
                self.on_first_change()

    def commit(self) -> None:
        """What changed stays."""
        super().commit()
        self.queue.log = None

    def rollback(self) -> None:
        """Let everything be as it was at `begin`."""
        self.queue.rollback()
        self.next_block, self.quick = 0, None
        super().rollback()

    def _record_channel(self, edge: int) -> None:
        items = ((self.balance, edge), (self.balance, edge ^ 1), (self.in_flight, edge >> 1), (self.slots, edge))
        for column, key in items:
            self.record_item(column, key)
