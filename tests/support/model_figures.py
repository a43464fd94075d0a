"""How much two assumptions of the network decide: how balances lie, and what is answered for a node that is offline.

    python -m tests.support.model_figures [--nodes 1000] [--seeds 200] [--payments 2]

Payers have the default placement; with `offline_code` one node on the only way to the shop is offline.
"""

from __future__ import annotations

import argparse
from statistics import median

from leyden import Sandbox
from leyden.lightning.topology.graph import from_edges
from tests.support.payer_figures import share

AMOUNTS_SAT = (10_000, 100_000, 400_000)
START = "2030-01-01T09:00:00Z"


def row_of_liquidity(nodes: int, seeds: int, count: int, shape: str, amount_sat: int) -> str:
    """Of payments that come one after the other: first attempts and payments that succeeded, attempts, seconds."""
    attempts, seconds = [], []
    firsts, successes = list[list[bool]](), list[list[bool]]()
    for seed in range(seeds):
        with Sandbox(
            seed=seed, start=START, network=f"scale-free:{nodes}", conditions=f"ideal,liquidity={shape}"
        ) as sandbox:
            payments = []
            for number in range(count):
                charge = sandbox.charges.create(amount=str(amount_sat * 1_000), description="tea", expiresIn=86_400)
                payments.append(sandbox.wallet(f"wallet {number}").pay(charge))
                sandbox.run("3m")
            rows = [payment.row for payment in payments]
            attempts += [len(row["attempts"]) for row in rows]
            firsts.append([bool(row["attempts"]) and row["attempts"][0]["status"] == "settled" for row in rows])
            successes.append([payment.outcome == "SUCCEEDED" for payment in payments])
            for row, succeeded in zip(rows, successes[-1], strict=True):
                if succeeded:
                    assert row["resolved_at"] is not None
                    seconds.append((row["resolved_at"] - row["created_at"]) / 1_000)
    return (
        f"| {shape} | {amount_sat:,} | {share(firsts)} | {share(successes)} | "
        f"{sum(attempts) / len(attempts):.1f} | {median(seconds):.1f} |"
    )


def attempts_at_a_dead_node(conditions: str) -> int:
    """The attempts of one payment of 400,000 sat."""
    line = from_edges([("ana", "n1", 10_000_000), ("n1", "n2", 10_000_000), ("n2", "shop", 10_000_000)], shop="shop")
    with Sandbox(seed=7, start=START, network=line, conditions=conditions) as sandbox:
        sandbox.network["n2"].offline()
        charge = sandbox.charges.create(amount="400000000", description="tea", expiresIn=86_400)
        payment = sandbox.wallet("ana").pay(charge)
        sandbox.run("5m")
        return len(payment.row["attempts"])


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--payments", type=int, default=2, help="in each network")
    options = parser.parse_args()
    print("| liquidity | sat | first attempts | payments | attempts | seconds, median |\n" + "|---" * 6 + "|")
    for shape in ("uniform", "bimodal"):
        for amount_sat in AMOUNTS_SAT:
            print(row_of_liquidity(options.nodes, options.seeds, options.payments, shape, amount_sat))
    for code in ("unknown_next_peer", "temporary_channel_failure"):
        print(f"{code}: {attempts_at_a_dead_node(f'ideal,offline_code={code}')} attempts")


if __name__ == "__main__":
    main()
