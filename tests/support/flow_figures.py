"""How long a shop can go on: success by hours, with and without money that flows back; prints a table.

`python -m tests.support.flow_figures`: a shop in `scale-free:400` under ideal conditions with 60 customers a minute who
pay 8,000 sat each on average (log-normal, half of them at most 5,000).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

import pandas as pd

from leyden import Sandbox

CONDITIONS = ("", "spending=1", "swap=0.3", "background=3600", "background=3600,spending=0.5,swap=0.3")
RATE, AMOUNT = "60/min", "lognorm(5_000_000, 1)"


def success(seed: int, conditions: str, hours: int) -> pd.Series:
    """The share of payments that succeed, by the hour in which they start."""
    with Sandbox(seed=seed, network="scale-free:400", conditions=f"ideal,{conditions}".rstrip(",")) as sandbox:
        sandbox.traffic(RATE, amount=AMOUNT, duration=f"{hours}h", callbackUrl=None)
        sandbox.run(f"{hours}h")
        sandbox.run("2m")
        payments = sandbox.payments
        hour = (payments["created_at"] - pd.Timestamp(sandbox.world.config.start_ms, unit="ms", tz="UTC")).dt.floor("h")
        return payments["outcome"].eq("SUCCEEDED").groupby(hour).mean()


def table(seeds: Iterable[int], hours: int) -> Iterator[str]:
    """The lines of a table: a row for each of `CONDITIONS`, with the mean over the seeds in each hour."""
    seeds, shown = list(seeds), range(1, hours + 1)
    yield "| conditions | " + " | ".join(f"hour {hour}" for hour in shown) + " |"
    yield "|---" * (1 + hours) + "|"
    for conditions in CONDITIONS:
        runs = [success(seed, conditions, hours) for seed in seeds]
        means = [sum(run.iloc[hour - 1] for run in runs) / len(runs) for hour in shown]
        yield f"| {conditions or 'ideal alone'} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--hours", type=int, default=6)
    arguments = parser.parse_args()
    for line in table(range(arguments.seeds), arguments.hours):
        print(line, flush=True)
