"""Where the shop and the wallets are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import GraphError
from leyden.lightning.topology.generate import generate
from leyden.lightning.topology.graph import from_edges
from tests.lightning.test_graph_files import describegraph
from tests.support.deep import deep
from tests.support.hosted import Hosted, in_server
from tests.support.way_chances import chances

NETWORK = "scale-free:200"


def wallets(sandbox: Sandbox) -> set[int]:
    return {sandbox.world.payments.node_of(f"wallet {number}") for number in range(300)}


def test_wallets_are_on_nodes_with_funds_unless_payers_says_random() -> None:
    given = Sandbox(seed=2, network=NETWORK, conditions="payers=funded")
    with Sandbox(seed=2, network=NETWORK) as default, given as same:
        graph, funded = default.network.graph, wallets(default)
        assert funded == wallets(same)
        assert all(graph.degree[node] >= 2 for node in funded)
    with Sandbox(seed=2, network=NETWORK, conditions="payers=random") as random:
        assert len(wallets(random)) > len(funded)
        assert min(random.network.graph.degree[node] for node in wallets(random)) == 1
        assert random.world.payments.shop not in wallets(random)


def test_the_shop_is_a_random_node_the_largest_or_one_by_name() -> None:
    found = {}
    for place in ("random", "largest", "n7"):
        with Sandbox(seed=2, network=NETWORK, conditions=f"ideal,shop={place}") as sandbox:
            found[place] = sandbox.network["shop"]
            degree = sandbox.network.graph.degree
            assert f"shop={place}" in sandbox.network.conditions
            charge = sandbox.charges.create(amount="1000", description="tea")
            payment = sandbox.wallet("n7" if place != "n7" else "n8").pay(charge)
            sandbox.run("2m")
            assert payment.outcome in ("SUCCEEDED", "NO_ROUTE")
    assert degree[found["largest"].number] == degree.max()
    assert found["n7"].name == "n7"
    shops = set()
    for seed in range(20):
        with Sandbox(seed=seed, network="scale-free:50", conditions="shop=random") as sandbox:
            shops.add(sandbox.world.payments.shop)
    assert len(shops) > 10


def test_placement_is_kept_forked_saved_and_scripted(tmp_path: Path) -> None:
    placed = "shop=random,payers=random"
    with Sandbox(seed=4, network=NETWORK, conditions=placed, data=tmp_path / "data") as sandbox:
        expected = sandbox.network["shop"].name, sorted(wallets(sandbox))
        sandbox.save(tmp_path / "saved.json")
        names: dict[str, Any] = {}
        exec(sandbox.script(), names)
        with sandbox.fork() as fork:
            assert (fork.network["shop"].name, sorted(wallets(fork))) == expected
        [scripted] = [value for value in names.values() if isinstance(value, Sandbox)]
        assert (scripted.network["shop"].name, sorted(wallets(scripted))) == expected
    for copy in (Sandbox.load(tmp_path / "saved.json"), Sandbox(data=tmp_path / "data")):
        with copy:
            assert (copy.network["shop"].name, sorted(wallets(copy))) == expected


def test_a_file_and_a_graph_have_placements_too(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(describegraph(generate("scale-free:40", 3))))
    with Sandbox(seed=5, network=f"{path},shop=random,payers=random") as text:
        assert "shop=random, payers=random" in text.network.conditions
        shop = text.network["shop"].name
    with Sandbox(seed=5, network=str(path), conditions={"shop": "random", "payers": "random"}) as mapping:
        assert mapping.network["shop"].name == shop
    graph = from_edges([("ana", "hub", 10**6), ("hub", "bob", 10**6)], shop="bob")
    with Sandbox(network=graph, conditions="ideal,shop=ana") as named:
        assert named.network["shop"].name == "ana"


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        ("shop=n70", r"shop='n70' is no node of this network: did you mean n7"),
        ("shop=", "shop is empty: give random, largest or the name of a node"),
        ("payers=everywhere", "payers='everywhere' is none: give funded or random"),
    ],
)
def test_other_placements_are_refused(conditions: str, text: str) -> None:
    with pytest.raises(GraphError, match=text):
        Sandbox(network="line:9", conditions=conditions)


@deep("test_a_file_and_a_graph_have_placements_too")
def test_the_chances_that_a_payment_has_a_way_are_those_of_the_documentation() -> None:
    """Of 100,000 sat, on seeds that the documented figures were not measured with."""
    seeds = range(1_000, 1_040)
    default, between_random = (chances(1_000, seeds, place)[100_000] for place in ("", ",shop=random,payers=random"))
    assert default[0] / default[1] > 0.98
    assert 0.25 < between_random[0] / between_random[1] < 0.55


def test_a_server_has_the_sandbox_of_the_same_text_and_the_exported_file_is_that_of_python() -> None:
    text = f"{NETWORK},liquidity=bimodal,shop=random,payers=random,offline_code=temporary_channel_failure"

    async def scenario(server: Hosted) -> None:
        box = await server.ok("POST", "/sandbox/v1/sandboxes", {"network": text, "seed": 4})
        assert box["network"] == text
        world = server.world(box)
        with Sandbox(seed=4, network=text) as sandbox:
            graph = sandbox.network.graph
            assert world.engine.graph.local_msat.tolist() == graph.local_msat.tolist()
            assert world.payments.shop == sandbox.world.payments.shop
            assert [world.payments.node_of(name) for name in "abc"] == [
                sandbox.world.payments.node_of(name) for name in "abc"
            ]
        saved = await server.ok("GET", f"/sandbox/v1/sandboxes/{box['id']}/export")
        with Sandbox.from_snapshot(saved) as copy:
            assert copy.network.graph.local_msat.tolist() == world.engine.graph.local_msat.tolist()
            assert copy.world.payments.shop == world.payments.shop

    in_server(scenario)
