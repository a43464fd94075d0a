"""The payer of LDK: its probabilistic scorer, and its search for one path or several.

Read from lightningdevkit/rust-lightning at commit cfee4b75593b5f676b998713fa60847311cfb270, by file:

lightning/src/routing/router.rs         `get_route`: at first at most a quarter of a channel's capacity for a path; more
                                        paths until three times the amount is found, then the best; at most 10 paths of
                                        19 hops; 1,008 blocks, without 80 for privacy; fees of 1 % and 50 sat; a channel
                                        that failed in a payment is not tried again in it
lightning/src/routing/scoring.rs        see `leyden.lightning.payer_models.ldk_scoring`; amounts are those that arrive
lightning/src/routing/gossip.rs         a permanent failure removes a channel or a node from the payer's graph, which
                                        forgets it after a week
lightning-background-processor          what of an event reaches the scorer; bounds decay once in 5 minutes

Historical tracking is included, because LDK's defaults use nothing else. Left out are payments that exceed the amount
to reach the minimum of the receiver's channel, and random additions to time locks.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple

from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.shard import Shard
from leyden.lightning.failure_codes import GOOD, NOTHING
from leyden.lightning.payer_models.ldk_failures import interpret
from leyden.lightning.payer_models.ldk_scoring import (
    BUCKETS,
    NEVER,
    UNKNOWN,
    Decay,
    Liquidity,
    Penalties,
    channel_penalty,
    decayed,
    failed_here,
    passed_here,
    settled_here,
)
from leyden.lightning.payer_models.payer_model import PayerModel, Session
from leyden.lightning.routing.mission_control import FailureInterpretation
from leyden.lightning.routing.pathfinding import Route, hop_fee

MAX_BLOCKS, PRIVACY_BLOCKS, MAX_PATH_HOPS = 1_008, 2 * 40, 19
MAX_PATHS, PROVISION_FACTOR, SATURATION_SHIFT = 10, 3, 2
REMOVED_FOR_MS = 7 * 24 * 3_600_000
_EXHAUSTED = 1 << 62
_Change = Callable[[Liquidity, int, int, int], Liquidity]


class _Label(NamedTuple):
    """The best way found from a node to the receiver, for the `value_msat` that arrives by it."""

    cost: int
    edge: int
    value_msat: int
    fees_msat: int
    least_msat: int
    penalty_msat: int
    blocks: int
    hops: int


class _Path(NamedTuple):
    edges: list[int]
    value_msat: int
    penalty_msat: int


class _Search(NamedTuple):
    """What the searches for one set of paths have in common; `used` grows with each path."""

    session: Session
    amount_msat: int
    known: dict[int, Liquidity]
    removed: frozenset[int]
    in_flight: dict[int, int]
    used: dict[int, int]
    local: dict[int, int]


class LdkPayer(PayerModel):
    """All payers of a network, each with a scorer of its own.

    A fact is the `Liquidity` of the first direction of a channel, which is the key, in 68 numbers; and when the channel
    was removed from the payer's graph.
    """

    fact_length = 5 + 2 * BUCKETS
    most_blocks = MAX_BLOCKS - PRIVACY_BLOCKS
    most_hops = MAX_PATH_HOPS
    search_cost = 16

    def __init__(self, engine: Engine, penalties: Penalties | None = None, decay: Decay | None = None) -> None:
        super().__init__(engine)
        self._penalties, self._decay = penalties or Penalties(), decay or Decay()

    def last_key(self) -> int:
        """As in `PayerModel`."""
        return self.engine.graph.channels

    def begin(self, session: Session) -> None:
        """As in `PayerModel`."""
        session.fee_limit_msat = session.amount_msat // 100 + 50_000
        session.max_parts = MAX_PATHS

    # The scorer

    def liquidity(self, payer: int, edge: int) -> Liquidity:
        """What a payer knows of an edge now."""
        fact = self.facts(payer).get(edge >> 1)
        if fact is None:
            return UNKNOWN
        known = decayed(_liquidity(fact), self.engine.now, self._decay)
        return known.reversed() if edge & 1 else known

    def path_failed(self, payer: int, edges: list[int], amount_msat: int, failed_hop: int | None) -> None:
        """An amount passed the edges before the hop that failed; without one, all edges."""
        for hop, edge in enumerate(edges if failed_hop is None else edges[: failed_hop + 1]):
            change = failed_here if hop == failed_hop else passed_here
            self._set_liquidity(payer, edge, change, amount_msat)

    def path_settled(self, payer: int, edges: list[int], amount_msat: int) -> None:
        """An amount was paid over these edges."""
        for edge in edges:
            self._set_liquidity(payer, edge, settled_here, amount_msat)

    def _set_liquidity(self, payer: int, edge: int, change: _Change, amount_msat: int) -> None:
        now, known = self.engine.now, self.liquidity(payer, edge)
        if known.bounds_at == NEVER:
            known = known._replace(bounds_at=now, history_at=now)
        known = change(known, amount_msat, self.engine.capacity[edge >> 1], now)
        self._set(payer, edge >> 1, known.reversed() if edge & 1 else known)

    def _set(self, payer: int, channel: int, known: Liquidity, removed_at: int | None = None) -> None:
        if removed_at is None:
            removed_at = self.facts(payer).get(channel, (NEVER,))[-1]
        low, below, lows, belows, bounds_at, history_at = known
        self.set_fact(payer, channel, (low, below, bounds_at, history_at, *lows, *belows, removed_at))

    def _remove(self, payer: int, channel: int) -> None:
        fact = self.facts(payer).get(channel)
        now = self.engine.now
        known = Liquidity(bounds_at=now, history_at=now) if fact is None else _liquidity(fact)
        self._set(payer, channel, known, now)

    def removed(self, payer: int) -> frozenset[int]:
        """The channels that are not in a payer's graph now."""
        since = self.engine.now - REMOVED_FOR_MS
        return frozenset(key for key, fact in self.facts(payer).items() if fact[-1] != NEVER and fact[-1] > since)

    # Results

    def succeeded(self, session: Session, shard: Shard) -> None:
        """As in `PayerModel`."""
        self.path_settled(session.payer, shard.edges, shard.amounts[-1])

    def failed(self, session: Session, shard: Shard) -> FailureInterpretation:
        """As in `PayerModel`."""
        found, payer, edges = interpret(shard), session.payer, shard.edges
        if found.removes_channel is not None:
            self._remove(payer, edges[found.removes_channel] >> 1)
        if found.removes_node:
            node = self.engine.policies.target[edges[shard.reporter_hop - 1]]
            for edge in self.engine.out_edges(node):
                self._remove(payer, edge >> 1)
        if found.hop is not None:
            session.policy_retries |= {edges[found.hop] & ~1}
            self.path_failed(payer, edges, shard.amounts[-1], found.hop)
        elif found.is_final:
            self.path_failed(payer, edges, shard.amounts[-1], None)
        learned = NOTHING if found.hop is None else "that direction fails for this amount"
        if found.removes_node or found.removes_channel is not None:
            learned = "node removed" if found.removes_node else "channel removed"
        return FailureInterpretation(not found.is_final, GOOD if found.is_final and found.hop is None else learned)

    # Routes

    def routes(self, session: Session, amount_msat: int) -> list[Route]:
        """As in `PayerModel`."""
        payer, policies = session.payer, self.engine.policies
        edges = self.engine.out_edges(payer)
        search = _Search(
            session,
            amount_msat,
            {edge: self.liquidity(payer, edge) for key in self.facts(payer) for edge in (2 * key, 2 * key + 1)},
            self.removed(payer) | {edge >> 1 for edge in session.policy_retries},
            self.in_flight_msat(payer),
            {},
            {edge: min(policies.htlc_max_msat[edge], self.local_msat(session, edge)) for edge in edges},
        )
        paths = self._selected(self._collected(search), amount_msat)
        routes = [self._route(path) for path in paths]
        fees = sum(route.amounts[0] - route.amounts[-1] for route in routes)
        return routes if fees <= session.fee_limit_msat - session.fees_msat else []

    def _route(self, path: _Path) -> Route:
        """The route of a path. A channel whose minimum is more than the path carries gets its minimum, and the node
        behind it the difference as a fee (`update_value_and_recompute_fees`)."""
        policies, route = self.engine.policies, self.engine.policies.route(path.edges, path.value_msat)
        edges, amounts = route.edges, route.amounts
        for hop in range(len(edges) - 2, -1, -1):
            carried, onward = amounts[hop + 1], edges[hop + 1]
            sent = carried + hop_fee(carried, policies.base_msat[onward], policies.ppm[onward])
            amounts[hop] = max(sent, policies.htlc_min_msat[edges[hop]])
        return route

    def _collected(self, search: _Search) -> list[_Path]:
        """Paths that deliver the amount together, or three times as much; none if there are too few."""
        paths: list[_Path] = []
        collected, recommended, value, shift = (
            0,
            search.amount_msat * PROVISION_FACTOR,
            search.amount_msat,
            SATURATION_SHIFT,
        )
        while True:
            found, hit_minimum = self._cheapest(search, value, shift)
            if found is None:
                if shift:
                    shift = 0
                elif hit_minimum and collected < search.amount_msat and value != recommended:
                    value = recommended
                else:
                    break
                continue
            paths += self._used(search, found, shift)
            collected = sum(path.value_msat for path in paths)
            if collected >= recommended or (collected == search.amount_msat and len(paths) == 1 and not hit_minimum):
                break
            if collected == search.amount_msat and len(paths) == 1:
                value = recommended
        return paths if collected >= search.amount_msat else []

    def _used(self, search: _Search, path: _Path, shift: int) -> list[_Path]:
        """The path with the most that it carries, up to the amount; its liquidity is used."""
        policies, edges, most = self.engine.policies, path.edges, _EXHAUSTED
        base = rate = 0.0
        for edge in reversed(edges):
            room = self._room(search, edge, shift)
            most = min(most, int((room - base) / (1.0 + rate)))
            fee = policies.ppm[edge] / 1e6
            base, rate = base * (1.0 + fee) + policies.base_msat[edge], rate * (1.0 + fee) + fee
        value = min(most, search.amount_msat)
        amounts = policies.route(edges, value).amounts if value > 0 else []
        if not amounts or any(
            amount < policies.htlc_min_msat[edge] for edge, amount in zip(edges, amounts, strict=True)
        ):
            self._exhaust(search, edges[len(edges) // 2])
            return []
        for edge, amount in zip(edges, amounts, strict=True):
            search.used[edge] = search.used.get(edge, 0) + amount
        if most > value:
            # Not limited by a channel: the next search would find the same path.
            self._exhaust(search, edges[len(edges) // 2])
        return [path._replace(value_msat=value)]

    def _exhaust(self, search: _Search, edge: int) -> None:
        search.used[edge] = search.used[edge ^ 1] = _EXHAUSTED

    def _room(self, search: _Search, edge: int, shift: int) -> int:
        """What an edge carries of one set of paths, beside what is used."""
        if edge in search.local:
            room = search.local[edge]
        else:
            room = min(self.engine.capacity[edge >> 1] >> shift, self.engine.policies.htlc_max_msat[edge])
        return room - search.used.get(edge, 0)

    def _selected(self, paths: list[_Path], amount_msat: int) -> list[_Path]:
        """The paths that deliver the amount exactly: the most expensive ones are left out, or deliver less."""
        excess = sum(path.value_msat for path in paths) - amount_msat
        kept: list[_Path] = []
        left = len(paths)
        for path in sorted(paths, key=self._cost_share, reverse=True):
            if left > 1 and path.value_msat <= excess:
                excess -= path.value_msat
                left -= 1
            else:
                kept.append(path)
        if excess > 0:
            kept.sort(key=lambda path: (sum(self.engine.policies.ppm[edge] for edge in path.edges), -self._cost(path)))
            least = self.engine.policies.htlc_min_msat
            number = next((at for at, one in enumerate(kept) if one.value_msat - excess >= least[one.edges[-1]]), None)
            if number is None:
                return []
            kept[number] = kept[number]._replace(value_msat=kept[number].value_msat - excess)
        merged: dict[tuple[int, ...], _Path] = {}
        for path in kept:
            same = merged.get(tuple(path.edges))
            value = path.value_msat + (0 if same is None else same.value_msat)
            merged[tuple(path.edges)] = path._replace(value_msat=value)
        return [merged[key] for key in sorted(merged)]

    def _cost(self, path: _Path) -> int:
        """The fees and the penalties of a path."""
        amounts = self.engine.policies.route(path.edges, path.value_msat).amounts
        return amounts[0] - path.value_msat + path.penalty_msat

    def _cost_share(self, path: _Path) -> int:
        return (self._cost(path) << 64) // path.value_msat

    def _cheapest(self, search: _Search, value_msat: int, shift: int) -> tuple[_Path | None, bool]:
        """The path with the least cost for each msat that it delivers, and whether a channel's minimum was in the way.

        The search goes from the receiver to the payer. The cost is the fees, or the least amount of a channel if that
        is more, and the penalties of the scorer.
        """
        engine, policies, session = self.engine, self.engine.policies, search.session
        source, capacity, payer, target = policies.source, engine.capacity, session.payer, session.target
        most_blocks = MAX_BLOCKS - session.final_cltv_blocks
        most_blocks -= PRIVACY_BLOCKS if most_blocks >= PRIVACY_BLOCKS else 0
        most_fees = session.fee_limit_msat - session.fees_msat
        least_value = -(-search.amount_msat // MAX_PATHS)
        recommended = search.amount_msat * PROVISION_FACTOR
        labels: dict[int, _Label] = {}
        done: set[int] = set()
        heap: list[tuple[int, int, int]] = []
        degree: list[int] = engine.graph.degree.tolist()
        label, node, serial, hit_minimum = _Label(0, -1, value_msat, 0, 0, 0, 0, 0), target, 0, False
        while True:
            done.add(node)
            for edge in engine.router.costs.incoming.edges_of(node) if label.hops < MAX_PATH_HOPS else ():
                origin, is_own = source[edge], edge in search.local
                if origin in done or edge >> 1 in search.removed or (policies.disabled[edge] and not is_own):
                    continue
                fees = label.fees_msat
                room = self._room(search, edge, shift) - fees
                delta = 0 if is_own else policies.cltv_delta[edge]
                value = min(room, label.value_msat)
                if value < least_value or label.blocks + delta > most_blocks:
                    continue
                sent, least = value + fees, policies.htlc_min_msat[edge]
                if sent < least or sent < label.least_msat:
                    hit_minimum = hit_minimum or recommended >= max(least, label.least_msat)
                    continue
                least = max(least, label.least_msat)
                penalty = self._penalties.base + self._penalties.base_amount * sent // (1 << 30)
                best = labels.get(origin)
                if not is_own:
                    base, ppm = policies.base_msat[edge], policies.ppm[edge]
                    fees += base + sent * ppm // 1_000_000
                    least += base + least * ppm // 1_000_000
                    # A node with one channel forwards nothing, and what the scorer adds makes no path cheaper.
                    if fees > most_fees or degree[origin] < 2:
                        continue
                    if best and (max(fees, least) + penalty + label.penalty_msat << 64) // value >= best.cost:
                        continue
                    penalty = channel_penalty(
                        search.known.get(edge, UNKNOWN),
                        sent,
                        search.in_flight.get(edge, 0) + search.used.get(edge, 0),
                        capacity[edge >> 1],
                        policies.htlc_max_msat[edge],
                        self._penalties,
                    )
                penalty += label.penalty_msat
                cost = (max(fees, least) + penalty << 64) // value
                if best is None or cost < best.cost:
                    labels[origin] = _Label(
                        cost, edge, value, fees, least, penalty, label.blocks + delta, label.hops + 1
                    )
                    serial += 1
                    heappush(heap, (cost, serial, origin))
            while heap:
                _, _, node = heappop(heap)
                if node not in done:
                    break
            else:
                return None, hit_minimum
            label = labels[node]
            if node == payer:
                break
        penalty, edges = label.penalty_msat, []
        while node != target:
            edges.append(labels[node].edge)
            node = policies.target[edges[-1]]
        return _Path(edges, label.value_msat, penalty), hit_minimum


def _liquidity(fact: tuple[int, ...]) -> Liquidity:
    low, below, bounds_at, history_at = fact[:4]
    return Liquidity(low, below, fact[4 : 4 + BUCKETS], fact[4 + BUCKETS : 4 + 2 * BUCKETS], bounds_at, history_at)
