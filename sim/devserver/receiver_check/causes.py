"""Causes: what several findings of a receiver check have in common, each with its correction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urljoin, urlsplit

from leyden.devserver.receiver_check.cases import (
    FORGED,
    MALFORMED,
    ONCE,
    REPEATED,
    SEVERITIES,
    VALID,
    VERIFY_BYTES,
)
from leyden.devserver.receiver_check.cause import CONSIDER, Cause
from leyden.devserver.receiver_check.findings import (
    ACTED,
    BLOCKED,
    FAIL,
    NOTICE,
    SKIPPED,
    SLOW,
    UNRESOLVED,
    Exchange,
    Finding,
    is_redirected,
    is_status,
    seconds,
    what_follows,
)
from leyden.devserver.receiver_check.moment_causes import unlike_before
from leyden.devserver.receiver_check.signature_causes import corrected_by, is_accepted, nothing_verified
from leyden.devserver.receiver_check.size_causes import too_large
from leyden.server.callbacks.deliveries import GONE
from leyden.server.callbacks.egress import before_attempt
from leyden.server.callbacks.url_parts import address_fault
from leyden.server.system.http_client.session import NO_ROUTES

_ANSWER_FIRST = (
    "Answer first, work later: store the message, answer 200, and do the work afterwards. A callback that is not "
    "answered in time is sent again while attempts remain."
)
_OTHER_SECRET = (
    "Most likely it verifies with another secret than the one shown above: give the endpoint's own with --secret "
    "(secret). Without it the command signs with a public example secret, which no server uses; a served sandbox signs "
    f"with its own. {VERIFY_BYTES} If the secret is right, see what else differs. webhook-timestamp is in whole "
    "seconds, not in milliseconds, and five minutes' difference is allowed: without your comparison of the time the "
    "messages then pass. The key is what the base64 after whsec_ stands for. The signature is HMAC-SHA256 in base64, "
    "44 characters: 64 are hexadecimal, 28 or 40 are SHA-1. Signed is id.timestamp.body, with the id of the header "
    "webhook-id, not the body's: print what your code signs."
)
_KNOWN = (
    "If it accepts only Charges that it knows, name one: --internal-id, --amount, --charge-id (internalId, amount, "
    "chargeId)."
)

# The mends of the statuses that say nothing about a message.
_DECLINED = {
    429: (
        "it limits the number of requests",
        "Callbacks of many Charges come at the same time, and each one that is refused is a failed attempt. Raise "
        "the limit for the callbacks' path, or take the path out of it.",
    ),
    503: (
        "it was not available",
        "Look in the log of the endpoint, and of the proxy in front of it, for what was not available. A callback that "
        "is answered so is a failed attempt.",
    ),
}

_KEYS = "The keys are webhook-id and the Charge's id, and paid is final."
# The checks in which it must answer 2xx to what it has acted on already.
_AGAIN = frozenset({"duplicate", "a-day-later", "another-id", "at-once"})
_EMPTY_SECRET = "empty-secret"  # the check whose messages an endpoint without a secret of its own accepts

_MAYBE_SECRET = "If it answers so to a wrong signature, give its secret with --secret (secret)."


def causes_of(url: str, findings: Sequence[Finding]) -> list[Cause]:
    """The causes of all failures and notices, the worst first and among these the common ones; each finding has one
    cause."""
    left = [finding for finding in findings if finding.verdict in (FAIL, NOTICE)]
    causes: list[Cause] = []
    for common in _COMMON:
        cause = common(url, findings, left)
        if cause is not None and cause.findings:
            causes.append(cause)
            left = [finding for finding in left if finding not in cause.findings]
    causes += _by_fix(left)
    order = [*SEVERITIES, CONSIDER]
    return sorted(causes, key=lambda cause: (order.index(cause.severity), not cause.is_common))


def common_outcome(findings: Sequence[Finding]) -> str:
    """The one kind of response that all the findings have, or an empty string. After a late one silence is late too."""
    outcomes = {outcome for finding in findings for outcome in finding.outcomes}
    if SLOW in outcomes:
        outcomes.discard("timeout")
    return outcomes.pop() if len(outcomes) == 1 else ""


def _by_fix(findings: Sequence[Finding]) -> Iterator[Cause]:
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.verdict, corrected_by(finding, findings)), []).append(finding)
    for (_, fix), members in groups.items():
        yield Cause("; ".join(dict.fromkeys(finding.found for finding in members)), fix, members)


# Each returns the cause if it is there; it explains some of the findings `left`.


def _unanswered(url: str, findings: Sequence[Finding], left: Sequence[Finding]) -> Cause | None:
    sent = [finding for finding in findings if finding.exchanges]
    if not sent or sent[-1].is_answered:
        return None
    silent = [finding for finding in sent if not finding.is_answered]
    last = sent[-1].exchanges[-1]
    reached = [finding for finding in sent if not all(_is_unreachable(exchange) for exchange in finding.exchanges)]
    if _is_unreachable(last) and any(finding.is_answered for finding in reached):
        is_explained = not all(_is_judged(exchange) for exchange in reached[-1].exchanges)
        ended = [*silent, reached[-1]] if is_explained else silent
        return _end_of_program(reached[-1], last, [finding for finding in left if finding in ended])
    if SLOW in {outcome for finding in sent for outcome in finding.outcomes}:
        return None
    found, fix = _silence(url, last)
    if len(silent) < len(sent):
        if len(sent) == len(findings):
            return None
        end = sent[len(sent) - _silent_end(sent) :]
        if all(finding.case.group in (FORGED, MALFORMED) for finding in end):
            found = (
                f"it gave no answer since the check {end[0].case.name}, and no valid message follows that one: it "
                f"stopped answering, or it never answers what it refuses: {found}"
            )
            fix = f"Answer 4xx to what does not verify, so that the sender sees that it was refused. {fix}"
        else:
            found = f"it stopped answering at the check {end[0].case.name}: {found}"
    return Cause(found, fix, silent, is_common=True)


def _is_unreachable(exchange: Exchange) -> bool:
    """Whether no connection was possible, so that the endpoint received nothing."""
    error, note = exchange.answer.error, exchange.answer.note
    return error == "refused" or (error == "timeout" and note.startswith("no connection"))


def _is_judged(exchange: Exchange) -> bool:
    """Whether the answer is a success or a refusal, and so a behaviour of its own; not an error of the program."""
    return is_status(2, exchange.answer.status) or is_status(4, exchange.answer.status)


def _end_of_program(finding: Finding, last: Exchange, explained: Sequence[Finding]) -> Cause:
    """An endpoint that cannot be reached since the check of `finding`, which was the last one that it received."""
    received = [exchange for exchange in finding.exchanges if not _is_unreachable(exchange)]
    name, is_complete = finding.case.name, all(exchange.answer.status for exchange in received)
    then = f"{finding.found}, and cannot be reached since ({last.answer.note or last.answer.error})"
    if is_complete:
        found = (
            f"it stopped answering after the check {name}: its program may have ended after its answer to it: {then}"
        )
    else:
        found = f"it stopped answering at the check {name}: its program may have ended when it received it: {then}"
    return Cause(
        found,
        f"Look at what the endpoint printed for the message of the check {name}. Start it again, and send "
        f"that one alone with --only {name} (only).",
        explained,
        is_common=True,
    )


def _silent_end(sent: Sequence[Finding]) -> int:
    """The number of findings at the end without an answer."""
    return next((number for number, finding in enumerate(reversed(sent)) if finding.is_answered), len(sent))


def _silence(url: str, exchange: Exchange) -> tuple[str, str]:
    """The behaviour of an endpoint that gives no answer, and the correction."""
    note, parts = exchange.answer.note, urlsplit(url)
    match exchange.answer.error:
        case _ if exchange.answer.error == BLOCKED:
            reason, _, mend = note.rpartition(": ")  # the egress policy's own explanation
            mend = before_attempt(mend)  # the check has no delivery
            return f"nothing was sent, because the egress policy forbids it: {reason}", f"{mend[:1].upper()}{mend[1:]}."
        case "timeout" if note.startswith("no connection"):
            tls = ", whether the port speaks TLS" if parts.scheme == "https" else ""
            return f"it accepts no connection: {note}", (
                f"Check the host and the port of the URL{tls}, and whether a firewall drops the connection."
            )
        case "timeout":
            waited = seconds(exchange.sent.request.timeout_ms - exchange.sent.request.send_duration_ms)
            return f"it accepts the connection and gives no answer within {waited}", (
                f"Look for what the endpoint waits for: a lock, a queue, another service. {_ANSWER_FIRST}"
            )
        case "refused" if (parts.hostname or "").endswith(".localhost"):
            return f"it cannot be reached: {note}", (
                f"Names below .localhost, such as {parts.hostname}, are Leyden's built-in receivers only inside a "
                "sandbox. Here the name is this machine: give the host and the port of your own endpoint."
            )
        case "refused" if note.endswith(tuple(NO_ROUTES.values())):
            return f"it cannot be reached: {note}", "Give the URL an address to which this machine can connect."
        case "refused":
            return f"it cannot be reached: {note}", "Start the endpoint, and check the host and the port of the URL."
        case _ if exchange.answer.error == UNRESOLVED and address_fault(url):
            return f"nothing was sent, because {note}", "Give the URL a host that is a name or an IP address."
        case _ if exchange.answer.error == UNRESOLVED:
            return f"nothing was sent, because {note}", (
                "Check the host name in the URL, and the name server of this machine. An endpoint outside this machine "
                "also needs --egress public."
            )
        case "tls" if "certificate" in note:
            return note, "Use a certificate that this machine trusts, or an http:// URL on this machine."
        case "tls":
            return note, (
                f"The port does not speak TLS. Use http://{parts.netloc}{parts.path}, or serve TLS on that port."
            )
        case "reset":
            more = " If the port speaks TLS, use an https:// URL." if parts.scheme == "http" else ""
            return "it closes the connection without a complete answer", (
                f"Look in the endpoint's log for an exception or a crash while it handles the message.{more}"
            )
    return f"its answer is not HTTP: {note or exchange.answer.error}", (
        "Check the port of the URL: another program may listen there."
    )


def _late(url: str, findings: Sequence[Finding], left: Sequence[Finding]) -> Cause | None:
    late = [finding for finding in left if SLOW in finding.outcomes and finding.about != ACTED]
    if not late:
        return None
    first = next(exchange for exchange in late[0].exchanges if exchange.is_late)
    limit_ms = first.sent.limit_ms
    found = f"it answers too late: {first.summary} after {seconds(first.answer_ms)}; the limit is {seconds(limit_ms)}"
    also = [finding for finding in left if finding.about != ACTED and _failed_outcomes(finding) <= {SLOW, "timeout"}]
    return Cause(
        found,
        f"{_ANSWER_FIRST} --timeout 15 (timeout) checks with the longest limit.",
        [finding for finding in left if finding in (*late, *also)],
        is_common=len(also) > 1 or any(finding.verdict == SKIPPED for finding in findings),
    )


def _failed_outcomes(finding: Finding) -> set[str]:
    """The kinds of responses that are no 2xx; that of a late one is `slow`. Never empty: all of them, if none is so."""
    return {outcome for outcome in finding.outcomes if not outcome.startswith("2")} or finding.outcomes


def _silent_now_and_then(url: str, findings: Sequence[Finding], left: Sequence[Finding]) -> Cause | None:
    """Messages without an answer within the time, among others with one."""
    sent = [finding for finding in findings if finding.exchanges]
    silent = [finding for finding in sent if any(_is_silent(exchange) for exchange in finding.exchanges)]
    explained = [finding for finding in left if finding in silent and finding.about != ACTED]
    if not explained or len(silent) == len(sent):
        return None
    exchange = next(exchange for exchange in silent[0].exchanges if _is_silent(exchange))
    limit = seconds(exchange.sent.request.timeout_ms - exchange.sent.request.send_duration_ms)
    name = silent[0].case.name
    found = f"it gave no answer within {limit} in {len(silent)} of {len(sent)} checks, first in {name}"
    alone = f"Look also at what it does with that message alone: --only {name} (only)."
    return Cause(found, f"{_ANSWER_FIRST} {alone}", explained, is_common=len(explained) > 1)


def _is_silent(exchange: Exchange) -> bool:
    """Whether the message was sent and had no answer within the time."""
    return exchange.answer.error == "timeout" and not _is_unreachable(exchange)


def _declined(url: str, findings: Sequence[Finding], left: Sequence[Finding]) -> Cause | None:
    declined = [finding for finding in findings if finding.is_declined]
    sent = [finding for finding in findings if finding.exchanges]
    if not declined or (len(declined) == len(sent) and common_outcome(sent)):
        return None
    statuses = {one.answer.status or 0 for finding in declined for one in finding.exchanges if one.is_declined}
    why = " and ".join(_DECLINED[status][0] for status in sorted(statuses))
    found = (
        f"it answered {' or '.join(map(str, sorted(statuses)))} in {len(declined)} of {len(sent)} checks, first in "
        f"{declined[0].case.name}: {why}"
    )
    fix = " ".join(_DECLINED[status][1] for status in sorted(statuses))
    explained = [finding for finding in left if finding in declined and finding.about != ACTED]
    return Cause(found, fix, explained, is_common=True)


def _valid_refused(url: str, findings: Sequence[Finding], left: Sequence[Finding]) -> Cause | None:
    valid = [finding for finding in findings if finding.case.group == VALID and finding.exchanges]
    if not valid or (len(valid) == 1 and valid[0].case.name != "completed"):
        return None
    outcome = common_outcome(valid)
    if not outcome.isdigit() or outcome.startswith("2"):
        return None
    exchange = valid[0].exchanges[0]
    found = f"it answered {outcome} to every valid message"
    more, fix = _refusal(url, exchange)
    explained = [finding for finding in left if finding.outcomes == {outcome} and finding.about != ACTED]
    if empty := [one for one in left if one.case.name == _EMPTY_SECRET and is_accepted(one) and not one.is_right]:
        found, more = f"{found}, and accepts what an empty secret signs", ": its own secret is empty"
        fix, explained = empty[0].case.fix, [*explained, *empty]
    return Cause(found + more, fix, explained, is_common=True)


def _refusal(url: str, exchange: Exchange) -> tuple[str, str]:
    """The meaning of a status other than 2xx, and the correction."""
    status, path = exchange.answer.status or 0, urlsplit(url).path or "/"
    target = exchange.answer.headers.get("location", "")
    if is_redirected(exchange):
        final = urljoin(url, target) if target else "at which the redirect ends"
        return f", a redirect{' to ' if target else ''}{target}: redirects are never followed", (
            f"Give the final URL, {final}, as callbackUrl, or answer at this one."
        )
    if is_status(3, status):
        return ": neither a success nor a redirect", "Answer with a status from 200 to 299."
    if status == 404:
        return "", f"Check the path of the URL, {path}. {_KNOWN} {_MAYBE_SECRET}"
    if status == 405:
        return "", f"Check the path of the URL, {path}: it must accept POST."
    if status == GONE:
        return f": {what_follows([status])}", f"Check the path of the URL, {path}. {_KNOWN} {_MAYBE_SECRET}"
    if status in (401, 403):
        return "", f"{_OTHER_SECRET} If a login or a proxy answers, except the callback's path from it. {_KNOWN}"
    if status in _DECLINED:
        why, fix = _DECLINED[status]
        return f": {why}", fix
    if is_status(5, status):
        return "", (
            "Look in the endpoint's log for the exception; 502 and 504 come from a proxy whose program does not run."
        )
    return "", f"{_OTHER_SECRET} Otherwise look at the body of its answer. {_KNOWN}"


def _acted_twice(url: str, findings: Sequence[Finding], left: Sequence[Finding]) -> Cause | None:
    # Unique keys do not correct the rest: a first message may be one to ignore, too.
    acted = [finding for finding in left if finding.about == ACTED and finding.case.group == REPEATED]
    if len(acted) < 2:
        return None
    return Cause(
        "it acted again on messages that it must ignore, as its leyden-effect says",
        f"{ONCE} {_KEYS}",
        acted,
    )


def _refused_again(url: str, findings: Sequence[Finding], left: Sequence[Finding]) -> Cause | None:
    """Messages about what it has acted on already are refused, and so they are sent again."""
    refused = [finding for finding in left if finding.case.name in _AGAIN and _refuses_the_last(finding)]
    if len(refused) < 2:
        return None
    statuses = dict.fromkeys(
        str(one.answer.status) for finding in refused for one in finding.exchanges if is_status(4, one.answer.status)
    )
    found = f"it answered {' and '.join(statuses)} to messages about what it has acted on already"
    return Cause(f"{found}: {what_follows(map(int, statuses))}", f"{ONCE} {_KEYS}", refused)


def _refuses_the_last(finding: Finding) -> bool:
    statuses = [exchange.answer.status for exchange in finding.exchanges]
    return (
        not finding.about and any(is_status(2, one) for one in statuses) and any(is_status(4, one) for one in statuses)
    )


def _slow(url: str, findings: Sequence[Finding], left: Sequence[Finding]) -> Cause | None:
    slow = [finding for finding in left if finding.about == SLOW]
    slowest = max((exchange.answer_ms for finding in slow for exchange in finding.exchanges), default=0)
    return Cause(f"it answers after up to {seconds(slowest)}", _ANSWER_FIRST, slow)


# In the order in which they explain findings.
_COMMON = (
    _unanswered, _late, _silent_now_and_then, _declined, too_large, _valid_refused, unlike_before, nothing_verified,
    _acted_twice, _refused_again, _slow
)  # fmt: skip
