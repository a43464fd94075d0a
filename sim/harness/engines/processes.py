"""A campaign in several processes of this machine. An interrupt ends them, and keeps what each has found."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from leyden.harness.engines import workers
from leyden.harness.engines.results import CampaignConfig
from leyden.harness.reports.results import CampaignReport
from leyden.server.system.stop_signals import is_stopping, stop_signals_blocked, stop_signals_ignored

_POLL_S = 0.2


def run_in_processes(parts: Sequence[CampaignConfig]) -> CampaignReport:
    """Run each part in a process of its own, and merge the reports.

    A terminal sends an interrupt to all its processes. The workers do not see it, and not SIGTERM: this process tells
    each to stop, and ignores further signals until they have.
    """
    context = get_context("spawn")
    stop = context.Event()
    executor = ProcessPoolExecutor(len(parts), mp_context=context, initializer=workers.begin, initargs=(stop,))
    futures: list[Future[CampaignReport]] = []
    try:
        with stop_signals_blocked():  # a new process begins with this mask
            futures = [executor.submit(workers.run, part) for part in parts]
        while wait(futures, timeout=_POLL_S).not_done:
            if is_stopping():  # a library may have discarded the interrupt
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        with stop_signals_ignored():
            stop.set()
            wait(futures)
    finally:
        executor.shutdown()
    report = CampaignReport()
    for future in futures:
        report.merge(_result(future, is_stopped=stop.is_set()))
    return report


def _result(future: Future[CampaignReport], *, is_stopped: bool) -> CampaignReport:
    try:
        return future.result()
    except BrokenProcessPool:
        if not is_stopped:
            raise
        return CampaignReport(cut_short=workers.INTERRUPTED, incomplete=True)
