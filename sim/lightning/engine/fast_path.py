"""The quick way through an engine's events: what nearly always happens, at once, with nothing written down.

Each step does what `Engine.send`, `Engine.offer` and `Engine._back` do, and leaves to them whatever is out of the
ordinary; a test holds the two against each other. Only for engines that nobody records, traces or interferes with.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from leyden.lightning.engine.forwarding_checks import MAX_ACCEPTED_HTLCS
from leyden.lightning.engine.htlc import SETTLED
from leyden.lightning.engine.network_conditions import TABLE_SIZE
from leyden.lightning.engine.shard import BACKWARD, Shard
from leyden.lightning.routing.pathfinding import Route

if TYPE_CHECKING:
    from leyden.lightning.engine.engine import Engine

# Odd, so that places in the tables of luck do not repeat early; the way back has places of its own.
STEP, RETURNING = 40_503, 32
_MASK = TABLE_SIZE - 1


def latency_seed(payment: int, number: int) -> int:
    """Where in the tables the luck of a payment's attempt begins. Low digits decide least in a product: those above
    are taken."""
    return (payment * 64 + number) * 2_654_435_761 >> 8 & _MASK


class Quick(NamedTuple):
    """The quick ways through `Engine.run`, up to the instant given, and through `Engine.send`."""

    run: Callable[[int], None]
    send: Callable[[Any, int, Route, int, int], Shard]


def hurry(engine: Engine) -> Quick:
    """The quick ways for an engine.

    Everything it needs is at hand when it begins: as often as it is called for a few events only, that is half of it.
    So it stands only while the engine keeps its lists, terms and weather. It raises `BrokenConservation` as
    `Engine.run` does.
    """
    agenda, balance, live = engine.queue, engine.balance, engine.shards
    slots, dues = agenda.events_at, agenda.times
    reserve, flying, used, capacity = engine.reserve, engine.in_flight, engine.slots, engine.capacity
    terms, conditions = engine.policies, engine.conditions
    source, target = terms.source, terms.target
    spans, stuck = conditions.latencies_ms, conditions.stuck
    always_up, is_up, up_from, up_until = conditions.current()

    lowest, next_block = engine.block_height() + 2, engine.next_block

    def loop(until_ms: int) -> None:
        nonlocal lowest, next_block
        events = 0
        try:
            while dues and dues[0] <= until_ms:
                now = heappop(dues)
                if now >= next_block:
                    engine.now = now
                    lowest, next_block = engine.block_height() + 2, engine.next_block
                for shard in slots.pop(now):
                    events += 1
                    phase = shard.phase
                    if not phase:  # FORWARD
                        place = shard.hop + 1
                        edges = shard.edges
                        if place < len(edges):
                            edge, carried = edges[place], shard.amounts[place]
                            node, channel = target[edge], edge >> 1
                            rest = balance[edge] - carried
                            luck = shard.latency_seed + place * STEP & _MASK
                            if (
                                rest >= reserve[channel]
                                and shard.checked_policies is terms
                                and used[edge] < MAX_ACCEPTED_HTLCS
                                and (always_up or (is_up[node] and up_from[node] <= now < up_until[node]))
                                and luck not in stuck
                                and shard.final_expiry >= lowest
                            ):
                                balance[edge] = rest
                                under_way = flying[channel] = flying[channel] + carried
                                used[edge] += 1
                                if rest + balance[edge ^ 1] + under_way != capacity[channel]:
                                    engine.raise_imbalance(channel)
                                shard.hop = place
                                due = now + spans[node][luck >> 4]
                                if due in slots:
                                    slots[due] += (shard,)
                                else:
                                    slots[due] = (shard,)
                                    heappush(dues, due)
                                continue
                            engine.now = now
                            engine.forward(shard, place)
                            continue
                        engine.now = now
                        verdict = engine.on_arrival(shard)
                        if verdict[0] != SETTLED:
                            engine.apply_decision(shard, verdict)
                            continue
                        shard.settled, shard.phase, shard.reporter_hop = True, BACKWARD, place
                        shard.hop = place = place - 1
                        luck = shard.latency_seed + (place + RETURNING) * STEP & _MASK
                        due = now + spans[source[edges[place]]][luck >> 4]
                        if due in slots:
                            slots[due] += (shard,)
                        else:
                            slots[due] = (shard,)
                            heappush(dues, due)
                    elif phase == BACKWARD:
                        place = shard.hop
                        if place >= 0:
                            edge, carried = shard.edges[place], shard.amounts[place]
                            channel = edge >> 1
                            under_way = flying[channel] = flying[channel] - carried
                            balance[edge ^ 1 if shard.settled else edge] += carried
                            used[edge] -= 1
                            if under_way < 0 or balance[edge] + balance[edge ^ 1] + under_way != capacity[channel]:
                                engine.raise_imbalance(channel)
                            shard.hop = place = place - 1
                            if place >= 0:
                                luck = shard.latency_seed + (place + RETURNING) * STEP & _MASK
                                due = now + spans[source[shard.edges[place]]][luck >> 4]
                                if due in slots:
                                    slots[due] += (shard,)
                                else:
                                    slots[due] = (shard,)
                                    heappush(dues, due)
                                continue
                        engine.now = now
                        del live[shard.id]
                        engine.on_return(shard)
                    else:
                        engine.now = now
                        engine.on_alarm(shard.shard)
        finally:
            engine.event_count += events

    def send(owner: Any, number: int, route: Route, final_expiry: int, luck: int) -> Shard:
        made = engine.shard_count = engine.shard_count + 1
        shard = live[made] = Shard(made, owner, number, latency_seed(luck, number), route, final_expiry)
        edges, now, luck = shard.edges, engine.now, shard.latency_seed
        edge, carried = edges[0], shard.amounts[0]
        node, channel = target[edge], edge >> 1
        rest = balance[edge] - carried
        if (
            rest >= reserve[channel]
            and shard.checked_policies is terms
            and used[edge] < MAX_ACCEPTED_HTLCS
            and (always_up or (is_up[node] and up_from[node] <= now < up_until[node]))
            and luck not in stuck
        ):
            balance[edge] = rest
            under_way = flying[channel] = flying[channel] + carried
            used[edge] += 1
            if rest + balance[edge ^ 1] + under_way != capacity[channel]:
                engine.raise_imbalance(channel)
            shard.hop = 0
            due = now + spans[node][luck >> 4]
            if due in slots:
                slots[due] += (shard,)
            else:
                slots[due] = (shard,)
                heappush(dues, due)
        else:
            engine.forward(shard, 0)
        return shard

    return Quick(loop, send)
