"""Payments over the network: from a payer's node over channels to the shop's, in the rows of direct payments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from typing import Any

from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.htlc import FAILED, HELD, SETTLED, HtlcResolution, payment_of
from leyden.lightning.engine.interceptors import Interceptors
from leyden.lightning.engine.shard import Shard
from leyden.lightning.failure_codes import FAILURE_NAMES, GOOD
from leyden.lightning.payer.background_traffic import BackgroundTraffic
from leyden.lightning.payer.failure_reasons import EXTRA_CLTV_BLOCKS
from leyden.lightning.payer.network_checks import check_restored
from leyden.lightning.payer.network_rows import NETWORK_TIMER
from leyden.lightning.payer.network_snapshot import dump_network, restore_network
from leyden.lightning.payer.payment_rows import AttemptResult, AttemptRow, PaymentRow
from leyden.lightning.payer.payment_scripts import part_amount, scripted_reason
from leyden.lightning.payer.payment_session import (
    INSUFFICIENT_BALANCE,
    NO_ROUTE,
    TIMEOUT,
    PaymentSession,
    PaymentSessions,
)
from leyden.lightning.payer.payments import Payments
from leyden.lightning.payer.wallet_nodes import wallet_nodes
from leyden.lightning.payer_models.payer_model import PayerModel
from leyden.lightning.receiver.node import DirectNode
from leyden.lightning.routing.mission_control import FailureInterpretation, MissionControl
from leyden.rng import RandomStream
from leyden.server.gc_pause import unlink
from leyden.server.ports import SETTLEMENT, Clock, EventJournal, RandomSource
from leyden.server.store.rows import CommitParticipant
from leyden.server.store.store import Store

_IN_FLIGHT, _SUCCEEDED = "in_flight", "succeeded"
CANCELED = "CANCELED"
AT_LAST = "; at last "


class RoutedPayments(Payments):
    """`Payments` over a network: the same methods, rows and journal, but each part takes a route and time.

    A payer's name is mapped to a node, always the same one for a seed; a node's name to that node. `shop` is the number
    of the node that has `node`'s invoices, `key` 32 bytes that depend on the seed; `background` gives the draws of the
    background traffic.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        node: DirectNode,
        random_source: RandomSource,
        journal: EventJournal,
        *,
        engine: Engine,
        shop: int,
        key: bytes,
        background: RandomStream,
    ) -> None:
        super().__init__(store, clock, node, random_source, journal)
        self.engine = engine
        self.shop = shop
        self._key = key
        graph = engine.graph
        self._numbers = {name: number for names in (graph.keys, graph.names) for number, name in enumerate(names)}
        self._wallet_nodes = wallet_nodes(engine, shop)
        self.open_sessions: dict[str, PaymentSession] = {}
        self._sessions = PaymentSessions(engine, reuse_hints=False)
        engine.on_arrival = self._receive
        engine.on_force_close = self._note_force_close
        self._sessions.on_stop = self._cause
        self._sessions.on_attempt = self._record_attempt
        self._sessions.on_attempt_end = self._record_attempt_end
        self._sessions.on_end = self._session_ended
        self.interceptors = Interceptors(store, clock, journal, engine, shop)
        self.interceptors.on_removed_outage = self._wake_waiting
        clock.on(NETWORK_TIMER, self._run_due_events)
        self.background = BackgroundTraffic(engine, shop, self._wallet_nodes, clock, background, journal)

    def has_node(self, node: str) -> bool:
        """Whether the graph has a node of this name or public key."""
        return node in self._numbers

    def node_of(self, payer: str) -> int:
        """The number of the node of this payer's wallet."""
        if payer in self._numbers:
            return self._numbers[payer]
        digest = blake2b(payer.encode(), key=self._key, digest_size=8).digest()
        return self._wallet_nodes[int.from_bytes(digest, "big") % len(self._wallet_nodes)]

    def shard(self, payment_id: str, number: int) -> Shard:
        """The shard in flight of an attempt."""
        shards = self.engine.shards.values()
        return next(shard for shard in shards if shard.owner.id == payment_id and shard.number == number)

    def cancel(self, payment_id: str) -> PaymentRow:
        """As for direct payments. The parts in flight still decide; no more are sent."""
        session = self.open_sessions.get(payment_id)
        row = self._existing_row(payment_id)
        if session is None or row["status"] == HELD:
            return super().cancel(payment_id)
        self.synchronize_time()
        self._sessions.give_up(session, CANCELED)
        assert row["payment_hash"] is not None
        waiting = self._node.invoices.row(row["payment_hash"])
        parts = [] if waiting is None else waiting["parts"]
        if any(part["state"] == HELD and payment_of(part["id"]) == payment_id for part in parts):
            self._fail_waiting_parts(row)
        self._schedule()
        return self._existing_row(payment_id)

    def now_ms(self) -> int:
        """The clock's time."""
        return self._clock.now()

    def note(self, kind: str, subject: str, facts: dict[str, Any]) -> None:
        """Write an event of the network into the journal."""
        self._journal.note(kind, subject, **facts)

    # Snapshots

    @property
    def participants(self) -> tuple[CommitParticipant, ...]:
        """The network, and the index of its interceptors."""
        return self.engine, self.interceptors.index

    @property
    def mission_control(self) -> MissionControl | PayerModel:
        """What the payers know about channels."""
        return self._sessions.knowledge

    def snapshot(self) -> dict[str, Any]:
        """The state of the network and of its payers as JSON values."""
        return dump_network(self.engine, self.open_sessions, self._sessions.knowledge)

    def restore(self, saved: Mapping[str, Any], secret: Callable[[str], bytes]) -> None:
        """Restore a snapshot, on a network that was not used yet. Raises `StoreError` as `restore_network` does."""
        sessions, self._sessions.knowledge = restore_network(self.engine, saved, secret)
        self.open_sessions.update(sessions)

    def check(self) -> None:
        """Raise `StoreError` when the network's state is none that its engine can continue: somebody changed it."""
        invoices = {row["payment_hash"]: row for row in self._node.invoices.rows}
        self.interceptors.check()
        check_restored(self, {row["id"]: row for row in self.rows}, invoices)

    @property
    def has_long_searches(self) -> bool:
        """As for direct payments: where payers work as those of an implementation."""
        return isinstance(self._sessions.knowledge, PayerModel)

    def searches_deferred(self, is_over: Callable[[], bool]) -> AbstractContextManager[None]:
        """As for direct payments."""
        knowledge = self._sessions.knowledge
        return knowledge.searches.deferred(is_over) if isinstance(knowledge, PayerModel) else nullcontext()

    def begin(self) -> None:
        """Start the background traffic of a new network."""
        self.background.begin()

    def discard(self) -> None:
        """As for direct payments: the network."""
        self._numbers.clear()
        self.engine.discard()
        unlink((self._sessions,))

    def resume(self) -> None:
        """Set the timers of the payments and of the network, after the store was opened."""
        super().resume()
        self._schedule()
        self.background.resume()

    # Time

    def _run_due_events(self, key: str) -> None:
        """The clock reached the network's next event. Each may search a route: others at this instant are the next."""
        self.engine.run(self._clock.now(), most=1)
        self._schedule()

    def synchronize_time(self) -> None:
        """Set the engine to the clock's time, before something outside its events changes it."""
        self.engine.before_change()
        self.engine.now = max(self.engine.now, self._clock.now())

    def _wake_waiting(self) -> None:
        self.synchronize_time()
        self.engine.wake_waiting()
        self._schedule()

    def _schedule(self) -> None:
        due = self.engine.next_event_ms()
        if due is not None:
            self._clock.call_at(due, SETTLEMENT, NETWORK_TIMER, "next")

    def _send(self, payment_id: str) -> None:
        """Start the payment."""
        row = self._existing_row(payment_id)
        script, amount_msat = row["script"], row["amount_msat"]
        assert script is not None
        assert amount_msat is not None
        if "starts_at" in row:
            self._note(row, "payment_started")
        if script["outcome"] == "fail":
            self._end(row, FAILED, script["failure"], scripted_reason(script["failure"]))
            return
        session = PaymentSession(payment_id, self.node_of(row["payer"]), self.shop, amount_msat)
        session.gives_up_at = row["gives_up_at"]
        session.final_cltv_blocks = script["blocks"] + EXTRA_CLTV_BLOCKS
        self.rows.put({**row, "next_part_at": None})
        self.synchronize_time()
        self.engine.record_item(self.open_sessions, payment_id)
        self.open_sessions[payment_id] = session
        parts = script["parts"]
        amounts = [part_amount(amount_msat, parts, number) for number in range(script["sent_parts"])]
        self._sessions.start(session, amounts[::-1])
        self._schedule()

    def _give_up(self, payment_id: str) -> None:
        super()._give_up(payment_id)
        session = self.open_sessions.get(payment_id)
        if session is not None:
            self._sessions.give_up(session)

    # Results from the network

    def _record_attempt(self, shard: Shard) -> None:
        graph, policies = self.engine.graph, self.engine.policies
        row = self._existing_row(shard.owner.id)
        attempt = self._new_attempt(
            shard.number,
            shard.amounts[-1],
            fee_msat=shard.amounts[0] - shard.amounts[-1],
            route=[graph.names[policies.target[edge]] for edge in shard.edges],
            # For `network_tables.htlcs_of`: channel, ends, amount and expiry of each hop; `times` when it is back.
            hops=[
                [edge >> 1, graph.names[policies.source[edge]], graph.names[policies.target[edge]], amount, expiry]
                for edge, amount, expiry in zip(shard.edges, shard.amounts, shard.expiries, strict=True)
            ],
            times=None,
            hop=None,
        )
        self.rows.put({**row, "attempts": [*row["attempts"], attempt]})

    def _receive(self, shard: Shard) -> tuple[str, int, str]:
        """A part reached the shop: its invoices decide, as for direct payments."""
        row = self._existing_row(shard.owner.id)
        htlc = self._htlc(row, shard.number, shard.amounts[-1], shard.final_expiry)
        resolution = self._node.invoices.receive_htlc(htlc)
        if resolution.status == FAILED:
            self._update_attempt(row["id"], shard.number, {"why": resolution.why})
        elif resolution.status != SETTLED:
            self._update_attempt(row["id"], shard.number, {"status": resolution.status})
            self._hold_if_complete(row["id"])
        return resolution.status, resolution.code or 0, resolution.reason

    def _htlc_resolved(self, resolution: HtlcResolution) -> None:
        """The shop resolved a part that waited or was held: the result starts back to the payer."""
        payment_id, _, number = resolution.htlc_id.rpartition(":")
        if payment_id not in self.open_sessions:
            return  # the HTLC is not one of ours
        if resolution.status == HELD:
            self._update_attempt(payment_id, int(number), {"status": HELD})
            self._hold_if_complete(payment_id)
            return
        if resolution.status == FAILED:
            self._update_attempt(payment_id, int(number), {"why": resolution.why})
        shard = self.shard(payment_id, int(number))
        self.synchronize_time()
        self.engine.resolve(shard, resolution.status == SETTLED, resolution.code or 0, resolution.reason)
        self._schedule()

    def _record_attempt_end(self, shard: Shard, interpretation: FailureInterpretation | None) -> None:
        """The result of a part is back at the payer."""
        times = [list(hop) for hop in shard.times]
        facts: AttemptResult = {"resolved_at": self._clock.now(), "hop": shard.reporter_hop, "times": times}
        row = self._existing_row(shard.owner.id)
        if interpretation is None:
            assert row["payment_hash"] is not None
            invoice = self._node.invoices.row(row["payment_hash"])
            assert invoice is not None  # it was settled
            self._update_attempt(row["id"], shard.number, {**facts, "status": SETTLED, "learned": GOOD})
            row = self._existing_row(row["id"])
            received = row["received_msat"] + shard.amounts[-1]
            self.background.received(shard.amounts[-1])
            self.rows.put({**row, "received_msat": received, "preimage": invoice["preimage"]})
            return
        final = shard.reporter_hop == len(shard.edges)
        policies, names = self.engine.policies, self.engine.graph.names
        reporter = "final" if final else names[policies.source[shard.edges[shard.reporter_hop]]]
        facts |= {"source": reporter, "code": shard.code, "name": FAILURE_NAMES.get(shard.code), "reason": shard.reason}
        facts |= {"retried": interpretation.retried, "learned": interpretation.learned}
        self._update_attempt(row["id"], shard.number, {**facts, "status": FAILED})
        self._journal.note(
            "attempt_failed", row["id"], part=shard.number, source=reporter, code=shard.code, why=shard.reason
        )
        if not interpretation.retried:  # the shop may hold all others: this one came when they were enough
            self._hold_if_complete(row["id"])

    def _note_force_close(self, edge: int, reason: str) -> None:
        """The node at the source of an edge closed its channel: `balances_msat` are its own and its peer's."""
        engine = self.engine
        policies, names, close = engine.policies, engine.graph.names, engine.force_closed[edge >> 1]
        self._journal.note(
            "channel_force_closed",
            names[policies.source[edge]],
            channel=edge >> 1,
            peer=names[policies.target[edge]],
            because=reason,
            height=close.height,
            balances_msat=[engine.balance[edge], engine.balance[edge ^ 1]],
            in_flight_msat=engine.in_flight[edge >> 1],
            spendable_heights=[close.spendable_height(edge), close.spendable_height(edge ^ 1)],
        )

    def _session_ended(self, session: PaymentSession) -> None:
        """A session ended: end its payment."""
        self.engine.record_item(self.open_sessions, session.id)
        del self.open_sessions[session.id]
        row = self._existing_row(session.id)
        outcome = session.outcome or "ERROR"
        if outcome == "SUCCEEDED":
            self._end(row, _SUCCEEDED, outcome, None)
            return
        cause = session.cause or self._cause(session, outcome, session.amount_msat)  # a former version stored none
        if outcome in (TIMEOUT, CANCELED):  # the parts in flight have decided since then
            cause += _at_last(row["attempts"])
        elif outcome == NO_ROUTE and AT_LAST not in cause:
            # None had failed by then. That the receiver returns parts which wait is no cause, but a consequence.
            cause += _at_last([each for each in row["attempts"] if each["source"] != "final"])
        self._end(row, FAILED, outcome, cause)

    def _cause(self, session: PaymentSession, outcome: str, amount_msat: int) -> str:
        """Why a session sends no more from now on."""
        reasons, attempts = self._sessions.reasons, self._existing_row(session.id)["attempts"]
        if outcome == CANCELED:
            return "the payment was cancelled before it had ended"
        if outcome == TIMEOUT:
            return reasons.timeout(session)
        if outcome == INSUFFICIENT_BALANCE:
            return reasons.insufficient(session, amount_msat) + _at_last(attempts)
        if outcome == NO_ROUTE and not attempts:
            return reasons.no_route(session, amount_msat)
        if outcome == NO_ROUTE:
            found = {attempt["reason"] for attempt in attempts if attempt["reason"]}
            return reasons.no_other_route(session, amount_msat, found) + _at_last(attempts)
        return next((each["reason"] for each in attempts[::-1] if each["reason"]), "the payer's node failed")

    def _update_attempt(self, payment_id: str, number: int, facts: AttemptResult) -> None:
        row = self._existing_row(payment_id)
        attempts = list(row["attempts"])
        attempts[number] = {**attempts[number], **facts}
        self.rows.put({**row, "attempts": attempts})

    def _hold_if_complete(self, payment_id: str) -> None:
        """Set the status `held` if the shop holds all parts that did not fail."""
        row = self._existing_row(payment_id)
        kinds = {attempt["status"] for attempt in row["attempts"]}
        if HELD in kinds and kinds <= {HELD, FAILED} and row["status"] != HELD:
            self._journal.note("payment_held", payment_id)
            self.rows.put({**row, "status": HELD})


def _at_last(attempts: list[AttemptRow]) -> str:
    """The reason of the attempt that failed last, as the end of a text; empty if none has failed."""
    failed = [
        (each["resolved_at"] or 0, place, each["reason"]) for place, each in enumerate(attempts) if each["reason"]
    ]
    return f"{AT_LAST}{max(failed)[2]}" if failed else ""
