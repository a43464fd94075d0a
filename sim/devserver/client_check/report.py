"""The client check's report: for programs as JSON, for terminals as text."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from leyden.devserver.client_check.check import ClientReport, Finding, FoundMistake
from leyden.devserver.client_check.runs import Run
from leyden.server.printable import printable
from leyden.server.version import VERSION

_WIDTH = 100
_SHOWN_OUTPUT = 2_000
_LAST_LINES = 10


def report_resource(report: ClientReport) -> dict[str, object]:
    """The report as JSON values. What a run shows has no API key."""
    return {
        "command": list(report.command),
        "grade": report.grade,
        "why": report.why,
        "version": VERSION,
        "mistakes": [_mistake(one) for one in report.mistakes],
        "cases": [_case(finding) for finding in report.findings],
    }


def _mistake(found: FoundMistake) -> dict[str, object]:
    mistake = found.mistake
    return {
        "name": mistake.name,
        "severity": mistake.severity,
        "title": f"it {mistake.title}",
        "mend": mistake.mend,
        "cases": found.cases,
    }


def _case(finding: Finding) -> dict[str, object]:
    case, run = finding.case, finding.run
    return {
        "name": case.name,
        "title": case.title,
        "good": case.good,
        "proves": case.proves,
        "verdict": finding.verdict,
        "found": finding.found,
        "mistakes": [
            {"name": one.mistake.name, "severity": one.severity, "found": one.found, "mend": one.mend}
            for one in finding.judgements
            if one.mistake is not None
        ],
        "exitStatus": run.exit_status,
        "seconds": round(run.elapsed_s, 2),
        "charges": run.charges,
        "requests": len(run.requests),
        "output": shown_output(run),
    }


def shown_output(run: Run) -> str:
    """The end of the output."""
    return run.output[-_SHOWN_OUTPUT:]


def report_text(report: ClientReport) -> str:
    """The report to read in a terminal: each case in a line, and each mistake once with its correction."""
    width = max(len(finding.case.name) for finding in report.findings)
    lines = [f"Client check of {printable(' '.join(report.command))}", ""]
    for finding in report.findings:
        lines.append(f"{finding.verdict:7} {finding.case.name:{width}}  {printable(finding.found)}")
    for number, found in enumerate(report.mistakes, 1):
        lines += ["", *_mistake_text(number, found)]
    grade = "No grade" if report.grade is None else f"Grade {report.grade}"
    lines += ["", f"{grade}: {report.why}"]
    if report.grade is None:
        lines += [f"  | {printable(line)}" for line in shown_output(report.findings[0].run).splitlines()[-_LAST_LINES:]]
    return "\n".join(lines) + "\n"


def _mistake_text(number: int, found: FoundMistake) -> Iterator[str]:
    mistake = found.mistake
    yield f"{number}. {mistake.name} ({mistake.severity})"
    yield from _paragraph("This client", mistake.title)
    yield from _paragraph("How to fix it", mistake.mend)
    yield from _paragraph("Cases", ", ".join(found.cases))


def _paragraph(what: str, text: str) -> list[str]:
    lines = wrap(f"{what}: {text}", _WIDTH - 4, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
    return [f"    {line}" for line in lines]
