"""The cases of the client check: the faults of each, and how a run is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leyden.devserver.client_check.judgements import (
    RETRY_AFTER_S,
    Judgement,
    common_judgement,
    ends,
    further_judgements,
    ignores_date,
    ignores_unknown_fields,
    is_refused,
    reads_again,
    reads_no_empty_body,
    reads_no_html,
    reads_the_content_type,
    repeats_after_409,
    succeeds,
    unexercised_judgement,
    waits,
)
from leyden.devserver.client_check.mistakes import (
    AT_ONCE_MS,
    ENDLESS_RETRIES,
    FEWEST_ATTEMPTS,
    MOST_ATTEMPTS,
    NO_TIMEOUT,
    NO_TOTAL_TIMEOUT,
    REPEATS_REFUSED_REQUEST,
    Mistake,
)
from leyden.devserver.client_check.runs import Run
from leyden.service_faults.kinds import ServiceFaultSpec


@dataclass(frozen=True, slots=True)
class Case:
    """A case: the faults of its sandbox, what a good client does, what a pass proves, and how a run is judged.

    `judge` gets the run and the number of Charges that the command creates without a fault. `endless` is the mistake of
    a run that does not end and whose requests show it, and `unexercised` what a run did in which no fault applied.
    """

    name: str
    title: str
    good: str
    proves: str
    faults: Sequence[Mapping[str, Any]]
    judge: Callable[[Run, int], Judgement]
    endless: Mistake | None = None
    unexercised: str = "it sent no request that the fault changes"

    def specs(self, slow_s: float) -> list[ServiceFaultSpec]:
        """The faults; a slow one takes `slow_s`, which is longer than a run may take."""
        return [
            ServiceFaultSpec(**{**fault, **({"delay": slow_s} if fault["kind"].startswith("slow") else {})})
            for fault in self.faults
        ]

    def judgements(self, run: Run, wanted: int) -> list[Judgement]:
        """The judgements of a run: what the case is for, or what is wrong before that; then what else is wrong."""
        judged = common_judgement(run, wanted, self.endless)
        if judged is None and self.faults:
            judged = unexercised_judgement(run, wanted, self.unexercised)
        if judged is None:
            judged = self.judge(run, wanted)
        return [judged, *(one for one in further_judgements(run) if one.mistake is not judged.mistake)]


_CREATE = "createCharge"
_LOST = {"kind": "connection_reset", "operation": _CREATE, "after_commit": True}

CASES: tuple[Case, ...] = (
    Case(
        "plain",
        "no fault",
        "it creates its Charges and ends with exit status 0",
        "it ended with 0, and there is a Charge",
        (),
        succeeds,
    ),
    Case(
        "answer-lost",
        "the Charge is created, and the connection is reset before the answer",
        "it repeats the request with the same Idempotency-Key, and there is one Charge",
        "a later answer told it of the Charge, and there is one Charge",
        (_LOST,),
        succeeds,
    ),
    Case(
        "answer-lost-proxy",
        "the Charge is created, and a proxy answers 502 with HTML",
        "it repeats the request with the same Idempotency-Key, and reads no JSON from HTML",
        "a later answer told it of the Charge, and there is one Charge",
        ({"kind": "error", "operation": _CREATE, "status": 502, "body": "html", "after_commit": True},),
        reads_no_html,
    ),
    Case(
        "key-in-use",
        "the answer is lost, and the repeated request gets 409 while the first is in progress",
        "it repeats the request once more after a pause, with the same Idempotency-Key",
        "it got 409, and a later answer told it of the Charge",
        (_LOST, {"kind": "key_in_use"}),
        repeats_after_409,
    ),
    Case(
        "reset",
        "the connection is reset before the request is processed",
        "it repeats the request",
        "it repeated the request, and got the answer",
        ({"kind": "connection_reset", "operation": _CREATE},),
        succeeds,
    ),
    Case(
        "too-many-requests",
        f"429 with Retry-After: {RETRY_AFTER_S}",
        f"it waits {RETRY_AFTER_S} seconds and repeats the request",
        "it repeated the request 2 s after the first or later, and got the answer",
        ({"kind": "error", "operation": _CREATE, "status": 429, "retry_after": RETRY_AFTER_S},),
        waits,
    ),
    Case(
        "unavailable",
        f"503 with Retry-After: {RETRY_AFTER_S}",
        f"it waits {RETRY_AFTER_S} seconds and repeats the request",
        "it repeated the request 2 s after the first or later, and got the answer",
        ({"kind": "error", "operation": _CREATE, "status": 503, "retry_after": RETRY_AFTER_S},),
        waits,
    ),
    Case(
        "html",
        "503 with Retry-After: 0 and the HTML page of a proxy",
        "it repeats the request, and reads no JSON from HTML",
        "it repeated the request, and got the answer",
        ({"kind": "error", "operation": _CREATE, "status": 503, "body": "html", "retry_after": 0},),
        reads_no_html,
    ),
    Case(
        "empty-body",
        "500 without a body",
        "it repeats the request, and reads no JSON from nothing",
        "it repeated the request, and got the answer",
        ({"kind": "error", "operation": _CREATE, "status": 500, "body": "empty"},),
        reads_no_empty_body,
    ),
    Case(
        "outage",
        "502 to every request",
        "it repeats the request a few times, with growing pauses, and ends with an error",
        f"it sent the request 2 to {MOST_ATTEMPTS} times, from {FEWEST_ATTEMPTS} times on with a median pause of"
        f" {AT_ONCE_MS} ms or more, and did not end with 0",
        # Without a Retry-After: the pauses are those that the client chooses.
        ({"kind": "error", "status": 502, "count": None},),
        ends,
        ENDLESS_RETRIES,
    ),
    Case(
        "invalid-request",
        "400 to every request",
        "it does not repeat the request, and ends with an error",
        "it sent the request once, and did not end with 0",
        ({"kind": "error", "status": 400, "count": None},),
        is_refused,
        REPEATS_REFUSED_REQUEST,
    ),
    Case(
        "unauthorized",
        "401 to every request",
        "it does not repeat the request, and ends with an error that does not show the key",
        "it sent the request once, did not end with 0, and its output does not have the key",
        ({"kind": "error", "status": 401, "count": None},),
        is_refused,
        REPEATS_REFUSED_REQUEST,
    ),
    Case(
        "forbidden",
        "403 to every request",
        "it does not repeat the request, and ends with an error",
        "it sent the request once, and did not end with 0",
        ({"kind": "error", "status": 403, "count": None},),
        is_refused,
        REPEATS_REFUSED_REQUEST,
    ),
    Case(
        "not-found",
        "404 to every request",
        "it does not repeat the request, and ends with an error",
        "it sent the request once, and did not end with 0",
        ({"kind": "error", "status": 404, "count": None},),
        is_refused,
        REPEATS_REFUSED_REQUEST,
    ),
    Case(
        "truncated-body",
        "half of the body, and the connection is closed",
        "it repeats the request with the same Idempotency-Key",
        "a later answer told it of the Charge, and there is one Charge",
        ({"kind": "truncated_body", "operation": _CREATE},),
        succeeds,
    ),
    Case(
        "slow-first-byte",
        "an answer that does not come",
        "it gives up after its timeout, and repeats the request with the same Idempotency-Key",
        "it ended within the limit, a later answer told it of the Charge, and there is one Charge",
        ({"kind": "slow_first_byte", "operation": _CREATE},),
        succeeds,
        NO_TIMEOUT,
    ),
    Case(
        "slow-body",
        "a body that arrives in small parts for a long time",
        "it gives up after its timeout for the whole response, and repeats the request",
        "it gave up a body with pauses of half a second, a later answer told it of the Charge, and there is one",
        ({"kind": "slow_body", "operation": _CREATE},),
        succeeds,
        NO_TOTAL_TIMEOUT,
    ),
    Case(
        "wrong-content-type",
        "an answer whose Content-Type is text/html",
        "it takes the answer for none of the service, and repeats the request with the same Idempotency-Key",
        "it repeated the request or listed the Charges, and there is one Charge",
        ({"kind": "wrong_content_type", "operation": _CREATE},),
        reads_the_content_type,
    ),
    Case(
        "unknown-fields",
        "answers with fields that it does not know",
        "it ignores them",
        "it ended with 0, and it read an answer: it read a Charge later, or printed its id",
        ({"kind": "unknown_fields", "count": None},),
        ignores_unknown_fields,
    ),
    Case(
        "past-date",
        "answers with a header Date ten minutes ago",
        "it does not take Date for the time",
        "it ended with 0, as without a fault",
        ({"kind": "past_date", "count": None},),
        ignores_date,
    ),
    Case(
        "future-date",
        "answers with a header Date in ten minutes",
        "it does not take Date for the time",
        "it ended with 0, as without a fault",
        ({"kind": "future_date", "count": None},),
        ignores_date,
    ),
    Case(
        "stale-read",
        "a read that does not show the payment yet",
        "it reads again after a pause",
        "it got a read without the payment, read again, and ended with 0",
        ({"kind": "stale_read", "count": 2},),
        reads_again,
        unexercised="it does not read the Charge after the payment",
    ),
)
