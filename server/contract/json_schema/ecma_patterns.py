"""Patterns of JSON Schema (ECMA 262) in the dialect of the validators.

The validators count letters and digits of all scripts to `\\b`, and beside a lookaround to `\\w` and `\\d`, too; `.` is
each character but a line feed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jsonschema_rs import Draft202012Validator, ValidationError

from leyden.server.contract.document.keywords import fields

_BELOW = {key: form for key, form in fields("schema").items() if "schema" in form}
_BY_PATTERN = "patternProperties"  # its keys are patterns
_PART = re.compile(r"\\.|\[|\]|\.", re.DOTALL)
# What the sets of characters have in ECMA 262, spelt as hardly a document does: `with_written_patterns` finds it.
_SETS = {
    "d": r"\x30-\x39",
    "D": r"\x00-\x2f\x3a-\u{10FFFF}",
    "w": r"\x30-\x39\x41-\x5a\x5f\x61-\x7a",
    "W": r"\x00-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\u{10FFFF}",
    "s": r"\x09-\x0d\x20\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff",
    "S": (
        r"\x00-\x08\x0e-\x1f\x21-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff"
        r"\u3001-\ufefe\uff00-\u{10FFFF}"
    ),
}
_INSIDE = {rf"\{letter}": members for letter, members in _SETS.items()} | {r"\b": r"\x08"}
_WORD = f"[{_SETS['w']}]"
_OUTSIDE = {
    r"\b": f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))",
    r"\B": f"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))",
    ".": r"[^\x0a\x0d\u2028\u2029]",
} | {rf"\{letter}": f"[{members}]" for letter, members in _SETS.items()}


@lru_cache(maxsize=1_024)
def as_validated(pattern: str) -> str:
    """The pattern as the validators read it."""
    in_set = False

    def part(found: re.Match[str]) -> str:
        nonlocal in_set
        text = found[0]
        read = (_INSIDE if in_set else _OUTSIDE).get(text, text)
        in_set = text == "[" or (in_set and text != "]")
        return read

    return _PART.sub(part, pattern)


def with_written_patterns(message: str) -> str:
    """A message of a validator with the patterns as the document has them."""
    for written, read in (*_OUTSIDE.items(), *((rf"\{letter}", members) for letter, members in _SETS.items())):
        message = message.replace(read, written)
    return message


def schema_as_validated(schema: Any) -> Any:
    """A written-out schema with its patterns as the validators read them: the same object if they are as they were."""
    return _changed(schema, {})


def matches(pattern: str, text: str, *, unread: bool = False) -> bool:
    """Whether a pattern of a document matches a text somewhere, as its validators decide; `unread` for one that they do
    not read."""
    try:
        return _validator(pattern).is_valid(text)
    except ValidationError:
        return unread


@lru_cache(maxsize=256)
def _validator(pattern: str) -> Draft202012Validator:
    return Draft202012Validator({"pattern": as_validated(pattern)})


def _changed(schema: Any, done: dict[int, Any]) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    if id(schema) in done:  # equal parts of a written-out schema are shared
        return done[id(schema)]
    changed: dict[str, Any] = {}
    for key, value in schema.items():
        form = _BELOW.get(key, " ")[0]
        new = value
        if key == "pattern":
            new = as_validated(value)
        elif form == "{":
            new = {
                as_validated(name) if key == _BY_PATTERN else name: _changed(one, done) for name, one in value.items()
            }
        elif form == "[":
            new = [_changed(one, done) for one in value]
        elif form != " ":
            new = _changed(value, done)
        if new != value:
            changed[key] = new
    done[id(schema)] = {**schema, **changed} if changed else schema
    return done[id(schema)]
