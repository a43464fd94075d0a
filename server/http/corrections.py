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
from leyden.server.http.written_numbers import Reading, with_decimal_points, written_number
from leyden.server.spelling import closest
from leyden.server.timestamps import parse_duration, parse_iso, to_iso

_MAX_SHOWN = 60
_FIRST_UNIX_TIME = 1_000_000_000
_EXPONENT = re.compile(r"\+?\d{1,20}(?:\.\d{1,20})?e[+-]?\d{1,2}", re.I | re.A)
_OF_URL = re.compile(r"\bURL\b")  # and not an LNURL
# What these name has to exist, and the spec does not say what exists: no candidate is known to be accepted.
_OF_NAME = re.compile(r"\b(?:event|invoice|operation|snapshot)\b")
_DECIMALS = re.compile(r"\d([.,])\d(?!\d*e)", re.I)
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
        return "an object" if value else "an empty object"
    if isinstance(value, list):
        return "an array" if value else "an empty array"
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
    if isinstance(value, str) and _is_of_number(value, expect) and (mend := _number(_bare(value), accepts, in_msat)):
        return mend
    for candidate, text in _candidates(value, expect, in_msat, in_seconds):
        if accepts(candidate):
            return text.format(_in_json(candidate))
    for candidate, text in _times(value) if schema.get("format") == "date-time" else ():
        if accepts(candidate):
            return text.format(_in_json(candidate))
    if in_msat and isinstance(value, str | float) and (mark := _DECIMALS.search(str(value))):
        return f"write whole millisatoshis, without a decimal {'point' if mark[1] == '.' else 'comma'}"
    if in_msat and isinstance(value, str) and _EXPONENT.fullmatch(value.strip()):
        return "write all digits, without an exponent"
    if in_msat and str(value).strip().startswith("-"):
        return "an amount has no sign"
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _bare(text: str) -> str:
    """The text without spaces and quotation marks around it, and its digits in ASCII if it has nothing else."""
    bare = text.strip().strip("\"'")
    return "".join(str(int(digit)) for digit in bare) if bare.isdecimal() and not bare.isascii() else bare


def _is_of_number(value: str, expect: str) -> bool:
    """Whether a number may be meant: a key or a name has no meaning to guess, with "3 000" nobody meant "3000"."""
    return len(value) <= _MAX_SHOWN and "ASCII characters" not in expect


def _in_json(candidate: Any) -> str:
    return shown(candidate) if isinstance(candidate, str) else f"the number {candidate}"


def _number(text: str, accepts: Accepts, in_msat: bool) -> str:
    """The correction of a text that is a number as people write it; of one with two meanings, each with its condition.
    Empty when no meaning is accepted."""
    number = written_number(text)
    if number is None:
        return ""
    found = [(one, mend) for one in number.readings if (mend := _meant(one, number.unit_msat, accepts, in_msat))]
    if not found:
        return ""
    if len(found) == len(number.readings) and len({candidate for _, (candidate, _) in found}) == 1:
        candidate, why = min((mend for _, mend in found), key=lambda mend: len(mend[1]))
        return why + f"write {_in_json(candidate)}"
    note = "amounts are in millisatoshis: " if in_msat and number.unit_msat not in {None, 1} else ""
    return note + "; ".join(f"if {one.if_so}, write {_in_json(candidate)}" for one, (candidate, _) in found)


def _meant(reading: Reading, unit_msat: int | None, accepts: Accepts, in_msat: bool) -> tuple[Any, str] | None:
    """The accepted value for one meaning of a number, and what precedes it in the text of the correction."""
    value = reading.value
    if unit_msat in {None, 1}:
        is_whole = value == value.to_integral_value()
        for candidate in (f"{value:.0f}", int(value)) if is_whole else () if in_msat else (float(value),):
            if accepts(candidate):
                return candidate, ""
        if unit_msat == 1 or not is_whole:
            return None
    msat = value * (unit_msat or 1_000)
    if not in_msat or msat != msat.to_integral_value() or not accepts(f"{msat:.0f}"):
        return None
    if unit_msat in {None, 1_000}:
        return f"{msat:.0f}", _in_satoshis(f"{value.normalize():f}")
    return f"{msat:.0f}", "amounts are in millisatoshis: "


def _candidates(value: Any, expect: str, in_msat: bool, in_seconds: bool) -> Iterator[tuple[Any, str]]:
    """Values that may have been meant, the likeliest first, each with the text of its correction."""
    if _is_number(value) and abs(value) < 10**18 and value == int(value):
        whole = int(value)
        yield str(whole), "write it as a text, {}"
        if in_msat:
            yield str(whole * 1_000), _in_satoshis(str(whole)) + "write {}"
        if in_seconds and whole % 1_000 == 0:
            yield whole // 1_000, "if these are milliseconds, write {}"
    if not isinstance(value, str) or len(value) > _MAX_SHOWN:
        return
    bare = _bare(value)
    if _is_of_number(value, expect) and _EXPONENT.fullmatch(bare):
        exact = Decimal(bare)
        if exact == exact.to_integral_value():
            yield f"{exact:.0f}", "write it without an exponent, {}"
            yield int(exact), "write it without an exponent, {}"
    if in_seconds:
        with suppress(ValueError):
            seconds, rest_ms = divmod(parse_duration(with_decimal_points(bare)), 1_000)
            yield seconds + rest_ms / 1_000 if rest_ms else seconds, "write {}"
    yield bare, "write {}"
    yield bare.lower(), "write {}"


def _times(value: Any) -> Iterator[tuple[str, str]]:
    """Times that may have been meant by a text, as `_candidates` gives values."""
    if not isinstance(value, str) or len(value) > _MAX_SHOWN:
        return
    bare = _bare(value)
    if " " in bare:
        # In a query a plus sign means a space.
        yield bare.replace(" ", "+"), "write {}, with %2B for the plus sign in a URL"
        yield bare.replace(" ", "T") + "Z", "write {}"
    yield bare + "Z", "write {}"
    yield bare + "T00:00:00Z", "write {}"
    for text in (bare, bare + "Z"):
        with suppress(ValueError):
            yield to_iso(parse_iso(text)).replace(".000Z", "Z"), "write {}"


def _in_satoshis(count: str) -> str:
    return f"amounts are in millisatoshis; if you mean {count} {'satoshi' if count == '1' else 'satoshis'}, "
