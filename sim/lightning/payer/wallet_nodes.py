"""The nodes that wallets are on."""

from __future__ import annotations

from leyden.lightning.engine.engine import Engine
from leyden.lightning.topology.placement import FUNDED_CHANNELS, FUNDED_MSAT, RANDOM


def wallet_nodes(engine: Engine, shop: int) -> list[int]:
    """The numbers of the nodes that a wallet may be on, by the condition `payers`: those with funds, or all; never the
    shop's. If no node has the funds, all but the shop's."""
    nodes = [node for node in range(len(engine.graph.names)) if node != shop]
    if engine.conditions.parameters.payers == RANDOM:
        return nodes
    balance_msat, channels = [0] * len(engine.graph.names), [0] * len(engine.graph.names)
    for edge in range(2 * engine.initial_channels):
        balance_msat[engine.policies.source[edge]] += engine.initial_balance[edge]
        channels[engine.policies.source[edge]] += 1
    return [node for node in nodes if balance_msat[node] >= FUNDED_MSAT and channels[node] >= FUNDED_CHANNELS] or nodes
