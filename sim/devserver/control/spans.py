"""The spans of time in the bodies of control operations."""

from __future__ import annotations

from leyden.server.timestamps import parse_duration
from leyden.world.time.clock import LAST_MS


def span_ms(value: str | float) -> int:
    """A span in milliseconds. The schema bounds the digits of a text, but not the sum of its parts: time ends before a
    span that is too long."""
    try:
        return parse_duration(value)
    except ValueError:
        return LAST_MS
