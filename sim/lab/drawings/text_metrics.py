"""Letters: texts that are safe to draw, and how wide they become.

Whatever a stranger wrote (a description, a payer's name, a URL) passes through `clean` before it is drawn: what would
be invisible, or would turn the line around, is shown by its number.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

PLAIN = "plain"

_LONGEST = 4_000
# A number stays with its unit.
_WORD = re.compile(r"[\d,.]+ (?:sat|ms|s|min|h)\b[^ ]* *|[^ ]* +|[^ ]+")
_PIECE = re.compile(r"[^_]*_+|[^_]+")
# The widths of letters in hundredths of their size, after the widest of the usual system fonts (DejaVu Sans).
_WIDTHS = {
    28: "ijl'|I",
    32: " .,·;:/\\!",
    40: '-()[]ftrJ“”‘’"`',
    53: "scz?_*",
    61: "aeovxyk^TFL",
    64: "bdghnpqu0123456789$SEZPYX{}¢£€",
    70: "ABCKRVUH",
    78: "DGNOQw&#+=<>~×±→←↔…–",
    100: "mMW%@—",
}
_MONO_WIDTH = 0.605
_BOLD = 1.1
# Letters of these scripts are about as wide as Latin ones: U+00A1 to the end of Cyrillic.
_KIN = range(0xA1, 0x530)
# Drawn, but not to be trusted with the line: marks and joiners that have no width of their own.
_JOINER, _SELECTORS, _SKINS = "\u200d", range(0xFE00, 0xFE10), range(0x1F3FB, 0x1F400)


class Run(NamedTuple):
    """A stretch of text in one style. `soft` steps back, `mono` has letters of one width."""

    text: str
    bold: bool = False
    soft: bool = False
    mono: bool = False
    tone: str = PLAIN


def clean(text: object) -> str:
    """The text in one line, with nothing in it that hides, turns the writing direction, or is not XML.

    A line break is shown as ↵, everything else of that kind as ‹U+202E›. At most two marks stand over one letter, and
    at most 4,000 letters are kept.
    """
    shown: list[str] = []
    marks = 0
    source = str(text)
    for letter in source[:_LONGEST]:
        kind = unicodedata.category(letter)
        if letter in "\n\u2028\u2029":
            shown.append("↵")
        elif letter == "\t" or kind == "Zs":
            shown.append(" ")
        elif kind == "Mn" or kind == "Me":
            marks += 1
            if marks <= 2:
                shown.append(letter)
            continue
        elif (kind in {"Cc", "Cf", "Cs", "Cn", "Co"} and letter != _JOINER) or letter == "\r":
            shown.append(f"‹U+{ord(letter):04X}›")
        else:
            shown.append(letter)
        marks = 0
    return "".join(shown) + ("…" if len(source) > _LONGEST else "")


@cache
def _known() -> dict[str, float]:
    return {letter: hundredths / 100 for hundredths, letters in _WIDTHS.items() for letter in letters}


def width_of(text: str, size: float, *, bold: bool = False, mono: bool = False) -> float:
    """How wide a cleaned text may become, in pixels, at this font size."""
    known = _known()
    total = 0.0
    joined = False
    for letter in text:
        code = ord(letter)
        if letter == _JOINER or code in _SELECTORS or code in _SKINS or unicodedata.combining(letter):
            joined = letter == _JOINER
            continue
        if not joined:
            usual = _MONO_WIDTH if mono and code < 0x530 else known.get(letter, 0.78)
            total += 1.36 if code >= 0x1F000 else 1.04 if unicodedata.east_asian_width(letter) in "WF" else usual
        joined = False
    return total * size * (_BOLD if bold else 1.0)


def is_uncertain(text: str) -> bool:
    """Whether the text has letters whose width nobody can tell: the line is then made to fit what was reckoned."""
    return any(
        ord(letter) not in _KIN
        and not letter.isascii()
        and letter not in _known()
        and not (unicodedata.east_asian_width(letter) in "WF" and ord(letter) < 0x20000)
        for letter in text
    )


def clip(text: str, room: float, size: float, *, bold: bool = False, mono: bool = False) -> str:
    """As much of a cleaned text as fits into `room` pixels, with an ellipsis where it was cut."""
    if width_of(text, size, bold=bold, mono=mono) <= room:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if width_of(text[:middle] + "…", size, bold=bold, mono=mono) <= room:
            low = middle
        else:
            high = middle - 1
    return text[:low].rstrip() + "…"


def lines_of(runs: Sequence[Run], room: float, size: float, most: int = 2) -> list[list[Run]]:
    """The runs broken into at most `most` lines of `room` pixels; the last one is cut short when more is left."""
    lines: list[list[Run]] = [[]]
    left = room
    words = [run._replace(text=word) for run in runs for word in _words(run, room, size)]
    for place, word in enumerate(words):
        wide = width_of(word.text.rstrip(), size, bold=word.bold, mono=word.mono)
        if wide > left and lines[-1] and len(lines) < most:
            lines.append([])
            left = room
        if wide > left:
            rest = "".join(each.text for each in words[place:])
            cut = clip(rest, left, size, bold=word.bold, mono=word.mono)
            if len(lines) < most and len(cut) > 1:
                # A word longer than a line is broken, and goes on in the next one.
                tail = Run(rest[len(cut) - 1 :], word.bold, word.soft, word.mono, word.tone)
                lines[-1].append(word._replace(text=cut[:-1]))
                return [*lines, *lines_of([tail], room, size, most - len(lines))]
            while lines[-1] and left < width_of("…", size, bold=word.bold, mono=word.mono):
                # No room even for the ellipsis: it takes the place of the last word.
                word = lines[-1].pop()
                left += width_of(word.text, size, bold=word.bold, mono=word.mono)
                cut = clip(word.text + rest, left, size, bold=word.bold, mono=word.mono)
            lines[-1].append(word._replace(text=cut))
            break
        lines[-1].append(word)
        left -= width_of(word.text, size, bold=word.bold, mono=word.mono)
    return [_merged(line) for line in lines]


def _words(run: Run, room: float, size: float) -> list[str]:
    """What must stay together on a line: a word and the space behind it; one longer than a line may break at a `_`."""
    words: list[str] = []
    for word in _WORD.findall(clean(run.text)):
        long = width_of(word.rstrip(), size, bold=run.bold, mono=run.mono) > room
        words += _PIECE.findall(word) if long else [word]
    return words


def _merged(line: Iterable[Run]) -> list[Run]:
    """Neighbours of one style become one run."""
    merged: list[Run] = []
    for run in line:
        if merged and merged[-1]._replace(text="") == run._replace(text=""):
            merged[-1] = run._replace(text=merged[-1].text + run.text)
        else:
            merged.append(run)
    return merged
