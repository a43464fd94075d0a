"""Deliveries: one message for a receiver, what its answers make of it, and how it is shown.

A delivery is a row of the store; its attempts are in it (see `leyden.server.callbacks.attempts`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from leyden.server.callbacks.attempts import Attempt, attempts_of
from leyden.server.contract.types import CallbackRule, DeliveryRule
from leyden.server.errors import FieldError, InternalError
from leyden.server.ports import CallbackResponse, RandomSource
from leyden.server.timestamps import to_iso

# What has become of a delivery. Only the first is not the end.
PENDING, DELIVERED, EXHAUSTED, STOPPED, BLOCKED = "pending", "delivered", "exhausted", "stopped", "blocked"

LOST = "lost"  # the error of an attempt that the service itself did not live to see answered
GONE = 410  # the status by which a receiver says that it wants to hear no more
# RFC 6585, 4, and RFC 9110, 15.6.4: the answers with which a receiver may say when it wants to be asked again.
_ASKS_TO_WAIT = frozenset({429, 503})

_SECONDS = re.compile(r"[0-9]{1,10}")


def is_in_flight(row: Mapping[str, Any]) -> bool:
    """Whether the delivery's last attempt has begun and was not answered."""
    return row["due_at"] is None and bool(row["status"] == PENDING)


def attempt_headers(row: Mapping[str, Any], number: int, at: int, stamp_s: int, signature: str) -> dict[str, str]:
    """The headers that attempt `number` (from 1), begun at `at`, carries: they follow from the row and its attempts."""
    headers = {
        "content-type": "application/json",
        "user-agent": row["agent"],
        "webhook-id": row["id"],
        "webhook-timestamp": str(stamp_s),
        "webhook-signature": signature,
        "leyden-event": row["event"],
        "leyden-attempt": str(number),
        "leyden-time": to_iso(at),
    }
    if not signature:
        del headers["webhook-signature"]
    return headers


def callback_body(rule: CallbackRule, event: str, sequence: int, data: dict[str, Any], at: int) -> str:
    """The exact text of a callback's body: the data as it is, or in the envelope when the spec asks for one.

    Raises `InternalError` when it breaks the spec's own schema: that is our defect.
    """
    body = data
    if rule.delivery.form == "envelope":
        body = {"type": event, "timestamp": to_iso(at), "sequence": sequence, "data": data}
    validator = rule.rule.validator
    if not validator.is_valid(body):
        faults = [
            FieldError("".join(f"/{step}" for step in error.instance_path), error.message)
            for error in validator.iter_errors(body)
        ]
        told = "; ".join(f"{fault.pointer or 'the body'}: {fault.detail}" for fault in faults)
        raise InternalError(f"the body of callback {rule.name} breaks the spec: {told}", field_errors=faults)
    return orjson.dumps(body).decode()


def initial_delay_ms(rule: DeliveryRule, jitter: RandomSource) -> int:
    """How long after the transition the first attempt is due."""
    return _spread(rule, rule.delays_ms[0], jitter)


def next_status(
    row: Mapping[str, Any],
    answer: CallbackResponse,
    rule: DeliveryRule,
    now: int,
    receiver_time_s: Callable[[str], int],
    jitter: RandomSource,
) -> tuple[str, int | None]:
    """What `answer`, already in the row's last attempt, makes of the delivery: its status, and when it is due again.

    A pause is counted from `now`, the end of the attempt. A receiver's Retry-After, beside a 429 or 503, replaces the
    pause and its jitter within the rule's bounds; a date in it is read by `receiver_time_s`, the clock of its receiver.
    """
    if answer.error == BLOCKED:
        return BLOCKED, None
    if answer.status is not None and 200 <= answer.status <= 299:
        return DELIVERED, None
    if answer.status == GONE:
        return STOPPED, None
    counted = sum(attempt.error != LOST for attempt in attempts_of(row)[row.get("replayed_from", 0) :])
    if counted >= len(rule.delays_ms):
        return EXHAUSTED, None
    pause = rule.delays_ms[counted]
    asked = retry_after_ms(answer.headers, receiver_time_s(row["url"])) if answer.status in _ASKS_TO_WAIT else None
    if asked is None:
        return PENDING, now + _spread(rule, pause, jitter)
    return PENDING, now + min(max(asked, pause), round(pause * rule.retry_after_times))


def retry_after_ms(headers: Mapping[str, str], wall_s: int) -> int | None:
    """How long the receiver asks to be left alone, in ms: `Retry-After` as seconds or as a date (RFC 9110, 10.2.3).

    A date is compared with `wall_s`, the time receivers live in; one that has passed asks for nothing and gives 0.
    None when the header is missing or makes no sense.
    """
    text = next((value.strip() for name, value in headers.items() if name.lower() == "retry-after"), None)
    if text is None:
        return None
    if _SECONDS.fullmatch(text):
        return int(text) * 1_000
    try:
        moment = parsedate_to_datetime(text)
        # The asctime form carries no zone; RFC 9110 reads it as UTC.
        until_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0, round((until_s - wall_s) * 1_000))


def _spread(rule: DeliveryRule, pause_ms: int, jitter: RandomSource) -> int:
    if not pause_ms or not rule.jitter:
        return pause_ms
    return round(pause_ms * (1 + rule.jitter * (2 * jitter.uniform() - 1)))


def delivery_resource(row: Mapping[str, Any], signature: Callable[[Mapping[str, Any], Attempt], str]) -> dict[str, Any]:
    """A delivery as the control plane shows it; `body` is the exact text that is sent, `signature(row, attempt)` what
    an attempt was signed with."""
    return {
        "id": row["id"],
        "chargeId": row["resource_id"],
        "event": row["event"],
        "url": row["url"],
        "status": row["status"],
        "sequence": row["sequence"],
        "createdAt": to_iso(row["created_at"]),
        "dueAt": None if row["due_at"] is None else to_iso(row["due_at"]),
        "replayedFrom": row.get("replayed_from"),
        "body": row["body"],
        "attempts": [
            {
                "number": number,
                "at": to_iso(attempt.at),
                "status": attempt.status,
                "error": attempt.error,
                "latencyMs": attempt.latency_ms,
                "note": attempt.note,
                "headers": attempt_headers(row, number, attempt.at, attempt.stamp_s, signature(row, attempt)),
            }
            for number, attempt in enumerate(attempts_of(row), 1)
        ],
    }
