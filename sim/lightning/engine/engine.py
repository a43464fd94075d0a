"""The network engine: HTLCs move hop by hop along their routes and back, and every channel keeps its capacity."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from leyden.lightning.engine.background_state import BackgroundState
from leyden.lightning.engine.channels import Channels
from leyden.lightning.engine.forwarding_checks import (
    LEAST_BLOCKS,
    MAX_ACCEPTED_HTLCS,
    expiry_failure,
    last_block,
    policy_failure,
)
from leyden.lightning.engine.htlc import FAILED, SETTLED
from leyden.lightning.engine.network_conditions import (
    BACKWARD_HOPS,
    HOP_STEP,
    IDEAL,
    INDEX_MASK,
    NetworkConditions,
    attempt_seed,
)
from leyden.lightning.engine.on_chain import deadline, resolution_height
from leyden.lightning.engine.shard import BACKWARD, FORWARD, Shard
from leyden.lightning.failure_codes import FailureCode
from leyden.lightning.routing.pathfinding import MAX_CLTV_BLOCKS, Route
from leyden.lightning.topology.graph import Graph

# The receiver's decision on a shard: its status (`leyden.lightning.engine.htlc`), the code if it failed, the reason.
ReceiverDecision = tuple[str, int, str]
# What an interceptor does at one hop: ("fail", code, reason), ("drop", 0, reason) or ("delay", ms, ""); None: nothing.
InterceptHandler = Callable[[Shard, int], tuple[str, int, str] | None]
# Until when an interceptor keeps a message about a payment (None: one without a row) from an edge (None: it does not).
OutageHandler = Callable[[str | None, int], int | None]

_ALL = 2**62

# The status of a shard that waits: at a node; for one that is offline; for the expiry, because a node never answers;
# for the chain.
DELAYED, OFFLINE, DROPPED, ON_CHAIN = "delayed", "offline", "dropped", "on_chain"
_NEVER_MS = 2**62


class Engine(Channels):
    """The HTLCs in flight on the channels of one network. Times are milliseconds, amounts msat.

    `on_arrival` decides on a shard that reached the end of its route, `on_return` is called when its result reaches the
    payer. `intercept` may act on a shard at any hop, and `outage` keep its messages from an edge. With `trace` each
    shard records its times.
    """

    # All that a commit may change by assignment; items of lists and dictionaries are recorded one by one.
    recorded_fields = (
        "now", "event_count", "shard_count", "graph", "policies", "router", "balance", "initial_balance", "slots",
        "in_flight", "capacity", "reserve", "closed", "force_closed", "background",
    )  # fmt: skip

    def __init__(
        self,
        graph: Graph,
        start_ms: int,
        secret: Callable[[str], bytes],
        *,
        conditions: NetworkConditions = IDEAL,
        shop: int | None = None,
        trace: bool = False,
    ) -> None:
        super().__init__(graph, start_ms, secret, conditions, shop)
        self.event_count = 0
        self.trace = trace
        self.on_arrival: Callable[[Shard], ReceiverDecision] = lambda shard: (SETTLED, 0, "")
        self.on_return: Callable[[Shard], None] = lambda shard: None
        self.intercept: InterceptHandler | None = None
        self.outage: OutageHandler | None = None
        self.what_is_offline: Callable[[str | None, int], str | None] = lambda payment, edge: None
        self.has_outages: Callable[[], bool] = lambda: False
        self.background = BackgroundState()
        self.shards: dict[int, Shard] = {}
        self.shard_count = 0

    # Time

    def next_event_ms(self) -> int | None:
        """The time of the next event; None when none is scheduled."""
        return self.queue.times[0] if self.queue.times else None

    def run(self, until_ms: int, most: int = _ALL) -> None:
        """Process all events up to `until_ms` in order, at most `most`, and set the time to it after the last.

        Raises `ConservationError` when a channel does not add up after an event.
        """
        if self.recording:
            self.before_change()
        times = self.queue.times
        if times and times[0] <= until_ms:
            self._process((), until_ms, most)
        if until_ms > self.now and not (times and times[0] <= until_ms):
            self.now = until_ms

    # From the payer to the receiver

    def send(self, owner: Any, number: int, route: Route, final_expiry: int, latency_seed: int = 0) -> Shard:
        """Offer an HTLC on the first edge of a route; the last HTLC expires at block `final_expiry`.

        The latencies depend on `latency_seed` and `number` alone, whatever else is in flight on the network.
        """
        id = self.shard_count + 1
        if self.recording:
            self.before_change()
            self.record_item(self.shards, id)
        self.shard_count = id
        shard = Shard(id, owner, number, attempt_seed(latency_seed, number), route, final_expiry)
        if final_expiry + route.cltv_offsets[0] - self.block_height() > MAX_CLTV_BLOCKS:
            shard.checked_policies = None  # the hops have something to refuse
        self.shards[id] = shard
        self._process((shard,), -1)
        return shard

    def _process(self, events: tuple[Shard, ...], until_ms: int, most: int = _ALL) -> None:
        """Process these events, which are due now, and then those of the queue up to `until_ms`, `most` of them.

        All steps of an HTLC are in this one loop, and what they read is in local variables: the loop runs once for
        every hop of every payment. Only `_waits` replaces the graph and its policies, and no event the conditions.
        """
        policies, conditions, queue = self.policies, self.conditions, self.queue
        target, latencies_ms, stuck = policies.target, conditions.latencies_ms, conditions.stuck
        balance, in_flight, slots = self.balance, self.in_flight, self.slots
        capacity, reserve, always_up = self.capacity, self.reserve, conditions.always_up
        times, events_at, now = queue.times, queue.events_at, self.now
        least_expiry, next_block = self.height + LEAST_BLOCKS, self.next_block
        recording, trace = self.recording, self.trace
        watch, is_up = bool(self.force_closed) or self.has_outages(), conditions.is_up
        special = recording or trace or self.intercept is not None
        event_count = 0
        while True:
            if now >= next_block:
                least_expiry, next_block = self.block_height() + LEAST_BLOCKS, self.next_block
            for shard in events:
                if shard.phase == FORWARD:
                    # The node at `hop` has the HTLC and offers it on its next edge; the receiver decides.
                    edges, hop = shard.taken, shard.hop + 1
                    if special:
                        self.record_object(shard)
                    if (
                        hop
                        and (watch or shard.status or not (always_up or is_up(target[edges[hop - 1]], now)))
                        and self._waits(shard, hop - 1)
                    ):
                        continue
                    if self.intercept is not None and self._intercepted(shard, hop):
                        continue
                    if hop == len(edges):
                        status, code, reason = self.on_arrival(shard)
                        if status in (SETTLED, FAILED):
                            self._resolve(shard, hop, status == SETTLED, code, reason)
                        else:
                            shard.status = status
                        continue
                    edge, amount = edges[hop], shard.amounts[hop]
                    channel, node, remaining = edge >> 1, target[edge], balance[edge] - amount
                    # A route that was checked against the policies in force needs no check of them at each hop.
                    if (
                        remaining < reserve[channel]
                        or slots[edge] >= MAX_ACCEPTED_HTLCS
                        or shard.checked_policies is not policies
                        or shard.final_expiry < least_expiry
                        or not (always_up or is_up(node, now))
                    ):
                        failure = self._forwarding_failure(shard, hop)
                        if failure is not None:
                            self._resolve(shard, hop, False, *failure)
                            continue
                        if shard.taken[hop] != edge:
                            edges, edge = shard.taken, shard.taken[hop]
                            channel, remaining = edge >> 1, balance[edge] - amount
                    if special:
                        if recording:
                            self.record_channel(edge)
                        if trace:
                            shard.times = (*shard.times, (now, None))
                    balance[edge] = remaining
                    locked = in_flight[channel] = in_flight[channel] + amount
                    slots[edge] += 1
                    if remaining + balance[edge ^ 1] + locked != capacity[channel]:
                        self.raise_imbalance(channel)
                    shard.hop = hop
                    index = shard.latency_seed + hop * HOP_STEP & INDEX_MASK
                    if index in stuck and hop + 1 < len(edges):
                        self._stick(shard, hop, stuck[index])
                        continue
                else:
                    # The result reaches the source of edge `hop`: its HTLC is fulfilled or failed.
                    edges, hop = shard.taken, shard.hop
                    if special:
                        self.record_object(shard)
                    # Who pays is online, and a node before the receiver was when it sent this, an instant before.
                    if (
                        hop >= 0
                        and (
                            watch
                            or shard.status
                            or not (always_up or not hop or is_up(target[edges[hop] ^ 1], now))
                            or (hop + 1 == len(edges) and not (always_up or is_up(target[edges[hop]], now)))
                        )
                        and self._waits(shard, hop)
                    ):
                        watch, policies = watch or bool(self.force_closed), self.policies
                        continue
                    if hop >= 0:
                        edge, amount = edges[hop], shard.amounts[hop]
                        channel = edge >> 1
                        if special:
                            if recording:
                                self.record_channel(edge)
                            if trace:
                                passed = shard.times
                                shard.times = (*passed[:hop], (passed[hop][0], now), *passed[hop + 1 :])
                        locked = in_flight[channel] = in_flight[channel] - amount
                        balance[edge ^ 1 if shard.settled else edge] += amount
                        slots[edge] -= 1
                        if locked < 0 or balance[edge] + balance[edge ^ 1] + locked != capacity[channel]:
                            self.raise_imbalance(channel)
                        shard.hop = hop = hop - 1
                    if hop < 0:  # it is back at the payer, or the payer itself refused
                        if recording:
                            self.record_item(self.shards, shard.id)
                        del self.shards[shard.id]
                        self.on_return(shard)
                        continue
                    node = target[edges[hop] ^ 1]
                    index = shard.latency_seed + (hop + BACKWARD_HOPS) * HOP_STEP & INDEX_MASK
                # As `EventQueue.push` does, without the call.
                at_ms = now + latencies_ms[node][index >> 4]
                if at_ms in events_at:
                    events_at[at_ms] += (shard,)
                else:
                    events_at[at_ms] = (shard,)
                    heappush(times, at_ms)
                if recording:
                    queue.record(at_ms, None)
            if not times or times[0] > until_ms or event_count >= most:
                self.event_count += event_count
                return
            now = self.now = heappop(times)
            events = events_at.pop(now)
            if recording:
                queue.record(now, events)
            if event_count + len(events) > most:
                for later in events[most - event_count :]:
                    queue.push(now, later)
                events = events[: most - event_count]
            event_count += len(events)

    def _forwarding_failure(self, shard: Shard, hop: int) -> tuple[int, str] | None:
        """The failure code and the reason with which the source of edge `hop` refuses; None when it forwards, perhaps
        over another channel to the same peer.

        Of its own policy the payer (hop 0) keeps the limits of an HTLC, and it sends over the channel that it chose.
        """
        policies, names = self.policies, self.graph.names
        edge, amount = shard.edges[hop], shard.amounts[hop]
        target = names[policies.target[edge]]
        channel = f"the channel from {names[policies.source[edge]]} to {target}"
        if edge >> 1 in self.closed:
            # BOLT 4: an unspecified permanent error of the outgoing channel, "e.g. channel recently closed".
            return FailureCode.PERMANENT_CHANNEL_FAILURE, f"{channel} is closed"
        if policies.disabled[edge]:
            return FailureCode.CHANNEL_DISABLED, f"{channel} is disabled"
        check = policy_failure(policies, shard, hop, self.block_height(), channel)
        failure = check or expiry_failure(shard, hop, self.block_height())
        if failure is not None:
            return failure
        if not self.conditions.is_up(policies.target[edge], self.now):
            return self.conditions.parameters.offline_code, f"{target} was offline"
        failure = self.liquidity_failure(edge, amount, channel)
        if failure is not None and hop and (other := self.other_edge(edge, amount)) is not None:
            shard.taken = [*shard.taken[:hop], other, *shard.taken[hop + 1 :]]
            return None
        return failure

    # Nodes that are offline

    def wake_waiting(self) -> None:
        """Try again what waits for a node: called when one is back earlier than was known."""
        self.before_change()
        for shard in self.queue.take(lambda shard: shard.status == OFFLINE):
            self.queue.push(self.now, shard)

    def _waits(self, shard: Shard, hop: int) -> bool:
        """Whether a message about the HTLC on edge `hop` has to wait: a node is offline, or the channel was closed.

        BOLT 2, "Message Retransmission": what the peer has not received is sent again when it is back. If it is not
        back in time, the channel is force closed and the HTLC resolved on the chain, which every node watches.
        """
        status, edge, is_forward = shard.status, shard.taken[hop], shard.phase == FORWARD
        if status == ON_CHAIN:
            shard.status = ""
            return False
        names, policies = self.graph.names, self.policies
        if edge >> 1 not in self.force_closed:
            until = _NEVER_MS if status == DROPPED else self._offline_until(shard, edge)
            if until is None:
                if status == OFFLINE:
                    shard.status = ""
                return False
            latest = deadline(shard, hop)
            if self.block_height() < latest:
                shard.status = status if status == DROPPED else OFFLINE
                self.queue.push(min(until, max(self.conditions.block_time(latest), self.now + 1)), shard)
                return True
            if is_forward:
                ends = (policies.target[edge], policies.source[edge])
                down = next((node for node in ends if not self.conditions.is_up(node, self.now)), ends[0])
                offline = self.what_is_offline(shard.owner.id, edge)
                self._drop(shard, hop, offline or f"{names[down]} was offline")
                return True
            peer = names[policies.source[edge] if shard.settled else policies.target[edge]]
            self.force_close(edge ^ bool(shard.settled), f"an HTLC with {peer} was not resolved by block {latest}")
            if not shard.settled and status != DROPPED:
                # BOLT 5: who offered it takes it back when it has timed out, and fails the one before by itself.
                shard.code, shard.reporter_hop = FailureCode.PERMANENT_CHANNEL_FAILURE, hop
                shard.reason = f"the channel to {peer} was closed: its HTLC ran out at block {shard.expiries[hop]}"
        elif is_forward:
            self._drop(shard, hop, f"the channel to {names[policies.target[edge]]} was closed")
            return True
        shard.status = ON_CHAIN
        resolved = resolution_height(shard, hop, self.block_height())
        self.queue.push(max(self.conditions.block_time(resolved), self.now + 1), shard)
        return True

    def _offline_until(self, shard: Shard, edge: int) -> int | None:
        """Until when a message about a shard cannot pass an edge, as far as is known; None if it can. The conditions
        say nothing of the payer's own node: who pays is online."""
        found = None if self.outage is None else self.outage(shard.owner.id, edge)
        conditions, now, policies = self.conditions, self.now, self.policies
        asked = [policies.target[edge]] if edge == shard.edges[0] else [policies.source[edge], policies.target[edge]]
        for node in asked:
            if not conditions.is_up(node, now):
                found = max(found or 0, conditions.same_until(node, now))
        return found

    def _stick(self, shard: Shard, hop: int, lasting_ms: int) -> None:
        """The node after edge `hop` is stuck with the HTLC for a time, or for longer than the HTLC may live."""
        at_ms = self.now + lasting_ms
        if at_ms < self.conditions.block_time(shard.final_expiry + shard.cltv_offsets[hop]):
            self.queue.push(at_ms, shard)
        else:
            self._drop(shard, hop, f"{self.graph.names[self.policies.target[shard.edges[hop]]]} never answered")

    def _drop(self, shard: Shard, hop: int, reason: str) -> None:
        """The node after edge `hop` never answers. When the HTLC expires its peer closes the channel, and reports that
        when the HTLC has been resolved on the chain (BOLT 5; BOLT 4: PERM|8, e.g. channel recently closed)."""
        expiry = shard.final_expiry + shard.cltv_offsets[hop]
        shard.settled, shard.code, shard.reporter_hop = False, FailureCode.PERMANENT_CHANNEL_FAILURE, hop
        shard.reason = f"{reason}: its HTLC ran out at block {expiry}"
        shard.phase, shard.hop, shard.status = BACKWARD, hop, DROPPED
        self.queue.push(max(self.conditions.block_time(expiry), self.now + 1), shard)

    def _intercepted(self, shard: Shard, hop: int) -> bool:
        if shard.status == DELAYED:
            shard.status = ""
            return False
        assert self.intercept is not None
        action = self.intercept(shard, hop)
        if action is None:
            return False
        kind, number, reason = action
        if kind == "delay":
            # The event that brought the shard to this hop is scheduled again.
            shard.status, shard.phase = DELAYED, FORWARD
            latest = max(self.conditions.block_time(last_block(shard, hop)), self.now + 1)
            self.queue.push(min(self.now + number, latest), shard)
        elif kind == "drop" and hop:
            self._drop(shard, hop - 1, reason)
        else:
            self._resolve(shard, hop, False, number, reason)
        return True

    # From the node that answered back to the payer

    def resolve(self, shard: Shard, settled: bool, code: int = 0, reason: str = "") -> None:
        """Settle or fail a shard that the receiver kept waiting or held; nothing happens if it is resolved already."""
        if shard.settled is None:
            self.before_change()
            self.record_object(shard)
            self._resolve(shard, len(shard.edges), settled, code, reason)

    def _resolve(self, shard: Shard, hop: int, settled: bool, code: int, reason: str) -> None:
        """The node at `hop` settles or fails the shard, and the result starts back to the payer."""
        shard.settled, shard.code, shard.reporter_hop, shard.reason, shard.status = settled, code, hop, reason, ""
        shard.phase, shard.hop = BACKWARD, hop - 1
        latency_ms = 1
        if hop:
            index = shard.latency_seed + (hop - 1 + BACKWARD_HOPS) * HOP_STEP & INDEX_MASK
            latency_ms = self.conditions.latencies_ms[self.policies.source[shard.edges[hop - 1]]][index >> 4]
        self.queue.push(self.now + latency_ms, shard)
