"""What became of the `Retry-After` of a response, in words."""

from __future__ import annotations

from collections.abc import Sequence

from leyden.server.callbacks.attempts import Attempt
from leyden.server.callbacks.deliveries import EXHAUSTED, LOST, PENDING, RETRY_AFTER_STATUSES, retry_after_ms
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.contract.types import DeliveryRule
from leyden.server.printable import cut, quoted

NAME = "retry-after"
_MOST_SHOWN = 60  # digits of a number of seconds


def retry_after_note(row: DeliveryRow, number: int, attempts: Sequence[Attempt], rule: DeliveryRule) -> str:
    """What the `Retry-After` in the response to attempt `number` of the delivery changed; empty without one."""
    attempt = attempts[number - 1]
    text = dict(attempt.response_headers).get(NAME)
    if text is None or attempt.status is None:
        return ""
    if attempt.status not in RETRY_AFTER_STATUSES:
        return "Retry-After is ignored: it counts with 429 and 503 only"
    asked_ms = attempt.asked_ms
    if asked_ms is None:  # an invalid one, or a row of an earlier version
        asked_ms = retry_after_ms({NAME: text}, attempt.timestamp_s + attempt.latency_ms // 1_000)
    if asked_ms is None:
        return f"Retry-After {quoted(cut(text, 60))} is ignored: it is neither a whole number of seconds nor a date"
    if number == len(attempts) and row["status"] != PENDING:
        why = "it was the last attempt" if row["status"] == EXHAUSTED else "no attempt follows"
        return f"Retry-After has no effect: {why}"
    # A replay starts the schedule again. Rows of earlier versions have the last one only.
    starts = [order["attempts"] for order in row.get("replay_orders", ())] or [row.get("replayed_from", 0)]
    start = max((attempts_before for attempts_before in starts if attempts_before < number), default=0)
    counted = sum(one.error != LOST for one in attempts[start:number])
    if counted >= len(rule.delays_ms):
        return "Retry-After has no effect: it was the last attempt"
    if number in starts:
        return "Retry-After has no effect: a replay gives the time of the next attempt"
    if not asked_ms and not text.strip().isdigit():
        return f"Retry-After {quoted(cut(text, 60))} had passed when the response came: it delays nothing"
    most_ms = round(rule.delays_ms[counted] * rule.retry_after_times)
    if asked_ms > most_ms:
        times = f"{rule.retry_after_times:g} times the delay of the schedule"
        return f"Retry-After asks for {_asked(text, asked_ms)} s and is cut to {_seconds(most_ms)} s, {times}"
    return f"Retry-After asks for {_seconds(asked_ms)} s: the next attempt is not earlier"


def _asked(text: str, asked_ms: int) -> str:
    """The seconds that were asked for: a number as it was received, because `asked_ms` has a bound."""
    digits = text.strip().lstrip("0")
    if not digits.isdigit():
        return _seconds(asked_ms)
    return digits if len(digits) <= _MOST_SHOWN else f"{digits[:_MOST_SHOWN]}... ({len(digits)} digits)"


def _seconds(span_ms: int) -> str:
    """A span in seconds, exactly."""
    whole, rest_ms = divmod(span_ms, 1_000)
    return f"{whole}.{rest_ms:03}".rstrip("0") if rest_ms else f"{whole}"
