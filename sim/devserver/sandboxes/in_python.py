"""The sandboxes that the server of a `Sandbox` creates over HTTP: by default as that sandbox was at its start."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from leyden.devserver.sandboxes.admin_access import AdminAccess
from leyden.devserver.sandboxes.factory import SandboxDefaults, SandboxFactory
from leyden.devserver.sandboxes.routing import ID_PREFIX
from leyden.devserver.sandboxes.server_control import SandboxSettings
from leyden.rng import derived_seed
from leyden.server.callbacks.egress import Egress
from leyden.server.system.clock import random_id, random_key, system_time_ms
from leyden.world.config import is_packaged
from leyden.world.world import World


def sandboxes_beside(world: World, url: str, egress: Callable[[], Egress]) -> SandboxSettings:
    """How a server at this URL creates sandboxes beside the world of a `Sandbox`. Their clocks are paused, and their
    seeds are derived from that of the world, so that each run has the same ids. No token is needed. Each attempt to
    send is checked by the policy that `egress` returns then."""
    config = world.config
    contract, numbers = config.contract, count(1)
    defaults = SandboxDefaults(
        spec=None if is_packaged(contract) else contract,
        overlays=contract.overlays,
        start_ms=config.start_ms,
        rate=0,
        network=config.network,
        webhook_secret=config.webhook_secret,
        keep=config.keep_ended,
        mock_unbound=config.mock_unbound,
        callback_timeout_ms=config.callback_timeout_ms,
    )
    return SandboxSettings(
        factory=SandboxFactory(
            defaults,
            now=system_time_ms,
            random_seed=lambda: derived_seed(config.seed, f"sandbox {next(numbers)}"),
            egress=egress,
        ),
        access=AdminAccess(None),
        new_id=lambda: random_id(ID_PREFIX),
        new_key=random_key,
        now_ms=system_time_ms,
        server_url=url,
    )
