"""`leyden serve`: the sandbox on a port, until it is told to stop."""

from __future__ import annotations

import argparse
import gc
import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from leyden.devserver.console.console import CONSOLE_PATH
from leyden.devserver.control.handlers import control_handlers
from leyden.devserver.multi_tenant import MultiTenantApp
from leyden.extras import require
from leyden.server.callbacks.egress import Egress
from leyden.server.callbacks.ip_addresses import parse_host_address
from leyden.server.errors import LeydenError, StoreError
from leyden.server.http.projects import check_key
from leyden.server.store.store import Store
from leyden.server.system.clock import random_seed, system_time_ms
from leyden.server.system.group_commit import DurableTransport, GroupCommit
from leyden.server.system.http_server import base_url, local_addresses, open_listener, run_server
from leyden.server.system.http_transport import HttpTransport
from leyden.world.config import chosen_network, world_config
from leyden.world.world import World

DEFAULT_KEY = "leyden"
_READABLE_ENTRIES = 100_000
# A request leaves no cycles behind, but a dozen objects that stay. Python would look for garbage after every sixtieth
# request; after every thousandth it finds as much, and each request costs a twentieth less.
_YOUNG_OBJECTS = 10_000
_DEFAULT_PORTS = {"http": 80, "https": 443}


def serve(options: argparse.Namespace) -> int:
    """Build a world for each key and serve them. Raises `LeydenError` with one clear line when it cannot."""
    keys = options.api_key or [DEFAULT_KEY]
    for key in keys:
        try:
            check_key(key)
        except ValueError as error:
            raise LeydenError(str(error)) from None
    if len(set(keys)) != len(keys):
        raise LeydenError("an API key is given twice: each project needs its own")
    if options.network not in (None, "direct"):
        require(f"--network {options.network}", "scipy", "network")
    listener = open_listener(options.host, options.port)
    url = base_url(listener)
    public_url = options.public_url or url
    egress = _egress(options, url, public_url)
    worlds: dict[str, World] = {}
    try:
        for index, key in enumerate(keys):
            worlds[key] = _world_for_key(options, key, index, public_url, egress)
        host = MultiTenantApp(worlds, sync_by=system_time_ms if options.durability == "interval" else None)
        gc.freeze()  # what was read is here to stay: the collector need not look at it again and again
        gc.set_threshold(_YOUNG_OBJECTS)
        gc.enable()
        run_server(host, listener, ready=lambda: _announce(options, url, worlds))
    finally:
        listener.close()
        for world in worlds.values():
            world.store.close()
    return 0


def _announce(options: argparse.Namespace, url: str, worlds: Mapping[str, World]) -> None:
    """The one line that programs wait for; and, beside it, what a person needs for the first request."""
    print(f"Leyden listening on {url}", flush=True)
    world = next(iter(worlds.values()))
    plan = world.config
    # A key that was given is its holder's secret; the default one is not, unless it was changed since.
    secret = options.api_key or world.service.projects.project_for_key(DEFAULT_KEY) is None
    key = "" if secret else f", apikey: {DEFAULT_KEY}"
    kept = "in memory" if options.data == ":memory:" else f"in {options.data}"
    pages = f"documentation: {url}/docs" + ("" if plan.control is None else f", console: {url}{CONSOLE_PATH}")
    print(f"{pages}{key}, seed: {plan.seed}, {kept}", file=sys.stderr, flush=True)


def _egress(options: argparse.Namespace, *urls: str) -> Egress:
    """Where the callbacks of every world may go; never to one of these `urls`, at which the server itself is reached,
    nor, when it listens everywhere, to any address of this machine at its port."""
    own = [(parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme]) for parts in map(urlsplit, urls)]
    listened = parse_host_address(own[0][0])
    if listened is not None and listened.is_unspecified:
        own += [(address, own[0][1]) for address in local_addresses()]
    local = listened is not None and listened.is_loopback
    return Egress(options.egress or ("loopback" if local else "public"), allow=options.egress_allow, own=own)


def _world_for_key(options: argparse.Namespace, key: str, index: int, public_url: str, egress: Egress) -> World:
    store = _store(options, key)
    try:
        return _open_world(store, options, key, index, public_url, egress)
    except BaseException:
        store.close()
        raise


def _open_world(
    store: Store, options: argparse.Namespace, key: str, index: int, public_url: str, egress: Egress
) -> World:
    saved = World.saved(store)
    if saved is not None and options.seed is not None and options.seed != saved["given_seed"]:
        raise StoreError(
            f"{options.data} was begun with --seed {saved['given_seed']}: leave --seed out, or use a new --data"
        )
    if saved is not None and options.start is not None and options.start != saved["given_start_ms"]:
        raise StoreError(f"{options.data} was begun at another --start: leave --start out, or use a new --data")
    if saved is not None:
        given_seed, seed = saved["given_seed"], saved["seed"]
        given_start_ms, start_ms = saved["given_start_ms"], saved["start_ms"]
    else:
        given_seed = random_seed() if options.seed is None else options.seed
        seed = _seed_for(given_seed, key, index)
        given_start_ms = start_ms = system_time_ms() if options.start is None else options.start
    rate = options.rate
    if rate is None:
        rate = 1.0 if saved is None else saved["rate"]
    plan = world_config(
        seed=seed,
        start_ms=start_ms,
        spec=options.spec,
        overlays=options.overlay,
        api_key=key,
        rate=rate,
        real_clock=system_time_ms,
        control=not options.no_control,
        keep=_READABLE_ENTRIES,
        mock_unbound=options.mock_unbound,
        network=chosen_network(saved, options.network),
        given_seed=given_seed,
        given_start_ms=given_start_ms,
    )
    courier = HttpTransport(check_address=egress.check_address, check_host=egress.check_host)
    if options.durability != "always" or not store.is_durable:
        return World(plan, store, control_handlers=control_handlers, external_transport=courier, public_url=public_url)
    settled = GroupCommit(store).wait_durable
    outside = DurableTransport(courier, settled)
    return World(
        plan,
        store,
        control_handlers=control_handlers,
        external_transport=outside,
        wait_durable=settled,
        public_url=public_url,
    )


def _store(options: argparse.Namespace, key: str) -> Store:
    if options.data == ":memory:":
        return Store.memory()
    # A folder per key: each is a whole sandbox of its own, whatever keys are given next time and in what order.
    folder = Path(options.data) / hashlib.sha256(key.encode()).hexdigest()[:16]
    return Store.open(folder, policy=options.durability, group_commit=options.durability == "always")


def _seed_for(seed: int, key: str, index: int) -> int:
    """The first project's world has the given seed; further ones have seeds of their own, so that no ids repeat."""
    if index == 0:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed} {key}".encode()).digest()[:6], "big")
