"""Obligations of `Leyden-Ignored`: every kind of name in its value, fixed values, and slips of Idempotency-Key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from leyden.harness.obligations.obligation import (
    JSON_TYPE,
    DocumentedOperation,
    Obligation,
    operations_of,
    request_of,
    shown,
    target_of,
)
from leyden.harness.obligations.values.texts import TEXTS

_SOURCE = "#/components/headers/LeydenIgnored"
# Beside the texts of values: characters that a String escapes and a Display String encodes (RFC 9651, 4.1.6 and
# 4.1.11), and names about the length to which a name is cut.
_NAMES: Mapping[str, str] = {
    **TEXTS,
    "umlauts": "gr\u00f6\u00dfe", "two-bytes": "\u0080\u07ff", "three-bytes": "\u0800\uffff", "last": "\U0010ffff",
    "hex-letters": "\u00ef\u00bb\u00bf", "percent-and-umlaut": "100%\u00e4", "quote-and-umlaut": '"\u00e4"',
    "backslash-and-umlaut": "\\\u00e4", "blank-and-umlaut": " \u00e4 ", "quote": '"', "backslash": "\\",
    "backslash-quote": '\\"', "tilde": "~", "delete": "\x7f", "delete-and-text": "a\x7fb", "line": "a\nb",
    "tab-inside": "a\tb", "parameter": 'a";did-you-mean="b', "item": '"a", "b"', "display": '%"a"', "more": "more",
    **{f"{size}-{kind}": character * size for size in (36, 37, 38, 39, 40, 41, 80)
       for kind, character in (("letters", "x"), ("umlauts", "\u00e4"), ("emoji", "\U0001f600"), ("quotes", '"'))},
}  # fmt: skip
_UNITS: Mapping[str, Any] = {
    "other": "sat", "same": "msats", "capitals": "MSATS", "blank": "msats ", "empty": "", "null": None, "number": 1,
    "zero": 0, "false": False, "object": {"msats": 1}, "array": ["msats"],
}  # fmt: skip
_RIGHT = "Idempotency-Key"
# What clients send instead of Idempotency-Key: separators, prefixes, other words with the same stem, and typing errors.
_SLIPS = (
    "X-Idempotency-Key", "Idempotency_Key", "IdempotencyKey", "X_Idempotency_Key", "XIdempotencyKey",
    "X-Idempotency_Key", "Idempotency.Key", "Idem-potency-Key", "Idempotency", "Idempotent-Key", "X-Idempotent-Key",
    "Idempotency-Token", "Idempotency-Id", "Idempotency-Keys", "My-Idempotency-Key", "Stripe-Idempotency-Key",
    "IDEMPOTENCY_KEY", "x-idempotency-key", "Idempotency-Key-", "Idempotency--Key",
    "Idempotncy-Key", "Idempotenci-Key", "Idmpotency-Key", "Idempotency-Kye", "Idempotecny-Key", "Indempotency-Key",
    "Idempotency-Ky", "Dempotency-Key", "X-Idempotncy-Key", "Idemptoency-Key", "Itempotency-Key",
)  # fmt: skip
# These are no slips.
_OTHERS = ("Key", "X-Key", "Api-Key", "X-Request-Key", "Request-Id", "Cache-Key", "Public-Key",
           "Potency", "Accept-Key", "X-Request-Id", "Dedup-Key")  # fmt: skip


def ignored_obligations() -> Iterator[Obligation]:
    """Each name in the body of each operation, and in the query of a wallet's; each value of a field that is fixed;
    and each slip alone, beside the right header before and after it, and two of them."""
    for one in operations_of():
        yield from _names(one)
        yield from _fixed(one)
        yield from _slips(one)


def _body(one: DocumentedOperation, more: Mapping[str, Any], headers: list[list[str]] | None = None) -> Any:
    base = {} if one.body is None or one.method == "PATCH" else dict(one.example)
    typed = request_of(one).get("headers", [])
    typed = typed if JSON_TYPE in typed else [*typed, JSON_TYPE]
    return request_of(one, body={**base, **more}, headers=[*typed, *(headers or [])])


def _names(one: DocumentedOperation) -> Iterator[Obligation]:
    known = () if one.body is None else one.body["properties"]
    for kind, name in _NAMES.items():
        if name in known:
            continue
        yield Obligation(f"{one.name} body", "ignored-name", kind, _SOURCE, (_body(one, {name: 0}),))
        between = {"first": 0, name: 0, "last": 0}
        if one.body is not None:
            yield Obligation(f"{one.name} body", "ignored-name:between", kind, _SOURCE, (_body(one, between),))
        if not one.secured:
            text = quote(name, safe="")
            step = request_of(one, target_of(one, f"{text}=1&{text}=2&last=1"))
            yield Obligation(f"{one.name} query", "ignored-name", kind, _SOURCE, (step,))


def _fixed(one: DocumentedOperation) -> Iterator[Obligation]:
    others = {f"extra{n}": 0 for n in range(12)}
    for kind, value in _UNITS.items():
        place = f"{one.name} body.unit"
        yield Obligation(place, "ignored-fixed", kind, _SOURCE, (_body(one, {"unit": value}),))
        for where, body in (("first", {"unit": value, **others}), ("last", {**others, "unit": value})):
            yield Obligation(place, f"ignored-fixed:{where}", kind, _SOURCE, (_body(one, body),))


def _slips(one: DocumentedOperation) -> Iterator[Obligation]:
    for name in (*_SLIPS, *_OTHERS):
        kind = "slip" if name in _SLIPS else "no-slip"
        key = f"{one.name}-{name}"
        slip, right = [name, key], [_RIGHT, key]
        for case, headers in {
            "alone": [slip], "before the right one": [slip, right], "after the right one": [right, slip],
            "twice": [slip, slip], "of another value": [[name, "a"], [_RIGHT, f"{key}-b"]],
        }.items():  # fmt: skip
            step = _body(one, {}, headers) if one.body is not None else request_of(
                one, headers=[*request_of(one)["headers"], *headers])  # fmt: skip
            yield Obligation(f"{one.name} header.{shown(name)}", kind, case, _SOURCE, (step, step), setup="empty"
                             if one.method == "POST" else "rows")  # fmt: skip
    for case, names in {"two": _SLIPS[:2], "three": _SLIPS[2:5], "nine": _SLIPS[:9]}.items():
        headers = [[name, "a"] for name in names]
        for more, body in (("", {}), (" and a field", {"extra": 0})):
            yield Obligation(f"{one.name} headers", "slips", f"{case}{more}", _SOURCE, (_body(one, body, headers),))
