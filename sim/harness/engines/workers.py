"""A process of a campaign: it runs its part until the parent tells it to stop.

It imports the harness when it has begun: a process that is told to stop before it runs ends at once.
"""

from __future__ import annotations

import os
from _thread import interrupt_main
from collections.abc import MutableSequence
from multiprocessing import connection, parent_process
from multiprocessing.synchronize import Event
from threading import Lock, Thread
from typing import TYPE_CHECKING

from leyden.server.system.clock import system_time_ms
from leyden.server.system.stop_signals import note_stop

if TYPE_CHECKING:
    from leyden.harness.engines.results import CampaignConfig
    from leyden.harness.reports.results import CampaignReport

INTERRUPTED = "it was interrupted"
COUNTS = 3  # the numbers of runs, steps and violations of a process

_lock = Lock()
_progress = "not begun"
_stop: Event
_counts: MutableSequence[int]


def begin(stop: Event, counts: MutableSequence[int]) -> None:
    """Watch `stop` and the parent, which tells nothing when another signal ended it. `counts` has `COUNTS` numbers for
    each process."""
    global _stop, _counts
    _stop, _counts = stop, counts
    Thread(target=_end_when_told, daemon=True).start()
    Thread(target=_end_with_parent, daemon=True).start()


def run(part: CampaignConfig) -> CampaignReport:
    """Run a part; when it is told to stop, the report has what was found until then."""
    from leyden.harness.engines.campaign import run_campaign
    from leyden.harness.reports.results import CampaignReport

    try:
        _set_progress("running")
        if _stop.is_set():
            raise KeyboardInterrupt
        first = COUNTS * part.part[0]

        def note(report: CampaignReport) -> None:
            _counts[first : first + COUNTS] = report.counts()

        return run_campaign(part, system_time_ms, note)
    except KeyboardInterrupt:
        return CampaignReport(cut_short=INTERRUPTED, incomplete=True)
    finally:
        _set_progress("done")


def _set_progress(progress: str) -> None:
    global _progress
    with _lock:
        _progress = progress


def _end_when_told() -> None:
    _stop.wait()
    with _lock:
        if _progress == "not begun":
            os._exit(1)
        if _progress == "running":
            note_stop()
            interrupt_main()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
