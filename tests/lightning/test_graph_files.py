"""Graphs read from files of LND and Core Lightning: names, the shop, balances, and what is saved."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import GraphError, StoreError
from leyden.lightning.graph_files import read_graph
from leyden.lightning.topology.generate import generate
from leyden.lightning.topology.import_graph import import_graph
from tests.support.deep import deep
from tests.support.graph_export import describegraph, key_of, listchannels
from tests.support.served import served_leyden


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What `describegraph` prints of 40 nodes."""
    path = tmp_path_factory.mktemp("graphs") / "graph.json"
    path.write_text(json.dumps(describegraph(generate("scale-free:40", 3))))
    return str(path)


def policy(**changes: Any) -> dict[str, Any]:
    return {"time_lock_delta": 40, "min_htlc": "1", "fee_base_msat": "0", "fee_rate_milli_msat": "1", **changes}


def edges(*pairs: str) -> list[dict[str, Any]]:
    """Channels between nodes with keys of one letter, 1,000,000 sat each."""
    return [
        {"channel_id": str(number), "node1_pub": a, "node2_pub": b, "capacity": "1000000"}
        | {"node1_policy": policy(), "node2_policy": policy()}
        for number, (a, b) in enumerate(pairs)
    ]


def written(folder: Path, document: object) -> str:
    path = folder / "graph.json"
    path.write_text(json.dumps(document))
    return str(path)


def paid(sandbox: Sandbox) -> str:
    """The journal's hash after some payments, which depends on every balance that was tried."""
    for number in range(6):
        charge = sandbox.charges.create(amount="400000000", description="tea", expiresIn=7_200)
        sandbox.wallet(f"w{number}").pay(charge)
        sandbox.run("5m")
    return sandbox.world.journal.hash


def test_both_programs_give_the_same_graph(file: str, tmp_path: Path) -> None:
    channels, nodes = listchannels(generate("scale-free:40", 3))
    path = written(tmp_path, channels)
    (tmp_path / "nodes.json").write_text(json.dumps(nodes))
    of_cln = read_graph(f"{path},nodes={tmp_path / 'nodes.json'}")
    of_lnd = read_graph(file)
    assert of_cln.names == of_lnd.names
    assert of_lnd.names[:2] == ["alias 0", "alias 1"]
    for column in ("source", "target", "capacity_msat", "base_msat", "ppm", "cltv_delta", "htlc_max_msat", "disabled"):
        assert getattr(of_cln, column).tolist() == getattr(of_lnd, column).tolist(), column
    without_nodes = read_graph(path)
    assert without_nodes.names == without_nodes.keys == of_lnd.keys


def test_names_are_aliases_that_can_be_shown_and_told_apart() -> None:
    aliases = {"a": "Anna", "b": "twice", "c": "twice", "d": "shop", "e": "\x1b[2J", "f": "", "g": "h", "i": "x" * 65}
    document = {
        "edges": edges("ab", "bc", "cd", "de", "ef", "fg", "gh", "hi"),
        "nodes": [{"pub_key": key, "alias": alias} for key, alias in aliases.items()],
    }
    names = import_graph(document).graph.names
    assert names == ["Anna", "twice (b)", "twice (c)", "shop (d)", "e", "f", "g", "h", "i"]


def test_an_alias_may_be_the_same_as_a_name_made_from_another() -> None:
    nodes = [{"pub_key": key, "alias": alias} for key, alias in {"a": "x", "b": "x", "c": "x (a)"}.items()]
    assert import_graph({"edges": edges("ab", "bc"), "nodes": nodes}).graph.names == ["a", "x (b)", "c"]


def test_a_channel_that_is_listed_again_counts_once():
    once = edges("ab", "bc")
    read = import_graph({"edges": [*once, {**once[0]}]})
    assert repr(read.graph) == repr(import_graph({"edges": once}).graph)
    assert (read.channels_read, read.dropped) == (3, {"channel that is listed again": 1})


@pytest.mark.parametrize("shop", ["alias 7", key_of(7)])
def test_the_shop_is_named_by_its_alias_or_its_key(file: str, shop: str) -> None:
    with Sandbox(seed=1, network=f"{file},shop={shop},ideal") as sandbox:
        assert sandbox.network["shop"].name == "alias 7"
        assert sandbox.network[key_of(7)].name == sandbox.network["alias 7"].name == "alias 7"
        assert "stuck=0," in sandbox.network.conditions
        assert f"read from: {file},shop={shop},sha256=" in repr(sandbox.network)


def test_without_a_shop_it_is_the_node_with_the_most_channels(file: str) -> None:
    with Sandbox(seed=1, network=file) as sandbox:
        graph = sandbox.network.graph
        assert graph.degree[graph.names.index(sandbox.network["shop"].name)] == graph.degree.max()


def test_a_shop_of_several_nodes_or_of_none_is_refused() -> None:
    nodes = [{"pub_key": key, "alias": "both"} for key in "ab"]
    document = {"edges": edges("ab"), "nodes": nodes}
    with pytest.raises(GraphError, match="shop='both' is the alias of 2 nodes: give the key of one, such as a"):
        import_graph(document, shop="both")
    assert import_graph(document, shop="both (b)").graph.shop == 1
    with pytest.raises(GraphError, match=r"shop='both \(z\)' is none of the 2 nodes of this graph: did you mean both"):
        import_graph(document, shop="both (z)")


def test_only_the_largest_connected_part_is_used(tmp_path: Path) -> None:
    path = written(tmp_path, {"edges": edges("ab", "bc", "xy")})
    with Sandbox(seed=1, network=path) as sandbox:
        assert sandbox.network.graph.names == ["a", "b", "c"]
        assert "left out: 1 x channel outside of the largest connected part" in repr(sandbox.network)


def test_balances_are_drawn_with_the_seed_of_the_sandbox(file: str) -> None:
    def balances(seed: int) -> list[int]:
        with Sandbox(seed=seed, network=file) as sandbox:
            assert (sandbox.network.graph.local_msat >= 0).all()
            return sandbox.network.graph.local_msat.tolist()

    assert balances(1) == balances(1) != balances(2)


def test_forks_saved_sandboxes_and_scripts_continue_with_the_graph(file: str, tmp_path: Path) -> None:
    with Sandbox(seed=5, network=f"{file},shop=alias 3", conditions="uptime=0.9") as sandbox:
        first = paid(sandbox)
        sandbox.save(tmp_path / "saved.json")
        script = sandbox.script()
        with sandbox.fork() as fork, Sandbox.load(tmp_path / "saved.json") as loaded:
            assert fork.world.journal.hash == loaded.world.journal.hash == first
            assert paid(fork) == paid(loaded) == paid(sandbox)
            assert loaded.network["shop"].name == "alias 3"
    assert "uptime=0.9" in script
    names: dict[str, Any] = {}
    exec(script, names)
    assert names["sb"].world.journal.hash == first


def test_a_directory_keeps_the_graph(file: str, tmp_path: Path) -> None:
    moved = tmp_path / "moved.json"
    moved.write_bytes(Path(file).read_bytes())
    with Sandbox(seed=5, network=str(moved), data=tmp_path / "data") as sandbox:
        paid(sandbox)
        ended = sandbox.balances.to_csv()
    with Sandbox(data=tmp_path / "data", network=file) as again:
        assert again.balances.to_csv() == ended
    moved.unlink()
    with Sandbox(data=tmp_path / "data") as again:
        balances = again.network.graph.local_msat.tolist()
    with Sandbox(seed=5, network=file) as same:
        assert same.network.graph.local_msat.tolist() == balances
    with pytest.raises(StoreError, match="was created with network a map of 40 nodes"):
        Sandbox(data=tmp_path / "data", network=f"{file},shop=alias 3")


def test_a_file_that_has_changed_is_not_taken_for_the_former_one(tmp_path: Path) -> None:
    path = written(tmp_path, {"edges": edges("ab", "bc")})
    with Sandbox(seed=1, network=path) as sandbox:
        text = sandbox.network.graph.text
    assert read_graph(text).text == text
    written(tmp_path, {"edges": edges("ab", "bc", "cd")})
    with pytest.raises(
        GraphError, match=r"graph.json has changed since the text was written, which has sha256=\w{16}:"
    ):
        Sandbox(seed=1, network=text)
    assert len(read_graph(path).names) == 4


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "does not exist: give the path of a graph of channels file"),
        (b"{", "is no graph of channels: Expecting property name"),
        (b"[]", "is no graph of channels: .* give what LND's describegraph or Core Lightning's listchannels printed"),
        (b'{"edges": []}', "no channel of this file can be used: it is empty"),
        (b'{"edges": [], "nodes": [7]}', "/nodes/0: 7 is not of type"),
    ],
)
def test_a_file_that_is_no_graph_is_refused_with_its_name(tmp_path: Path, content: bytes | None, why: str) -> None:
    path = tmp_path / "net.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(GraphError, match=f"{re.escape(str(path))}.*{why}"):
        Sandbox(network=str(path))


def test_a_key_that_no_response_could_have_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    found = describegraph(generate("line:4", 3))
    found["edges"][0]["node1_pub"] = "\ud800"
    path.write_text(json.dumps(found))
    with pytest.raises(GraphError, match=f"{re.escape(str(path))}: the node .* half a character, a surrogate"):
        Sandbox(network=str(path))


def test_an_unknown_option_is_refused(file: str) -> None:
    with pytest.raises(GraphError, match="conditions: 'shops=x' is none"):
        Sandbox(network=f"{file},shops=x")


def test_a_server_reads_a_file_that_its_command_names_and_no_other(file: str) -> None:
    with served_leyden("--network", f"{file},shop=alias 3") as client:
        assert client.ok("GET", "/sandbox/v1/network/nodes/shop")["name"] == "alias 3"
        found = client.ok("GET", "/sandbox/v1/network/nodes?text=alias%209&limit=1")["data"][0]
        assert (found["name"], found["publicKey"]) == ("alias 9", key_of(9))
        assert client.ok("GET", f"/sandbox/v1/network/nodes/{key_of(9)}")["name"] == "alias 9"
        status, problem = client("POST", "/sandbox/v1/sandboxes", {"network": file})
        assert (status, "is not a network" in problem["detail"]) == (409, True)
        assert client.ok("POST", "/sandbox/v1/sandboxes", {})["network"] == "map"


@deep("test_forks_saved_sandboxes_and_scripts_continue_with_the_graph")
def test_a_graph_of_ten_thousand_nodes_is_read_and_used(tmp_path: Path) -> None:
    """The size of the public network in 2024; the file is generated."""
    path = written(tmp_path, describegraph(generate("scale-free:10000", 5)))
    with Sandbox(seed=1, network=f"{path},shop=alias 17") as sandbox:
        assert len(sandbox.network) == 10_000
        for number in range(20):
            sandbox.wallet(f"w{number}").pay(sandbox.charges.create(amount="10000000", description="tea"))
        sandbox.run()
        assert sandbox.kpi.conversion > 0.8
