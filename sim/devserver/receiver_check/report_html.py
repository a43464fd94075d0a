"""The receiver check's report as one HTML page without scripts, for light and dark colour schemes."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import groupby

from leyden.devserver.receiver_check.check import Report
from leyden.devserver.receiver_check.findings import FAIL, NOTICE, PASS, SKIPPED, UNJUDGED, Exchange, Finding
from leyden.devserver.report_page import report_end, report_page, shown, summary, to_fix

_WORDS = {PASS: "pass", UNJUDGED: "not judged", NOTICE: "notice", FAIL: "fail", SKIPPED: "not sent"}


def report_html(report: Report) -> str:
    """The page. Everything is escaped, because the endpoint chooses some of the text."""
    return "".join(_page(report))


def _page(report: Report) -> Iterator[str]:
    counts = {verdict: (report.count(verdict), word) for verdict, word in _WORDS.items()}
    if report.unjudged_remarks:
        counts[NOTICE] = (report.count(NOTICE), f"{_WORDS[NOTICE]} ({report.unjudged_remarks} not judged)")
    yield from report_page("Receiver check", report.url, report.grade, report.headline, counts, report.to_check)
    yield from to_fix(
        (
            "First" if cause.is_common else cause.severity.capitalize(),
            cause.found,
            cause.fix,
            [finding.case.name for finding in cause.findings],
        )
        for cause in report.causes
    )
    sent = (finding for finding in report.findings if finding.exchanges)
    examples = [cause.findings[0] for cause in report.causes]
    counts_of = {group: counts for group, *counts in report.groups}
    for group, members in groupby(sent, lambda finding: finding.case.group):
        passed, failed, count = counts_of.get(group, (0, 0, 0))
        counted = f" <small>{passed} of {count} pass, {failed} fail</small>" if count else ""
        yield f"<section><h2>{escape(group)}{counted}</h2>"
        for finding in members:
            yield from _details(finding, is_open=finding in examples)
        yield "</section>"
    yield report_end(
        f"Signed with <code>{escape(report.secret)}</code>, started at {escape(report.started_at)}. "
        "A: no failures. B: only small failures. C: serious failures. D: four or more serious failures. F: it "
        "accepts forged messages, rejects valid ones, cannot be reached or does not answer in time."
    )


def _details(finding: Finding, is_open: bool) -> Iterator[str]:
    check, verdict = finding.case, finding.verdict
    word = f"{_WORDS[verdict]}, not judged" if finding.has_unjudged_remark else _WORDS[verdict]
    yield summary(check.name, check.title, verdict, word, is_open=is_open)
    yield f'<div class="inside"><dl><dt>A good receiver</dt><dd>{escape(check.expected_behaviour)}</dd>'
    yield f"<dt>This one</dt><dd>{shown(finding.found.removeprefix('it '))}</dd>"
    if verdict == FAIL:
        yield f"<dt>Weight</dt><dd>{escape(finding.severity)}</dd>"
    yield "</dl>"
    for number, exchange in enumerate(finding.exchanges, 1):
        yield from _exchange(exchange, f"Request {number} of {len(finding.exchanges)}")
    yield "</div></details>"


def _exchange(exchange: Exchange, title: str) -> Iterator[str]:
    request = exchange.raw.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    body = exchange.answer.body.decode("utf-8", "replace")
    answered = f"{escape(exchange.summary)} in {exchange.answer.latency_ms} ms"
    yield f"<details><summary>{title}<span>{answered}</span></summary>"
    yield f'<div class="inside"><pre>{shown(request)}</pre>'
    if body:
        yield f"<h3>Answer</h3><pre>{shown(body)}</pre>"
    yield "</div></details>"
