"""How a run of the client is judged: what every run has to do, and what the fault of its case asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from leyden.devserver.client_check.mistakes import (
    BELIEVES_FIRST_READ,
    CRASHES,
    DOES_NOT_END,
    ENDLESS_RETRIES,
    ENDS_AT_409,
    FALSE_SUCCESS,
    GIVES_UP,
    IGNORES_CONTENT_TYPE,
    IGNORES_RETRY_AFTER,
    MINOR,
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
    Mistake,
)
from leyden.devserver.client_check.runs import Run

# From the best to the worst.
SKIPPED, PASS, NOTICE, FAIL = VERDICTS = ("skipped", "pass", "notice", "fail")

RETRY_AFTER_S = 2
_EARLY_MS = 100  # a client's clock and the server's need not agree to the millisecond
_MOST_ATTEMPTS = 20
_RETRIES_IN_A_BURST, _READS_IN_A_BURST, _BURST_MS = 5, 20, 1_000
_SHOWN = 100
# What the runtimes of common languages write when a program ends by an error that it did not expect.
_CRASH = re.compile(
    r"Traceback \(most recent call last\)|JSONDecodeError|Unexpected token|Unexpected end of JSON|SyntaxError|"
    r"Unhandled|panic: |Exception in thread|\.java:\d+\)|invalid character '<'|UnicodeDecodeError"
)


class Judgement(NamedTuple):
    """What a run shows: the verdict, what the client did, and its mistake, if it is one."""

    verdict: str
    found: str
    mistake: Mistake | None = None

    @property
    def severity(self) -> str:
        """That of the mistake; an empty text without one."""
        return "" if self.mistake is None else self.mistake.severity

    @property
    def mend(self) -> str:
        """What to change."""
        return "" if self.mistake is None else self.mistake.mend


def mistaken(mistake: Mistake, found: str) -> Judgement:
    """The judgement of a run with this mistake."""
    return Judgement(NOTICE if mistake.severity == MINOR else FAIL, found, mistake)


class Succeeds:
    """The run ends with success. `crash` is the mistake when it crashes, `end` when it gives up."""

    def __init__(self, crash: Mistake = CRASHES, end: Mistake = GIVES_UP) -> None:
        self._crash = crash
        self._end = end

    def __call__(self, run: Run, wanted: int) -> Judgement:
        if run.exit_status == 0:
            if run.charges >= wanted and run.is_informed(wanted):
                return Judgement(PASS, "it succeeded")
            return mistaken(FALSE_SUCCESS, "it reported success, and no answer said that the Charge is created")
        if _CRASH.search(run.output) is not None:
            last = next((line for line in reversed(run.output.splitlines()) if line.strip()), "")
            return mistaken(self._crash, f"it crashed: {last.strip()[:_SHOWN]}")
        return mistaken(self._end, f"it gave up with exit status {run.exit_status}")


succeeds = Succeeds()
reads_no_html = Succeeds(crash=READS_HTML_AS_JSON)
reads_no_empty_body = Succeeds(crash=READS_NOTHING_AS_JSON)
repeats_after_409 = Succeeds(end=ENDS_AT_409)
ignores_unknown_fields = Succeeds(crash=REJECTS_UNKNOWN_FIELDS, end=REJECTS_UNKNOWN_FIELDS)
ignores_date = Succeeds(crash=TAKES_DATE_FOR_THE_TIME, end=TAKES_DATE_FOR_THE_TIME)


def is_refused(run: Run, wanted: int) -> Judgement:
    """The run ends with an error, and does not repeat what was refused."""
    if run.exit_status == 0:
        return mistaken(FALSE_SUCCESS, "it reported success, and every request was refused")
    attempts = len(run.creations)
    if attempts > wanted:
        return mistaken(REPEATS_REFUSED_REQUEST, f"it sent the refused request {attempts} times")
    return Judgement(PASS, "it ended with an error")


def waits(run: Run, wanted: int) -> Judgement:
    """The run repeats its request after the time that `Retry-After` says."""
    creations = run.creations
    if len(creations) < 2:
        return succeeds(run, wanted)
    waited_ms = creations[1].at_ms - creations[0].at_ms
    if waited_ms < RETRY_AFTER_S * 1_000 - _EARLY_MS:
        found = f"it waited {waited_ms} ms, and Retry-After was {RETRY_AFTER_S} s"
        return mistaken(IGNORES_RETRY_AFTER, found)
    return succeeds(run, wanted)


def ends(run: Run, wanted: int) -> Judgement:
    """The run ends with an error while the service is down, after some attempts with pauses."""
    if run.exit_status == 0:
        return mistaken(FALSE_SUCCESS, "it reported success, and every request failed")
    times = [request.at_ms for request in run.creations]
    if len(times) > _MOST_ATTEMPTS:
        return mistaken(ENDLESS_RETRIES, f"it sent the request {len(times)} times")
    if _is_burst(times, _RETRIES_IN_A_BURST):
        return mistaken(RETRIES_WITHOUT_PAUSE, f"it sent {_RETRIES_IN_A_BURST} requests within a second")
    return Judgement(PASS, "it ended with an error")


def reads_again(run: Run, wanted: int) -> Judgement:
    """The run reads a Charge again that does not show its payment yet."""
    if not run.hits:
        return Judgement(SKIPPED, "it does not read the Charge after the payment")
    return Succeeds(end=BELIEVES_FIRST_READ)(run, wanted)


def reads_the_content_type(run: Run, wanted: int) -> Judgement:
    """The run does not take an answer of another content type for the answer of the service."""
    judged = reads_no_html(run, wanted)
    if judged.verdict == PASS and len(run.creations) <= wanted:
        return mistaken(IGNORES_CONTENT_TYPE, "it read the body, whose Content-Type was text/html, as JSON")
    return judged


def common_judgement(run: Run, wanted: int, endless: Mistake | None) -> Judgement | None:
    """What is wrong in any case, whatever it is for: a second Charge, or no end, which `endless` names."""
    if run.charges > max(wanted, 1):
        keys = [request.idempotency_key for request in run.creations]
        mistake = SECOND_CHARGE_WITHOUT_KEY if None in keys else SECOND_CHARGE_WITH_NEW_KEY
        why = "without an Idempotency-Key" if None in keys else "with another Idempotency-Key each time"
        found = f"it created {run.charges} Charges in place of {max(wanted, 1)}: it repeated the request {why}"
        return mistaken(mistake, found)
    if run.exit_status is None:
        return mistaken(endless or DOES_NOT_END, f"it was still running after {run.elapsed_s:.0f} s")
    return None


def further_judgements(run: Run) -> Iterator[Judgement]:
    """What else is wrong in any case, however the run ends: the key in the output, reads without a pause."""
    if run.shows_key:
        yield mistaken(SHOWS_API_KEY, "its output has the API key, or a long part of it")
    for (method, path), times in run.times_by_target().items():
        if method != "POST" and _is_burst(times, _READS_IN_A_BURST):
            yield mistaken(POLLS_WITHOUT_PAUSE, f"it sent {method} {path} {_READS_IN_A_BURST} times within a second")


def _is_burst(times: list[int], count: int) -> bool:
    return any(late - early < _BURST_MS for early, late in zip(times, times[count - 1 :], strict=False))
