"""What payers as in LND, LDK and Core Lightning make of the same networks, beside this simulation's own.

    python -m tests.support.payer_figures [--nodes 1000] [--seeds 10] [--payments 10] [--conditions ideal]
    python -m tests.support.payer_figures --network channels.csv,edges=edges.csv [--conditions ideal,liquidity=uniform]

In each network wallets of the default placement pay the shop's node an amount, one after the other, three minutes
apart. The networks, the wallets and the latencies are the same for all payers. A row whose time is up has fewer
payments than the others. In a network of files the shop's node has 10 to 50 channels, too, another for each seed.

After a share stands its standard error. It is that of the mean over networks, because the payments in one network have
much in common: many networks with few payments say more than the opposite.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from statistics import fmean, median, stdev
from typing import NamedTuple

import numpy as np

from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine_factory import engine_for
from leyden.lightning.payer.payment_session import SUCCEEDED, PaymentSession, PaymentSessions
from leyden.lightning.payer.wallet_nodes import wallet_nodes
from leyden.lightning.routing.payer_names import PAYER_NAMES
from leyden.lightning.topology.graph import Graph
from leyden.world.config import read_network
from tests.support.set_receiver import fail_incomplete_sets, receive_sets

AMOUNTS_SAT = (10_000, 100_000, 1_000_000)
START_MS = 1_893_488_400_000  # 2030-01-01 09:00 UTC
PAUSE_MS, PATIENCE_MS = 180_000, 60_000
HEADER = (
    "| payer | sat | payments | success | attempts | success at once | ppm, median | ppm, mean | s, median |\n"
    + "|---" * 9
    + "|"
)


class Paid(NamedTuple):
    """One payment: whether it succeeded, its attempts, its fees (millionths of the amount) and its time."""

    succeeded: bool
    attempts: int
    fee_ppm: float
    seconds: float


def network_of(text: str, seed: int) -> str | Graph:
    """The network of a text; that of files with another shop for each seed."""
    graph = read_network(text, text)
    if isinstance(graph, str) or graph is None:
        return text
    fit = np.flatnonzero((graph.degree >= 10) & (graph.degree <= 50))
    return replace(graph, shop=int(fit[np.random.default_rng(seed).integers(len(fit))]))


def network_in(text: str, seed: int) -> tuple[Engine, int, Sequence[int]]:
    """The network of a text with a seed: its engine, the shop's node and those on which wallets may be."""
    network = network_of(text, seed)
    engine, shop = engine_for(network, START_MS, lambda name: sha256(f"{seed} {name}".encode()).digest())
    return engine, shop, wallet_nodes(engine, shop)


def payer_of(wallets: Sequence[int], seed: int, number: int) -> int:
    """The node that makes a payment."""
    return wallets[int.from_bytes(sha256(f"{seed} {number}".encode()).digest()[:8], "big") % len(wallets)]


def payments_of(network: str, seed: int, amount_sat: int, count: int) -> Iterator[Paid]:
    """Payments in one network, by wallets of different nodes."""
    engine, shop, wallets = network_in(network, seed)
    receive_sets(engine)
    sessions = PaymentSessions(engine, reuse_hints=False)
    ended: dict[int, int] = {}
    sessions.on_end = lambda session: ended.update({session.id: engine.now})
    for number in range(count):
        start_ms = START_MS + number * PAUSE_MS
        engine.run(start_ms)
        session = PaymentSession(number, payer_of(wallets, seed, number), shop, amount_sat * 1_000)
        session.gives_up_at = start_ms + PATIENCE_MS
        sessions.start(session)
        while session.outcome is None and (due := engine.next_event_ms()) is not None:
            engine.run(min(due, start_ms + PATIENCE_MS))
            if due > start_ms + PATIENCE_MS:
                sessions.give_up(session)
                break
        while session.outcome is None and engine.next_event_ms() is None and fail_incomplete_sets(engine):
            engine.run(engine.next_event_ms() or engine.now)
        engine.run(start_ms + PAUSE_MS - 1)
        yield Paid(
            session.outcome == SUCCEEDED,
            session.attempt_count,
            session.fees_msat * 1_000 / amount_sat,
            (ended.get(number, engine.now) - start_ms) / 1_000,
        )


def row_of(payer: str, network: str, seeds: int, count: int, amount_sat: int, until: float) -> str:
    """One row of the table; no network is started after the instant `until` of the process's clock."""
    networks: list[list[Paid]] = []
    for seed in range(seeds):
        if networks and time.monotonic() > until:
            break
        networks.append(list(payments_of(f"{network},payer={payer}", seed, amount_sat, count)))
    return table_row(payer, amount_sat, networks)


def share(networks: Sequence[Sequence[bool]]) -> str:
    """The share of the payments that count, with the standard error over the networks, which have equal numbers."""
    shares = [fmean(counts) for counts in networks]
    error = stdev(shares) / len(shares) ** 0.5 if len(shares) > 1 else 0.0
    return f"{fmean(shares):.2f} ± {error:.2f}"


def table_row(payer: str, amount_sat: int, networks: Sequence[Sequence[Paid]]) -> str:
    """What `HEADER` names."""
    paid = [each for one in networks for each in one]
    good = [each for each in paid if each.succeeded]
    return (
        f"| {payer} | {amount_sat:,} | {len(paid)} | {share([[each.succeeded for each in one] for one in networks])} | "
        f"{sum(each.attempts for each in paid) / len(paid):.1f} | "
        f"{share([[each.succeeded and each.attempts == 1 for each in one] for one in networks])} | "
        f"{median([each.fee_ppm for each in good] or [0]):.0f} | "
        f"{sum(each.fee_ppm for each in good) / max(1, len(good)):.0f} | "
        f"{median([each.seconds for each in good] or [0]):.1f} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--network", help="instead of scale-free with this many nodes")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--payments", type=int, default=10, help="in each network")
    parser.add_argument("--conditions", default="ideal")
    parser.add_argument("--amounts", nargs="*", type=int, default=AMOUNTS_SAT, metavar="SAT")
    parser.add_argument("--seconds", type=float, default=600, help="the most that the whole table may take")
    parser.add_argument("--payers", nargs="*", default=PAYER_NAMES, choices=PAYER_NAMES)
    options = parser.parse_args()
    print(HEADER)
    rows = [(payer, amount) for amount in options.amounts for payer in options.payers]
    start = time.monotonic()
    network = f"{options.network or f'scale-free:{options.nodes}'},{options.conditions}"
    for number, (payer, amount_sat) in enumerate(rows, 1):
        until = start + options.seconds * number / len(rows)
        print(row_of(payer, network, options.seeds, options.payments, amount_sat, until), flush=True)


if __name__ == "__main__":
    main()
