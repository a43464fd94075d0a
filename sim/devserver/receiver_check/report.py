"""The receiver check's report: for programs as JSON, for terminals as text."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Sequence
from textwrap import wrap
from typing import Any

from leyden.devserver.receiver_check.cause import Cause
from leyden.devserver.receiver_check.check import Report
from leyden.devserver.receiver_check.findings import FAIL, NOTICE, PASS, SKIPPED, UNJUDGED, VERDICTS, Exchange, Finding
from leyden.devserver.receiver_check.report_html import report_html
from leyden.server.version import VERSION

_COUNTED = {PASS: "pass", UNJUDGED: "not judged", NOTICE: "with a remark", FAIL: "fail", SKIPPED: "not sent"}
_WIDTH = 100
_SHOWN = 160
_NAMES = 8


def report_resource(report: Report, include: Collection[str] = ()) -> dict[str, Any]:
    """The report as JSON; `include` names further forms to carry along, `text` and `html`."""
    return {
        "url": report.url,
        "grade": report.grade,
        "why": report.why,
        "startedAt": report.started_at,
        "version": VERSION,
        "secret": report.secret,
        "counts": {verdict: report.count(verdict) for verdict in VERDICTS}
        | {"noticeUnjudged": report.unjudged_remarks},
        "causes": [_cause(cause) for cause in report.causes],
        "notChecked": list(report.not_checked),
        "checks": [_finding(finding) for finding in report.findings],
        "text": report_text(report, "`checks` of the response has every request with its answer.")
        if "text" in include
        else None,
        "html": report_html(report) if "html" in include else None,
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {"severity": cause.severity, "found": cause.found, "mend": cause.fix, "checks": cause.checks}


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
        "exchanges": [_exchange(exchange) for exchange in finding.exchanges],
    }


def _exchange(exchange: Exchange) -> dict[str, Any]:
    raw, answer = exchange.raw, exchange.answer
    return {
        "request": raw.decode("utf-8", "backslashreplace"),
        "requestBase64": base64.b64encode(raw).decode(),
        "status": answer.status,
        "error": answer.error,
        "note": answer.note,
        "latencyMs": answer.latency_ms,
        "answer": answer.body.decode("utf-8", "replace"),
    }


def report_text(
    report: Report, details: str = "--html FILE and --json FILE write every request with its answer."
) -> str:
    """The report to read in a terminal: the grade, each cause once with its correction, and one request."""
    counts = {verdict: (report.count(verdict), words) for verdict, words in _COUNTED.items()}
    if report.unjudged_remarks:
        counts[NOTICE] = (counts[NOTICE][0], f"{counts[NOTICE][1]} ({report.unjudged_remarks} of them not judged)")
    common = [cause for cause in report.causes if cause.is_common]
    others = [cause for cause in report.causes if not cause.is_common]
    lines = [
        f"Receiver check of {_plain(report.url)}",
        f"signed with {report.secret}",
        "",
        *_wrapped(_plain(report.headline), "  "),
        f"{len(report.findings)} {'check' if len(report.findings) == 1 else 'checks'}: "
        + ", ".join(f"{count} {words}" for count, words in counts.values() if count),
    ]
    for cause in common:
        if cause.found not in report.why:
            lines += ["", *_wrapped(f"{_explained(report, cause)}: {_plain(cause.found)}", "  ")]
        lines += ["", *_wrapped(f"How to fix it: {_plain(cause.fix)}", "  "), *_answer(cause.findings, is_named=True)]
    for number, cause in enumerate(others, 1):
        lines += ["", *_cause_text(cause, f"{number}. " if len(others) > 1 else "")]
    if others and not common:
        lines += ["", *_request(others[0].findings[0])]
    if report.to_check:
        lines += ["", *_wrapped(report.to_check)]
    passed = [f"{group.lower()} {passed} of {count}" for group, passed, _, count in report.groups]
    if passed:
        lines += ["", *_wrapped(f"Passed: {', '.join(passed)}.")]
    unjudged = ", ".join(finding.case.name for finding in report.findings if finding.verdict == UNJUDGED)
    if unjudged:
        lines += ["", *_wrapped(f"Sent and not judged: {unjudged}.")]
    remarks = ", ".join(finding.case.name for finding in report.findings if finding.has_unjudged_remark)
    if remarks:
        lines += ["", *_wrapped(f"Sent and not judged, with a remark: {remarks}.")]
    lines += ["", details]
    return "\n".join(lines) + "\n"


def _explained(report: Report, cause: Cause) -> str:
    """What a common cause explains that the headline does not state."""
    failed, count = len(cause.failures), report.count(FAIL)
    if not failed:
        remarks = len(cause.findings)
        return f"It has {remarks} {'remark' if remarks == 1 else 'remarks'} for one reason"
    if any(other.is_common and other.found in report.why for other in report.causes):
        return "It also fails otherwise"
    if failed == count:
        return f"The cause of {('the failure', 'both failures')[count - 1] if count < 3 else f'all {count} failures'}"
    return f"The cause of {failed} of the {count} failures"


def _cause_text(cause: Cause, number: str) -> Iterator[str]:
    failed = [finding.case.name for finding in cause.failures]
    others = [name for name in cause.checks if name not in failed]
    also = f"; with a remark: {_names(others)}" if failed and others else ""
    yield from _wrapped(f"{number}{_names(failed or others)} ({cause.severity}){also}", "    ")
    good = {finding.case.expected_behaviour for finding in cause.findings}
    yield from _paragraph("This receiver", _plain(cause.found).removeprefix("it "))
    if len(good) == 1:
        yield from _paragraph("A good one", good.pop())
    yield from _paragraph("How to fix it", _plain(cause.fix))


def _names(checks: Sequence[str]) -> str:
    more = f" and {len(checks) - _NAMES} more" if len(checks) > _NAMES else ""
    return ", ".join(checks[:_NAMES]) + more


def _request(finding: Finding) -> Iterator[str]:
    exchange = finding.example or finding.exchanges[0]
    request = exchange.raw.decode("utf-8", "backslashreplace")
    head, _, body = request.partition("\r\n\r\n")
    yield f"For example {finding.case.name}: {finding.case.title}"
    yield from (f"  | {_plain(line)}" for line in [*head.splitlines(), "", _cut(body)])
    yield from _answer([finding])


def _answer(findings: Sequence[Finding], *, is_named: bool = False) -> Iterator[str]:
    """The first answer that shows what was found: its status, its time and the beginning of its body. With `is_named`,
    the check that it belongs to comes first."""
    examples = [one for finding in findings if (one := finding.example) is not None]
    exchange = next((one for one in examples if one.answer.status is not None), None)
    if exchange is None:
        return
    if is_named:
        case = next(finding.case for finding in findings if finding.example is exchange)
        yield f"For example {case.name}: {case.title}"
    yield f"  Answer: {exchange.summary} in {exchange.answer.latency_ms} ms"
    body = exchange.answer.body.decode("utf-8", "replace").strip()
    if body:
        yield f"  | {_plain(_cut(body))}"


def _cut(text: str) -> str:
    return text[:_SHOWN] + (f"... ({len(text)} characters)" if len(text) > _SHOWN else "")


def _paragraph(what: str, text: str) -> list[str]:
    return [f"    {line}" for line in _wrapped(f"{what}: {text}", "  ")]


def _wrapped(text: str, indent: str = "") -> list[str]:
    return wrap(text, _WIDTH - 4, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _plain(text: str) -> str:
    """The text with control characters escaped: an endpoint chooses it, and a terminal must not obey it."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
