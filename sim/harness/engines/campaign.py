"""A campaign: engines set on a service for so long, what they reached, and what they found, as small as it goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from leyden.extras import require
from leyden.harness.conformance.conformance import tour
from leyden.harness.engines.random_walk import minimal, walk
from leyden.harness.engines.shrink import shrink
from leyden.harness.reports.coverage import Coverage
from leyden.harness.runs.adapters import InProcess, Target
from leyden.harness.runs.cases import Case

_BATCH = 25  # worlds that the machine is asked for at a time


@dataclass(frozen=True, slots=True)
class Finding:
    """A promise that was broken: by which engine it was found, and the case that shows it."""

    engine: str
    case: Case

    @property
    def key(self) -> tuple[str, str]:
        """Findings with the same key are taken for one."""
        fact = self.case.expectation or {}
        return fact.get("check", ""), fact.get("clause", "")


@dataclass(slots=True)
class Order:
    """What a campaign is asked to do. `examples` are worlds for each engine (cases for Schemathesis), `seconds` real
    time for all; at least one of the two bounds it. `overlays` None lets each world choose. `make` gives the target.

    `stop_early` ends at the first finding; otherwise one of each kind is kept.
    """

    engines: Sequence[str] = ("tour", "walk", "machine")
    seed: int = 0
    seconds: float | None = None
    examples: int | None = None
    overlays: tuple[str, ...] | None = None
    stop_early: bool = False
    make: Callable[[], Target] = InProcess


@dataclass(slots=True)
class Report:
    """What a campaign brought."""

    coverage: Coverage = field(default_factory=Coverage)
    findings: list[Finding] = field(default_factory=list)

    def keep(self, finding: Finding) -> None:
        """Keep one finding of each kind, the smallest."""
        for place, known in enumerate(self.findings):
            if known.key == finding.key:
                if len(finding.case.steps) < len(known.case.steps):
                    self.findings[place] = finding
                return
        self.findings.append(finding)

    def merge(self, other: Report) -> None:
        """Take over another process's share."""
        self.coverage.merge(other.coverage)
        for finding in other.findings:
            self.keep(finding)


Told = Callable[[Report], None]


def campaign(order: Order, now: Callable[[], int], told: Told = lambda report: None) -> Report:
    """Set the engines on the target until the order is fulfilled: the tour first and whole, since it is short and sees
    most, then the others by turns. `now` reads real milliseconds; `told` is called on the way."""
    for name, package in _PACKAGES.items():
        if name in order.engines:
            require(f"leyden fuzz --engines {name}", package, "qa")
    report = Report()
    at = now()
    ends_at = None if order.seconds is None else at + round(1_000 * order.seconds)
    shares = {name: _ENGINES[name](order, report) for name in order.engines}
    spent = {name: -1 if name == "tour" else 0 for name in shares}
    while shares:
        # Whoever has had the least time: one engine's turn is a world, another's are many.
        name = min(shares, key=lambda one: spent[one])
        if next(shares[name], None) is None:
            del shares[name]
        began, at = at, now()
        spent[name] += at - began if name != "tour" else 0
        told(report)
        if (ends_at is not None and at >= ends_at) or (order.stop_early and report.findings):
            return report
    return report


def _tour(order: Order, report: Report) -> Iterator[bool]:
    target = order.make()
    for played in tour(target, _reading(order, target), seed=order.seed + 1):
        name = played.case.name
        report.coverage.add("tour", name, played.seen, done=played.done, unchecked=played.unchecked)
        if played.broken is not None:
            small, _ = shrink(played.case, target, played.broken)
            report.keep(Finding("tour", small))
        yield True


def _walk(order: Order, report: Report) -> Iterator[bool]:
    target = order.make()
    for seed in _seeds(order):
        walked = walk(seed, target, overlays=_reading(order, target))
        report.coverage.add("walk", walked.case.name, walked.seen, done=walked.done, unchecked=walked.unchecked)
        if walked.broken is not None:
            small, _ = minimal(walked, target)
            report.keep(Finding("walk", small))
        yield True


def _machine(order: Order, report: Report) -> Iterator[bool]:
    from leyden.harness.engines.state_machine import search

    target = order.make()
    left = order.examples
    for batch in count():
        size = _BATCH if left is None else min(_BATCH, left)
        if size == 0:
            return
        watch = search(order.seed * 1_000_003 + batch, size, order.make, overlays=_reading(order, target))
        name = f"machine batch {batch}"
        report.coverage.add("machine", name, watch.seen, done=watch.done, unchecked=watch.unchecked)
        if watch.broken is not None:
            assert watch.case is not None, "a machine that ended has told its steps"
            small, _ = shrink(watch.case, target, watch.broken)
            report.keep(Finding("machine", small))
        left = None if left is None else left - size
        yield True


def _schemathesis(order: Order, report: Report) -> Iterator[bool]:
    from leyden.harness.engines.schemathesis_engine import examine

    for part in examine(order):
        report.coverage.add("schemathesis", part.name, part.seen, done=part.cases, unchecked=part.unchecked)
        if part.finding is not None:
            report.keep(part.finding)
        yield True


# What an engine needs beyond the core.
_PACKAGES = {"machine": "hypothesis", "schemathesis": "schemathesis"}

_ENGINES: dict[str, Callable[[Order, Report], Iterator[bool]]] = {
    "tour": _tour,
    "walk": _walk,
    "machine": _machine,
    "schemathesis": _schemathesis,
}


def _reading(order: Order, target: Target) -> tuple[str, ...] | None:
    """Under which overlays; None leaves it to each world. One that is served has the reading it is served with."""
    return () if order.overlays is None and target.network else order.overlays


def _seeds(order: Order) -> Iterator[int]:
    first = order.seed * 1_000_000
    return iter(range(first, first + order.examples)) if order.examples is not None else count(first)


def share(order: Order, workers: int) -> list[Order]:
    """The order in so many parts, each with seeds of its own. The tour is nobody's but the first's."""
    examples = None if order.examples is None else -(-order.examples // workers)
    parts = []
    for number in range(workers):
        engines = [name for name in order.engines if name != "tour" or number == 0]
        parts.append(replace(order, engines=engines, seed=order.seed * workers + number, examples=examples))
    return [part for part in parts if part.engines]
