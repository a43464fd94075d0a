"""A strict YAML loader: `on` is a text, a date is a text, and duplicate keys are errors.

The file is read under YAML 1.2's core schema (only true and false are truth values; numbers are decimal, 0o or 0x),
and what JSON cannot hold is refused: duplicate keys, anchors, aliases, merges, tags, several documents, NaN and
infinity. Keys are always texts, so `200:` is the key "200".
"""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from leyden.server.errors import ContractError

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where it is built in: ten times faster
_DEEPEST = 200
# YAML 1.2.2, 10.3.2 "Tag resolution" of the core schema.
_WORDS = {
    **dict.fromkeys(("null", "Null", "NULL", "~", "")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_JSON = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# JSON writes a character above U+FFFF as two escapes; YAML has one escape for it. Before it stand escaped backslashes.
_ESCAPED_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_NUMERIC_STARTS = frozenset("-+.0123456789")


def read_yaml(data: bytes | str, name: str) -> Any:
    """The one document in `data` as JSON values; `name` is the file's name in errors.

    Raises `ContractError` with file, line and column for anything that is not strict YAML 1.2 core.
    """
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        if text.lstrip()[:1] in ("{", "["):
            text = _ESCAPED_PAIR.sub(_one_character, text)
        return _build(text, name)
    except UnicodeDecodeError as error:
        raise ContractError(f"{name}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}, line {mark.line + 1}, column {mark.column + 1}" if mark else name
        raise ContractError(f"{place}: not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ContractError(f"{name}: not YAML: {' '.join(str(error).split())}") from None


def _one_character(match: re.Match[str]) -> str:
    high, low = int(match[2], 16), int(match[3], 16)
    return match[1] + chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


def _build(text: str, name: str) -> Any:
    # One entry per open container: the container itself and, for a mapping, the key that waits for its value.
    stack: list[tuple[Any, str | None]] = []
    holder: Any = None
    key: str | None = None
    root: Any = None
    documents = 0
    event: Any
    for event in yaml.parse(text, Loader=_LOADER):
        kind = type(event)
        if kind is ScalarEvent:
            if event.anchor or event.tag:
                _refuse_marks(event, name)
            if key is None and type(holder) is dict:
                key = event.value
                if key in holder:
                    _refuse(event, name, f"the key {key!r} stands twice; keep one of them")
                if key == "<<" and event.implicit[0]:
                    _refuse(event, name, "merge keys are not read; write the members out")
                continue
            value = _scalar(event, name) if event.implicit[0] else event.value
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            if event.anchor or event.tag:
                _refuse_marks(event, name)
            if key is None and type(holder) is dict:
                _refuse(event, name, "a key must be a text")
            if len(stack) > _DEEPEST:
                _refuse(event, name, f"nested deeper than {_DEEPEST}")
            stack.append((holder, key))
            holder, key = {} if kind is MappingStartEvent else [], None
            continue
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            value = holder
            holder, key = stack.pop()
        elif kind is AliasEvent:
            _refuse(event, name, "aliases are not read; write the value out, or use $ref")
        else:
            if kind is DocumentStartEvent:
                documents += 1
                if documents > 1:
                    _refuse(event, name, "a second document begins; keep one document a file")
            continue
        if holder is None:
            root = value
        elif key is not None:
            holder[key] = value
            key = None
        else:
            holder.append(value)
    return root


def _scalar(event: ScalarEvent, name: str) -> Any:
    text: str = event.value
    if text[:1] not in _NUMERIC_STARTS:
        return _WORDS.get(text, text)
    try:
        if _INTEGER.fullmatch(text):
            return _whole(event, name, int(text))
        if _BASED.fullmatch(text):
            return _whole(event, name, int(text, 0))
    except ValueError:  # more digits than Python turns into an int
        _refuse(event, name, f"{_start(event)} does not fit into 64 bits; give a smaller number")
    if _FLOAT.fullmatch(text):
        number = float(text)
        if math.isinf(number):
            _refuse(event, name, f"{_start(event)} does not fit into 64 bits; give a smaller number")
        return number
    if _NOT_JSON.fullmatch(text):
        _refuse_number(event, name)
    return text


def _start(event: ScalarEvent) -> str:
    return f"{event.value[:40]}{'...' if len(event.value) > 40 else ''}"


def _whole(event: ScalarEvent, name: str, number: int) -> int:
    if not -(2**63) <= number < 2**64:
        _refuse(event, name, f"{_start(event)} does not fit into 64 bits; give a smaller number")
    return number


def _refuse_number(event: ScalarEvent, name: str) -> NoReturn:
    _refuse(event, name, f"{_start(event)} is not a JSON number; quote it if it is a text")


def _refuse_marks(event: Any, name: str) -> NoReturn:
    if event.anchor:
        _refuse(event, name, f"the anchor &{event.anchor} is not read; write the value out, or use $ref")
    _refuse(event, name, f"the tag {event.tag} is not read; leave it out, and quote what is a text")


def _refuse(event: Any, name: str, problem: str) -> NoReturn:
    mark = event.start_mark
    raise ContractError(f"{name}, line {mark.line + 1}, column {mark.column + 1}: {problem}")
