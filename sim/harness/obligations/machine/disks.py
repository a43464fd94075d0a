"""Obligations of the store on a disk that fails: each call that fails in each way, under each policy, with and without
a compaction, and each way in which the process or the machine ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from leyden.harness.control.store_checks import COMPACTIONS, ENDINGS, POLICIES
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.targets.disk import PARTIAL, REFUSED, SHORT, SLOW
from leyden.server.store.compaction import ROWS_PER_STEP

_SOURCE = "the harness's list of faults of a disk"
# The calls and what they do when they fail; each fails the first to the last time of these.
_FAULTS: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("write", SHORT, (1, 2, 4)), ("write", PARTIAL, (1, 3, 5)), ("write", REFUSED, (2, 3)),
    ("fsync", REFUSED, (1, 2, 3)), ("fsync", SLOW, (1, 2, 3)),
    ("replace", REFUSED, (1,)), ("ftruncate", REFUSED, (1,)),
    ("pwrite", SHORT, (1, 2)), ("pwrite", REFUSED, (1, 2)),
)  # fmt: skip
# Rows that one step of a compaction writes, one less and one more, and more than two steps.
_COUNTS = (ROWS_PER_STEP - 1, ROWS_PER_STEP, ROWS_PER_STEP + 1, 2 * ROWS_PER_STEP + 1)
_FEW = 10


def disk_obligations() -> Iterator[Obligation]:
    """Each fault and each number of rows with each policy, compaction and end that say something about it."""
    number = 0
    for policy in POLICIES:
        for compaction in COMPACTIONS:
            for how in ENDINGS:
                if how == "cut" and compaction != "none":
                    continue  # its lines are no commits
                yield _obligation(policy, compaction, how, _FEW)
                number += 1
                if compaction != "none" and how != "recover":
                    yield _obligation(policy, compaction, how, _COUNTS[number % len(_COUNTS)])
            for call, failure, times in _FAULTS:
                for nth in times:
                    number += 1
                    for how in ("close", "kill") if policy in ("os", "interval") else ("close", "power"):
                        yield _obligation(policy, compaction, how, _FEW, [call, nth, failure])


def _obligation(policy: str, compaction: str, how: str, count: int, fault: list[Any] | None = None) -> Obligation:
    step: Any = {"do": "store", "policy": policy, "compaction": compaction, "how": how, "count": count}
    failure = ""
    if fault is not None:
        step["fault"] = fault
        failure = f", {fault[0]} {fault[1]} {fault[2]}"
    case = f"{compaction} compaction, {how}{failure}" + (f", {count} rows" if count != _FEW else "")
    return Obligation(f"store {policy}", "disk", case, _SOURCE, (step,), setup="disk")
