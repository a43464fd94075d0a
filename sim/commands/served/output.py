"""Output of the commands for people: tables that fit the terminal, fields, times in UTC, amounts in millisatoshis."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from unicodedata import east_asian_width

from leyden.server.printable import printable, printable_lines

_LEAST = 8  # the least width of a column that is shortened
_GAP = "  "


class Column(NamedTuple):
    """A column: its title and the text of a row. One that `shrinks` is shortened to fit the terminal; one that is not
    `needed` is left out when that is not enough, the last first."""

    title: str
    text: Callable[[Mapping[str, Any]], object]
    right: bool = False
    shrinks: bool = False
    needed: bool = True


class Table:
    """Prints rows as aligned columns, page after page."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._widths: list[int] = []  # of the pages before; 0 is a column that is left out

    def print(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Print these rows; the first time with the titles."""
        cells = [[_cell(column.text(row)) for column in self._columns] for row in rows]
        if not self._widths:
            titles = [column.title for column in self._columns]
            self._widths = self._fitted([titles, *cells])
            self._print_line(titles)
        for line in cells:
            self._print_line(line)

    def _fitted(self, lines: Sequence[Sequence[str]]) -> list[int]:
        """The widths of the columns, for the width of the terminal."""
        widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
        room = _terminal_width()
        if room is None:
            return widths

        def excess() -> int:
            shown = [width for width in widths if width]
            return sum(shown) + len(_GAP) * (len(shown) - 1) - room

        for index, column in reversed(list(enumerate(self._columns))):
            least = max(_LEAST, len(column.title))
            if column.shrinks and excess() > 0 and widths[index] > least:
                widths[index] = max(least, widths[index] - excess())
        for index, column in reversed(list(enumerate(self._columns))):
            if not column.needed and excess() > 0:
                widths[index] = 0
        # What a column that was left out has freed is given back to the shortened ones.
        for index, column in enumerate(self._columns):
            if column.shrinks and widths[index] and excess() < 0:
                widest = max(_width(line[index]) for line in lines)
                widths[index] = min(widest, widths[index] - excess())
        return widths

    def _print_line(self, cells: Sequence[str]) -> None:
        shown = []
        for column, width, cell in zip(self._columns, self._widths, cells, strict=True):
            if width:
                text = _shortened(cell, width) if column.shrinks and _terminal_width() is not None else cell
                space = " " * (width - _width(text))
                shown.append(space + text if column.right else text + space)
        print(_GAP.join(shown).rstrip())


def print_fields(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one pair on each line; a value that is None is left out."""
    shown = [(name, _cell(value)) for name, value in pairs if value is not None]
    width = max(len(name) for name, _ in shown)
    for name, text in shown:
        print(f"{name:<{width}}  {text}".rstrip())


def print_raw(raw: bytes) -> None:
    """Print the body of a response as it is, and a line feed; to a terminal, which obeys control characters, as
    `print_text` does."""
    if sys.stdout.isatty():
        print_text(raw.decode("utf-8", "replace").replace("\r\n", "\n").expandtabs())
        return
    sys.stdout.flush()
    out = getattr(sys.stdout, "buffer", None)
    if out is None:
        sys.stdout.write(raw.decode("utf-8", "replace") + "\n")
    else:
        out.write(raw + b"\n")
        out.flush()


def print_text(text: str) -> None:
    """Print a text in its lines, with what is not printable escaped."""
    print(printable_lines(text))


def msat(digits: str | int | None) -> str | None:
    """An amount: `250,000 msat`."""
    return None if digits is None else f"{int(digits):,} msat"


def utc(instant: str | None) -> str | None:
    """An instant of the API as `2030-01-01 09:00:00Z`, with milliseconds unless they are zero."""
    return None if instant is None else printable(instant).replace("T", " ").replace(".000Z", "Z")


def rate(number: float) -> str:
    """The rate of a clock."""
    return "paused" if number == 0 else "real time" if number == 1 else f"{number:g} times real time"


def seconds(number: float | None) -> str | None:
    """A number of seconds, such as `600 s`."""
    return None if number is None else f"{number:g} s"


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else printable(str(value))


def _terminal_width() -> int | None:
    """The width of the terminal, or that of the variable COLUMNS; None when the output is no terminal."""
    return shutil.get_terminal_size((0, 0)).columns or None


def _width(text: str) -> int:
    return len(text) if text.isascii() else sum(1 + (east_asian_width(char) in "WF") for char in text)


def _shortened(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    while _width(text) > width - 1:
        text = text[:-1]
    return f"{text}…"
