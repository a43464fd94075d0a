"""Masks API keys, webhook secrets and other credentials in what a logged request shows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from urllib.parse import quote

from leyden.devserver.secret_texts import Secrets
from leyden.server.http.authentication import is_key_name
from leyden.server.printable import masked

_CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie"})
# By their form: those of other sandboxes, such as the key of a fork in the answer that created it.
_SECRET = re.compile(r"whsec_[A-Za-z0-9+/=]{8,}|leyden_[0-9a-f]{32}")
_STARTS = ("whsec_", "leyden_")
# A text in JSON with the name of its member; a body that is cut may end in it.
_MEMBER = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:\s*)"((?:[^"\\]|\\.)*)("|\\?\Z)')
_SECRET_MEMBERS = frozenset({"replaces", "secret", "webhooksecret"})
_PARAMETER = re.compile(r"(?<=[?&])([^=&]+)=([^&]+)")
# A shorter key may be a word that texts have for another reason: it is masked where it is a whole JSON string.
_MIN_LENGTH = 8
# A path of short words and ids, as nearly all are, has no encoded secret.
_PLAIN_PATH = re.compile(r"(?:/(?:[\w.@-]{0,11}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}))*")


class Mask:
    """Masks these secrets wherever a text has them, also in the encodings of `leyden.devserver.secret_texts`, and the
    values of headers that are credentials by their name.

    `keys` are API keys, `key_header` is the name of their header. `public` are keys that are no secrets.
    """

    def __init__(
        self, keys: Iterable[str], webhook_secrets: Iterable[str], key_header: str, public: Iterable[str] = ()
    ) -> None:
        self._public = frozenset(public)
        self._keys, self._webhook_secrets = [*keys], [*webhook_secrets]
        wanted = {*self._keys, *self._webhook_secrets} - self._public
        self._secrets = sorted((one for one in wanted if len(one) >= _MIN_LENGTH), key=len, reverse=True)
        self._short = [f'"{one}"' for one in wanted if len(one) < _MIN_LENGTH]
        self._key_header = key_header

    @cached_property
    def _encoded(self) -> Secrets:
        return Secrets(self._keys, webhook_secrets=self._webhook_secrets, public=self._public)

    def text(self, text: str) -> str:
        """A text without the secrets."""
        return self._plain(text) if len(text) < _MIN_LENGTH else self._encoded.text(text)

    def _plain(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, masked(secret))
        for quoted in self._short:
            if quoted in text:
                text = text.replace(quoted, f'"{masked(quoted[1:-1])}"')
        if any(start in text for start in _STARTS):
            text = _SECRET.sub(lambda found: masked(found[0]), text)
        return text

    def body(self, body: str) -> str:
        """A body; of JSON the values of members that are named like a key or a secret are masked, too: they may be
        those of another project or sandbox."""
        return self.text(_MEMBER.sub(self._member, body))

    def target(self, target: str) -> str:
        """A path with its query; the values of parameters that are named like a key are masked, too."""
        path, mark, query = target.partition("?")
        if mark:
            query = _PARAMETER.sub(self._parameter, f"?{query}")
        return self._plain(path) if not query and _PLAIN_PATH.fullmatch(path) else self.text(path + query)

    def header(self, name: str, value: str) -> str:
        """The value of a header."""
        lower = name.lower()
        if lower == self._key_header or is_key_name(lower):
            return masked(value)
        if lower in _CREDENTIALS:
            scheme, space, rest = value.partition(" ")
            return f"{scheme} {masked(rest)}" if space and "=" not in scheme else masked(value)
        return self.text(value)

    def _parameter(self, found: re.Match[str]) -> str:
        name, value = found.groups()
        if is_key_name(name) or name.lower() == self._key_header:
            return f"{name}={masked(value)}"
        shown = self.text(value)
        spaced = shown.replace("+", " ")  # a `+` of a list of bytes is a space, one of a secret may be itself
        if (again := self.text(spaced)) != spaced:
            shown = again
        return f"{name}={value if shown == value else quote(shown, safe='/%+')}"

    def _member(self, found: re.Match[str]) -> str:
        name, colon, value, end = found.groups()
        plain = name.lower().replace("_", "")
        if value in self._public or not (is_key_name(name) or plain in _SECRET_MEMBERS or plain == self._key_header):
            return found[0]
        return f'"{name}"{colon}"{masked(value)}{end}'
