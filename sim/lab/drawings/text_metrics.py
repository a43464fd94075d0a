"""Texts that are safe to draw, their widths and their line breaks.

Text from outside (a description, a payer's name, a URL) passes through `clean` before it is drawn: characters that are
invisible or change the writing direction are shown by their code point. `mermaid_text` escapes it for Mermaid source.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

PLAIN = "plain"

_MAX_LETTERS = 4_000
# In Mermaid all other ASCII characters are entities: quotes, semicolons, `#`, `<`, `%%`, backticks, `$$`, `@{`.
_MERMAID_UNSAFE = re.compile(r"[^\w .,/+=?!'():-]", re.ASCII)
# Mermaid ends a block at the word `end`, anywhere and in any case.
_MERMAID_END = re.compile(r"\bend\b", re.IGNORECASE)
# No line break between a number and its unit.
_WORD = re.compile(r"[\d,.]+ (?:sat|ms|s|min|h)\b[^ ]* *|[^ ]* +|[^ ]+")
_PIECE = re.compile(r"[^_]*_+|[^_]+")
# The widths of letters in hundredths of the font size, of the widest usual system font (DejaVu Sans).
_LETTERS = {
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
_WIDTHS = {letter: hundredths / 100 for hundredths, characters in _LETTERS.items() for letter in characters}
_MONO_WIDTH = 0.605
_BOLD = 1.1
# Letters of these scripts are about as wide as Latin ones: U+00A1 to the end of Cyrillic.
_LATIN_TO_CYRILLIC = range(0xA1, 0x530)
# Marks and joiners without a width of their own.
_JOINER, _SELECTORS, _SKINS = "\u200d", range(0xFE00, 0xFE10), range(0x1F3FB, 0x1F400)


class TextRun(NamedTuple):
    """A piece of text in one style. `soft` is paler, `mono` monospaced."""

    text: str
    bold: bool = False
    soft: bool = False
    mono: bool = False
    tone: str = PLAIN

    def width(self, size: float) -> float:
        """The greatest width of the run, cleaned, at this font size."""
        return text_width(self.text, size, bold=self.bold, mono=self.mono)

    def clipped(self, max_width: float, size: float) -> TextRun:
        """As much of the run as fits into `max_width` pixels."""
        return self._replace(text=clip(self.text, max_width, size, bold=self.bold, mono=self.mono))


def clean(text: object) -> str:
    """The text in one line, without characters that are invisible, change the writing direction or are not XML.

    A line break is shown as ↵, any other such character as its code point: ‹U+202E›. At most two combining marks per
    letter and at most 4,000 letters are kept.
    """
    shown: list[str] = []
    marks = 0
    source = str(text)
    for letter in source[:_MAX_LETTERS]:
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
    return "".join(shown) + ("…" if len(source) > _MAX_LETTERS else "")


def mermaid_text(text: object, max_letters: int = 120) -> str:
    """A text for a label or a message in Mermaid, cut to `max_letters`; nothing in it is taken for syntax."""
    plain = clean(text)
    if len(plain) > max_letters:
        plain = plain[: max_letters - 1].rstrip() + "…"
    escaped = _MERMAID_UNSAFE.sub(lambda found: found[0] if ord(found[0]) > 127 else f"#{ord(found[0])};", plain)
    return _MERMAID_END.sub(lambda found: f"#{ord(found[0][0])};{found[0][1:]}", escaped) or "#32;"


def text_width(text: str, size: float, *, bold: bool = False, mono: bool = False) -> float:
    """The greatest width of a cleaned text at this font size, in pixels."""
    total = 0.0
    joined = False
    for letter in text:
        code = ord(letter)
        if letter == _JOINER or code in _SELECTORS or code in _SKINS or unicodedata.combining(letter):
            joined = letter == _JOINER
            continue
        if not joined:
            usual = _MONO_WIDTH if mono and code < 0x530 else _WIDTHS.get(letter, 0.78)
            total += 1.36 if code >= 0x1F000 else 1.04 if unicodedata.east_asian_width(letter) in "WF" else usual
        joined = False
    return total * size * (_BOLD if bold else 1.0)


def has_unknown_width(text: str) -> bool:
    """Whether the text has letters of unknown width: the line is then scaled to its computed width."""
    return any(
        ord(letter) not in _LATIN_TO_CYRILLIC
        and not letter.isascii()
        and letter not in _WIDTHS
        and not (unicodedata.east_asian_width(letter) in "WF" and ord(letter) < 0x20000)
        for letter in text
    )


def clip(text: str, max_width: float, size: float, *, bold: bool = False, mono: bool = False) -> str:
    """As much of a cleaned text as fits into `max_width` pixels, with an ellipsis where it is cut."""
    if text_width(text, size, bold=bold, mono=mono) <= max_width:
        return text
    lengths = range(1, len(text))
    kept = bisect(lengths, max_width, key=lambda end: text_width(text[:end] + "…", size, bold=bold, mono=mono))
    return text[:kept].rstrip() + "…"


def wrap_runs(runs: Sequence[TextRun], max_width: float, size: float, max_lines: int = 2) -> list[list[TextRun]]:
    """The runs in at most `max_lines` lines of `max_width` pixels; the last line is cut when more text is left."""
    lines: list[list[TextRun]] = [[]]
    left = max_width
    words = [run._replace(text=word) for run in runs for word in _words(run, max_width, size)]
    for place, word in enumerate(words):
        wide = word._replace(text=word.text.rstrip()).width(size)
        if wide > left and lines[-1] and len(lines) < max_lines:
            lines.append([])
            left = max_width
        if wide > left:
            rest = word._replace(text="".join(each.text for each in words[place:]))
            cut = rest.clipped(left, size)
            if len(lines) < max_lines and len(cut.text) > 1:
                # A word longer than a line continues on the next line.
                lines[-1].append(cut._replace(text=cut.text[:-1]))
                tail = rest._replace(text=rest.text[len(cut.text) - 1 :])
                return [*lines, *wrap_runs([tail], max_width, size, max_lines - len(lines))]
            while lines[-1] and left < cut._replace(text="…").width(size):
                # There is no space for the ellipsis: it replaces the last word.
                last = lines[-1].pop()
                left += last.width(size)
                cut = last._replace(text=last.text + rest.text).clipped(left, size)
            lines[-1].append(cut)
            break
        lines[-1].append(word)
        left -= word.width(size)
    return [_merge_runs(line) for line in lines]


def _words(run: TextRun, max_width: float, size: float) -> list[str]:
    """The parts without a line break: a word with its space; a word longer than a line may break at `_`."""
    words: list[str] = []
    for word in _WORD.findall(clean(run.text)):
        is_long = run._replace(text=word.rstrip()).width(size) > max_width
        words += _PIECE.findall(word) if is_long else [word]
    return words


def _merge_runs(line: Iterable[TextRun]) -> list[TextRun]:
    """Join neighbouring runs of one style."""
    styles = groupby(line, key=lambda run: run._replace(text=""))
    return [style._replace(text="".join(run.text for run in runs)) for style, runs in styles]
