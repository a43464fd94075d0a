"""The chance that a payment has a way, by where the shop and the payers are.

    python -m tests.support.way_chances [--nodes 1000] [--seeds 50] [--conditions liquidity=bimodal]

A payment has a way if its amount can flow from the payer's node to the shop's over the balances at the start, in any
number of parts (the maximum flow, without fees and limits of HTLCs): an upper bound for every payer.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

import numpy as np
from scipy.sparse import coo_array, csr_array  # type: ignore[import-untyped]
from scipy.sparse.csgraph import maximum_flow  # type: ignore[import-untyped]

from leyden import Sandbox
from leyden.lightning.payer.routed_payments import RoutedPayments

PLACES = {
    "as by default": "",
    "payers=random": ",payers=random",
    "shop=random": ",shop=random",
    "shop=random,payers=random": ",shop=random,payers=random",
    "shop=largest": ",shop=largest",
}
AMOUNTS_SAT = (1_000, 10_000, 100_000, 1_000_000)
PAYERS = 20


def largest_flows(nodes: int, seed: int, conditions: str) -> Iterator[int]:
    """The most (sat) that each of some wallets can send to the shop."""
    with Sandbox(seed=seed, network=f"scale-free:{nodes}", conditions=f"ideal{conditions}") as sandbox:
        payments, graph = sandbox.world.payments, sandbox.network.graph
        assert isinstance(payments, RoutedPayments)
        spendable = np.maximum(graph.local_msat - np.repeat(graph.reserve_msat, 2), 0) // 1_000
        spendable = np.minimum(spendable, 2**31 - 1).astype(np.int32)
        size = len(graph.names)
        ends = graph.source.astype(np.int32), graph.target.astype(np.int32)
        flow = csr_array(coo_array((spendable, ends), shape=(size, size)))
        for number in range(PAYERS):
            payer = payments.node_of(f"wallet {number}")
            yield int(maximum_flow(flow, payer, payments.shop).flow_value)


def chances(nodes: int, seeds: Iterable[int], conditions: str) -> dict[int, tuple[int, int]]:
    """By amount (sat): how many payments have a way, of how many."""
    flows = [flow for seed in seeds for flow in largest_flows(nodes, seed, conditions)]
    return {amount: (sum(flow >= amount for flow in flows), len(flows)) for amount in AMOUNTS_SAT}


def main() -> None:
    """Print the chances as a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--conditions", default="")
    options = parser.parse_args()
    further = options.conditions and f",{options.conditions}"
    print("| placement |", " | ".join(f"{amount:,} sat" for amount in AMOUNTS_SAT), "|")
    print("|---" * (1 + len(AMOUNTS_SAT)) + "|")
    for place, conditions in PLACES.items():
        found = chances(options.nodes, range(options.seeds), conditions + further)
        print(f"| {place} |", " | ".join(f"{ways / of:.3f}" for ways, of in found.values()), "|")


if __name__ == "__main__":
    main()
