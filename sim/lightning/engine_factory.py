"""Engines from a configuration: from a network's description or a graph, or from another engine.

A description is a shape with the number of nodes, then the conditions: `scale-free:400`, `hub:50,ideal`,
`star:12,uptime=0.9,outage=2h`. A graph from a file has balances that are drawn for the sandbox.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from leyden.errors import GraphError
from leyden.lightning.engine.condition_texts import (
    ConditionOptions,
    check_for_graph,
    condition_text,
    liquidity_function,
    network_conditions,
)
from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.network_conditions import NetworkConditions
from leyden.lightning.payer.network_snapshot import fork_engine
from leyden.lightning.payer.payments import Payments
from leyden.lightning.payer.routed_payments import RoutedPayments
from leyden.lightning.topology.generate import generate
from leyden.lightning.topology.graph import Graph
from leyden.lightning.topology.liquidity import UNIFORM, with_function, with_liquidity
from leyden.lightning.topology.placement import shop_of
from leyden.lightning.topology.policies import FEES_2021

# The garbage collector examines each number of a new tuple once. Of a network of this many channels that is done when
# it is built, which may be in a thread: later it would be done for several networks in one piece.
_EXAMINED_AT_ONCE = 20_000


def engine_for(network: str | Graph, start_ms: int, secret: Callable[[str], bytes]) -> tuple[Engine, int]:
    """The engine for a network and the number of the shop's node. Raises `GraphError` for an invalid network."""
    seed = int.from_bytes(secret("graph"), "big")
    if isinstance(network, str):
        what, _, options = network.partition(",")
        conditions = network_conditions(options)
        graph = _generated(what, seed, conditions, conditions.liquidity or UNIFORM)
    else:
        conditions = network_conditions(network.conditions)
        rng = np.random.default_rng(seed)
        graph = with_liquidity(network, rng, conditions.liquidity, conditions.liquidity_scale_sat)
    if conditions.background_per_hour and len(graph.names) < 3:
        raise GraphError("conditions: background needs two nodes besides the shop's: give a larger network")
    shop = shop_of(graph, conditions.shop, secret)
    engine = Engine(graph, start_ms, secret, conditions=conditions, shop=shop, trace=True)
    if graph.channels >= _EXAMINED_AT_ONCE:
        gc.collect(1)
    return engine, shop


def _generated(what: str, seed: int, conditions: NetworkConditions, liquidity: str) -> Graph:
    return generate(
        what,
        seed,
        liquidity,
        conditions.liquidity_scale_sat,
        parallel_share=conditions.parallel_share,
        fees=conditions.fees or FEES_2021,
    )


def with_conditions(network: str | Graph | None, options: ConditionOptions) -> str | Graph:
    """A network in these conditions, instead of those that it names. Raises `GraphError`, also for payments that are
    direct."""
    text = condition_text(options)
    if network is None or network == "direct":
        raise GraphError(f"conditions={options!r:.60} needs a network: give network='scale-free:400', or leave it out")
    if isinstance(network, str):
        return f"{network.partition(',')[0]},{text}"
    check_for_graph(text, network.conditions)
    return replace(network, conditions=text)


def with_liquidity_function(
    network: str | Graph | None, options: ConditionOptions, secret: Callable[[str], bytes]
) -> str | Graph | None:
    """The network with the balances of the function in `options`, evaluated for a world with these streams: a graph, of
    which no text is known any more. Without a function, the network itself. Raises `GraphError`."""
    function = liquidity_function(options)
    if function is None or network is None:
        return network
    if isinstance(network, str):
        what, _, conditions = network.partition(",")
        seed = int.from_bytes(secret("graph"), "big")
        network = replace(_generated(what, seed, network_conditions(conditions), UNIFORM), conditions=conditions)
    return with_function(network, np.random.default_rng(int.from_bytes(secret("liquidity"), "big")), function)


def forked_engine(payments: Payments) -> tuple[Engine, int]:
    """The same for a fork of the world that has these payments."""
    assert isinstance(payments, RoutedPayments)
    return fork_engine(payments.engine), payments.shop
