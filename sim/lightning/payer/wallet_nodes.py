"""The nodes that wallets are on."""

from __future__ import annotations

import numpy as np

from leyden.lightning.engine.engine import Engine
from leyden.lightning.topology.placement import FUNDED_CHANNELS, FUNDED_MSAT, RANDOM


def wallet_nodes(engine: Engine, shop: int) -> list[int]:
    """The numbers of the nodes that a wallet may be on, by the condition `payers`: those with funds, or all; never the
    shop's. If no node has the funds, all but the shop's."""
    nodes = [node for node in range(len(engine.graph.names)) if node != shop]
    if engine.conditions.parameters.payers == RANDOM:
        return nodes
    edges, count = 2 * engine.initial_channels, len(engine.graph.names)
    source = engine.graph.source[:edges]
    channels = np.bincount(source, minlength=count)
    # In integers: `bincount` would add its weights as floats.
    balance_msat = np.zeros(count, dtype=np.int64)
    np.add.at(balance_msat, source, np.array(engine.initial_balance[:edges], dtype=np.int64))
    funded = (balance_msat >= FUNDED_MSAT) & (channels >= FUNDED_CHANNELS)
    return [node for node in np.flatnonzero(funded).tolist() if node != shop] or nodes
