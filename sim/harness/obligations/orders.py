"""Obligations of requests with two mistakes: the first check that fails decides about the response."""

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


def order_obligations() -> Iterator[Obligation]:
    """Every pair of mistakes in a request of every operation (DECISIONS order-of-checks)."""
    for one in operations_of():
        for first, second in combinations(_mistakes(one), 2):
            if {first, second} <= {"path", "id form", "id unknown"} or {first, second} == {"field", "point"}:
                continue  # one place cannot be wrong in two ways
            yield Obligation(
                f"{one.name} order", f"{first} and", second, one.source, (_mistaken(one, {first, second}),)
            )


def _mistakes(one: DocumentedOperation) -> list[str]:
    """The mistakes that a request of this operation can have."""
    places = {each["in"] for each in one.parameters}
    fields = {} if one.body is None else one.body["properties"]
    return [
        name
        for name, applies in {
            "length": True,
            "path": True,
            "method": True,
            "key": one.secured,
            "content type": one.body is not None,
            "accept": True,
            "json": True,
            "id form": "path" in places,
            "query": True,
            "header": any(each["name"] == "Idempotency-Key" for each in one.parameters),
            "field": bool(fields),
            "unknown field": True,
            "point": any(name in fields for name in _WHOLE_NUMBERS),
            "id unknown": "path" in places,
        }.items()
        if applies
    ]


def _mistaken(one: DocumentedOperation, mistakes: set[str]) -> Step:
    """A request with these mistakes and no others."""
    body: dict[str, Any] = {} if one.body is None or one.method == "PATCH" else dict(one.example)
    fields = {} if one.body is None else one.body["properties"]
    if "field" in mistakes:
        body[next(iter(fields))] = {"not": "this"}
    if "point" in mistakes:
        body[next(name for name in _WHOLE_NUMBERS if name in fields)] = 600.0
    if "unknown field" in mistakes:
        body["colour"] = "blue"
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
    step = request_of(one, target, headers=headers, raw=raw)
    if "method" in mistakes:
        step["method"] = "DELETE"
    if not raw:
        step.pop("raw", None)
    return step
