"""Builds the world of a sandbox that is created over HTTP, with the options of its server as defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from leyden.devserver.control.handlers import control_handlers
from leyden.server.callbacks.egress import EGRESS_NONE, Egress, before_attempt
from leyden.server.contract.load import is_overlay_name, load_contract
from leyden.server.contract.types import Contract
from leyden.server.errors import ContractError
from leyden.server.http.projects import KeyRow
from leyden.server.store.store import Store
from leyden.server.system.http_client.transport import HttpTransport
from leyden.world.config import WorldConfig, world_config
from leyden.world.time.process_clock import NOW
from leyden.world.world import World

if TYPE_CHECKING:
    from leyden.lightning.topology.graph import Graph

_BODY = "the body"  # its name in an error
READABLE_ENTRIES = 100_000  # of the event journal, without --keep


@dataclass(frozen=True, slots=True)
class SandboxDefaults:
    """The defaults of a created sandbox. `start_ms` is None for the real time.

    A sandbox has no other document than its server; `overlays` of the request replace those of the server, if `spec` is
    no compiled contract.
    """

    spec: str | Path | Contract | None = None
    overlays: tuple[str, ...] = ()
    start_ms: int | None = None
    rate: float = 1.0
    network: str | Graph = "direct"
    webhook_secret: str | None = None
    keep: int | None = None
    mock_unbound: bool = False
    callback_timeout_ms: int | None = None


class SandboxFactory:
    """Makes worlds in memory. `now` gives real milliseconds, `offset` how much later the system clock is, `random_seed`
    a seed for a sandbox without one, `egress` the policy of an attempt to send: the sandboxes that exist follow it,
    too."""

    def __init__(
        self,
        defaults: SandboxDefaults,
        *,
        now: Callable[[], int],
        offset: Callable[[], int] = int,
        random_seed: Callable[[], int],
        egress: Callable[[], Egress],
    ) -> None:
        self._defaults = defaults
        self._now, self._offset = now, offset
        self._random_seed = random_seed
        self._egress = egress
        # A contract takes a fifth of a second to compile. One of an overlay's file stays, whatever becomes of the file.
        self._contract = lru_cache(maxsize=16)(self._compile)

    def create(self, fields: Mapping[str, Any], *, api_key: str, start_ms: int | None, url: str) -> World:
        """The world of a request (`SandboxCreate`).

        Raises `ContractError` for an overlay that does not fit, and `ValueError` or another `LeydenError` for a network
        or a secret that cannot be.
        """
        defaults, now_ms = self._defaults, self._now() + self._offset()
        seed = fields.get("seed")
        starts_now = fields.get("start") == NOW or (start_ms is None and defaults.start_ms is None)
        if start_ms is None:
            start_ms = now_ms if defaults.start_ms is None else defaults.start_ms
        overlays: Sequence[str] = fields.get("overlays", defaults.overlays)
        is_packaged = defaults.spec is None and not defaults.mock_unbound and all(map(is_overlay_name, overlays))
        config = world_config(
            seed=self._random_seed() if seed is None else seed,
            start_ms=start_ms,
            starts_now=starts_now,
            spec=None if is_packaged else self._contract(tuple(overlays)),
            overlays=overlays,
            api_key=api_key,
            rate=fields.get("rate", defaults.rate),
            real_clock=self._now,
            clock_offset=self._offset,
            keep=defaults.keep or READABLE_ENTRIES,
            keep_ended=defaults.keep,
            mock_unbound=defaults.mock_unbound,
            network=fields.get("network", defaults.network),
            run=now_ms,
            webhook_secret=fields.get("webhookSecret", defaults.webhook_secret),
            callback_timeout_ms=defaults.callback_timeout_ms,
        )
        world = World(
            config,
            Store.memory(),
            control_handlers=control_handlers,
            external_transport=HttpTransport.following(self._egress),
            public_url=url,
            label=fields.get("name") or "sandbox",
        )
        import_route_search(world)
        return world

    def is_slow(self, fields: Mapping[str, Any]) -> bool:
        """Whether it takes long to build the world of a request: one with a network."""
        return bool(fields.get("network", self._defaults.network) != "direct")

    def copy(
        self,
        state: Mapping[str, Any],
        *,
        api_key: str,
        url: str,
        label: str | None,
        sends: bool = False,
        is_own: bool = False,
    ) -> World:
        """A world in the state that `dump_world` wrote, with a paused clock and `api_key` as its only key. Only one
        that `sends` has a transport to the network: what is due in a copy was due in its original. A state that
        `is_own` was written by this process and is not checked.

        Raises `ForkError` for what is no such state.
        """

        # Imported here: most servers copy no sandbox.
        from leyden.lab.actions.action_log import ActionLog
        from leyden.world.snapshots.snapshots import restore_world

        def adapt(config: WorldConfig) -> WorldConfig:
            return replace(
                config,
                api_key=api_key,
                real_clock=self._now,
                clock_offset=self._offset,
                run=self._now(),
                keep=self._defaults.keep or READABLE_ENTRIES,
                keep_ended=self._defaults.keep,
                callback_timeout_ms=self._defaults.callback_timeout_ms,
            )

        world = restore_world(
            state,
            control_handlers=control_handlers,
            label=label or "sandbox",
            where=_BODY,
            adapt=adapt,
            external_transport=HttpTransport.following(self._egress) if sends else None,
            note_of=partial(_copy_note, self._egress),
            public_url=url,
            is_own=is_own,
            warns=False,  # a state of another version is read as well as it can be
        )
        if not is_own:
            ActionLog.from_snapshot(state, _BODY)  # a server needs none, and `Sandbox.load` refuses a wrong one
        import_route_search(world)
        now_ms = world.clock.now()
        with world.exclusive():
            own: KeyRow = {"id": api_key, "project": world.config.project, "created_at": now_ms}
            world.service.projects.import_keys([own])
        return world

    def _compile(self, overlays: tuple[str, ...]) -> Contract:
        spec = self._defaults.spec
        if isinstance(spec, Contract):
            if overlays != spec.overlays:
                raise ContractError("this server has a document of its own, without overlays to choose: leave them out")
            return spec
        return load_contract(
            spec,
            overlays=overlays,
            mock_unbound=self._defaults.mock_unbound,
            known_as="charges.openapi.yaml",
        )


def import_route_search(world: World) -> None:
    """Import what the first payment over the world's network needs. It takes a quarter of a second, in which nobody
    would be answered."""
    if world.engine is not None:
        import_module("scipy.sparse.csgraph")


def _copy_note(egress: Callable[[], Egress], url: str) -> str:
    """The note of an attempt to send to the network from a fork or an import; `egress` is the policy of the server."""
    host = urlsplit(url).hostname or ""
    note = f"{EGRESS_NONE}: nothing is sent to {host} from a sandbox that a fork or an import made: "
    of_server = before_attempt(egress().blocked_note(url))
    if of_server:
        return f"{note}give the receiver a name below .localhost; its server sends nothing there either ({of_server})"
    return f'{note}fork or import it with the egress "server", or give the receiver a name below .localhost'
