"""The result of a campaign: the coverage, the violations, and whether it was completed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from leyden.harness.reports.coverage import Coverage
from leyden.harness.runs.cases import Case
from leyden.harness.session.exchanges import Exchange


@dataclass(frozen=True, slots=True)
class FoundViolation:
    """A violation: the engine that found it, the case that reproduces it, and its requests with their responses.

    `url` is the base URL of the target; it is empty for a sandbox in process.
    """

    engine: str
    case: Case
    exchanges: Sequence[Exchange] = ()
    url: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The check and the rule id. Violations with the same key count as one."""
        expectation = self.case.expectation or {}
        return expectation.get("check", ""), expectation.get("ruleId", "")


@dataclass(slots=True)
class CampaignReport:
    """The coverage that a campaign reached and the violations that it found.

    `cases` has the cases of the conformance run by name, with whether they had a violation. `cut_short` says why the
    campaign ended before its engines did; it is empty if it did not. `incomplete`: the target was not tested as a
    campaign of this kind must test it.
    """

    coverage: Coverage = field(default_factory=Coverage)
    violations: list[FoundViolation] = field(default_factory=list)
    cases: dict[str, bool] = field(default_factory=dict)
    cut_short: str = ""
    incomplete: bool = False

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
        self.cases.update(other.cases)
        self.cut_short = self.cut_short or other.cut_short
        self.incomplete = self.incomplete or other.incomplete
        for found in other.violations:
            self.add(found)

    def counts(self) -> list[int]:
        """The numbers of runs, steps and violations."""
        coverage = self.coverage
        return [sum(coverage.runs.values()), sum(coverage.steps.values()), len(self.violations)]

    def totals(self) -> str:
        """The numbers of coverage items and violations, in words."""
        reached, declared = self.coverage.counted()
        count = len(self.violations)
        within = "" if reached == declared and not self.cut_short else " in them"
        return f"{reached} of {declared} coverage items, {count or 'no'} violation{'' if count == 1 else 's'}{within}"

    def summary(self) -> str:
        """One sentence: whether the campaign was cut short, the number of runs, and the totals."""
        text = f"{sum(self.coverage.runs.values())} runs, {self.totals()}"
        return f"Cut short: {self.cut_short}. {text}" if self.cut_short else text
