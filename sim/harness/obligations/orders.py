"""Obligations of refused requests: each mistake alone and each pair of mistakes, of which the first decides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from leyden.harness.obligations.obligation import (
    JSON_TYPE,
    KEY,
    DocumentedOperation,
    Obligation,
    document_of,
    operations_of,
    request_of,
    target_of,
)
from leyden.harness.steps import Step

_UNKNOWN = "00000000-0000-4000-8000-000000000000"
_WHOLE_NUMBERS = ("expiresIn", "allowedSlots")
_SLIP = "X-Idempotency-Key"
# Mistakes of one place of a request, which cannot be wrong in two ways.
_ONE_PLACE = (
    frozenset({"path", "id form", "id unknown"}),
    frozenset({"field", "point", "crossed"}),
    frozenset({"header", "used key"}),
    frozenset({"unknown field", "many fields"}),
    frozenset({"method", "other method"}),
)


def order_obligations() -> Iterator[Obligation]:
    """Every mistake and every pair of mistakes in a request of every operation, of each GET as a HEAD, too (DECISIONS
    order-of-checks)."""
    for one in operations_of():
        for is_head in (False, True) if one.method == "GET" else (False,):
            place = f"{'HEAD ' if is_head else ''}{one.name} order"
            names = _mistakes(one)
            for first, second in (*((name, "") for name in names), *combinations(names, 2)):
                if second and any({first, second} <= places for places in _ONE_PLACE):
                    continue
                mistakes = {first, second} - {""}
                steps = tuple(_steps(one, mistakes, f"{one.name}-{first}-{second}".replace(" ", "-"), is_head))
                yield Obligation(place, f"{first} and" if second else first, second, one.source, steps)


def _mistakes(one: DocumentedOperation) -> list[str]:
    """The mistakes that a request of this operation can have."""
    places = {each["in"] for each in one.parameters}
    fields = {} if one.body is None else one.body["properties"]
    keyed = any(each["name"].lower() == "idempotency-key" for each in one.parameters)
    return [
        name
        for name, applies in {
            "length": True,
            "path": True,
            "method": True,
            "other method": True,
            "key": one.secured,
            "limited": True,
            "content type": one.body is not None,
            "accept": True,
            "json": True,
            "id form": "path" in places,
            "query": True,
            "header": keyed,
            "field": bool(fields),
            "unknown field": True,
            "many fields": True,
            "slip of a header": True,
            "point": any(name in fields for name in _WHOLE_NUMBERS),
            "used key": keyed,
            "crossed": "minAmount" in fields,
            "id unknown": "path" in places,
        }.items()
        if applies
    ]


def _steps(one: DocumentedOperation, mistakes: set[str], key: str, is_head: bool) -> Iterator[Step]:
    if "used key" in mistakes:
        yield request_of(one, headers=[KEY, JSON_TYPE, ["Idempotency-Key", key]], body=dict(one.example))
    if "limited" in mistakes:
        yield {"do": "fault", "kind": "rate_limit", "operation": one.name, "delay": 7_000}
    step = _mistaken(one, mistakes, key)
    if is_head and step["method"] == "GET":
        step["method"] = "HEAD"
    yield step
    if "limited" in mistakes:
        # Whoever was refused for an earlier mistake did not count.
        yield request_of(one)


def _mistaken(one: DocumentedOperation, mistakes: set[str], key: str) -> Step:
    """A request with these mistakes and no others."""
    body: dict[str, Any] = {} if one.body is None or one.method == "PATCH" else dict(one.example)
    fields = {} if one.body is None else one.body["properties"]
    if "used key" in mistakes:
        body["description"] = "another"
    if "field" in mistakes:
        body[next(iter(fields))] = {"not": "this"}
    if "point" in mistakes:
        body[next(name for name in _WHOLE_NUMBERS if name in fields)] = 600.0
    if "crossed" in mistakes:
        body |= {"minAmount": "2000", "maxAmount": "1000"}
    if "unknown field" in mistakes:
        body["colour"] = "blue"
    if "many fields" in mistakes:
        body |= {f"colour{number}": number for number in range(12)}
    raw = json.dumps(body) if body or one.body is not None else ""
    if "json" in mistakes:
        raw = f"{raw[:-1]},"
    if "length" in mistakes:
        raw += " " * document_of()["x-limits"]["bodyBytes"]
    ids = {each["name"]: "x" for each in one.parameters if each["in"] == "path"}
    if "id unknown" in mistakes:
        ids = {name: _UNKNOWN if name == "id" else "0" * 64 for name in ids}
    wrong_ids = mistakes & {"id form", "id unknown"}
    target = target_of(one, "colour=blue" if "query" in mistakes else "", **(ids if wrong_ids else {}))
    if "path" in mistakes:
        target = f"/v9{target}"
    headers = [KEY] if one.secured and "key" not in mistakes else []
    if one.body is not None or raw:
        headers = [*headers, ["Content-Type", "text/plain"] if "content type" in mistakes else JSON_TYPE]
    if "accept" in mistakes:
        headers = [*headers, ["Accept", "text/html"]]
    if "header" in mistakes:
        headers = [*headers, ["Idempotency-Key", "a b"]]
    if "used key" in mistakes:
        headers = [*headers, ["Idempotency-Key", key]]
    if "slip of a header" in mistakes:
        headers = [*headers, [_SLIP, "1"]]
    step = request_of(one, target, headers=headers, raw=raw)
    if mistakes & {"method", "other method"}:
        step["method"] = "DELETE" if "method" in mistakes else "PUT"
    if not raw:
        step.pop("raw", None)
    return step
