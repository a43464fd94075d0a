"""The engines of the harness search for each defect; the time and the size of the case are measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from statistics import median
from time import process_time_ns
from typing import Any
from unittest.mock import patch

from leyden.harness.constants import DEFAULT_ENGINES, ENGINES
from leyden.harness.engines.campaign import run_campaign
from leyden.harness.engines.results import CampaignConfig
from leyden.harness.engines.shrink import shrink
from tests.seeded_defects.catalogue import DEFECTS_BY_NAME
from tests.seeded_defects.defect import planted

ALL = "all"  # the default engines in one campaign, as `leyden fuzz` runs them
CHOICE = (*ENGINES, ALL)
LIMIT_S = 15.0  # of processor time, on one core
SMALL = 8  # steps

Job = tuple[str, str, int, float]


@dataclass(frozen=True, slots=True)
class DefectSearch:
    """The result of one engine's search for one defect.

    `seconds` is the processor time until the first violation, `whole_seconds` that until its case was shrunk, `steps`
    the size of the case. `finder` is the engine that found it, or empty.
    """

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
        """Whether there was a violation."""
        return self.finder != ""


def search_defect(defect: str | None, engine: str, seed: int, limit_s: float = LIMIT_S) -> DefectSearch:
    """Run an engine on a service with this defect, or without one for None. A first run is not timed."""
    engines = DEFAULT_ENGINES if engine == ALL else (engine,)
    # Compiles the specification and loads what is imported late.
    run_campaign(CampaignConfig(engines=("random-walk",), examples=1), _processor_ms)
    config = CampaignConfig(engines=engines, seed=seed, seconds=limit_s, stop_early=True)
    started = _processor_ms()
    found_at: list[int] = []
    with _record_first_violation(found_at), nullcontext() if defect is None else planted(DEFECTS_BY_NAME[defect]):
        report = run_campaign(config, _processor_ms)
    ended = _processor_ms()
    whole = (ended - started) / 1_000
    if not report.violations:
        return DefectSearch(defect or "", engine, seed, "", whole, whole, 0, None)
    first = report.violations[0]
    seconds = ((found_at or [ended])[0] - started) / 1_000
    steps = len(first.case.steps)
    return DefectSearch(defect or "", engine, seed, first.engine, seconds, whole, steps, first.case.document())


def _processor_ms() -> int:
    return process_time_ns() // 1_000_000


@contextmanager
def _record_first_violation(times: list[int]) -> Iterator[None]:
    """A violation is found when its case begins to be shrunk."""

    def timed(original: Callable[..., Any]) -> Callable[..., Any]:
        def shrink_and_record(*arguments: Any, **named: Any) -> Any:
            times.append(_processor_ms())
            return original(*arguments, **named)

        return shrink_and_record

    with patch("leyden.harness.engines.campaign.shrink", timed(shrink)):
        yield


def _search(job: Job) -> DefectSearch:
    return search_defect(*job)


def searches(
    jobs: Sequence[tuple[str, str, int]], workers: int = 1, limit_s: float = LIMIT_S
) -> Iterator[DefectSearch]:
    """The results of all searches as they end, in this process or in several others."""
    limited = [(*one, limit_s) for one in jobs]
    if workers == 1:
        yield from map(_search, limited)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_search, job) for job in limited]):
            yield done.result()


def table(found: Sequence[DefectSearch]) -> list[list[str]]:
    """A row for each defect and engine: the number of seeds with a violation, the times, and the sizes of the cases."""
    rows = [["defect", "kind", "engine", "found", "median s", "slowest s", "steps"]]
    for (defect, engine), some in _grouped(found).items():
        hits = [one for one in some if one.found]
        times = [f"{how([one.seconds for one in hits]):.2f}" if hits else "" for how in (median, max)]
        sizes = sorted({one.steps for one in hits})
        size = "" if not sizes else str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        rows.append([defect, DEFECTS_BY_NAME[defect].kind, engine, f"{len(hits)}/{len(some)}", *times, size])
    return rows


def summary(found: Sequence[DefectSearch]) -> list[str]:
    """The totals of each engine, and the defects that it missed on some or on all seeds."""
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
                f"{slowest.seed}); shrunk: median {median(one.whole_seconds for one in hits):.2f} s, slowest "
                f"{max(one.whole_seconds for one in hits):.2f} s"
            )
            lines.append(f"  {small} of {len(hits)} cases ({small / len(hits):.0%}) have at most {SMALL} steps")
        some_seed = [
            f"{d} ({sum(one.found for one in groups[d])})" for d in groups if d not in whole and d not in never
        ]
        lines += [f"  missed on some seeds: {', '.join(some_seed)}"] if some_seed else []
        lines += [f"  never found: {', '.join(never)}"] if never else []
    return lines


def _grouped(found: Sequence[DefectSearch]) -> dict[tuple[str, str], list[DefectSearch]]:
    names = list(DEFECTS_BY_NAME)
    groups: dict[tuple[str, str], list[DefectSearch]] = {}
    for one in sorted(found, key=lambda one: (names.index(one.defect), CHOICE.index(one.engine), one.seed)):
        groups.setdefault((one.defect, one.engine), []).append(one)
    return groups


def document(found: Sequence[DefectSearch]) -> str:
    """All results as JSON, with the shrunk cases."""
    return json.dumps([asdict(one) for one in found], indent=1) + "\n"
