"""The client check's report as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from leyden.devserver.client_check.check import ClientReport, Finding
from leyden.devserver.client_check.crashes import exit_text
from leyden.devserver.client_check.judgements import PASS, VERDICTS
from leyden.devserver.client_check.report import shown_output
from leyden.devserver.client_check.runs import Run
from leyden.devserver.report_page import report_end, report_page, shown, summary, to_fix
from leyden.server.version import VERSION

_SHOWN_REQUESTS = 40


def report_html(report: ClientReport) -> str:
    """The page. Everything is escaped, because the program chooses some of the text."""
    return "".join(_page(report))


def _page(report: ClientReport) -> Iterator[str]:
    counts = {verdict: (report.count(verdict), verdict) for verdict in reversed(VERDICTS)}
    headline = ("No grade: " if report.grade is None else "") + report.why
    yield from report_page("Client check", " ".join(report.command), report.grade, headline, counts)
    yield from to_fix(
        (
            f"{found.mistake.name} ({found.mistake.severity})",
            f"it {found.mistake.title}",
            f"{found.mistake.mend}.",
            found.cases,
        )
        for found in report.mistakes
    )
    shows_mistake = {found.cases[0] for found in report.mistakes}
    yield "<section><h2>Cases</h2>"
    for finding in report.findings:
        yield from _details(finding, is_open=finding.case.name in shows_mistake or report.grade is None)
    yield "</section>"
    yield report_end(
        f"Leyden {escape(VERSION)}. A: no mistakes, and every case was exercised. B: minor mistakes at most. "
        "C: serious ones. D: four or more serious ones. F: it may charge twice."
    )


def _details(finding: Finding, is_open: bool) -> Iterator[str]:
    """A case, with all that its run shows."""
    case, run = finding.case, finding.run
    yield summary(case.name, case.title, finding.verdict, finding.verdict, is_open=is_open)
    yield f'<div class="inside"><dl><dt>A good client</dt><dd>{escape(case.good)}</dd>'
    for judgement in finding.judgements:
        yield f"<dt>This one</dt><dd>{shown(judgement.found)}"
        if judgement.mistake is not None:
            yield f" (<code>{escape(judgement.mistake.name)}</code>, {escape(judgement.severity)})"
        yield "</dd>"
    if finding.verdict == PASS:
        yield f"<dt>A pass proves</dt><dd>{escape(case.proves)}</dd>"
    ended = "ended by the check" if run.exit_status is None else exit_text(run.exit_status)
    yield f"<dt>Run</dt><dd>{ended}, {run.elapsed_s:.1f} s, {run.charges} Charges</dd></dl>"
    yield from _requests(run)
    output = shown_output(run).strip()
    if output:
        yield f'<details><summary>Output</summary><div class="inside"><pre>{shown(output)}</pre></div></details>'
    yield "</div></details>"


def _requests(run: Run) -> Iterator[str]:
    """The requests in order, each with its time, its response and its key for repetitions."""
    if not run.requests:
        return
    yield f'<details><summary>Requests<span>{len(run.requests)}</span></summary><div class="inside"><pre>'
    start_ms = run.requests[0].at_ms
    for request in run.requests[:_SHOWN_REQUESTS]:
        answer = "no response" if request.status is None else str(request.status)
        partial = "" if request.is_complete or request.status is None else ", not to its end"
        key = "" if request.idempotency_key is None else f"  Idempotency-Key: {request.idempotency_key}"
        left = ", the client closed the connection" if request.has_left else ""
        line = f"{request.at_ms - start_ms:6} ms  {request.method} {request.path}  {answer}{partial}{left}{key}"
        yield shown(line) + "\n"
    if len(run.requests) > _SHOWN_REQUESTS:
        yield f"... and {len(run.requests) - _SHOWN_REQUESTS} more\n"
    yield "</pre></div></details>"
