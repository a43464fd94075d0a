"""How channels are divided between their sides: the distributions, and what keeps them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leyden import Sandbox
from leyden.errors import ActionLogError, GraphError
from leyden.lightning.topology.generate import generate
from leyden.lightning.topology.graph import Graph, from_edges
from leyden.lightning.topology.liquidity import BIMODAL, UNIFORM, balances, with_function
from tests.support.channel_audit import audit

CAPACITY = 10_000_000_000  # msat; reserves of a hundredth leave 9,800,000 sat
EDGES = [("ana", "n1", 10_000_000), ("n1", "shop", 10_000_000)]


def shares(sandbox: Sandbox) -> Any:
    graph = sandbox.network.graph
    return graph.local_msat[0::2] / graph.capacity_msat


@pytest.mark.parametrize("scale_sat", [300_000, 2_000_000, 10**9])
def test_bimodal_balances_have_the_distribution_that_lnd_assumes(scale_sat: int) -> None:
    """LND, `BimodalEstimator.primitive`: the integral of exp(-x / s) + exp((x - c) / s), normalized from 0 to c."""
    count = 200_000
    capacity = np.full(count, CAPACITY, dtype=np.int64)
    found = balances(capacity, np.random.default_rng(5).random(count), BIMODAL, scale_sat)
    reserve = CAPACITY // 100
    spendable, scale = CAPACITY - 2 * reserve, scale_sat * 1_000
    for share in (0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.95, 0.99):
        x = share * spendable
        norm = 2 - 2 * np.exp(-spendable / scale)
        expected = (1 - np.exp(-x / scale) + np.exp((x - spendable) / scale) - np.exp(-spendable / scale)) / norm
        assert np.mean(found <= reserve + x) == pytest.approx(expected, abs=0.005)
    assert found.min() >= reserve
    assert found.max() <= CAPACITY - reserve


def test_liquidity_changes_the_balances_of_a_generated_graph_and_nothing_else() -> None:
    uniform, bimodal = (generate("scale-free:200", 3, shape) for shape in (UNIFORM, BIMODAL))
    assert uniform.dump() == generate("scale-free:200", 3).dump()
    assert uniform.dump() | {"local_msat": None} == bimodal.dump() | {"local_msat": None}
    assert uniform.local_msat.tolist() != bimodal.local_msat.tolist()


def test_liquidity_is_a_condition_that_is_kept_forked_saved_and_scripted(tmp_path: Path) -> None:
    with Sandbox(seed=4, network="scale-free:100", conditions="liquidity=bimodal", data=tmp_path / "data") as sandbox:
        expected = shares(sandbox).tolist()
        assert "liquidity=bimodal, liquidity_scale=300000" in sandbox.network.conditions
        sandbox.save(tmp_path / "saved.json")
        with sandbox.fork() as fork:
            assert shares(fork).tolist() == expected
        names: dict[str, Any] = {}
        exec(sandbox.script(), names)
        assert shares(names["sandbox"] if "sandbox" in names else names["sb"]).tolist() == expected
    with Sandbox.load(tmp_path / "saved.json") as loaded, Sandbox(data=tmp_path / "data") as reopened:
        assert shares(loaded).tolist() == shares(reopened).tolist() == expected


def test_a_scale_far_above_the_capacities_is_uniform_and_one_far_below_empties_one_side() -> None:
    for scale, least, most in (("1000000000000", 0.20, 0.30), ("1", 0.49, 0.51)):
        conditions = {"liquidity": "bimodal", "liquidity_scale": scale}
        with Sandbox(seed=4, network="scale-free:1000", conditions=conditions) as sandbox:
            assert least < np.mean(abs(shares(sandbox) - 0.5)) + (0.01 if scale == "1" else 0) < most


def test_a_graph_with_balances_keeps_them_unless_liquidity_is_given() -> None:
    graph = from_edges(EDGES, shop="shop")
    with (
        Sandbox(network=graph, conditions="ideal") as own,
        Sandbox(network=graph, conditions="liquidity=uniform") as drawn,
    ):
        assert shares(own).tolist() == [0.5, 0.5]
        assert 0.5 not in shares(drawn).tolist()


def test_a_function_is_called_once_and_its_balances_are_kept(tmp_path: Path) -> None:
    calls = []

    def mostly_ours(capacity_msat: Any, rng: np.random.Generator) -> Any:
        calls.append(len(capacity_msat))
        return (capacity_msat * rng.uniform(0.6, 0.9, len(capacity_msat))).astype(np.int64)

    conditions = {"uptime": 1, "liquidity": mostly_ours}
    with Sandbox(seed=4, network="scale-free:100", conditions=conditions, data=tmp_path / "data") as sandbox:
        expected = shares(sandbox).tolist()
        assert 0.6 <= min(expected) < max(expected) <= 0.9
        assert sandbox.network.conditions.startswith("latency=120ms")
        sandbox.save(tmp_path / "saved.json")
        with pytest.raises(ActionLogError, match="liquidity by a name"):
            sandbox.script()
        with sandbox.fork() as fork:
            assert shares(fork).tolist() == expected
        charge = sandbox.charges.create(amount="1000000", description="tea")
        payment = sandbox.wallet("ana").pay(charge)
        sandbox.run("5m")
        assert payment.outcome == "SUCCEEDED"
        audit(sandbox.world.engine)
    assert len(calls) == 1
    with Sandbox.load(tmp_path / "saved.json") as loaded, Sandbox(data=tmp_path / "data") as reopened:
        assert shares(loaded).tolist() == shares(reopened).tolist() == expected
    assert len(calls) == 1
    with Sandbox(seed=4, network="scale-free:100", conditions=conditions) as again:
        assert shares(again).tolist() == expected


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        ("liquidity=lopsided", "liquidity='lopsided' is none: give uniform or bimodal"),
        ("liquidity=bimodal,liquidity_scale=0", "liquidity_scale='0' is out of bounds"),
        ({"latency": len}, "latency is a function: only liquidity may be one"),
        ({"liquidity": len, "liquidity_scale": 5}, "has no liquidity_scale"),
    ],
)
def test_other_liquidity_is_refused(conditions: Any, text: str) -> None:
    with pytest.raises(GraphError, match=text):
        Sandbox(network="star:5", conditions=conditions)


@pytest.mark.parametrize("answer", [None, [1], [0.5] * 2, [[0, 0], [0]], [-1, 0], [0, 10_000_000_001], ["a", "b"]])
def test_what_a_function_returns_is_checked(answer: Any) -> None:
    graph: Graph = from_edges(EDGES)
    with pytest.raises(GraphError, match="give 2 whole numbers of msat, from 0 to the capacity"):
        with_function(graph, np.random.default_rng(1), lambda capacity, rng: answer)
