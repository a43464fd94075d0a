"""Strict JSON (RFC 7493, I-JSON): every accepted text has exactly one meaning.

RFC 8259 leaves duplicate names, lone surrogates and huge numbers to the parser. This parser rejects them, and keeps
big integers exact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from json.decoder import JSONArray, JSONObject  # type: ignore[attr-defined]
from json.scanner import make_scanner, py_make_scanner  # type: ignore[attr-defined]
from typing import Any, NoReturn

import orjson

from leyden.server.errors import FieldError, InvalidRequest

_BODY = ""
# A longer body is kept only of a client that may use the service, and is parsed in a thread: in parts, so that others
# can run meanwhile.
LONG_BODY_BYTES = 64 * 1024
_PART_CHARS = 4_096
# The usual causes of a syntax error, by what stands at its position.
_CAUSES = (
    (re.compile(r"'"), "write names and texts in double quotes"),
    (re.compile(r"[A-Za-z_]\w*\s*:"), "write names in double quotes"),
    (re.compile(r"(?:True|False|None|undefined)\b"), "write true, false or null"),
    (re.compile(r"//|/\*|#"), "JSON has no comments"),
    (re.compile(r"\s*\Z"), "the body ends too early: send all of it"),
)
# Not float: orjson reads an integer beyond 64 bits as a float, and so loses digits.
_EXACT_TYPES = frozenset({int, bool, type(None)})


_WIDE, _WIDE_MARKS = "UTF-16 or UTF-32", (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")


def _error(detail: str) -> InvalidRequest:
    return InvalidRequest(detail, field_errors=[FieldError(_BODY, detail)])


def _constant(name: str) -> NoReturn:
    raise _error(f"{name} is not JSON: send a number or null")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _error(f"the object has the name {json.dumps(name)[:80]} twice: send each name once")
            seen.add(name)
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant)


class _InParts(json.JSONDecoder):
    """The decoder of a long text in a thread: the one in C, which holds the lock of the interpreter until it ends, gets
    the arrays and objects of at most `_PART_CHARS` characters."""

    def __init__(self) -> None:
        super().__init__(object_pairs_hook=_pairs, parse_constant=_constant)
        self._scan_part: Callable[[str, int], Any] = make_scanner(self)  # type: ignore[arg-type]
        self.parse_object = partial(self._in_part, JSONObject)
        self.parse_array = partial(self._in_part, JSONArray)
        self.scan_once = py_make_scanner(self)

    def _in_part(self, parse_long: Callable[..., tuple[Any, int]], start: tuple[str, int], *rest: Any) -> Any:
        text, first = start[0], start[1] - 1  # the bracket
        try:
            value, length = self._scan_part(text[first : first + _PART_CHARS], 0)
        except (StopIteration, ValueError, InvalidRequest):  # it is longer, or wrong: then this says where
            return parse_long(start, *rest)
        return value, first + length


_DECODER_IN_PARTS = _InParts()


def _deeper_than(text: str, limit: int) -> bool:
    """Whether brackets outside strings nest deeper than `limit`, found without parsing and without recursion."""
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


def _received(text: str, position: int) -> str:
    """The part of the body around a syntax error, and the probable cause."""
    around = text[max(0, position - 10) : position + 20]
    cause = next((cause for form, cause in _CAUSES if form.match(text, position)), "")
    # Python reports the bracket, from 3.13 on the comma.
    before, after = text[: position + 1].rstrip("}] \t\r\n"), text[position:].lstrip(", \t\r\n")
    if not cause and before.endswith(",") and after[:1] in {"}", "]"}:
        cause = "leave out the comma before the bracket"
    if not cause and "=" in text and "{" not in text:
        cause = "send a JSON object and not a form"
    return f"; received {json.dumps(around)}" + (f": {cause}" if cause else "")


def _parse_simple(body: bytes) -> dict[str, Any] | None:
    """Fast path for most bodies: a flat object without escapes, floats and duplicate names.

    None for any other body: `parse` then decides and words the error.
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
        elif kind not in _EXACT_TYPES:
            return None
    # A duplicate name, or one in a nested object that a duplicate replaced, leaves additional quotation marks.
    return value if body.count(b'"') == quotes else None


def parse(body: bytes, *, depth_limit: int) -> Any:
    """Parse one JSON text in UTF-8.

    Raises `InvalidRequest` for an empty body, bytes that are not UTF-8, a byte order mark, invalid JSON, NaN and
    Infinity, a duplicate name, nesting deeper than `depth_limit`, a number with too many digits, and a lone surrogate.
    """
    is_long = len(body) > LONG_BODY_BYTES
    simple = None if is_long else _parse_simple(body)
    if simple is not None:
        return simple
    if not body.strip():
        raise _error("the body is empty: send a JSON object")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        wide = body.startswith(_WIDE_MARKS)
        what = f"begins with the byte order mark of {_WIDE}" if wide else f"is not UTF-8 (byte {error.start})"
        raise _error(f"the body {what}: encode it as UTF-8") from None
    if text.startswith("\ufeff"):
        raise _error("the body begins with a byte order mark (the bytes EF BB BF): send it without these bytes")
    # Only a body with more brackets than the limit can nest deeper; most bodies skip the check.
    if text.count("{") + text.count("[") > depth_limit and _deeper_than(text, depth_limit):
        raise _error(f"the body nests deeper than {depth_limit} levels: flatten it")
    try:
        value = (_DECODER_IN_PARTS if is_long else _DECODER).decode(text)
    except json.JSONDecodeError as error:
        if "\0" in text[:4]:
            raise _error(f"the body has a null byte at its start, as in {_WIDE}: encode it as UTF-8") from None
        place = f"line {error.lineno} column {error.colno}"
        raise _error(f"the body is not JSON: {error.msg} at {place}{_received(text, error.pos)}") from None
    except ValueError:
        # int() rejects literals beyond sys.get_int_max_str_digits().
        raise _error("a number in the body is too long: no field takes one of thousands of digits") from None
    if "\\u" in text and _has_lone_surrogate(value):
        raise _error("a string in the body has a lone surrogate: send complete surrogate pairs")
    return value
