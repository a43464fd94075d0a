"""Obligations of changes: each field of a Static Charge from each value to each other, seen in every place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from leyden.harness.obligations.obligation import KEY, Obligation, operations_of
from leyden.harness.steps import Step

_URL = "http://r{}.inbox.localhost/hook"
ABSENT = object()
# The values of each field; of a new Static Charge a field may be absent, too.
_VALUES: Mapping[str, tuple[Any, ...]] = {
    "internalId": (None, "", "a", "b", "x" * 255),
    "successMessage": (None, "", "thanks", "\u00e9" * 144, "x" * 144, "\U0001f600" * 144),
    "callbackUrl": (None, "", _URL.format(1), _URL.format(2)),
    "allowedSlots": (None, 0, 1, 2, 2_147_483_647),
    "description": ("", "tips", "\u20ac" * 639, '"\\ \n\u2028'),
    "minAmount": ("1000", "1001", "2000"),
    "maxAmount": ("2000", "2001", "500000000"),
}


def change_obligations() -> Iterator[Obligation]:
    """Each change of each field, with an invoice that was requested before it and one that is requested after it."""
    operation = next(one for one in operations_of() if one.name == "updateStaticCharge")
    assert operation.body is not None
    for name in operation.body["properties"]:
        if name not in _VALUES:
            yield Obligation("updateStaticCharge", "change", name, operation.source, ())
            continue
        values = _VALUES[name]
        nullable = values[0] is None
        for number, first in enumerate((ABSENT, *values) if nullable else values):
            for second in values:
                case = f"{name} {'absent' if first is ABSENT else _short(first)} to {_short(second)}"
                case = f"{case} ({number})"
                yield Obligation("updateStaticCharge", "change", case, operation.source,
                                 tuple(_steps(name, first, second)), setup="empty")  # fmt: skip


def _short(value: Any) -> str:
    text = ascii(value)
    return text if len(text) < 20 else f"{text[:12]}...{len(value)}"


def _steps(name: str, first: Any, second: Any) -> Iterator[Step]:
    body = {"minAmount": "1000", "maxAmount": "2000", "description": "tips", "callbackUrl": _URL.format(1)}
    # One label for each obligation of a case; `new` is replaced.
    yield {"do": "create_static", "as": "new", "body": {**body, **({} if first is ABSENT else {name: first})}}
    yield {"do": "pay_request", "static": "new"}
    yield {"do": "invoice", "static": "new", "as": "new-c1", "amount": "2000"}
    yield {"do": "invoice", "static": "new", "as": "new-c2", "amount": "2000"}
    yield {"do": "patch", "static": "new", "body": {name: second}}
    if name == "internalId":
        for text in ("a", "b", ""):
            yield {"do": "pages", "target": f"/v0/static-charges?internalId={text}&limit=2", "headers": [KEY]}
            yield {"do": "pages", "target": f"/v0/charges?internalId={text}&limit=3", "headers": [KEY]}
    yield {"do": "pay", "as": "new-p1", "charge": "new-c1"}
    yield {"do": "follow", "what": "new"}
    yield {"do": "pay", "as": "new-p2", "charge": "new-c2"}
    yield {"do": "patch", "static": "new", "body": {name: body.get(name)}}
    yield {"do": "get", "what": "new"}
