"""The findings of a receiver check: how the responses to each case are judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from leyden.devserver.receiver_check.cases import (
    ACCEPTED,
    CRITICAL,
    IGNORED,
    MINOR,
    REJECTED,
    REPEATED,
    SERIOUS,
    UNREADABLE,
    Case,
)
from leyden.devserver.receiver_check.session import TestRequest
from leyden.server.callbacks.attempts import is_redirect
from leyden.server.callbacks.deliveries import GONE
from leyden.server.ports import CallbackResponse

# A check is `unjudged` when every answer was right, and does not show what the receiver did, or when no answer would be
# wrong.
VERDICTS = PASS, UNJUDGED, NOTICE, FAIL, SKIPPED = "pass", "unjudged", "notice", "fail", "skipped"
EFFECT, EFFECTS = "leyden-effect", ("applied", "ignored")  # the header in which a receiver may report what it did

# What a finding is about, where several findings may have one cause.
ACTED, SLOW = "acted", "slow"
BLOCKED, UNRESOLVED = "blocked", "unresolved"  # the errors of attempts for which no connection was opened

# Why a forgery is none: HMAC fills a key with zero bytes, so a secret of zero bytes signs as an empty one does.
SAME_KEY = "the endpoint's own secret signs the same: its bytes are all zero, which HMAC takes for an empty key"

# By these statuses an endpoint declines every message for a while, whatever is in it: 429 of a limit, 503 of a service
# that is not available (RFC 6585, 4; RFC 9110, 15.6.4).
DECLINING = (429, 503)

_SLOW_MS = 3_000
# A document of the user's own may have another schedule, or one attempt only.
_SENT_AGAIN = "sent again while attempts remain, by default for three days"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response. `raw` has the bytes of the request; neither they nor the response have the secret."""

    sent: TestRequest
    answer: CallbackResponse
    raw: bytes = b""

    @property
    def effect(self) -> str:
        """The effect that the receiver reports: `applied`, `ignored`, or an empty string."""
        effect = (self.reported_effect or "").strip().lower()
        return effect if effect in EFFECTS else ""

    @property
    def reported_effect(self) -> str | None:
        """The value of the header as it was sent, or None without the header."""
        return self.answer.headers.get(EFFECT)

    @property
    def summary(self) -> str:
        """The response in a few words."""
        if self.answer.status is not None:
            return str(self.answer.status)
        return f"no answer ({self.answer.error}{': ' if self.answer.note else ''}{self.answer.note})"

    @property
    def answer_ms(self) -> int:
        """The time between the end of the request and the end of the response, in ms."""
        return self.answer.latency_ms - self.sent.request.send_duration_ms

    @property
    def is_late(self) -> bool:
        """Whether there is a response, after the time limit."""
        return self.answer.status is not None and self.answer_ms > self.sent.limit_ms

    @property
    def is_declined(self) -> bool:
        """Whether the response is of the moment, and says nothing about the message."""
        return self.answer.status in DECLINING

    @property
    def outcome(self) -> str:
        """The kind of response: `slow` for a late one, otherwise its status or the code of the error."""
        return SLOW if self.is_late else str(self.answer.status or self.answer.error)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `about` is `acted` or `slow` when a wrong effect or a long time is the reason."""

    case: Case
    verdict: str
    severity: str
    found: str
    about: str = ""
    exchanges: Sequence[Exchange] = ()

    @property
    def outcomes(self) -> set[str]:
        """The kinds of responses that it got."""
        return {exchange.outcome for exchange in self.exchanges}

    @property
    def is_answered(self) -> bool:
        """Whether any request got a response."""
        return any(exchange.answer.status is not None for exchange in self.exchanges)

    @property
    def is_declined(self) -> bool:
        """Whether a response is of the moment, and says nothing about its message."""
        return any(exchange.is_declined for exchange in self.exchanges)

    @property
    def example(self) -> Exchange | None:
        """The exchange that shows what was found: the first with a wrong response, or the first one."""
        acted: set[str] = set()
        for exchange in self.exchanges:
            applied = {exchange.sent.request.delivery_id} if exchange.effect == "applied" else set()
            if exchange.is_late or applied & acted or not _is_expected(exchange, self.case):
                return exchange
            acted |= applied
        return self.exchanges[0] if self.exchanges else None

    @property
    def lacks_effect(self) -> bool:
        """Whether the receiver must not act twice here, and does not report what it did."""
        return bool(self.without_effect)

    @property
    def without_effect(self) -> list[Exchange]:
        """The requests that it accepted without reporting what it did, where it must not act twice."""
        requests = [exchange.sent for exchange in self.exchanges]
        ids = [request.request.delivery_id for request in requests]
        if len(set(ids)) == len(ids) and not any(request.must_ignore for request in requests):
            return []
        return [one for one in self.exchanges if is_status(2, one.answer.status) and not one.effect]

    @property
    def is_indistinct(self) -> bool:
        """Whether the effect cannot be judged, because every message is about one Charge."""
        return any(exchange.sent.indistinct for exchange in self.exchanges)

    @property
    def hides_effect(self) -> bool:
        """Whether the answers do not show if the effect is right."""
        return self.lacks_effect or self.is_indistinct

    @property
    def is_right(self) -> bool:
        """Whether a forgery of it is none, because the endpoint's own secret signs in the same way."""
        return self.case.expects == REJECTED and any(exchange.sent.is_right for exchange in self.exchanges)

    @property
    def is_unjudged(self) -> bool:
        """Whether it was sent, and neither passed nor failed: it has this verdict, or a remark besides."""
        return self.verdict == UNJUDGED or self.has_unjudged_remark

    @property
    def has_unjudged_remark(self) -> bool:
        """Whether it has a remark, and hides its effect besides."""
        return self.verdict == NOTICE and self.hides_effect


def judged(case: Case, exchanges: Sequence[Exchange]) -> Finding:
    """The finding that follows from the responses to a case."""
    finding = Finding(case, *_verdict(case, exchanges), exchanges)
    if finding.is_right and all(
        is_status(2, one.answer.status) or is_status(4, one.answer.status) for one in exchanges
    ):
        found = f"{_behaviour(exchanges)}: either is right, because {SAME_KEY}"
        return replace(finding, verdict=UNJUDGED, found=found, about="")
    return replace(finding, verdict=UNJUDGED) if finding.verdict == PASS and finding.hides_effect else finding


def is_status(hundred: int, status: int | None) -> bool:
    """Whether there is a response of this class: 2 for 200 to 299."""
    return status is not None and status // 100 == hundred


def is_redirected(exchange: Exchange) -> bool:
    """Whether the answer is a redirect."""
    return is_redirect(exchange.answer.status or 0, exchange.answer.headers.get("location", ""))


def what_follows(statuses: Iterable[int | None]) -> str:
    """What becomes of the messages that were answered with these statuses, without those of 2xx."""
    refusals = dict.fromkeys(status for status in statuses if status is not None and not is_status(2, status))
    again = [str(status) for status in refusals if status != GONE]
    ends = f"{GONE} ends all callbacks about the Charge to this URL"
    if GONE not in refusals:
        return f"refused messages are {_SENT_AGAIN}"
    return f"{ends}; those refused with {' or '.join(again)} are {_SENT_AGAIN}" if again else ends


def seconds(span_ms: int) -> str:
    """A span in seconds, with one decimal where it is not whole."""
    return f"{span_ms / 1_000:.1f}".removesuffix(".0") + " s"


def _verdict(case: Case, exchanges: Sequence[Exchange]) -> tuple[str, str, str, str]:
    """Verdict, severity, the finding in words, and what it is about."""
    unsent = next((exchange.answer for exchange in exchanges if exchange.answer.error in (BLOCKED, UNRESOLVED)), None)
    if unsent is not None:
        return SKIPPED, case.severity, f"not sent: {unsent.error} ({unsent.note})", ""
    statuses = [exchange.answer.status for exchange in exchanges]
    did = _behaviour(exchanges)
    wrongly = [
        number
        for number, exchange in enumerate(exchanges, 1)
        if _acted_wrongly(exchange, case) and not _is_first_taken(exchanges[:number], case)
    ]
    applied = Counter(exchange.sent.request.delivery_id for exchange in exchanges if exchange.effect == "applied")
    times = max(applied.values(), default=0)
    if times > 1:
        return FAIL, case.severity, f"it acted on the same message {times} times, as its {EFFECT} says", ACTED
    if wrongly:
        which = f"request {wrongly[0]}" if len(exchanges) > 1 else "it"
        return FAIL, case.severity, f"{did}, and acted on {which}, as its {EFFECT} says", ACTED
    if any(exchange.is_late for exchange in exchanges):
        limit_ms = exchanges[0].sent.limit_ms
        severity = SERIOUS if case.severity == CRITICAL else case.severity
        return FAIL, severity, f"{did} after {_slowest(exchanges)}; the limit is {seconds(limit_ms)}", SLOW
    if (
        case.expects != ACCEPTED
        and any(exchange.is_declined for exchange in exchanges)
        and all(exchange.is_declined or is_status(4, exchange.answer.status) for exchange in exchanges)
    ):
        return UNJUDGED, case.severity, f"{did}: that says nothing about the message", ""
    if case.expects == REJECTED:
        if any(is_status(2, status) for status in statuses):
            return FAIL, case.severity, f"{did}: the message counts as accepted", ""
        if all(is_status(4, status) for status in statuses):
            return PASS, case.severity, did, ""
        return FAIL, MINOR, f"{did}: not accepted, and not refused either", ""
    if not all(is_status(2, status) or is_status(4, status) for status in statuses):
        more = "; redirects are never followed" if any(map(is_redirected, exchanges)) else ""
        return FAIL, case.severity, did + more, ""
    refused = any(is_status(4, status) for status in statuses)
    if case.expects == ACCEPTED and refused:
        is_accepted_later = case.together and any(is_status(2, status) for status in statuses) and GONE not in statuses
        verdict = NOTICE if case.group == REPEATED and is_accepted_later else FAIL
        return verdict, case.severity, f"{did}: {what_follows(statuses)}", ""
    if case.expects == IGNORED and refused:
        return NOTICE, case.severity, f"{did}: {what_follows(statuses)}", ""
    if case.expects == UNREADABLE and not refused:
        kept = "that is right if the message is kept for a person to look at; otherwise it is lost"
        return NOTICE, case.severity, f"{did}: {kept}", ""
    if max(exchange.answer_ms for exchange in exchanges) > _SLOW_MS:
        return NOTICE, case.severity, f"{did} after {_slowest(exchanges)}", SLOW
    return PASS, case.severity, did, ""


def _slowest(exchanges: Sequence[Exchange]) -> str:
    return seconds(max(exchange.answer_ms for exchange in exchanges))


def _behaviour(exchanges: Sequence[Exchange]) -> str:
    summaries = dict.fromkeys(exchange.summary for exchange in exchanges if exchange.answer.status is not None)
    unanswered = dict.fromkeys(exchange.summary for exchange in exchanges if exchange.answer.status is None)
    actions = [f"answered {', '.join(summaries)}"] if summaries else []
    silences = [f"gave {silence}" for silence in unanswered]
    in_order = [*silences, *actions] if exchanges[0].answer.status is None else [*actions, *silences]
    return f"it {' and '.join(in_order)}"


def _is_expected(exchange: Exchange, case: Case) -> bool:
    """Whether a response is one that a check of this kind passes with, alone."""
    status = exchange.answer.status
    if _acted_wrongly(exchange, case):
        return False
    return is_status(4, status) if case.expects in (REJECTED, UNREADABLE) else is_status(2, status)


def _is_first_taken(exchanges: Sequence[Exchange], case: Case) -> bool:
    """Whether the last of these is the first that was answered with a 2xx, of a message that is to be ignored because
    of the ones before it: those were refused, or what became of them is not known."""
    *before, last = exchanges
    if case.expects in (REJECTED, UNREADABLE) or not last.sent.must_ignore or not before:
        return False
    return not any(is_status(2, one.answer.status) or one.effect == "applied" for one in before)


def _acted_wrongly(exchange: Exchange, case: Case) -> bool:
    return exchange.effect == "applied" and (exchange.sent.must_ignore or case.expects in (REJECTED, UNREADABLE))
