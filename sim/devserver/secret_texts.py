"""Texts without secrets: API keys, webhook secrets with the bytes of their keys, and passwords in URLs.

A secret is found as it is and in each common encoding: escapes (`plain_texts`), hexadecimal and decimal bytes, Base64
and Base32 at each alignment, an LNURL, one escape or encoding within another; and at a place where a text was cut.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, product
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from leyden.devserver.plain_texts import PlainText
from leyden.devserver.secret_forms import (
    BASES,
    MIN_LENGTH,
    SPACES,
    UNREADABLE,
    Form,
    FormIndex,
    encoded_forms,
    forms_of,
    plain_forms,
)
from leyden.server.charges.lnurl import CHARSET
from leyden.server.http.authentication import is_key_name
from leyden.server.printable import masked

_CREDENTIALS = frozenset({"apikey", "authorization", "proxy-authorization", "cookie", "set-cookie"})
_MIN_PART = {"plain": 4, "hex": 8, "base64": 6, "base32": 7}  # of a secret at the end of a text that was cut
_MOST_LEARNED = 64
_PREFIXES = (b"whsec_", b"leyden_")
_ISSUED = re.compile(rb"whsec_[A-Za-z0-9/+=_-]{8,}|leyden_[0-9a-f]{32}", re.IGNORECASE)
# The beginning of one, where a text was cut.
_ISSUED_PART = re.compile(rb"(?:whsec_[A-Za-z0-9/+=_-]{4,}|leyden_[0-9a-f]{4,31})\Z", re.IGNORECASE)
_SEPARATORS, _FEWEST = b" \t\n\r,:-", 7  # between bytes in a list, whichever it is, and how many a list has
_LNURL = re.compile(f"lnurl1[{CHARSET}]{{8,}}", re.IGNORECASE)
_HEX_BYTES = re.compile(rb"(?:(?:0x)?[0-9a-f]{2}[:\-, ]{1,2}){7,}(?:0x)?[0-9a-f]{2}")
# Numbers of bytes, which may be negative, each with the place before it or without: `[107, 101]`, `{"0":107,"1":101}`.
_NUMBER = rb"""(?:["']?[0-9]{1,4}["']?\s?[:=]\s?)?-?[0-9]{1,3}(?![0-9])"""
_NUMBERS = re.compile(rb"(?:" + _NUMBER + rb"(?:,\s{0,20}|\s{1,20})){7,}" + _NUMBER)
_VALUE = re.compile(rb"-?[0-9]{1,3}(?=[,\s]|\Z)")
# The lines of a dump: a place, and bytes in hexadecimal digits, alone or in pairs. Two spaces are in the middle of 16
# bytes, or before the characters, which may be digits themselves: a dump is read in both ways.
_DUMPED = rb"(?<![0-9a-f])[0-9a-f]{4,8}:?[ \t]{1,4}((?:[0-9a-f]{2}){1,2}(?: {1,%d}(?:[0-9a-f]{2}){1,2}){0,15})"
_DUMP_LINES = re.compile(_DUMPED % 1), re.compile(_DUMPED % 2)
_DUMP = re.compile(rb"(?:" + _DUMPED % 2 + rb".*\n?)+")
_PADDING = re.compile(rb"={0,6}")
_STANDARD = bytes.maketrans(b"-_", b"+/")
_CUT = "..."


class _Hit(NamedTuple):
    begin: int
    end: int
    shown: str


class Secrets:
    """Secrets, and texts without them.

    `keys` are API keys, which are found in capitals and small letters, too; `urls` may have a user and a password, and
    `webhook_secrets` are those of Standard Webhooks.
    Webhook secrets and API keys that Leyden issues are found by their prefix, too. `public` are texts that are no
    secrets; `show` says what stands in the place of one.
    """

    def __init__(
        self,
        keys: Iterable[str] = (),
        *,
        urls: Iterable[str] = (),
        webhook_secrets: Iterable[str] = (),
        public: Iterable[str] = (),
        show: Callable[[str], str] = masked,
    ) -> None:
        self._show = show
        # A shorter secret may be a word that texts have for another reason: it is masked where it is a whole text in
        # quotes, and not in capitals.
        keys = {*keys, *(form for key in keys if len(key) >= MIN_LENGTH for form in _in_other_cases(key))}
        self._values = frozenset({*keys, *(part for url in urls for part in _credentials(url))} - {"", *public})
        self._short = [(_quoted(one), show(one)) for one in sorted(self._values) if len(one) < MIN_LENGTH]
        self._forms = FormIndex(form for one in sorted(self._values) for form in forms_of(_raw(one), show(one)))
        self._learned: dict[str, Sequence[Form]] = {}
        self._learned_forms = FormIndex(())
        for secret in webhook_secrets:
            self._learn(secret)

    def learn(self, text: str | bytes) -> None:
        """Note the webhook secrets that a text has, the latest 64, so that the bytes of their keys are masked too."""
        raw = _raw(text) if isinstance(text, str) else text
        if b"whsec_" in raw:
            for found in _ISSUED.findall(raw):
                self._learn(found.decode())

    def _learn(self, secret: str) -> None:
        if secret not in self._learned and secret.startswith("whsec_"):
            # A receiver that verifies wrongly may take the text of the key for its bytes.
            found = (_raw(secret), _key_of(secret), _raw(secret.removeprefix("whsec_")))
            raws = [one for one in found if len(one) >= MIN_LENGTH]
            self._learned[secret] = [form for raw in raws for form in forms_of(raw, self._show(secret))]
            if len(self._learned) > _MOST_LEARNED:
                del self._learned[next(iter(self._learned))]
            self._learned_forms = FormIndex(chain.from_iterable(self._learned.values()))

    def text(self, text: str) -> str:
        """The text without secrets."""
        text = _LNURL.sub(self._lnurl, text)
        parts, at = list[str](), 0
        for hit in _joined(self._hits(text)):
            parts += [text[at : hit.begin], hit.shown]
            at = hit.end
        return "".join([*parts, text[at:]])

    def body(self, body: bytes) -> bytes:
        """The bytes of a body without secrets."""
        return self.text(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def headers(self, headers: Iterable[tuple[str, str]]) -> Sequence[tuple[str, str]]:
        """Headers without secrets: a credential by its name is masked, whatever its value is."""
        return [(name, self._header(name.lower(), value)) for name, value in headers]

    def _header(self, name: str, value: str) -> str:
        if is_key_name(name) or name in _CREDENTIALS:
            return masked(value)
        return self._show(value) if value in self._values else self.text(value)

    def _lnurl(self, found: re.Match[str]) -> str:
        bits = "".join(f"{CHARSET.index(one):05b}" for one in found[0].lower()[6:])
        url = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8)).decode("utf-8", "replace")
        is_plain = self.text(url) == url and "@" not in url.partition("://")[2].partition("/")[0]
        return found[0] if is_plain else f"lnurl1{masked(found[0])}"

    def _hits(self, text: str) -> Iterator[_Hit]:
        """Where the text has secrets."""
        text = text.removesuffix(_CUT)
        indexes = self._forms, self._learned_forms
        for plain in _readings(text):
            hay = _Haystack(plain.data)
            for hit in (*self._issued(hay), *self._short_ones(hay), *hay.whole(indexes), *hay.lists(indexes)):
                yield _Hit(*plain.place(hit.begin, hit.end), hit.shown)
            lengths = {len(plain.data), plain.whole_length}
            for hit in (found for length in lengths for found in hay.parts(indexes, length)):
                yield _Hit(plain.place(hit.begin, hit.end)[0], len(text), hit.shown)

    def _short_ones(self, hay: _Haystack) -> Iterator[_Hit]:
        for pattern, shown in self._short:
            for found in pattern.finditer(hay.plain):
                yield _Hit(*found.span(1), shown)

    def _issued(self, hay: _Haystack) -> Iterator[_Hit]:
        """Secrets of which only the prefix is known, as they are and encoded."""
        for found in _ISSUED.finditer(hay.data):
            yield _Hit(*found.span(), self._show(found[0].decode()))
        part = _ISSUED_PART.search(hay.data)
        if part is not None:
            yield _Hit(*part.span(), self._show(part[0].decode()))
        for begin, end, decoded in hay.encoded(_PREFIX_FORMS):
            if _ISSUED.search(decoded) or (end == len(hay.data) and _ISSUED_PART.search(decoded)):
                yield _Hit(begin, end, self._show(hay.data[begin:end].decode("latin-1")))


class _Haystack:
    """The bytes of a text, in the spellings in which secrets are searched."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.plain = data.translate(SPACES)
        self._of = {
            "plain": self.plain,
            "hex": data.lower(),
            "base64": data.translate(_STANDARD),
            "base32": data.upper(),
        }

    def whole(self, indexes: Iterable[FormIndex]) -> Iterator[_Hit]:
        """Where forms of these are."""
        for kind, text in self._of.items():
            for form in (one for index in indexes for one in index.perhaps_in(text, kind)):
                for at in self._places(form):
                    yield self._hit(form, at, at + len(form.data))

    def parts(self, indexes: Iterable[FormIndex], length: int) -> Iterator[_Hit]:
        """Where the first `length` bytes end with the beginning of a form."""
        for index, (kind, text) in product(indexes, self._of.items()):
            least = _MIN_PART[kind]
            for form in index.perhaps_in(text[max(0, length - index.longest + 1) : length], kind):
                start = max(0, length - len(form.data) + 1)
                tail = text[start:length]
                at = tail.find(form.data[:least]) if len(form.data) > least else -1
                while at >= 0:
                    if form.data.startswith(tail[at:]) and len(tail[at:].replace(UNREADABLE, b"")) >= least:
                        yield self._hit(form, start + at, length)
                        break
                    at = tail.find(form.data[:least], at + 1)

    def lists(self, indexes: Iterable[FormIndex]) -> Iterator[_Hit]:
        """Lists of bytes with one, such as `6b:65:79` and `[107, 101, 121]`."""
        if len(self.data) - len(self.data.translate(None, _SEPARATORS)) < _FEWEST:
            return
        listed = [(found, bytes.fromhex(re.sub(rb"0x|[^0-9a-f]", b"", found[0]).decode()))
                  for found in _HEX_BYTES.finditer(self._of["hex"])]  # fmt: skip
        for found in _NUMBERS.finditer(self.data):
            numbers = [int(one[0]) for one in _VALUE.finditer(found[0])]
            for some in (numbers, [*map(abs, numbers)]):  # a hyphen before a number may belong to a text
                raw = b"".join(bytes([one % 256]) if -129 < one < 256 else b" " for one in some)
                listed.append((found, raw))
        for found in _DUMP.finditer(self._of["hex"]):
            for pattern in _DUMP_LINES:
                lines = [line[1].replace(b" ", b"") for line in pattern.finditer(found[0])]
                listed.append((found, bytes.fromhex(b"".join(lines).decode())))
        for found, raw in listed:
            spaced = raw.translate(SPACES)
            for form in (one for index in indexes for one in index.perhaps_in(spaced, "plain")):
                if form.data in spaced:
                    yield _Hit(*found.span(), form.shown)

    def encoded(self, forms: Iterable[Form]) -> Iterator[tuple[int, int, bytes]]:
        """Where these begin, where the characters of the encoding end, and what they encode."""
        for form in forms:
            base, text = BASES[form.kind], self._of[form.kind]
            for at in self._places(form):
                run = base.alphabet.match(text, at)
                end = at if run is None else run.end()
                lead = text[max(0, at - form.skipped) : at]
                while not base.alphabet.fullmatch(lead):
                    lead = lead[1:]
                characters = lead.rjust(form.skipped, base.zero) + text[at:end].rstrip(b"=")
                with suppress(ValueError):
                    whole = characters + base.zero * (-len(characters) % base.group)
                    decoded = base.decode(whole)[: len(characters) * base.bits // 8]
                    yield self._hit(form, at, at).begin, end, decoded

    def _places(self, form: Form) -> Iterator[int]:
        text = self._of[form.kind]
        at = text.find(form.data)
        while at >= 0:
            yield at
            at = text.find(form.data, at + 1)

    def _hit(self, form: Form, begin: int, end: int) -> _Hit:
        """The place of a form, with the characters beside it that depend on the secret."""
        if form.kind == "plain":
            return _Hit(begin, end, form.shown)
        text, alphabet = self._of[form.kind], BASES[form.kind].alphabet
        begin -= form.begins and begin > 0 and bool(alphabet.fullmatch(text, begin - 1, begin))
        end += form.ends and bool(alphabet.fullmatch(text, end, end + 1))
        padding = _PADDING.match(text, end) if form.kind != "hex" and (end - begin) % BASES[form.kind].group else None
        return _Hit(begin, end if padding is None else padding.end(), form.shown)


def _readings(text: str) -> Iterator[PlainText]:
    """What the text means in the ways to read its escapes."""
    plain = PlainText(text)
    yield plain
    for letters in (False, True) if plain.has_backslashes else (False,):
        for characters in (False, True) if plain.has_bytes else (False,):
            for lines in (False, True) if plain.has_folds else (False,):
                if letters or characters or lines:
                    yield PlainText(text, with_letters=letters, as_characters=characters, keeps_lines=lines)


def _joined(hits: Iterable[_Hit]) -> Iterator[_Hit]:
    """The hits in their order, those that overlap as one."""
    last: _Hit | None = None
    for hit in sorted(hits, key=lambda one: (one.begin, -one.end)):
        if last is not None and hit.begin < last.end:
            last = last._replace(end=max(last.end, hit.end))
            continue
        if last is not None:
            yield last
        last = hit
    if last is not None:
        yield last


def _in_other_cases(key: str) -> tuple[str, ...]:
    return key.upper(), key.lower(), key.title()


def _credentials(url: str) -> Iterator[str]:
    """The password in a URL, or the user if there is none, and both, as they are and decoded."""
    user, _, password = urlsplit(url).netloc.rpartition("@")[0].partition(":")
    yield from (password or user, unquote(password or user))
    if password:
        yield from (f"{user}:{password}", f"{unquote(user)}:{unquote(password)}")


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _key_of(secret: str) -> bytes:
    """The bytes of the key in a webhook secret; none if it is no Base64."""
    text = secret.removeprefix("whsec_").rstrip("=")
    try:
        return urlsafe_b64decode(f"{text}{'=' * (-len(text) % 4)}".translate(_URL_SAFE))
    except ValueError:
        return b""


def _quoted(secret: str) -> re.Pattern[bytes]:
    forms = b"|".join(map(re.escape, sorted(plain_forms(_raw(secret)) | {_raw(secret).translate(SPACES)})))
    return re.compile(rb"""(?:["'@]|[=:] ?|^)(""" + forms + rb""")(?=["'&@]|$)""")


_URL_SAFE = str.maketrans("+/", "-_")
_PREFIX_FORMS = [form for kind in BASES for prefix in _PREFIXES for form in encoded_forms(kind, prefix, "")]
