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
    decayed,
    failed_here,
    passed_here,
    settled_here,
)
from leyden.lightning.payer_models.ldk_search import MAX_BLOCKS, MAX_PATH_HOPS, MAX_PATHS, PRIVACY_BLOCKS, LdkSearch
from leyden.lightning.payer_models.payer_model import PayerModel, Session
from leyden.lightning.routing.mission_control import FailureInterpretation

REMOVED_FOR_MS = 7 * 24 * 3_600_000
_Change = Callable[[Liquidity, int, int, int], Liquidity]


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

    def search(self, session: Session, amount_msat: int) -> LdkSearch:
        """As in `PayerModel`."""
        engine, payer, policies = self.engine, session.payer, self.engine.policies
        return LdkSearch(
            payer,
            session.target,
            amount_msat,
            session.fee_limit_msat - session.fees_msat,
            session.final_cltv_blocks,
            {edge: self.liquidity(payer, edge) for key in self.facts(payer) for edge in (2 * key, 2 * key + 1)},
            self.removed(payer) | {edge >> 1 for edge in session.policy_retries},
            self.in_flight_msat(payer),
            {
                edge: min(policies.htlc_max_msat[edge], self.local_msat(session, edge))
                for edge in engine.out_edges(payer)
            },
            policies,
            engine.capacity,
            engine.router.costs.incoming,
            engine.graph.degree.tolist(),
            self._penalties,
        )


def _liquidity(fact: tuple[int, ...]) -> Liquidity:
    low, below, bounds_at, history_at = fact[:4]
    return Liquidity(low, below, fact[4 : 4 + BUCKETS], fact[4 + BUCKETS : 4 + 2 * BUCKETS], bounds_at, history_at)
