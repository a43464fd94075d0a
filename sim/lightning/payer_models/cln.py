"""The payer of Core Lightning: the plugin xpay, which gets its routes from askrene.

Read from ElementsProject/lightning at commit 090f4b0e6981d458b07a8e95d3eccf5a7c0b9542, by file:

plugins/xpay/xpay.c               what an error teaches the layer `xpay`; what is older than an hour is forgotten when
                                  a payment starts; fees of 1 %, or 5 sat if that is more; 2,016 blocks
plugins/askrene/layer.c           constraints and successful payments change what a channel can carry, in their order
plugins/askrene/askrene.c         a failure leaves 1 msat less than the amount and what else is reserved; 100 parts
plugins/askrene/child/mcf.c       an amount in 1,000 units; four steps of probability for each channel, and how they
                                  are weighted against fees (`mu`, from 1 up to 100 until the fees are low enough); one
                                  path up to 1,000 sat
plugins/askrene/child/refine.c    how flows become routes within the limits of channels

Costs are those of askrene; between solutions of the same cost the choice may differ, because the algorithm does
(successive shortest paths here). Left out are the rounding of capacities to 11 bits, biases, shadow routing, and the
deadlines of the search.
"""

from __future__ import annotations

from typing import NamedTuple

from leyden.lightning.engine.shard import Shard
from leyden.lightning.failure_codes import GOOD, FailureCode
from leyden.lightning.payer_models.cln_search import ClnSearch
from leyden.lightning.payer_models.flow_refinement import Limits
from leyden.lightning.payer_models.payer_model import PayerModel, Session
from leyden.lightning.routing.mission_control import FailureInterpretation

FORGOTTEN_AFTER_MS = 3_600_000
MAX_PARTS = 100
# Kinds of intelligence: it carried the amount, it failed above the amount, the amount was paid.
PASSED, FAILED, PAID = 0, 1, 2


class Intelligence(NamedTuple):
    """One thing that was learned of an edge."""

    at_ms: int
    kind: int
    edge: int
    amount_msat: int


class ClnPayer(PayerModel):
    """All payers of a network, each with a layer of its own.

    A fact is all that was learned of a channel, which is the key: each `Intelligence`, the oldest first.
    """

    fact_length = len(Intelligence._fields)
    search_cost = 16

    def last_key(self) -> int:
        """As in `PayerModel`."""
        return self.engine.graph.channels

    def begin(self, session: Session) -> None:
        """As in `PayerModel`."""
        session.fee_limit_msat = max(session.amount_msat // 100, 5_000)
        earliest = self.engine.now - FORGOTTEN_AFTER_MS
        for channel in list(self.facts(session.payer)):
            known = self.intelligence(session.payer, channel)
            kept = [each for each in known if each.at_ms >= earliest]
            if len(kept) != len(known):
                self._set(session.payer, channel, kept)

    # The layer

    def intelligence(self, payer: int, channel: int) -> list[Intelligence]:
        """What a payer learned of a channel, the oldest first."""
        fact, length = self.facts(payer).get(channel, ()), self.fact_length
        return [Intelligence(*fact[start : start + length]) for start in range(0, len(fact), length)]

    def learn(self, payer: int, edge: int, kind: int, amount_msat: int) -> None:
        """Learn something of an edge now."""
        known = self.intelligence(payer, edge >> 1)
        self._set(payer, edge >> 1, [*known, Intelligence(self.engine.now, kind, edge, amount_msat)])

    def _set(self, payer: int, channel: int, known: list[Intelligence]) -> None:
        if known:
            self.set_fact(payer, channel, tuple(number for each in known for number in each))
        else:
            self.delete_fact(payer, channel)

    def bounds(self, payer: int, edge: int) -> tuple[int, int]:
        """What an edge is known to carry, and the most that it may carry."""
        low, high = 0, self.engine.capacity[edge >> 1]
        for _, kind, learned_edge, amount in self.intelligence(payer, edge >> 1):
            if kind == PAID:
                change = -amount if learned_edge == edge else amount
                low, high = max(0, low + change), max(0, high + change)
            elif learned_edge == edge:
                low, high = (max(low, amount), high) if kind == PASSED else (low, min(high, amount))
        return low, high

    # Results

    def succeeded(self, session: Session, shard: Shard) -> None:
        """As in `PayerModel`."""
        for edge, amount in zip(shard.edges[1:], shard.amounts[1:], strict=True):
            self.learn(session.payer, edge, PAID, amount)

    def failed(self, session: Session, shard: Shard) -> FailureInterpretation:
        """As in `PayerModel`."""
        at, edges, payer = shard.reporter_hop, shard.edges, session.payer
        for edge, amount in zip(edges[:at], shard.amounts[:at], strict=True):
            self.learn(payer, edge, PASSED, amount)
        if at == len(edges):
            if shard.code == FailureCode.INCORRECT_OR_UNKNOWN_PAYMENT_DETAILS:
                return FailureInterpretation(False, GOOD)
            if shard.code == FailureCode.MPP_TIMEOUT:
                return FailureInterpretation(True, GOOD)
            return self._disabled(session, edges[-1])
        if shard.code != FailureCode.TEMPORARY_CHANNEL_FAILURE:
            return self._disabled(session, edges[at])
        reserved = self.in_flight_msat(payer).get(edges[at], 0)
        self.learn(payer, edges[at], FAILED, max(0, shard.amounts[at] + reserved - 1))
        return FailureInterpretation(True, "that direction fails for this amount")

    def _disabled(self, session: Session, edge: int) -> FailureInterpretation:
        session.policy_retries |= {edge}
        return FailureInterpretation(True, "that direction fails in this payment")

    # Routes

    def search(self, session: Session, amount_msat: int) -> ClnSearch:
        """As in `PayerModel`."""
        return ClnSearch(
            session.payer,
            session.target,
            amount_msat,
            session.fee_limit_msat - session.fees_msat,
            MAX_PARTS - session.parts_in_flight,
            session.final_cltv_blocks,
            self._limits(session),
            self.engine.router.costs.outgoing.edges_of,
        )

    def _limits(self, session: Session) -> Limits:
        """What each edge may carry for this payment, as far as the payer knows."""
        engine, payer = self.engine, session.payer
        # What the payer's own channels have to send, unless they refused it.
        local = {
            edge: min(self.local_msat(session, edge), self.bounds(payer, edge)[1]) for edge in engine.out_edges(payer)
        }
        known = {edge: self.bounds(payer, edge) for key in self.facts(payer) for edge in (2 * key, 2 * key + 1)}
        for edge, amount in self.in_flight_msat(payer).items():
            low, high = known.get(edge) or (0, engine.capacity[edge >> 1])
            known[edge] = max(0, low - amount), max(0, high - amount)
        known |= {edge: (msat, msat) for edge, msat in local.items()}  # their balances have what is in flight
        return Limits(engine.policies, engine.capacity, known, frozenset(local), set(session.policy_retries))
