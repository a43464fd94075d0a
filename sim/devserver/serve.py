"""`leyden serve`: serves one sandbox for each API key on a port, until it is interrupted."""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from leyden.devserver.clock_changes import check_start_now, shown_notes
from leyden.devserver.console.console import CONSOLE_PATH, DEFAULT_KEY
from leyden.devserver.control.handlers import control_handlers
from leyden.devserver.multi_tenant import MultiTenantApp
from leyden.devserver.sandboxes.admin_access import AdminAccess
from leyden.devserver.sandboxes.factory import READABLE_ENTRIES, SandboxDefaults, SandboxFactory, import_route_search
from leyden.devserver.sandboxes.left_out import LeftOut
from leyden.devserver.sandboxes.routing import ID_PREFIX
from leyden.devserver.sandboxes.server_control import SandboxSettings
from leyden.devserver.startup.addresses import (
    ServerAddresses,
    access_notes,
    admin_token,
    api_keys,
    check_saved_keys,
    default_key_refusal,
)
from leyden.devserver.startup.opening_notes import note_opening
from leyden.devserver.startup.project_folders import ProjectFolders
from leyden.devserver.startup.state_files import state_files
from leyden.extras import require
from leyden.files.json_files import InputError
from leyden.rng import derived_seed
from leyden.server.callbacks.egress import Egress
from leyden.server.errors import LeydenError, StorageUnavailable, StoreError
from leyden.server.gc_pause import gc_paused
from leyden.server.http.limits.request_budget import RequestBudget
from leyden.server.http.projects import check_key, issued_before
from leyden.server.printable import printable
from leyden.server.store.store import Store
from leyden.server.system.clock import ServerClock, random_id, random_key, random_seed, stopwatch
from leyden.server.system.http_client.transport import HttpTransport
from leyden.server.system.http_server.listening import open_listener, run_server
from leyden.server.system.stop_signals import ignore_stop_signals, is_stopping
from leyden.server.timestamps import to_iso
from leyden.world.config import chosen_network, read_network, world_config
from leyden.world.persistence.directory_checks import errors_of_directory
from leyden.world.time.clock import LAST_MS
from leyden.world.time.process_clock import FIRST_MS, NOW
from leyden.world.world import World

# A request leaves no reference cycles, but a dozen objects that stay. By default the garbage collector would run after
# every sixtieth request; after every thousandth it finds as much, and each request costs 5 % less CPU.
# The second generation is examined after every third time, not every tenth: a pass then takes a third of the time.
_GC_THRESHOLDS = (10_000, 2)


class RealClock(Protocol):
    """The interface of `ServerClock`: the real time of a server."""

    def now(self) -> int:
        """Milliseconds since the epoch."""

    def offset_ms(self) -> int:
        """How much later the system clock is than `now()`, by the changes that `change_ms` has reported."""

    def change_ms(self) -> int:
        """By how much the system clock was set forward since the last call."""


def serve(options: argparse.Namespace) -> int:
    """Open a world for each key and serve them. Raises `LeydenError` with one line that says what to change."""
    for key in options.api_key or []:
        try:
            check_key(key)
        except ValueError as error:
            raise InputError(str(error)) from None
    if options.network not in (None, "direct"):
        require(f"--network {options.network}", "scipy", "network")
        options.network = read_network(options.network, "--network")
    clock = ServerClock()
    listener = open_listener(options.host, options.port, "choose another --port (0 is any free one) or --host")
    worlds: dict[str, World] = {}
    try:
        host, port = listener.getsockname()[:2]
        addresses = ServerAddresses.of(host, port, options.public_url)
        keys, is_new = api_keys(options.api_key or [], options.data, is_local=addresses.is_local)
        token, is_new_token = admin_token(options.admin_token, options.data, is_local=addresses.is_local)
        with gc_paused(freeze=True):  # what is loaded until the first request stays
            try:
                app, opened = open_server(options, clock, addresses, keys, token, worlds)
            except LeydenError:
                if not is_stopping():
                    raise
                # A library may have made another error of the interrupt: it says nothing about the directory.
                raise KeyboardInterrupt from None
        for text in access_notes(options.data):
            for world in worlds.values():
                if text not in world.notes:
                    world.notes.append(text)
        gc.set_threshold(*_GC_THRESHOLDS)
        shown_key = keys[0] if is_new or (keys == [DEFAULT_KEY] and not options.api_key) else None
        if is_new_token and not options.no_control:
            opened = [*opened, f"admin token: {token} (creates sandboxes: POST /sandbox/v1/sandboxes)"]

        def ready() -> None:
            _announce(options, addresses, worlds, shown_key, opened)
            if ready_file is not None:
                ready_file.write(addresses.url)

        with state_files(options.pid_file, options.ready_file) as ready_file:
            run_server(app, listener, ready)
        keep_time(worlds.values())
        leave_to_the_system(app)
    except KeyboardInterrupt:  # a signal to stop before the server ran
        ignore_stop_signals()
        raise
    finally:
        listener.close()
        for world in worlds.values():
            world.store.close()
    return 0


def open_server(
    options: argparse.Namespace,
    clock: RealClock,
    addresses: ServerAddresses,
    keys: Sequence[str],
    token: str | None,
    worlds: dict[str, World],
) -> tuple[MultiTenantApp, list[str]]:
    """The application over one world for each project, and a line of text about each world with a directory. Each open
    world is put into `worlds`: the caller closes its store, also after an error."""
    egress = Egress(
        options.egress or ("loopback" if addresses.is_loopback else "public"),
        allow=options.egress_allow,
        own=addresses.own,
    )
    folders = ProjectFolders(options.data, keys)
    stored: list[tuple[World, Mapping[str, Any], int | None]] = []
    for index, (key, folder) in enumerate(folders.by_key.items()):
        worlds[key], saved = _world_for_key(options, clock, key, folder, index, addresses, egress)
        if saved is not None:
            seed = None if options.seed is None else _seed_for(options.seed, key, index)
            stored.append((worlds[key], saved, seed))
    now_ms = clock.now()
    if options.start == NOW:  # all are checked before one is changed
        for world, _, _ in stored:
            with errors_of_directory(world.store):
                check_start_now(world, now_ms)
    for world, saved, seed in stored:
        note_opening(world, saved, options, now_ms, addresses.public_url, seed)
    opened = folders.describe(worlds, [world for world, _, _ in stored])
    for world in worlds.values():
        import_route_search(world)
    app = MultiTenantApp(
        worlds,
        key_refusal=lambda key: (
            issued_before(key) if folders.has_key(key) else default_key_refusal(key, is_local=addresses.is_local)
        ),
        sync_clock=clock.now if options.durability == "interval" else None,
        hosts=[*addresses.names, *options.allow_host],
        pages=[addresses.public_url, *options.allow_host],
        clock_change_ms=clock.change_ms,
        lnurl_budget=RequestBudget(options.lnurl_budget, stopwatch()) if options.lnurl_budget else None,
        sandboxes=None if options.no_control else _sandboxes(options, clock, addresses, egress, token),
    )
    return app, opened


def leave_to_the_system(app: MultiTenantApp) -> None:
    """Never free the application and its sandboxes: a process that ends gives its memory back at once, and Python would
    take a millisecond for each sandbox."""
    cycle: list[object] = [app]
    cycle.append(cycle)
    gc.freeze()


def keep_time(worlds: Iterable[World]) -> None:
    """Before the end of the process, write the instant that a live clock has shown since the last commit. After a
    restart it must not show an earlier one."""
    for world in worlds:
        with contextlib.suppress(StorageUnavailable):
            world.keep_time()


def _announce(
    options: argparse.Namespace,
    addresses: ServerAddresses,
    worlds: Mapping[str, World],
    shown_key: str | None,
    opened: Sequence[str],
) -> None:
    """Print the line that programs wait for on stdout, and what a person needs for a first request on stderr.

    `shown_key` is the first project's key if it was not given: a key that was given is a secret, and so is one that
    replaced it. `opened` are further lines, about the projects of a directory and the admin token.
    """
    print(f"Leyden listening on {addresses.url}", flush=True)
    world = next(iter(worlds.values()))
    config, url = world.config, addresses.url
    is_valid = shown_key is not None and world.service.projects.project_for_key(shown_key) is not None
    key = f", {config.contract.api_key_header}: {shown_key}" if is_valid else ""
    kept = "in memory" if options.data == ":memory:" else f"in {options.data}"
    pages = f"documentation: {url}/docs" + ("" if config.control is None else f", console: {url}{CONSOLE_PATH}")
    rate = config.rate
    speed = "" if rate == 1 else ", the clock is paused" if rate == 0 else f", the clock runs {rate:g} times as fast"
    first = f"{pages}{key}, seed: {config.seed}, {kept}{speed}; {addresses.reach(options.allow_host)}"
    notes = [f"note: {text}" for world in worlds.values() for text in shown_notes(world)]
    if options.spec is not None or options.overlay:
        from leyden.server.contract.served import unread

        notes += [f"note: {text}" for text in unread(config.contract, world.service.handlers)]
    for line in [first, *opened, *_payers_text(options, worlds), *notes]:
        print(printable(line), file=sys.stderr, flush=True)


def _payers_text(options: argparse.Namespace, worlds: Mapping[str, World]) -> list[str]:
    """A line with the number of active payers; no line if there is none."""
    rows = [row for world in worlds.values() for row in world.payers.active]
    of_document = sum(len(world.payers.active_of_document) for world in worlds.values())
    if not rows and not of_document:
        return []
    of_option = sum(row.get("from_option", False) for row in rows)
    document = f", {of_document} of the document" if of_document else ""
    kinds = f"{of_option} of --autopay{document}, {len(rows) - of_option} added by requests"
    where = "" if len(worlds) == 1 else f" in {len(worlds)} projects"
    listed = "" if options.no_control else "; GET /sandbox/v1/payers lists them"
    return [f"active payers{where}: {len(rows) + of_document} ({kinds}){listed}"]


def _world_for_key(
    options: argparse.Namespace,
    clock: RealClock,
    key: str,
    folder: Path | None,
    index: int,
    addresses: ServerAddresses,
    egress: Egress,
) -> tuple[World, Mapping[str, Any] | None]:
    """The world of a project, and its state as it was stored; None for a new one. Nothing is written to a directory
    that has one."""
    store = _store(options, folder)
    try:
        saved = World.saved(store)
        with errors_of_directory(store):
            check_saved_keys(store, options.data, is_local=addresses.is_local)
        world = _open_world(store, saved, options, clock, key, index, addresses.public_url, egress)
        # Without a directory it would begin another sandbox; a server that was started with it gives no such advice.
        world.can_start_now = store.is_durable and options.start != NOW
        return world, saved
    except BaseException:
        store.close()
        raise


def _open_world(
    store: Store,
    saved: Mapping[str, Any] | None,
    options: argparse.Namespace,
    clock: RealClock,
    key: str,
    index: int,
    public_url: str,
    egress: Egress,
) -> World:
    if saved is not None and options.seed is not None and options.seed != saved["given_seed"]:
        raise StoreError(
            f"{options.data} was created with the seed {saved['given_seed']}: leave --seed out, or use a new --data"
        )
    if saved is not None and options.start not in (None, NOW, saved["given_start_ms"]):
        raise StoreError(f"{options.data} was created with another --start: leave --start out, or use a new --data")
    if saved is not None:
        given_seed, seed = saved["given_seed"], saved["seed"]
        given_start_ms, start_ms = saved["given_start_ms"], saved["start_ms"]
    else:
        given_seed = random_seed() if options.seed is None else options.seed
        seed = _seed_for(given_seed, key, index)
        given_start_ms = start_ms = _present(clock) if options.start in (None, NOW) else options.start
    rate = options.rate
    if rate is None:
        rate = 1.0 if saved is None else saved["rate"]
    with errors_of_directory(store):
        network = chosen_network(saved, options.network, "--network")
    config = world_config(
        seed=seed,
        start_ms=start_ms,
        starts_now=saved is None and options.start in (None, NOW),
        spec=options.spec,
        overlays=options.overlay,
        api_key=key,
        rate=rate,
        real_clock=clock.now,
        clock_offset=clock.offset_ms,
        control=not options.no_control,
        keep=options.keep or READABLE_ENTRIES,
        keep_ended=options.keep,
        mock_unbound=options.mock_unbound,
        network=network,
        given_seed=given_seed,
        given_start_ms=given_start_ms,
        # In memory, a restart with the same seed is another run, too.
        run=clock.now() if saved is None else saved.get("run", 1),
        webhook_secret=options.webhook_secret,
        callback_timeout_ms=options.callback_timeout,
        payers=options.autopay,
    )
    if index == 0 and (options.spec is not None or options.overlay):
        # Imported here: the packaged document needs no trial.
        from leyden.world.trial.trial_requests import try_contract

        try_contract(config.contract, options.spec)
    transport = HttpTransport.within(egress)
    if options.durability != "always" or not store.is_durable:
        return World(
            config, store, control_handlers=control_handlers, external_transport=transport, public_url=public_url
        )
    # Imported here: only this durability waits for the disk.
    from leyden.server.system.group_commit import DurableTransport, GroupCommit

    wait_durable = GroupCommit(store).wait_durable
    return World(
        config,
        store,
        control_handlers=control_handlers,
        external_transport=DurableTransport(transport, wait_durable),
        wait_durable=wait_durable,
        public_url=public_url,
    )


def _present(clock: RealClock) -> int:
    """The system clock's instant, as the start of a sandbox."""
    now_ms = clock.now()
    if not FIRST_MS <= now_ms <= LAST_MS:
        raise InputError(
            f"the system clock shows {to_iso(now_ms)}, and a sandbox has times from 1971 to the end of 2999: set the"
            " system clock, or give --start 2030-01-01T00:00:00Z"
        )
    return now_ms


def _sandboxes(
    options: argparse.Namespace, clock: RealClock, addresses: ServerAddresses, egress: Egress, token: str | None
) -> SandboxSettings:
    """The factory of the sandboxes that are created over HTTP: by default with the server's own options."""
    defaults = SandboxDefaults(
        spec=options.spec,
        overlays=tuple(options.overlay),
        start_ms=None if options.start in (None, NOW) else options.start,
        rate=1.0 if options.rate is None else options.rate,
        network=options.network or "direct",
        webhook_secret=options.webhook_secret,
        keep=options.keep,
        mock_unbound=options.mock_unbound,
        callback_timeout_ms=options.callback_timeout,
    )
    return SandboxSettings(
        factory=SandboxFactory(
            defaults, now=clock.now, offset=clock.offset_ms, random_seed=random_seed, egress=lambda: egress
        ),
        access=AdminAccess(token),
        new_id=lambda: random_id(ID_PREFIX),
        new_key=random_key,
        now_ms=lambda: clock.now() + clock.offset_ms(),
        server_url=addresses.public_url,
        added=LeftOut().added,
    )


def _store(options: argparse.Namespace, folder: Path | None) -> Store:
    if folder is None:
        return Store.memory()
    return Store.open(folder, policy=options.durability, group_commit=options.durability == "always")


def _seed_for(seed: int, key: str, index: int) -> int:
    """The given seed for the first project, derived ones for the others, so that no ids repeat."""
    return seed if index == 0 else derived_seed(seed, key)
