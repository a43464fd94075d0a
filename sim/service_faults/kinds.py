"""The kinds of service faults: their options, their rows, and the client mistake that each one uncovers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from leyden.arguments import MAX_TIMES, checked_count, hint, rule_span_ms, seconds, whole_number
from leyden.errors import ArgumentError
from leyden.server.contract.types import Operation
from leyden.server.printable import cut, quoted
from leyden.server.timestamps import to_iso
from leyden.service_faults.applicable import applies_to, as_pattern, check_applicable
from leyden.text_patterns import matches_pattern

ERROR, RESET, KEY_IN_USE, STALE_READ = "error", "connection_reset", "key_in_use", "stale_read"

# What each kind is for: the mistake of a client that it uncovers. The documents have the same sentences.
UNCOVERS = {
    ERROR: "repeats a request that was refused for good, does not repeat one that failed for a time, ignores"
    " `Retry-After`, reads HTML or an empty body as JSON",
    RESET: "creates a second charge because the answer to the first was lost: it repeats without an `Idempotency-Key`,"
    " or with another one",
    "slow_first_byte": "waits without a limit, or gives up and creates a second charge",
    "slow_body": "limits the wait for the first byte, or for each part, and hangs while the body arrives",
    "truncated_body": "reads half a body as the whole, or crashes on it",
    KEY_IN_USE: "takes 409 for its repeated request as the end, although the first request is in progress",
    STALE_READ: "takes the first read after a change for the truth, or goes back from `completed` to `pending`",
    "wrong_content_type": "reads a body without a look at its `Content-Type`",
    "unknown_fields": "fails when an answer has a field that it does not know",
    "past_date": "takes `Date` for the time, and counts a charge as open for too long",
    "future_date": "takes `Date` for the time, and counts a charge as expired too early",
}
KINDS = tuple(UNCOVERS)

STATUSES = (400, 401, 403, 404, 409, 429, 500, 502, 503)
BODIES = ("problem", "html", "empty")
# The kinds that take a delay, with the delay that they have otherwise, in ms.
DELAYS = {"slow_first_byte": 10_000, "slow_body": 10_000, "past_date": 600_000, "future_date": 600_000}
_OF_DATE = ("past_date", "future_date")
_RETRY_AFTER_MS = 30_000
_STATUSES_WITH_RETRY = (429, 503)
_DEFAULT_CONTENT_TYPE = "text/html"
_LONGEST_VALUE = 100
_MEDIA_TYPES = ("application/json", "application/problem+json")
_METHODS = ("GET", "POST", "PATCH", "PUT", "DELETE", "HEAD")


class ServiceFaultRow(TypedDict):
    """Table `service_faults`. `count` is None for a rule that applies until it is cleared; `matches` counts the
    requests that matched while the rule applied and no older one changed them, `hits` those that it changed."""

    id: str
    kind: str
    operation: str | None
    method: str | None
    path: str | None
    nth: int
    count: int | None
    probability: float
    until: int | None
    status: int | None
    body: str | None
    retry_after_ms: int | None
    delay_ms: int | None
    value: str | None
    after_commit: bool
    marked: bool
    matches: int
    hits: int
    created_at: int


@dataclass(frozen=True, slots=True)
class ServiceFaultSpec:
    """A fault for `count` requests (None: all until it is cleared), from the `nth` that matches all of

    `operation` (its operationId), `method` and `path` (`*` is any text), each with this `probability`, before the
    instant `until` (ISO 8601, on the sandbox clock).

    `error` answers with `status` (503) and `body` (`problem`, `html` or `empty`), and with `Retry-After` for 429 and
    503 or if `retry_after` is given. `after_commit=True` lets `error` and `connection_reset` take effect after the
    request was processed. `delay` is an option of the slow kinds, in real time, and of the dates; to a request in
    process a slow response takes no time, and ends in a timeout if its client waits for less until the first byte of
    `slow_first_byte` or until the next part of `slow_body`. `value` is the other
    content type. `marked=False` leaves out the header `Leyden-Fault`. A duration is a text such as "90s" or a number
    of seconds.
    """

    kind: str
    operation: str | None = None
    method: str | None = None
    path: str | None = None
    nth: int = 1
    count: int | None = 1
    probability: float = 1
    until: int | None = None
    status: int | None = None
    body: str | None = None
    retry_after: str | float | None = None
    delay: str | float | None = None
    value: str | None = None
    after_commit: bool = False
    marked: bool = True

    def row(self, fault_id: str, now: int, operations: Mapping[str, Operation]) -> ServiceFaultRow:
        """The row of the rule. Raises `ValueError`, with what to do instead, for a rule that could never apply."""
        kind = self.kind
        _one_of("kind of service fault", kind, KINDS)
        if self.operation is not None:
            _one_of("operation", self.operation, operations)
        if self.method is not None:
            _one_of("method", self.method, _METHODS)
        if self.path is not None and not isinstance(self.path, str):
            raise ArgumentError(f"path is {quoted(self.path, 80)}: give a text, in which * is any text")
        for name, flag in (("after_commit", self.after_commit), ("marked", self.marked)):
            if type(flag) is not bool:
                raise ArgumentError(f"{name} is {quoted(flag, 80)}: give true or false")
        if kind != ERROR and (self.status, self.body, self.retry_after) != (None, None, None):
            raise ArgumentError(f"{kind} takes no status, body and retry_after: they are options of error")
        if self.status is not None and (type(self.status) is not int or self.status not in STATUSES):
            raise ArgumentError(f"the status {quoted(self.status)} is not possible: choose one of {_listed(STATUSES)}")
        if self.body is not None:
            _one_of("body", self.body, BODIES)
        if self.after_commit and kind not in (ERROR, RESET):
            raise ArgumentError(f"{kind} always takes effect after the request was processed: leave out after_commit")
        if self.value is not None and (kind != "wrong_content_type" or not _is_header_text(self.value)):
            raise ArgumentError(
                f"value is a content type of 1 to {_LONGEST_VALUE} printable ASCII characters for wrong_content_type:"
                " leave it out otherwise"
            )
        if type(self.probability) not in (int, float) or not 0 < self.probability <= 1:
            raise ArgumentError(f"probability is {quoted(self.probability)}: give a number above 0, 1 at most")
        if self.until is not None and self.until <= now:
            raise ArgumentError(f"until is {to_iso(self.until)}, and it is {to_iso(now)}: give a later instant")
        if self.path is not None and "=" in self.path.partition("?")[2]:
            raise ArgumentError(
                f"path is {quoted(cut(self.path, 100))}, and a path has no query: leave out what follows its ?, or "
                "write *"
            )
        if self.path is not None and as_pattern(self.path) != self.path:
            raise ArgumentError(
                f"path is {quoted(cut(self.path, 100))}, and the path of a request has no parameter in braces: write "
                f"{as_pattern(self.path)[:100]}, where * is any text"
            )
        check_applicable(operations, kind, self.operation, self.method, self.path)
        if self.value is not None and self.value.partition(";")[0].strip().lower() in _MEDIA_TYPES:
            raise ArgumentError(
                f"{self.value} is a content type that responses have: give another one, such as text/html"
            )
        nth, count = whole_number("nth", self.nth, 1, MAX_TIMES), checked_count("count", self.count)
        status = None if kind != ERROR else self.status or 503
        return {
            "id": fault_id,
            "kind": kind,
            "operation": self.operation,
            "method": self.method,
            "path": self.path,
            "nth": nth,
            "count": count,
            "probability": self.probability,
            "until": self.until,
            "status": status,
            "body": None if kind != ERROR else self.body or BODIES[0],
            "retry_after_ms": self._retry_after_ms(status),
            "delay_ms": self._delay_ms(),
            "value": (self.value or _DEFAULT_CONTENT_TYPE) if kind == "wrong_content_type" else None,
            "after_commit": self.after_commit,
            "marked": self.marked,
            "matches": 0,
            "hits": 0,
            "created_at": now,
        }

    def _retry_after_ms(self, status: int | None) -> int | None:
        if self.retry_after is None:
            return _RETRY_AFTER_MS if status in _STATUSES_WITH_RETRY else None
        return rule_span_ms("retry_after", self.retry_after)

    def _delay_ms(self) -> int | None:
        if self.delay is None:
            return DELAYS.get(self.kind)
        if self.kind not in DELAYS:
            raise ArgumentError(f"{self.kind} takes no delay: leave it out")
        least_ms = 1_000 if self.kind in _OF_DATE else 1  # the unit of the header Date
        return rule_span_ms("delay", self.delay, least_ms=least_ms, why=f"is too short for {self.kind}")


def is_spent(row: ServiceFaultRow, now: int) -> bool:
    """Whether the rule has applied `count` times, or its time is over."""
    over = row["until"] is not None and now >= row["until"]
    return over or (row["count"] is not None and row["hits"] >= row["count"])


def fits(row: ServiceFaultRow, operation: Operation, method: str, path: str) -> bool:
    """Whether the conditions about the request itself hold."""
    return (
        applies_to(row["kind"], operation, method)
        and row["operation"] in (None, operation.operation_id)
        and row["method"] in (None, method)
        and (row["path"] is None or matches_pattern(path, row["path"]))
    )


def service_fault_resource(row: ServiceFaultRow) -> dict[str, Any]:
    """A rule as the control plane shows it; durations are in seconds."""
    return {
        "id": row["id"],
        "kind": row["kind"],
        "operation": row["operation"],
        "method": row["method"],
        "path": row["path"],
        "nth": row["nth"],
        "count": row["count"],
        "probability": row["probability"],
        "until": None if row["until"] is None else to_iso(row["until"]),
        "status": row["status"],
        "body": row["body"],
        "retryAfter": seconds(row["retry_after_ms"]),
        "delay": seconds(row["delay_ms"]),
        "value": row["value"],
        "afterCommit": row["after_commit"],
        "marked": row["marked"],
        "matches": row["matches"],
        "hits": row["hits"],
        "createdAt": to_iso(row["created_at"]),
    }


def _one_of(what: str, name: object, known: Collection[str]) -> None:
    if not isinstance(name, str) or name not in known:
        raise ArgumentError(f"there is no {what} {quoted(name, 60)}: {hint(name, known)}")


def _listed(values: Collection[object]) -> str:
    return ", ".join(map(str, values))


def _is_header_text(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isprintable() and 1 <= len(value) <= _LONGEST_VALUE
