"""Text of programs: values as literals, calls and comments. A value never becomes code."""

from __future__ import annotations

from keyword import iskeyword
from math import isfinite
from typing import Any

import orjson

from leyden.server.printable import printable


class Expression(str):
    """An expression of the program: written without quotes."""

    __slots__ = ()


def literal(value: Any) -> str:
    """The text of a value, with strings in double quotes."""
    if isinstance(value, Expression):
        return str(value)
    if isinstance(value, str) and value.isprintable():
        return orjson.dumps(value).decode()
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(literal, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, float) and not isfinite(value):
        return f'float("{value}")'
    return repr(value)


def call_text(call: str, *args: Any, **named: Any) -> str:
    """The text of a call with these arguments. `call` is code: it is a text of the program, or checked before."""
    words = [literal(arg) for arg in args]
    no_keywords = {name: value for name, value in named.items() if not _is_keyword_argument(name)}
    words += [f"{name}={literal(value)}" for name, value in named.items() if name not in no_keywords]
    if no_keywords:
        words.append(f"**{literal(no_keywords)}")
    return f"{call}({', '.join(words)})"


def comment(text: str) -> str:
    """The text as lines of comments, for Python and for a shell. Only a line feed begins a new line, with its own `#`;
    whatever else could end a line is escaped."""
    return "\n".join(f"# {printable(line)}".rstrip() for line in text.split("\n"))


def _is_keyword_argument(name: str) -> bool:
    # Python normalizes other letters than ASCII, so that two names may become one.
    return name.isascii() and name.isidentifier() and not iskeyword(name) and name != "__debug__"
