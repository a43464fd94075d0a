"""Obligations of what a receiver gets while there is a fault: every option of each kind that changes or copies a
message, and what goes on after the fault was cleared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from leyden.harness.model.faults import CONTENT_FAULTS, COPYING, FEWEST, HOLDING
from leyden.harness.model.records import FAULT_DELAYS_MS
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.steps import Step

_SOURCE = "sandbox.openapi.yaml#/components/schemas/FaultKind"
_HOST = "r1.inbox"
_URL = f"http://{_HOST}.localhost/hook"
_HOUR_MS, _DAY_MS, _WEEK_MS = 3_600_000, 86_400_000, 7 * 86_400_000
_SECONDS_MS = (1_000, 2_000, 59_000, 300_000, 301_000, _DAY_MS)  # a timestamp has whole seconds
_SPANS_MS = (1, 999, 1_000, 1_001, 61_500, 2 * _DAY_MS)
_TYPES = ("text/html;charset=utf-8", "x", "APPLICATION/XML", "multipart/form-data", "!" * 100)
_WORDS = ("a", "Amount", "x.y", "~", '"', "\\", "0", "z" * 100)
_HEADERS = ("content-type", "user-agent", "webhook-id", "webhook-timestamp", "webhook-signature", "leyden-event",
            "leyden-attempt", "leyden-time")  # fmt: skip
_ROTATE: Step = {"do": "rotate"}


def message_obligations() -> Iterator[Obligation]:
    """Each kind with each value of its options, with each event and text, about rotations and restarts; and cleared."""
    for kind in (*CONTENT_FAULTS, *COPYING):
        for case, fields in _options(kind):
            yield _obligation(kind, case, _steps(kind, fields))
        for case, more in _contexts().items():
            yield _obligation(kind, case, _steps(kind, **more))
        yield _obligation(kind, "in an envelope", _steps(kind), overlays=("callback-envelope",))
    for kind in (*COPYING, *HOLDING):
        for case, again in _cleared():
            yield _obligation(kind, case, _cleared_steps(kind, again), what="fault-cleared")


def _obligation(
    kind: str, case: str, steps: Iterable[Step], what: str = "fault-message", overlays: tuple[str, ...] = ()
) -> Obligation:
    return Obligation(f"fault {kind}", what, case, _SOURCE, tuple(steps), setup="message-changed", overlays=overlays)


def _options(kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "default", {}
    if kind in FAULT_DELAYS_MS:
        for delay in _SECONDS_MS if kind.endswith("timestamp") else _SPANS_MS:
            yield f"{delay} ms", {"delay": delay}
    for value in {"wrong_content_type": _TYPES, "unknown_field": _WORDS, "unknown_status": _WORDS}.get(kind, ()):
        yield f"value {value[:20]}", {"value": value}
    if kind == "missing_headers":
        for name in _HEADERS:
            for spelt in (name, name.upper(), name.title()):
                yield f"headers {spelt}", {"names": [spelt]}
        for pair in combinations(_HEADERS, 2):
            yield f"headers {' '.join(pair)}", {"names": [pair[0].swapcase(), pair[1]]}
        yield "headers, all", {"names": [*_HEADERS]}
        yield "headers, twice", {"names": [_HEADERS[2], _HEADERS[2].upper()]}


def _contexts() -> Mapping[str, Any]:
    """What may be about the message: its event and its texts, secrets before it and before a copy of it, restarts."""
    restarts = {how: {"after": [{"do": "restart", "how": how}]} for how in ("close", "kill", "compact", "snapshot")}
    return {
        "failed": {"cause": "fail"}, "expired": {"cause": "expire"},
        "of a Static Charge": {"cause": "child"},
        "texts": {"body": {"description": "caf\u00e9 \U0001f600 \u20ac", "internalId": "\u00e9\\\"\n"}},
        "texts of another length": {"body": {"description": "caf\u00e9 \U0001f600 \u20ac.", "internalId": None}},
        "amount": {"body": {"amount": "999000"}},
        "rotated": {"before": [_ROTATE]},
        "rotated twice": {"before": [_ROTATE, {"do": "advance", "by": 1_500}, _ROTATE]},
        "rotated a day ago": {"before": [_ROTATE, {"do": "advance", "by": _DAY_MS}]},
        "rotated meanwhile": {"after": [_ROTATE]},
        "second attempt": {"fields": {"attempt": 2}, "answers": [500, 503, 200]},
        "two attempts": {"fields": {"count": 2}, "answers": [500, 200]},
        "replayed": {"fields": {"attempt": 2}, "answers": [200], "after": [{"do": "replay", "charge": "c1"}]},
        **{f"{how} meanwhile": steps for how, steps in restarts.items()},
    }  # fmt: skip


def _steps(
    kind: str,
    fields: Mapping[str, Any] | None = None,
    *,
    cause: str = "pay",
    body: Mapping[str, Any] | None = None,
    before: Sequence[Step] = (),
    after: Sequence[Step] = (),
    answers: Sequence[Any] = (200,),
) -> Iterator[Step]:
    """One message to which the fault applies, and the next one."""
    if kind == "old_secret" and _ROTATE not in before:
        yield _ROTATE
    yield from before
    yield {"do": "receiver", "host": _HOST, "answers": [*answers]}
    rule: Any = {"do": "fault", "kind": kind, **(fields or {})}
    yield rule
    created = {"amount": "1000", "description": "x", "callbackUrl": _URL, "expiresIn": 60, **(body or {})}
    if cause == "child":
        yield {"do": "create_static", "as": "s1", "body": {"minAmount": "1000", "maxAmount": "2000",
                                                           "description": "x", "callbackUrl": _URL}}  # fmt: skip
        yield {"do": "invoice", "static": "s1", "as": "c1", "amount": "1500"}
    else:
        yield {"do": "create_charge", "as": "c1", "body": created}
    if cause == "expire":
        yield {"do": "advance", "to": ["expiry", "c1"], "offset": 0}
    elif cause == "fail":
        yield {"do": "fail", "charge": "c1"}
    else:
        yield {"do": "pay", "as": "p1", "charge": "c1"}
    yield from after
    for by in (1_000, 15_000, 400_000, _HOUR_MS):
        yield {"do": "advance", "by": by}
    yield {"do": "create_charge", "as": "c2", "body": {**created, "expiresIn": _DAY_MS // 1_000}}
    yield {"do": "fail", "charge": "c2"}
    yield {"do": "advance", "by": _WEEK_MS}


def _cleared() -> Iterator[tuple[str, Sequence[Step]]]:
    """All faults are cleared, or this one or another one alone, and what comes between that and the next attempt."""
    yield "all", [{"do": "clear_faults"}]
    yield "one", [{"do": "clear_faults", "count": 1}]
    yield "another one", [{"do": "clear_faults", "count": 2}]
    yield "twice", [{"do": "clear_faults"}, {"do": "clear_faults"}]
    for how in ("close", "kill", "compact", "snapshot"):
        yield f"all, {how}", [{"do": "clear_faults"}, {"do": "restart", "how": how}]
    yield "all, rotated", [{"do": "clear_faults"}, _ROTATE]


def _cleared_steps(kind: str, again: Sequence[Step]) -> Iterator[Step]:
    """Two messages to which the fault applies; then it is cleared, and there are two more."""
    yield {"do": "receiver", "host": _HOST, "answers": [200, 500]}
    yield {"do": "fault", "kind": kind, "count": max(4, FEWEST.get(kind, 1))}
    yield {"do": "fault", "kind": "drop", "attempt": 900}
    for number in range(4):
        yield {"do": "create_charge", "as": f"c{number}", "body": {
            "amount": "1000", "description": "x", "callbackUrl": _URL, "expiresIn": _DAY_MS // 1_000}}  # fmt: skip
    yield {"do": "pay", "as": "p0", "charge": "c0"}
    yield {"do": "advance", "by": 400}
    yield {"do": "fail", "charge": "c1"}
    yield from again
    yield {"do": "advance", "by": 500}
    yield {"do": "fail", "charge": "c2"}
    for by in (100, 1_000, 15_000, _HOUR_MS):
        yield {"do": "advance", "by": by}
    yield {"do": "fail", "charge": "c3"}
    yield {"do": "advance", "by": _WEEK_MS}
