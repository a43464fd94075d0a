"""Scale-free graphs beside the snapshot after which they are made: degrees, capacities, and how often payments succeed.

The parameters were fitted with the seeds 1, 2 and 3; the tests have others.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import pytest

from leyden.lightning.topology.generate import generate
from leyden.lightning.topology.graph import Graph
from tests.support.deep import deep, deep_except
from tests.support.single_path_figures import success

NODES = 6_006


def capacity_share(graph: Graph, share: float) -> float:
    """The share of the capacity that the largest nodes have, by capacity."""
    capacity = np.bincount(graph.source, np.repeat(graph.capacity_msat, 2), minlength=len(graph.names))
    largest = np.sort(capacity)[::-1]
    return float(largest[: max(1, round(share * len(largest)))].sum() / largest.sum())


@pytest.mark.parametrize("seed", deep_except([101, 102, 103], 101))
def test_degrees_and_capacities_are_those_of_the_snapshot(seed: int) -> None:
    graph = generate(f"scale-free:{NODES}", seed)
    assert graph.channels == pytest.approx(30_457, rel=0.1)
    assert np.quantile(graph.degree, [0.5, 0.75, 0.9]).tolist() == pytest.approx([2, 6, 16], abs=1)
    assert np.quantile(graph.degree, [0.99, 1]).tolist() == pytest.approx([196, 1_227], rel=0.1)
    sizes = np.quantile(graph.capacity_msat / 1_000, [0.1, 0.25, 0.5, 0.75, 0.9, 0.95])
    assert sizes.tolist() == pytest.approx([61_337, 185_349, 800_000, 3_000_000, 10_000_000, 16_777_215], rel=0.18)
    assert capacity_share(graph, 0.01) == pytest.approx(0.596, rel=0.1)
    assert capacity_share(graph, 0.1) == pytest.approx(0.917, rel=0.05)
    assert len({*zip(graph.source.tolist(), graph.target.tolist(), strict=True)}) == 2 * graph.channels


@pytest.mark.parametrize(("nodes", "largest"), [(1_001, 205), (2_500, 511), (9_000, 1_227)])
def test_the_largest_node_has_a_fifth_of_the_nodes_up_to_the_snapshot_s_number(nodes: int, largest: int) -> None:
    graph = generate(f"scale-free:{nodes}", 101)
    assert graph.degree.max() == pytest.approx(largest, abs=2)
    assert np.quantile(graph.degree, [0.5, 0.75, 0.9]).tolist() == pytest.approx([2, 6, 16], abs=1)


# As measured on the snapshot, with uniform balances: 0.99, 0.94, 0.58 and 0.25.
BANDS = {1_000: (0.97, 1.0), 10_000: (0.88, 1.0), 100_000: (0.53, 0.75), 1_000_000: (0.18, 0.34)}


@pytest.mark.parametrize("amount_sat", deep_except(list(BANDS), 100_000, 1_000_000))
def test_payments_over_one_path_succeed_as_often_as_on_the_snapshot(amount_sat: int) -> None:
    least, most = BANDS[amount_sat]
    assert least <= success(f"scale-free:{NODES},ideal", 101, amount_sat, 300) <= most


@deep("test_payments_over_one_path_succeed_as_often_as_on_the_snapshot")
def test_they_do_on_networks_of_other_seeds() -> None:
    for amount_sat, (least, most) in BANDS.items():
        shares = [success(f"scale-free:{NODES},ideal", seed, amount_sat, 200) for seed in (102, 103, 104, 105)]
        assert least <= sum(shares) / len(shares) <= most


@pytest.mark.parametrize(
    ("what", "digest"),
    [
        ("scale-free:30", "970ca1dfd8b78303"),
        ("scale-free:1000", "7a717943036f93a8"),
        ("hub:50", "20c335cb4daf572e"),
        ("star:12", "5bcfb863e72e8f36"),
    ],
)
def test_graphs_of_at_most_a_thousand_nodes_stay_as_they_were(what: str, digest: str) -> None:
    graph = generate(what, 7)
    columns = (graph.source, graph.target, graph.capacity_msat, graph.base_msat, graph.ppm, graph.cltv_delta,
               graph.htlc_min_msat, graph.htlc_max_msat, graph.local_msat)  # fmt: skip
    assert sha256(b"".join(column.tobytes() for column in columns)).hexdigest()[:16] == digest
