"""Payments that travel: from the payer's node over channels to the shop's, in the same rows as the direct ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.htlc import FAILED, HELD, SETTLED, Fate, Htlc
from leyden.lightning.engine.interceptors import Interceptors
from leyden.lightning.engine.shard import Shard
from leyden.lightning.failure_codes import NAMES
from leyden.lightning.network.network_snapshot import stand, written
from leyden.lightning.network.network_store import Keeper
from leyden.lightning.payer.payment_scripts import FAILURES, share
from leyden.lightning.payer.payment_session import Order, Payers
from leyden.lightning.payer.payments import Payments
from leyden.lightning.receiver.node import DirectNode
from leyden.lightning.routing.mission_control import GOOD, Lesson
from leyden.server.ports import SETTLEMENT, Clock, EventJournal, RandomSource
from leyden.server.store.store import Store

NETWORK_TIMER = "network"

# A block may come while the payment travels: payers add some to what the invoice asks (LND: three).
_BLOCKS_TO_SPARE = 3
# A wallet that can pay something: at least a million sat of its own in its channels, where there are such nodes.
_PURSE_MSAT = 1_000_000_000
_IN_FLIGHT, _SUCCEEDED = "in_flight", "succeeded"

Row = dict[str, Any]


class TravellingPayments(Payments):
    """`Payments` over a network: the same calls, rows and journal, but each part finds its own way and takes its time.

    A payer's name stands for a node, always the same for one seed; the name of a node stands for itself. `shop` is the
    node at which `node`'s invoices are paid, `key` 32 bytes that depend on the seed.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        node: DirectNode,
        chance: RandomSource,
        journal: EventJournal,
        *,
        engine: Engine,
        shop: int,
        key: bytes,
    ) -> None:
        super().__init__(store, clock, node, chance, journal)
        self.engine = engine
        self.shop = shop
        self._key = key
        self._numbers = {name: number for number, name in enumerate(engine.graph.names)}
        self._homes = _homes(engine, shop)
        self._orders: dict[str, Order] = {}
        self._payers = Payers(engine, keep_guides=False)
        engine.arrived = self._arrived
        self._payers.attempted = self._attempted
        self._payers.tried = self._tried
        self._payers.ended = self._ended
        self._keeper = Keeper(store, engine, self._orders) if store.lasts else None
        self.interceptors = Interceptors(store, clock, journal, engine)
        clock.on(NETWORK_TIMER, self._move)

    def knows(self, node: str) -> bool:
        """Whether the map has a node of this name."""
        return node in self._numbers

    def home_of(self, payer: str) -> int:
        """The number of the node that this payer's wallet runs."""
        if payer in self._numbers:
            return self._numbers[payer]
        drawn = blake2b(payer.encode(), key=self._key, digest_size=8).digest()
        return self._homes[int.from_bytes(drawn, "big") % len(self._homes)]

    def cancel(self, payment_id: str) -> Row:
        """As for direct payments; parts that already travel have the last word, and no further ones are sent."""
        order = self._orders.get(payment_id)
        row = self._present(payment_id)
        if order is None or row["status"] == HELD:
            return super().cancel(payment_id)
        self.come()
        self.engine.touch(order)
        order.halted = order.halted or "CANCELED"
        waiting = self._node.invoices.row(row["payment_hash"])
        if waiting is not None and any(part["state"] == HELD for part in waiting["parts"]):
            self._node.invoices.give_back(row["payment_hash"], "the payment was cancelled before all its parts arrived")
        self._arm()
        return self._present(payment_id)

    def present_ms(self) -> int:
        """The clock's instant."""
        return self._clock.now()

    def noted(self, kind: str, subject: str, facts: dict[str, Any]) -> None:
        """Write something about the network into the journal."""
        self._journal.note(kind, subject, **facts)

    # Forks and later days

    def snapshot(self) -> dict[str, Any]:
        """What travels, who believes what, and who holds how much, as JSON values."""
        return written(self.engine, self._orders, self._payers.lessons)

    def restore(self, saved: Mapping[str, Any], secret: Callable[[str], bytes]) -> None:
        """Go on where `saved` was taken: for payments over a network that nobody used yet."""
        orders, self._payers.lessons = stand(self.engine, saved, secret)
        self._orders.update(orders)

    def write_down(self) -> None:
        """At the end of a commit: write down what it changed on the network, where that is kept."""
        if self._keeper is not None:
            self._keeper.write(self._payers.lessons)

    def stand_again(self, secret: Callable[[str], bytes]) -> None:
        """Before `resume`: stand where the network was left."""
        saved = None if self._keeper is None else self._keeper.saved()
        if saved is not None:
            self.restore(saved, secret)

    def resume(self) -> None:
        """Set the timers, the network's too: for a store that was just opened."""
        super().resume()
        self._arm()

    # What time brings

    def _move(self, key: str) -> None:
        """The clock reached the network's next event."""
        self.engine.run(self._clock.now())
        self._arm()

    def come(self) -> None:
        """Let the network stand at the clock's instant, before something is done to it from outside."""
        self.engine.checkpoint()
        self.engine.now = max(self.engine.now, self._clock.now())

    def _arm(self) -> None:
        due = self.engine.next_due()
        if due is not None:
            self._clock.call_at(due, SETTLEMENT, NETWORK_TIMER, "next")

    def _send(self, payment_id: str) -> None:
        """The payer begins."""
        row = self._present(payment_id)
        script, amount_msat = row["script"], row["amount_msat"]
        if script["outcome"] == "fail":
            self._end(row, FAILED, script["failure"], FAILURES[script["failure"]])
            return
        order = Order(payment_id, self.home_of(row["payer"]), self.shop, amount_msat)
        order.gives_up_at = row["gives_up_at"]
        order.final_blocks = script["blocks"] + _BLOCKS_TO_SPARE
        self.rows.put({**row, "next_part_at": None})
        self.come()
        self.engine.remember(self._orders, payment_id)
        self._orders[payment_id] = order
        parts = script["parts"]
        shares = [share(amount_msat, parts, number) for number in range(script["sent_parts"])]
        self._payers.start(order, shares[::-1])
        self._arm()

    def _give_up(self, payment_id: str) -> None:
        super()._give_up(payment_id)
        order = self._orders.get(payment_id)
        if order is not None:
            self._payers.give_up(order)

    # What the network brings

    def _attempted(self, shard: Shard) -> None:
        graph, terms = self.engine.graph, self.engine.terms
        row = self._present(shard.owner.id)
        attempt = {
            "part": shard.number,
            "at": self._clock.now(),
            "amount_msat": shard.amounts[-1],
            "fee_msat": shard.amounts[0] - shard.amounts[-1],
            "route": [graph.names[terms.target[edge]] for edge in shard.edges],
            # For `records.htlcs_of`: channel, ends, amount and expiry of each hop, and later when it was locked.
            "hops": [
                [edge >> 1, graph.names[terms.source[edge]], graph.names[terms.target[edge]], amount, expiry]
                for edge, amount, expiry in zip(shard.edges, shard.amounts, shard.expiries, strict=True)
            ],
            "times": None,
            "status": _IN_FLIGHT,
            "source": None,
            "hop": None,
            "code": None,
            "name": None,
            "why": None,
            "reason": None,
            "retried": False,
            "learned": None,
            "resolved_at": None,
        }
        self.rows.put({**row, "attempts": [*row["attempts"], attempt]})

    def _arrived(self, shard: Shard) -> tuple[str, int, str]:
        """A part reached the shop: its invoices decide, as they do for direct payments."""
        row = self._present(shard.owner.id)
        script = row["script"]
        htlc = Htlc(
            id=f"{row['id']}:{shard.number}",
            payment_hash=row["payment_hash"],
            payment_secret=script["payment_secret"],
            amount_msat=shard.amounts[-1],
            total_msat=row["amount_msat"],
            cltv_expiry=shard.final,
            hold=script["outcome"] == "hold",
        )
        fate = self._node.invoices.arrive(htlc)
        if fate.kind not in (SETTLED, FAILED):
            self._mark(row["id"], shard.number, status=fate.kind)
            self._judge_held(row["id"])
        return fate.kind, fate.code or 0, fate.reason

    def _learn(self, fate: Fate) -> None:
        """The shop decided about a part that had waited there: the answer starts on its way back."""
        payment_id, _, number = fate.htlc_id.rpartition(":")
        if payment_id not in self._orders:
            return  # somebody else's HTLC
        if fate.kind == HELD:
            self._mark(payment_id, int(number), status=HELD)
            self._judge_held(payment_id)
            return
        live = self.engine.live.values()
        shard = next(each for each in live if each.owner.id == payment_id and each.number == int(number))
        self.come()
        self.engine.resolve(shard, fate.kind == SETTLED, fate.code or 0, fate.reason)
        self._arm()

    def _tried(self, shard: Shard, taught: Lesson | None) -> None:
        """A part is back with the payer."""
        times = [list(hop) for hop in shard.times]
        facts: dict[str, Any] = {"resolved_at": self._clock.now(), "hop": shard.reporter, "times": times}
        row = self._present(shard.owner.id)
        if taught is None:
            invoice = self._node.invoices.row(row["payment_hash"])
            assert invoice is not None  # it was settled
            self._mark(row["id"], shard.number, status=SETTLED, learned=GOOD, **facts)
            row = self._present(row["id"])
            received = row["received_msat"] + shard.amounts[-1]
            self.rows.put({**row, "received_msat": received, "preimage": invoice["preimage"]})
            return
        final = shard.reporter == len(shard.edges)
        terms, names = self.engine.terms, self.engine.graph.names
        reporter = "final" if final else names[terms.source[shard.edges[shard.reporter]]]
        facts |= {"source": reporter, "code": shard.code, "name": NAMES.get(shard.code), "reason": shard.why}
        facts |= {"retried": taught.retried, "learned": taught.learned}
        self._mark(row["id"], shard.number, status=FAILED, **facts)
        self._journal.note(
            "attempt_failed", row["id"], part=shard.number, source=reporter, code=shard.code, why=shard.why
        )

    def _ended(self, order: Order) -> None:
        """Nothing of the payment is in flight any more."""
        self.engine.remember(self._orders, order.id)
        del self._orders[order.id]
        row = self._present(order.id)
        outcome = order.outcome or "ERROR"
        if outcome == "SUCCEEDED":
            self._end(row, _SUCCEEDED, outcome, None)
            return
        words = [attempt["reason"] for attempt in row["attempts"] if attempt["reason"]]
        reason = words[-1] if words else FAILURES.get(outcome, "no part was sent")
        if outcome == "NO_ROUTE" and words:
            reason = f"{FAILURES['NO_ROUTE']}; at last {words[-1]}"
        self._end(row, FAILED, outcome, reason)

    def _mark(self, payment_id: str, number: int, **facts: Any) -> None:
        row = self._present(payment_id)
        attempts = list(row["attempts"])
        attempts[number] = {**attempts[number], **facts}
        self.rows.put({**row, "attempts": attempts})

    def _judge_held(self, payment_id: str) -> None:
        """A payment is held when the shop holds what it sent and nothing else of it is on its way."""
        row = self._present(payment_id)
        kinds = {attempt["status"] for attempt in row["attempts"]}
        if HELD in kinds and kinds <= {HELD, FAILED} and row["status"] != HELD:
            self._journal.note("payment_held", payment_id)
            self.rows.put({**row, "status": HELD})


def _homes(engine: Engine, shop: int) -> list[int]:
    """The nodes that wallets may run: those that began with money to spend, or all but the shop where none did."""
    own, channels = [0] * len(engine.graph.names), [0] * len(engine.graph.names)
    for edge in range(2 * engine.first_channels):
        own[engine.terms.source[edge]] += engine.begun[edge]
        channels[engine.terms.source[edge]] += 1
    nodes = [node for node in range(len(own)) if node != shop]
    return [node for node in nodes if own[node] >= _PURSE_MSAT and channels[node] >= 2] or nodes
