"""The kinds of injected faults: their options, their rows and which attempts they match."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NotRequired, TypedDict

from leyden.arguments import checked_count, hint, rule_span_ms, seconds
from leyden.callbacks.inspection import is_json_type
from leyden.callbacks.mutations import CONTENT_KINDS, UNKNOWN_STATUS, WRONG_CONTENT_TYPE
from leyden.errors import ArgumentError
from leyden.server.callbacks.deliveries import HEADER_NAMES
from leyden.server.contract.json_schema.schemas import properties
from leyden.server.contract.types import Contract
from leyden.server.errors import TooManyRequests
from leyden.server.printable import cut, quoted
from leyden.server.spelling import closest
from leyden.server.timestamps import to_iso

HOLDING_KINDS = ("delay", "reorder", "burst")  # the attempt starts later
CARRYING_KINDS = ("drop", "duplicate", "duplicate_new_id", "simultaneous", "redeliver")
RATE_LIMIT = "rate_limit"
KINDS = (*HOLDING_KINDS, *CARRYING_KINDS, *CONTENT_KINDS, RATE_LIMIT)

# The kinds that take a delay, with the delay that they have otherwise, in ms.
DELAYS = {
    "delay": 3_600_000,
    "reorder": 3_600_000,
    "burst": 60_000,
    "duplicate": 1_000,
    "duplicate_new_id": 1_000,
    "redeliver": 86_400_000,
    "stale_timestamp": 600_000,
    "future_timestamp": 600_000,
    RATE_LIMIT: 30_000,
}
# What did not happen to an attempt that was held without an effect.
WITHOUT = {"reorder": "has overtaken", "burst": "was sent together with"}
# The note of a burst that applies no more, although one of its count is left.
UNUSED = "the last one of its count is not used, because that attempt would be held alone"
# The shortest delay, in ms, of the kinds that change nothing with less: timestamps are whole seconds.
_SHORTEST_MS = {"delay": 1, "reorder": 1, "burst": 1, "stale_timestamp": 1_000, "future_timestamp": 1_000}
CONNECTION_HEADERS = ("host", "content-length", "connection", "transfer-encoding")
_VALUES = ("wrong_content_type", "unknown_field", "unknown_status")
_LONGEST_VALUE = 100
_MOST_ATTEMPTS = 1_000


class FaultRow(TypedDict):
    """Table `faults`. `count` is None for a fault that applies until it is cleared, `delay_ms` None without a delay.

    `until` is the instant until which a burst holds what it has held last; it is absent before its first hit. `hits`
    counts the attempts that it took, `idle` those of them on which it has had no effect, because `reorder` or `burst`
    held them and no later attempt came, and `holding` those of the idle ones that it still holds. `held` counts all
    that it holds now, and `unsent` those on which it has had no effect because the message, or the copy, was never
    sent; both are absent in rows of earlier versions.
    """

    id: str
    kind: str
    operation: str | None
    event: str | None
    charge: str | None
    attempt: int | None
    count: int | None
    delay_ms: int | None
    headers: list[str] | None
    value: str | None
    hits: int
    created_at: int
    until: NotRequired[int]
    idle: NotRequired[int]
    holding: NotRequired[int]
    held: NotRequired[int]
    unsent: NotRequired[int]


class FaultFieldRefused(ArgumentError):
    """A refusal because of some fields of a fault. `text` has `{}` in the place of their names."""

    def __init__(self, text: str, *fields: str) -> None:
        super().__init__(text.format(", ".join(fields)))
        self.fields = fields
        self.text = text


@dataclass(frozen=True, slots=True)
class FaultSpec:
    """A fault for the next `count` attempts (None: all until it is cleared) that match all of

    `operation` (a callback of the spec; for `rate_limit` an operation of the service), `event`, `charge` (a Charge or a
    Static Charge, by its id) and `attempt` (1 is the first). `delay` is a text such as "90s" or a number of seconds;
    `headers` and `value` are options of some kinds of mutated messages.
    """

    kind: str
    operation: str | None = None
    event: str | None = None
    charge: str | None = None
    attempt: int | None = None
    count: int | None = 1
    delay: str | float | None = None
    headers: Sequence[str] | None = None
    value: str | None = None

    def row(self, fault_id: str, now: int, known: Mapping[str, Collection[str]]) -> FaultRow:
        """The row of the fault. `known` lists the spec's `callbacks`, `events` and `operations`, the names of all
        `fields` of a message, every `statuses` value of a message, and the events of each callback by its name.

        Raises `ValueError`, with what to do instead, for a fault that could never apply or that would change nothing.
        """
        kind, headers, value = self.kind, self.headers, self.value
        if not isinstance(kind, str) or kind not in KINDS:
            raise ArgumentError(f"{quoted(kind, 60)} is no kind of fault: {hint(kind, KINDS)}")
        limits = kind == RATE_LIMIT
        _one_of("operation", self.operation, known["operations"] if limits else known["callbacks"])
        _one_of("event", self.event, known["events"])
        if not limits and self.operation is not None and self.event is not None:
            _one_of(f"event of {self.operation}", self.event, known[self.operation], is_spelt=True)
        if limits and (self.event, self.charge, self.attempt) != (None, None, None):
            given = [name for name in ("event", "charge", "attempt") if getattr(self, name) is not None]
            raise FaultFieldRefused("rate_limit refuses requests, not callbacks: leave out {}", *given)
        attempt, count = checked_count("attempt", self.attempt, most=_MOST_ATTEMPTS), checked_count("count", self.count)
        if kind == "burst" and count == 1:
            raise FaultFieldRefused("a burst of one message changes nothing: give a {} of 2 or more", "count")
        if headers is not None:
            if kind != "missing_headers":
                raise ArgumentError("headers is a list of names for missing_headers: leave it out otherwise")
            if isinstance(headers, str) or not headers:
                raise ArgumentError(f"headers is a list of names: write [{quoted(headers or 'webhook-id', 60)}]")
            for name in headers:
                _check_header(name)
        if value is not None and (kind not in _VALUES or not _is_header_text(value)):
            raise ArgumentError(
                f"value is a text of 1 to {_LONGEST_VALUE} printable ASCII characters for {', '.join(_VALUES)}: leave"
                " it out otherwise"
            )
        if kind == "unknown_field" and value in known["fields"]:
            raise ArgumentError(f"a message may have the field {quoted(value)}: choose a name that no message has")
        if kind == "unknown_status" and (value or UNKNOWN_STATUS) in known["statuses"]:
            raise ArgumentError(
                f"a message may have the status {quoted(value or UNKNOWN_STATUS)}: give a value that is none of"
                f" {', '.join(known['statuses'])}"
            )
        if kind == "wrong_content_type" and value is not None and is_json_type(value):
            raise ArgumentError(
                f"{quoted(value)} is the content type of a correct message: give another one, such as"
                f" {WRONG_CONTENT_TYPE}"
            )
        return {
            "id": fault_id,
            "kind": kind,
            "operation": self.operation,
            "event": self.event,
            "charge": self.charge,
            "attempt": attempt,
            "count": count,
            "delay_ms": _delay_ms(kind, self.delay),
            "headers": None if headers is None else list(headers),
            "value": value,
            "hits": 0,
            "created_at": now,
        }


def is_spent(fault: FaultRow) -> bool:
    """Whether the fault has applied `count` times."""
    return fault["count"] is not None and fault["hits"] >= fault["count"]


def is_last(fault: FaultRow) -> bool:
    """Whether at most one of its `count` is left."""
    return fault["count"] is not None and fault["hits"] + 1 >= fault["count"]


def with_idle(fault: FaultRow, change: int, *, holding: int) -> FaultRow:
    """The fault with so many more, or fewer, attempts without an effect, and those of them that it still holds."""
    idle, held = max(0, fault.get("idle", 0) + change), max(0, fault.get("holding", 0) + holding)
    return {**fault, "idle": idle, "holding": min(idle, held)}


def with_held(fault: FaultRow, change: int) -> FaultRow:
    """The fault with so many more, or fewer, attempts that it holds now."""
    return {**fault, "held": max(0, _held(fault) + change)}


def with_unsent(fault: FaultRow, change: int) -> FaultRow:
    """The fault with so many more, or fewer, attempts without an effect because nothing was sent."""
    return {**fault, "unsent": max(0, fault.get("unsent", 0) + change)}


def _held(fault: FaultRow) -> int:
    return fault.get("held", fault.get("holding", 0))


def known_names(contract: Contract) -> Mapping[str, tuple[str, ...]]:
    """The names that a fault may use, as `FaultSpec.row` takes them."""
    rules = [rule for operation in contract.operations.values() for rule in operation.callbacks]
    return {
        **{rule.name: tuple(dict.fromkeys(rule.delivery.events.values())) for rule in rules},
        "fields": tuple(name for rule in rules for name in properties(rule.rule.schema)),
        "statuses": tuple(dict.fromkeys(status for rule in rules for status in _statuses(rule.rule.schema))),
        "operations": tuple(n for n, one in contract.operations.items() if one.can_answer(TooManyRequests.status)),
        "callbacks": tuple(dict.fromkeys(rule.name for rule in rules)),
        "events": tuple(dict.fromkeys(event for rule in rules for event in rule.delivery.events.values())),
    }


def _statuses(schema: Mapping[str, Any]) -> Iterator[str]:
    """The statuses that a message can have: in its body, or in the `data` of an envelope."""
    for body in (schema, *properties(schema).get("data", ())):
        for status in properties(body).get("status", ()):
            yield from status.get("enum", (status["const"],) if "const" in status else ())


def effective(fault: FaultRow) -> int:
    """How many times the fault was applied and had an effect."""
    return max(0, fault["hits"] - fault.get("idle", 0) - fault.get("unsent", 0))


def fault_resource(fault: FaultRow) -> dict[str, Any]:
    """A fault as the control plane shows it; `delay` is in seconds."""
    return {
        "id": fault["id"],
        "kind": fault["kind"],
        "operation": fault["operation"],
        "event": fault["event"],
        "chargeId": fault["charge"],
        "attempt": fault["attempt"],
        "count": fault["count"],
        "hits": effective(fault),
        "used": fault["hits"],
        "note": _note(fault),
        "delay": seconds(fault["delay_ms"]),
        "headers": fault["headers"],
        "value": fault["value"],
        "createdAt": to_iso(fault["created_at"]),
    }


def _note(fault: FaultRow) -> str:
    """What is known about the attempts on which the fault has had no effect, about those that it holds, and about the
    last one of a burst's count."""
    taken, idle, held, unsent = fault["hits"], fault.get("holding", 0), _held(fault), fault.get("unsent", 0)
    over, without, notes = fault.get("idle", 0) - idle, WITHOUT.get(fault["kind"], ""), []
    if over:
        those = "it" if taken == 1 else f"{over} of them"
        notes.append(f"it held {_attempts(taken)}, and nothing {without} {those}")
    if held:
        until = f" until {to_iso(fault['until'])}" if "until" in fault else ""
        those = "it" if held == 1 else "them" if idle == held else f"{idle} of them"
        notes.append(f"it holds {_attempts(held)}{until}" + (f", and so far nothing {without} {those}" if idle else ""))
    if unsent:
        what = "a message that it held" if fault["kind"] in HOLDING_KINDS else "a copy"
        notes.append(f"{what} was never sent{f' {unsent} times' if unsent > 1 else ''}")
    if fault["kind"] == "burst" and is_last(fault) and not (is_spent(fault) or held):
        notes.append(UNUSED)
    return "; ".join(notes)


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"


def _delay_ms(kind: str, delay: str | float | None) -> int | None:
    if delay is None:
        return DELAYS.get(kind)
    if kind not in DELAYS:
        raise ArgumentError(f"{kind} takes no delay: leave it out")
    if not isinstance(delay, str | float | int | timedelta):
        raise ArgumentError(f'{quoted(delay)} is no delay: give a number of seconds or a text such as "90s"')
    return rule_span_ms("delay", delay, least_ms=_SHORTEST_MS.get(kind, 0), why=f"is too short for {kind}")


def _one_of(what: str, name: str | None, known: Collection[str], *, is_spelt: bool = False) -> None:
    """Raise `ArgumentError` for another name; with `is_spelt` it is one that exists, and only not among these."""
    if name is not None and (not isinstance(name, str) or name not in known):
        mend = f"choose one of {', '.join(known)}" if is_spelt else hint(name, known)
        raise ArgumentError(f"there is no {what} {quoted(name, 60)} that this fault could apply to: {mend}")


def _check_header(name: str) -> None:
    lower = name.lower() if isinstance(name, str) else ""
    if lower in CONNECTION_HEADERS:
        raise ArgumentError(
            f"the connection adds the header {lower}, and a request without it is not sent: choose from"
            f" {', '.join(HEADER_NAMES)}"
        )
    if lower not in HEADER_NAMES:
        near = closest(lower, HEADER_NAMES)
        raise ArgumentError(
            f"a callback has no header {quoted(cut(str(name), 60))}"
            f"{f', did you mean {quoted(near)}?' if near else ''}: choose from {', '.join(HEADER_NAMES)}"
        )


def _is_header_text(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isprintable() and 1 <= len(value) <= _LONGEST_VALUE
