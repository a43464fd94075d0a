"""The obligations of the documents as an engine: its cases in a seeded order, in which no value waits for another one
that was sent to each operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter

from leyden.harness.engines.results import CampaignConfig
from leyden.harness.obligations.derive import all_obligations, obligation_cases
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.runs.cases import Case, CaseResult, play
from leyden.harness.targets.target import Target
from leyden.rng import RandomStream, RandomStreams

# How early the cases of a setup come, by the start of its name: the share of them that is played is the share of all
# cases, divided by this. Setups whose cases are short, or have many obligations, come first.
_WEIGHTS: Mapping[str, float] = {
    "rows": 0.35, "lists": 0.3, "restarted-lists": 0.2, "empty": 0.6, "control-empty": 0.3, "keys": 0.4, "slots": 0.5,
    "pages": 0.8, "long": 0.2, "control-deliveries": 0.4, "fault": 1.6, "kill": 1.2, "reset": 1.2,
}  # fmt: skip
UNCHECKED = "obligations of the documents: their answers depend on everything that the service has"


def declared_obligations() -> tuple[str, ...]:
    """The names of all obligations."""
    return tuple(one.id for one in all_obligations())


def _first_of_each(obligations: Sequence[Obligation], stream: RandomStream) -> frozenset[str]:
    """The ids of obligations that have one of each kind and case, at a random place: each value of each constraint
    once, whatever operation it is sent to."""
    order = sorted(obligations, key=lambda one: stream.below(2**32))
    return frozenset({(one.kind, one.case): one.id for one in order}.values())


def _mixed(obligations: Sequence[Obligation], firsts: Container[str], stream: RandomStream) -> list[Obligation]:
    """The obligations in a random order in which those of `firsts` come before the others; and among each of these the
    first of each place and of each kind before the second ones: the first cases of a setup then test a little of
    everything."""
    seen: Counter[tuple[str, str, str]] = Counter()
    ranked = []
    for one in sorted(obligations, key=lambda one: stream.below(2**32)):
        names = ((one.setup, "place", one.place), (one.setup, "kind", one.kind))
        ranked.append((one.id not in firsts, min(seen[name] for name in names), one))
        seen.update(names)
    return [one for _, _, one in sorted(ranked, key=itemgetter(0, 1))]


def _ordered(cases: Sequence[Case], firsts: Container[str]) -> list[Case]:
    """The cases in an order that mixes the setups, those with an obligation of `firsts` before the others: after a
    share of the cases, about this share of each setup has been tested, or as many times more as its weight says."""
    setups = {one.id: one.setup for one in all_obligations()}
    groups: dict[tuple[bool, str], list[Case]] = {}
    for case in cases:
        asked = [step["obligation"] for step in case.steps if "obligation" in step]
        groups.setdefault((not any(one in firsts for one in asked), setups[asked[0]]), []).append(case)
    placed = []
    for (is_later, setup), members in groups.items():
        weight = _WEIGHTS.get(setup, _WEIGHTS.get(setup.partition("-changed")[0], 1))
        placed += [(is_later, weight * (place + 0.5) / len(members), case) for place, case in enumerate(members)]
    return [case for _, _, case in sorted(placed, key=itemgetter(0, 1))]


def run_obligations(config: CampaignConfig, target: Target, overlays: tuple[str, ...] | None) -> Iterator[CaseResult]:
    """Run the cases one after another, each from a fresh start, up to its first violation.

    With `overlays` None each case has its own; otherwise those with these overlays or none are run with these.
    """
    if not target.controlled:
        yield CaseResult(Case((), name="obligations"), unchecked={UNCHECKED: None})
        return
    part, parts = config.part
    # The parts of a campaign have seeds that follow each other, and share one order.
    stream = RandomStreams(config.seed // parts).stream("obligations")
    firsts = _first_of_each(all_obligations(), stream)
    cases = obligation_cases(_mixed(all_obligations(), firsts, stream))
    if not target.restarts:
        cases = [case for case in cases if not case.disk]
    if overlays is not None:
        cases = [replace(case, overlays=overlays) for case in cases if case.overlays in ((), overlays)]
    for case in islice(_ordered(cases, firsts)[part::parts], config.examples):
        yield play(replace(case, seed=config.seed + 1), target)
