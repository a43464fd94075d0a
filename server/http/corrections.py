"""Corrections: how an error text shows the value that was received, and the value that was probably meant."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from math import isinf
from typing import Any

from leyden.server.errors import NotFound
from leyden.server.http.url_corrections import url_correction
from leyden.server.spelling import closest
from leyden.server.timestamps import parse_duration, parse_iso, to_iso

_MAX_SHOWN = 60
_FIRST_UNIX_TIME = 1_000_000_000
_NUMBER = re.compile(
    r"\+?(?P<digits>\d[\d ,_'\u00a0\u202f]{0,30})(?:\.0{1,9})? ?(?P<unit>m?sats?|(?:milli)?satoshis?|msats)?",
    re.I | re.A,
)
_EXPONENT = re.compile(r"\+?\d{1,20}(?:\.\d{1,20})?e[+-]?\d{1,2}", re.I | re.A)
_OF_URL = re.compile(r"\bURL\b")  # and not an LNURL
# What these name has to exist, and the spec does not say what exists: no candidate is known to be accepted.
_OF_NAME = re.compile(r"\b(?:event|invoice|operation|snapshot)\b")
_AUTHORITY = re.compile(r"//([^/?#]*)@")

Accepts = Callable[[Any], bool]


def shown(text: str) -> str:
    """A text in an error: in quotation marks, at most sixty characters, escaped as in JSON, in printable ASCII."""
    return json.dumps(text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "...")


def without_passwords(text: str) -> str:
    """A text whose URLs have no user names and passwords."""
    return _AUTHORITY.sub("//***@", text)


def received(value: Any) -> str:
    """A JSON value in an error. A password in a URL is not shown."""
    if isinstance(value, str):
        if len(value) > _MAX_SHOWN:
            return f"a text of {len(value)} characters"
        return shown(without_passwords(value))
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, float) and isinf(value):  # JSON has no infinity: it is a number such as 1e999
        return "a number that is out of range"
    text = json.dumps(value)
    kind = "" if value is None or isinstance(value, bool) else "the number "
    return kind + (text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}...")


def unknown_id(name: str = "id", *, removed: str = "") -> NotFound:
    """The error for an id in the path. It is the same for an unknown id, a text that is no id and an id of another
    project: the response does not reveal which ids exist. `removed` says that rows were removed after their end."""
    return NotFound(
        f"this API key has no resource with this {name}: check the key, and the {name} as the response that created "
        f"the resource has it{removed}"
    )


def malformed_id(name: str, text: str, schema: Mapping[str, Any], accepts: Accepts) -> NotFound:
    """The error for a text in the path that its schema rejects: where the schema says what it expects, that and a
    similar text that it accepts, otherwise the error for an unknown id."""
    expect = schema.get("x-expect")
    if expect is None:
        return unknown_id(name)
    # What stands around the name in a URL is no part of it, and each run of other characters is one -.
    bare = re.sub(r"^[A-Za-z]+://|[/:?#].*$", "", text.strip(), flags=re.DOTALL)
    parts = (re.sub(r"[^A-Za-z0-9_]+", "-", part).strip("-") for part in bare.split("."))
    meant = ".".join(part for part in parts if part)
    guess = f": write {shown(meant)}" if meant != text and accepts(meant) else ""
    return NotFound(f"{name}: expected {expect}; received {received(text)}{guess}")


def other_kind(resource_id: str, kind: str, path: str) -> str:
    """The text for an id of another kind of resource. `path` is that kind's path, "" when it is not served."""
    return f"{resource_id} is the id of a {kind}" + (
        f": its path is {path.replace('{id}', resource_id)}" if path else ""
    )


def correction(value: Any, schema: Mapping[str, Any], accepts: Accepts) -> str:
    """The end of an error text that suggests a correction of a wrong value; empty if there is no suggestion.

    `accepts` tests a candidate against the spec, so that no suggestion is wrong itself. Where the spec cannot decide,
    there is no suggestion.
    """
    expect = str(schema.get("x-expect", ""))
    if isinstance(value, str):
        if _OF_URL.search(expect):
            return url_correction(value, accepts, shown)
        near = closest(value, [one for one in schema.get("enum", ()) if isinstance(one, str)])
        if near is not None:
            return f"did you mean {shown(near)}?"
    if _OF_NAME.search(expect):
        return ""
    in_msat, in_seconds = "millisatoshis" in expect, "seconds" in expect
    if in_seconds and _is_number(value) and value >= _FIRST_UNIX_TIME:
        return "send a duration, not a point in time"
    for candidate, text in _candidates(value, schema, in_msat, in_seconds):
        if accepts(candidate):
            return text.format(shown(candidate) if isinstance(candidate, str) else f"the number {candidate}")
    if in_msat and isinstance(value, str | float) and re.search(r"\d\.\d(?![\d]*e)", str(value), re.I):
        return "write whole millisatoshis, without a decimal point"
    if in_msat and isinstance(value, str) and _EXPONENT.fullmatch(value.strip()):
        return "write all digits, without an exponent"
    if in_msat and str(value).strip().startswith("-"):
        return "an amount has no sign"
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _candidates(value: Any, schema: Mapping[str, Any], in_msat: bool, in_seconds: bool) -> Iterator[tuple[Any, str]]:
    """Values that may have been meant, the likeliest first, each with the text of its correction."""
    if _is_number(value) and abs(value) < 10**18 and value == int(value):
        whole = int(value)
        yield str(whole), "write it as a text, {}"
        if in_msat:
            yield str(whole * 1_000), _in_satoshis(whole)
        if in_seconds and whole % 1_000 == 0:
            yield whole // 1_000, "if these are milliseconds, write {}"
    if not isinstance(value, str) or len(value) > _MAX_SHOWN:
        return
    bare = value.strip().strip("\"'")
    # A key or a name has no meaning to guess: with "3 000" nobody meant "3000".
    is_number = "ASCII characters" not in schema.get("x-expect", "")
    if is_number and bare.isdecimal() and not bare.isascii():
        bare = "".join(str(int(digit)) for digit in bare)  # the digits of another script
    if is_number and _EXPONENT.fullmatch(bare):
        exact = Decimal(bare)
        if exact == exact.to_integral_value():
            yield f"{exact:.0f}", "write it without an exponent, {}"
            yield int(exact), "write it without an exponent, {}"
    number = _NUMBER.fullmatch(bare) if is_number else None
    if number is not None:
        digits = int(re.sub(r"\D", "", number["digits"]))
        satoshis = (number["unit"] or "m")[0].lower() == "s"
        if not satoshis:
            yield str(digits), "write {}"
            yield digits, "write {}"
        if in_msat:
            yield str(digits * 1_000), _in_satoshis(digits)
    if in_seconds:
        with suppress(ValueError):
            seconds, rest_ms = divmod(parse_duration(bare), 1_000)
            yield seconds + rest_ms / 1_000 if rest_ms else seconds, "write {}"
    yield bare, "write {}"
    yield bare.lower(), "write {}"
    if schema.get("format") != "date-time":
        return
    if " " in bare:
        # In a query a plus sign means a space.
        yield bare.replace(" ", "+"), "write {}, with %2B for the plus sign in a URL"
        yield bare.replace(" ", "T") + "Z", "write {}"
    yield bare + "Z", "write {}"
    yield bare + "T00:00:00Z", "write {}"
    for text in (bare, bare + "Z"):
        with suppress(ValueError):
            yield to_iso(parse_iso(text)).replace(".000Z", "Z"), "write {}"


def _in_satoshis(count: int) -> str:
    unit = "satoshi" if count == 1 else "satoshis"
    return f"amounts are in millisatoshis; if you mean {count} {unit}, write {{}}"
