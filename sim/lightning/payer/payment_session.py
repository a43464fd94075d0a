"""Payers of the network: they split, try, learn and try again, until it arrives or there is no way left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.htlc import SETTLED, WAITING
from leyden.lightning.engine.shard import Shard
from leyden.lightning.engine.undo_log import Recorded
from leyden.lightning.failure_codes import CHANNEL_FAILURES, MPP_TIMEOUT
from leyden.lightning.payer.payment_scripts import MAX_PARTS
from leyden.lightning.routing.mission_control import FailureInterpretation, MissionControl, interpret_failure
from leyden.lightning.routing.pathfinding import SearchHint

MIN_SHARD_MSAT = 10_000_000
MPP_TIMEOUT_MS = 120_000
FINAL_CLTV_BLOCKS = 80
# A block may come while the payment travels: payers add some to what the invoice asks (LND: three).
_BLOCKS_TO_SPARE = 3

SUCCEEDED, TIMEOUT, NO_ROUTE = "SUCCEEDED", "TIMEOUT", "NO_ROUTE"
_ALL = (SETTLED, 0, "")
_NONE: frozenset[int] = frozenset()
INSUFFICIENT_BALANCE, REFUSED, ERROR = "INSUFFICIENT_BALANCE", "INCORRECT_PAYMENT_DETAILS", "ERROR"


def fee_limit(amount_msat: int) -> int:
    """The most that a payer spends on fees: as much as the amount up to 1,000 sat, then 5 % of it."""
    return amount_msat if amount_msat <= 1_000_000 else amount_msat // 20


class PaymentSession(Recorded):
    """One payment under way. `outcome` is None until it has ended; `halted` is what it will end with if nothing that
    is still in flight succeeds: no part is sent any more. `luck` sets its latencies apart from other orders'."""

    __slots__ = (
        "amount_msat", "attempt_count", "fee_limit_msat", "fees_msat", "final_cltv_blocks", "gives_up_at", "hint", "id",
        "latency_seed", "max_attempts", "max_parts", "min_shard_msat", "outcome", "parts_in_flight", "payer",
        "pending_outcome", "policy_retries", "received_msat", "target", "waiting",
    )  # fmt: skip
    recorded_fields = (
        "attempt_count", "fees_msat", "hint", "outcome", "parts_in_flight", "pending_outcome", "policy_retries",
        "received_msat", "waiting",
    )  # fmt: skip

    def __init__(self, id: Any, payer: int, target: int, amount_msat: int) -> None:
        self.id, self.payer, self.target, self.amount_msat = id, payer, target, amount_msat
        self.fee_limit_msat = fee_limit(amount_msat)
        self.latency_seed = id if isinstance(id, int) else crc32(str(id).encode())
        self.gives_up_at: int | None = None
        self.final_cltv_blocks = FINAL_CLTV_BLOCKS + _BLOCKS_TO_SPARE
        self.max_parts, self.max_attempts = MAX_PARTS, 1_000
        self.min_shard_msat = MIN_SHARD_MSAT
        self.fees_msat = self.parts_in_flight = self.received_msat = self.attempt_count = 0
        self.outcome: str | None = None
        self.pending_outcome: str | None = None
        self.policy_retries = _NONE
        self.hint: SearchHint | None = None
        self.waiting: tuple[Shard, ...] = ()


class PaymentSessions:
    """All the payers of one engine, each with beliefs of its own.

    Without `keep_guides` a payer works everything out anew for each try: slower, but then what it does depends only on
    what can be written down.

    `attempted`, `tried` and `ended` are told of a shard sent, of one that came back with what it taught, and of an
    order that ended. Without a receiver of its own (`engine.arrived`), an order is collected and settled when complete.
    """

    def __init__(self, engine: Engine, *, reuse_hints: bool = True) -> None:
        self.engine = engine
        self.mission_control = MissionControl(engine)
        self._keep_guides = reuse_hints
        self.on_attempt: Callable[[Shard], None] | None = None
        self.on_attempt_end: Callable[[Shard, FailureInterpretation | None], None] | None = None
        self.on_end: Callable[[PaymentSession], None] | None = None
        engine.on_arrival = self._collect
        engine.on_return = self._returned
        engine.on_alarm = self._mpp_timed_out

    def start(self, order: PaymentSession, shares: list[int] | None = None) -> PaymentSession:
        """Send an order, in these shares if they are given (msat); further splits are the payer's."""
        engine = self.engine
        if engine.recording:
            engine.before_change()
            engine.record_object(order)
        self._send(order, shares or [order.amount_msat])
        if not order.parts_in_flight:
            self._end_if_done(order)
        return order

    def _can_pay(self, order: PaymentSession) -> bool:
        """Whether the payer's channels together hold the amount."""
        engine, amount = self.engine, 0
        for edge in engine.out_edges(order.payer):
            amount += max(0, engine.spendable_msat(edge))
            if amount >= order.amount_msat:
                return True
        return False

    def give_up(self, order: PaymentSession) -> None:
        """Send no more; what is on its way still decides."""
        self.engine.before_change()
        self.engine.record_object(order)
        order.pending_outcome = order.pending_outcome or TIMEOUT

    def _send(self, order: PaymentSession, amounts: list[int]) -> None:
        """Send these amounts, each in one piece if there is a way for it and in halves if not."""
        engine = self.engine
        waiting = amounts
        while waiting and order.pending_outcome is None:
            if order.gives_up_at is not None and engine.now >= order.gives_up_at:
                order.pending_outcome = TIMEOUT
                return
            amount = waiting.pop()
            route = None
            if order.attempt_count < order.max_attempts:
                route, order.hint = engine.router.route(
                    order.payer,
                    order.target,
                    amount,
                    spendable_msat=engine.spendable_msat,
                    bounds=self.mission_control.penalties(order.payer, engine.now),
                    fee_limit_msat=order.fee_limit_msat - order.fees_msat,
                    hint=order.hint,
                )
                if not self._keep_guides:
                    order.hint = None
            if route is not None:
                order.attempt_count += 1
                order.parts_in_flight += 1
                order.fees_msat += route.amounts[0] - amount
                expiry = engine.block_height() + order.final_cltv_blocks
                shard = engine.send(order, order.attempt_count - 1, route, expiry, order.latency_seed)
                if self.on_attempt is not None:
                    self.on_attempt(shard)
                continue
            if not order.attempt_count and not self._can_pay(order):
                order.pending_outcome = INSUFFICIENT_BALANCE
                return
            half = amount // 2
            if half < order.min_shard_msat or order.parts_in_flight + len(waiting) + 2 > order.max_parts:
                order.pending_outcome = NO_ROUTE
                return
            waiting += [amount - half, half]

    def _returned(self, shard: Shard) -> None:
        """A shard came back, settled or failed."""
        order: PaymentSession = shard.owner
        engine = self.engine
        if engine.recording:
            engine.record_object(order)
        order.parts_in_flight -= 1
        amount = shard.amounts[-1]
        if shard.settled:
            order.received_msat += amount
            # Whoever has the preimage has paid: nothing more is sent.
            order.pending_outcome = SUCCEEDED
            self.mission_control.report_success(order.payer, shard.edges, shard.amounts, engine.capacity, engine.now)
            if self.on_attempt_end is not None:
                self.on_attempt_end(shard, None)
        else:
            order.fees_msat -= shard.amounts[0] - amount
            taught = self._report_failure(order, shard)
            again = taught.retried and order.pending_outcome is None
            if self.on_attempt_end is not None:
                self.on_attempt_end(shard, taught._replace(retried=again))
            if again:
                self._send(order, [amount])
            elif order.pending_outcome is None:
                order.pending_outcome = REFUSED if shard.reporter_hop == len(shard.edges) else ERROR
        if not order.parts_in_flight:
            self._end_if_done(order)

    def _report_failure(self, order: PaymentSession, shard: Shard) -> FailureInterpretation:
        engine = self.engine
        edges, reporter = shard.edges, shard.reporter_hop
        pair = edges[reporter] if reporter < len(edges) else -1
        around: list[int] = []
        if 0 < reporter < len(edges) and shard.code not in CHANNEL_FAILURES:
            around = [side for edge in engine.out_edges(engine.policies.source[pair]) for side in (edge, edge ^ 1)]
        taught = interpret_failure(
            shard.code, reporter, edges, already_retried=pair in order.policy_retries, reporter_edges=around
        )
        order.policy_retries |= {pair}
        self.mission_control.report_failure(order.payer, taught, edges, shard.amounts, engine.capacity, engine.now)
        return taught

    def _end_if_done(self, order: PaymentSession) -> None:
        """An order of which nothing is in flight ends when nothing more will be sent."""
        if order.pending_outcome is not None and order.outcome is None:
            order.outcome = order.pending_outcome
            if self.on_end is not None:
                self.on_end(order)

    # A receiver without invoices, for runs that are only about the network

    def _collect(self, shard: Shard) -> tuple[str, int, str]:
        order: PaymentSession = shard.owner
        if not order.waiting and shard.amounts[-1] >= order.amount_msat:
            return _ALL
        self.engine.record_object(order)
        brought = shard.amounts[-1] + sum(other.amounts[-1] for other in order.waiting)
        if brought < order.amount_msat:
            if not order.waiting:
                self.engine.set_alarm(shard, MPP_TIMEOUT_MS)
            order.waiting = (*order.waiting, shard)
            return WAITING, 0, ""
        earlier, order.waiting = order.waiting, ()
        for other in earlier:
            self.engine.resolve(other, True)
        return SETTLED, 0, ""

    def _mpp_timed_out(self, shard: Shard) -> None:
        """The other parts did not come in time."""
        order: PaymentSession = shard.owner
        if shard not in order.waiting:
            return
        self.engine.record_object(order)
        back, order.waiting = order.waiting, ()
        for other in back:
            self.engine.resolve(other, False, MPP_TIMEOUT, "the other parts did not arrive in time")
