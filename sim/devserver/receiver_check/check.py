"""The receiver check: makes 47 checks on an endpoint with difficult callbacks and grades its responses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from leyden.arguments import hint
from leyden.devserver.awaited_delivery import deliver, deliver_together
from leyden.devserver.receiver_check.cases import CASES, CRITICAL, FORGED, MINOR, SERIOUS, VALID, Case
from leyden.devserver.receiver_check.cause import Cause
from leyden.devserver.receiver_check.causes import causes_of, common_outcome
from leyden.devserver.receiver_check.findings import (
    BLOCKED,
    EFFECT,
    EFFECTS,
    FAIL,
    PASS,
    SAME_KEY,
    SKIPPED,
    UNJUDGED,
    UNRESOLVED,
    Exchange,
    Finding,
    judged,
)
from leyden.devserver.receiver_check.session import CheckRefused, CheckSession, KnownIds, TestRequest, raw_request
from leyden.devserver.secret_texts import Secrets
from leyden.server.callbacks.egress import NO_LOOKUP
from leyden.server.contract.types import Contract
from leyden.server.ports import CallbackResponse, CallbackTransport
from leyden.server.printable import masked, printable
from leyden.server.system.clock import random_seed, system_time_ms
from leyden.server.timestamps import to_iso

GRADES = "ABCDF"

_SERIOUS_FOR_D = 4  # this many serious failures make a D
_SAME_LIMIT = 3  # so many unanswered checks in a row, or equal refusals at the start, end the run
# The first message may be answered late, by this factor of the time limit: a late answer is another defect than none.
_PATIENCE = 3
_LONGEST_MS = 15_000
_SHOWN_VALUE = 40  # characters of an unknown value


@dataclass(frozen=True, slots=True)
class Report:
    """The findings, their causes, and the grade with its reason.

    `grade` is None when nothing was sent, or when the time ended before a check had passed or failed. `not_checked`
    names the checks that were not sent, and those that were sent and not judged; `to_check` says what makes them
    judgeable, if the receiver can do something. `secret` is masked, as in all that the endpoint answered.
    """

    url: str
    secret: str
    started_at: str
    findings: Sequence[Finding]
    causes: Sequence[Cause]
    grade: str | None
    why: str
    not_checked: Sequence[str]
    to_check: str

    @property
    def headline(self) -> str:
        """The grade and its reason in one sentence."""
        if self.grade is None:
            return f"No grade: {self.why}"
        return (
            f"Grade {self.grade}{' for what was checked' if self.not_checked and self.grade != 'F' else ''}: {self.why}"
        )

    def count(self, verdict: str) -> int:
        """The number of checks with this verdict."""
        return sum(finding.verdict == verdict for finding in self.findings)

    @property
    def groups(self) -> list[tuple[str, int, int, int]]:
        """Each group of which a message was sent: its name, how many of its checks passed and how many failed, and how
        many it has."""
        found = []
        for group, members in groupby(self.findings, lambda finding: finding.case.group):
            verdicts = [finding.verdict for finding in members]
            if set(verdicts) != {SKIPPED}:
                found.append((group, verdicts.count(PASS), verdicts.count(FAIL), len(verdicts)))
        return found

    @property
    def unjudged_remarks(self) -> int:
        """The number of checks that have a remark and are not judged besides."""
        return sum(finding.has_unjudged_remark for finding in self.findings)

    def reaches(self, grade: str) -> bool:
        """Whether there is a grade, and it is this one or better."""
        return self.grade is not None and GRADES.index(self.grade) <= GRADES.index(grade)


async def check_receiver(
    url: str,
    transport: CallbackTransport,
    *,
    secret: str,
    contract: Contract,
    known: KnownIds | None = None,
    only: Iterable[str] | None = None,
    timeout_s: float = 5,
    run_s: float | None = None,
) -> Report:
    """Run all checks (or `only` those of these names) on `url`, one after another, and return the report.

    `timeout_s` is the time limit of each response. The run ends early when the endpoint cannot be reached, and when it
    refuses the first valid messages in the same way. When the responses have taken `run_s` seconds, no further check
    begins, and the report names those that are left. Must run in the transport's event loop. Raises `CheckRefused` for
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
    hidden = Secrets(webhook_secrets=[secret], show=_shown)
    findings: list[Finding] = []
    spent_ms, is_out_of_time = 0, False
    for check in checks:
        if _shows_nothing_new(findings):
            break
        is_out_of_time = run_s is not None and spent_ms >= run_s * 1_000
        if is_out_of_time:
            break
        requests = check.build(session)
        if not findings:
            requests = [_with_patience(request) for request in requests]
        exchanges = await _send(check, requests, transport, hidden)
        spent_ms += (max if check.together else sum)(exchange.answer.latency_ms for exchange in exchanges)
        findings.append(judged(check, exchanges))
    unsent = len(checks) - len(findings)
    if is_out_of_time:
        reason = f"not sent: the time of the run, {run_s:g} s, ended before it"
    elif any(finding.is_answered for finding in findings[-_SAME_LIMIT:]):
        reason = "not sent: the first valid messages were refused in the same way"
    else:
        reason = "not sent: the messages before it had no answer"
    findings += [Finding(check, SKIPPED, check.severity, reason) for check in checks[len(findings) :]]
    causes = causes_of(hidden.text(url), findings)
    sent = findings[: len(findings) - unsent] if is_out_of_time else findings
    grade, why = _grade(sent, causes)
    not_checked, because, to_check = _not_checked(sent)
    if is_out_of_time:
        not_checked += [check.name for check in checks[len(sent) :]]
        if grade == "A" and not any(finding.verdict == PASS for finding in sent):
            grade, why = None, f"no check passed, and {len(sent)} of {len(findings)} were sent"
        why = f"{why}; {unsent} checks not sent, because no check begins after {run_s:g} s"
        limit = "`leyden receiver-check` has no limit of the whole run; `--only` (only) selects checks."
        to_check = f"{limit} {to_check}".rstrip()
    if because and grade != "F":
        why = f"{why}; {because}"
    return Report(
        hidden.text(url), masked_secret(secret), started_at, findings, causes, grade, why, not_checked, to_check
    )


def masked_secret(secret: str) -> str:
    """A webhook secret as reports show it: recognized by who knows it, and useless to others."""
    key = secret.removeprefix("whsec_")
    return f"whsec_{key[:4]}...{key[-4:]}" if len(key) >= 32 else "whsec_..."


def _shown(secret: str) -> str:
    return masked_secret(secret) if secret.startswith("whsec_") else masked(secret)


def _selected(only: Iterable[str] | None) -> list[Case]:
    if only is None:
        return list(CASES)
    names, known = list(only), [check.name for check in CASES]
    for name in names:
        if name not in known:
            raise CheckRefused(f"there is no check {name!r}: {hint(name, known)}")
    return [check for check in CASES if check.name in names]


def _shows_nothing_new(sent: Sequence[Finding]) -> bool:
    """Whether further messages would only repeat what is known: no connection, no answer, or always one refusal."""
    if not sent:
        return False
    if not any(finding.is_answered for finding in sent) or not any(f.is_answered for f in sent[-_SAME_LIMIT:]):
        return len(sent) >= _SAME_LIMIT or not sent[0].is_answered
    if len(sent) != _SAME_LIMIT or any(finding.case.group != VALID or finding.verdict != FAIL for finding in sent):
        return False
    return bool(common_outcome(sent))


def _with_patience(request: TestRequest) -> TestRequest:
    send_ms = request.request.send_duration_ms
    timeout_ms = max(request.limit_ms, min(request.limit_ms * _PATIENCE, _LONGEST_MS)) + send_ms
    return replace(request, request=request.request._replace(timeout_ms=timeout_ms))


async def _send(
    check: Case, requests: Sequence[TestRequest], transport: CallbackTransport, hidden: Secrets
) -> list[Exchange]:
    if check.together:
        answers = await deliver_together(transport, [request.request for request in requests])
    else:
        answers = [await deliver(transport, request.request) for request in requests]
    pairs = zip(requests, map(_with_kind, answers), strict=True)
    return [
        Exchange(sent, _without_secrets(answer, hidden), hidden.body(raw_request(sent.request)))
        for sent, answer in pairs
    ]


def _without_secrets(answer: CallbackResponse, hidden: Secrets) -> CallbackResponse:
    """The response as reports may show it."""
    headers = {name: hidden.text(value) for name, value in answer.headers.items()}
    return answer._replace(headers=headers, body=hidden.body(answer.body), note=hidden.text(answer.note))


def _with_kind(answer: CallbackResponse) -> CallbackResponse:
    """The response; that of an attempt whose time ended before its name had an address is `unresolved`: nothing was
    sent."""
    is_lookup = answer.error == "timeout" and answer.note.startswith(NO_LOOKUP)
    return answer._replace(error=UNRESOLVED) if is_lookup else answer


def _grade(findings: Sequence[Finding], causes: Sequence[Cause]) -> tuple[str | None, str]:
    common = next((cause.found for cause in causes if cause.is_common), "")
    unsent = [finding.case.name for finding in findings if finding.outcomes & {BLOCKED, UNRESOLVED}]
    if unsent:
        answered = any(finding.is_answered for finding in findings)
        return None, f"not every message could be sent ({_first_names(unsent)})" if answered else common
    if any(finding.verdict == SKIPPED for finding in findings) or not any(finding.is_answered for finding in findings):
        return "F", common
    names = {
        severity: [f.case.name for f in findings if f.verdict == FAIL and f.severity == severity]
        for severity in (CRITICAL, SERIOUS, MINOR)
    }
    if names[CRITICAL]:
        groups = {f.case.group for f in findings if f.verdict == FAIL and f.severity == CRITICAL}
        actions = ["refuses valid messages"] * (VALID in groups) + ["accepts forged messages"] * (FORGED in groups)
        worst = next((cause.found for cause in causes if cause.is_common and cause.severity == CRITICAL), "")
        return "F", worst or f"it {' and '.join(actions)} ({_first_names(names[CRITICAL])})"
    if len(names[SERIOUS]) >= _SERIOUS_FOR_D:
        return "D", f"{len(names[SERIOUS])} serious failures ({_first_names(names[SERIOUS])})"
    if names[SERIOUS]:
        several = len(names[SERIOUS]) > 1
        what = f"{len(names[SERIOUS])} serious failures" if several else "a serious failure"
        return "C", f"{what} ({_first_names(names[SERIOUS])})"
    if names[MINOR]:
        return "B", f"only small failures ({_first_names(names[MINOR])})"
    return "A", "nothing fails"


def _first_names(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _not_checked(findings: Sequence[Finding]) -> tuple[list[str], str, str]:
    """The checks without a complete judgement, the reason in a clause, and what the receiver can do about it."""
    declined = [finding for finding in findings if finding.verdict == UNJUDGED and finding.is_declined]
    unjudged = [
        finding for finding in findings if finding.is_unjudged and not finding.is_right and finding not in declined
    ]
    right = [finding.case.name for finding in findings if finding.verdict == UNJUDGED and finding.is_right]
    names = [finding.case.name for finding in findings if finding.verdict == SKIPPED or finding.is_unjudged]
    if not unjudged + right + declined or any(finding.verdict == SKIPPED for finding in findings):
        return names, "", ""
    statuses = sorted({one.outcome for finding in declined for one in finding.exchanges if one.is_declined})
    refused = _clause([one.case.name for one in declined], f"it answered {' and '.join(statuses)} to them")
    every = "Let the endpoint answer every message while it is checked." if declined else ""
    same_key = _clause(right, SAME_KEY)
    other_secret = "Give the endpoint a secret of random bytes: anybody can sign as this one does." if right else ""
    if not unjudged:
        return names, "; ".join(filter(None, [refused, same_key])), " ".join(filter(None, [every, other_secret]))
    silent = [finding for finding in unjudged if finding.lacks_effect]
    if silent:
        unknown = _unknown_effects(silent)
        reason = _lacking_effect(findings, unknown)
        answer = (
            f"Let the endpoint write one of the values that are known, {' or '.join(EFFECTS)}, into the header {EFFECT}"
            if unknown
            else f"Let the endpoint answer with the header {EFFECT}: {f' or {EFFECT}: '.join(EFFECTS)}"
        )
        to_check = (
            "A status does not show whether a message had an effect that it must not have, such as a second credit. "
            f"{answer} while it is checked, and that is judged too."
        )
    else:
        reason = "all messages are about the one Charge that the endpoint knows"
        to_check = (
            "To check them, let the endpoint accept Charges that it does not know, and leave out the Charge's id."
        )
    because = _clause([finding.case.name for finding in unjudged], reason)
    return (
        names,
        "; ".join(filter(None, [because, refused, same_key])),
        " ".join(filter(None, [to_check, every, other_secret])),
    )


def _clause(names: Sequence[str], reason: str) -> str:
    """What is said of checks that were not judged; empty if there are none."""
    return f"{_first_names(names)} not judged, because {reason}" if names else ""


def _unknown_effects(silent: Sequence[Finding]) -> list[str]:
    """The values of the header with the effect that are not known."""
    reported = (exchange.reported_effect for finding in silent for exchange in finding.without_effect)
    return list(dict.fromkeys(value[:_SHOWN_VALUE] for value in reported if value is not None))


def _lacking_effect(findings: Sequence[Finding], unknown: Sequence[str]) -> str:
    """Why the answers do not show what the receiver did."""
    if unknown:
        values = _first_names([f'"{printable(value)}"' for value in unknown])
        return f"its header {EFFECT} says {values}: the values that are known are {' and '.join(EFFECTS)}"
    some = any(exchange.effect for finding in findings for exchange in finding.exchanges)
    return f"{'some of ' if some else ''}its answers have no header {EFFECT}"
