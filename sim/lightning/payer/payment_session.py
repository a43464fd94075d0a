"""Payers of the network: they split, try, learn and try again, until it arrives or there is no way left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.htlc import SETTLED, WAITING
from leyden.lightning.engine.shard import Shard
from leyden.lightning.engine.undo_log import Changing
from leyden.lightning.failure_codes import ABOUT_CHANNELS, MPP_TIMEOUT
from leyden.lightning.payer.payment_scripts import MOST_PARTS
from leyden.lightning.routing.mission_control import Lesson, Lessons, lesson
from leyden.lightning.routing.pathfinding import Guide

SMALLEST_SHARD_MSAT = 10_000_000
MPP_TIMEOUT_MS = 120_000
FINAL_BLOCKS = 80
# A block may come while the payment travels: payers add some to what the invoice asks (LND: three).
_BLOCKS_TO_SPARE = 3

SUCCEEDED, TIMEOUT, NO_ROUTE = "SUCCEEDED", "TIMEOUT", "NO_ROUTE"
_ALL = (SETTLED, 0, "")
_NONE: frozenset[int] = frozenset()
INSUFFICIENT_BALANCE, REFUSED, ERROR = "INSUFFICIENT_BALANCE", "INCORRECT_PAYMENT_DETAILS", "ERROR"


def fee_limit(amount_msat: int) -> int:
    """The most that a payer spends on fees: as much as the amount up to 1,000 sat, then 5 % of it."""
    return amount_msat if amount_msat <= 1_000_000 else amount_msat // 20


class Order(Changing):
    """One payment under way. `outcome` is None until it has ended; `halted` is what it will end with if nothing that
    is still in flight succeeds: no part is sent any more. `luck` sets its latencies apart from other orders'."""

    __slots__ = (
        "amount_msat", "chances", "fee_limit_msat", "fees_msat", "final_blocks", "gives_up_at", "guide", "halted", "id",
        "luck", "most_parts", "most_tries", "outcome", "parts", "payer", "received_msat", "sent", "smallest_msat",
        "target", "waiting",
    )  # fmt: skip
    changing = ("chances", "fees_msat", "guide", "halted", "outcome", "parts", "received_msat", "sent", "waiting")

    def __init__(self, id: Any, payer: int, target: int, amount_msat: int) -> None:
        self.id, self.payer, self.target, self.amount_msat = id, payer, target, amount_msat
        self.fee_limit_msat = fee_limit(amount_msat)
        self.luck = id if isinstance(id, int) else crc32(str(id).encode())
        self.gives_up_at: int | None = None
        self.final_blocks = FINAL_BLOCKS + _BLOCKS_TO_SPARE
        self.most_parts, self.most_tries = MOST_PARTS, 1_000
        self.smallest_msat = SMALLEST_SHARD_MSAT
        self.fees_msat = self.parts = self.received_msat = self.sent = 0
        self.outcome: str | None = None
        self.halted: str | None = None
        self.chances = _NONE
        self.guide: Guide | None = None
        self.waiting: tuple[Shard, ...] = ()


class Payers:
    """All the payers of one engine, each with beliefs of its own.

    Without `keep_guides` a payer works everything out anew for each try: slower, but then what it does depends only on
    what can be written down.

    `attempted`, `tried` and `ended` are told of a shard sent, of one that came back with what it taught, and of an
    order that ended. Without a receiver of its own (`engine.arrived`), an order is collected and settled when complete.
    """

    def __init__(self, engine: Engine, *, keep_guides: bool = True) -> None:
        self.engine = engine
        self.lessons = Lessons(engine)
        self._keep_guides = keep_guides
        self.attempted: Callable[[Shard], None] | None = None
        self.tried: Callable[[Shard, Lesson | None], None] | None = None
        self.ended: Callable[[Order], None] | None = None
        engine.arrived = self._collect
        engine.returned = self._returned
        engine.woken = self._too_long

    def start(self, order: Order, shares: list[int] | None = None) -> Order:
        """Send an order, in these shares if they are given (msat); further splits are the payer's."""
        engine = self.engine
        if engine.recording:
            engine.checkpoint()
            engine.touch(order)
        self._send(order, shares or [order.amount_msat])
        if not order.parts:
            self._judge(order)
        return order

    def _can_pay(self, order: Order) -> bool:
        """Whether the payer's channels together hold the amount."""
        engine, amount = self.engine, 0
        for edge in engine.edges_of(order.payer):
            amount += max(0, engine.able(edge))
            if amount >= order.amount_msat:
                return True
        return False

    def give_up(self, order: Order) -> None:
        """Send no more; what is on its way still decides."""
        self.engine.checkpoint()
        self.engine.touch(order)
        order.halted = order.halted or TIMEOUT

    def _send(self, order: Order, amounts: list[int]) -> None:
        """Send these amounts, each in one piece if there is a way for it and in halves if not."""
        engine = self.engine
        waiting = amounts
        while waiting and order.halted is None:
            if order.gives_up_at is not None and engine.now >= order.gives_up_at:
                order.halted = TIMEOUT
                return
            amount = waiting.pop()
            route = None
            if order.sent < order.most_tries:
                route, order.guide = engine.router.route(
                    order.payer,
                    order.target,
                    amount,
                    able=engine.able,
                    known=self.lessons.doubts(order.payer, engine.now),
                    fee_limit_msat=order.fee_limit_msat - order.fees_msat,
                    guide=order.guide,
                )
                if not self._keep_guides:
                    order.guide = None
            if route is not None:
                order.sent += 1
                order.parts += 1
                order.fees_msat += route.amounts[0] - amount
                expiry = engine.height() + order.final_blocks
                shard = engine.send(order, order.sent - 1, route, expiry, order.luck)
                if self.attempted is not None:
                    self.attempted(shard)
                continue
            if not order.sent and not self._can_pay(order):
                order.halted = INSUFFICIENT_BALANCE
                return
            half = amount // 2
            if half < order.smallest_msat or order.parts + len(waiting) + 2 > order.most_parts:
                order.halted = NO_ROUTE
                return
            waiting += [amount - half, half]

    def _returned(self, shard: Shard) -> None:
        """A shard came back, settled or failed."""
        order: Order = shard.owner
        engine = self.engine
        if engine.recording:
            engine.touch(order)
        order.parts -= 1
        amount = shard.amounts[-1]
        if shard.answer:
            order.received_msat += amount
            # Whoever has the preimage has paid: nothing more is sent.
            order.halted = SUCCEEDED
            self.lessons.carried(order.payer, shard.edges, shard.amounts, engine.capacity, engine.now)
            if self.tried is not None:
                self.tried(shard, None)
        else:
            order.fees_msat -= shard.amounts[0] - amount
            taught = self._learn(order, shard)
            again = taught.retried and order.halted is None
            if self.tried is not None:
                self.tried(shard, taught._replace(retried=again))
            if again:
                self._send(order, [amount])
            elif order.halted is None:
                order.halted = REFUSED if shard.reporter == len(shard.edges) else ERROR
        if not order.parts:
            self._judge(order)

    def _learn(self, order: Order, shard: Shard) -> Lesson:
        engine = self.engine
        edges, reporter = shard.edges, shard.reporter
        pair = edges[reporter] if reporter < len(edges) else -1
        around: list[int] = []
        if 0 < reporter < len(edges) and shard.code not in ABOUT_CHANNELS:
            around = [side for edge in engine.edges_of(engine.terms.source[pair]) for side in (edge, edge ^ 1)]
        taught = lesson(shard.code, reporter, edges, second=pair in order.chances, around=around)
        order.chances |= {pair}
        self.lessons.take(order.payer, taught, edges, shard.amounts, engine.capacity, engine.now)
        return taught

    def _judge(self, order: Order) -> None:
        """An order of which nothing is in flight ends when nothing more will be sent."""
        if order.halted is not None and order.outcome is None:
            order.outcome = order.halted
            if self.ended is not None:
                self.ended(order)

    # A receiver without invoices, for runs that are only about the network

    def _collect(self, shard: Shard) -> tuple[str, int, str]:
        order: Order = shard.owner
        if not order.waiting and shard.amounts[-1] >= order.amount_msat:
            return _ALL
        self.engine.touch(order)
        brought = shard.amounts[-1] + sum(other.amounts[-1] for other in order.waiting)
        if brought < order.amount_msat:
            if not order.waiting:
                self.engine.wake(shard, MPP_TIMEOUT_MS)
            order.waiting = (*order.waiting, shard)
            return WAITING, 0, ""
        earlier, order.waiting = order.waiting, ()
        for other in earlier:
            self.engine.resolve(other, True)
        return SETTLED, 0, ""

    def _too_long(self, shard: Shard) -> None:
        """The other parts did not come in time."""
        order: Order = shard.owner
        if shard not in order.waiting:
            return
        self.engine.touch(order)
        back, order.waiting = order.waiting, ()
        for other in back:
            self.engine.resolve(other, False, MPP_TIMEOUT, "the other parts did not arrive in time")
