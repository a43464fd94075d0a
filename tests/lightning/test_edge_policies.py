"""The policies of a graph are the same whether they continue those of a former graph or not."""

from __future__ import annotations

import pytest

from leyden import Sandbox
from leyden.lightning.engine import channel_operations
from leyden.lightning.engine.channel_operations import NewChannel, open_channel
from leyden.lightning.engine.engine import Engine
from leyden.lightning.routing.pathfinding import EdgePolicies, Router

COLUMNS = ("source", "target", "base_msat", "ppm", "cltv_delta", "htlc_min_msat", "htlc_max_msat", "disabled")


@pytest.fixture
def engine() -> Engine:
    engine = Sandbox(seed=7, network="scale-free:20").world.engine
    assert engine is not None
    return engine


def assert_as_from_the_graph(engine: Engine) -> None:
    fresh = EdgePolicies(engine.graph)
    for name in COLUMNS:
        assert getattr(engine.policies, name) == getattr(fresh, name), name
    costs, fresh_costs = engine.router.costs, Router(engine.graph, fresh).costs
    for name in ("outgoing", "incoming"):
        index, expected = getattr(costs, name), getattr(fresh_costs, name)
        for column in ("edges", "ends", "indptr", "starts"):
            assert list(getattr(index, column)) == list(getattr(expected, column)), (name, column)
    assert list(engine.capacity) == engine.graph.capacity_msat.tolist()
    assert list(engine.reserve) == engine.graph.reserve_msat.tolist()
    assert len(engine.initial_balance) == len(engine.balance) == 2 * engine.graph.channels


def test_opened_and_closed_channels_change_what_they_have_to(engine: Engine) -> None:
    first = engine.policies
    channel = open_channel(engine, NewChannel(0, 5, 1_000_000_000, 400_000_000, 7, 9))
    assert_as_from_the_graph(engine)
    opened = engine.policies
    assert (opened.base_msat[-2:], opened.ppm[-2:], opened.htlc_max_msat[-2:]) == ((7, 7), (9, 9), (10**9, 10**9))
    channel_operations.close_channel(engine, channel)
    assert_as_from_the_graph(engine)
    assert engine.policies.disabled[-2:] == (True, True)
    assert engine.policies.base_msat is opened.base_msat
    channel_operations.close_channel(engine, 0)
    for ends in ((3, 6), (6, 3), (0, 19), (19, 5), (3, 6)):
        open_channel(engine, NewChannel(*ends, 2_000_000_000, 0, 0, 0))
        assert_as_from_the_graph(engine)
    assert len(first.source) == 2 * channel


def test_a_column_that_begins_otherwise_is_read_anew(engine: Engine) -> None:
    former, graph = engine.policies, Sandbox(seed=8, network="scale-free:20").world.engine
    assert graph is not None
    for name in COLUMNS:
        assert getattr(EdgePolicies(graph.graph, former), name) == getattr(graph.policies, name), name
