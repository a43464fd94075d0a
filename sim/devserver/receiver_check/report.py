"""The receiver check's report: for programs as JSON, for terminals as text."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator
from textwrap import wrap
from typing import Any

from leyden.devserver.receiver_check.check import FAIL, NOTICE, PASS, SKIPPED, Exchange, Finding, Report
from leyden.devserver.receiver_check.report_html import report_html
from leyden.devserver.receiver_check.session import raw_request
from leyden.server.version import VERSION

_MARKS = {PASS: "ok  ", NOTICE: "note", FAIL: "FAIL", SKIPPED: "-   "}
_WIDTH = 100
_SHOWN = 700


def report_resource(report: Report, include: Collection[str] = ()) -> dict[str, Any]:
    """The report as JSON; `include` names further forms to carry along, `text` and `html`."""
    return {
        "url": report.url,
        "grade": report.grade,
        "why": report.why,
        "startedAt": report.started_at,
        "version": VERSION,
        "secret": report.secret,
        "counts": {verdict: report.count(verdict) for verdict in (PASS, NOTICE, FAIL, SKIPPED)},
        "hints": list(report.hints),
        "checks": [_finding(finding) for finding in report.findings],
        "text": report_text(report) if "text" in include else None,
        "html": report_html(report) if "html" in include else None,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    check = finding.case
    return {
        "name": check.name,
        "group": check.group,
        "title": check.title,
        "severity": finding.severity,
        "verdict": finding.verdict,
        "good": check.expected_behaviour,
        "found": finding.found,
        "mend": check.fix if finding.verdict in (FAIL, NOTICE) else None,
        "exchanges": [_exchange(exchange) for exchange in finding.exchanges],
    }


def _exchange(exchange: Exchange) -> dict[str, Any]:
    raw, answer = raw_request(exchange.sent.request), exchange.answer
    return {
        "request": raw.decode("utf-8", "backslashreplace"),
        "requestBase64": base64.b64encode(raw).decode(),
        "status": answer.status,
        "error": answer.error,
        "note": answer.note,
        "latencyMs": answer.latency_ms,
        "answer": answer.body.decode("utf-8", "replace"),
    }


def report_text(report: Report) -> str:
    """The report to read in a terminal: a line for each check, then what to fix, with the requests."""
    lines = [
        f"Receiver check of {_plain(report.url)}",
        f"signed with {report.secret}",
        "",
        f"Grade {report.grade}: {_plain(report.why)}",
        ", ".join(f"{report.count(verdict)} {verdict}" for verdict in (PASS, NOTICE, FAIL, SKIPPED)),
    ]
    for hint in report.hints:
        lines += ["", *wrap(hint, _WIDTH)]
    group = ""
    for finding in report.findings:
        if finding.case.group != group:
            group = finding.case.group
            lines += ["", group]
        lines.append(f"  {_MARKS[finding.verdict]}  {finding.case.name:<17} {finding.case.title}")
        if finding.verdict != PASS:
            lines += [f"{'':8}{line}" for line in wrap(_plain(finding.found), _WIDTH - 8)]
    failed = [finding for finding in report.findings if finding.verdict in (FAIL, NOTICE)]
    if failed:
        lines += ["", "What to fix"]
    for finding in failed:
        lines += ["", *_fix(finding)]
    return "\n".join(lines) + "\n"


def _fix(finding: Finding) -> Iterator[str]:
    check = finding.case
    weight = finding.severity if finding.verdict == FAIL else "consider"
    yield f"* {check.name} ({weight}): {check.title}"
    yield from _paragraph("A good receiver", check.expected_behaviour)
    yield from _paragraph("This one", _plain(finding.found).removeprefix("it "))
    yield from _paragraph("How to fix it", check.fix)
    for number, exchange in enumerate(finding.exchanges[:2], 1):
        yield f"    Request {number} of {len(finding.exchanges)}:"
        text = raw_request(exchange.sent.request).decode("utf-8", "backslashreplace")
        shown = text[:_SHOWN] + (f"... ({len(text)} characters in all)" if len(text) > _SHOWN else "")
        yield from (f"      | {_plain(line)}" for line in shown.splitlines())
        yield f"    Answer: {_plain(exchange.summary)} in {exchange.answer.latency_ms} ms"
        body = exchange.answer.body.decode("utf-8", "replace").strip()
        if body:
            yield f"      | {_plain(body[:200])}"


def _paragraph(what: str, text: str) -> list[str]:
    return wrap(f"{what}: {text}", _WIDTH, initial_indent="    ", subsequent_indent="      ")


def _plain(text: str) -> str:
    """The text with control characters escaped: an endpoint chooses it, and a terminal must not obey it."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
