"""The receiver check's report as one HTML page without scripts, for light and dark colour schemes."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path

from leyden.devserver.receiver_check.check import Report
from leyden.devserver.receiver_check.findings import FAIL, NOTICE, PASS, SKIPPED, Exchange, Finding
from leyden.devserver.receiver_check.session import raw_request

_WORDS = {PASS: "pass", NOTICE: "notice", FAIL: "fail", SKIPPED: "not sent"}

_STYLE = Path(__file__).with_name("report.css").read_text(encoding="utf-8")


def report_html(report: Report) -> str:
    """The page. Everything is escaped, because the endpoint chooses some of the text."""
    return "".join(_page(report))


def _page(report: Report) -> Iterator[str]:
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    # Nothing on this page loads or runs anything, whatever an endpoint may have answered.
    yield "<meta http-equiv=\"content-security-policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    grade = report.grade or "no grade"
    yield f"<title>{escape(grade)}: receiver check of {escape(report.url)}</title>"
    yield f'<style>{_STYLE}</style></head><body><header><div class="top">'
    yield f'<div class="grade {escape(report.grade or "none")}" aria-hidden="true">{escape(report.grade or "-")}</div>'
    yield f'<div><h1>Receiver check</h1><p class="where">{escape(report.url)}</p>'
    yield f"<p><strong>{_shown(report.headline)}</strong></p></div></div>"
    yield '<ul class="counts">'
    for verdict, word in _WORDS.items():
        if report.count(verdict):
            yield f'<li class="tag {verdict}">{report.count(verdict)} {word}</li>'
    yield "</ul>"
    if report.to_check:
        yield f'<p class="hint">{escape(report.to_check)}</p>'
    yield "</header><main>"
    yield from _causes(report)
    sent = (finding for finding in report.findings if finding.exchanges)
    examples = [cause.findings[0] for cause in report.causes]
    for group, members in groupby(sent, lambda finding: finding.case.group):
        findings = list(members)
        failed = sum(finding.verdict == FAIL for finding in findings)
        failures = f" <small>{failed} of {len(findings)} fail</small>" if failed else ""
        yield f"<section><h2>{escape(group)}{failures}</h2>"
        for finding in findings:
            yield from _details(finding, is_open=finding in examples)
        yield "</section>"
    yield f"</main><footer>Signed with <code>{escape(report.secret)}</code>, started at {escape(report.started_at)}. "
    yield "A: no failures. B: only small failures. C: serious failures. D: four or more serious failures. F: it "
    yield "accepts forged messages, rejects valid ones, cannot be reached or does not answer in time.</footer>"
    yield "</body></html>\n"


def _causes(report: Report) -> Iterator[str]:
    if not report.causes:
        return
    yield "<section><h2>What to fix, the worst first</h2>"
    for cause in report.causes:
        cases = [finding.case for finding in cause.findings]
        links = ", ".join(f'<a href="#{escape(case.name)}">{escape(case.name)}</a>' for case in cases)
        first = "First" if cause.is_common else escape(cause.severity.capitalize())
        yield f"<p><strong>{first}</strong>: {_shown(cause.found)}.</p>"
        yield f"<p><strong>How to fix it</strong>: {_shown(cause.fix)} Checks: {links}.</p>"
    yield "</section>"


def _details(finding: Finding, is_open: bool) -> Iterator[str]:
    check, verdict = finding.case, finding.verdict
    yield f'<details id="{escape(check.name)}"{" open" if is_open else ""}><summary>'
    yield f'<span class="tag {verdict}">{_WORDS[verdict]}</span>'
    yield f'<span class="title">{escape(check.title)}</span><code>{escape(check.name)}</code></summary>'
    yield f'<div class="inside"><dl><dt>A good receiver</dt><dd>{escape(check.expected_behaviour)}</dd>'
    yield f"<dt>This one</dt><dd>{_shown(finding.found.removeprefix('it '))}</dd>"
    if verdict == FAIL:
        yield f"<dt>Weight</dt><dd>{escape(finding.severity)}</dd>"
    yield "</dl>"
    for number, exchange in enumerate(finding.exchanges, 1):
        yield from _exchange(exchange, f"Request {number} of {len(finding.exchanges)}")
    yield "</div></details>"


def _exchange(exchange: Exchange, title: str) -> Iterator[str]:
    request = raw_request(exchange.sent.request).decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    body = exchange.answer.body.decode("utf-8", "replace")
    answered = f"{escape(exchange.summary)} in {exchange.answer.latency_ms} ms"
    yield f"<details><summary>{title}<span>{answered}</span></summary>"
    yield f'<div class="inside"><pre>{_shown(request)}</pre>'
    if body:
        yield f"<h3>Answer</h3><pre>{_shown(body)}</pre>"
    yield "</div></details>"


def _shown(text: str) -> str:
    # Direction marks and other invisible characters are shown as what they are, so that they cannot play tricks.
    return escape("".join(char if char.isprintable() or char == "\n" else f"\\u{ord(char):04x}" for char in text))
