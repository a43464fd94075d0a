"""JSON, read so strictly that two readers cannot disagree about what was sent.

RFC 8259 leaves duplicate names, lone surrogates and huge numbers to the reader; RFC 7493 (I-JSON) says what a careful
one refuses. This reader refuses them all, and keeps big integers exact.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import orjson

from leyden.server.errors import FieldError, InvalidRequest

_BODY = ""
# Not float: orjson reads an integer beyond 64 bits as one, and so loses digits.
_HARMLESS = frozenset({int, bool, type(None)})


def _refuse(detail: str) -> InvalidRequest:
    return InvalidRequest(detail, field_errors=[FieldError(_BODY, detail)])


def _constant(name: str) -> NoReturn:
    raise _refuse(f"{name} is not JSON: send a number or null")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _refuse(f"the name {json.dumps(name)[:80]} stands twice in one object: send each name once")
            seen.add(name)
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant)


def _deeper_than(text: str, limit: int) -> bool:
    """Whether brackets outside strings nest deeper than `limit`: judged before parsing, in constant stack."""
    depth = 0
    inside = escaped = False
    for character in text:
        if inside:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                inside = False
        elif character == '"':
            inside = True
        elif character in "[{":
            depth += 1
            if depth > limit:
                return True
        elif character in "]}":
            depth -= 1
    return False


def _has_lone_surrogate(value: Any) -> bool:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return True
        return False
    if isinstance(value, dict):
        return any(_has_lone_surrogate(name) or _has_lone_surrogate(item) for name, item in value.items())
    if isinstance(value, list):
        return any(map(_has_lone_surrogate, value))
    return False


def _plain(body: bytes) -> dict[str, Any] | None:
    """The object in a body that is visibly harmless: flat, without escapes, and with no name standing twice.

    None when that is not plain to see: the careful reader below then decides, and words the refusal.
    """
    if b"\\" in body:
        return None
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if type(value) is not dict or not value:
        return None
    quotes = 2 * len(value)
    for item in value.values():
        kind = type(item)
        if kind is str:
            quotes += 2
        elif kind not in _HARMLESS:
            return None
    # A name that stood twice, or was hidden in an object that stood under one, has left its quotation marks behind.
    return value if body.count(b'"') == quotes else None


def parse(body: bytes, *, depth_limit: int) -> Any:
    """Read one JSON text in UTF-8.

    Raises `InvalidRequest` for an empty body, bytes that are not UTF-8, a byte order mark, anything JSON does not
    allow, NaN and Infinity, a duplicate name, nesting beyond `depth_limit`, a number too long to read, and a
    surrogate without its partner.
    """
    plain = _plain(body)
    if plain is not None:
        return plain
    if not body.strip():
        raise _refuse("the body is empty: send a JSON object")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refuse(f"the body is not UTF-8 (byte {error.start}): encode it as UTF-8") from None
    # Only a body with more brackets than the limit can nest deeper than it; most bodies are spared the walk.
    if text.count("{") + text.count("[") > depth_limit and _deeper_than(text, depth_limit):
        raise _refuse(f"the body nests deeper than {depth_limit} levels: flatten it")
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise _refuse(f"the body is not JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except ValueError:
        # int() refuses literals beyond sys.get_int_max_str_digits().
        raise _refuse("a number in the body is too long: no field takes one of thousands of digits") from None
    if "\\u" in text and _has_lone_surrogate(value):
        raise _refuse("a string in the body has half a surrogate pair: send whole characters")
    return value
