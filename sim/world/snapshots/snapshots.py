"""Forks and saved sandboxes: a second world in the same state as a first one, or its state as JSON values.

A snapshot has the format number `FORMAT`; those of format 1 are read, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leyden.callbacks.transport import ExternalTransport, RecordedNetwork
from leyden.errors import ForkError, MissingExtra
from leyden.extras import require
from leyden.files.json_files import WRONG_DATA, in_words, version_note, warn_of_version
from leyden.server.callbacks.egress import closed_note
from leyden.server.contract.load import known_overlays, load_contract
from leyden.server.errors import LeydenError, StoreError
from leyden.server.gc_pause import gc_paused
from leyden.server.printable import cut
from leyden.server.store.store import Store
from leyden.server.store.tables.row_map import RowMap
from leyden.server.store.tables.table_snapshot import TableSnapshot
from leyden.server.system.http_client.background_transport import BackgroundTransport
from leyden.world.config import WorldConfig, chosen_network, control_contract, is_packaged, packaged_contract
from leyden.world.engines import prepared_engine
from leyden.world.event_journal import HashedEventJournal
from leyden.world.moves.move_guard import check_not_waiting
from leyden.world.persistence.directory_checks import OWN_TABLES
from leyden.world.persistence.encoded_state import free
from leyden.world.persistence.former_formats import upgraded_snapshot
from leyden.world.persistence.number_checks import check_journal, check_next_ids, check_timer_numbers
from leyden.world.persistence.row_checks import check_references
from leyden.world.persistence.stream_checks import check_streams
from leyden.world.snapshots.frozen_state import FrozenState
from leyden.world.snapshots.snapshot_schema import SAVED_SANDBOX, check_saved_sandbox
from leyden.world.snapshots.state_checks import check_ids, check_project, check_timers
from leyden.world.time.timers import Timers
from leyden.world.world import LOCAL_URL, World

if TYPE_CHECKING:
    from leyden.lightning.payer.routed_payments import RoutedPayments

FORMAT = 2
_ENGINE = "engine"  # a member of prepared states: a `PreparedEngine`, or None
CONTRADICTIONS = "contradictions"  # `World.contradictions`: a member of states that stay in this process


def fork_world(world: World, label: str, *, reseed: int | None = None) -> World:
    """A second world in the same state: same rows, instant, timers, inboxes and positions of the random streams.

    With `reseed` every random stream continues differently from here. Rows, journal entries and received callbacks are
    shared, because none of them ever changes; so are the snapshots that are kept beside the world. The fork has no
    transport to the network. Callbacks that are in flight there are waited for. Raises `ForkError` for a world whose
    callbacks an event loop sends, `StoreError` inside a commit, and `ClockError` while another thread waits for them.
    """
    if not isinstance(world.external_transport, BackgroundTransport | RecordedNetwork | None):
        raise ForkError(
            "this world sends its callbacks to the network, and a response returns to one world only: fork a Sandbox"
        )
    with world.lock, gc_paused():  # the copies of the tables stay
        check_not_waiting(world)
        world.wait_for_network(is_copy=True)
        tables = {name: table for name, table in world.store.snapshot().items() if name not in OWN_TABLES}
        fork = World(
            replace(world.config, rate=world.clock.rate, payers=None),  # their rows are copied
            Store.from_snapshot(tables),
            control_handlers=world.control_handlers,
            public_url=world.public_url,
            label=label,
            fork_of=world,
        )
        fork.journal.continue_from(world.journal)
        fork.snapshots = world.snapshots.copy()
        fork.contradictions = world.contradictions
        fork.removed.continue_from(world.removed)
        _restore_state(fork, _state(world, world.clock.snapshot()))
        if world.engine is not None:
            _routed(fork).restore(_routed(world).snapshot(), fork.streams.secret)
    if reseed is not None:
        reseed_world(fork, reseed)
    return fork


def reseed_world(world: World, reseed: int) -> None:
    """From now on every random stream continues differently."""
    world.streams.reseed(reseed)
    if world.engine is not None:
        # The past of the network stays as it was observed.
        world.engine.now = max(world.engine.now, world.clock.now())
        world.engine.reseed(reseed, world.streams.secret)
        world.node.invoices.set_hold_timers()


def dump_world(world: World) -> dict[str, Any]:
    """The whole state of a world as JSON values, for `restore_world`. Callbacks in flight are waited for.

    Raises `ClockError` while another thread waits for them.
    """
    return freeze_world(world).values()


def savable(world: World, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state that `dump_world` wrote of a world, for a file.

    Raises `ForkError`, which names the row, for a file that `restore_world` would refuse. Only a sandbox whose
    directory was opened with contradictions, or a copy of one, can have such a state, so no other one is checked.
    """
    if not world.contradictions:
        return state
    where = "a file of it"
    try:
        restore_world(state, where=where, warns=False)
    except ForkError as error:
        why = str(error).removeprefix(f"{where} is no {SAVED_SANDBOX.name}: ").removesuffix(f"; {SAVED_SANDBOX.mend}")
        raise ForkError(
            f"the sandbox is not saved, because its file could not be loaded: {why}; somebody changed a row of its"
            " directory: restore the directory from a copy to save it"
        ) from None
    return state


def freeze_world(world: World, **more: Any) -> FrozenState:
    """The result of `dump_world` with the further members `more`, as they are at this moment. Raises as
    `dump_world`."""
    with world.lock:
        check_not_waiting(world)
        world.wait_for_network(is_copy=True)
        state = _state(world, world.clock.snapshot(timers=False))
        clock = state.pop("clock")
        head = {
            **more,
            "format": FORMAT,
            "label": world.label,
            "config": _dump_config(world.config),
            "network": None if world.engine is None else _routed(world).snapshot(),
            **state,
        }
        tables = {name: table for name, table in world.store.snapshot(indexes=False).items() if name not in OWN_TABLES}
        return FrozenState(head, tables, world.journal.fork(world.clock), clock, [*world.clock.timers()])


def restore_world(
    snapshot: Mapping[str, Any],
    *,
    control_handlers: Callable[[World], Iterable[object]] | None = None,
    label: str | None = None,
    where: str = "the snapshot",
    adapt: Callable[[WorldConfig], WorldConfig] = lambda config: config,
    external_transport: ExternalTransport | None = None,
    note_of: Callable[[str], str] = closed_note,
    public_url: str = LOCAL_URL,
    is_own: bool = False,
    warns: bool = True,
) -> World:
    """A world in the state that `dump_world` wrote, or of `FrozenState.restorable`; it continues in memory and in this
    process.

    `adapt` changes the configuration, for example for a server; the rate of its clock has to be 0 at first. A snapshot
    that `is_own` was written by this process and is not checked.

    Warns with `VersionWarning` about a snapshot of another version of Leyden, if it `warns`. Raises `ForkError` for
    what is no snapshot, and for one of an unknown format: one line that begins with `where`. Raises `MissingExtra` for
    one with a network without the extra `network`.
    """
    if not isinstance(snapshot, Mapping) or type(snapshot.get("format")) is not int:
        raise SAVED_SANDBOX.refusal(where, "it has no format")
    if snapshot["format"] not in (1, FORMAT):
        raise ForkError(
            f"{where} has format {snapshot['format']!r} and only 1 to {FORMAT} are read here: open it with the "
            "Leyden that saved it, or make it anew from its script"
        )
    try:
        if snapshot["format"] == 1:
            snapshot = upgraded_snapshot(snapshot)
        if not is_own:
            check_saved_sandbox(snapshot, where)
        if warns:
            warn_of_version(snapshot.get("leyden") or None, where)
        config = adapt(_load_config(snapshot["config"], where))
        if not is_own:
            check_ids(snapshot["tables"])
            check_next_ids(snapshot["tables"])
            check_journal(snapshot["journal"])
            check_timer_numbers(snapshot["clock"])
        store = Store.from_snapshot(_tables(snapshot))
        if not is_own:
            from leyden.world.persistence.relations import check_relations  # it loads the cryptography

            check_references(store, config.contract)
            check_relations(store, config.contract)
            check_project(config, store)
        world = World(
            config,
            store,
            control_handlers=control_handlers,
            external_transport=external_transport,
            note_of=note_of,
            public_url=public_url,
            label=snapshot["label"] if label is None else label,
        )
        if not is_own:
            check_timers(world, snapshot)
        world.notes += filter(None, [version_note(snapshot.get("leyden") or None, "the file of this sandbox")])
        world.contradictions = snapshot.get(CONTRADICTIONS, []) if is_own else []
        _restore_journal(world, snapshot["journal"])
        _restore_state(world, snapshot)
        if not is_own:
            check_streams(world.streams, world.store)
        if snapshot.get("network") is not None:
            _routed(world).restore(snapshot["network"], world.streams.secret)
            if not is_own:
                _routed(world).check()
        elif world.engine is not None:
            raise StoreError("config/network is a network, and the snapshot has none")
        return world
    except (ForkError, MissingExtra):
        raise
    except LeydenError as error:
        raise SAVED_SANDBOX.refusal(where, str(error)) from None
    except WRONG_DATA as error:
        raise SAVED_SANDBOX.refusal(where, f"its parts do not fit together ({in_words(error)})") from error


def prepared(world: World, read: Callable[[], Mapping[str, Any]]) -> Callable[[], Mapping[str, Any]]:
    """A function for another thread. It returns the state as `read` does, together with the store, the timers, the
    packed journal and the engine that `return_to` needs. One call of `return_to` takes these over."""
    tables = {name: (data.key, tuple(data.indexes), tuple(data.tallies)) for name, data in world.store.tables.items()}
    clock, config = world.clock, world.config

    def prepare() -> Mapping[str, Any]:
        state = read()
        store = Store.from_snapshot(_tables(state))
        for name in tables.keys() & state["tables"].keys():
            store.table_data(name).declare(*tables[name])
        journal = HashedEventJournal(clock)
        journal.restore(state["journal"])
        timers = Timers()
        timers.restore(state["clock"])
        ready = {"tables": store, "journal": journal, "clock": {**state["clock"], "timers": timers}}
        result = {**state, **ready, _ENGINE: prepared_engine(_config_of(config, state))}
        free(state)
        return result

    return prepare


def return_to(world: World, snapshot: Mapping[str, Any], rate: float) -> None:
    """Return a world to the state that `dump_world` wrote of it: the same object, in the same store, with the API keys
    that it has now. The clock goes on at `rate`. A move of time that is in progress ends as by a reset."""
    with gc_paused(), world.exclusive():
        config, tables = replace(_config_of(world.config, snapshot), rate=0), snapshot["tables"]
        tables = tables if isinstance(tables, Store) else _tables(snapshot)
        world.rebuild(config, tables, prepared=snapshot.get(_ENGINE))
        world.notes += filter(None, [version_note(snapshot.get("leyden") or None, "the file of this sandbox")])
        world.contradictions = snapshot.get(CONTRADICTIONS, [])
        _restore_journal(world, snapshot["journal"])
        _restore_state(world, snapshot)
        if snapshot.get("network") is not None:
            _routed(world).restore(snapshot["network"], world.streams.secret)
        world.receivers.mark_restored()
        if world.store.is_durable:
            world.state.write_restored()
        world.clock.set_rate(rate)


def _config_of(config: WorldConfig, snapshot: Mapping[str, Any]) -> WorldConfig:
    """The configuration of a world after it has returned to a snapshot of its own."""
    return replace(config, seed=snapshot["config"]["seed"], start_ms=snapshot["config"]["start_ms"])


def _tables(snapshot: Mapping[str, Any]) -> dict[str, TableSnapshot]:
    return {
        name: table
        if isinstance(table, TableSnapshot)
        else _table(_row_map(table["rows"]), table["next_id"], table["exists"])
        for name, table in snapshot["tables"].items()
    }


def _table(rows: RowMap, next_id: int | None, exists: bool) -> TableSnapshot:
    if next_id is not None:  # former versions wrote one that is too low, when a sandbox with a bound was reopened
        next_id = max(next_id, 1 + max(rows, default=0))
    return TableSnapshot(rows, next_id, exists, None, {}, {})


def _row_map(rows: Any) -> RowMap:
    return rows if isinstance(rows, RowMap) else RowMap(dict(rows))


def _restore_journal(world: World, journal: Any) -> None:
    if isinstance(journal, HashedEventJournal):
        world.journal.continue_from(journal)
    else:
        world.journal.restore(journal)


def _state(world: World, clock: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that is neither a row nor a journal entry nor the network, with this snapshot of the clock."""
    return {
        "clock": clock,
        "reseeds": list(world.streams.reseeds),
        "streams": world.streams.snapshot(),
        "outbox": world.service.outbox.in_flight.snapshot(),
        "requests": world.service.pipeline.request_count,
    }


def _restore_state(world: World, state: Mapping[str, Any]) -> None:
    """Give a new world, over rows that are there already, the state that `_state` returned."""
    for reseed in state["reseeds"]:
        world.streams.reseed(reseed)
    world.streams.restore(state["streams"])
    world.clock.restore(state["clock"])
    world.service.outbox.in_flight.restore(state["outbox"])
    world.service.pipeline.request_count = state["requests"]
    world.faults.check_held()


def _routed(world: World) -> RoutedPayments:
    """The payments of a world that has a network."""
    from leyden.lightning.payer.routed_payments import RoutedPayments

    assert isinstance(world.payments, RoutedPayments)
    return world.payments


def _dump_config(config: WorldConfig) -> dict[str, Any]:
    contract = config.contract
    return {
        "seed": config.seed,
        "given_seed": config.given_seed,
        "start_ms": config.start_ms,
        "run": config.run,
        "api_key": config.api_key,
        "project": config.project,
        "keep": config.keep,
        "mock_unbound": config.mock_unbound,
        "control": config.control is not None,
        "network": config.network_json(),
        "overlays": list(contract.overlays),
        # The packaged spec is known by its overlays; any other is included, so that the case can be opened anywhere.
        "spec": None if is_packaged(contract) else contract.document,
    }


def _load_config(saved: Mapping[str, Any], where: str) -> WorldConfig:
    if saved.get("network", "direct") != "direct":
        require(f"the network of {where}", "scipy", "network")
    overlays = tuple(saved["overlays"])
    if saved["spec"] is None:
        for name in overlays:
            # `load_contract` would take any other text for a path, and read that file.
            if name not in known_overlays():
                raise StoreError(f"/config/overlays has {cut(name, 40)!r}, which is no packaged overlay")
        contract = packaged_contract("charges", overlays)
    else:
        contract = load_contract(saved["spec"], mock_unbound=saved["mock_unbound"], known_as="charges.openapi.yaml")
        contract = contract._replace(overlays=overlays)
    return WorldConfig(
        contract=contract,
        network=chosen_network(saved, None),
        control=control_contract(contract) if saved["control"] else None,
        seed=saved["seed"],
        given_seed=saved["given_seed"],
        start_ms=saved["start_ms"],
        run=saved.get("run", 1),  # former versions saved none
        api_key=saved["api_key"],
        project=saved["project"],
        keep=saved["keep"],
        mock_unbound=saved["mock_unbound"],
    )
