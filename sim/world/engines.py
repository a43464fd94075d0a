"""The engine of a world's network: built for it, prepared before it, or that of the world that it is a fork of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from leyden.errors import GraphError, StoreError
from leyden.extras import require
from leyden.lightning.payer.payments import Payments
from leyden.rng import RandomStreams
from leyden.server.store.store import Store
from leyden.world.config import WorldConfig
from leyden.world.persistence.directory_checks import MEND
from leyden.world.persistence.world_state import WorldState

if TYPE_CHECKING:  # it needs the extra `network`
    from leyden.lightning.engine.engine import Engine


class PreparedEngine(NamedTuple):
    """An engine for a network that nothing has happened in, and the number of the shop's node. One world takes it."""

    config: WorldConfig
    engine: Engine
    shop: int

    def is_for(self, config: WorldConfig) -> bool:
        """Whether a world of this configuration has this engine."""
        mine = self.config
        is_same_run = (mine.seed, mine.start_ms) == (config.seed, config.start_ms)
        return is_same_run and mine.network is config.network


def prepared_engine(config: WorldConfig) -> PreparedEngine | None:
    """The engine of a world of this configuration, built before the world: it takes long for a large network, and it
    may be done in a thread. None for direct payments. Raises `GraphError`."""
    if config.network == "direct":
        return None
    from leyden.lightning.engine_factory import engine_for

    engine, shop = engine_for(config.network, config.start_ms, RandomStreams(config.seed).secret)
    return PreparedEngine(config, engine, shop)


def engine_of(
    config: WorldConfig,
    store: Store,
    streams: RandomStreams,
    fork_of: Payments | None,
    prepared: PreparedEngine | None,
) -> tuple[Engine | None, int]:
    """The engine of the configured network and the shop's node; none for direct payments, which need no numpy."""
    if config.network == "direct":
        return None, 0
    require(f"network={config.network!r}", "scipy", "network")
    from leyden.lightning.engine_factory import engine_for, forked_engine
    from leyden.world.persistence.network_state import check_map

    if fork_of is not None:
        return forked_engine(fork_of)
    saved = WorldState.saved(store)
    try:
        if prepared is not None and prepared.is_for(config):
            engine, shop = prepared.engine, prepared.shop
        else:
            engine, shop = engine_for(config.network, config.start_ms, streams.secret)
    except GraphError as error:
        raise error if saved is None else StoreError(f"{error}; {MEND}") from None
    if saved is not None and "map_fingerprint" in saved:
        check_map(engine.graph, saved["map_fingerprint"])
    return engine, shop
