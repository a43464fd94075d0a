"""A world: one service, its node, its payers, its receivers and its clock, hanging on a single object."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from starlette.types import ASGIApp

from server.app import Part, build_app
from server.contract.bind import bind
from server.contract.shape import Contract
from server.errors import StorageUnavailable
from server.service import Service
from server.store.store import Store
from sim.clock import Fired, VirtualClock
from sim.exchange import Exchange, Outside
from sim.journal import Journal
from sim.lightning.node import DirectNode
from sim.lightning.payments import Payments
from sim.receivers import Receivers
from sim.streams import Streams, uuid4_from
from sim.turns import Step, Turn

LOCAL_URL = "http://localhost"


Moved = TypeVar("Moved")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a world is made from. `given_seed` is the seed that was
    asked for where `seed` was derived from it; `keep` bounds the readable journal."""

    contract: Contract
    control: Contract | None
    seed: int = 0
    start_ms: int = 0
    rate: float = 0
    api_key: str = "leyden"
    project: str = "default"
    given_seed: int | None = None
    keep: int | None = None
    mock_unbound: bool = False
    wall: Callable[[], int] | None = field(default=None, compare=False)


class World:
    """The composition. Nothing in it reads the wall or draws luck of its own; see `Plan` for what is given.

    A store that another world was kept in is gone on with: its instant, its luck's positions, everything that was due
    meanwhile. `levers` makes the handlers of `plan.control` for this world. `outside` is the courier to the real
    network; without one every callback stays in process. `settled` is awaited before an answer leaves: the wait for the
    disk, if the store's policy asks for one.
    """

    def __init__(
        self,
        plan: Plan,
        store: Store,
        *,
        levers: Callable[[World], object] | None = None,
        outside: Outside | None = None,
        settled: Callable[[], Awaitable[None]] | None = None,
        public_url: str = LOCAL_URL,
    ) -> None:
        self.lock = threading.RLock()
        self.public_url = public_url
        self.outside = outside
        self.store = store
        self._settled = settled
        self._levers = levers
        self._step = Step(self)
        self._earlier: dict[str, Any] | None = None
        self.name_taken: Callable[[str], bool] | None = None
        self._build(plan)

    @staticmethod
    def saved(store: Store) -> Mapping[str, Any] | None:
        """What a world wrote down about itself in this store: seed, start, now, rate, and where its luck stands."""
        table = store.table("world", key="id")
        plan, present = table.row("plan"), table.row("present")
        return None if plan is None or present is None else {**plan, **present}

    def _build(self, plan: Plan) -> None:
        self.plan = plan
        store = self.store
        self.streams = Streams(plan.seed)
        self.clock = clock = VirtualClock(plan.start_ms, wall=plan.wall)
        clock.around = lambda: self._step
        self.journal = journal = Journal(clock, keep=plan.keep)
        self.node = DirectNode(store, clock, self.streams, journal)
        self.receivers = Receivers(
            clock,
            journal,
            rules={rule.name: rule for operation in plan.contract.operations.values() for rule in operation.callbacks},
            secrets_at=lambda at: self.service.projects.secrets_of(plan.project, at),
        )
        self.exchange = Exchange(self.receivers, self.outside, self.turn)
        ids = self.streams.stream("ids")
        self.service = Service(
            plan.contract,
            store,
            clock=clock,
            node=self.node,
            courier=self.exchange,
            journal=journal,
            new_id=lambda: uuid4_from(ids),
            jitter=self.streams.stream("jitter"),
            secrets=self.streams.stream("secrets"),
            public_url=lambda: self.public_url,
            turn=self.turn,
            mock_unbound=plan.mock_unbound,
        )
        self.service.gate.settled = self._settled
        statics = self.service.static_charges
        statics.name_taken = lambda user: (self.name_taken or statics.knows)(user)
        self.payments = Payments(store, clock, self.node, self.streams.stream("payments"), journal)
        self.app = self._app()
        self._resume()

    def _app(self) -> ASGIApp:
        plan, gate = self.plan, self.service.gate
        parts = [Part(plan.contract, self.service.handlers, "/openapi.json", "/docs")]
        if plan.control is not None and self._levers is not None:
            handlers = bind(plan.control, [self._levers(self)], guards={}, effects={})
            parts.append(Part(plan.control, handlers, "/sandbox/v1/openapi.json", "/sandbox/v1/docs"))
        return build_app(parts, gate)

    def _resume(self) -> None:
        """Go on from what the store has: the clock where it stood, every timer set, and the time that a live clock
        missed still owed: it passes, with all that fell due in it, when somebody next looks at the clock."""
        plan, saved = self.plan, self.saved(self.store)
        writes = self._write_down if self.store.lasts else None
        # While the timers are not yet set again, what was written down about time and luck stays as it is.
        self.store.before_seal(writes if saved is None else None)
        if saved is None:
            self.clock.set_rate(plan.rate)
        else:
            self.streams.restore(saved["streams"])
            self.clock.restore({"now": saved["now"], "sequence": 0, "timers": []})
        with self.store.commit():
            self.service.projects.add(plan.project, plan.api_key)
        if saved is None:
            return
        # Charges before the node: at one instant an expiry comes before the end of the wait for missing parts.
        self.service.resume()
        self.node.resume()
        self.payments.resume()
        self.clock.set_rate(plan.rate)
        if plan.rate and plan.wall is not None and saved["wall"] is not None:
            # A wall that was set back meanwhile owes nothing: time here only goes forward.
            self.clock.owe(int(max(0, plan.wall() - saved["wall"]) * saved["rate"]))
        self.store.before_seal(writes)

    def _write_down(self) -> None:
        """The world's own rows: what it was begun with, and in every commit where time and luck stand."""
        plan = self.plan
        table = self.store.table("world", key="id")
        if table.row("plan") is None:
            given = plan.seed if plan.given_seed is None else plan.given_seed
            table.put({"id": "plan", "seed": plan.seed, "given_seed": given, "start": plan.start_ms})
        now, wall = self.clock.standing()
        table.put(
            {"id": "present", "now": now, "rate": self.clock.rate, "wall": wall, "streams": self.streams.snapshot()}
        )

    # What a commit changes besides rows (see `sim.turns`)

    def begin(self) -> None:
        """A commit begins."""
        self.clock.begin()
        self.service.callbacks.begin()
        self._luck = self.streams.mark()
        self._noted = len(self.journal)

    def keep(self) -> None:
        """The commit is written down: what it wanted to send may leave."""
        self._earlier = None
        self.clock.keep()
        self.exchange.release()

    def take_back(self, error: BaseException) -> None:
        """The commit came to nothing, and so did its timers, its draws and its posts; the journal says so."""
        if self._earlier is not None:
            self.__dict__.update(self._earlier)
        self.clock.take_back()
        self.streams.take_back(self._luck)
        self.exchange.drop()
        self.service.callbacks.take_back()
        entries = len(self.journal) - self._noted
        if entries and isinstance(error, StorageUnavailable):
            self.journal.note("taken_back", "commit", entries=entries, because=error.code)

    def turn(self) -> AbstractContextManager[None]:
        """Enter to change anything: everything written inside is one commit, and nobody else moves meanwhile."""
        return Turn(self, self._step)

    def catch_up(self) -> list[Fired]:
        """Run what is due now: after a request on a frozen clock, and whenever a live one is looked at.

        Raises `StorageUnavailable` when the disk refuses; what could not be done stays due.
        """
        with self.lock:
            self.exchange.retell()
            return self.clock.catch_up()

    def wall_until_due(self) -> float | None:
        """Real seconds until a live clock's next event; None when it is frozen or nothing is ahead."""
        with self.lock:
            due = self.clock.next_due()
            if due is None or not self.clock.rate:
                return None
            return max(0.0, (due - self.clock.now()) / 1_000 / self.clock.rate)

    def move(self, move: Callable[[VirtualClock], Moved]) -> Moved:
        """Move the clock, and write down where it then stands: time passes even when nothing happens in it.

        Raises `StorageUnavailable` when that cannot be written; a frozen clock then stands where it last could be.
        """
        with self.lock:
            moved = move(self.clock)
            self._keep_time()
            return moved

    def _keep_time(self) -> None:
        if not self.store.lasts:
            return
        try:
            with self._step:
                self._write_down()
        except StorageUnavailable:
            saved = self.saved(self.store)
            if saved is not None and not self.clock.rate:
                self.clock.go_back(saved["now"])
            raise

    async def walk_to(self, when_ms: int | None) -> list[Fired]:
        """`advance_to`, event by event, waiting after each until the callbacks it sent outside were answered.

        None stands for "no event ahead": nothing happens.
        """
        fired: list[Fired] = []
        if when_ms is None:
            return fired
        while True:
            with self.lock:
                self.exchange.retell()
                due = self.clock.next_due()
                if due is None or due > when_ms:
                    fired += self.clock.advance_to(when_ms)
                    self._keep_time()
                    return fired
                event = self.clock.step()
            if event is not None:
                fired.append(event)
            await self._answered()

    async def walk_until_idle(self) -> list[Fired]:
        """Run until nothing is ahead, waiting for callbacks as `walk_to` does."""
        fired: list[Fired] = []
        while True:
            with self.lock:
                self.exchange.retell()
                event = self.clock.step()
                if event is None:
                    self._keep_time()
            if event is None:
                return fired
            fired.append(event)
            await self._answered()

    async def _answered(self) -> None:
        if self.outside is not None:
            await self.outside.drained()

    async def close_outside(self) -> None:
        """Let go of the connections to the real network."""
        if self.outside is not None:
            await self.outside.close()

    def reset(self, *, seed: int | None = None, start_ms: int | None = None) -> None:
        """Forget everything and begin again under the same key and contract, with another seed or start if given."""
        plan = self.plan
        with self.turn():
            self._earlier = dict(self.__dict__)
            self.store.erase()
            self._build(
                replace(
                    plan,
                    seed=plan.seed if seed is None else seed,
                    given_seed=None if seed is not None else plan.given_seed,
                    start_ms=plan.start_ms if start_ms is None else start_ms,
                    rate=self.clock.rate,
                )
            )
