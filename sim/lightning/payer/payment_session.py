"""Payment sessions: each splits a payment into shards, finds routes and retries after failures.

The limits are LND's unless a payer model has others; `sim/lightning/README.md` says what is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.shard import Shard
from leyden.lightning.failure_codes import CHANNEL_FAILURES, POLICY_FAILURES, FailureCode
from leyden.lightning.payer.failure_reasons import EXTRA_CLTV_BLOCKS, FINAL_CLTV_BLOCKS, FailureReasons
from leyden.lightning.payer.payment_scripts import MAX_PARTS
from leyden.lightning.payer.trial_payments import fee_limit
from leyden.lightning.payer_models.choice import payer_model
from leyden.lightning.payer_models.payer_model import PayerModel
from leyden.lightning.routing.mission_control import FailureInterpretation, MissionControl, interpret_failure
from leyden.lightning.routing.pathfinding import Route, SearchHint
from leyden.lightning.undo_log import Recorded

MIN_SHARD_MSAT = 10_000_000

SUCCEEDED, TIMEOUT, NO_ROUTE = "SUCCEEDED", "TIMEOUT", "NO_ROUTE"
_NO_EDGES: frozenset[int] = frozenset()
INSUFFICIENT_BALANCE, REFUSED, ERROR = "INSUFFICIENT_BALANCE", "INCORRECT_PAYMENT_DETAILS", "ERROR"
_DETAILS = FailureCode.INCORRECT_OR_UNKNOWN_PAYMENT_DETAILS


class PaymentSession(Recorded):
    """One payment. `outcome` is None until it has ended. `pending_outcome` is the outcome unless a shard in flight
    succeeds; when it is set, no shard is sent any more, and `cause` says why. `policy_retries` are the edges whose
    policy failure was retried once. `latency_seed` separates the latencies of sessions."""

    __slots__ = (
        "amount_msat", "attempt_count", "cause", "fee_limit_msat", "fees_msat", "final_cltv_blocks", "gives_up_at",
        "hint", "id", "latency_seed", "max_attempts", "max_parts", "min_shard_msat", "outcome", "parts_in_flight",
        "payer", "pending_outcome", "policy_retries", "received_msat", "target",
    )  # fmt: skip
    recorded_fields = (
        "attempt_count", "cause", "fees_msat", "hint", "outcome", "parts_in_flight", "pending_outcome",
        "policy_retries", "received_msat",
    )  # fmt: skip

    def __init__(self, id: Any, payer: int, target: int, amount_msat: int) -> None:
        self.id, self.payer, self.target, self.amount_msat = id, payer, target, amount_msat
        self.fee_limit_msat = fee_limit(amount_msat)
        self.latency_seed = id if isinstance(id, int) else crc32(str(id).encode())
        self.gives_up_at: int | None = None
        self.final_cltv_blocks = FINAL_CLTV_BLOCKS + EXTRA_CLTV_BLOCKS
        self.max_parts, self.max_attempts = MAX_PARTS, 1_000
        self.min_shard_msat = MIN_SHARD_MSAT
        self.fees_msat = self.parts_in_flight = self.received_msat = self.attempt_count = 0
        self.outcome: str | None = None
        self.pending_outcome: str | None = None
        self.cause: str | None = None
        self.policy_retries = _NO_EDGES
        self.hint: SearchHint | None = None


class PaymentSessions:
    """The payment sessions of one engine; every payer has learned different things. With the condition `payer` they
    learn and choose as an implementation does (`model`).

    `reuse_hints` keeps what a search found for the next attempt. Without it attempts are slower and depend only on what
    a snapshot contains. `on_stop` gives the cause of a session that sends no more, `on_attempt` is called with a shard
    that was sent, `on_attempt_end` with one that came back and the interpretation of its failure, `on_end` with a
    session that ended. `engine.on_arrival` is the receiver.
    """

    def __init__(self, engine: Engine, *, reuse_hints: bool = True) -> None:
        self.engine = engine
        self.mission_control = MissionControl(engine)
        self.model = payer_model(engine)
        self.reasons = FailureReasons(engine, lambda: self.knowledge)
        self._reuse_hints = reuse_hints
        self.on_stop: Callable[[PaymentSession, str, int], str] | None = None
        self.on_attempt: Callable[[Shard], None] | None = None
        self.on_attempt_end: Callable[[Shard, FailureInterpretation | None], None] | None = None
        self.on_end: Callable[[PaymentSession], None] | None = None
        engine.on_return = self._returned

    @property
    def knowledge(self) -> MissionControl | PayerModel:
        """What the payers know."""
        return self.mission_control if self.model is None else self.model

    @knowledge.setter
    def knowledge(self, knowledge: MissionControl | PayerModel) -> None:
        if isinstance(knowledge, PayerModel):
            self.model = knowledge
        else:
            self.mission_control, self.model = knowledge, None

    def start(self, session: PaymentSession, amounts: list[int] | None = None) -> PaymentSession:
        """Start a session, with parts of these amounts (msat) if given; the session may split them further."""
        engine = self.engine
        if engine.recording:
            engine.before_change()
            engine.record_object(session)
        if self.model is None:
            self._send(session, amounts or [session.amount_msat], starts=True)
        else:
            self.model.begin(session)
            self._send_by(self.model, session, amounts or [session.amount_msat], starts=True)
        if not session.parts_in_flight:
            self._end_if_done(session)
        return session

    def _can_pay(self, session: PaymentSession) -> bool:
        """Whether the payer's channels can send the amount together."""
        engine, amount = self.engine, 0
        for edge in engine.out_edges(session.payer):
            amount += max(0, engine.spendable_msat(edge))
            if amount >= session.amount_msat:
                return True
        return False

    def give_up(self, session: PaymentSession, outcome: str = TIMEOUT) -> None:
        """Send no more shards; those in flight still decide."""
        self.engine.before_change()
        self.engine.record_object(session)
        self._stop(session, outcome)

    def _stop(self, session: PaymentSession, outcome: str, amount_msat: int = 0) -> None:
        """Send no more: with this outcome, unless it has one or a shard in flight succeeds. `amount_msat` is that of
        the part that was not sent."""
        if session.pending_outcome is None:
            session.pending_outcome = outcome
            if self.on_stop is not None:
                session.cause = self.on_stop(session, outcome, amount_msat)

    def _is_over(self, session: PaymentSession) -> bool:
        """Whether the payer's patience is over."""
        return session.gives_up_at is not None and self.engine.now >= session.gives_up_at

    def _send(self, session: PaymentSession, amounts: list[int], *, starts: bool = False) -> None:
        """Send these amounts: each as one shard if there is a route for it, and otherwise as two halves. Those with
        which the payment `starts` are sent also by a payer without patience, as a direct payment is."""
        engine = self.engine
        waiting = amounts
        while waiting and session.pending_outcome is None:
            if not starts and self._is_over(session):
                self._stop(session, TIMEOUT)
                return
            amount = waiting.pop()
            route = None
            if session.attempt_count < session.max_attempts:
                route, session.hint = engine.router.route(
                    session.payer,
                    session.target,
                    amount,
                    spendable_msat=engine.spendable_msat,
                    bounds=self.mission_control.penalties(session.payer, engine.now, engine.capacity),
                    fee_limit_msat=session.fee_limit_msat - session.fees_msat,
                    final_cltv_blocks=session.final_cltv_blocks,
                    hint=session.hint,
                )
                if not self._reuse_hints:
                    session.hint = None
            if route is not None:
                self._offer(session, route)
                continue
            if not session.attempt_count and not self._can_pay(session):
                self._stop(session, INSUFFICIENT_BALANCE, session.amount_msat)
                return
            half = amount // 2
            if half < session.min_shard_msat or session.parts_in_flight + len(waiting) + 2 > session.max_parts:
                self._stop(session, NO_ROUTE, amount)
                return
            waiting += [amount - half, half]

    def _send_by(self, model: PayerModel, session: PaymentSession, waiting: list[int], *, starts: bool = False) -> None:
        """Send these amounts on the routes that a model chooses; `starts` as for `_send`."""
        while waiting and session.pending_outcome is None:
            if not starts and self._is_over(session):
                self._stop(session, TIMEOUT)
                return
            amount = waiting.pop()
            routes = model.routes(session, amount) if session.attempt_count < session.max_attempts else []
            for route in routes:
                self._offer(session, route)
            if routes:
                continue
            if not model.can_pay(session, amount):
                self._stop(session, INSUFFICIENT_BALANCE, amount)
                return
            half = amount // 2
            is_whole = half < session.min_shard_msat
            if not model.halves or is_whole or session.parts_in_flight + len(waiting) + 2 > session.max_parts:
                self._stop(session, NO_ROUTE, amount)
                return
            waiting += [amount - half, half]

    def _offer(self, session: PaymentSession, route: Route) -> None:
        session.attempt_count += 1
        session.parts_in_flight += 1
        session.fees_msat += route.amounts[0] - route.amounts[-1]
        expiry = self.engine.block_height() + session.final_cltv_blocks
        shard = self.engine.send(session, session.attempt_count - 1, route, expiry, session.latency_seed)
        if self.on_attempt is not None:
            self.on_attempt(shard)

    def _returned(self, shard: Shard) -> None:
        """The result of a shard is back at the payer."""
        session: PaymentSession = shard.owner
        engine = self.engine
        if engine.recording:
            engine.record_object(session)
        session.parts_in_flight -= 1
        amount = shard.amounts[-1]
        if shard.settled:
            session.received_msat += amount
            # With the preimage the payment has succeeded: no more shards are sent.
            session.pending_outcome = SUCCEEDED
            if self.model is None:
                known = self.mission_control
                known.report_success(session.payer, shard.edges, shard.amounts, engine.capacity, engine.now)
            else:
                self.model.succeeded(session, shard)
            if self.on_attempt_end is not None:
                self.on_attempt_end(shard, None)
        else:
            session.fees_msat -= shard.amounts[0] - amount
            model = self.model
            interpretation = self._report_failure(session, shard) if model is None else model.failed(session, shard)
            retry = interpretation.retried and session.pending_outcome is None
            if self.on_attempt_end is not None:
                self.on_attempt_end(shard, interpretation._replace(retried=retry))
            if retry and model is None:
                self._send(session, [amount])
            elif retry:
                assert model is not None
                self._send_by(model, session, [amount])
            elif session.pending_outcome is None:
                session.pending_outcome = REFUSED if shard.code == _DETAILS else ERROR
                session.cause = shard.reason
        if not session.parts_in_flight:
            self._end_if_done(session)

    def _report_failure(self, session: PaymentSession, shard: Shard) -> FailureInterpretation:
        engine = self.engine
        edges, reporter = shard.edges, shard.reporter_hop
        pair = edges[reporter] if reporter < len(edges) else -1
        reporter_edges: list[int] = []
        if 0 < reporter < len(edges) and shard.code not in CHANNEL_FAILURES:
            reporter_edges = [
                side for edge in engine.out_edges(engine.policies.source[pair]) for side in (edge, edge ^ 1)
            ]
        interpretation = interpret_failure(
            shard.code, reporter, edges, already_retried=pair in session.policy_retries, reporter_edges=reporter_edges
        )
        if pair >= 0 and shard.code in POLICY_FAILURES:
            session.policy_retries |= {pair}
        self.mission_control.report_failure(
            session.payer, interpretation, edges, shard.amounts, engine.capacity, engine.now
        )
        return interpretation

    def _end_if_done(self, session: PaymentSession) -> None:
        """End a session that has no shard in flight and sends no more."""
        if session.pending_outcome is not None and session.outcome is None:
            session.outcome = session.pending_outcome
            if self.on_end is not None:
                self.on_end(session)
