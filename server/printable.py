"""Texts of documents and clients in one line of a terminal or a log."""

from __future__ import annotations

import re

_SHOWN = 2  # characters of a secret
_USER = re.compile(r"(\A\s*|//)[^/?#]*@")
_SURROGATE = re.compile("[\ud800-\udfff]")


def printable(text: str) -> str:
    """The text in one line: every character that is not printable is escaped."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def encodable(text: str) -> str:
    """The text with U+FFFD in place of each half of a character: what a library makes of a byte that is no UTF-8, and
    what JSON cannot represent."""
    return text if text.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def quoted(value: object, most: int = 100) -> str:
    """A value's repr in one line, for the text of an error: at most about `most` characters, and three dots where it is
    cut; of any value, also one whose repr raises."""
    try:
        text = repr(value[: most + 1] if isinstance(value, (str, bytes)) else value)
    except Exception:  # by a class of the caller; an integer of too many digits
        return f"a value of the type {type(value).__name__[:most]}"
    return printable(cut(text, most))


def cut(text: str, most: int) -> str:
    """The text, or the start of a longer one with three dots at its end, in `most` characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def printable_lines(text: str) -> str:
    """The text in its lines: every other character that is not printable is escaped."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def without_user(url: str) -> str:
    """The text of a URL, for an error, without a user and a password in it. It need not be a valid one."""
    return _USER.sub(r"\1...@", url)


def masked(key: str) -> str:
    """An API key or another secret as texts show it: the first two characters of a longer one, and its length."""
    start = key[:_SHOWN] if len(key) > 4 * _SHOWN and key[:_SHOWN].isascii() and key[:_SHOWN].isprintable() else ""
    length = "1 character" if len(key) == 1 else f"{len(key)} characters"
    return f"({start}..., {length})" if start else f"({length})"
