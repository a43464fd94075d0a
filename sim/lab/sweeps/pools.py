"""Where the runs of a sweep are made: here, on every core of this machine, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, as_completed
from typing import Any

from leyden.lab.sweeps.runs import Row, SweepRun, perform_run, row_of

# Processes take about so long to start and import: less work than this is done sooner without them.
_WORTHWHILE_S = 2.0

NumberedRun = tuple[int, SweepRun]
OnRow = Callable[[int, Row], None]


def perform_runs(
    fn: Callable[..., Any], runs: Sequence[NumberedRun], executor: Executor | None, workers: int | None, made: OnRow
) -> None:
    """Make every run and tell `made` of each as it is done. The executor stays open."""
    if executor is not None:
        _submit_runs(fn, runs, executor, made)
        return
    if workers is not None and (type(workers) is not int or workers < 1):
        raise ValueError(f"workers={workers!r}: give a whole number from 1, or None for one on each core")
    rest = list(runs)
    several = workers != 1 and (workers or _cores()) > 1
    stays = workers is None or not several
    while rest and stays:
        number, run = rest.pop(0)
        row = perform_run(fn, run)
        made(number, row)
        stays = not several or row["wall_s"] * len(rest) < _WORTHWHILE_S
    if rest:
        _submit_runs(fn, rest, _processes(workers), made)


def _submit_runs(fn: Callable[..., Any], runs: Sequence[NumberedRun], executor: Executor, made: OnRow) -> None:
    waiting: dict[Future[Row], NumberedRun] = {}
    try:
        for number, run in runs:
            try:
                waiting[executor.submit(perform_run, fn, run)] = (number, run)
            except Exception as refused:  # a pool that broke takes no more
                made(number, _failed_row(run, refused))
        for future in as_completed(waiting):
            number, run = waiting[future]
            raised = future.exception()
            if raised is not None:
                made(number, _failed_row(run, raised))
            else:
                made(number, future.result())
    except BaseException:
        for future in waiting:
            future.cancel()
        raise


def _failed_row(run: SweepRun, raised: BaseException) -> Row:
    """The row of a run that failed not by its own error: the worker died, or could not be sent the function."""
    return row_of(run, {}, f"{type(raised).__name__}: {raised}", None)


def _cores() -> int:
    from loky import cpu_count

    return int(cpu_count())


def _processes(workers: int | None) -> Executor:
    """Processes that are kept for the next sweep. loky sends functions by value, so one from a notebook works too."""
    from loky import get_reusable_executor

    executor: Executor = get_reusable_executor(max_workers=workers or _cores(), timeout=60)
    return executor
