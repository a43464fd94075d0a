"""The harness put to the proof: each engine is set on each defect, and what it finds is timed and made small."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from statistics import median
from time import process_time_ns
from typing import Any
from unittest.mock import patch

from leyden.harness.engines.campaign import Order, campaign
from leyden.harness.engines.shrink import shrink
from leyden.harness.constants import ENGINES
from tests.seeded_defects.catalogue import CATALOGUE
from tests.seeded_defects.defect import planted

USUAL = ("tour", "walk", "machine")
ALL = "all"  # the usual engines as `leyden fuzz` sets them on a service
CHOICE = (*ENGINES, ALL)
LIMIT_S = 15.0  # on one core, by the process's own time
SMALL = 8  # steps

Job = tuple[str, str, int, float]


@dataclass(frozen=True, slots=True)
class Hunt:
    """What came of one engine's search for one defect: the seconds of processor time until it was noticed, those until
    its case was small and proved, and the steps of that case. Nothing found leaves `finder` empty."""

    defect: str
    engine: str
    seed: int
    finder: str
    seconds: float
    whole_seconds: float
    steps: int
    case: dict[str, Any] | None

    @property
    def found(self) -> bool:
        """Whether a promise was seen broken."""
        return self.finder != ""


def hunt(defect: str | None, engine: str, seed: int, limit_s: float = LIMIT_S) -> Hunt:
    """Set an engine on a service with this defect, or on the clean one. One world is made before the time begins."""
    engines = USUAL if engine == ALL else (engine,)
    campaign(Order(engines=("walk",), examples=1), _spent_ms)  # compiles the specification, loads what is lazy
    order = Order(engines=engines, seed=seed, seconds=limit_s, stop_early=True)
    begun = _spent_ms()
    noticed: list[int] = []
    with _noticing(noticed):
        if defect is None:
            report = campaign(order, _spent_ms)
        else:
            with planted(CATALOGUE[defect]):
                report = campaign(order, _spent_ms)
    ended = _spent_ms()
    whole = (ended - begun) / 1_000
    if not report.findings:
        return Hunt(defect or "", engine, seed, "", whole, whole, 0, None)
    first = report.findings[0]
    seconds = ((noticed or [ended])[0] - begun) / 1_000
    return Hunt(defect or "", engine, seed, first.engine, seconds, whole, len(first.case.steps), first.case.document())


def _spent_ms() -> int:
    return process_time_ns() // 1_000_000


@contextmanager
def _noticing(moments: list[int]) -> Iterator[None]:
    """A finding is noticed when somebody begins to make its case smaller."""

    def timed(original: Callable[..., Any]) -> Callable[..., Any]:
        def begun(*given: Any, **named: Any) -> Any:
            moments.append(_spent_ms())
            return original(*given, **named)

        return begun

    with (
        patch("leyden.harness.engines.campaign.shrink", timed(shrink)),
        patch("leyden.harness.engines.random_walk.shrink", timed(shrink)),
    ):
        yield


def _hunt(job: Job) -> Hunt:
    return hunt(*job)


def hunts(asked: Sequence[tuple[str, str, int]], workers: int = 1, limit_s: float = LIMIT_S) -> Iterator[Hunt]:
    """All of them, as they end: in this process, or in so many others, where each defect is planted by its name."""
    jobs = [(*one, limit_s) for one in asked]
    if workers == 1:
        yield from map(_hunt, jobs)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_hunt, job) for job in jobs]):
            yield done.result()


def table(found: Sequence[Hunt]) -> list[list[str]]:
    """A row for each defect: the engine, on how many seeds it found it, its median and slowest time, the sizes."""
    rows = [["defect", "kind", "engine", "found", "median s", "slowest s", "steps"]]
    for (defect, engine), some in _grouped(found).items():
        hits = [one for one in some if one.found]
        times = [f"{how([one.seconds for one in hits]):.2f}" if hits else "" for how in (median, max)]
        sizes = sorted({one.steps for one in hits})
        size = "" if not sizes else str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        rows.append([defect, CATALOGUE[defect].kind, engine, f"{len(hits)}/{len(some)}", *times, size])
    return rows


def summary(found: Sequence[Hunt]) -> list[str]:
    """What the engines found, in sentences; the defects that an engine missed on some seed are named."""
    lines = []
    for engine in dict.fromkeys(one.engine for one in found):
        groups = {defect: some for (defect, by), some in _grouped(found).items() if by == engine}
        hits = [one for some in groups.values() for one in some if one.found]
        whole = [defect for defect, some in groups.items() if all(one.found for one in some)]
        never = [defect for defect, some in groups.items() if not any(one.found for one in some)]
        lines.append(
            f"{engine}: {len(whole)} of {len(groups)} defects on every seed, {len(groups) - len(never)} on some"
        )
        if hits:
            times = {
                d: median(one.seconds for one in some if one.found) for d, some in groups.items() if d not in never
            }
            slowest = max(hits, key=lambda one: one.seconds)
            small = sum(one.steps <= SMALL for one in hits)
            lines.append(
                f"  median {median(times.values()):.2f} s, slowest {slowest.seconds:.2f} s ({slowest.defect}, seed "
                f"{slowest.seed}); with the proof median {median(one.whole_seconds for one in hits):.2f} s, slowest "
                f"{max(one.whole_seconds for one in hits):.2f} s"
            )
            lines.append(f"  {small} of {len(hits)} cases ({small / len(hits):.0%}) have at most {SMALL} steps")
        some_seed = [
            f"{d} ({sum(one.found for one in groups[d])})" for d in groups if d not in whole and d not in never
        ]
        lines += [f"  missed on some seed: {', '.join(some_seed)}"] if some_seed else []
        lines += [f"  never found: {', '.join(never)}"] if never else []
    return lines


def _grouped(found: Sequence[Hunt]) -> dict[tuple[str, str], list[Hunt]]:
    names = list(CATALOGUE)
    groups: dict[tuple[str, str], list[Hunt]] = {}
    for one in sorted(found, key=lambda one: (names.index(one.defect), CHOICE.index(one.engine), one.seed)):
        groups.setdefault((one.defect, one.engine), []).append(one)
    return groups


def document(found: Sequence[Hunt]) -> str:
    """Every hunt as JSON, with the minimal cases."""
    return json.dumps([asdict(one) for one in found], indent=1) + "\n"
