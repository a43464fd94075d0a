"""Obligations of Idempotency-Key: each field of a body changed alone, also one that the service ignores, and the header
at the operations that ignore it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from leyden.harness.obligations.obligation import (
    JSON_TYPE,
    KEY,
    DocumentedOperation,
    Obligation,
    operations_of,
    request_of,
)
from leyden.harness.steps import Step

_HOOK = "http://r1.inbox.localhost/hook"
# A value of each field, and others that a request could have in its place. `K` is replaced by a text of the obligation.
_VALUES: Mapping[str, tuple[Any, ...]] = {
    "amount": ("2000", "2001", "20000", "1000"),
    "minAmount": ("2000", "2001", "1000"),
    "maxAmount": ("3000", "3001", "30000"),
    "description": ("tea", "tea ", "Tea", ""),
    "internalId": ("a", "A", "b", "", None),
    "callbackUrl": (_HOOK, f"{_HOOK}/", f"{_HOOK}?a=1", _HOOK.replace("r1", "r2"), "", None),
    "expiresIn": (60, 61, 600, 0, "", None),
    "successMessage": ("thanks", "Thanks", "", None),
    "allowedSlots": (2, 3, 0, "", None),
    "identifier": ("K@shop.example", "K@shop.test", "other-K@shop.example", "", None),
}
_TEXT_FIELDS = ("description", "internalId", "successMessage")
# Names that the operations do not know: those of responses and of other services, and some that look like nothing.
_IGNORED = ("unit", "id", "status", "createdAt", "slots", "currency", "metadata", "callback_url", "Amount", "_x", "",
            "a.b", "idempotencyKey")  # fmt: skip


# Two texts that are the same if something is dropped, folded or normalised.
_ALIKE = {
    "accents": ("caf\u00e9", "caf\u00e8"), "dropped": ("caf\u00e9", "caf"), "composed": ("caf\u00e9", "cafe\u0301"),
    "folded": ("stra\u00dfe", "strasse"), "wide": ("\uff21", "A"), "emoji": ("\U0001f600", "\U0001f601"),
    "scripts": ("\u0430", "a"), "direction": ("a\u200eb", "ab"), "line end": ("a\u2028b", "a\u2029b"),
    "case": ("\u00c9", "\u00e9"), "digits": ("\u0661", "\u0662"),
}  # fmt: skip
# Values of each kind of JSON that an ignored field can have, two of each kind that has more than one.
_KINDS: Mapping[str, Any] = {
    "null": None, "true": True, "false": False, "zero": 0, "number": 17, "fraction": 0.5, "large": 10**17, "empty": "",
    "text": "a", "array": [], "array of one": [1], "array of text": ["1"], "array of array": [[1]],
    "array of null": [None], "array of object": [{"a": 1}], "object": {}, "object of one": {"a": 1},
    "object of text": {"a": "1"}, "object of null": {"a": None}, "object of object": {"a": {"b": 1}},
    "object of array": {"a": [1, 2]},
}  # fmt: skip


def idempotent_field_obligations() -> Iterator[Obligation]:
    """Whatever changes in the body, it is another request; the first one is still repeated afterwards."""
    for one in operations_of():
        keyed = any(each["name"].lower() == "idempotency-key" for each in one.parameters)
        if not keyed:
            yield from _where_ignored(one)
            continue
        assert one.body is not None
        fields = one.body["properties"]
        for name in fields:
            if name not in _VALUES:
                yield Obligation(f"{one.name} header.Idempotency-Key", "changed-field", name, one.source, ())
                continue
            if name in _TEXT_FIELDS:
                for case, (text, like) in _ALIKE.items():
                    yield _changed(one, name, f"text {case}", {name: like}, first={name: text})
            for number, other in enumerate(_VALUES[name][1:]):
                yield _changed(one, name, f"value {number}", {name: other})
            yield _changed(one, name, "absent", {}, without=name)
            yield _changed(one, name, "added", {}, first_without=name)
            for number, other in enumerate(_VALUES[name]):
                if other in (None, "", 0):  # another way to say that it is not given, which is another body
                    yield _changed(one, name, f"absent, then value {number}", {name: other}, first_without=name)
        for case, (text, like) in _ALIKE.items():
            yield _changed(one, "x", f"ignored text {case}", {"x": like}, first={"x": text})
            yield _changed(one, "x", f"ignored name {case}", {like: "x"}, first={text: "x"}, without=text)
        for case, value in _KINDS.items():
            yield _changed(one, "x", f"ignored {case}, then none", {}, first={"x": value}, without="x")
            yield _changed(one, "x", f"none, then ignored {case}", {"x": value})
            for name in ("unit", "metadata"):  # of responses, and of many other services
                yield _changed(one, name, f"none, then {case}", {name: value})
        for (case, value), (like, other) in combinations(_KINDS.items(), 2):
            yield _changed(one, "x", f"ignored {case}, then {like}", {"x": other}, first={"x": value})
        for name in _IGNORED:
            yield _changed(one, name, "added, which is ignored", {name: "x"})
            yield _changed(one, name, "null, which is ignored", {name: None})


def _changed(
    one: DocumentedOperation, name: str, case: str, change: Mapping[str, Any], *, without: str = "",
    first_without: str = "", first: Mapping[str, Any] | None = None,
) -> Obligation:  # fmt: skip
    assert one.body is not None
    key = re.sub(r"[^a-z0-9]", "-", f"{one.name}-{name}-{case}".lower())
    body = {field: _filled(_VALUES[field][0], key) for field in one.body["properties"] if field in _VALUES}
    body |= first or {}
    other = {**body, **{field: _filled(value, key) for field, value in change.items()}}
    other.pop(without, None)
    if without in one.body.get("required", ()) or first_without in one.body.get("required", ()):
        first_without = ""  # it would be refused, and is another request anyway
    body.pop(first_without, None)
    headers = [KEY, JSON_TYPE, ["Idempotency-Key", key]]
    asked, changed = (request_of(one, body=each, headers=headers) for each in (body, other))
    place = f"{one.name} header.Idempotency-Key"
    return Obligation(place, "changed-field", f"{name} {case}", one.source, (asked, changed, asked, changed),
                      setup="empty")  # fmt: skip


def _filled(value: Any, key: str) -> Any:
    return value.replace("K", key) if isinstance(value, str) and "@" in value else value


def _where_ignored(one: DocumentedOperation) -> Iterator[Obligation]:
    """Two requests with one key at an operation that does not declare it: both are done."""
    if one.body is None:
        return
    headers = [KEY, JSON_TYPE, ["Idempotency-Key", "one"]]
    steps: list[Step] = []
    for name in [each for each in one.body["properties"] if each in _VALUES and each != "identifier"]:
        for value in _VALUES[name][:2]:
            steps.append(request_of(one, body={name: value}, headers=headers))
    steps.append(steps[0])
    yield Obligation(f"{one.name} header.Idempotency-Key", "ignored-key", "", one.source, tuple(steps))
