"""Obligations of sequences: three answers and events of one delivery, and pairs of the fields of a fault rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from itertools import combinations, product
from typing import Any

from leyden.harness.control.documents import resolved
from leyden.harness.generators.generators import START_MS
from leyden.harness.obligations.obligation import Obligation
from leyden.harness.steps import Step
from leyden.world.config import packaged_contract

_WEEK_MS = 7 * 86_400_000
_EVENTS: Mapping[str, Any] = {
    "200": 200, "500": 500, "410": 410, "timeout": "timeout", "redirect": 302,
    "429 later": {"status": 429, "headers": {"Retry-After": "9"}}, "replay": None,
}  # fmt: skip
_CAUSES = ("pay", "fail", "expire")
# Values of the fields of a fault rule that match the first delivery of the case, and others.
_FIELDS: Mapping[str, tuple[Any, ...]] = {
    "event": ("charge.completed", "charge.expired"),
    "attempt": (1, 2, 3),
    "chargeId": ("c1", "c2", "s1"),
    "count": (1, 2, 3),
}


def sequence_obligations() -> Iterator[Obligation]:
    """All sequences of three of the answers and events of a delivery."""
    source = "#/paths/~1v0~1charges/post/callbacks/chargeUpdated/{$request.body#~1callbackUrl}/x-delivery"
    for number, names in enumerate(product(_EVENTS, repeat=3)):
        if names[0] == "replay":
            continue
        host, label, cause = f"q{number}.inbox", f"q{number}", _CAUSES[number % 3]
        body = {"amount": "1000", "description": "x", "callbackUrl": f"http://{host}.localhost/hook", "expiresIn": 60}
        steps: list[Step] = [
            {"do": "receiver", "host": host, "answers": [_EVENTS[names[0]]]},
            {"do": "create_charge", "as": label, "body": body},
        ]
        if cause == "pay":
            steps.append({"do": "pay", "as": f"p{label}", "charge": label})
        elif cause == "fail":
            steps.append({"do": "fail", "charge": label})
        else:
            steps.append({"do": "advance", "to": ["expiry", label], "offset": 0})
        for name in names[1:]:
            if name == "replay":
                steps += [{"do": "receiver", "host": host, "answers": [500]}, {"do": "replay", "charge": label}]
            else:
                steps += [{"do": "receiver", "host": host, "answers": [_EVENTS[name]]},
                          {"do": "advance", "by": 16_000}, {"do": "advance", "by": 400_000}]  # fmt: skip
        steps.append({"do": "advance", "by": _WEEK_MS})
        yield Obligation(
            "chargeUpdated", "sequence", f"{cause}: {', '.join(names)}", source, tuple(steps), setup="empty"
        )


_STATUSES = (200, 201, 202, 203, 204, 206, 226, 299, 300, 301, 302, 303, 304, 307, 308, 399, 400, 401, 403, 404, 405,
             408, 409, 411, 418, 422, 425, 429, 451, 499, 500, 501, 502, 503, 504, 599)  # fmt: skip


def reply_obligations() -> Iterator[Obligation]:
    """Each status of a receiver and none, and Retry-After around the delay of the schedule and around twice it."""
    source = "#/paths/~1v0~1charges/post/callbacks/chargeUpdated/{$request.body#~1callbackUrl}/x-delivery"
    replies: dict[str, Any] = {str(status): status for status in _STATUSES}
    for part in ({}, {"headers": {"X-Reply": "1"}}, {"body": "ok"}, {"delay": 3}):
        replies[f"no status, {', '.join(part) or 'nothing else'}"] = part
    for status in (429, 500, 503):
        for text in ("0", "1", "4", "5", "6", "7", "9", "10", "11", "3600", "99999999999", "-1", "1.5", "soon", ""):
            replies[f"{status} Retry-After {text}"] = {"status": status, "headers": {"Retry-After": text}}
    for status in _STATUSES:
        replies.setdefault(f"{status} Retry-After 9", {"status": status, "headers": {"Retry-After": "9"}})
    # A date counts from the answer, and not from the attempt.
    for delay_s, later_s in product((0, 3, 9), (5, 9, 12)):
        date = format_datetime(datetime.fromtimestamp(START_MS / 1_000 + later_s, UTC), usegmt=True)
        reply = {"status": 503, "headers": {"Retry-After": date}, **({"delay": delay_s} if delay_s else {})}
        replies[f"503 after {delay_s} s, Retry-After a date {later_s} s later"] = reply
        replies[f"503 after {delay_s} s, Retry-After {later_s}"] = {**reply, "headers": {"Retry-After": str(later_s)}}
    for number, (case, reply) in enumerate(replies.items()):
        host, label = f"v{number}.inbox", f"v{number}"
        body = {"amount": "1000", "description": "x", "callbackUrl": f"http://{host}.localhost/hook"}
        steps: list[Step] = [
            {"do": "receiver", "host": host, "answers": [reply, reply]},
            {"do": "create_charge", "as": label, "body": body},
            {"do": "fail", "charge": label},
            {"do": "advance", "by": 20_000},
            {"do": "advance", "by": 700_000},
        ]
        is_dated = "a date" in case  # the date is one of the start
        yield Obligation(
            "chargeUpdated", "reply", case, source, tuple(steps), setup="dated-changed" if is_dated else "empty"
        )


_HEADERS: Mapping[str, tuple[Mapping[str, str], ...]] = {
    "other value": ({"X-Reply": "1"}, {"X-Reply": "2"}, {"X-Reply": "1"}),
    "other name": ({"X-Reply": "1"}, {"X-Other": "1"}, {"X-Reply": "1"}),
    "one more": ({"X-Reply": "1"}, {"X-Reply": "1", "X-Other": "1"}, {"X-Reply": "1"}),
    "none between": ({"X-Reply": "1"}, {}, {"X-Reply": "1"}),
    "the same": ({"X-Reply": "1"}, {"X-Reply": "1"}, {"X-Reply": "1"}),
    "values exchanged": ({"X-Reply": "1", "X-Other": "2"}, {"X-Reply": "2", "X-Other": "1"}, {"X-Reply": "1"}),
}


def reply_header_obligations() -> Iterator[Obligation]:
    """Headers of the replies to one delivery that differ in names or values from one attempt to the next, with the same
    body and with another one."""
    source = "sandbox.openapi.yaml#/components/schemas/Attempt/properties/answerHeaders"
    for number, (case, body) in enumerate(product(_HEADERS, ("", "another"))):
        host, label = f"h{number}.inbox", f"h{number}"
        answers = [{"status": 500, "headers": dict(headers), "body": f"body {place}" if body else "body"}
                   for place, headers in enumerate(_HEADERS[case])]  # fmt: skip
        steps = _retried(host, label, answers)
        name = f"{case}, another body" if body else case
        yield Obligation("chargeUpdated", "reply-headers", name, source, steps, setup="empty")


def _retried(host: str, label: str, answers: list[Any]) -> tuple[Step, ...]:
    """A Charge whose callback gets these answers: the first attempt, and the next two."""
    body = {"amount": "1000", "description": "x", "callbackUrl": f"http://{host}.localhost/hook"}
    return (
        {"do": "receiver", "host": host, "answers": answers},
        {"do": "create_charge", "as": label, "body": body},
        {"do": "fail", "charge": label},
        {"do": "advance", "by": 20_000},
        {"do": "advance", "by": 700_000},
    )


def reply_text_obligations() -> Iterator[Obligation]:
    """Texts and headers of the answers to four attempts at one delivery: every sequence of two texts, an empty one and
    no answer, with the same headers, with others each time, and with headers that repeat in another order."""
    source = "sandbox.openapi.yaml#/components/schemas/Attempt/properties/answer"
    texts: Mapping[str, Any] = {"a": "first", "b": "second", "empty": "", "none": "timeout"}
    every = [*product(texts, repeat=4)]
    for number, names in enumerate(every):
        host, label, headers = f"w{number}.inbox", f"w{number}", every[-1 - number * 7 % len(every)]
        answers = [
            {"status": 500, "body": texts[name], **({"headers": {"X-Reply": other}} if number % 3 else {})}
            if name != "none" else texts[name]
            for name, other in zip(names, headers if number % 3 == 1 else names[::-1], strict=True)
        ]  # fmt: skip
        steps: tuple[Step, ...] = (*_retried(host, label, answers), {"do": "advance", "by": 3_600_000})
        yield Obligation("chargeUpdated", "reply-texts", ", ".join(names), source, steps, setup="empty")


def fault_obligations() -> Iterator[Obligation]:
    """Every kind of fault with every field of a rule and every pair of fields."""
    document = packaged_contract("sandbox").document
    rule = resolved(document, document["components"]["schemas"]["FaultCreate"])
    names = [name for name in rule["properties"] if name in _FIELDS]
    source = "sandbox.openapi.yaml#/components/schemas/FaultCreate"
    for number, kind in enumerate(rule["properties"]["kind"]["enum"]):
        if kind == "rate_limit":  # it refuses requests
            yield from _limits(source)
            continue
        choices: list[Mapping[str, Any]] = [{name: value} for name in names for value in _FIELDS[name]]
        for first, second in combinations(names, 2):
            # Over the kinds, each pair of fields has each pair of values.
            pairs = [*product(_FIELDS[first], _FIELDS[second])]
            value, other = pairs[number % len(pairs)]
            choices.append({first: value, second: other})
        for fields in choices:
            case = " ".join(f"{name}={value}" for name, value in fields.items())
            yield Obligation(f"fault {kind}", "fault-fields", case, source, tuple(_fault_steps(kind, fields)),
                             setup="fault-changed")  # fmt: skip
        for case, answers in _FAULT_ANSWERS.items():
            yield Obligation(f"fault {kind}", "fault-answers", case, source, tuple(_fault_steps(kind, {}, answers)),
                             setup="fault-changed")  # fmt: skip


def _limits(source: str) -> Iterator[Obligation]:
    """Requests that are refused for a time, in whole seconds and between them."""
    for delay in (1, 499, 500, 999, 1_000, 1_001, 1_500, 59_999, 60_000, 3_600_001):
        fault: Step = {"do": "fault", "kind": "rate_limit", "operation": "getWallet", "delay": delay, "count": 2}
        asked: Step = {"do": "request", "method": "GET", "target": "/v0/wallet", "headers": [["apikey", "{key}"]]}
        yield Obligation("fault rate_limit", "retry-after", f"{delay} ms", source, (fault, asked, asked, asked),
                         setup="fault-changed")  # fmt: skip


_LATE = {"status": 200, "delay": 5}
# What a receiver answers to an attempt and to what a fault sends beside it: attempts that are never sent come first,
# and answers to a copy come before and after that to the attempt.
_FAULT_ANSWERS: Mapping[str, list[Any]] = {
    **{f"{word} first": [word, word, 500, 200] for word in ("tls", "unresolved", "refused", "reset", "timeout")},
    **{f"{word} second": [500, word, 500, 200] for word in ("tls", "unresolved", "refused")},
    "late, then 410": [_LATE, 410, 500, 200], "410, then late": [410, _LATE, 500, 200],
    "late, then 500": [_LATE, 500, 500, 200], "500, then late": [500, _LATE, 500, 200],
    "late, then 200": [{"status": 500, "delay": 5}, 200, 500, 200],
    "200, then late": [200, {"status": 500, "delay": 5}, 500, 200],
}  # fmt: skip


def _fault_steps(kind: str, fields: Mapping[str, Any], answers: Sequence[Any] = (500, 500, 200, 500)) -> Iterator[Step]:
    url = "http://r1.inbox.localhost/hook"
    charge = {"amount": "1000", "description": "x", "callbackUrl": url, "expiresIn": 60}
    link = {"minAmount": "1000", "maxAmount": "2000", "description": "x", "callbackUrl": url}
    if kind == "old_secret":
        yield {"do": "rotate"}
    for label in ("c1", "c2"):
        yield {"do": "create_charge", "as": label, "body": charge}
    yield {"do": "create_static", "as": "s1", "body": link}
    yield {"do": "invoice", "static": "s1", "as": "c3", "amount": "1000"}
    rule: Any = {"do": "fault", "kind": kind, **fields}
    if "chargeId" in rule:
        rule["charge"] = rule.pop("chargeId")
    yield rule
    yield {"do": "receiver", "host": "r1.inbox", "answers": [*answers]}
    yield {"do": "pay", "as": "p1", "charge": "c1"}
    yield {"do": "pay", "as": "p3", "charge": "c3"}
    for by in (1_000, 15_000, 400_000, _WEEK_MS):
        yield {"do": "advance", "by": by}
