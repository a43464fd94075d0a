"""A campaign in several processes of this machine. An interrupt ends them, and keeps what each has found."""

from __future__ import annotations

import os
from _thread import interrupt_main
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process
from multiprocessing.synchronize import Event
from threading import Lock, Thread

from leyden.harness.engines.campaign import run_campaign
from leyden.harness.engines.results import CampaignConfig
from leyden.harness.reports.results import CampaignReport
from leyden.server.system.clock import system_time_ms
from leyden.server.system.stop_signals import stop_signals_blocked, stop_signals_ignored

_INTERRUPTED = "it was interrupted"


def run_in_processes(parts: Sequence[CampaignConfig]) -> CampaignReport:
    """Run each part in a process of its own, and merge the reports.

    A terminal sends an interrupt to all its processes. The workers do not see it, and not SIGTERM: this process tells
    each to stop, and ignores further signals until they have.
    """
    context = get_context("spawn")
    stop = context.Event()
    executor = ProcessPoolExecutor(len(parts), mp_context=context, initializer=_begin, initargs=(stop,))
    futures: list[Future[CampaignReport]] = []
    try:
        with stop_signals_blocked():  # a new process begins with this mask
            futures = [executor.submit(_run, part) for part in parts]
        wait(futures)
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
        return CampaignReport(cut_short=_INTERRUPTED, incomplete=True)


# In a worker

_lock = Lock()
_is_running = False
_stop: Event


def _begin(stop: Event) -> None:
    global _stop
    _stop = stop
    Thread(target=_interrupt_when_set, args=(stop,), daemon=True).start()
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A process that was ended by another signal tells its workers nothing."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _interrupt_when_set(stop: Event) -> None:
    stop.wait()
    with _lock:
        if _is_running:
            interrupt_main()


def _run(part: CampaignConfig) -> CampaignReport:
    global _is_running
    try:
        with _lock:
            _is_running = True
            if _stop.is_set():
                raise KeyboardInterrupt
        return run_campaign(part, system_time_ms)
    except KeyboardInterrupt:
        return CampaignReport(cut_short=_INTERRUPTED, incomplete=True)
    finally:
        with _lock:
            _is_running = False
