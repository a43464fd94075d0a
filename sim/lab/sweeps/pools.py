"""The execution of a sweep's runs: in this process, in a pool of processes, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, as_completed
from typing import Any

from leyden.errors import ArgumentError
from leyden.lab.sweeps.runs import SweepRow, SweepRun, perform_run, row_of
from leyden.server.printable import quoted

# The approximate start-up time of the processes: less work than this is done faster without them.
_POOL_START_S = 2.0
_MAX_WORKERS = 1_000

NumberedRun = tuple[int, SweepRun]
OnRow = Callable[[int, SweepRow], None]


def perform_runs(
    fn: Callable[..., Any], runs: Sequence[NumberedRun], executor: Executor | None, workers: int | None, on_row: OnRow
) -> None:
    """Perform all runs and call `on_row` with the number and the row of each. The executor stays open."""
    if executor is not None:
        _submit_runs(fn, runs, executor, on_row)
        return
    if workers is not None and (type(workers) is not int or not 1 <= workers <= _MAX_WORKERS):
        raise ArgumentError(
            f"workers={quoted(workers, 60)}: give a whole number from 1 to {_MAX_WORKERS}, or None for one on each core"
        )
    rest = list(runs)
    parallel = workers != 1 and (workers or _cores()) > 1
    in_process = workers is None or not parallel
    while rest and in_process:
        number, run = rest.pop(0)
        row = perform_run(fn, run)
        on_row(number, row)
        in_process = not parallel or (row["real_time_s"] or 0.0) * len(rest) < _POOL_START_S
    if rest:
        _submit_runs(fn, rest, _processes(workers), on_row)


def _submit_runs(fn: Callable[..., Any], runs: Sequence[NumberedRun], executor: Executor, on_row: OnRow) -> None:
    waiting: dict[Future[SweepRow], NumberedRun] = {}
    try:
        for number, run in runs:
            try:
                waiting[executor.submit(perform_run, fn, run)] = (number, run)
            except Exception as refused:  # a broken pool accepts no more
                on_row(number, _failed_row(run, refused))
        for future in as_completed(waiting):
            number, run = waiting[future]
            raised = future.exception()
            if raised is not None:
                on_row(number, _failed_row(run, raised))
            else:
                on_row(number, future.result())
    except BaseException:
        for future in waiting:
            future.cancel()
        raise


def _failed_row(run: SweepRun, raised: BaseException) -> SweepRow:
    """The row of a run whose worker died, or that could not be sent to a worker."""
    return row_of(run, {}, f"{type(raised).__name__}: {raised}", None)


def _cores() -> int:
    from loky import cpu_count

    return int(cpu_count())


def _processes(workers: int | None) -> Executor:
    """A pool of processes, reused by the next sweep. loky sends functions by value: those of a notebook work too."""
    from loky import get_reusable_executor

    executor: Executor = get_reusable_executor(max_workers=workers or _cores(), timeout=60)
    return executor
