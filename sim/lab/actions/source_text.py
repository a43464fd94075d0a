"""Text of programs: values as literals, calls and comments. A value never becomes code."""

from __future__ import annotations

import shlex
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


def shell_word(text: str) -> str:
    """The text as one word of a POSIX shell. One with characters that are not printable is written in octal digits of
    its bytes: half of a character has no UTF-8, and a terminal obeys control characters."""
    if all(one.isprintable() or one in "\n\t" for one in text):
        return shlex.quote(text)
    start = text.rstrip("\n")  # the shell removes the line feeds at the end of what a command prints
    try:
        raw = start.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raw = start.encode("utf-8", "surrogatepass")
    digits = "".join(chr(one) if 32 <= one < 127 and one not in b"%'\\" else f"\\{one:03o}" for one in raw)
    return f"\"$(printf '{digits}')\"{shlex.quote(text[len(start) :]) if text != start else ''}"


def _is_keyword_argument(name: str) -> bool:
    # Python normalizes other letters than ASCII, so that two names may become one.
    return name.isascii() and name.isidentifier() and not iskeyword(name) and name != "__debug__"
