"""The diary of a world kept on disk: how it was begun, where its time and its luck stand, and who was there first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from leyden.server.charges.charges import TIMER as CHARGE_TIMER
from leyden.server.store.store import Store
from leyden.world.clock import VirtualClock
from leyden.world.config import WorldConfig
from leyden.world.rng import RandomStreams
from leyden.world.timers import Entry

if TYPE_CHECKING:
    from leyden.lightning.engine.engine import Engine

_TABLE = "world"

Name = tuple[str, str]
Arrival = tuple[int, int]  # how many Charges there were by then, and the number of the timer


class WorldState:
    """Rows of the table `world`: `plan`, written once; `present`, written anew in every commit; and, for each timer
    that stands, when it was set, because those of one instant run in that order.

    Charges' timers have no such row, so that creating a Charge costs no more than it must: each is set once, with its
    Charge, and of every other timer is written down how many Charges there were by then.
    """

    def __init__(self, store: Store, plan: WorldConfig, clock: VirtualClock, streams: RandomStreams) -> None:
        self._store = store
        self._plan = plan
        self._clock = clock
        self._streams = streams
        self._rows = store.table(_TABLE, key="id")
        self._charges = store.storage.table_data("charges")

    @staticmethod
    def saved(store: Store) -> Mapping[str, Any] | None:
        """What a world wrote down about itself in this store: seed, start, network, now, rate, pace, luck."""
        table = store.table(_TABLE, key="id")
        plan, present = table.row("plan"), table.row("present")
        if plan is None or present is None:
            return None
        # Directories of earlier days have no `given_start`, and say what the wall showed at `now` instead of a pace.
        wall = present.get("wall")
        earlier = {"given_start": plan["start"], "pace": None if wall is None else [present["now"], wall]}
        return {**earlier, **plan, **present}

    def write(self, engine: Engine | None) -> None:
        """Write down, at the end of a commit, what it changed; and at first what the world was begun with."""
        if not self._rows.has("plan"):
            self._rows.put(self._begun(engine))
        clock = self._clock
        for kind, key in clock.changed_timers():
            if kind != CHARGE_TIMER:
                self._write_arrival(kind, key)
        pace = clock.time_base
        self._rows.put(
            {
                "id": "present",
                "now": clock.now(),
                "rate": clock.rate,
                "pace": None if pace is None else [*pace],
                "streams": self._streams.snapshot(),
            }
        )

    def stand(self, saved: Mapping[str, Any]) -> None:
        """Before any timer is set again: stand at the instant and at the positions of luck that were written down."""
        self._streams.restore(saved["streams"])
        latest = max((number for _, number in self._arrivals().values()), default=0)
        self._clock.restore({"now": saved["now"], "sequence": latest, "timers": []})

    def go_on(self, saved: Mapping[str, Any]) -> None:
        """When every timer is set again: let those of one instant come in the order that they had, and time pass at the
        plan's rate. What a live clock missed is owed."""
        clock, arrivals = self._clock, self._arrivals()

        def arrival(timer: Entry) -> tuple[Any, Arrival]:
            return timer[:2], self._arrival(timer, arrivals)

        others = [timer for timer in clock.timers() if timer[3] != CHARGE_TIMER]
        shared = {timer[:2] for timer in others}
        again = [timer for timer in clock.timers() if timer[:2] in shared]
        for due_ms, priority, _, kind, key in sorted(again, key=arrival):
            clock.call_at(due_ms, priority, kind, key)
        with self._store.commit():
            for kind, key in arrivals.keys() ^ {timer[3:] for timer in others}:
                self._write_arrival(kind, key)
        clock.set_rate(self._plan.rate)
        if self._plan.rate and saved["pace"] is not None:
            clock.resume_from(saved["rate"], *saved["pace"])

    # Inside

    def _arrivals(self) -> dict[Name, Arrival]:
        """What is written down about timers."""
        return {
            (kind, key): (row["charges"], row["number"])
            for row in self._rows
            for kind, parted, key in [row["id"].partition(" ")]
            if parted
        }

    def _arrival(self, timer: Entry, arrivals: Mapping[Name, Arrival]) -> Arrival:
        _, _, number, kind, key = timer
        if kind == CHARGE_TIMER:
            return self._charges.keys[key], 0
        return arrivals.get((kind, key), (self._charges.max_id, number))

    def _write_arrival(self, kind: str, key: str) -> None:
        name, number = f"{kind} {key}", self._clock.sequence_of(kind, key)
        if number is None:
            self._rows.delete(name)
        else:
            self._rows.put({"id": name, "charges": self._charges.max_id, "number": number})

    def _begun(self, engine: Engine | None) -> dict[str, Any]:
        plan = self._plan
        row = {
            "id": "plan",
            "seed": plan.seed,
            "given_seed": plan.seed if plan.given_seed is None else plan.given_seed,
            "start": plan.start_ms,
            "given_start": plan.start_ms if plan.given_start_ms is None else plan.given_start_ms,
        }
        if engine is not None:
            from leyden.lightning.network.network_store import fingerprint

            row |= {"network": plan.network_json(), "map": fingerprint(engine.graph, engine.initial_channels)}
        return row
