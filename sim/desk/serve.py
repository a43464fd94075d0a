"""`leyden serve`: the sandbox on a port, until it is told to stop."""

from __future__ import annotations

import argparse
import hashlib
from ipaddress import ip_address
from pathlib import Path

from server.errors import LeydenError, StoreError
from server.store.store import Store
from server.system import address_of, drawn_seed, open_port, run_server, wall_ms
from server.system_courier import HttpCourier
from server.system_sync import GroupSync, SyncedCourier
from sim.desk.control import ControlPlane
from sim.desk.host import Host
from sim.plans import plan_from
from sim.world import World

DEFAULT_KEY = "leyden"
_READABLE_ENTRIES = 100_000


def serve(options: argparse.Namespace) -> int:
    """Build a world for each key and serve them. Raises `LeydenError` with one clear line when it cannot."""
    keys = options.api_key or [DEFAULT_KEY]
    for key in keys:
        if not (key.isascii() and key.isprintable() and 1 <= len(key) <= 200 and key == key.strip()):
            raise LeydenError(f"{key[:40]!r} cannot be an API key: give 1 to 200 printable ASCII characters")
    if len(set(keys)) != len(keys):
        raise LeydenError("an API key is given twice: each project needs its own")
    listener = open_port(options.host, options.port)
    url = address_of(listener)
    worlds: dict[str, World] = {}
    try:
        for index, key in enumerate(keys):
            worlds[key] = _world(options, key, index, options.public_url or url)
        host = Host(worlds, sync_by=wall_ms if options.durability == "interval" else None)
        run_server(host, listener, ready=lambda: print(f"Leyden listening on {url}", flush=True))
    finally:
        listener.close()
        for world in worlds.values():
            world.store.close()
    return 0


def _world(options: argparse.Namespace, key: str, index: int, public_url: str) -> World:
    store = _store(options, key)
    try:
        return _on(store, options, key, index, public_url)
    except BaseException:
        store.close()
        raise


def _on(store: Store, options: argparse.Namespace, key: str, index: int, public_url: str) -> World:
    saved = World.saved(store)
    if saved is not None and options.seed is not None and options.seed != saved["given_seed"]:
        raise StoreError(
            f"{options.data} was begun with --seed {saved['given_seed']}: leave --seed out, or use a new --data"
        )
    if saved is not None and options.start is not None and options.start != saved["start"]:
        raise StoreError(f"{options.data} was begun at another --start: leave --start out, or use a new --data")
    if saved is not None:
        given_seed, seed, start_ms = saved["given_seed"], saved["seed"], saved["start"]
    else:
        given_seed = drawn_seed() if options.seed is None else options.seed
        seed = _seed_for(given_seed, key, index)
        start_ms = wall_ms() if options.start is None else options.start
    rate = options.rate
    if rate is None:
        rate = 1.0 if saved is None else saved["rate"]
    plan = plan_from(
        seed=seed,
        start_ms=start_ms,
        spec=options.spec,
        overlays=options.overlay,
        api_key=key,
        rate=rate,
        wall=wall_ms,
        control=not options.no_control,
        keep=_READABLE_ENTRIES,
        mock_unbound=options.mock_unbound,
        given_seed=given_seed,
    )
    courier = HttpCourier(allow=_only_this_machine)
    if options.durability != "always" or not store.lasts:
        return World(plan, store, levers=ControlPlane, outside=courier, public_url=public_url)
    settled = GroupSync(store).settled
    outside = SyncedCourier(courier, settled)
    return World(plan, store, levers=ControlPlane, outside=outside, settled=settled, public_url=public_url)


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


def _only_this_machine(host: str, address: str, port: int) -> str | None:
    """Callbacks of a sandbox go nowhere else: the rule that forbids an address, or None."""
    return None if ip_address(address).is_loopback else "loopback-only"
