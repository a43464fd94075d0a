"""Secrets of a target, and texts without them: its API keys, the user in its URL, webhook secrets and issued keys.

A secret is found as it is, percent-encoded or escaped, in Base64, within an LNURL, and at a place where a text was cut.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Sequence
from urllib.parse import unquote, urlsplit

from leyden.harness.constants import API_KEY, NO_KEY
from leyden.server.charges.lnurl import CHARSET
from leyden.server.http.authentication import is_key_name
from leyden.server.printable import masked

_CREDENTIALS = frozenset({"apikey", "authorization", "proxy-authorization", "cookie", "set-cookie"})
_PUBLIC = frozenset({"", API_KEY, NO_KEY})
# A shorter secret may be a word that texts have for another reason: it is masked where it is a whole text in quotes.
_MIN_LENGTH = 8
_MIN_PART = 4  # characters of a secret at the end of a text that was cut
_ISSUED = re.compile(r"(?:whsec_(?:[A-Za-z0-9/+=_-]|%2[bf]|%3d){8,}|leyden_[0-9a-f]{32})", re.IGNORECASE)
_LNURL = re.compile(f"lnurl1[{CHARSET}]{{8,}}", re.IGNORECASE)
_BASE64 = re.compile("[A-Za-z0-9+/_-]{8,}")
_URL_SAFE = str.maketrans("+/", "-_")
_CUT = "..."


class Secrets:
    """The secrets of a target at this URL with these API keys."""

    def __init__(self, url: str, keys: Iterable[str]) -> None:
        user, _, password = urlsplit(url).netloc.rpartition("@")[0].partition(":")
        values = {*keys}
        if user or password:
            values |= {password or user, unquote(password or user)}
            values |= {f"{user}:{password}", f"{unquote(user)}:{unquote(password)}"} if password else set()
        values -= _PUBLIC
        self._values = sorted(values, key=len, reverse=True)
        self._long = [(value, _pattern(value)) for value in self._values if len(value) >= _MIN_LENGTH]
        self._short = [(value, _quoted(value)) for value in self._values if len(value) < _MIN_LENGTH]

    def text(self, text: str) -> str:
        """The text without secrets."""
        text = _LNURL.sub(self._lnurl, text)
        text = _BASE64.sub(self._base64, self._plain(text))
        return self._without_part(text)

    def _plain(self, text: str) -> str:
        text = _ISSUED.sub(lambda found: masked(found[0]), text)
        for value, pattern in self._long:
            text = pattern.sub(lambda found, value=value: masked(value), text)  # type: ignore[misc]
        for value, pattern in self._short:
            text = pattern.sub(lambda found, value=value: f"{found[1]}{masked(value)}{found[2]}", text)  # type: ignore[misc]
        return text

    def body(self, body: bytes) -> bytes:
        """The bytes of a body without secrets."""
        text = body.decode("utf-8", "surrogateescape")
        return self.text(text).encode("utf-8", "surrogateescape")

    def headers(self, headers: Iterable[tuple[str, str]]) -> Sequence[tuple[str, str]]:
        """Headers without secrets: a credential by its name is masked, whatever its value is."""
        return [(name, self._header(name.lower(), value)) for name, value in headers]

    def _header(self, name: str, value: str) -> str:
        if is_key_name(name) or name in _CREDENTIALS:
            return masked(value)
        return masked(value) if value in self._values else self.text(value)

    def _base64(self, found: re.Match[str]) -> str:
        text = _decoded(found[0])
        return found[0] if self._without_part(self._plain(text)) == text else masked(found[0])

    def _lnurl(self, found: re.Match[str]) -> str:
        bits = "".join(f"{CHARSET.index(one):05b}" for one in found[0].lower()[6:])
        url = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8)).decode("utf-8", "replace")
        return (
            found[0]
            if self.text(url) == url and "@" not in url.partition("://")[2].partition("/")[0]
            else (f"lnurl1{masked(found[0])}")
        )

    def _without_part(self, text: str) -> str:
        """The text without the beginning of a secret at its end, where it was cut."""
        end = _CUT if text.endswith(_CUT) else ""
        kept = text.removesuffix(end)
        for value, _ in self._long:
            for length in range(min(len(value) - 1, len(kept)), _MIN_PART - 1, -1):
                if kept.endswith(value[:length]):
                    return f"{kept[:-length]}{masked(value)}{end}"
        return text


def _decoded(text: str) -> str:
    """What a text in Base64 may have encoded; a text that was cut is decoded as far as it goes."""
    whole = text[: len(text) - (len(text) % 4 == 1)]
    return urlsafe_b64decode(whole.translate(_URL_SAFE) + "=" * (-len(whole) % 4)).decode("utf-8", "replace")


def _pattern(text: str) -> re.Pattern[str]:
    """The text as it is, and with any of its characters percent-encoded or escaped."""
    return re.compile("".join(map(_character, text)))


def _character(one: str) -> str:
    units = one.encode("utf-16-be").hex()
    forms = [
        re.escape(one),
        "".join(f"%{byte:02x}" for byte in one.encode()),
        "".join(rf"\\+u{units[at : at + 4]}" for at in range(0, len(units), 4)),
        rf"\\+U{ord(one):08x}",
        "".join(rf"\\+x{byte:02x}" for byte in (one.encode("latin-1") if ord(one) < 256 else one.encode())),
        "".join(rf"\\+x{byte:02x}" for byte in one.encode()),
    ]
    if not one.isalnum():
        forms.append(rf"\\+{re.escape(one)}")
    return f"(?:{re.escape(one)}|(?i:{'|'.join(forms[1:])}))"


def _quoted(text: str) -> re.Pattern[str]:
    return re.compile(f"""(["'@]|[=:] ?|^)(?:{_pattern(text).pattern})(["'&@]|$)""")
