"""Deliveries: the body and headers of a callback, the rule for its next status, and its resource.

A delivery is a row of the table `deliveries` (`leyden.server.callbacks.delivery_row`); its attempts are in the row
(`leyden.server.callbacks.attempts`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any, NamedTuple

import orjson

from leyden.server.callbacks.attempts import Attempt, AttemptLog, redirect_note
from leyden.server.callbacks.delivery_row import DeliveryRow, ReplayOrder
from leyden.server.contract.json_pointer import descendant
from leyden.server.contract.json_schema.ecma_patterns import with_written_patterns
from leyden.server.contract.schema_errors import several_errors
from leyden.server.contract.types import CallbackRule, DeliveryRule
from leyden.server.ports import CallbackRequest, CallbackResponse, RandomSource
from leyden.server.timestamps import to_iso

# The statuses of a delivery. All but the first are final.
PENDING, DELIVERED, EXHAUSTED, STOPPED, BLOCKED = "pending", "delivered", "exhausted", "stopped", "blocked"

LOST = "lost"  # the error of an attempt whose response was not recorded: the service stopped, or the disk failed
LOST_IN_RESTART = CallbackResponse(error=LOST, note="the service stopped before the answer came")
GONE = 410  # the HTTP status with which a receiver disables its endpoint
STOPPED_BEFORE = (
    "another callback to this URL was answered 410, which ends all callbacks to it about the same resource: a replay "
    "sends this one only, and only another callbackUrl gets later ones"
)
# RFC 6585, 4, and RFC 9110, 15.6.4: the statuses with which a receiver may send Retry-After.
RETRY_AFTER_STATUSES = frozenset({429, 503})

_SECONDS = re.compile(r"0*([0-9]+)")
_MOST_DIGITS = 10  # of seconds in Retry-After: 317 years
# Of a body that its schema refuses: the errors that are named, and the characters of each
_MOST_MISMATCHES, _MISMATCH_CHARS = 3, 300


class ResultKinds(NamedTuple):
    """The journal's kinds for the end of an attempt: a response came, none came, or nothing was ever sent."""

    answered: str
    failed: str
    not_sent: str


# The headers of a callback; the connection adds host and content-length.
HEADER_NAMES = (
    "content-type",
    "user-agent",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
    "leyden-event",
    "leyden-attempt",
    "leyden-time",
)

ATTEMPT_KINDS = ResultKinds("callback_answered", "callback_failed", "callback_not_sent")


def is_in_flight(row: DeliveryRow) -> bool:
    """Whether the last attempt was sent and has no result yet."""
    return row["due_at"] is None and row["status"] == PENDING


def result_kind(response: CallbackResponse, kinds: ResultKinds = ATTEMPT_KINDS) -> str:
    """The journal's kind for the end of an attempt."""
    if response.status is not None:
        return kinds.answered
    return kinds.not_sent if response.error == BLOCKED or not response.sent else kinds.failed


def attempt_headers(row: DeliveryRow, number: int, at: int, timestamp_s: int, signature: str) -> dict[str, str]:
    """The headers of attempt `number` (from 1), started at `at`. An empty `signature` leaves its header out."""
    headers = {
        "content-type": "application/json",
        "user-agent": row["agent"],
        "webhook-id": row["id"],
        "webhook-timestamp": str(timestamp_s),
        "webhook-signature": signature,
        "leyden-event": row["event"],
        "leyden-attempt": str(number),
        "leyden-time": to_iso(at),
    }
    if not signature:
        del headers["webhook-signature"]
    return headers


def attempt_request(row: DeliveryRow, rule: DeliveryRule, number: int, headers: Mapping[str, str]) -> CallbackRequest:
    """The POST of attempt `number`."""
    return CallbackRequest(
        delivery_id=row["id"],
        attempt=number,
        url=row["url"],
        headers=headers,
        body=row["body"].encode(),
        connect_timeout_ms=rule.connect_timeout_ms,
        timeout_ms=rule.timeout_ms,
    )


def callback_body(rule: CallbackRule, event: str, sequence: int, data: dict[str, Any], at: int) -> tuple[str, str]:
    """The exact text of a callback's body, and why it must not be sent.

    The body is `data` alone, or in the envelope if the spec asks for one. The reason is empty for a body that the
    spec's schema allows, and at most about 1,000 characters long.
    """
    body = data
    if rule.delivery.form == "envelope":
        body = {"type": event, "timestamp": to_iso(at), "sequence": sequence, "data": data}
    text, validator = orjson.dumps(body).decode(), rule.rule.validator
    if validator.is_valid(body):
        return text, ""
    errors = [
        f"{descendant('', error.instance_path) or 'the body'}: {with_written_patterns(error.message)[:_MISMATCH_CHARS]}"
        for error in islice(several_errors(validator, body), _MOST_MISMATCHES)
    ]
    return text, f"the body does not match the schema of {rule.name}, so it is not sent: {'; '.join(errors)}"


def status_note(status: int, location: str) -> str:
    """The meaning of a status for the delivery, if the name of the status does not say it. `location` is the response's
    header, or empty."""
    if status == GONE:
        return "the receiver asked for no more"
    return redirect_note(status, location)


def initial_delay_ms(rule: DeliveryRule, jitter: RandomSource) -> int:
    """The time from the state change to the first attempt."""
    return _with_jitter(rule, rule.delays_ms[0], jitter)


def replayed(row: DeliveryRow, now: int, due_at: int) -> DeliveryRow:
    """The row after a request at `now` to send the callback again at `due_at`."""
    attempts = AttemptLog(row).attempt_count
    order: ReplayOrder = {"at": now, "due_at": due_at, "attempts": attempts}
    if row["status"] != PENDING:
        order["ended"] = row["status"]
    orders = [*row.get("replay_orders", ()), order]
    return {**row, "status": PENDING, "due_at": due_at, "replayed_from": attempts, "replay_orders": orders}


def stopped_by_another(row: DeliveryRow, now: int) -> DeliveryRow:
    """The row after a 410 to another callback, which disabled the endpoint, has ended the delivery at `now`."""
    return {**row, "status": STOPPED, "due_at": None, "stopped_at": now}


def next_status(
    row: DeliveryRow,
    response: CallbackResponse,
    rule: DeliveryRule,
    now: int,
    asked_ms: int | None,
    jitter: RandomSource,
) -> tuple[str, int | None]:
    """The status after `response`, which the row's last attempt already records, and the instant of the next attempt.

    The delay counts from `now`, the end of the attempt. The next one is not earlier than the receiver's Retry-After
    asks for (`asked_ms`), within the bound of the rule.
    """
    if response.error == BLOCKED:
        return BLOCKED, None
    if response.status in rule.received:
        return DELIVERED, None
    if response.status == GONE:
        return STOPPED, None
    attempts = AttemptLog(row).attempts()[row.get("replayed_from", 0) :]
    counted = sum(attempt.error != LOST for attempt in attempts)
    if counted >= len(rule.delays_ms):
        return EXHAUSTED, None
    delay = rule.delays_ms[counted]
    wait = _with_jitter(rule, delay, jitter)
    if asked_ms is not None:
        wait = max(wait, min(asked_ms, round(delay * rule.retry_after_times)))
    return PENDING, now + wait


def delay_asked_for(response: CallbackResponse, receiver_time_s: int) -> int | None:
    """`retry_after_ms` of a response whose status gives `Retry-After` a meaning; None for any other."""
    return retry_after_ms(response.headers, receiver_time_s) if response.status in RETRY_AFTER_STATUSES else None


def retry_after_ms(headers: Mapping[str, str], receiver_time_s: int) -> int | None:
    """The delay in `Retry-After`, given as seconds or as a date (RFC 9110, 10.2.3), in milliseconds.

    A date is compared with `receiver_time_s`; a date in the past gives 0. None when the header is missing or invalid.
    """
    text = next((value.strip() for name, value in headers.items() if name.lower() == "retry-after"), None)
    if text is None:
        return None
    seconds = _SECONDS.fullmatch(text)
    if seconds is not None:
        return int(seconds[1] if len(seconds[1]) <= _MOST_DIGITS else "9" * _MOST_DIGITS) * 1_000
    try:
        date = parsedate_to_datetime(text)
        # The asctime form has no zone; RFC 9110 reads it as UTC.
        until_s = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0, round((until_s - receiver_time_s) * 1_000))


def _with_jitter(rule: DeliveryRule, delay_ms: int, jitter: RandomSource) -> int:
    if not delay_ms or not rule.jitter:
        return delay_ms
    return round(delay_ms * (1 + rule.jitter * (2 * jitter.uniform() - 1)))


def stopped_note(row: DeliveryRow) -> str:
    """Why a delivery is stopped whose own last attempt was not answered 410; empty for every other one."""
    attempts = AttemptLog(row).attempts()
    return STOPPED_BEFORE if row["status"] == STOPPED and not (attempts and attempts[-1].status == GONE) else ""


def attempt_resource(
    row: DeliveryRow, number: int, attempt: Attempt, signature: Callable[[DeliveryRow, Attempt], str] | None
) -> dict[str, Any]:
    """An attempt of a delivery as the control API returns it, with the headers that its `signature` completes."""
    shown: dict[str, Any] = {
        "number": number,
        "at": to_iso(attempt.at),
        "status": attempt.status,
        "error": attempt.error,
        # Of an attempt whose response was not recorded the end is not known.
        "latencyMs": None if attempt.ended_at is None or attempt.error == LOST else attempt.latency_ms,
        "note": attempt.note,
    }
    if signature is not None:
        shown["headers"] = attempt_headers(row, number, attempt.at, attempt.timestamp_s, signature(row, attempt))
    return shown


def delivery_fields(row: DeliveryRow, *, with_body: bool) -> dict[str, Any]:
    """A delivery as the control API returns it, with no attempt yet. `body` is the exact text that is sent."""
    fields = {
        "id": row["id"],
        "chargeId": row["resource_id"],
        "event": row["event"],
        "url": row["url"],
        "status": row["status"],
        "sequence": row["sequence"],
        "createdAt": to_iso(row["created_at"]),
        "dueAt": None if row["due_at"] is None else to_iso(row["due_at"]),
        "replayedFrom": row.get("replayed_from"),
        "note": stopped_note(row),
        "attempts": [],
    }
    if with_body:
        fields["body"] = row["body"]
    return fields


def delivery_resource(row: DeliveryRow, signature: Callable[[DeliveryRow, Attempt], str] | None) -> dict[str, Any]:
    """A delivery with its attempts, as the control API returns it.

    `signature(row, attempt)` gives the signature of an attempt. Without a `signature` bodies and headers are left out.
    """
    attempts = [
        attempt_resource(row, number, attempt, signature)
        for number, attempt in enumerate(AttemptLog(row).attempts(), 1)
    ]
    return {**delivery_fields(row, with_body=signature is not None), "attempts": attempts}
