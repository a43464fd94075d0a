"""Instants in files that somebody else wrote: their schemas, for every kind of file, and the check of their format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leyden.arguments import checked_start
from leyden.server.timestamps import parse_iso


def _accepts(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


_INSTANT = "date-time with an offset, such as 2030-01-01T00:00:00Z"
_START = "date-time with an offset from 1971 to 2999, such as 2030-01-01T00:00:00Z"

INSTANT_TEXT: Mapping[str, Any] = {"type": "string", "format": _INSTANT}
START_TEXT: Mapping[str, Any] = {"type": "string", "format": _START}
# For the validator of a schema that has one of them. An error names the format.
FORMATS: dict[str, Callable[..., bool]] = {
    _INSTANT: lambda text: _accepts(parse_iso, text),
    _START: lambda text: _accepts(lambda start: checked_start(parse_iso(start), start), text),
}
