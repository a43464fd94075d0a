"""The payer of LND: mission control, and the cheapest path by fees, time locks and probability.

Read from lightningnetwork/lnd at commit 90ea05d5a7f9239ede8eb4e2f36d9a66c39e67d5, by file:

routing/missioncontrol_state.go     what a result changes; a lower failure is not raised again within a minute
routing/result_interpretation.go    which pairs a failure code concerns
routing/missioncontrol.go           a policy failure of a pair gets a second chance once a minute
routing/pathfind.go                 attempt cost 100 sat + 1,000 ppm, divided by the probability of the path; 15 parts
                                    per billion of the amount for each block; no path below the probability 0.01
routing/unified_edges.go, routing/bandwidth.go    the payer's own channels count with what they can send now
routing/payment_session.go          half the amount when there is no path; a padding of 3 blocks

Two things are this network's: a route is one of channels, where LND's is one of pairs of nodes, and it has at most 20
hops, where LND adds up the sizes of payloads. Inbound fees do not exist.
"""

from __future__ import annotations

from typing import NamedTuple

from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.shard import Shard
from leyden.lightning.failure_codes import GOOD, NOTHING, POLICY_FAILURES, FailureCode
from leyden.lightning.payer_models.lnd_estimators import NEVER, AprioriEstimator, Estimator, PairResult
from leyden.lightning.payer_models.lnd_search import LndSearch, PathCosts
from leyden.lightning.payer_models.payer_model import FailedShard, PayerModel, Session
from leyden.lightning.routing.mission_control import FailureInterpretation

_MINUTE_MS = 60_000
MIN_SECOND_CHANCE_MS = MIN_FAILURE_RELAX_MS = _MINUTE_MS

Pair = tuple[int, int]


class Interpretation(NamedTuple):
    """Of a result: by pair the amount (msat) and whether it succeeded; the node that failed, if one did; the pair of a
    policy failure; whether another attempt may succeed; what the analyst reads."""

    pairs: dict[Pair, tuple[int, bool]]
    failed_node: int | None
    policy_pair: Pair | None
    retried: bool
    learned: str


class LndPayer(PayerModel):
    """All payers of a network, each with a mission control of its own.

    A fact is a `PairResult` and the time of the pair's last second chance; its key is `from node * nodes + to node`.
    """

    fact_length = 5
    halves = True

    def __init__(self, engine: Engine, estimator: Estimator | None = None, costs: PathCosts | None = None) -> None:
        super().__init__(engine)
        self.estimator: Estimator = estimator or AprioriEstimator()
        self._costs = costs or PathCosts()
        self._nodes = len(engine.graph.names)

    def last_key(self) -> int:
        """As in `PayerModel`."""
        return self._nodes * self._nodes

    # Mission control

    def result_of(self, payer: int, pair: Pair) -> PairResult:
        """What a payer remembers of a pair."""
        fact = self.facts(payer).get(self._key(pair))
        return PairResult() if fact is None else PairResult(*fact[:4])

    def results_by_node(self, payer: int) -> dict[int, dict[int, PairResult]]:
        """All that a payer remembers, by the first node of the pair."""
        found: dict[int, dict[int, PairResult]] = {}
        for key, fact in self.facts(payer).items():
            from_node, to_node = divmod(key, self._nodes)
            found.setdefault(from_node, {})[to_node] = PairResult(*fact[:4])
        return found

    def report(self, payer: int, pair: Pair, amount_msat: int, succeeded: bool, at_ms: int) -> None:
        """Apply one result of a pair; an amount of 0 is a failure at any amount."""
        before = self.result_of(payer, pair)
        success, failure = before.success_msat, before.failure_msat
        if succeeded:
            if before.failure_at != NEVER and amount_msat >= failure:
                failure = amount_msat + 1
            self._set(payer, pair, PairResult(max(success, amount_msat), failure, at_ms, before.failure_at))
            return
        is_recent = before.failure_at != NEVER and at_ms - before.failure_at < MIN_FAILURE_RELAX_MS
        if amount_msat > failure and is_recent:
            return  # results may arrive out of order
        if not amount_msat:
            success = 0
        elif amount_msat <= success:
            success = amount_msat - 1
        self._set(payer, pair, PairResult(success, amount_msat, before.success_at, at_ms))

    def second_chance(self, payer: int, pair: Pair, at_ms: int) -> bool:
        """Whether a policy failure of this pair is forgiven: once a minute."""
        fact = self.facts(payer).get(self._key(pair), (*PairResult(), NEVER))
        if fact[4] != NEVER and at_ms - fact[4] <= MIN_SECOND_CHANCE_MS:
            return False
        self.set_fact(payer, self._key(pair), (*fact[:4], at_ms))
        return True

    def fail_node(self, payer: int, node: int, at_ms: int) -> None:
        """All pairs of a node that the payer has used fail at any amount."""
        for key in list(self.facts(payer)):
            if node in divmod(key, self._nodes):
                self._set(payer, divmod(key, self._nodes), PairResult(failure_at=at_ms))

    def apply(self, payer: int, interpretation: Interpretation, at_ms: int) -> bool:
        """Learn from a result; False for a policy failure that got a second chance, from which nothing is learned."""
        if interpretation.policy_pair is not None and self.second_chance(payer, interpretation.policy_pair, at_ms):
            return False
        if interpretation.failed_node is not None:
            self.fail_node(payer, interpretation.failed_node, at_ms)
        for pair, (amount_msat, succeeded) in interpretation.pairs.items():
            self.report(payer, pair, amount_msat, succeeded, at_ms)
        return True

    def _key(self, pair: Pair) -> int:
        return pair[0] * self._nodes + pair[1]

    def _set(self, payer: int, pair: Pair, result: PairResult) -> None:
        chance = self.facts(payer).get(self._key(pair), (NEVER,))[-1]
        self.set_fact(payer, self._key(pair), (*result, chance))

    # Results

    def succeeded(self, session: Session, shard: Shard) -> None:
        """As in `PayerModel`."""
        pairs = {pair: (amount, True) for pair, amount in zip(self._pairs(shard), shard.amounts, strict=True)}
        self.apply(session.payer, Interpretation(pairs, None, None, False, GOOD), self.engine.now)

    def failed(self, session: Session, shard: Shard) -> FailureInterpretation:
        """As in `PayerModel`."""
        found = interpret(self._pairs(shard), shard)
        learned = found.learned if self.apply(session.payer, found, self.engine.now) else NOTHING
        return FailureInterpretation(found.retried, learned)

    def _pairs(self, shard: FailedShard) -> list[Pair]:
        policies = self.engine.policies
        return [(policies.source[edge], policies.target[edge]) for edge in shard.edges]

    # Routes

    def search(self, session: Session, amount_msat: int) -> LndSearch:
        """As in `PayerModel`: for one route with the whole amount."""
        engine, payer = self.engine, session.payer
        return LndSearch(
            payer,
            session.target,
            amount_msat,
            session.fee_limit_msat - session.fees_msat,
            session.final_cltv_blocks,
            engine.now,
            self.results_by_node(payer),
            {edge: self.local_msat(session, edge) for edge in engine.out_edges(payer)},
            engine.policies,
            engine.capacity,
            engine.router.costs.incoming,
            engine.graph.degree.tolist(),
            self.estimator,
            self._costs,
        )


_ONION_CODES = frozenset({0x8000 | 0x4000 | code for code in (4, 5, 6)})  # BADONION | PERM | 4 to 6
_OUTGOING_CODES = _ONION_CODES | {FailureCode.UNKNOWN_NEXT_PEER, FailureCode.PERMANENT_CHANNEL_FAILURE}


def interpret(pairs: list[Pair], shard: FailedShard) -> Interpretation:
    """What LND reads from a failure: `pairs` are those of the route. The node at `reporter_hop` reported it; 0 is the
    payer."""
    at, code, last = shard.reporter_hop, shard.code, len(pairs)
    found: dict[Pair, tuple[int, bool]] = {}

    def fail(hop: int) -> None:
        found[pairs[hop]] = found[pairs[hop][::-1]] = (0, False)

    def succeed(hops: int) -> None:
        for hop in range(hops):
            found[pairs[hop]] = (shard.amounts[hop], True)

    def result(retried: bool, learned: str, node: int | None = None, policy: Pair | None = None) -> Interpretation:
        return Interpretation(found, node, policy, retried, learned)

    def node_failed(retried: bool, learned: str, policy: Pair | None = None) -> Interpretation:
        fail(at - 1)
        if at < last:
            fail(at)
        return result(retried, learned, pairs[at - 1][1], policy)

    if not at:
        # The payer's own node: what it knows of its channels has changed meanwhile.
        return result(True, NOTHING)
    if at == last:
        if code in (FailureCode.FINAL_INCORRECT_CLTV_EXPIRY, FailureCode.FINAL_INCORRECT_HTLC_AMOUNT) and last > 1:
            fail(last - 1)
            succeed(last - 1)
            return result(True, "the last pair fails at any amount")
        if code in (FailureCode.INCORRECT_OR_UNKNOWN_PAYMENT_DETAILS, FailureCode.MPP_TIMEOUT):
            succeed(last)
            return result(code == FailureCode.MPP_TIMEOUT, GOOD)
        failed = node_failed(False, "every pair of the receiver fails at any amount")
        succeed(last - 1)
        return failed
    if code == FailureCode.TEMPORARY_CHANNEL_FAILURE:
        found[pairs[at]] = (shard.amounts[at], False)
        succeed(at)
        return result(True, "that direction fails for this amount")
    if code == FailureCode.CHANNEL_DISABLED:
        fail(at)
        succeed(at)
        return result(True, "that pair fails at any amount", policy=pairs[at])
    if code in _OUTGOING_CODES:
        fail(at)
        return result(True, "that pair fails at any amount")
    if code in POLICY_FAILURES:
        if at == 1:
            return node_failed(True, "every pair of that node fails at any amount", pairs[at])
        fail(at - 1)
        succeed(at - 1)
        return result(True, "the pair before that node fails at any amount", policy=pairs[at])
    if code == FailureCode.EXPIRY_TOO_SOON and at > 1:
        for hop in range(at):
            fail(hop)
        return result(True, "every pair up to that node fails at any amount")
    return node_failed(True, "every pair of that node fails at any amount")
