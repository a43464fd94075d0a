"""A world: one charge service with its Lightning node, payers, callback receivers and clock, in one object."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any, TypeVar

from leyden.arguments import refuse_copy
from leyden.callbacks.transport import ExternalTransport
from leyden.lightning.payer_models.searches import SearchNeeded
from leyden.rng import derived_seed
from leyden.server.callbacks.egress import closed_note
from leyden.server.gc_pause import gc_paused, unlink
from leyden.server.http.projects import KEYS
from leyden.server.ports import CallbackRequest, CallbackResponse
from leyden.server.store.rows import Snapshot
from leyden.server.store.store import Store
from leyden.world.components import Components, Environment, build
from leyden.world.config import WorldConfig
from leyden.world.engines import PreparedEngine
from leyden.world.moves.thread_moves import ThreadMoves
from leyden.world.persistence.directory_checks import check_directory, errors_of_directory
from leyden.world.persistence.former_formats import upgrade
from leyden.world.persistence.world_state import WorldState
from leyden.world.ports import HostServer, NetworkLog, Slices, Undivided
from leyden.world.request_log import RequestLog
from leyden.world.stored_snapshots import StoredSnapshots
from leyden.world.time.clock import Report, VirtualClock
from leyden.world.time.timers import Fired
from leyden.world.transaction import PresentTransaction

LOCAL_URL = "http://localhost"
Result = TypeVar("Result")


class World(ThreadMoves):
    """The parts of one simulated world (`leyden.world.components`) and the operations on them as a whole.

    It reads no real clock and no random source of its own; `WorldConfig` has what it depends on. A world over a store
    in which another world was kept continues that one: its instant, its random streams, and what fell due since then.

    `control_handlers` makes the handlers of `config.control` for this world. `external_transport` sends callbacks to
    the real network; without one every callback to an address outside the process is blocked, with the note that
    `note_of(url)` gives. `wait_durable` is awaited before a response leaves: the wait for the disk, if the store's
    policy asks for one. `label` names the world in tables. `fork_of` is the world whose network map this one shares.
    """

    config: WorldConfig
    __reduce_ex__ = refuse_copy

    def __init__(
        self,
        config: WorldConfig,
        store: Store,
        *,
        control_handlers: Callable[[World], Iterable[object]] | None = None,
        external_transport: ExternalTransport | None = None,
        note_of: Callable[[str], str] = closed_note,
        wait_durable: Callable[[], Awaitable[None]] | None = None,
        public_url: str = LOCAL_URL,
        label: str = "main",
        fork_of: World | None = None,
    ) -> None:
        super().__init__()
        self.label = label
        self._exclusive = PresentTransaction(self.lock, lambda: self._components.transaction)
        self.network_log: NetworkLog | None = None
        self.request_log = RequestLog()
        self.running_moves = 0  # moves of time that pause between two events
        self.public_url = public_url
        self.external_transport = external_transport
        self.store = store
        self.start_at_ms: int | None = None  # to which a server moves a paused clock at its start
        self.can_start_now = False  # whether a restart of its server with `--start now` sets its clock
        self.control_handlers = control_handlers
        self.server: HostServer | None = None
        self.snapshots = StoredSnapshots()
        self._before_reset: Components | None = None
        self._environment = Environment(
            store=store,
            lock=self.lock,
            catch_up=self._catch_up_slice,
            public_url=lambda: self.public_url,
            name_taken=self.name_taken,
            report_ignored=self._report_ignored,
            external_transport=external_transport,
            note_of=note_of,
            recording=self._recording,
            hold=self,
            observe=self._observe,
            wait_durable=wait_durable,
            control_handlers=None if control_handlers is None else lambda: control_handlers(self),
            run_apart=self.run_apart,
            slices=self.slices,
        )
        with gc_paused(), errors_of_directory(store):  # a timer and a callback for every open row: all of them stay
            upgrade(store)
            self.contradictions = check_directory(store, config.contract)  # with which no file of it could be loaded
            self.notes = [*store.notes, *self.contradictions]  # about the directory: what was mended at the start, too
            self._install(build(config, self._environment, fork_of=None if fork_of is None else fork_of.payments))
            self._resume()
        self._register()

    @staticmethod
    def saved(store: Store) -> Mapping[str, Any] | None:
        """The stored state of the world, as `WorldState.saved` returns it; None when there was no world."""
        return WorldState.saved(store)

    def moved_to(self, public_url: str) -> str | None:
        """From now on the URLs given to wallets begin with this one. Returns the former one if a Static Charge has an
        LNURL with it, else None."""
        self.public_url = public_url
        with self.lock:
            former = self.state.keep_public_url()
            return former if former is not None and len(self.store.table_data("static_charges").rows) else None

    def _install(self, components: Components) -> None:
        self._components = components
        self.config = components.config
        self.streams = components.streams
        self.clock = components.clock
        self.journal = components.journal
        self.engine = components.engine
        self.node = components.node
        self.payments = components.payments
        self.payers = components.payers
        self.state = components.state
        self.receivers = components.receivers
        self.transport = components.transport
        self.faults = components.faults
        self.service = components.service
        self.app = components.app
        self.service_faults = components.service_faults
        self.traffic = components.traffic
        self.request = components.request
        self.removed = components.removed
        self.retention = components.retention
        self.run_notes = components.notes

    def _resume(self, *, is_restored: bool = False) -> None:
        """Continue from what the store has: the clock's instant, every timer, and the time that a live clock missed,
        which passes at the next look at the clock. If it `is_restored`, the payers are rows of its snapshot."""
        config, saved, state = self.config, self.saved(self.store), self._components.state
        # Until every timer is set again, the rows about time and random streams stay as they are.
        self.store.pre_commit_hook = self._components.before_commit if saved is None else None
        if saved is None:
            self.clock.set_rate(config.rate)
            if config.rate and config.starts_now:
                self.clock.resume_from(config.rate, config.start_ms, config.start_ms)
        else:
            state.restore(saved)
        with self.store.commit():
            projects = self.service.projects
            projects.add(config.project, config.api_key, config.webhook_secret)
            if saved is not None and config.webhook_secret not in (None, self.webhook_secret):
                projects.rotate_secret(config.project, config.webhook_secret)
            if config.payers is not None and not is_restored:
                self.payers.set_option(config.payers)
            if saved is None and not is_restored:
                self.payments.begin()
        if saved is None:
            return
        self.journal.since_ms = None if is_restored else saved["now"]
        self.service.resume(self.faults.open_attempts | self.receivers.open_attempts)
        for part in (self.faults, self.receivers, self.node, self.payments, self.payers, self.traffic):
            part.resume()
        state.resume_time(saved)
        self.store.pre_commit_hook = self._components.before_commit

    def _register(self) -> None:
        """From now on take part in the store's commits. The world comes first: it undoes a reset as a whole."""
        self.store.register(self, *self._components.participants)

    # A commit with a reset in it (`leyden.server.store.rows.CommitParticipant`)

    def begin(self) -> None:
        """Nothing has been reset yet."""

    def commit(self) -> None:
        """Keep the parts that a reset built. In the former run nothing happens from now on: no event, no response."""
        if (former := self._before_reset) is not None:
            former.end()
            self._before_reset = None
            self._free(former)

    def rollback(self, error: BaseException) -> None:
        """Return to the parts from before a reset, if there was one."""
        if self._before_reset is not None:
            self._install(self._before_reset)
            self._before_reset = None
            self._register()
            self.store.pre_commit_hook = self._components.before_commit

    def end(self) -> None:
        """From now on nothing happens here: no event, and no response to a callback is recorded. A move of time ends
        with `ClockError`, and a request that would read or change something with `ClosedError`."""
        with self.lock:
            self.has_ended = True
            self._components.end(is_last=True)

    def discard(self) -> None:
        """Free the memory of a world that has ended, and that nobody uses any more: nothing of it can be used
        afterwards. Its parts refer to each other, so it would else be left to the garbage collector, which counts
        objects and not bytes, and which leaves out what a server has had for long."""
        self.payments.discard()
        self.store.discard()
        self._components.discard()
        unlink((self._environment, self))
        self.has_ended = True

    def _free(self, ended: Components) -> None:
        """Free the memory of a network that has ended: on the server in a thread, because that takes a while."""
        server, free = self.server, ended.payments.discard
        if server is not None and server.runs_here():
            server.run_in_background(free)
        else:
            free()

    # The server around it

    def attach(self, server: HostServer) -> None:
        """From now on share the names and keys of this server. A sandbox may be served after it was made."""
        self.server = server

    @property
    def webhook_secret(self) -> str:
        """The newest secret that signs the callbacks of the world's project."""
        return self.service.projects.secrets(self.config.project)[-1]["secret"]

    def connect_network(self, transport: ExternalTransport | None) -> None:
        """From now on send callbacks to addresses outside the process through `transport`; None: block them."""
        with self.lock:
            self.external_transport = transport
            self._environment = self._environment._replace(external_transport=transport)
            self.transport.connect(transport)

    def name_taken(self, user: str) -> bool:
        """Whether a lightning address's user part is in use, in this world or in one that shares its URL."""
        if self.server is not None:
            return self.server.name_taken(user, self)
        return self.service.static_charges.user_exists(user)

    def key_refusal(self, key: str) -> str | None:
        """Why this world's server does not issue an API key, or None."""
        return None if self.server is None else self.server.key_refusal(key)

    def key_issued(self, key: str) -> None:
        """Let the server know that the key is of this world."""
        if self.server is not None:
            self.server.key_issued(key, self)

    def _report_ignored(self, text: str) -> str:
        return text if self.server is None else self.server.report_ignored(text, self)

    # Time

    def exclusive(self) -> AbstractContextManager[None]:
        """Enter to change anything: everything written inside is one commit, and no other thread changes the world."""
        return self._exclusive

    def catch_up(self) -> list[Fired]:
        """Run what is due now: after a request on a frozen clock, and before each look at a live one. Raises
        `StorageUnavailable` when the disk refuses; what could not be done stays due."""
        with self.lock:
            self.transport.flush_responses()
            fired = self.clock.catch_up()
            return fired + self.catch_up() if self.transport.has_pending_responses else fired

    def slices(self) -> Slices:
        """The way in which long work is divided: for a request to its server, into slices."""
        server = self.server
        return server.slices() if server is not None and server.runs_here() else Undivided()

    async def run_apart(self, work: Callable[[], Result]) -> Result:
        """The result of `work()`. For a request to the server of this world it runs in a thread, and other requests are
        answered meanwhile. The work must use neither the world nor any other object that a request changes."""
        server = self.server
        return await server.run_in_thread(work) if server is not None and server.runs_here() else work()

    @property
    def defers_searches(self) -> bool:
        """Whether a long search for a route runs in a thread: for a request to the server, with payers that need it."""
        return self.payments.has_long_searches and not isinstance(self.slices(), Undivided)

    def run_slice(self, clock: VirtualClock, until_ms: int, slices: Slices, report: Report | None = None) -> bool:
        """Run a slice of what is due by an instant, as `VirtualClock.run_slice` does. While searches are deferred an
        event raises `SearchNeeded` for a long one, and stays scheduled."""
        with self.payments.searches_deferred(slices.is_over) if self.defers_searches else nullcontext():
            return clock.run_slice(until_ms, slices.is_over, report)

    def _catch_up_slice(self, clock: VirtualClock) -> None:
        """Before a transaction: run what is due; for a request to the server one slice of it, if no move runs it. An
        event with a long search is left to the server's task."""
        slices = self.slices()
        if isinstance(slices, Undivided):
            clock.catch_up()
        elif not self.running_moves:
            with suppress(SearchNeeded):
                self.run_slice(clock, clock.reached(), slices)
        if not self.running_moves:
            self.transport.flush_responses(slices.is_over)

    def real_seconds_until_due(self) -> float | None:
        """Real seconds until a live clock's next event; None when it is frozen, nothing is scheduled, or a move of time
        runs what is due."""
        if self.running_moves:
            return None
        with self.lock:
            due, clock = self.clock.next_due(), self.clock
            left_ms = None if due is None or not clock.rate else due - clock.now()
            return None if left_ms is None else max(0.0, left_ms / 1_000 / clock.rate)

    def wait_after_request(self) -> float | None:
        """Real seconds until the next event, by the clock's last reading; None: time does not reach one by itself."""
        with self.lock:
            due, clock = self.clock.next_due(), self.clock
            wait_ms = None if due is None else due - clock.last_seen
            if wait_ms is None or (wait_ms > 0 and not clock.rate):
                return None
            return 0.0 if wait_ms <= 0 else wait_ms / 1_000 / clock.rate

    def _observe(self, request: CallbackRequest, response: CallbackResponse, time_s: int) -> None:
        if self.network_log is not None:
            self.network_log.responded(request, response, time_s)

    @contextmanager
    def _recording(self) -> Iterator[None]:
        """The context in which responses from the network are recorded."""
        with self._responded:
            try:
                yield
            finally:
                self._responded.notify_all()
                if self.server is not None and self.server.runs_here():
                    self.server.responded(self)

    async def close_external_transport(self) -> None:
        """Close the connections to the real network."""
        if self.external_transport is not None:
            await self.external_transport.close()

    def next_run(self, seed: int | None = None, start_ms: int | None = None) -> WorldConfig:
        """The configuration after a reset, as `reset` takes its arguments."""
        config = replace(self.config, webhook_secret=self.webhook_secret, rate=self.clock.rate)
        seed = derived_seed(config.seed, f"\nreset {config.run}") if seed is None else seed
        return replace(config, seed=seed, start_ms=config.start_ms if start_ms is None else start_ms)

    def reset(
        self,
        *,
        seed: int | None = None,
        start_ms: int | None = None,
        starts_now: bool = False,
        prepared: PreparedEngine | None = None,
    ) -> None:
        """Erase everything and start again, with the same contract, API keys and webhook secret.

        Without `seed` the next one is derived from the present seed and the number of the run, so that no id repeats;
        the seed of an earlier run repeats that run. Without `start_ms` the start stays. With `starts_now` it is a
        reading of the real clock. `prepared` is the engine of `next_run`.
        """
        with self.exclusive():
            former = self.streams
            self.rebuild(replace(self.next_run(seed, start_ms), starts_now=starts_now), prepared=prepared)
            self.streams.go_on("secrets", former)  # no key and no secret of an earlier run is drawn again

    def rebuild(
        self,
        config: WorldConfig,
        tables: Snapshot | Store | None = None,
        *,
        prepared: PreparedEngine | None = None,
    ) -> None:
        """Erase everything and build the parts anew, over the rows of `tables` if they are given. The API keys stay.
        Inside of `exclusive()`: nothing happens in the former parts after the commit."""
        self._before_reset = self._before_reset or self._components
        keys = self.store.table_data(KEYS).snapshot()  # whole: there may be thousands, and nobody is answered meanwhile
        self.store.drop_tables()
        self.store.load(tables or {})
        self._install(build(config.after(self.config), self._environment, prepared=prepared))
        self._resume(is_restored=tables is not None)
        self._register()
        self.store.load({KEYS: keys})
