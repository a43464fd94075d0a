"""The obligations of the documents as an engine: its cases in a seeded order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter

from leyden.harness.engines.results import CampaignConfig
from leyden.harness.obligations.derive import all_obligations, obligation_cases
from leyden.harness.runs.cases import Case, CaseResult, play
from leyden.harness.targets.target import Target
from leyden.rng import RandomStream, RandomStreams

_VARIED = ("fault-fields", "in-flight", "between-pages", "rows")
_FIRST, _LAST = 0.6, 1.5
UNCHECKED = "obligations of the documents: their answers depend on everything that the service has"


def declared_obligations() -> tuple[str, ...]:
    """The names of all obligations."""
    return tuple(one.id for one in all_obligations())


def _ordered(cases: Sequence[Case], stream: RandomStream) -> list[Case]:
    """The cases in a random order that mixes the setups: after a share of the cases, about this share of each setup has
    been tested. It is more for setups with many obligations in a case, and less for those that vary one subject
    often."""
    setups = {one.id: one.setup for one in all_obligations()}
    by_setup: dict[str, list[Case]] = {}
    asked = {id(case): [step["obligation"] for step in case.steps if "obligation" in step] for case in cases}
    for case in sorted(cases, key=lambda case: stream.below(2**32)):
        by_setup.setdefault(setups[asked[id(case)][0]], []).append(case)
    placed = []
    for members in by_setup.values():
        for place, case in enumerate(members):
            names = asked[id(case)]
            weight = _FIRST if len(names) > 1 else _LAST if any(f" {kind}" in names[0] for kind in _VARIED) else 1
            placed.append((weight * (place + 0.5) / len(members), case))
    return [case for _, case in sorted(placed, key=itemgetter(0))]


def run_obligations(config: CampaignConfig, target: Target, overlays: tuple[str, ...] | None) -> Iterator[CaseResult]:
    """Run the cases one after another, each from a fresh start, up to its first violation.

    With `overlays` None each case has its own; otherwise those with these overlays or none are run with these.
    """
    if not target.controlled:
        yield CaseResult(Case((), name="obligations"), unchecked={UNCHECKED: None})
        return
    cases = obligation_cases()
    if not target.restarts:
        cases = [case for case in cases if not case.disk]
    if overlays is not None:
        cases = [replace(case, overlays=overlays) for case in cases if case.overlays in ((), overlays)]
    stream = RandomStreams(config.seed).stream("obligations")
    cases = _ordered(cases, stream)
    part, parts = config.part
    for case in islice(cases[part::parts], config.examples):
        yield play(replace(case, seed=config.seed + 1), target)
