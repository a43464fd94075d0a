"""A world: one service, its node, its payers, its receivers and its clock, hanging on a single object."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.types import ASGIApp

from leyden.callbacks.faults import Faults
from leyden.callbacks.receivers import Receivers
from leyden.callbacks.transport import ExternalTransport, TransportRouter
from leyden.extras import require
from leyden.lightning.payer.payments import Payments
from leyden.lightning.receiver.node import DirectNode
from leyden.server.app import ApiMount, LazyMount, build_app
from leyden.server.contract.bind import bind
from leyden.server.errors import StorageUnavailable
from leyden.server.service import Service
from leyden.server.store.store import Store
from leyden.world.async_advance import advance_async
from leyden.world.clock import Fired, VirtualClock
from leyden.world.config import WorldConfig
from leyden.world.event_journal import HashedEventJournal
from leyden.world.gc_pause import gc_paused
from leyden.world.loopback import Header, LoopbackResponse, send_request
from leyden.world.persistence import WorldState
from leyden.world.rng import RandomStreams, uuid4_from
from leyden.world.traffic import TrafficGenerator
from leyden.world.transaction import Transaction

if TYPE_CHECKING:
    from leyden.lightning.engine.engine import Engine

LOCAL_URL = "http://localhost"
CONTROL_PATH = "/sandbox/v1"
CONTROL_BODY_BYTES = 65_536  # as its document has it

Moved = TypeVar("Moved")
# Waits, in real time, until something is so or the seconds are over.
Until = Callable[[Callable[[], bool], float], Awaitable[object]]


class World:
    """The composition. Nothing in it reads the wall or draws luck of its own; see `Plan` for what is given.

    A store that another world was kept in is gone on with: its instant, its luck's positions, everything that was due
    meanwhile. `levers` makes the handlers of `plan.control` for this world. `outside` is the courier to the real
    network; without one every callback stays in process. `settled` is awaited before an answer leaves: the wait for the
    disk, if the store's policy asks for one. `label` names the world in tables. A world made `beside` another shares
    the map of its network.
    """

    def __init__(
        self,
        config: WorldConfig,
        store: Store,
        *,
        control_handlers: Callable[[World], Iterable[object]] | None = None,
        external_transport: ExternalTransport | None = None,
        settled: Callable[[], Awaitable[None]] | None = None,
        public_url: str = LOCAL_URL,
        label: str = "main",
        beside: World | None = None,
    ) -> None:
        self.label = label
        self._beside = beside
        self.lock = threading.RLock()
        self.public_url = public_url
        self.external_transport = external_transport
        self.store = store
        self._settled = settled
        self.control_handlers = control_handlers
        self._earlier: dict[str, Any] | None = None
        self.name_taken: Callable[[str], bool] | None = None
        self.key_taken: Callable[[str], bool] = lambda key: False
        self.until: Until | None = None
        with gc_paused():
            self._build(config)
        self._beside = None
        store.watch(self)

    @staticmethod
    def saved(store: Store) -> Mapping[str, Any] | None:
        """What a world wrote down about itself in this store: seed, start, network, now, rate, pace, luck."""
        return WorldState.saved(store)

    def _build(self, plan: WorldConfig) -> None:
        self.config = plan
        store = self.store
        self.streams = RandomStreams(plan.seed)
        self.clock = clock = VirtualClock(plan.start_ms, real_clock=plan.real_clock)
        clock.event_context = store.commit
        self._diary = WorldState(store, plan, clock, self.streams)
        self._turn = Transaction(self)
        self.journal = journal = HashedEventJournal(clock, keep=plan.keep)
        self.engine, shop = self._network(plan)
        self.node = self._node(journal)
        self.receivers = Receivers(
            store,
            clock,
            journal,
            lambda post, answer: self.faults.answered(post, answer),
            rules={rule.name: rule for operation in plan.contract.operations.values() for rule in operation.callbacks},
            secrets_at=lambda at: self.service.projects.signing_secrets(plan.project, at),
        )
        self.transport = TransportRouter(self.receivers, self.external_transport, self.exclusive)
        self.faults = Faults(
            plan.contract,
            store,
            clock,
            journal,
            self.streams.stream("faults"),
            self.transport,
            callbacks=lambda: self.service.outbox,
            projects=lambda: self.service.projects,
            exclusive=self.exclusive,
        )
        ids = self.streams.stream("ids")
        self.service = Service(
            plan.contract,
            store,
            clock=clock,
            node=self.node,
            transport=self.faults,
            journal=journal,
            new_id=lambda: uuid4_from(ids),
            jitter=self.streams.stream("jitter"),
            secrets=self.streams.stream("secrets"),
            public_url=lambda: self.public_url,
            transaction=self.exclusive,
            mock_unbound=plan.mock_unbound,
        )
        self.service.pipeline.wait_durable = self._settled
        self.service.pipeline.rate_limit = self.faults.limited
        self.service.outbox.defer_until = self.faults.defer_until
        statics = self.service.static_charges
        statics.user_taken = lambda user: (self.name_taken or statics.user_exists)(user)
        self.payments = self._payments(journal, shop)
        self.traffic = TrafficGenerator(store, clock, self.streams, self.payments, journal, self._order)
        self.app = self._app()
        self._resume()

    def _network(self, plan: WorldConfig) -> tuple[Engine | None, int]:
        """The engine of the plan's network, and the shop's node; none for direct payments, which need no numpy."""
        if plan.network == "direct":
            return None, 0
        require(f"network={plan.network!r}", "scipy", "network")
        from leyden.lightning.engine.engine_factory import engine_for, forked_engine

        if self._beside is not None:
            return forked_engine(self._beside.payments)
        begun = self.saved(self.store) or {}
        return engine_for(plan.network, plan.start_ms, self.streams.secret, expected_fingerprint=begun.get("map"))

    def _node(self, journal: HashedEventJournal) -> DirectNode:
        engine = self.engine
        if engine is None:
            return DirectNode(self.store, self.clock, self.streams, journal)
        clock = self.clock
        return DirectNode(
            self.store, clock, self.streams, journal, height=lambda: engine.conditions.height(clock.now())
        )

    def _payments(self, journal: HashedEventJournal, shop: int) -> Payments:
        chance = self.streams.stream("payments")
        if self.engine is None:
            return Payments(self.store, self.clock, self.node, chance, journal)
        from leyden.lightning.payer.routed_payments import RoutedPayments

        key = self.streams.secret("wallets")
        return RoutedPayments(
            self.store, self.clock, self.node, chance, journal, engine=self.engine, shop=shop, key=key
        )

    def _app(self) -> ASGIApp:
        compiled, levers = self.config.control, self.control_handlers

        def control() -> ApiMount:
            assert compiled is not None
            assert levers is not None
            from leyden.world.merged_openapi import merged

            contract = compiled()
            handlers = bind(contract, levers(self), guards={}, effects={})
            both = partial(merged, self.config.contract.document, contract.document)
            documents = {f"{CONTROL_PATH}/merged.json": both}
            return ApiMount(contract, handlers, f"{CONTROL_PATH}/openapi.json", f"{CONTROL_PATH}/docs", documents)

        first = ApiMount(self.config.contract, self.service.handlers, "/openapi.json", "/docs")
        offered = compiled is not None and levers is not None
        later = [LazyMount(CONTROL_PATH, CONTROL_BODY_BYTES, control)] if offered else []
        return build_app(first, later, self.service.pipeline)

    def _resume(self) -> None:
        """Go on from what the store has: the clock where it stood, every timer set, and the time that a live clock
        missed still owed: it passes, with all that fell due in it, when somebody next looks at the clock."""
        plan, saved = self.config, self.saved(self.store)
        writes = self._write_down if self.store.is_durable else None
        # While the timers are not yet set again, what was written down about time and luck stays as it is.
        self.store.set_pre_commit_hook(writes if saved is None else None)
        if saved is None:
            self.clock.set_rate(plan.rate)
        else:
            self._diary.stand(saved)
            self.payments.restore_network(self.streams.secret)
        with self.store.commit():
            self.service.projects.add(plan.project, plan.api_key)
        if saved is None:
            return
        self.service.resume()
        self.faults.resume()
        self.receivers.resume()
        self.node.resume()
        self.payments.resume()
        self.traffic.resume()
        self._diary.go_on(saved)
        self.store.set_pre_commit_hook(writes)

    def _write_down(self) -> None:
        """At the end of a commit: write down the world's own rows, and the network if there is one."""
        self.payments.persist()
        self._diary.write(self.engine)

    # What a commit changes besides rows (`leyden.server.store.rows.Watcher`)

    def begin(self) -> None:
        """A commit begins."""
        self.clock.begin()
        self.service.outbox.begin()
        if self.engine is not None:
            self.engine.begin()
        self._luck = self.streams.snapshot()
        self._noted = len(self.journal)

    def commit(self) -> None:
        """The commit is written down: what it wanted to send may leave."""
        self._earlier = None
        self.clock.commit()
        if self.engine is not None:
            self.engine.commit()
        self.transport.commit()

    def rollback(self, error: BaseException) -> None:
        """The commit came to nothing, and so did its timers, its draws and its posts; the journal says so."""
        if self._earlier is not None:
            self.__dict__.update(self._earlier)
        self.clock.rollback()
        if self.engine is not None:
            self.engine.rollback()
        self.streams.restore(self._luck)
        self.transport.rollback()
        self.service.outbox.rollback()
        entries = len(self.journal) - self._noted
        if entries and isinstance(error, StorageUnavailable):
            self.journal.note("taken_back", "commit", entries=entries, because=error.code)

    def exclusive(self) -> AbstractContextManager[None]:
        """Enter to change anything: everything written inside is one commit, and nobody else moves meanwhile."""
        return self._turn

    def catch_up(self) -> list[Fired]:
        """Run what is due now: after a request on a frozen clock, and whenever a live one is looked at.

        Raises `StorageUnavailable` when the disk refuses; what could not be done stays due.
        """
        with self.lock:
            self.transport.flush_responses()
            return self.clock.catch_up()

    def real_seconds_until_due(self) -> float | None:
        """Real seconds until a live clock's next event; None when it is frozen or nothing is ahead."""
        with self.lock:
            due = self.clock.next_due()
            if due is None or not self.clock.rate:
                return None
            return max(0.0, (due - self.clock.now()) / 1_000 / self.clock.rate)

    def wait_after_request(self) -> float | None:
        """Real seconds until the next event, as the clock was last seen, without looking at it again. 0: something is
        due already; None: nothing is ahead, or a frozen clock does not come to it by itself."""
        with self.lock:
            due, clock = self.clock.next_due(), self.clock
            wait_ms = None if due is None else due - clock.last_seen
            if wait_ms is None or (wait_ms > 0 and not clock.rate):
                return None
            return 0.0 if wait_ms <= 0 else wait_ms / 1_000 / clock.rate

    def move(self, move: Callable[[VirtualClock], Moved]) -> Moved:
        """Move the clock, and write down where it then stands: time passes even when nothing happens in it.

        Raises `StorageUnavailable` when that cannot be written; a frozen clock then stands where it last could be.
        """
        with self.lock:
            moved = move(self.clock)
            self.keep_time()
            return moved

    def keep_time(self) -> None:
        """Write down where the clock stands. Raises `StorageUnavailable` as `move` does."""
        if not self.store.is_durable:
            return
        try:
            with self.store.commit():
                self._write_down()
        except StorageUnavailable:
            saved = self.saved(self.store)
            if saved is not None and not self.clock.rate:
                self.clock.set_back(saved["now"])
            raise

    async def advance_to_async(self, when_ms: int | None) -> list[Fired]:
        """`advance_to`, waiting for the callbacks sent outside on the way. None ("no event ahead"): nothing happens."""
        return [] if when_ms is None else (await advance_async(self, when_ms))[0]

    async def run_until_idle_async(self) -> list[Fired]:
        """Run until nothing is ahead, waiting for callbacks as `walk_to` does."""
        return (await advance_async(self))[0]

    async def run_until_async(self, done: Callable[[], bool], when_ms: int) -> bool:
        """Run event by event until `done()`, but not beyond `when_ms`, waiting for callbacks as `walk_to` does; whether
        it is done."""
        return (await advance_async(self, when_ms, done))[1]

    async def wait_for_responses(self) -> None:
        """Wait until every callback sent outside was answered."""
        if self.external_transport is not None:
            await self.external_transport.wait_idle()

    def request(
        self, method: str, target: str, headers: tuple[Header, ...] = (), body: bytes = b""
    ) -> LoopbackResponse:
        """A request from inside the house, without a key unless the headers have it. Its answer does not wait for the
        disk: whoever asked here answers somebody outside, and waits then."""
        gate = self.service.pipeline
        settled, gate.wait_durable = gate.wait_durable, None
        try:
            return send_request(self.app, method, target, headers, body)
        finally:
            gate.wait_durable = settled

    def _order(self, body: bytes) -> LoopbackResponse:
        """The shop asks for a charge, as any client would."""
        key = (
            self.service.pipeline.api_key_header,
            self.service.projects.keys(self.config.project)[-1].encode("latin-1"),
        )
        path = self.config.contract.operations["createCharge"].path
        return self.request("POST", path, (key, (b"content-type", b"application/json")), body)

    async def close_outside(self) -> None:
        """Let go of the connections to the real network."""
        if self.external_transport is not None:
            await self.external_transport.close()

    def reset(self, *, seed: int | None = None, start_ms: int | None = None) -> None:
        """Forget everything and begin again under the same key and contract, with another seed or start if given."""
        plan = self.config
        with self.exclusive():
            self._earlier = dict(self.__dict__)
            keys = self.service.projects.key_rows()
            self.store.drop_tables()
            self._build(
                replace(
                    plan,
                    seed=plan.seed if seed is None else seed,
                    given_seed=plan.seed if plan.given_seed is None else plan.given_seed,
                    start_ms=plan.start_ms if start_ms is None else start_ms,
                    given_start_ms=plan.start_ms if plan.given_start_ms is None else plan.given_start_ms,
                    rate=self.clock.rate,
                )
            )
            self.service.projects.import_keys(keys)
