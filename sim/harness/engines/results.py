"""The configuration of a campaign and its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from leyden.harness.constants import DEFAULT_ENGINES
from leyden.harness.reports.coverage import Coverage
from leyden.harness.runs.cases import Case
from leyden.harness.targets.target import InProcess, Target


@dataclass(frozen=True, slots=True)
class FoundViolation:
    """A violation: the engine that found it and the case that reproduces it."""

    engine: str
    case: Case

    @property
    def key(self) -> tuple[str, str]:
        """The check and the rule id. Violations with the same key count as one."""
        expectation = self.case.expectation or {}
        return expectation.get("check", ""), expectation.get("ruleId", "")


@dataclass(slots=True)
class CampaignConfig:
    """What a campaign runs.

    `examples` is the number of runs of each engine (cases, for Schemathesis), `seconds` the real time for all engines;
    at least one of the two limits the campaign. With `overlays` None each run chooses its own. `make` creates the
    target. `part` says which of how many parts of the obligations it asks.
    `stop_early` ends the campaign at the first violation; without it one violation of each key is kept.
    """

    engines: Sequence[str] = DEFAULT_ENGINES
    seed: int = 0
    seconds: float | None = None
    examples: int | None = None
    overlays: tuple[str, ...] | None = None
    stop_early: bool = False
    part: tuple[int, int] = (0, 1)
    make: Callable[[], Target] = InProcess


@dataclass(slots=True)
class CampaignReport:
    """The coverage that a campaign reached and the violations that it found."""

    coverage: Coverage = field(default_factory=Coverage)
    violations: list[FoundViolation] = field(default_factory=list)

    def add(self, found: FoundViolation) -> None:
        """Add a violation; of those with the same key the one with the fewest steps is kept."""
        for index, known in enumerate(self.violations):
            if known.key == found.key:
                if len(found.case.steps) < len(known.case.steps):
                    self.violations[index] = found
                return
        self.violations.append(found)

    def merge(self, other: CampaignReport) -> None:
        """Add the report of another process."""
        self.coverage.merge(other.coverage)
        for found in other.violations:
            self.add(found)
