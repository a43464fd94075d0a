"""Graphs in the format of the CLoTH simulator: what is read, what is refused, and what is kept. The files are ours."""

from __future__ import annotations

import csv
import random
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leyden import Sandbox
from leyden.errors import GraphError
from leyden.lightning.graph_files import read_graph
from leyden.lightning.topology.graph import Graph
from leyden.lightning.topology.import_cloth import import_cloth
from tests.support.channel_audit import audit
from tests.support.cloth_figures import run_cloth, write_network, write_payments
from tests.support.mutations import refusal
from tests.support.payer_figures import PAUSE_MS, Paid, network_in, table_row
from tests.support.served import served_leyden

CHANNELS = """id,edge1_id,edge2_id,node1_id,node2_id,capacity(millisat)
0,0,1,10,7,500000000
1,2,3,7,12,1000000000
2,4,5,7,12,2000000000
3,6,7,90,91,1000
"""
EDGES = """id,channel_id,counter_edge_id,from_node_id,to_node_id,balance(millisat),fee_base(millisat),fee_proportional,\
min_htlc(millisat),timelock
0,0,1,10,7,400000000,1000,1,1000,144
1,0,0,7,10,100000000,0,10,1,40
2,1,3,7,12,50000000,1000,1,1000,144
3,1,2,12,7,950000000,2000,200,0,14
4,2,5,7,12,2000000000,1000,1,1000,144
5,2,4,12,7,0,1000,1,1000,144
6,3,7,90,91,500,1000,1,1000,144
7,3,6,91,90,500,1000,1,1000,144
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    return text_of(tmp_path, CHANNELS, EDGES)


def text_of(folder: Path, channels: str, edges: str) -> str:
    (folder / "channels.csv").write_text(channels)
    (folder / "edges.csv").write_text(edges)
    return f"{folder / 'channels.csv'},edges={folder / 'edges.csv'}"


def test_channels_balances_and_policies_are_read(file: str) -> None:
    graph = read_graph(f"{file},shop=12,ideal")
    assert graph.names == ["n7", "n10", "n12"]
    assert graph.shop == 2
    assert [graph.names[node] for node in graph.source] == ["n10", "n7", "n7", "n12", "n7", "n12"]
    assert graph.capacity_msat.tolist() == [500_000_000, 1_000_000_000, 2_000_000_000]
    assert graph.local_msat.tolist() == [400_000_000, 100_000_000, 50_000_000, 950_000_000, 2_000_000_000, 0]
    assert graph.base_msat.tolist() == [1_000, 0, 1_000, 2_000, 1_000, 1_000]
    assert graph.ppm.tolist() == [1, 10, 1, 200, 1, 1]
    assert graph.cltv_delta.tolist() == [144, 40, 144, 14, 144, 144]
    assert graph.htlc_min_msat.tolist() == [1_000, 1, 1_000, 0, 1_000, 1_000]
    assert graph.htlc_max_msat.tolist() == np.repeat(graph.capacity_msat, 2).tolist()
    assert not graph.disabled.any()
    assert (graph.is_drawn, graph.conditions) == (False, "ideal")
    assert graph.left_out == "1 x channel outside of the largest connected part"


def test_the_shop_is_named_by_its_number_or_its_name_or_has_the_most_channels(file: str) -> None:
    assert read_graph(f"{file},shop=n10").shop == read_graph(f"{file},shop=10").shop == 1
    with Sandbox(network=file) as sandbox:
        assert sandbox.network["shop"].name == "n7"
    with pytest.raises(GraphError, match=r"shop='n1' is none of the 3 nodes of this graph: did you mean n1"):
        read_graph(f"{file},shop=n1")


def test_the_balances_of_the_file_are_kept_unless_liquidity_is_given(file: str) -> None:
    with Sandbox(seed=1, network=f"{file},ideal") as own, Sandbox(seed=1, network=f"{file},liquidity=uniform") as drawn:
        assert own.network.graph.local_msat.tolist() == read_graph(file).local_msat.tolist()
        assert drawn.network.graph.local_msat.tolist() != read_graph(file).local_msat.tolist()


def paid(sandbox: Sandbox) -> str:
    for number in range(3):
        charge = sandbox.charges.create(amount="90000000", description="tea", expiresIn=7_200)
        sandbox.wallet(f"w{number}").pay(charge)
        sandbox.run("5m")
    audit(sandbox.world.engine)
    return sandbox.world.journal.hash


def test_a_sandbox_on_it_pays_over_parallel_channels_and_is_forked_saved_scripted_and_reopened(
    file: str, tmp_path: Path
) -> None:
    with Sandbox(seed=5, network=f"{file},shop=12,ideal", data=tmp_path / "data") as sandbox:
        first = paid(sandbox)
        assert sandbox.kpi.conversion > 0
        sandbox.save(tmp_path / "saved.json")
        script = sandbox.script()
        balances = sandbox.world.engine.balance[:]
        with sandbox.fork() as fork, Sandbox.load(tmp_path / "saved.json") as loaded:
            assert fork.world.journal.hash == loaded.world.journal.hash == first
            assert paid(fork) == paid(loaded)
    assert ",sha256=" in script
    names: dict[str, Any] = {}
    exec(script, names)
    assert names["sb"].world.journal.hash == first
    with Sandbox(data=tmp_path / "data", network=f"{file},shop=12,ideal") as reopened:
        assert reopened.world.engine.balance == balances


def test_a_server_reads_it(file: str) -> None:
    with served_leyden("--network", f"{file},shop=12") as client:
        assert client.ok("GET", "/sandbox/v1/network/nodes/shop")["name"] == "n12"


def test_a_file_that_has_changed_is_not_taken_for_the_former_one(file: str, tmp_path: Path) -> None:
    text = read_graph(file).text
    assert read_graph(text).text == text
    text_of(tmp_path, CHANNELS, EDGES.replace("2000,200,0,14", "2000,201,0,14"))
    with pytest.raises(GraphError, match=r"edges\.csv has changed since the text was written"):
        read_graph(text)


@pytest.mark.parametrize(
    ("where", "before", "after", "why"),
    [
        ("channels", CHANNELS, "", "it is empty"),
        ("channels", CHANNELS, CHANNELS.splitlines()[0], "it has no channel"),
        ("channels", "id,edge1_id", "edge1_id,id", "its first line is 'edge1_id,id"),
        ("channels", "1000000000", "1e9", "line 3: capacity is '1e9', not a whole number up to 2100000000000000000"),
        ("channels", "500000000", "-5", "line 2: capacity is '-5', not"),
        ("channels", "500000000", "9" * 30, "line 2: capacity is '9999"),
        ("channels", "500000000", "٣", "byte 69 is not ASCII"),
        ("channels", "0,0,1,10,7,500000000", "0,0,1,10,7", "line 2 has 5 values"),
        ("channels", "0,0,1,10,7", "0,0,1,7,7", "line 2: a channel joins two nodes, with more than 0 millisat"),
        ("channels", "7,500000000", "7,0", "line 2: a channel joins two nodes, with more than 0 millisat"),
        ("channels", "\n1,2", "\n0,2", "line 3: there is a channel 0 already"),
        ("channels", "1,2,3", "1,22,3", "line 3: edge1_id is 22, and there is no such edge"),
        ("channels", "7,500000000", "7,500000001", "line 2: the balances of its edges, 400000000 and 100000000"),
        ("edges", "\n1,0,0", "\n0,0,0", "line 3: there is an edge 0 already"),
        ("edges", "1,0,0,7,10", "1,0,0,7,12", "line 3: to_node_id is 12, and by channel 0 10"),
        ("edges", "1,0,0,7,10", "1,0,3,7,10", "line 3: counter_edge_id is 3, and by channel 0 0"),
        ("edges", "2000,200,0,14", "2000,200,0,65536", "line 5: timelock is '65536', not a whole number up to 65535"),
        ("edges", "2000,200,0,14", "4294967296,200,0,14", "line 5: fee_base is '4294967296', not a whole number up to"),
        ("edges", "\n7,3,6", "\n8,3,6,9,9,0,0,0,0,0\n7,3,6", "it has 9 edges, and 8 of them are of a channel"),
        ("edges", EDGES, "\0", "its first line is"),
    ],
)  # fmt: skip
def test_other_contents_are_refused_with_the_line(
    where: str, before: str, after: str, why: str, tmp_path: Path
) -> None:
    files = {"channels": CHANNELS, "edges": EDGES}
    assert before in files[where]
    files[where] = files[where].replace(before, after, 1)
    text = text_of(tmp_path, files["channels"], files["edges"])
    with pytest.raises(GraphError, match=f"{where}.csv is no list of {where} of CLoTH: {re.escape(why)}") as refused:
        Sandbox(network=text)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize(
    "text",
    ["channels.csv", "channels.csv,nodes=nodes.csv", "graph.json,edges=edges.csv", "c.csv,edges=e.csv,nodes=n.csv"],
)
def test_edges_are_of_lists_of_channels_and_nodes_of_graphs(text: str) -> None:
    with pytest.raises(GraphError, match=r"edges is of a \.csv file, and nodes of a \.json file: give [a-z]"):
        Sandbox(network=text)


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    text_of(tmp_path, CHANNELS, EDGES)
    with pytest.raises(GraphError, match=r"none\.csv does not exist: give the path of a list of edges of CLoTH file"):
        Sandbox(network=f"{tmp_path / 'channels.csv'},edges={tmp_path / 'none.csv'}")


def test_changed_bytes_are_a_graph_or_are_refused() -> None:
    rng, accepted = random.Random(3), 0
    for _ in range(400):
        files = [bytearray(CHANNELS.encode()), bytearray(EDGES.encode())]
        data = rng.choice(files)
        for _ in range(rng.choice((1, 1, 3))):
            data[rng.randrange(len(data))] = rng.choice(b"0123456789,\n-. \x00\xff")
        graphs: list[Graph] = []
        refusal(lambda: graphs.append(import_cloth(bytes(files[0]), bytes(files[1]))))  # noqa: B023
        accepted += len(graphs)
        assert all((graph.local_msat >= 0).all() for graph in graphs)
    assert accepted > 20


# Our networks for CLoTH


_CLOTH = """#!{python}
import csv, os, sys
assert sys.argv[1] == os.getcwd() + "/" and os.environ["GSL_RNG_SEED"] == "3", "the folder and the seed"
given = dict(line.split("=", 1) for line in open("cloth_input.txt").read().splitlines())
rows = list(csv.DictReader(open(given["payments_filename"])))
with open("payments_output.csv", "w") as out:
    out.write("id,sender_id,receiver_id,amount,start_time,end_time,mpp,is_success,no_balance_count,offline_node_count,"
              "timeout_exp,attempts,route,total_fee\\n")
    for row, rest in zip(rows, ["0,1,2,0,0,3,7-9,2000", "1,1,0,0,0,2,7-9,3000", "0,0,4,1,0,6,-1,", "1,0,1,0,1,3,7,5"]):
        out.write(",".join([row["id"], "1", "2", row["amount(millisat)"], row["start_time"],
                            str(int(row["start_time"]) + 450), rest]) + "\\n")
    out.write("-1,1,2,500,0,450,1,1,0,0,0,1,7,1500\\n")
"""


def test_a_network_is_written_for_cloth_as_it_is_here(tmp_path: Path) -> None:
    engine, _, _ = network_in("scale-free:60,ideal,fees=2024", 3)
    write_network(engine, tmp_path)
    read = {
        name: list(csv.reader((tmp_path / f"{name}.csv").read_text().splitlines()))
        for name in ("nodes", "channels", "edges")
    }
    assert [len(rows) - 1 for rows in read.values()] == [60, engine.graph.channels, 2 * engine.graph.channels]
    assert ",".join(read["channels"][0]) == CHANNELS.splitlines()[0]
    assert ",".join(read["edges"][0]) == EDGES.splitlines()[0]
    disabled = engine.graph.disabled.tolist()
    assert any(disabled)
    edges = [list(map(int, row)) for row in read["edges"][1:]]
    for number, channel, source, target, capacity in (
        (*map(int, (row[0], row[0], *row[3:])),) for row in read["channels"][1:]
    ):
        assert capacity == engine.graph.capacity_msat[channel]
        for edge, ends in ((2 * number, [source, target]), (2 * number + 1, [target, source])):
            assert edges[edge][:5] == [edge, number, edge ^ 1, *ends]
            assert edges[edge][5] == max(0, engine.balance[edge] - engine.reserve[channel])
            assert edges[edge][6:8] == [engine.graph.base_msat[edge], engine.graph.ppm[edge]]
            assert (edges[edge][8] > 10**15) == disabled[edge]
            assert edges[edge][9] == engine.graph.cltv_delta[edge]


def test_what_cloth_made_of_payments_is_read(tmp_path: Path) -> None:
    """Two parts that arrive, searches without a route and parts on the way: attempts are what was sent."""
    program = tmp_path / "cloth"
    program.write_text(_CLOTH.format(python=sys.executable))
    program.chmod(0o700)
    write_payments([4, 5, 6], 9, 3, 100_000, 7, tmp_path)
    rows = list(csv.DictReader((tmp_path / "payments.csv").read_text().splitlines()))
    assert {row["sender_id"] for row in rows} <= {"4", "5", "6"}
    assert {(row["receiver_id"], row["amount(millisat)"]) for row in rows} == {("9", "100000000")}
    assert [int(row["start_time"]) for row in rows] == [number * PAUSE_MS for number in range(7)]
    assert list(run_cloth(program, 3, 100_000, tmp_path)) == [
        Paid(True, 3, 20.0, 0.45),
        Paid(True, 2, 30.0, 0.45),
        Paid(False, 5, 0.0, 0.45),
        Paid(False, 1, 0.0, 0.45),
    ]
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('no file')\n")
    with pytest.raises(RuntimeError, match="CLoTH ended with 1: no file"):
        list(run_cloth(program, 3, 100_000, tmp_path))


def test_the_error_of_a_share_is_that_over_the_networks() -> None:
    """Four payments each in two networks, of which one pays all and one none: (1 - 0) / 2, and not that of eight."""
    networks = [[Paid(True, 1, 10.0, 1.0)] * 4, [Paid(False, 3, 0.0, 1.0)] * 4]
    assert table_row("lnd", 1_000, networks) == "| lnd | 1,000 | 8 | 0.50 ± 0.50 | 2.0 | 0.50 ± 0.50 | 10 | 10 | 1.0 |"
    assert "0.00 ± 0.00" in table_row("lnd", 1_000, networks[1:])
