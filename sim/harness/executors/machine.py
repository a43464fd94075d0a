"""Executors for machines that fail: a store on a disk of which a call fails."""

from __future__ import annotations

from pathlib import Path

from leyden.harness.control.store_checks import check_store
from leyden.harness.session.session import Session
from leyden.harness.steps import Step, StepImpossible
from leyden.harness.targets.target import InProcess

UNCHECKED = "the store on a disk that fails: only a sandbox in process is checked"


def store(session: Session, step: Step) -> None:
    """{"do": "store", "policy": "always", "compaction": "gradual", "how": "power", "count": 10, "fault"?: ["write", 2,
    "short"]}: write rows to a store on a disk of which a call fails, end it, and open it again."""
    target = session.target
    if not isinstance(target, InProcess):
        session.unchecked[UNCHECKED] = None
        raise StepImpossible("a store is opened beside a sandbox in process")
    check_store(Path(target.new_folder()), step)
