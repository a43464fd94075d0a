"""A cause of a receiver check: what several findings have in common, and how to correct it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leyden.devserver.receiver_check.cases import SEVERITIES
from leyden.devserver.receiver_check.findings import FAIL, Finding

CONSIDER = "consider"  # the severity of a cause without a failure


@dataclass(frozen=True, slots=True)
class Cause:
    """Why checks fail: what the receiver does, how to correct it, and the findings that this explains.

    `is_common`: it explains the whole result, so it is the first thing to correct. `severity` is the worst of its
    failures, or `consider` if no check fails.
    """

    found: str
    fix: str
    findings: Sequence[Finding]
    is_common: bool = False

    @property
    def severity(self) -> str:
        """The worst severity of its failures, or `consider`."""
        return min((finding.severity for finding in self.failures), key=SEVERITIES.index, default=CONSIDER)

    @property
    def failures(self) -> list[Finding]:
        """Those of its findings that are failures."""
        return [finding for finding in self.findings if finding.verdict == FAIL]

    @property
    def checks(self) -> list[str]:
        """The names of the checks that it explains."""
        return [finding.case.name for finding in self.findings]
