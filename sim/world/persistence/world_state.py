"""A world's own rows in its store: its configuration, its time, its random streams and the order of its timers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

from jsonschema_rs import Draft4Validator

from leyden.files.json_files import DocumentKind
from leyden.rng import RandomStreams
from leyden.server.charges.charges import TIMER as CHARGE_TIMER
from leyden.server.contract.schema_errors import with_short_alternatives
from leyden.server.errors import LeydenError, StoreError
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable
from leyden.world.config import WorldConfig
from leyden.world.persistence.directory_checks import MEND, WORLD_ROWS, errors_of_directory, is_trusted
from leyden.world.persistence.former_formats import saved_by_format_1
from leyden.world.persistence.row_schemas import schema_of
from leyden.world.persistence.stream_checks import check_streams
from leyden.world.time.clock import VirtualClock
from leyden.world.time.timers import Entry

if TYPE_CHECKING:
    from leyden.world.persistence.network_state import NetworkState

FORMAT = 2
TABLE = "world"
_CONFIG, _STATE = WORLD_ROWS
_WRONG_MS = 86_400_000  # a clock that is so far ahead may have followed a wrong system clock

TimerName = tuple[str, str]  # kind, key
TimerOrder = tuple[int, int]  # how many Charges existed when the timer was set, and the timer's sequence number


class ConfigRow(TypedDict):
    """Row `config`: written once, except `public_url`, the base of the URLs given to wallets. It and `run` are absent
    in older directories, `network` and `map_fingerprint` where payments are direct.
    """

    id: str
    format: int
    seed: int
    given_seed: int
    start_ms: int
    given_start_ms: int
    run: NotRequired[int]
    public_url: NotRequired[str]
    network: NotRequired[Any]
    map_fingerprint: NotRequired[str]


class StateRow(TypedDict):
    """Row `state`: written in every commit. `time_base` is `VirtualClock.time_base`, None without a real clock."""

    id: str
    now: int
    rate: float
    time_base: list[int] | None
    streams: dict[str, int]


class TimerRow(TypedDict):
    """Row `<kind> <key>`: one for each timer that is set, except those of Charges."""

    id: str
    charges: int
    sequence: int


@cache
def _kind(hint: type) -> DocumentKind:
    schema = with_short_alternatives(schema_of(hint))
    return DocumentKind("row of a world", StoreError, MEND, Draft4Validator(schema), 0)


def _checked(row: Mapping[str, Any], hint: type) -> None:
    kind = _kind(hint)
    if not kind.validator.is_valid(row):
        kind.check(row, f"{row.get('id')!r:.60} in the table {TABLE}")


class WorldState:
    """Reads and writes the rows of the table `world`.

    A timer has a row because timers of one instant run in the order in which they were set. Charges' timers have none,
    to keep the creation of a Charge cheap: each is set once, with its Charge. The row of any other timer therefore says
    how many Charges existed when it was set.
    """

    def __init__(
        self,
        store: Store,
        config: WorldConfig,
        clock: VirtualClock,
        streams: RandomStreams,
        network: NetworkState | None,
        public_url: Callable[[], str],
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._streams = streams
        self._network = network
        self._public_url = public_url
        self._rows = cast(TypedTable[Any], store.table(TABLE))
        self._charges = store.table_data("charges")

    @property
    def is_durable(self) -> bool:
        """Whether the rows are kept in a directory."""
        return self._store.is_durable

    @staticmethod
    def saved(store: Store) -> Mapping[str, Any] | None:
        """The fields of `ConfigRow` and `StateRow` in this store, of any format; None when no world was kept in it.

        Raises `StoreError` when the rows are not those that a world writes.
        """
        with errors_of_directory(store):
            table = store.table(TABLE, key="id")
            config, state = table.row(_CONFIG), table.row(_STATE)
            if config is None or state is None:
                return saved_by_format_1(table)
            for row, hint in ((config, ConfigRow), (state, StateRow)):
                _checked(row, hint)
            return {**config, **state}

    def write(self) -> None:
        """Write what a commit changed; called at its end, inside of it."""
        if self._network is not None:
            self._network.write()
        if self._rows.row(_CONFIG) is None:
            self._rows.put(self._config_row())
        clock = self._clock
        for kind, key in clock.changed_timers():
            if kind != CHARGE_TIMER:
                self._write_timer(kind, key)
        time_base = clock.time_base
        state: StateRow = {
            "id": _STATE,
            "now": clock.now(),
            "rate": clock.rate,
            "time_base": None if time_base is None else [*time_base],
            "streams": self._streams.snapshot(),
        }
        self._rows.put(state)

    def keep_public_url(self) -> str | None:
        """Write the present base of the URLs given to wallets. Returns the one that was written before if it was
        another, else None."""
        row = self._rows.row(_CONFIG)
        url = self._public_url()
        if row is None or row.get("public_url") == url:
            return None
        with self._store.commit():
            self._rows.put({**row, "public_url": url})
        former: str | None = row.get("public_url")
        return former

    def write_restored(self) -> None:
        """After the clock and the network were returned to a snapshot: write the rows of all timers, and the network.

        The row of a timer says which Charges were there when it was set. Of those without a timer that is not known,
        and it does not matter: nothing of theirs is due.
        """
        if self._network is not None:
            self._network.write_restored()
        present = 0
        for _, _, sequence, kind, key in sorted(self._clock.timers(), key=lambda timer: timer[2]):
            if kind == CHARGE_TIMER:
                present = max(present, self._charges.keys[key])
            else:
                self._rows.put({"id": f"{kind} {key}", "charges": present, "sequence": sequence})

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Before any timer is set: restore the random streams, the clock's instant, and the network.

        Raises `StoreError`, with what to do, for rows that no world writes.
        """
        try:
            self._restore(saved)
        except LeydenError as error:
            raise error if MEND in str(error) else StoreError(f"{error}; {MEND}") from None

    def _restore(self, saved: Mapping[str, Any]) -> None:
        for row in self._rows:
            if row.get("id") not in (_CONFIG, _STATE):
                _checked(row, TimerRow)
        self._streams.restore(saved["streams"])
        if not is_trusted(self._store):
            check_streams(self._streams, self._store)
        latest = max((sequence for _, sequence in self._saved_order().values()), default=0)
        self._clock.restore({"now": saved["now"], "sequence": latest, "timers": []})
        if self._network is not None:
            self._network.restore(self._streams.secret)

    def resume_time(self, saved: Mapping[str, Any]) -> None:
        """After every timer was set: restore the order of those of one instant, and run at the configured rate.

        The time that passed while no process ran a live clock is added to it: what is due runs at the next `catch_up`.
        """
        clock, saved_order = self._clock, self._saved_order()

        def order(timer: Entry) -> tuple[Any, TimerOrder]:
            return timer[:2], self._order(timer, saved_order)

        others = [timer for timer in clock.timers() if timer[3] != CHARGE_TIMER]
        shared = {timer[:2] for timer in others}
        again = [timer for timer in clock.timers() if timer[:2] in shared]
        for due_ms, priority, _, kind, key in sorted(again, key=order):
            clock.call_at(due_ms, priority, kind, key)
        with self._store.commit():
            for kind, key in saved_order.keys() ^ {timer[3:] for timer in others}:
                self._write_timer(kind, key)
        clock.set_rate(self._config.rate)
        if self._config.rate and saved["time_base"] is not None:
            _, real_ms = clock.reading()
            assert real_ms is not None  # a clock with a rate has a real clock
            followed = follows_again(saved, self._config.rate, real_ms)
            clock.resume_from(saved["rate"], *((real_ms, real_ms) if followed else saved["time_base"]))

    # Inside

    def _saved_order(self) -> dict[TimerName, TimerOrder]:
        """The timers, read from the rows."""
        return {
            (kind, key): (row["charges"], row["sequence"])
            for row in self._rows
            for kind, space, key in [row["id"].partition(" ")]
            if space
        }

    def _order(self, timer: Entry, saved_order: Mapping[TimerName, TimerOrder]) -> TimerOrder:
        _, _, sequence, kind, key = timer
        if kind == CHARGE_TIMER:
            return self._charges.keys[key], 0
        return saved_order.get((kind, key), (self._charges.max_id, sequence))

    def _write_timer(self, kind: str, key: str) -> None:
        name, sequence = f"{kind} {key}", self._clock.sequence_of(kind, key)
        if sequence is None:
            self._rows.delete(name)
        else:
            row: TimerRow = {"id": name, "charges": self._charges.max_id, "sequence": sequence}
            self._rows.put(row)

    def _config_row(self) -> ConfigRow:
        config = self._config
        row: ConfigRow = {
            "id": _CONFIG,
            "format": FORMAT,
            "seed": config.seed,
            "given_seed": config.seed if config.given_seed is None else config.given_seed,
            "start_ms": config.start_ms,
            "given_start_ms": config.start_ms if config.given_start_ms is None else config.given_start_ms,
            "run": config.run,
            "public_url": self._public_url(),
        }
        if self._network is not None:
            row["network"] = config.network_json()
            row["map_fingerprint"] = self._network.map_fingerprint()
        return row


def follows_again(saved: Mapping[str, Any], rate: float, real_ms: int) -> bool:
    """Whether a stored clock in real time is set to the system clock `real_ms` when it is opened, and the time for
    which no process ran is not added to it.

    So it is when it was a day or more ahead and the system clock has passed it meanwhile. A system clock that was wrong
    for one run would otherwise let everything open expire at the next start, by the time by which it was corrected.
    """
    if rate != 1 or saved["rate"] != 1 or saved["time_base"] is None:
        return False
    base_ms, real_base_ms = saved["time_base"]
    return bool(base_ms - real_base_ms >= _WRONG_MS and real_ms >= saved["now"])
