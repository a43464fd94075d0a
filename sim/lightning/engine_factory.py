"""Engines from a configuration: from a network's description (`scale-free:400`) or a graph, or from another engine."""

from __future__ import annotations

from collections.abc import Callable

from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.network_conditions import NetworkConditions
from leyden.lightning.payer.network_snapshot import fork_engine
from leyden.lightning.payer.payments import Payments
from leyden.lightning.payer.routed_payments import RoutedPayments
from leyden.lightning.topology.generate import generate
from leyden.lightning.topology.graph import Graph


def engine_for(network: str | Graph, start_ms: int, secret: Callable[[str], bytes]) -> tuple[Engine, int]:
    """The engine for a network and the number of the shop's node. Raises `GraphError` for an invalid network."""
    graph = network
    if isinstance(graph, str):
        graph = generate(graph, int.from_bytes(secret("graph"), "big"))
    shop = int(graph.degree.argmax()) if graph.shop is None else graph.shop
    return Engine(graph, start_ms, secret, conditions=NetworkConditions(), trace=True), shop


def forked_engine(payments: Payments) -> tuple[Engine, int]:
    """The same for a fork of the world that has these payments."""
    assert isinstance(payments, RoutedPayments)
    return fork_engine(payments.engine), payments.shop
