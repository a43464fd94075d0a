"""Texts of documents and clients in one line of a terminal or a log."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text in one line: every character that is not printable is escaped."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def printable_lines(text: str) -> str:
    """The text in its lines: every other character that is not printable is escaped."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))
