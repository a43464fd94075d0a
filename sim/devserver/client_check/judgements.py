"""Judgements of the client's runs: rules for every run, and rules for the fault of its case."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from statistics import median_high
from typing import NamedTuple

from leyden.devserver.client_check.crashes import Crash, exit_text, find_crash, is_misuse, json_error
from leyden.devserver.client_check.mistakes import (
    AT_ONCE_MS,
    BELIEVES_FIRST_READ,
    CRASHES,
    DOES_NOT_END,
    ENDLESS_RETRIES,
    ENDS_AT_409,
    FAILS_AFTER_REPETITION,
    FALSE_SUCCESS,
    FEWEST_ATTEMPTS,
    FEWEST_READS,
    GIVES_UP,
    IGNORES_CONTENT_TYPE,
    IGNORES_RETRY_AFTER,
    KEY_WITH_ANOTHER_BODY,
    MINOR,
    MOST_ATTEMPTS,
    POLLS_WITHOUT_PAUSE,
    READS_HTML_AS_JSON,
    READS_NOTHING_AS_JSON,
    REJECTS_UNKNOWN_FIELDS,
    REPEATS_REFUSED_REQUEST,
    RETRIES_WITHOUT_PAUSE,
    SECOND_CHARGE_WITH_NEW_KEY,
    SECOND_CHARGE_WITHOUT_KEY,
    SHOWS_API_KEY,
    TAKES_DATE_FOR_THE_TIME,
    UNHANDLED_HTTP_ERROR,
    Mistake,
)
from leyden.devserver.client_check.repetitions import pauses_ms, repetitions, reused_key
from leyden.devserver.client_check.runs import CHARGES, Run

# From the best to the worst.
SKIPPED, PASS, NOTICE, FAIL = VERDICTS = ("skipped", "pass", "notice", "fail")

RETRY_AFTER_S = 2
NOT_EXERCISED = "not exercised: "
_EARLY_MS = 100  # a client's clock and the server's need not agree to the millisecond
_ENDLESS = 2  # fewer repetitions are no evidence of repetitions without an end
_SHOWN, _SHOWN_RESPONSES = 100, 5


class Judgement(NamedTuple):
    """The judgement of a run: the verdict, the actions of the client, and its mistake, if there is one."""

    verdict: str
    found: str
    mistake: Mistake | None = None

    @property
    def severity(self) -> str:
        """That of the mistake; an empty text without one."""
        return "" if self.mistake is None else self.mistake.severity

    @property
    def mend(self) -> str:
        """The correction."""
        return "" if self.mistake is None else self.mistake.mend


def mistaken(mistake: Mistake, found: str) -> Judgement:
    """The judgement of a run with this mistake."""
    return Judgement(NOTICE if mistake.severity == MINOR else FAIL, found, mistake)


def not_exercised(why: str) -> Judgement:
    """The judgement of a run that shows nothing about its case."""
    return Judgement(SKIPPED, NOT_EXERCISED + why)


class Succeeds:
    """The run ends with success. `json` is the mistake when it reads a body that is no JSON."""

    def __init__(self, json: Mistake | None = None) -> None:
        self._json = json

    def __call__(self, run: Run, wanted: int) -> Judgement:
        if run.exit_status == 0:
            return _success(run, wanted)
        return _failure(run, wanted, self._json)


def _success(run: Run, wanted: int) -> Judgement:
    """The judgement of a run that ended with exit status 0."""
    if run.charges >= wanted and run.is_informed(wanted):
        sent = len(run.creations)
        return Judgement(PASS, f"it succeeded, with {sent} {'request' if sent == 1 else 'requests'} for a Charge")
    if not run.requests:
        return mistaken(FALSE_SUCCESS, "it reported success, and no request of it arrived")
    if wanted > 1:
        return mistaken(FALSE_SUCCESS, f"it reported success, and no answers told it of all of its {wanted} Charges")
    return mistaken(FALSE_SUCCESS, "it reported success, and no answer said that the Charge is created")


def _failure(run: Run, wanted: int, json: Mistake | None = None) -> Judgement:
    """The judgement of a run that ended with an error, by what its output and its requests prove."""
    crash, attempts = find_crash(run.output, run.exit_status), run.attempts(wanted)
    is_repeated = len(attempts) > 1
    # A client that repeated its request has gone on after an error that it wrote: only its last one ended it.
    last = ("" if crash is None else crash.text) if is_repeated else run.output
    parser = None if json is None else json_error(last)
    if json is not None and parser is not None:
        how = _ended(run) if crash is None else "it crashed"
        return mistaken(json, f"{how}: {_short(parser if crash is None else crash.text)}")
    reused = reused_key(run)
    if reused is not None and reused.is_refused and (crash is None or str(HTTPStatus.CONFLICT.value) in crash.text):
        return mistaken(KEY_WITH_ANOTHER_BODY, f"{reused.found}; {_how_it_ended(run)}")
    if crash is not None:
        return mistaken(UNHANDLED_HTTP_ERROR if _names_status(crash, run) else CRASHES, _how_it_ended(run))
    if is_repeated:
        statuses = ", ".join(str(request.status or "none") for request in attempts[:_SHOWN_RESPONSES])
        more = ", ..." if len(attempts) > _SHOWN_RESPONSES else ""
        found = f"it sent the request {len(attempts)} times (the responses: {statuses}{more}), and {_ended(run, '')}"
        return mistaken(FAILS_AFTER_REPETITION, found)
    return mistaken(GIVES_UP, f"it did not repeat the request that failed, and {_ended(run, '')}")


def _names_status(crash: Crash, run: Run) -> bool:
    """Whether an exception names the status of an error response that the client got."""
    numbers = set(re.findall(r"\b[45]\d\d\b", crash.text))
    return any(str(request.status) in numbers for request in run.requests if request.status is not None)


def _ended(run: Run, subject: str = "it ") -> str:
    return f"{subject}ended {_exit(run)}"


def _exit(run: Run) -> str:
    assert run.exit_status is not None  # a run that did not end has a judgement of its own
    return f"{'by' if run.exit_status < 0 else 'with'} {exit_text(run.exit_status)}"


def _how_it_ended(run: Run) -> str:
    crash = find_crash(run.output, run.exit_status)
    return _ended(run) if crash is None else f"it crashed: {_short(crash.text)}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


succeeds = Succeeds()
reads_no_html = Succeeds(json=READS_HTML_AS_JSON)
reads_no_empty_body = Succeeds(json=READS_NOTHING_AS_JSON)


class AcceptsChange:
    """The run succeeds, whatever the fault changes in the responses; `mistake` if it does not."""

    def __init__(self, mistake: Mistake) -> None:
        self._mistake = mistake

    def __call__(self, run: Run, wanted: int) -> Judgement:
        if run.exit_status == 0:
            return _success(run, wanted)
        return mistaken(self._mistake, _how_it_ended(run))


ignores_date = AcceptsChange(TAKES_DATE_FOR_THE_TIME)


def ignores_unknown_fields(run: Run, wanted: int) -> Judgement:
    """The run reads answers with unknown fields; the id of a Charge in its requests or its output shows that."""
    judged = AcceptsChange(REJECTS_UNKNOWN_FIELDS)(run, wanted)
    if judged.verdict == PASS and not run.uses_charge and not run.reads_after_failure:
        return not_exercised("nothing shows that it reads an answer; let it print the id of its Charge")
    return judged


def repeats_after_409(run: Run, wanted: int) -> Judgement:
    """The run repeats its request again after the 409 for its first repetition."""
    judged = succeeds(run, wanted)
    if judged.mistake in (FALSE_SUCCESS, KEY_WITH_ANOTHER_BODY):
        return judged
    attempts = run.attempts(wanted)
    # Only the 409 of the fault says that the first request is in progress.
    conflicts = [one for one in attempts if one.status == HTTPStatus.CONFLICT and one.is_faulty]
    if not conflicts:
        return not_exercised("it did not repeat the request with its key after the lost answer, and so got no 409")
    if judged.verdict != PASS and attempts[-1] is conflicts[-1]:
        return mistaken(ENDS_AT_409, f"it did not repeat the request after the 409; {_how_it_ended(run)}")
    return judged


def is_refused(run: Run, wanted: int) -> Judgement:
    """The run ends with an error, and does not repeat what was refused."""
    if run.exit_status == 0:
        return mistaken(FALSE_SUCCESS, "it reported success, and every request was refused")
    repeated = _repeated(run, wanted)
    if repeated is not None:
        return mistaken(REPEATS_REFUSED_REQUEST, repeated)
    crash = find_crash(run.output, run.exit_status)
    if crash is not None and is_misuse(crash):
        return mistaken(CRASHES, f"it crashed: {_short(crash.text)}")
    return Judgement(PASS, "it did not repeat the request, and ended with an error")


def _repeated(run: Run, wanted: int) -> str | None:
    """A text about a run that sent a refused request again; None for another run."""
    for one in repetitions(run, wanted):
        if one.are_any:
            first, sent = one.requests[0], len(one.requests)
            if first.method == "POST" and one.needed > 1:
                return f"it sent {sent} requests for {one.needed} Charges, and they were refused"
            what = "the refused request" if first.method == "POST" else f"the refused {first.method} {first.path}"
            return f"it sent {what} {sent} times"
    return None


def waits(run: Run, wanted: int) -> Judgement:
    """The run repeats its request after the time that `Retry-After` says."""
    failed, again = run.failed_creation, run.repetition(wanted)
    if failed is None or again is None:
        return succeeds(run, wanted)
    waited_ms = again.at_ms - failed.at_ms
    if waited_ms < RETRY_AFTER_S * 1_000 - _EARLY_MS:
        found = f"it waited {waited_ms} ms, and Retry-After was {RETRY_AFTER_S} s"
        return mistaken(IGNORES_RETRY_AFTER, found)
    judged = succeeds(run, wanted)
    return judged._replace(found=f"it succeeded after {waited_ms} ms") if judged.verdict == PASS else judged


def ends(run: Run, wanted: int) -> Judgement:
    """The run ends with an error while the service is down, after some attempts with pauses."""
    if run.exit_status == 0:
        return mistaken(FALSE_SUCCESS, "it reported success, and every request failed")
    # What it sends first fails, and so nothing else is sent: but a client may begin with a read.
    longest = max(repetitions(run, wanted), key=lambda one: len(one.requests))
    requests = longest.requests
    if not longest.are_any:
        return _failure(run, wanted)
    if len(requests) > MOST_ATTEMPTS * longest.needed:
        return mistaken(ENDLESS_RETRIES, f"it sent {len(requests)} requests")
    pauses = pauses_ms(requests)
    if len(pauses) >= FEWEST_ATTEMPTS - 1 and (pause_ms := median_high(pauses)) < AT_ONCE_MS:
        found = f"it sent {len(requests)} requests, with a median pause of {pause_ms} ms after an answer"
        return mistaken(RETRIES_WITHOUT_PAUSE, found)
    crash = find_crash(run.output, run.exit_status)
    if crash is not None and is_misuse(crash):
        return mistaken(CRASHES, f"it crashed: {_short(crash.text)}")
    sent = f"{requests[0].method} {requests[0].path}"
    return Judgement(PASS, f"it sent {sent} {len(requests)} times, and ended with an error")


def reads_again(run: Run, wanted: int) -> Judgement:
    """The run reads a Charge again that does not show its payment yet."""
    reads = [request for request in run.requests if request.method == "GET"]
    is_last_stale = reads[-1].is_faulty
    if run.exit_status == 0 and is_last_stale:
        return not_exercised("it ended with 0 before a read showed the payment")
    if run.exit_status != 0 and find_crash(run.output, run.exit_status) is None:
        if is_last_stale:
            return mistaken(BELIEVES_FIRST_READ, f"its last read did not show the payment, and {_ended(run)}")
        return mistaken(FAILS_AFTER_REPETITION, f"it read again after a read without the payment, and {_ended(run)}")
    judged = succeeds(run, wanted)
    return judged._replace(found="it read the Charge again, and succeeded") if judged.verdict == PASS else judged


def reads_the_content_type(run: Run, wanted: int) -> Judgement:
    """The run does not take an answer of another content type for the answer of the service."""
    judged = succeeds(run, wanted)
    lists = any(request.path == CHARGES for request in run.reads_after_failure)
    if judged.verdict == PASS and run.repetition(wanted) is None and not lists:
        return mistaken(IGNORES_CONTENT_TYPE, "it took the answer, whose Content-Type was text/html, for the service's")
    return judged


def common_judgement(run: Run, wanted: int, endless: Mistake | None) -> Judgement | None:
    """A mistake that counts in every case: a second Charge, or no end, which `endless` names."""
    if run.charges > max(wanted, 1):
        keys = [request.idempotency_key for request in run.creations]
        mistake = SECOND_CHARGE_WITHOUT_KEY if None in keys else SECOND_CHARGE_WITH_NEW_KEY
        why = "without an Idempotency-Key" if None in keys else "with another Idempotency-Key"
        found = f"it created {run.charges} Charges in place of {max(wanted, 1)}: it repeated the request {why}"
        return mistaken(mistake, found)
    if run.exit_status is None:
        sent = len(run.requests)
        found = (
            f"it was still running after {run.elapsed_s:.0f} s, and had sent {sent} request{'' if sent == 1 else 's'}"
        )
        return mistaken(
            endless if endless is not None and _shows_endless(run, wanted, endless) else DOES_NOT_END, found
        )
    return None


def _shows_endless(run: Run, wanted: int, endless: Mistake) -> bool:
    """Whether the requests of a run that did not end show this cause: repetitions, or a slow answer that it awaits."""
    if endless is REPEATS_REFUSED_REQUEST:
        return _repeated(run, wanted) is not None
    if endless is ENDLESS_RETRIES:
        return any(len(one.requests) >= one.needed + _ENDLESS for one in repetitions(run, wanted))
    failed = run.failed_creation
    # One whose client closed the connection is not what it waits for.
    return failed is not None and run.requests[-1] is failed and not failed.has_left


def unexercised_judgement(run: Run, wanted: int, unexercised: str) -> Judgement | None:
    """The judgement of a run without a response that the fault changed; None if there is one."""
    if run.hits:
        return None
    if run.exit_status == 0 and (judged := _success(run, wanted)).mistake is not None:
        return judged
    return not_exercised(unexercised if run.requests else "no request of it arrived")


def further_judgements(run: Run) -> Iterator[Judgement]:
    """Other mistakes that count in every case, however the run ends."""
    if run.shows_key:
        yield mistaken(SHOWS_API_KEY, "its output has the API key, or a long part of it")
    reused = reused_key(run)
    if reused is not None:
        yield mistaken(KEY_WITH_ANOTHER_BODY, reused.found)
    for (method, path), requests in run.by_target().items():
        if method == "POST":
            continue
        reads = [request for request in requests if request.succeeded]
        pauses = pauses_ms(reads)
        # The shorter pauses show what the client asks for: the others are longer on a busy machine.
        if len(pauses) >= FEWEST_READS - 1 and (pause_ms := pauses[len(pauses) // 4]) < AT_ONCE_MS:
            found = (
                f"it sent {method} {path} {len(reads)} times, a quarter of them {pause_ms} ms or less after an answer"
            )
            yield mistaken(POLLS_WITHOUT_PAUSE, found)
