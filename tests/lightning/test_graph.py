"""Graphs that somebody else wrote: each is a network that payments can use, or is refused with `GraphError`."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from leyden import Sandbox
from leyden.arguments import ALL_MSAT
from leyden.errors import GraphError
from leyden.lightning.topology.generate import SHAPES, generate
from leyden.lightning.topology.graph import Graph, from_edges
from tests.support.bounded_calls import bounded_calls
from tests.support.mutations import HOSTILE, places, refusal

LINE = generate("line:4", 1).dump()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_dumped_graph_is_loaded_as_it_was(shape):
    dumped = generate(f"{shape}:20", 1).dump()
    assert Graph.load(dumped).dump() == dumped


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("shop", -1, "/shop"),
        ("shop", 4, "shop is 4"),
        ("shop", True, "/shop"),
        ("shop", "n3", "/shop"),
        ("names", ["a", "b", "c", "c"], "one name"),
        ("names", [1, 2, 3, 4], "/names"),
        ("names", ["a", "b", "c", "\ud800"], r"the node '\\ud800' has half a character, a surrogate"),
        ("keys", ["a", "b", "c", "\udfff"], "half a character, a surrogate"),
        ("source", [0], "source has 1 value for 3 channels"),
        ("source", [[0]] * 6, "/source"),
        ("source", [10**30] * 6, "/source"),
        ("source", [0, 1, 1, 2, 2, 2], "joins two"),
        ("target", [9] * 6, "joins two"),
        ("target", [1, 0, 2, 1, 3, 1], "two directions"),
        ("ppm", [-1] * 6, "/ppm"),
        ("cltv_delta", [1.0] * 6, "/cltv_delta"),
        ("disabled", [2] * 6, "/disabled"),
        ("local_msat", [2**62] * 6, "/local_msat"),
        ("local_msat", [0] * 6, "add up"),
        ("capacity_msat", [0] * 3, "add up|more than 0"),
    ],
)
def test_a_graph_that_is_no_network_is_refused(field, value, words):
    with pytest.raises(GraphError, match=words):
        Graph.load({**LINE, field: value})


@pytest.mark.parametrize("name", LINE)
def test_a_graph_without_a_column_is_refused(name):
    with pytest.raises(GraphError, match=name):
        Graph.load({key: value for key, value in LINE.items() if key != name})


def test_a_graph_without_channels_is_refused():
    with pytest.raises(GraphError, match="joins two"):
        Graph.load({key: [] if isinstance(value, list) else None for key, value in LINE.items()})


def test_a_changed_graph_is_refused_or_payments_on_it_end():
    rng = random.Random(2)
    accepted = 0
    for _ in range(200):
        saved: dict[str, Any] = deepcopy(LINE)
        container, key = rng.choice(places(saved))
        container[key] = rng.choice(HOSTILE)
        graphs: list[Graph] = []
        refusal(lambda: graphs.append(Graph.load(saved)))  # noqa: B023
        for graph in graphs:
            with bounded_calls(3_000_000):
                sandbox = Sandbox(seed=1, network=graph)
                sandbox.wallet("ana").pay(sandbox.charges.create(amount="1000", description="tea"))
                sandbox.run("10m")
            accepted += 1
    assert accepted > 5


@pytest.mark.parametrize(
    "edge",
    [
        7, (), ("a", "b"), ("a", "\ud800", 5),
        ("a", "b", "much"), ("a", "b", None), ("a", "b", float("inf")), ("a", "b", 10**40),
        {"a": "x", "b": "y", "capacity_sat": 1_000, "ppm": -1}, {"a": "x", "b": "y", "capacity_sat": 1_000, "ppm": 1.5},
        {"a": "x", "b": "y", "capacity_sat": 1_000, "ppm": [1, 2, 3]},
        {"a": "x", "b": "y", "capacity_sat": 1_000, "cltv_delta": ALL_MSAT + 1},
        {"a": "x", "b": "y", "capacity_sat": 1_000, "disabled": "no"},
        {"a": "x", "b": "y", "capacity_sat": 1_000, "a_balance_sat": []},
    ],
)  # fmt: skip
def test_a_channel_with_wrong_values_is_refused(edge):
    with pytest.raises(GraphError):
        from_edges([edge])


def test_numbers_of_numpy_are_numbers():
    graph = from_edges([{"a": "x", "b": "y", "capacity_sat": np.int64(1_000), "ppm": [np.int64(3), 4]}])
    assert graph.ppm.tolist() == [3, 4]
