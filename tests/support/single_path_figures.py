"""How often payments over a single path succeed, in at most 15 tries, to receivers with 10 channels or more.

    python -m tests.support.single_path_figures [--network scale-free:6006] [--seeds 101 102 103] [--payments 200]

Payers are drawn from all nodes, receivers from those with 10 channels or more; conditions are ideal, nothing is paid at
the same time, and nobody remembers another payment. What the payer's own channels cannot send has failed, too.
"""

from __future__ import annotations

import argparse
from hashlib import sha256

import numpy as np

from leyden.lightning.engine_factory import engine_for
from leyden.lightning.payer.payment_session import SUCCEEDED, PaymentSession, PaymentSessions
from leyden.lightning.topology.graph import Graph
from leyden.world.config import read_network
from tests.support.set_receiver import finish, receive_sets

AMOUNTS_SAT = (1_000, 10_000, 100_000, 1_000_000)
TRIES, LEAST_CHANNELS = 15, 10
_PAUSE_MS = 2 * 3_600_000


def success(network: str | Graph, seed: int, amount_sat: int, payments: int) -> float:
    """The share of payments of an amount that succeed."""
    engine, _ = engine_for(network, 0, lambda name: sha256(f"{seed} {name}".encode()).digest())
    receive_sets(engine)
    sessions = PaymentSessions(engine)
    chance = np.random.default_rng(seed)
    receivers = np.flatnonzero(engine.graph.degree >= LEAST_CHANNELS)
    succeeded = 0
    for number in range(payments):
        target = int(receivers[chance.integers(len(receivers))])
        payer = int(chance.integers(len(engine.graph.names) - 1))
        session = PaymentSession(number, payer + (payer >= target), target, amount_sat * 1_000)
        session.max_parts, session.max_attempts = 1, TRIES
        sessions.start(session)
        finish(engine)
        succeeded += session.outcome == SUCCEEDED
        engine.run(engine.now + _PAUSE_MS)
    return succeeded / payments


def main() -> None:
    """Print the shares as a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="scale-free:6006")
    parser.add_argument("--conditions", default="ideal")
    parser.add_argument("--seeds", nargs="*", type=int, default=(101, 102, 103))
    parser.add_argument("--payments", type=int, default=200)
    options = parser.parse_args()
    print("| seed |", " | ".join(f"{amount:,} sat" for amount in AMOUNTS_SAT), "|")
    print("|---" * (1 + len(AMOUNTS_SAT)) + "|")
    for seed in options.seeds:
        text = f"{options.network},{options.conditions}"
        network = read_network(text, text) or text
        found = [success(network, seed, amount, options.payments) for amount in AMOUNTS_SAT]
        print(f"| {seed} |", " | ".join(f"{share:.3f}" for share in found), "|", flush=True)


if __name__ == "__main__":
    main()
