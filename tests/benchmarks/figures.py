"""Key figures of many Charges: all of them by the hour, and how their cost grows with the number of Charges."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from leyden import Sandbox
from tests.benchmarks.bench import Bench
from tests.benchmarks.measuring import COST, Goal, Row, compared, in_turn, seconds_each, settled_memory
from tests.benchmarks.traffic import check, shop

PART = "figures"


def rows(bench: Bench) -> Iterator[Row]:
    """CPU seconds of `kpi.by("1h")` beside the same for a quarter of the Charges, and beside one table as a frame."""
    many = bench.scale.of(20_000, 40)
    large, small = _shop(many), _shop(many // 4)
    settled_memory()
    runs: dict[str, Callable[[], object]] = {
        "large": lambda: large.kpi.by("1h"),
        "small": lambda: small.kpi.by("1h"),
        "frame": lambda: large.charges.table,
    }
    for run in runs.values():
        run()
    found = in_turn(
        2 * bench.scale.repeats,
        {name: partial(seconds_each, run, 1, time.process_time) for name, run in runs.items()},
    )
    text = f"all key figures by the hour, {many:,} charges, CPU"
    goal = Goal("at most", 4.4)
    yield compared(PART, text, COST, [found["large"]], f"of {many // 4:,} charges", [found["small"]], goal=goal)
    yield compared(PART, text, COST, [found["large"]], "the table of the charges as a DataFrame", [found["frame"]])


def _shop(count: int) -> Sandbox:
    box = shop(count)
    box.run()
    check(box, count)
    return box
