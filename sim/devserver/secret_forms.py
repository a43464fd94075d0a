"""The forms of a secret in texts: its bytes as they are, and what each encoding has of them wherever they begin.

Texts are searched for thousands of forms, those of each key of a server. An index of their first bytes finds the few
that a text may have, so the number of keys costs little.
"""

from __future__ import annotations

import re
from base64 import b32decode, b32encode, b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from leyden.devserver.plain_texts import PlainText

MIN_LENGTH = 8  # bytes of a secret that is searched as it is
_MIN_ENCODED = {"hex": 8, "base64": 6, "base32": 7}  # characters of an encoded secret
SPACES = bytes.maketrans(b"+", b" ")  # in a query `+` may be a space or itself, so both are one character
UNREADABLE = "\N{REPLACEMENT CHARACTER}".encode()  # bytes that are no UTF-8 are shown so, whatever they were
_INDEXED = 4  # bytes: no form is shorter
_FEW = 64
_MOST_CACHED = 1_000  # secrets


class Base(NamedTuple):
    """An encoding of bytes as characters of some bits each, in groups of so many characters and bytes. `zero` is the
    character of zero bits."""

    bits: int
    zero: bytes
    group: int
    bytes_of_group: int
    alphabet: re.Pattern[bytes]
    encode: Callable[[bytes], bytes]
    decode: Callable[[bytes], bytes]


BASES = {
    "hex": Base(
        4,
        b"0",
        2,
        1,
        re.compile(rb"[0-9a-f]*"),
        lambda raw: raw.hex().encode(),
        lambda text: bytes.fromhex(text.decode()),
    ),
    "base64": Base(6, b"A", 4, 3, re.compile(rb"[A-Za-z0-9+/]*={0,2}"), b64encode, b64decode),
    "base32": Base(5, b"A", 8, 5, re.compile(rb"[A-Z2-7]*={0,6}"), b32encode, b32decode),
}


class Form(NamedTuple):
    """What a text has of an encoded secret: the characters that depend on nothing else. `begins` and `ends` say whether
    the characters beside them depend on the secret too; `skipped` is the number of characters before them in the
    encoding."""

    kind: str
    data: bytes
    shown: str
    begins: bool = False
    ends: bool = False
    skipped: int = 0


class FormIndex:
    """Forms by their kind and first bytes."""

    def __init__(self, forms: Iterable[Form]) -> None:
        self._by_kind: dict[str, dict[bytes, list[Form]]] = {"plain": {}, **{kind: {} for kind in BASES}}
        self.longest = 0
        for form in forms:
            self._by_kind[form.kind].setdefault(form.data[:_INDEXED], []).append(form)
            self.longest = max(self.longest, len(form.data))

    def perhaps_in(self, text: bytes, kind: str) -> Iterator[Form]:
        """The forms of a kind whose first bytes a text has, in the order of the index; the others are not in it."""
        by_first = self._by_kind[kind]
        if len(by_first) <= _FEW:
            found = [forms for first, forms in by_first.items() if first in text]
        else:
            parts = {text[at : at + _INDEXED] for at in range(len(text) - _INDEXED + 1)}
            found = [forms for first, forms in by_first.items() if first in parts]
        for forms in found:
            yield from forms


@lru_cache(maxsize=_MOST_CACHED)
def forms_of(raw: bytes, shown: str) -> tuple[Form, ...]:
    """The forms of a secret with these bytes. `shown` stands in the place of one."""
    plain = [Form("plain", one, shown) for one in sorted(plain_forms(raw))] if len(raw) >= MIN_LENGTH else []
    encoded = (one for kind in BASES for one in encoded_forms(kind, raw, shown) if len(one.data) >= _MIN_ENCODED[kind])
    return (*plain, *encoded)


def plain_forms(raw: bytes) -> set[bytes]:
    """A secret as the readings of texts have it, with spaces in place of `+`. One that is no UTF-8 may be shown as
    characters of Latin-1, or with U+FFFD."""
    texts = {raw.decode("utf-8", "surrogateescape"), raw.decode("latin-1"), raw.decode("utf-8", "replace")}
    readings = (PlainText(one, with_letters=letters) for one in texts for letters in (False, True))
    found = {raw, *(one.encode("utf-8", "surrogateescape") for one in texts), *(one.data for one in readings)}
    # As a program for Windows prints it; the last zero of little-endian text may be cut off.
    found |= {raw.decode("latin-1").encode("utf-16-be"), raw.decode("latin-1").encode("utf-16-le").rstrip(b"\0")}
    return {one.translate(SPACES) for one in found if len(one.replace(UNREADABLE, b"")) >= MIN_LENGTH // 2}


def encoded_forms(kind: str, raw: bytes, shown: str) -> Iterator[Form]:
    """The forms of bytes in an encoding, by the number of bytes before them in a group of it."""
    base = BASES[kind]
    for shift in range(base.bytes_of_group):
        text = base.encode(bytes(shift) + raw)
        first, last = -(-8 * shift // base.bits), 8 * (shift + len(raw)) // base.bits
        begins, ends = 8 * shift % base.bits > 0, 8 * (shift + len(raw)) % base.bits > 0
        yield Form(kind, text[first:last], shown, begins, ends, first)
