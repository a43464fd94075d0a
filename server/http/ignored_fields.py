"""Ignored fields: what a request has and its operation does not know, and how the response and the server report it.

Unknown fields are accepted (specs/DECISIONS.md, request-bodies). A misspelt field must not be lost without a word: the
response names it in the header `Leyden-Ignored`, and the event journal in the entry of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any, NamedTuple

from leyden.server.contract.json_schema.schemas import parts, properties
from leyden.server.contract.types import Operation
from leyden.server.http.field_names import meant_field
from leyden.server.spelling import closest

HEADER = b"leyden-ignored"
IGNORED = "leyden.ignored"  # the key of a request's ignored fields in its ASGI scope

# What clients, browsers and proxies send, and what this service reads: none of these is a slip of another name.
USUAL_HEADERS = frozenset(
    b"host connection keep-alive user-agent accept accept-encoding accept-language accept-charset content-type"
    b" content-length content-encoding transfer-encoding expect te trailer upgrade via forwarded date from dnt pragma"
    b" cache-control if-match if-none-match if-modified-since if-unmodified-since range cookie origin referer"
    b" authorization proxy-authorization apikey x-api-key idempotency-key x-request-id x-correlation-id traceparent"
    b" tracestate baggage x-forwarded-for x-forwarded-host x-forwarded-proto x-forwarded-port x-real-ip"
    b" x-requested-with priority sec-fetch-dest sec-fetch-mode sec-fetch-site sec-fetch-user sec-ch-ua"
    b" sec-ch-ua-mobile sec-ch-ua-platform".split()
)
_KEY = "Idempotency-Key"
_SLIP = 0.85  # the similarity of a slip: other names of headers end with the same word
_SEPARATORS = str.maketrans("", "", "_-.")
_MAX_NAMED = 8
_MAX_COMPARED = 64
_MAX_NAME_LENGTH = 40
_MAX_TEXTS = 100


class IgnoredField(NamedTuple):
    """One body field or query parameter that was ignored, its name cut to 40 characters.

    `did_you_mean` is the name that the operation knows and that is probably meant. `always` is the fixed value that the
    resource has in this field, if the request has another one. `unit` is the unit of the field that is meant, if the
    name has a unit, and `conversion` how much of it one of the unit in the name is.
    """

    name: str
    did_you_mean: str | None = None
    always: str | None = None
    unit: str | None = None
    conversion: str = ""

    def to_item(self) -> str:
        """An item of a structured field (RFC 9651), such as `"callback_url";did-you-mean="callbackUrl"`."""
        hints = {"did-you-mean": self.did_you_mean, "unit": self.unit, "always": self.always}
        given = (f";{key}={_string(value)}" for key, value in hints.items() if value is not None)
        return _string(self.name) + "".join(given)

    def to_facts(self) -> dict[str, str]:
        """JSON for the event journal: `name`, and `didYouMean`, with a `unit`, or `always` if there is one."""
        facts = {"name": self.name, "didYouMean": self.did_you_mean, "unit": self.unit, "always": self.always}
        return {key: value for key, value in facts.items() if value is not None}

    def in_words(self) -> str:
        """For people, in printable ASCII: `"callback_url" is ignored; did you mean "callbackUrl"?`"""
        hint = "" if self.did_you_mean is None else f"; did you mean {_string(self.did_you_mean)}?"
        if self.unit is not None:
            hint += f" It is in {self.unit}" + (f" ({self.conversion})" if self.conversion else "")
        if self.always is not None:
            hint = f"; it is always {_string(self.always)}"
        return f"{_string(self.name)} is ignored{hint}"


def ignored_fields(
    operation: Operation, sent: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]
) -> tuple[IgnoredField, ...]:
    """The names in `sent` that are not `known` to the operation, schemas by name, in the order of the request.

    Of more than 64 only the first 64 have `did_you_mean`.
    """
    unused = {name: schema for name, schema in known.items() if name not in sent}
    constants = _constants(operation)
    found: list[IgnoredField] = []
    for name, value in sent.items():
        if name not in known:
            fixed = constants.get(name)
            always = None if fixed is None or value == fixed else fixed
            compared = len(found) < _MAX_COMPARED and always is None
            meant = meant_field(name, unused) if compared else None
            hints = (None, always) if meant is None else (meant.name, always, meant.unit or None, meant.conversion)
            found.append(IgnoredField(_cut(name), *hints))
    return tuple(found)


def misspelt_keys(headers: Iterable[bytes], declared: Set[bytes], *, has_effect: bool) -> tuple[IgnoredField, ...]:
    """The headers that are like `Idempotency-Key` and are not it, in the order of the request; of names in lower case.
    Those that the document has declared are read.

    A request repeated without the right name charges twice. `has_effect` is whether the right one would change
    anything: the operation has the parameter, and the request does not.
    """
    meant = _KEY if has_effect else None
    names = (name for name in headers if name not in USUAL_HEADERS and name not in declared and _is_like_key(name))
    return tuple(IgnoredField(_cut(name.decode("latin-1").title()), meant) for name in names)


@lru_cache(maxsize=1_024)
def _is_like_key(name: bytes) -> bool:
    """Whether a header that is not usual is a slip of `Idempotency-Key`, such as `X-Idempotency-Key`."""
    if len(name) > _MAX_NAME_LENGTH:
        return False
    letters = name.decode("latin-1").translate(_SEPARATORS).removeprefix("x")
    return "idempoten" in letters or closest(letters, [_KEY], _SLIP) is not None


def header_value(ignored: Sequence[IgnoredField]) -> bytes:
    """The value of the header: a list of at most eight names (RFC 9651), and then `more` with the number of others."""
    items = [field.to_item() for field in _named(ignored)]
    if len(ignored) > _MAX_NAMED:
        items.append(f"more;count={len(ignored) - _MAX_NAMED}")
    return ", ".join(items).encode("ascii")


def journal_facts(ignored: Sequence[IgnoredField]) -> list[dict[str, str]]:
    """The facts for the event journal: the names that the header has."""
    return [field.to_facts() for field in _named(ignored)]


def _named(ignored: Sequence[IgnoredField]) -> Sequence[IgnoredField]:
    """The fields that are reported: at most eight, first those with a hint, in the order of the request."""
    if len(ignored) <= _MAX_NAMED:
        return ignored
    hinted = [at for at, field in enumerate(ignored) if field.did_you_mean is not None or field.always is not None]
    first = [*hinted, *(at for at in range(len(ignored)) if at not in hinted)][:_MAX_NAMED]
    return [ignored[at] for at in sorted(first)]


class IgnoredFields:
    """The ignored fields of all requests since the service was built, in words: at most 100 different texts.

    `report` is called with each text once, and returns what is shown of it: a field may be named like a secret.
    """

    def __init__(self, report: Callable[[str], str] = str) -> None:
        self._report = report
        self._texts: dict[str, str] = {}

    def add(self, operation: Operation, ignored: Sequence[IgnoredField]) -> None:
        """Record the ignored fields of one request."""
        texts = [field.in_words() for field in _named(ignored)]
        more = len(ignored) - len(texts)
        if more:
            texts.append(f"{more} more {'field is' if more == 1 else 'fields are'} ignored in the same request")
        for what in texts:
            text = f"{operation.method.upper()} {operation.path}: {what}"
            if text not in self._texts and len(self._texts) < _MAX_TEXTS:
                self._texts[text] = self._report(text)

    @property
    def texts(self) -> list[str]:
        """The texts, in the order of the first occurrence."""
        return list(self._texts.values())


def _constants(operation: Operation) -> dict[str, str]:
    """The fields of the operation's resource that have one fixed text, such as `unit`."""
    found: dict[str, str] = {}
    rule = operation.success.rule
    for data in () if rule is None else properties(rule.schema).get("data", ()):
        for part in parts(data):
            for name, schemas in properties(part).items():
                for schema in schemas:
                    if isinstance(schema.get("const"), str):
                        found[name] = schema["const"]
    return found


def _cut(name: str) -> str:
    return name if len(name) <= _MAX_NAME_LENGTH else name[: _MAX_NAME_LENGTH - 3] + "..."


def _string(text: str) -> str:
    """A String of RFC 9651, or a Display String when the text is not printable ASCII."""
    if text.isascii() and text.isprintable():
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    # RFC 9651, 4.1.11: percent-encoded UTF-8, in lower case; % and " are encoded too.
    encoded = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'%"' else f"%{byte:02x}" for byte in text.encode()
    )
    return f'%"{encoded}"'
