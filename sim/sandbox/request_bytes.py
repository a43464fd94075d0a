"""The headers and the body of a request as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from leyden.arguments import checked_list, has_infinite_number
from leyden.errors import ArgumentError
from leyden.server.printable import quoted
from leyden.world.loopback import Header

Headers = Mapping[str, str] | Iterable[tuple[str, str]]


def header_bytes(headers: Headers) -> tuple[Header, ...]:
    """Headers as they are sent. Raises `TypeError` for what is no pair of texts."""
    pairs = list(headers.items()) if isinstance(headers, Mapping) else checked_list("headers", headers)
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise ArgumentError(f"headers: {quoted(pair, 60)} is no header: give a name and a value, both texts")
        if not all(one.isprintable() and ord(max(one, default=" ")) < 256 for one in (pair[0], pair[1].expandtabs(1))):
            raise ArgumentError(f"headers: {quoted(pair, 60)} has characters that no header has: give those of Latin-1")
    return tuple((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs)


def json_bytes(fields: Mapping[str, Any]) -> bytes:
    """Fields as JSON. Raises `ArgumentError` with the name of the first field that has no JSON form."""
    try:
        encoded = orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:
        for name in fields if isinstance(fields, Mapping) else ():
            if not isinstance(name, str):
                raise ArgumentError(f"body: the name {quoted(name, 60)} is no text: give the names of fields") from None
        for name, value in fields.items() if isinstance(fields, Mapping) else [("body", fields)]:
            try:
                orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
            except TypeError:
                raise ArgumentError(f"{name}={quoted(value, 60)} {_json_mend(value)}") from None
        raise
    if b"null" in encoded:  # as orjson writes a number without a JSON form
        for name, value in fields.items() if isinstance(fields, Mapping) else [("body", fields)]:
            if has_infinite_number(value):
                raise ArgumentError(f"{name}={quoted(value, 60)} has no JSON form: give a finite number, or None")
    return encoded


def _json_mend(value: Any) -> str:
    """Why a value has no JSON form, and the mend."""
    if isinstance(value, int):
        return "does not fit into 64 bits: give a smaller number, or its digits as a text"
    if isinstance(value, str):
        return "has a surrogate, which UTF-8 cannot encode: give a text of whole characters"
    return "is not JSON: give a text, a number, a list or None"
