"""The obligations of the documents as an engine: the cases that the conformance run leaves out, then those of the
obligations in a seeded order, in which no value waits for another one that was sent to each operation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter

from leyden.harness.conformance.conformance import left_out_cases
from leyden.harness.engines.results import CampaignConfig
from leyden.harness.obligations.derive import all_obligations, obligation_cases
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.runs.cases import Case, CaseResult, play
from leyden.harness.targets.target import Target
from leyden.rng import RandomStream, RandomStreams

# What the cases of a setup cost, by the start of its name: ms of CPU time for a case, and for each of its obligations.
_COSTS: Mapping[str, tuple[float, float]] = {
    "rows": (20, 1.7), "empty": (10, 8), "lists": (50, 1), "control-empty": (20, 0.4), "long": (1_200, 2.5),
    "restarted-lists": (100, 0.4), "restart": (55, 0), "kill": (98, 0), "pending": (75, 0), "disk": (0, 15),
    "control-deliveries": (600, 80), "control-few-rows": (300, 55), "control-rows": (700, 12), "control-keep": (336, 0),
    "control-kept": (245, 0), "control-network": (600, 40), "tables": (240, 0), "pages": (750, 0), "history": (900, 0),
    "control-portions": (600, 30), "control-portions-links": (500, 60), "portions": (300, 10),
    "portions-links": (200, 14), "invoices": (140, 0), "stored": (1_200, 0),
    "control-clock": (31, 0), "later": (28, 0), "fault": (18, 0), "message": (18, 0), "events": (30, 0),
    "slots": (35, 0), "control-fields": (20, 1.6), "copies": (200, 0), "unsent": (45, 0),
    "repeated": (40, 0), "payments": (40, 0),
    "apart": (170, 0), "aged": (170, 0), "together": (215, 0), "rates": (35, 0),
    "full-disk": (190, 0), "refused": (90, 0), "reseeded": (250, 0), "removed": (100, 0), "late": (75, 0),
    "control-waits": (500, 4), "links": (20, 0), "dated": (30, 0),
    "numbers": (105, 0), "cut": (150, 0), "keys": (80, 0), "many": (450, 0), "blocked": (75, 0), "gone": (110, 0),
}  # fmt: skip
_COST = (60.0, 0.0)
# How many parts of the time a setup gets while it has cases; another one gets one part.
_PARTS: Mapping[str, float] = {
    "rows": 10, "empty": 8, "lists": 4, "control-empty": 4, "pending": 6, "disk": 3, "restart": 3, "kill": 2, "full": 2,
    "keys": 2, "pages": 4, "long": 2, "control-rows": 2, "control-portions": 2, "control-portions-links": 2,
    "control-few-rows": 3, "stored": 2, "fault": 3, "message": 3, "control-fields": 3, "copies": 2,
    "control-waits": 2,
    "control-secrets": 4, "apart": 2, "aged": 2, "together": 3, "refused": 2, "full-disk": 2, "reseeded": 2,
    "payments": 3, "numbers": 2, "cut": 2,
}  # fmt: skip
# The kinds of obligations of which each place of a list is one of its own: pairs of filters, and rows that are removed
# and added.
_OF_EACH_PLACE = frozenset({"filter-pair", "list-filter-pair", "list-changed"})
UNCHECKED = "obligations of the documents: their answers depend on everything that the service has"


def declared_obligations() -> tuple[str, ...]:
    """The names of all obligations."""
    return tuple(one.id for one in all_obligations())


def _is_ignored(one: Obligation) -> bool:
    """Whether this is a body, or its media type, of a request that needs none."""
    is_of_body = " body" in one.place or one.place.endswith("header.Content-Type")
    return is_of_body and bool(one.steps) and one.steps[-1].get("method") in {"GET", "HEAD"}


def _first_of_each(obligations: Sequence[Obligation], stream: RandomStream) -> frozenset[str]:
    """The ids of obligations that have one of each kind and case, at a random place: each value of each constraint
    once, whatever operation it is sent to, but those of bodies to an operation that reads one; and of the kinds of
    `_OF_EACH_PLACE` one at each place."""
    order = sorted(obligations, key=lambda one: (not _is_ignored(one), stream.below(2**32)))  # the last one is taken
    placed = {(one.kind, one.place): one.id for one in order if one.kind.partition(":")[0] in _OF_EACH_PLACE}
    return frozenset({(one.kind, one.case): one.id for one in order}.values()) | {*placed.values()}


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
    """The cases in an order in which the setups share the time: whenever the run ends, each setup has had its parts of
    the time (`_PARTS`), or all of its cases. Those with an obligation of `firsts` come before the others."""
    setups = {one.id: one.setup for one in all_obligations()}
    spent: defaultdict[tuple[bool, str], float] = defaultdict(float)
    placed = []
    for case in cases:
        asked = [step["obligation"] for step in case.steps if "obligation" in step]
        name = setups[asked[0]].partition("-changed")[0]
        group = (not any(one in firsts for one in asked), name)
        of_case, of_obligation = _COSTS.get(name, _COST)
        before = spent[group]
        spent[group] += (of_case + of_obligation * len(asked)) / _PARTS.get(name, 1)
        placed.append((group[0], (before + spent[group]) / 2, case))
    return [case for _, _, case in sorted(placed, key=itemgetter(0, 1))]


def run_obligations(config: CampaignConfig, target: Target, overlays: tuple[str, ...] | None) -> Iterator[CaseResult]:
    """Run the cases one after another, each from a fresh start, up to its first violation: those that the conformance
    run leaves out come first.

    With `overlays` None each case has its own; otherwise those with these overlays or none are run with these. The
    conformance cases are run without overlays only.
    """
    part, parts = config.part
    first = [] if overlays else [replace(case, seed=config.seed + 1) for case in left_out_cases()]
    cases = [case for case in first if target.restarts or not case.disk]
    if target.controlled:
        cases += _ordered_cases(config, target, overlays)
    for case in islice(cases[part::parts], config.examples):
        yield play(case, target)
    if not target.controlled:
        yield CaseResult(Case((), name="obligations"), unchecked={UNCHECKED: None})


def _ordered_cases(config: CampaignConfig, target: Target, overlays: tuple[str, ...] | None) -> list[Case]:
    # The parts of a campaign have seeds that follow each other, and share one order.
    stream = RandomStreams(config.seed // config.part[1]).stream("obligations")
    firsts = _first_of_each(all_obligations(), stream)
    cases = obligation_cases(_mixed(all_obligations(), firsts, stream))
    if not target.restarts:
        cases = [case for case in cases if not case.disk]
    if overlays is not None:
        cases = [replace(case, overlays=overlays) for case in cases if case.overlays in ((), overlays)]
    return [replace(case, seed=config.seed + 1) for case in _ordered(cases, firsts)]
