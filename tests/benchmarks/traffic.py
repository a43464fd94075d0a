"""Simulated customers: what one lifecycle of traffic costs, how that grows with the number of Charges, its memory.

A lifecycle is a customer's arrival, its Charge, its payment and the callback to a built-in receiver.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from subprocess import run as started

from leyden import Sandbox
from tests.benchmarks.bench import Bench
from tests.benchmarks.lifecycles import signed_and_recovered
from tests.benchmarks.measuring import (
    COST,
    SIZE,
    BenchmarkError,
    Goal,
    Row,
    alone,
    compared,
    in_turn,
    seconds_each,
    settled_memory,
)

PART = "traffic"
_SLICES = 20  # of the large run; the second half of them is measured
_RATE_PER_MINUTE = 30
_ROOT = Path(__file__).parents[2]


def rows(bench: Bench) -> Iterator[Row]:
    """CPU seconds of a lifecycle beside its cryptography, at two sizes in turn; all key figures; then memory."""
    few, many = bench.scale.of(1_000, 10), bench.scale.of(100_000, 200)
    bare, of_bare = signed_and_recovered(), bench.scale.of(500, 10)
    large, minutes = shop(many), many / _RATE_PER_MINUTE / _SLICES
    charges = large.session.world.service.charges.charges
    shop(few).run()  # what is loaded on first use is loaded now
    settled_memory()

    def small_run() -> float:
        box = shop(few)
        return seconds_each(box.run, 1) / few

    def large_slice() -> float:
        before, began = len(charges), time.process_time()
        large.advance(minutes * 60)
        return (time.process_time() - began) / (len(charges) - before)

    runs = {"large": large_slice, "small": small_run, "bare": partial(seconds_each, bare, of_bare)}
    in_turn(_SLICES // 2, {"large": large_slice})
    found = in_turn(_SLICES // 2, runs)
    large.run()
    check(large, many)
    what = "lifecycle of traffic with a callback, CPU"
    yield compared(
        PART,
        f"{what}, at {few:,}, {many:,} charges",
        COST,
        [found["small"], found["large"]],
        "one signature and one key recovery",
        [found["bare"], found["bare"]],
        goal=Goal("at most", 4.5),
    )
    goal = Goal("at most", 1.1)
    beside = f"at {few:,} charges"
    yield compared(PART, f"{what}, at {many:,} charges", COST, [found["large"]], beside, [found["small"]], goal=goal)
    seconds = seconds_each(lambda: large.kpi.by("1h"), 1)
    goal = Goal("at most", 1, absolute=True)
    yield alone(PART, f"all key figures by the hour of {many:,} charges, CPU", COST, [seconds], goal=goal)
    yield from _memory(bench)


def _memory(bench: Bench) -> Iterator[Row]:
    """What a finished Charge takes in memory, and how much the memory of a run grows that spills to files."""
    kept = bench.scale.of(20_000, 10)
    few, many = bench.scale.of(10_000, 10), bench.scale.of(40_000, 20)
    each = _measured("kept", str(kept))["bytes"] / kept
    what = f"memory of each of {kept:,} finished charges of traffic, with payment, callback, journal"
    yield alone(PART, what, SIZE, [each], goal=Goal("at most", 4 << 10, absolute=True))
    peaks = _measured("spilled", str(few), str(many), str(bench.folder()))
    what, beside = f"peak memory of a run of {many:,} charges with spill", f"of {few:,} charges"
    found = [peaks[str(many)]], [peaks[str(few)]]
    yield compared(PART, what, SIZE, [found[0]], beside, [found[1]], goal=Goal("at most", 1.1))


def shop(count: int, seed: int = 1) -> Sandbox:
    """A shop to which so many customers will come. Nearly all of them pay, and each Charge sends a callback."""
    box = Sandbox(seed=seed)
    url = "http://shop.localhost/paid"
    rate, long_enough = f"{_RATE_PER_MINUTE}/min", f"{count}m"
    box.traffic(rate, duration=long_enough, count=count, amount=5_000_000, expiresIn=600, callbackUrl=url)
    return box


def check(box: Sandbox, count: int) -> None:
    """Raise `BenchmarkError` unless so many Charges have ended, with a delivered callback for each."""
    figures = box.kpi.by("1h")
    if not figures.created.sum() == figures.callbacks.sum() == count or figures.pending.sum():
        raise BenchmarkError(f"{count} customers made {figures.created.sum()} charges: the figures are wrong")


def _measured(*arguments: str) -> dict[str, float]:
    """What a process of its own measures: memory that was freed before is no part of it."""
    program = [sys.executable, "-m", "tests.benchmarks.traffic", *arguments]
    done = started(program, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"{' '.join(arguments)} failed: {done.stderr[-500:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _memory_bytes(field: str) -> int:
    """A field of this process's memory, as `VmRSS` (now) or `VmHWM` (the most so far)."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError as error:
        raise BenchmarkError(f"the memory of a process is read from /proc, which is not here ({error})") from None
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))


def _kept(count: int) -> dict[str, float]:
    shop(10).run()
    settled_memory()
    before = _memory_bytes("VmRSS")
    box = shop(count)
    box.run()
    settled_memory()
    return {"bytes": _memory_bytes("VmRSS") - before}


def _spilled(counts: list[int], folder: str) -> dict[str, float]:
    """The most memory that this process took up to the end of each run, by its number of Charges."""
    peaks: dict[str, float] = {}
    for count in counts:
        shop(count).run(spill=f"{folder}/{count}")
        peaks[str(count)] = _memory_bytes("VmHWM")
    return peaks


if __name__ == "__main__":
    command, *texts = sys.argv[1:]
    print(json.dumps(_kept(int(texts[0])) if command == "kept" else _spilled([*map(int, texts[:-1])], texts[-1])))
