"""The conditions of generated networks alone: the fees of a year, with disabled channels, and parallel channels."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leyden import Sandbox
from leyden.errors import GraphError
from leyden.lightning.engine.condition_texts import network_conditions
from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.shard import Shard
from leyden.lightning.failure_codes import FailureCode
from leyden.lightning.payer.payment_session import SUCCEEDED, PaymentSession, PaymentSessions
from leyden.lightning.routing.payer_names import PAYER_NAMES
from leyden.lightning.topology.generate import generate
from leyden.lightning.topology.import_graph import import_graph
from tests.support.deep import deep_except
from tests.support.graph_export import describegraph
from tests.support.set_receiver import finish, receive_sets

POLICIES = ("base_msat", "ppm", "cltv_delta", "htlc_min_msat", "htlc_max_msat", "disabled")
SHAPES = ("scale-free:200", "hub:40", "line:9", "star:9")


def secret(name: str) -> bytes:
    return sha256(name.encode()).digest()


@pytest.mark.parametrize("what", SHAPES)
def test_the_fees_of_2021_are_those_without_the_condition(what: str) -> None:
    assert generate(what, 3, fees="2021").dump() == generate(what, 3).dump()
    with Sandbox(seed=2, network=what) as plain, Sandbox(seed=2, network=what, conditions="fees=2021") as given:
        assert given.network.graph.dump() == plain.network.graph.dump()
        assert given.network.conditions == plain.network.conditions


@pytest.mark.parametrize("what", SHAPES)
def test_those_of_2024_change_fees_largest_htlcs_and_disabled_channels_alone(what: str) -> None:
    former, found = generate(what, 3).dump(), generate(what, 3, fees="2024").dump()
    assert {name for name in former if former[name] != found[name]} <= {"base_msat", "ppm", "htlc_max_msat", "disabled"}
    assert former["ppm"] != found["ppm"]
    assert found == generate(what, 3, fees="2024").dump()


@pytest.mark.parametrize("seed", deep_except([101, 102], 101))
def test_the_shares_are_those_of_the_sources(seed: int) -> None:
    graph = generate("scale-free:6006", seed, fees="2024")
    sat = np.repeat(graph.capacity_msat, 2) // 1_000

    def share(column: Any, least: int, most: int) -> float:
        return float(((column >= least) & (column <= most)).mean())

    bases = [(0, 0), (1, 10_000), (10_001, 100_000), (100_001, 1_000_000), (1_000_001, 10**9)]
    assert [share(graph.base_msat, *ends) for ends in bases] == pytest.approx(
        [0.412, 0.575, 0.007, 0.002, 0.004], abs=0.01
    )
    rates = [(0, 0), (1, 10), (11, 100), (101, 1_000), (1_001, 10**6)]
    assert [share(graph.ppm, *ends) for ends in rates] == pytest.approx([0.111, 0.329, 0.114, 0.325, 0.121], abs=0.01)
    medians = [float(np.median(graph.ppm[sat >= least])) for least in (10_000, 1_000_000, 10_000_000)]
    assert medians == pytest.approx([80, 175, 500], rel=0.15)
    assert np.median(graph.base_msat) == 1_000
    assert graph.disabled.mean() == pytest.approx(0.1, abs=0.01)
    limits = graph.htlc_max_msat / np.repeat(graph.capacity_msat, 2)
    assert (limits < 0.95).mean() == pytest.approx(0.25, abs=0.01)
    assert limits.min() == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("conditions", ["fees=2024", "parallel=0.2", "parallel=0.2,fees=2024"])
def test_they_are_conditions_that_are_kept_forked_saved_and_scripted(conditions: str, tmp_path: Path) -> None:
    with Sandbox(seed=4, network="scale-free:100", conditions=conditions, data=tmp_path / "data") as sandbox:
        expected = sandbox.network.graph.dump()
        assert conditions.replace(",", ", ") in sandbox.network.conditions
        assert network_conditions(sandbox.network.conditions) == network_conditions(conditions)
        sandbox.save(tmp_path / "saved.json")
        with sandbox.fork() as fork:
            assert fork.network.graph.dump() == expected
        names: dict[str, Any] = {}
        exec(sandbox.script(), names)
        assert names["sb"].network.graph.dump() == expected
    with Sandbox.load(tmp_path / "saved.json") as loaded, Sandbox(data=tmp_path / "data") as reopened:
        assert loaded.network.graph.dump() == reopened.network.graph.dump() == expected
    assert expected != generate("scale-free:100", 4).dump()


def test_a_function_of_liquidity_may_come_with_them(tmp_path: Path) -> None:
    def even(capacity_msat: Any, rng: np.random.Generator) -> Any:
        return capacity_msat // 2

    conditions = {"parallel": 0.2, "fees": "2024", "liquidity": even}
    with Sandbox(seed=4, network="scale-free:60", conditions=conditions, data=tmp_path) as sandbox:
        found = sandbox.network.graph.dump()
        assert any(found["disabled"])
        assert "parallel=0.2, fees=2024" in sandbox.network.conditions
    with Sandbox(data=tmp_path, conditions=conditions) as reopened:
        assert reopened.network.graph.dump() == found


def test_other_years_are_refused_and_so_are_graphs_that_have_their_fees() -> None:
    with pytest.raises(GraphError, match="conditions: fees='2022' is none: give 2021 or 2024"):
        Sandbox(network="star:12,fees=2022")
    with pytest.raises(GraphError, match="'fees=2024' is of generated networks, and this one has its channels"):
        Sandbox(network=generate("star:12", 1), conditions="fees=2024")


# Disabled channels


@pytest.mark.parametrize("payer", PAYER_NAMES)
def test_no_payer_uses_a_disabled_direction(payer: str) -> None:
    graph = replace(generate("scale-free:200", 9, fees="2024"), conditions="ideal")
    engine = Engine(graph, 0, secret, conditions=network_conditions(f"ideal,payer={payer}"))
    receive_sets(engine)
    payers, shards, chance = PaymentSessions(engine), [], np.random.default_rng(1)
    payers.on_attempt = shards.append
    succeeded = 0
    for number in range(40):
        payer_node, target = (int(node) for node in chance.choice(200, 2, replace=False))
        session = PaymentSession(number, payer_node, target, 20_000_000)
        session.gives_up_at = engine.now + 60_000
        payers.start(session)
        finish(engine)
        succeeded += session.outcome == SUCCEEDED
    assert succeeded > 10
    assert not any(graph.disabled[edge] for shard in shards for edge in shard.edges)
    assert not any(shard.code == FailureCode.CHANNEL_DISABLED for shard in shards)


def test_a_node_refuses_a_disabled_direction_as_of_a_file() -> None:
    """The same graph, generated and read from what LND would print of it."""
    graph = generate("line:4", 17, fees="2024")
    disabled = np.zeros(6, dtype=np.bool_)
    disabled[2] = True
    graph = replace(graph, disabled=disabled)
    read = import_graph(describegraph(graph)).graph
    assert read.disabled.tolist() == graph.disabled.tolist()
    for each in (graph, read):
        engine, returned = Engine(each, 0, secret), list[Shard]()
        engine.on_return = returned.append
        engine.send(None, 0, engine.policies.route([0, 2, 4], 1_000), engine.block_height() + 100)
        finish(engine)
        assert (returned[0].code, returned[0].reporter_hop) == (FailureCode.CHANNEL_DISABLED, 1)
