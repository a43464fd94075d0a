"""Texts without their escapes: the bytes that a text means, and the places in the text that they come from.

Escapes are percent-encoding, those of JSON, Python, C and HTML, each also within another one, and the line ends by
which long texts in Base64 are folded.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

_ESCAPE = re.compile(
    r"(?P<percent>%(?:25)*[0-9a-fA-F]{2})"
    r"|(?P<pair>\\+u[dD][89abAB][0-9a-fA-F]{2}\\+u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?P<code>\\+(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|u\{[0-9a-fA-F]{1,8}\}))"
    r"|(?P<byte>\\+(?:x[0-9a-fA-F]{2}|[0-3][0-7]{2}))"
    r"|(?P<control>\\+(?:[abfnrtv]|0(?![0-9])))"
    r"|(?P<slashes>\\+)"
    r"|(?P<entity>&(?:amp;|\#38;|\#[xX]26;)*(?:\#[0-9]{1,8};?|\#[xX][0-9a-fA-F]{1,8};?|[A-Za-z][A-Za-z0-9]{1,30};))"
    r"|(?P<fold>\r?\n(?:(?<=[A-Za-z0-9+/]{60}\n)|(?<=[A-Za-z0-9+/]{60}\r\n))(?=[A-Za-z0-9+/=]))"
)
# Characters by the length of their UTF-8. A half of a surrogate pair may be a byte that was read (PEP 383).
_ESCAPE_OR_WIDE = re.compile(
    f"{_ESCAPE.pattern}|(?P<w2>[\x80-\u07ff]+)|(?P<w3>[\u0800-\udc7f\udd00-\uffff]+)|(?P<w1>[\udc80-\udcff]+)"
    "|(?P<w4>[\U00010000-\U0010ffff]+)"
)
_HINTS = ("%", "\\", "&", "\n")  # a text of ASCII without these has no escape
_CONTROLS = {"a": b"\a", "b": b"\b", "f": b"\f", "n": b"\n", "r": b"\r", "t": b"\t", "v": b"\v", "0": b"\0"}
# The beginning of an escape at the end of a text that was cut.
_PARTIAL = re.compile(
    r"(?:\\+(?:u[0-9a-fA-F]{0,3}|u\{[0-9a-fA-F]*|U[0-9a-fA-F]{0,7}|x[0-9a-fA-F]?|[0-3][0-7]?)?|%(?:25)*[0-9a-fA-F]?"
    r"|&(?:amp;)*(?:amp?|\#?[xX]?[0-9a-fA-F]{0,8}|[A-Za-z]{0,30}))\Z"
)
_DEPTH = 3  # of escapes within escapes


class _Piece(NamedTuple):
    """A part of the bytes, by where it begins, and the part of the text that it comes from. `width` is the number of
    bytes for each character; it is 0 for an escape, each of whose bytes comes from the whole escape."""

    at: int
    begin: int
    end: int
    width: int


class PlainText:
    """The bytes that a text means: UTF-8, with escaped bytes as they are, and without backslashes, because how many of
    them stand for one depends on how deep they are escaped. `place` gives the part of the text that bytes come from.

    With `as_characters`, a `\\xe9` is the character U+00E9, as Python writes it in a text, and else a byte. With
    `with_letters` a `\\n` is the letter and a `\\101` the digits, and else the end of a line and a byte. With
    `keeps_lines` a line that may be folded Base64 ends where it ends.
    """

    def __init__(
        self, text: str, *, as_characters: bool = False, with_letters: bool = False, keeps_lines: bool = False
    ) -> None:
        self._as_characters = as_characters
        self._with_letters = with_letters
        self._keeps_lines = keeps_lines
        self._reads_slashes = False
        self.has_backslashes = self.has_bytes = self.has_folds = False  # whether the other ways to read may differ
        self._levels: list[tuple[list[int], list[_Piece]]] = []
        self.data = self._read(text, is_first=True)
        for _ in range(_DEPTH - 1):
            before = self.data.decode("latin-1")
            if not any(hint in before for hint in _HINTS):
                break
            found = self._read(before, is_first=False)
            if found == self.data:
                self._levels.pop()
                break
            self.data = found
        if b"\\" in self.data:
            self._reads_slashes = True
            self.data = self._read(self.data.decode("latin-1"), is_first=False)

    @property
    def whole_length(self) -> int:
        """The length of the bytes without the beginning of an escape at their end."""
        tail = self.data[-40:].decode("latin-1")
        found = _PARTIAL.search(tail)
        return len(self.data) - (0 if found is None else len(tail) - found.start())

    def place(self, begin: int, end: int) -> tuple[int, int]:
        """The part of the text that the bytes from `begin` to `end` come from; there is at least one."""
        for starts, pieces in reversed(self._levels):
            first, last = (pieces[bisect_right(starts, at) - 1] for at in (begin, end - 1))
            begin = first.begin + (begin - first.at) // first.width if first.width else first.begin
            end = last.begin + (end - 1 - last.at) // last.width + 1 if last.width else last.end
        return begin, end

    def _read(self, text: str, *, is_first: bool) -> bytes:
        if text.isascii() and not any(hint in text for hint in _HINTS):
            self._levels.append(([0], [_Piece(0, 0, len(text), 1)]))
            return text.encode("ascii")
        pieces, parts, at = list[_Piece](), list[bytes](), 0
        for begin, end, width, part in self._parts(text, is_first):
            if part:
                pieces.append(_Piece(at, begin, end, width))
                parts.append(part)
                at += len(part)
        self._levels.append(([one.at for one in pieces], pieces))
        return b"".join(parts)

    def _parts(self, text: str, is_first: bool) -> Iterator[tuple[int, int, int, bytes]]:
        """The parts of a text: where each begins and ends, its width, and the bytes that it means."""
        at = 0
        for found in (_ESCAPE_OR_WIDE if is_first else _ESCAPE).finditer(text):
            begin, end = found.span()
            yield at, begin, 1, text[at:begin].encode("latin-1")
            at = end
            kind, part = found.lastgroup or "", found[0]
            if kind == "w1":
                yield begin, end, 1, bytes(ord(one) - 0xDC00 for one in part)
            elif kind[0] == "w":
                yield begin, end, int(kind[1]), part.encode("utf-8", "surrogatepass")
            else:
                yield begin, end, 0, self._meaning(kind, part)
        yield at, len(text), 1, text[at:].encode("latin-1")

    def _meaning(self, kind: str, escape: str) -> bytes:
        body = escape.lstrip("\\")
        self.has_backslashes = self.has_backslashes or body != escape
        match kind:
            case "percent":
                return bytes([int(escape[-2:], 16)])
            case "pair":
                high, low = (int(part[:4], 16) for part in body[1:].replace("\\", "").split("u"))
                return chr(0x10000 + ((high - 0xD800) << 10) + low - 0xDC00).encode()
            case "code":
                return _bytes(int(body[1:].strip("{}"), 16))
            case "byte":
                number = int(body[1:], 16) if body[0] == "x" else int(body, 8)
                self.has_bytes = self.has_bytes or number > 127
                if body[0] != "x" and self._with_letters:
                    return self._kept(escape, body)
                return _bytes(number) if self._as_characters else bytes([number & 255])
            case "control":
                return self._kept(escape, body) if self._with_letters else _CONTROLS[body]
            case "slashes":
                return self._kept(escape, "")
            case "entity":
                return unescape(unescape(unescape(escape))).encode("utf-8", "surrogatepass")
        self.has_folds = True
        return escape.encode() if self._keeps_lines else b""

    def _kept(self, escape: str, body: str) -> bytes:
        """An escape that is not read: backslashes are removed at last, because another escape may begin with them."""
        return (body if self._reads_slashes else escape).encode()


def _bytes(code: int) -> bytes:
    """A character as UTF-8; a byte that was read as half of a surrogate pair is that byte (PEP 383)."""
    if 0xDC80 <= code <= 0xDCFF:
        return bytes([code - 0xDC00])
    return chr(code).encode("utf-8", "surrogatepass") if code <= 0x10FFFF else b"?"
