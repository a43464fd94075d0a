"""The cases of the client check: the faults of each, and how a run is judged."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from leyden.devserver.client_check.runs import Run
from leyden.service_faults.kinds import ServiceFaultSpec

PASS, NOTICE, FAIL, SKIPPED = "pass", "notice", "fail", "skipped"
CRITICAL, SERIOUS, MINOR = "critical", "serious", "minor"

RETRY_AFTER_S = 2
_EARLY_MS = 100  # a client's clock and the server's need not agree to the millisecond
_MOST_ATTEMPTS = 20
_BURST, _BURST_MS = 5, 1_000
_SHOWN = 100
# What the runtimes of common languages write when a program ends by an error that it did not expect.
_CRASH = re.compile(
    r"Traceback \(most recent call last\)|JSONDecodeError|Unexpected token|SyntaxError|Unhandled|panic: |"
    r"Exception in thread|\.java:\d+\)|invalid character '<'|UnicodeDecodeError"
)


class Judgement(NamedTuple):
    """What a run shows: the verdict, its severity, what the client did, and what to change."""

    verdict: str
    severity: str
    found: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """A case: the faults of its sandbox, what a good client does, and how a run is judged.

    `judge` gets the run and the number of Charges that the command creates without a fault.
    """

    name: str
    title: str
    good: str
    faults: Sequence[Mapping[str, Any]]
    judge: Callable[[Run, int], Judgement]

    def specs(self, slow_s: float) -> list[ServiceFaultSpec]:
        """The faults; a slow one takes `slow_s`, which is longer than a run may take."""
        return [
            ServiceFaultSpec(**{**fault, **({"delay": slow_s} if fault["kind"].startswith("slow") else {})})
            for fault in self.faults
        ]


def _succeeds(run: Run, wanted: int) -> Judgement:
    if run.exit_status == 0 and run.charges >= wanted:
        return Judgement(PASS, "", "it succeeded")
    if _CRASH.search(run.output) is not None:
        last = next((line for line in reversed(run.output.splitlines()) if line.strip()), "")
        return Judgement(
            FAIL,
            SERIOUS,
            f"it crashed: {last.strip()[:_SHOWN]}",
            "catch the error of a response that cannot be read, and treat it as a failed request",
        )
    return Judgement(
        NOTICE,
        MINOR,
        f"it gave up with exit status {run.exit_status}",
        "repeat the request after a pause, with the same Idempotency-Key",
    )


def _accepts(run: Run, wanted: int) -> Judgement:
    judged = _succeeds(run, wanted)
    if judged.verdict == PASS:
        return judged
    return judged._replace(
        verdict=FAIL, severity=SERIOUS, mend="ignore what you do not know in a response that is otherwise valid"
    )


def _refused(run: Run, wanted: int) -> Judgement:
    if run.exit_status == 0:
        return Judgement(FAIL, SERIOUS, "it reported success", "end with an error when a request is refused")
    attempts = len(run.creations)
    if attempts > wanted:
        return Judgement(
            FAIL,
            SERIOUS,
            f"it sent the refused request {attempts} times",
            "do not repeat a request that got 400, 401 or 403: the answer stays the same",
        )
    return Judgement(PASS, "", "it ended with an error")


def _waits(run: Run, wanted: int) -> Judgement:
    creations = run.creations
    if len(creations) < 2:
        return _succeeds(run, wanted)
    waited_ms = creations[1].at_ms - creations[0].at_ms
    if waited_ms < RETRY_AFTER_S * 1_000 - _EARLY_MS:
        return Judgement(
            FAIL,
            SERIOUS,
            f"it waited {waited_ms} ms, and Retry-After was {RETRY_AFTER_S} s",
            "wait for as long as Retry-After says before you repeat the request",
        )
    return _succeeds(run, wanted)


def _ends(run: Run, wanted: int) -> Judgement:
    if run.exit_status == 0:
        return Judgement(FAIL, SERIOUS, "it reported success", "end with an error when the service does not recover")
    times = [request.at_ms for request in run.creations]
    if len(times) > _MOST_ATTEMPTS:
        return Judgement(
            FAIL,
            SERIOUS,
            f"it sent the request {len(times)} times",
            "bound the number of attempts, to five for example",
        )
    if any(late - early < _BURST_MS for early, late in zip(times, times[_BURST - 1 :], strict=False)):
        return Judgement(
            FAIL,
            SERIOUS,
            f"it sent {_BURST} requests within a second",
            "wait before each repetition, twice as long each time, with a random part",
        )
    return Judgement(PASS, "", "it ended with an error")


def _reads_again(run: Run, wanted: int) -> Judgement:
    if not run.hits:
        return Judgement(SKIPPED, "", "it does not read the Charge after the payment")
    return _succeeds(run, wanted)


_CREATE = "createCharge"
_LOST = {"kind": "connection_reset", "operation": _CREATE, "after_commit": True}

CASES: tuple[Case, ...] = (
    Case("plain", "no fault", "it creates its Charges and ends with exit status 0", (), _succeeds),
    Case(
        "answer-lost",
        "the Charge is created, and the connection is reset before the answer",
        "it repeats the request with the same Idempotency-Key, and there is one Charge",
        (_LOST,),
        _succeeds,
    ),
    Case(
        "answer-lost-proxy",
        "the Charge is created, and a proxy answers 502 with HTML",
        "it repeats the request with the same Idempotency-Key, and reads no JSON from HTML",
        ({"kind": "error", "operation": _CREATE, "status": 502, "body": "html", "after_commit": True},),
        _succeeds,
    ),
    Case(
        "key-in-use",
        "the answer is lost, and the repeated request gets 409 while the first is in progress",
        "it repeats the request once more after a pause, with the same Idempotency-Key",
        (_LOST, {"kind": "key_in_use"}),
        _succeeds,
    ),
    Case(
        "reset",
        "the connection is reset before the request is processed",
        "it repeats the request",
        ({"kind": "connection_reset", "operation": _CREATE},),
        _succeeds,
    ),
    Case(
        "too-many-requests",
        f"429 with Retry-After: {RETRY_AFTER_S}",
        f"it waits {RETRY_AFTER_S} seconds and repeats the request",
        ({"kind": "error", "operation": _CREATE, "status": 429, "retry_after": RETRY_AFTER_S},),
        _waits,
    ),
    Case(
        "html",
        "503 with the HTML page of a proxy",
        "it repeats the request, and reads no JSON from HTML",
        ({"kind": "error", "operation": _CREATE, "status": 503, "body": "html", "retry_after": 0},),
        _succeeds,
    ),
    Case(
        "empty-body",
        "500 without a body",
        "it repeats the request, and reads no JSON from nothing",
        ({"kind": "error", "operation": _CREATE, "status": 500, "body": "empty"},),
        _succeeds,
    ),
    Case(
        "outage",
        "503 to every request",
        "it repeats the request a few times, with growing pauses, and ends with an error",
        ({"kind": "error", "status": 503, "retry_after": 0, "count": None},),
        _ends,
    ),
    Case(
        "invalid-request",
        "400 to every request",
        "it does not repeat the request, and ends with an error",
        ({"kind": "error", "status": 400, "count": None},),
        _refused,
    ),
    Case(
        "unauthorized",
        "401 to every request",
        "it does not repeat the request, and ends with an error that does not show the key",
        ({"kind": "error", "status": 401, "count": None},),
        _refused,
    ),
    Case(
        "forbidden",
        "403 to every request",
        "it does not repeat the request, and ends with an error",
        ({"kind": "error", "status": 403, "count": None},),
        _refused,
    ),
    Case(
        "truncated-body",
        "half of the body, and the connection is closed",
        "it repeats the request with the same Idempotency-Key",
        ({"kind": "truncated_body", "operation": _CREATE},),
        _succeeds,
    ),
    Case(
        "slow-first-byte",
        "an answer that does not come",
        "it gives up after its timeout, and repeats the request with the same Idempotency-Key",
        ({"kind": "slow_first_byte", "operation": _CREATE},),
        _succeeds,
    ),
    Case(
        "slow-body",
        "a body that arrives in small parts for a long time",
        "it gives up after its timeout for the whole response, and repeats the request",
        ({"kind": "slow_body", "operation": _CREATE},),
        _succeeds,
    ),
    Case(
        "unknown-fields",
        "answers with fields that it does not know",
        "it ignores them",
        ({"kind": "unknown_fields", "count": None},),
        _accepts,
    ),
    Case(
        "stale-read",
        "a read that does not show the payment yet",
        "it reads again after a pause",
        ({"kind": "stale_read", "count": 2},),
        _reads_again,
    ),
)


def judged(case: Case, run: Run, wanted: int) -> Judgement:
    """The judgement of a run: first what is wrong in every case, then what the case is for."""
    if run.charges > max(wanted, 1):
        keys = [request.idempotency_key for request in run.creations]
        why = "without an Idempotency-Key" if None in keys else "with another Idempotency-Key each time"
        return Judgement(
            FAIL,
            CRITICAL,
            f"it created {run.charges} Charges in place of {max(wanted, 1)}: it repeated the request {why}",
            "send the same Idempotency-Key with each repetition of a request",
        )
    if run.exit_status is None:
        return Judgement(
            FAIL,
            SERIOUS,
            f"it was still running after {run.elapsed_s:.0f} s",
            "set a timeout for the whole response, and bound the number of attempts",
        )
    return case.judge(run, wanted)
