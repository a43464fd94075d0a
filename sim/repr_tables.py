"""Names and values as a table, for a terminal and for a notebook; texts of customers are escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LONGEST = 120  # characters of one value; the rest is in the data

_NAME = "text-align:left;vertical-align:top;padding:1px 1em 1px 0;font-weight:600"
_VALUE = "text-align:left;padding:1px 1em 1px 0"


def plain(value: Any) -> str:
    """A value in one line: no control characters, no more than `LONGEST` characters, nothing for None."""
    text = "" if value is None else str(value)
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[: LONGEST + 1])
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def counted(number: int, what: str, several: str = "") -> str:
    """A number with its noun: `1 event`, `2 events`. `several` is a plural that does not end in `s` alone."""
    return f"{number:,} {what if number == 1 else several or what + 's'}"


def left_out(number: int, what: str) -> str:
    """That so many of something are left out: `1 event is left out`."""
    return f"{counted(number, what)} {'is' if number == 1 else 'are'} left out"


def text_table(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as lines, with the columns below one another."""
    lines = [[plain(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def html_table(rows: Iterable[Sequence[Any]], *, caption: str = "") -> str:
    """Rows as a table whose first column are names. Style is inline, colours are the page's own."""
    head = f"<caption style='text-align:left;font-weight:600;padding:2px 0'>{escaped(caption)}</caption>"
    body = "".join(
        f"<tr><th style='{_NAME}'>{escaped(name)}</th>"
        + "".join(f"<td style='{_VALUE}'>{escaped(value)}</td>" for value in values)
        + "</tr>"
        for name, *values in rows
    )
    return f"<table style='border-collapse:collapse'>{head if caption else ''}{body}</table>"


def html_grid(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str = "") -> str:
    """Rows as a table with a head. Style is inline, colours are the page's own."""
    named = f"<caption style='text-align:left;font-weight:600;padding:2px 0'>{escaped(caption)}</caption>"
    head = "".join(f"<th style='{_NAME}'>{escaped(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td style='{_VALUE}'>{escaped(value)}</td>" for value in values) + "</tr>" for values in rows
    )
    table = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>" if body else ""
    return f"<table style='border-collapse:collapse'>{named if caption else ''}{table}</table>"


def html_resources(resources: Iterable[Mapping[str, Any]], *, caption: str) -> str:
    """Resources of the control API as a table: a column for each field that one of them has."""
    listed = list(resources)
    fields = [
        name
        for name in dict.fromkeys(name for each in listed for name in each)
        if any(each.get(name) is not None for each in listed)
    ]
    return html_grid(fields, [[each.get(name) for name in fields] for each in listed], caption=caption)


def escaped(value: Any) -> str:
    """A value as HTML text."""
    return html.escape(plain(value))
