"""The parts of a world, and the one place where they are built and connected.

`build` works in four phases: state (random streams, clock, journal), Lightning, callbacks and service, application.
Each part receives what it needs as a constructor argument; the two links that run in a circle, from a response back to
the outbox that sent the callback, are made by `connect` at the end of the third phase.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.routing import Router
from starlette.types import ASGIApp

from leyden.callbacks.faults.faults import Faults
from leyden.callbacks.receivers import Receivers
from leyden.callbacks.transport import ExternalTransport, Observe, TransportRouter
from leyden.lightning.payer.automatic_payments import AutomaticPayments
from leyden.lightning.payer.payments import Payments
from leyden.lightning.receiver.node import DirectNode
from leyden.rng import RandomStreams, uuid4_from
from leyden.server.app import ApiMount, LazyMount, build_app, endpoint_at
from leyden.server.contract.bind import bind
from leyden.server.gc_pause import unlink
from leyden.server.http.authentication import authenticate
from leyden.server.http.pipeline import PathEndpoint
from leyden.server.service import Service
from leyden.server.store.rows import CommitParticipant
from leyden.server.store.store import Store
from leyden.service_faults.service_faults import ServiceFaults
from leyden.world.config import WorldConfig, body_type, where_is
from leyden.world.engines import PreparedEngine, engine_of
from leyden.world.event_journal import HashedEventJournal
from leyden.world.loopback import Header, LoopbackResponse, call_endpoint, send_request
from leyden.world.persistence.world_state import WorldState
from leyden.world.ports import Slices
from leyden.world.removal.removed_rows import RemovedHeader, RemovedRows
from leyden.world.removal.retention import Retention
from leyden.world.time.clock import VirtualClock
from leyden.world.time.timers import Hold
from leyden.world.traffic.generator import TrafficGenerator
from leyden.world.traffic.requests import ShopRequests
from leyden.world.transaction import Lock, Transaction

if TYPE_CHECKING:
    from leyden.lightning.engine.engine import Engine
    from leyden.world.persistence.network_state import NetworkState

DOCUMENT_PATH, DOCS_PATH = "/openapi.json", "/docs"  # of the service
CONTROL_PATH = "/sandbox/v1"
CONTROL_KEY_HEADER = b"apikey"  # as the control document has it


def key_header(service: Service, target: str) -> bytes:
    """The header of the API key in a request to this path: the service's, or that of the control plane."""
    path = target.partition("?")[0]
    is_control = path == CONTROL_PATH or path.startswith(f"{CONTROL_PATH}/")
    return CONTROL_KEY_HEADER if is_control else service.pipeline.api_key_header


class Environment(NamedTuple):
    """The environment of a world's parts. It stays the same over a reset.

    `catch_up(clock)` runs what is due on a live clock before a transaction, or a part of it. `recording` is entered
    around the recording of responses from the network, and `observe` is called for each. `control_handlers()` makes the
    handlers of the control plane; None: there is none. `run_apart(work)` runs work that does not use the world's state,
    while other requests are answered, and `slices()` divides work that does. `wait_durable` is awaited before a
    response leaves. `name_taken` says whether the user part of a lightning address is in use below the URL.
    `report_ignored` is called with the text about each ignored field once, and returns what is shown of it.
    `note_of(url)` is the reason why nothing is sent there without an external transport.
    """

    store: Store
    lock: Lock
    catch_up: Callable[[VirtualClock], object]
    public_url: Callable[[], str]
    name_taken: Callable[[str], bool]
    report_ignored: Callable[[str], str]
    external_transport: ExternalTransport | None
    note_of: Callable[[str], str]
    recording: Callable[[], AbstractContextManager[object]]
    hold: Hold
    observe: Observe
    wait_durable: Callable[[], Awaitable[None]] | None
    control_handlers: Callable[[], Iterable[object]] | None
    run_apart: Callable[[Callable[[], Any]], Awaitable[Any]]
    slices: Callable[[], Slices]


class Components(NamedTuple):
    """The parts of one world. A reset builds them anew. `notes` are about the present run: the next one has none."""

    config: WorldConfig
    streams: RandomStreams
    clock: VirtualClock
    transaction: Transaction
    journal: HashedEventJournal
    engine: Engine | None
    node: DirectNode
    payments: Payments
    payers: AutomaticPayments
    state: WorldState
    receivers: Receivers
    transport: TransportRouter
    faults: Faults
    service: Service
    router: Router
    app: ASGIApp
    service_faults: ServiceFaults
    traffic: TrafficGenerator
    removed: RemovedRows
    retention: Retention | None
    notes: list[str]

    @property
    def before_commit(self) -> Callable[[], None] | None:
        """The last steps inside each commit that changes something: rows that ended long ago are removed, and a durable
        store gets the world's own rows."""
        retention, state = self.retention, self.state
        if retention is None:
            return state.write if state.is_durable else None
        if not state.is_durable:
            return retention.run

        def before_commit() -> None:
            retention.run()
            state.write()

        return before_commit

    @property
    def participants(self) -> tuple[CommitParticipant, ...]:
        """The parts that take part in a commit besides the rows, in order: timers are rolled back before the outbox
        sets those anew that it needs, the journal reports a rollback last, and callbacks leave when all else is
        committed."""
        retention = () if self.retention is None else (self.retention,)
        return (
            *retention,
            self.clock,
            *self.payments.participants,
            self.streams,
            self.service.pipeline,
            self.service.outbox,
            self.journal,
            self.faults.index,
            self.service_faults.index,
            self.transport,
        )

    def end(self, *, is_last: bool = False) -> None:
        """The run has ended: from now on no event happens in it, and no response or request is recorded. `is_last` says
        that no other one follows."""
        self.clock.cancel_all()
        self.transport.discard()
        self.transaction.end(is_last=is_last)

    def discard(self) -> None:
        """Nobody uses the parts any more: none refers to another one afterwards, so that they are freed."""
        self.service.discard()
        unlink(part for part in self if part is not self.config)

    def request(
        self,
        method: str,
        target: str,
        headers: tuple[Header, ...] = (),
        body: bytes = b"",
        endpoint: PathEndpoint | None = None,
    ) -> LoopbackResponse:
        """Send a request of the world's own: of its traffic or a wallet. No service fault changes it. Its response does
        not wait for the disk: the caller answers somebody outside, and waits then. `endpoint` is that of the target if
        it is known and the body is within the limit."""
        pipeline = self.service.pipeline
        wait_durable, pipeline.wait_durable = pipeline.wait_durable, None
        try:
            if endpoint is not None:
                return call_endpoint(endpoint, method, target, dict(headers), body)
            return send_request(self.service_faults.app, method, target, headers, body)
        finally:
            pipeline.wait_durable = wait_durable


def build(
    config: WorldConfig,
    environment: Environment,
    *,
    fork_of: Payments | None = None,
    prepared: PreparedEngine | None = None,
) -> Components:
    """Build the parts of a world and connect them. A fork shares the map of the network with the payments given. An
    engine that was `prepared` for this configuration is used; another one is not.

    Raises `StoreError` when the store was created with another map.
    """
    store = environment.store

    # State
    streams = RandomStreams(config.seed)
    clock = VirtualClock(
        config.start_ms,
        real_clock=config.real_clock,
        clock_offset=config.clock_offset,
        event_context=store.commit,
        hold=environment.hold,
    )
    transaction = Transaction(environment.lock, clock, store, environment.catch_up)
    journal = HashedEventJournal(clock, keep=config.keep)
    removed = RemovedRows(store, journal, is_bounded=config.keep_ended is not None)

    # Lightning
    engine, shop = engine_of(config, store, streams, fork_of, prepared)
    height = None if engine is None else lambda: engine.conditions.height(clock.now())
    block_time = None if engine is None else lambda height: engine.conditions.block_time(height)
    node = DirectNode(store, clock, streams, journal, height=height, block_time=block_time)
    node.invoices.removed_hint = lambda: removed.hint(is_public=True) if removed.any_row() else ""

    # Callbacks and service
    receivers, transport, faults, service = _service(config, environment, streams, clock, transaction, journal, node)

    service.charges.removed_hint = removed.hint

    # Application
    payments, network = _payments(store, clock, node, streams, journal, engine, shop)
    fixed = config.contract.document.get("x-payers", ())
    payers = AutomaticPayments(store, clock, node, payments, journal, streams.stream("payers"), fixed)
    router = _app(config, service, environment)
    app: ASGIApp = router
    retention = None
    if config.keep_ended is not None:
        retention = Retention(store, config.contract, removed, config.keep_ended)
    if retention is not None or removed.any_row():  # an earlier start may have had a bound
        app = RemovedHeader(app, removed)
    service_faults = ServiceFaults(
        config.contract,
        store,
        clock,
        journal,
        streams.stream("service_faults"),
        app,
        service,
        exclusive=lambda: transaction,
    )

    @lru_cache(maxsize=8)
    def posted(method: str, target: str) -> tuple[bytes, PathEndpoint | None]:
        return body_type(config.contract, method, target), endpoint_at(router, target)

    def send(method: str, target: str, body: bytes) -> LoopbackResponse:
        headers: tuple[Header, ...] = ()
        endpoint = None
        if body:
            key = service.projects.keys(config.project)[-1].encode("latin-1")
            media_type, endpoint = posted(method, target)
            headers = ((service.pipeline.api_key_header, key), (b"content-type", media_type))
        transaction.outlives_refusals = store.depth > 0
        try:
            is_within = len(body) <= config.contract.body_limit
            return components.request(method, target, headers, body, endpoint if is_within else None)
        finally:
            transaction.outlives_refusals = False

    requests = ShopRequests(service, clock, send, environment.public_url)

    components = Components(
        config=config,
        streams=streams,
        clock=clock,
        transaction=transaction,
        journal=journal,
        engine=engine,
        node=node,
        payments=payments,
        payers=payers,
        state=WorldState(store, config, clock, streams, network, environment.public_url),
        receivers=receivers,
        transport=transport,
        faults=faults,
        service=service,
        router=router,
        app=service_faults,
        service_faults=service_faults,
        traffic=TrafficGenerator(store, clock, streams, payments, journal, requests),
        removed=removed,
        retention=retention,
        notes=[],
    )
    return components


def _payments(
    store: Store,
    clock: VirtualClock,
    node: DirectNode,
    streams: RandomStreams,
    journal: HashedEventJournal,
    engine: Engine | None,
    shop: int,
) -> tuple[Payments, NetworkState | None]:
    rng = streams.stream("payments")
    if engine is None:
        return Payments(store, clock, node, rng, journal), None
    from leyden.lightning.payer.routed_payments import RoutedPayments
    from leyden.world.persistence.network_state import NetworkState

    key = streams.secret("wallets")
    background = streams.stream("background")
    payments = RoutedPayments(
        store, clock, node, rng, journal, engine=engine, shop=shop, key=key, background=background
    )
    return payments, NetworkState(store, payments) if store.is_durable else None


def _service(
    config: WorldConfig,
    environment: Environment,
    streams: RandomStreams,
    clock: VirtualClock,
    transaction: Transaction,
    journal: HashedEventJournal,
    node: DirectNode,
) -> tuple[Receivers, TransportRouter, Faults, Service]:
    store, contract = environment.store, config.contract

    def exclusive() -> AbstractContextManager[Any]:
        return transaction

    rules = {rule.name: rule for operation in contract.operations.values() for rule in operation.callbacks}
    receivers = Receivers(store, clock, journal, rules=rules, kept=config.keep_ended, stream=streams.stream)
    transport = TransportRouter(
        receivers,
        environment.external_transport,
        exclusive,
        environment.recording,
        environment.observe,
        config.callback_timeout_ms,
        environment.note_of,
        lambda: environment.slices().is_over,
    )
    faults = Faults(contract, store, clock, journal, streams.stream("faults"), transport, exclusive=exclusive)
    ids = streams.stream("ids")
    service = Service(
        contract,
        store,
        clock=clock,
        node=node,
        transport=faults,
        journal=journal,
        new_id=lambda: uuid4_from(ids),
        jitter=streams.stream("jitter"),
        secrets=streams.stream("secrets"),
        public_url=environment.public_url,
        user_taken=environment.name_taken,
        report_ignored=environment.report_ignored,
        transaction=exclusive,
        wait_durable=environment.wait_durable,
        rate_limit=faults.rate_limit,
        defer_until=faults.defer_until,
        mock_unbound=config.mock_unbound,
    )
    service.pipeline.run_apart = environment.run_apart
    faults.connect(service.outbox, service.projects, service.charges, service.static_charges)
    receivers.connect(faults.on_response, lambda at: service.projects.signing_secrets(config.project, at))
    return receivers, transport, faults, service


def _app(config: WorldConfig, service: Service, environment: Environment) -> Router:
    first = ApiMount(config.contract, service.handlers, DOCUMENT_PATH, DOCS_PATH)
    compiled, control_handlers = config.control, environment.control_handlers
    if compiled is None or control_handlers is None:
        where = partial(where_is, is_controlled=compiled is not None)
        return build_app(first, [], service.pipeline, where_is=where)

    def control() -> ApiMount:
        from leyden.world.flows import flows
        from leyden.world.merged_openapi import merged

        contract = compiled()
        handlers = bind(contract, control_handlers(), guards={}, effects={})
        documents: dict[str, partial[Any]] = {
            f"{CONTROL_PATH}/{name}.json": partial(make, config.contract.document, contract.document)
            for name, make in (("merged", merged), ("flows", flows))
        }
        paths = (f"{CONTROL_PATH}/openapi.json", f"{CONTROL_PATH}/docs")
        own = contract.api_key_header.lower().encode()
        checks = None if own == service.pipeline.api_key_header else partial(authenticate, service.projects, own)
        return ApiMount(contract, handlers, *paths, documents, checks)

    lazy = [LazyMount(CONTROL_PATH, control, environment.run_apart)]
    return build_app(first, lazy, service.pipeline, where_is=where_is)
