"""The receiver check: sends 47 difficult callbacks to an endpoint and grades its responses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leyden.devserver.awaited_delivery import deliver, deliver_together
from leyden.devserver.receiver_check.cases import (
    ACCEPTED,
    CASES,
    CRITICAL,
    FORGED,
    IGNORED,
    MINOR,
    REJECTED,
    REPEATED,
    SERIOUS,
    SEVERITIES,
    UNREADABLE,
    VALID,
    Case,
)
from leyden.devserver.receiver_check.session import CheckRefused, CheckSession, KnownIds, TestRequest
from leyden.server.callbacks.egress import EGRESS_NONE, LOOPBACK_ONLY, PRIVATE_NETWORK
from leyden.server.contract.types import Contract
from leyden.server.ports import CallbackResponse, CallbackTransport
from leyden.server.system.clock import random_seed, system_time_ms
from leyden.server.timestamps import to_iso

GRADES = "ABCDF"
PASS, NOTICE, FAIL, SKIPPED = "pass", "notice", "fail", "skipped"
EFFECT = "leyden-effect"  # the header in which a receiver may report what it did: applied or ignored

_EGRESS_RULES = (EGRESS_NONE, LOOPBACK_ONLY, PRIVATE_NETWORK)  # the rules that an option changes
_SERIOUS_FOR_D = 4  # this many serious failures make a D
_UNANSWERED_LIMIT = 3  # unanswered checks in a row after which the run stops
_SLOW_MS = 3_000


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response."""

    sent: TestRequest
    answer: CallbackResponse

    @property
    def effect(self) -> str:
        """What the receiver reports that it did: `applied`, `ignored`, or an empty string."""
        return self.answer.headers.get(EFFECT, "").strip().lower()

    @property
    def summary(self) -> str:
        """The response in a few words."""
        if self.answer.status is not None:
            return str(self.answer.status)
        return f"no answer ({self.answer.error}{': ' if self.answer.note else ''}{self.answer.note})"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    case: Case
    verdict: str
    severity: str
    found: str
    exchanges: Sequence[Exchange] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The findings, the grade with its reason, and hints that follow from several findings."""

    url: str
    secret: str
    started_at: str
    findings: Sequence[Finding]
    grade: str
    why: str
    hints: Sequence[str]

    def count(self, verdict: str) -> int:
        """The number of checks with this verdict."""
        return sum(finding.verdict == verdict for finding in self.findings)

    def reaches(self, grade: str) -> bool:
        """Whether the grade is this one or better."""
        return GRADES.index(self.grade) <= GRADES.index(grade)


async def check_receiver(
    url: str,
    transport: CallbackTransport,
    *,
    secret: str,
    contract: Contract,
    known: KnownIds | None = None,
    only: Iterable[str] | None = None,
    timeout_s: float = 5,
) -> Report:
    """Run all checks (or `only` those of these names) on `url`, one after another, and return the report.

    `timeout_s` is the time limit of each response. Must run in the transport's event loop. Raises `CheckRefused` for
    an unknown name and for a URL that is not a valid `callbackUrl`.
    """
    checks = _selected(only)
    timeout_ms = round(timeout_s * 1_000)
    session = CheckSession(
        url,
        contract=contract,
        secret=secret,
        known=known or KnownIds(),
        now=system_time_ms,
        seed=random_seed(),
        timeout_ms=timeout_ms,
    )
    started_at = to_iso(system_time_ms())
    findings: list[Finding] = []
    unanswered, stopped = 0, False
    for check in checks:
        if stopped:
            findings.append(Finding(check, SKIPPED, check.severity, "not sent: the endpoint does not answer"))
            continue
        finding = _finding(check, await _send(check, check.build(session), transport))
        findings.append(finding)
        unanswered = 0 if _any_answer([finding]) else unanswered + 1
        stopped = unanswered == _UNANSWERED_LIMIT or not _any_answer(findings)
    grade, why = _grade(findings)
    return Report(url, secret, started_at, findings, grade, why, _hints(findings))


def _selected(only: Iterable[str] | None) -> list[Case]:
    if only is None:
        return list(CASES)
    names, known = list(only), [check.name for check in CASES]
    for name in names:
        if name not in known:
            raise CheckRefused(f"there is no check {name!r}: choose from {', '.join(known)}")
    return [check for check in CASES if check.name in names]


async def _send(check: Case, requests: Sequence[TestRequest], transport: CallbackTransport) -> list[Exchange]:
    if check.together:
        answers = await deliver_together(transport, [request.request for request in requests])
    else:
        answers = [await deliver(transport, request.request) for request in requests]
    return [Exchange(request, answer) for request, answer in zip(requests, answers, strict=True)]


def _finding(check: Case, exchanges: Sequence[Exchange]) -> Finding:
    verdict, severity, found = _verdict(check, exchanges)
    return Finding(check, verdict, severity, found, exchanges)


def _verdict(check: Case, exchanges: Sequence[Exchange]) -> tuple[str, str, str]:
    """Verdict, severity and the finding in words."""
    statuses = [exchange.answer.status for exchange in exchanges]
    deed = _behaviour(exchanges)
    wrongly = [number for number, exchange in enumerate(exchanges, 1) if _acted_wrongly(exchange, check)]
    applied = Counter(exchange.sent.request.delivery_id for exchange in exchanges if exchange.effect == "applied")
    times = max(applied.values(), default=0)
    if times > 1:
        return FAIL, check.severity, f"it acted on the same message {times} times, as its {EFFECT} says"
    if wrongly:
        which = f"request {wrongly[0]}" if len(exchanges) > 1 else "it"
        return FAIL, check.severity, f"{deed}, and acted on {which}, as its {EFFECT} says"
    if check.expects == REJECTED:
        if any(_is_status(2, status) for status in statuses):
            return FAIL, check.severity, f"{deed}: the message counts as taken"
        if all(_is_status(4, status) for status in statuses):
            return PASS, check.severity, deed
        return FAIL, MINOR, f"{deed}: not taken, and not refused either"
    if not all(_is_status(2, status) or _is_status(4, status) for status in statuses):
        more = "; redirects are never followed" if any(_is_status(3, status) for status in statuses) else ""
        return FAIL, check.severity, deed + more
    refused = any(_is_status(4, status) for status in statuses)
    if check.expects == ACCEPTED and refused:
        if check.group == REPEATED and check.together and any(_is_status(2, status) for status in statuses):
            return NOTICE, check.severity, f"{deed}: those it refused will be sent again"
        return FAIL, check.severity, f"{deed}: refused messages are sent again for three days"
    if check.expects == IGNORED and refused:
        return NOTICE, check.severity, f"{deed}: refused messages are sent again for three days"
    if check.expects == UNREADABLE and not refused:
        return (
            NOTICE,
            check.severity,
            f"{deed}: that is right if the message is kept for a person to look at; otherwise it is lost",
        )
    slowest = max(exchange.answer.latency_ms - exchange.sent.request.send_duration_ms for exchange in exchanges)
    if slowest > _SLOW_MS:
        return NOTICE, check.severity, f"{deed} after {slowest / 1_000:.1f} s: answer first, work afterwards"
    return PASS, check.severity, deed


def _behaviour(exchanges: Sequence[Exchange]) -> str:
    summaries = dict.fromkeys(exchange.summary for exchange in exchanges if exchange.answer.status is not None)
    unanswered = dict.fromkeys(exchange.summary for exchange in exchanges if exchange.answer.status is None)
    actions = [f"answered {', '.join(summaries)}"] if summaries else []
    return f"it {' and '.join([*actions, *(f'gave {silence}' for silence in unanswered)])}"


def _acted_wrongly(exchange: Exchange, check: Case) -> bool:
    return exchange.effect == "applied" and (exchange.sent.must_ignore or check.expects in (REJECTED, UNREADABLE))


def _any_answer(findings: Sequence[Finding]) -> bool:
    return any(exchange.answer.status is not None for finding in findings for exchange in finding.exchanges)


def _is_status(hundred: int, status: int | None) -> bool:
    return status is not None and status // 100 == hundred


def _grade(findings: Sequence[Finding]) -> tuple[str, str]:
    failed = [finding for finding in findings if finding.verdict == FAIL]
    names = {
        severity: [finding.case.name for finding in failed if finding.severity == severity] for severity in SEVERITIES
    }
    if not _any_answer(findings):
        return "F", f"it cannot be reached: {findings[0].found}"
    if any(finding.verdict == SKIPPED for finding in findings):
        last = next(finding for finding in findings if finding.verdict == SKIPPED)
        return "F", f"it no longer answers: the checks from {last.case.name} on was not sent"
    if names[CRITICAL]:
        forged = any(finding.case.group == FORGED and finding.severity == CRITICAL for finding in failed)
        refused = any(finding.case.group == VALID and finding.severity == CRITICAL for finding in failed)
        actions = ["refuses sound messages"] * refused + ["takes forged messages"] * forged
        return "F", f"it {' and '.join(actions)} ({_first_names(names[CRITICAL])})"
    if len(names[SERIOUS]) >= _SERIOUS_FOR_D:
        return "D", f"{len(names[SERIOUS])} serious failures ({_first_names(names[SERIOUS])})"
    if names[SERIOUS]:
        return "C", f"a serious failure ({_first_names(names[SERIOUS])})"
    if names[MINOR]:
        return "B", f"only small failures ({_first_names(names[MINOR])})"
    return "A", "nothing fails"


def _first_names(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _hints(findings: Sequence[Finding]) -> list[str]:
    exchanges = [exchange for finding in findings for exchange in finding.exchanges]
    statuses = [exchange.answer.status for exchange in exchanges]
    sound = [e.answer.status for finding in findings if finding.case.group == VALID for e in finding.exchanges]
    hints = []
    if any(exchange.answer.note in _EGRESS_RULES for exchange in exchanges):
        hints.append(
            "This machine's policy keeps callbacks from that address, and no connection was opened: see --egress and "
            "--egress-allow."
        )
    if sound and all(_is_status(4, status) for status in sound) and len(sound) > 1:
        hints.append(
            "It refused every sound message. Most likely it verifies with another secret: these were signed with the "
            "one shown above. If it answers 404, it may only take Charges that it knows: say which (internalId, "
            "amount, chargeId)."
        )
    if len(findings) > 1 and statuses and all(_is_status(2, status) for status in statuses):
        hints.append("It answered 2xx to everything: it verifies nothing, or answers before it has verified.")
    if any(status == 410 for status in sound):
        hints.append("It answered 410 to a sound message: that ends all deliveries for the Charge.")
    if any(_is_status(2, status) for status in statuses) and not any(exchange.effect for exchange in exchanges):
        hints.append(
            f"What it did with repeated and contradictory messages does not show from outside. Let it answer with the "
            f"header {EFFECT}: applied or {EFFECT}: ignored while it is checked, and that is judged too."
        )
    return hints
