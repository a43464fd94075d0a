"""The formats of a campaign's report, by their names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from leyden.harness.reports.coverage import TITLES, item_name
from leyden.harness.reports.har import as_har
from leyden.harness.reports.junit import as_junit
from leyden.harness.reports.results import CampaignReport, FoundViolation
from leyden.server.html import Html, tag
from leyden.server.printable import printable


def _violation_text(found: FoundViolation) -> str:
    return f"Found by {found.engine}.\n{found.case.describe()}"


def _text(report: CampaignReport) -> str:
    texts = "".join(f"{_violation_text(found)}\n\n" for found in report.violations)
    return f"{report.summary()}\n\n{texts}{report.coverage.text()}\n{report.summary()}\n"


def _html(report: CampaignReport) -> str:
    def top() -> Iterator[Html]:
        yield tag("p", report.summary())
        for found in report.violations:
            yield tag("h2", f"Violation: {found.key[0]}, {found.key[1]}")
            yield tag("pre", _violation_text(found))
        for what in report.coverage.unchecked:
            yield tag("p", f"not checked: {what}")

    return report.coverage.html(top())


def _json(report: CampaignReport) -> str:
    violations = [{"engine": found.engine, "case": found.case.document()} for found in report.violations]
    head = {"summary": report.summary(), "cutShort": report.cut_short or None, "violations": violations}
    return json.dumps({**head, **report.coverage.document()}, indent=1) + "\n"


def _github(report: CampaignReport) -> str:
    """Workflow commands of GitHub Actions: an error for each violation, a warning for what was not done."""
    lines = [
        _annotation("error", f"{found.key[0]}: {found.key[1]}", _violation_text(found)) for found in report.violations
    ]  # fmt: skip
    if report.cut_short:
        lines.append(_annotation("warning", "cut short", report.cut_short))
    lines += [_annotation("warning", "not checked", what) for what in report.coverage.unchecked]
    missing = [f"{TITLES[item[0]]}: {item_name(item)}" for item in report.coverage.missing()]
    if missing:
        lines.append(_annotation("notice", "not reached", "\n".join(missing)))
    lines.append(_annotation("notice", "Leyden", report.summary()))
    return "\n".join(lines) + "\n"


def _annotation(level: str, title: str, text: str) -> str:
    title = printable(title).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    lines = "\n".join(printable(line) for line in text.split("\n"))
    return f"::{level} title={title}::{lines.replace('%', '%25').replace(chr(10), '%0A')}"


# The names are those of `REPORT_FORMATS`.
FORMATS: Mapping[str, Callable[[CampaignReport], str]] = {
    "text": _text,
    "html": _html,
    "json": _json,
    "markdown": lambda report: report.coverage.summary(),
    "junit": as_junit,
    "har": as_har,
    "github": _github,
}
