"""The attempts of a delivery, and the codec of the compact text in which a delivery row stores them.

The text has one line per attempt, the first attempt first:

    [since, late, ahead, secrets]                                                     in flight
    [since, late, ahead, secrets, took, result, latency, note, response, headers]     completed; no empty values at the
                                                                                      end

`since` is the start, counted from the delivery's creation; `late` is the delay after the instant at which the attempt
was due; `took` is the duration on the sandbox clock: all in milliseconds. `ahead` is the difference between the signed
timestamp and the sandbox clock in seconds. `result` is the HTTP status or the error code; a stored number that is not
an HTTP status is read as the error `protocol`. `headers` has the response's names and values by turns, and at the end
the number of headers that were left out, if there are such. `response` and `headers` are true when they equal those of
the attempt before. Thousands of deliveries can be stored: lists of values instead of a text would take five times the
memory, and the garbage collector would visit each value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.ports import CallbackResponse
from leyden.server.printable import encodable

# Limits for a receiver's response: its body, and the headers that are kept
READ_CAP_BYTES = 65_536
KEPT_BYTES = 4_096
# RFC 9110, 15.4: the statuses that send the client to another URL.
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LOCATION_CHARS = 200  # of a redirect's `Location` that the note of an attempt quotes
MAX_HEADERS = 50
MAX_HEADER_BYTES = 8_192  # names and values together

_DELIVERED = "delivered"  # the status of a delivery whose last attempt was received

# RFC 9110, 15: "Values outside the range 100..599 are invalid."
_STATUSES = range(100, 600)


def invalid_status(status: int) -> str:
    """Why a number in the status line of a response is not an HTTP status; empty if it is one."""
    return "" if status in _STATUSES else f"the response has the status {status:03d}: an HTTP status is 100 to 599"


class Attempt(NamedTuple):
    """One POST of a delivery.

    `due_at`, `at` and `ended_at` are instants on the sandbox clock in milliseconds; `timestamp_s` is the signed
    timestamp. `secret_count` is the number of secrets that the project had at `at`; those of them that were valid
    signed the attempt. While the attempt is in flight `ended_at` is None; afterwards exactly one of `status` and
    `error` is given. `headers_left_out` counts the headers of the response beyond the limits above.
    `asked_ms` is the delay that its `Retry-After` asked for, where that counts; rows of earlier versions lack it.
    """

    due_at: int
    at: int
    timestamp_s: int
    secret_count: int
    ended_at: int | None = None
    status: int | None = None
    error: str | None = None
    latency_ms: int = 0
    note: str = ""
    response_body: str = ""
    response_headers: tuple[tuple[str, str], ...] = ()
    headers_left_out: int = 0
    asked_ms: int | None = None


class AttemptLog:
    """Reads and writes the field `attempts` of a delivery row. A write returns the new text; the row is unchanged."""

    __slots__ = ("_created_at", "_text")

    def __init__(self, row: DeliveryRow) -> None:
        self._created_at = row["created_at"]
        self._text = row["attempts"]

    @property
    def attempt_count(self) -> int:
        """The number of attempts, including one in flight."""
        return self._text.count("\n")

    def attempts(self) -> list[Attempt]:
        """All attempts, the first attempt first."""
        return self._decode(self._text)

    def record_start(self, at: int, due_at: int, timestamp_s: int, secret_count: int) -> str:
        """The text with one more attempt, which was due at `due_at` and starts at `at`."""
        return f"{self._text}[{at - self._created_at},{at - due_at},{timestamp_s - at // 1_000},{secret_count}]\n"

    def record_result(self, at: int, response: CallbackResponse, asked_ms: int | None = None) -> str:
        """The text after the attempt in flight, the last one, ended at `at` with `response`, which asked for a delay of
        `asked_ms`."""
        text = self._text
        last = text.rfind("\n", 0, -1) + 1
        started = orjson.loads(text[last:])
        if response.signed_s is not None:
            started[2] = response.signed_s - (self._created_at + started[0]) // 1_000
        took = at - self._created_at - started[0]
        result = response.status if response.error is None else response.error
        body: str | bool = response.body[:KEPT_BYTES].decode(errors="replace")
        headers: list[str | int] | bool = _kept_headers(response.headers)
        earlier = text[:last]
        if earlier and (body or headers):
            before = self._decode(earlier)[-1]
            body = body and (body == before.response_body or body)
            headers = headers and (headers == _header_values(before) or headers)
        values: list[Any] = [took, result, response.latency_ms, encodable(response.note), body, headers]
        if asked_ms is not None:
            values.append(asked_ms)
        else:
            while not values[-1] and len(values) > 2:
                values.pop()
        return f"{earlier}{orjson.dumps([*started, *values]).decode()}\n"

    def _decode(self, text: str) -> list[Attempt]:
        # JSON escapes the line breaks inside strings, so each line break ends an attempt.
        lines = text[:-1].replace("\n", ",")
        attempts: list[Attempt] = []
        for since, late, ahead_s, secret_count, *result in orjson.loads(f"[{lines}]"):
            at = self._created_at + since
            attempt = Attempt(at - late, at, at // 1_000 + ahead_s, secret_count)
            attempts.append(_with_result(attempt, result, attempts) if result else attempt)
        return attempts


# Status, attempts, creation; of the first attempt that was received, its end after the creation and its latency in ms.
DeliverySummary = tuple[str, int, int, int | None, int | None]


def delivery_summary(row: DeliveryRow) -> DeliverySummary:
    """The fields of a delivery from which key figures are computed."""
    attempts = AttemptLog(row).attempts()
    # Where the document does not declare every 2xx, an attempt with another one was followed by a further attempt.
    ends = [one["attempts"] for one in row.get("replay_orders", ()) if one.get("ended", _DELIVERED) == _DELIVERED]
    for attempt in [attempts[number - 1] for number in ends if number] + attempts[-1:] * (row["status"] == _DELIVERED):
        if attempt.ended_at is not None and attempt.status is not None and 200 <= attempt.status <= 299:
            after_ms = attempt.ended_at - row["created_at"]
            return row["status"], len(attempts), row["created_at"], after_ms, attempt.latency_ms
    return row["status"], len(attempts), row["created_at"], None, None


def _with_result(attempt: Attempt, values: list[Any], earlier: list[Attempt]) -> Attempt:
    took, result, latency_ms, note, body, headers, asked_ms = values + [0, "", "", [], None][len(values) - 2 :]
    status, error = (None, result) if isinstance(result, str) else (result, None)
    invalid = "" if status is None else invalid_status(status)
    if invalid:
        status, error, note = None, "protocol", note or invalid
    return attempt._replace(
        ended_at=attempt.at + took,
        status=status,
        error=error,
        latency_ms=latency_ms,
        note=note,
        response_body=earlier[-1].response_body if body is True else body,
        response_headers=earlier[-1].response_headers
        if headers is True
        else tuple(zip(headers[::2], headers[1::2], strict=False)),
        headers_left_out=earlier[-1].headers_left_out if headers is True else headers[-1] if len(headers) % 2 else 0,
        asked_ms=asked_ms,
    )


def _kept_headers(headers: Mapping[str, str]) -> list[str | int]:
    """The headers as they are stored. A header that does not fit is left out as a whole, and so is what follows."""
    kept: list[str | int] = []
    room = MAX_HEADER_BYTES
    for name, value in headers.items():
        pair = [encodable(name.lower()), encodable(value)]
        room -= sum(len(text.encode()) for text in pair)
        if room < 0 or len(kept) == 2 * MAX_HEADERS:
            return [*kept, len(headers) - len(kept) // 2]
        kept += pair
    return kept


def _header_values(attempt: Attempt) -> list[str | int]:
    values: list[str | int] = [text for pair in attempt.response_headers for text in pair]
    return [*values, attempt.headers_left_out] if attempt.headers_left_out else values


def is_redirect(status: int, location: str) -> bool:
    """Whether a response sends its client to another URL (RFC 9110, 15.4). A 304 does not, whatever it has."""
    return status in _REDIRECTS or (status == 300 and location != "")


def redirect_note(status: int, location: str) -> str:
    """What a redirect means for the delivery; empty for another status. A 300 is one if it names a URL."""
    if not is_redirect(status, location):
        return ""
    if not location:
        return "redirects are not followed: give the final URL (the response has no location)"
    end = "..." if len(location) > _LOCATION_CHARS else ""
    return f"redirects are not followed: give the final URL (location: {location[:_LOCATION_CHARS]}{end})"
