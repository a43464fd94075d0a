"""A campaign in several processes of this machine. An interrupt ends them, and keeps what each has found; so does the
first violation, if it ends the campaign."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from leyden.harness.engines import workers
from leyden.harness.engines.campaign import require_packages
from leyden.harness.engines.results import CampaignConfig
from leyden.harness.reports.results import CampaignReport
from leyden.server.system.stop_signals import is_stopping, stop_signals_blocked, stop_signals_ignored

_POLL_S = 0.2


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_in_processes(
    parts: Sequence[CampaignConfig], progress: Callable[[Sequence[int]], None] = lambda counts: None
) -> CampaignReport:
    """Run each part in a process of its own, and merge the reports. `progress` gets the numbers of runs, steps and
    violations of all of them from time to time.

    A part that ends with a violation ends the others if its `stop_early` is set. Raises `MissingExtra` if an engine
    needs a package that is not installed.

    A terminal sends an interrupt to all its processes. The workers do not see it, and not SIGTERM: this process tells
    each to stop, and ignores further signals until they have.
    """
    for part in parts:
        require_packages(part.engines)
    context = get_context("spawn")
    stop = context.Event()
    counts = context.Array("q", workers.COUNTS * parts[0].part[1], lock=False)
    executor = ProcessPoolExecutor(len(parts), mp_context=context, initializer=workers.begin, initargs=(stop, counts))
    futures: list[Future[CampaignReport]] = []
    has_found = False
    try:
        with stop_signals_blocked():  # a new process begins with this mask
            futures = [executor.submit(workers.run, part) for part in parts]
        while (done := wait(futures, timeout=_POLL_S)).not_done:
            if is_stopping():  # a library may have discarded the interrupt
                raise KeyboardInterrupt
            progress([sum(counts[number :: workers.COUNTS]) for number in range(workers.COUNTS)])
            if parts[0].stop_early and not has_found and any(_has_found(future) for future in done.done):
                has_found = True
                stop.set()
    except KeyboardInterrupt:
        with stop_signals_ignored():
            stop.set()
            wait(futures)
    finally:
        executor.shutdown()
    report = CampaignReport()
    for future in futures:
        result = _result(future, is_stopped=stop.is_set())
        if has_found and result.cut_short == workers.INTERRUPTED and not is_stopping():
            result.cut_short, result.incomplete = "", False  # the campaign ended at a violation, as in one process
        report.merge(result)
    return report


def _has_found(future: Future[CampaignReport]) -> bool:
    return future.exception() is None and bool(future.result().violations)


def _result(future: Future[CampaignReport], *, is_stopped: bool) -> CampaignReport:
    try:
        return future.result()
    except BrokenProcessPool:
        if not is_stopped:
            raise
        return CampaignReport(cut_short=workers.INTERRUPTED, incomplete=True)
