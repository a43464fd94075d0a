"""What the simulator CLoTH makes of the payments and the networks of `payer_figures`.

    python -m tests.support.cloth_figures PROGRAM [--nodes 1000] [--network TEXT] [--conditions ideal] [--seeds 10]
        [--payments 10]

PROGRAM is the `cloth` that `make build` makes of github.com/marcono/cloth (C, with the GNU Scientific Library). For
each network its input files are written: the same channels, policies and balances, the same wallets, shop, amounts and
times. CLoTH knows neither channel reserves nor largest HTLCs nor disabled edges: of each balance the reserve is left
out, and the least HTLC of a disabled edge is more than any amount.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from leyden.arguments import ALL_MSAT
from leyden.lightning.engine.engine import Engine
from tests.support.payer_figures import (
    AMOUNTS_SAT,
    HEADER,
    PAUSE_MS,
    Paid,
    network_in,
    payer_of,
    table_row,
)

_INPUT = {
    "generate_network_from_file": "true", "nodes_filename": "nodes.csv", "channels_filename": "channels.csv",
    "edges_filename": "edges.csv", "n_additional_nodes": "", "n_channels_per_node": "", "capacity_per_channel": "",
    "faulty_node_probability": "0.0", "generate_payments_from_file": "true", "payments_filename": "payments.csv",
    "payment_rate": "", "n_payments": "", "average_payment_amount": "", "mpp": "1",
}  # fmt: skip
_CHANNEL = ("id", "edge1_id", "edge2_id", "node1_id", "node2_id", "capacity(millisat)")
_EDGE = (
    "id", "channel_id", "counter_edge_id", "from_node_id", "to_node_id", "balance(millisat)", "fee_base(millisat)",
    "fee_proportional", "min_htlc(millisat)", "timelock",
)  # fmt: skip
_PAYMENT = ("id", "sender_id", "receiver_id", "amount(millisat)", "start_time")
_SECONDS = 3_600.0  # the most that one run may take


def write_network(engine: Engine, folder: Path) -> None:
    """Write the files of a network."""
    graph, policies = engine.graph, engine.policies
    ends = list(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    _write(folder / "nodes.csv", ("id",), [(number,) for number in range(len(graph.names))])
    _write(
        folder / "channels.csv",
        _CHANNEL,
        [
            (channel, 2 * channel, 2 * channel + 1, *ends[2 * channel], capacity)
            for channel, capacity in enumerate(graph.capacity_msat.tolist())
        ],
    )
    _write(
        folder / "edges.csv",
        _EDGE,
        [
            (
                edge, edge // 2, edge ^ 1, *both, max(0, engine.balance[edge] - engine.reserve[edge // 2]),
                policies.base_msat[edge], policies.ppm[edge],
                ALL_MSAT if graph.disabled[edge] else policies.htlc_min_msat[edge], policies.cltv_delta[edge],
            )
            for edge, both in enumerate(ends)
        ],
    )  # fmt: skip


def write_payments(wallets: Sequence[int], shop: int, seed: int, amount_sat: int, count: int, folder: Path) -> None:
    """Write the payments of one network, and the list of the files."""
    rows = [
        (number, payer_of(wallets, seed, number), shop, amount_sat * 1_000, number * PAUSE_MS)
        for number in range(count)
    ]
    _write(folder / "payments.csv", _PAYMENT, rows)
    (folder / "cloth_input.txt").write_text("".join(f"{name}={value}\n" for name, value in _INPUT.items()))


def run_cloth(program: Path, seed: int, amount_sat: int, folder: Path) -> Iterator[Paid]:
    """Run CLoTH in the folder with its input files. A payment in two parts succeeds when both do."""
    command = [str(program.absolute()), f"{folder}/"]
    done = subprocess.run(
        command, cwd=folder, env={"GSL_RNG_SEED": str(seed)}, capture_output=True, timeout=_SECONDS, check=False
    )
    if done.returncode:
        raise RuntimeError(f"CLoTH ended with {done.returncode}: {done.stderr.decode()[-300:]}")
    with (folder / "payments_output.csv").open(newline="") as file:
        rows = [{name: value or "" for name, value in row.items()} for row in csv.DictReader(file)]
    for row in rows:
        if row["id"] != "-1":  # a part is counted with its payment
            yield _paid(row, amount_sat)


def _paid(row: dict[str, str], amount_sat: int) -> Paid:
    """Its attempts are the parts that failed on the way, and those that arrived. CLoTH counts searches instead, also
    the last one that finds no route."""
    succeeded, failed = row["is_success"] == "1", int(row["no_balance_count"]) + int(row["offline_node_count"])
    arrived = (2 if row["mpp"] == "1" else 1) if succeeded else 0
    fee_msat = int(row["total_fee"] or 0) if succeeded else 0
    seconds = (int(row["end_time"]) - int(row["start_time"])) / 1_000
    return Paid(succeeded, failed + arrived, fee_msat * 1_000 / amount_sat, seconds)


def _write(file: Path, header: Sequence[str], rows: Iterable[Sequence[int]]) -> None:
    with file.open("w", newline="") as written:
        writer = csv.writer(written, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def main() -> None:
    """Print the table, a row for each amount."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--network", help="instead of scale-free with this many nodes")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--payments", type=int, default=10, help="in each network")
    parser.add_argument("--conditions", default="ideal")
    parser.add_argument("--amounts", nargs="*", type=int, default=AMOUNTS_SAT, metavar="SAT")
    options = parser.parse_args()
    network = f"{options.network or f'scale-free:{options.nodes}'},{options.conditions}"
    found: dict[int, list[list[Paid]]] = {amount: [] for amount in options.amounts}
    for seed in range(options.seeds):
        engine, shop, wallets = network_in(network, seed)
        with TemporaryDirectory() as name:
            write_network(engine, Path(name))
            for amount_sat, networks in found.items():
                write_payments(wallets, shop, seed, amount_sat, options.payments, Path(name))
                networks.append(list(run_cloth(options.program, seed, amount_sat, Path(name))))
    print(HEADER)
    for amount_sat, networks in found.items():
        print(table_row("cloth", amount_sat, networks))


if __name__ == "__main__":
    main()
