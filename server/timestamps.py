"""Instants and durations: integer milliseconds in the code, ISO 8601 in UTC on the wire.

An instant is an `int`: milliseconds since 1970-01-01T00:00:00Z. The names of such values end in `_at` or `_ms`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from numbers import Integral, Real

from leyden.server.errors import ArgumentError
from leyden.server.printable import quoted

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANOSECONDS = re.compile(r"[.,][0-9]{6,}[1-9]")
_HAS_TIME = re.compile(r"[0-9].*[^0-9W-]")  # what separates it from the date
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)")
_BARE = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_UNITS = ((3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
SPAN_FORMS = 'seconds, or a span such as "90s", "1.5h" or "1h30m" (ms, s, m, h, d, w)'  # the end of a refusal
MAX_INSTANT_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z, the last instant with a four-digit year


# A Charge and its callbacks have a dozen instants on the wire: a joined text takes a quarter of a formatted one.
_SECONDS = tuple(f"{second:02d}." for second in range(60))
_MILLISECONDS = tuple(f"{milli:03d}Z" for milli in range(1_000))


@lru_cache(maxsize=256)
def _minute(minute: int) -> str:
    day, minute = divmod(minute, 1_440)
    return (_EPOCH + timedelta(days=day)).strftime(f"%Y-%m-%dT{minute // 60:02d}:{minute % 60:02d}:")


def to_iso(instant_ms: int) -> str:
    """Format an instant as `2030-01-01T09:00:00.000Z`: UTC, always three decimals."""
    minute, rest = divmod(instant_ms, 60_000)
    second, milli = divmod(rest, 1_000)
    return _minute(minute) + _SECONDS[second] + _MILLISECONDS[milli]


def parse_iso(text: str, *, clamp: bool = False, up: bool = False) -> int:
    """Parse an ISO 8601 date-time with an offset or `Z`. Fractions of a millisecond are cut off; with `up` they count
    as a whole one. A leap second is the second after it.

    Raises `ValueError` when the text is not a date-time or has no offset, and when it lies outside the years 1970 to
    9999; with `clamp` the nearest instant of those years is returned instead.
    """
    plain = text.upper()
    leap = plain[16:19] == ":60"
    if plain.startswith("0000"):
        plain = f"0001{plain[4:]}"
    try:
        date_time = datetime.fromisoformat(f"{plain[:16]}:59{plain[19:]}" if leap else plain)
    except ValueError:
        raise ArgumentError(
            f"{quoted(text)} is not a date-time: write ISO 8601, for example 2030-01-01T09:00:00Z"
        ) from None
    if date_time.tzinfo is None:
        if not _HAS_TIME.search(plain):
            given = f"{date_time:%Y-%m-%dT%H:%M:%SZ}"
            raise ArgumentError(f"{quoted(text)} is a date without a time: write both, for example {given}")
        raise ArgumentError(f"{quoted(text)} has no offset: add Z for UTC, for example 2030-01-01T09:00:00Z")
    # A subtraction of aware date-times also works on the first and the last day of the calendar.
    since_epoch = date_time - _EPOCH
    if up:
        # `datetime` cuts digits behind the sixth off.
        since_epoch += timedelta(milliseconds=1) - timedelta(microseconds=0 if _NANOSECONDS.search(plain) else 1)
    instant = since_epoch // timedelta(milliseconds=1) + leap * 1_000
    if not 0 <= instant <= MAX_INSTANT_MS:
        if clamp:
            return min(max(instant, 0), MAX_INSTANT_MS)
        raise ArgumentError(f"{quoted(text)} lies outside the years 1970 to 9999: give an instant in them")
    return instant


def parse_duration(value: str | float | timedelta) -> int:
    """Parse a duration to milliseconds: `"1h30m"`, `"-1s"`, `"+250ms"`, a number of seconds, or a `timedelta`.

    Units are ms, s, m, h, d, w, in any order. Raises `ValueError` for another text or number, and for a duration that
    is longer than the years 1970 to 9999, or shorter than a millisecond and not 0; `TypeError` for another type.
    """
    span_ms = _span_ms(value)
    if not -MAX_INSTANT_MS <= span_ms <= MAX_INSTANT_MS:
        most = f"a duration is at most {MAX_INSTANT_MS // _UNIT_MS['d']}d, the years 1970 to 9999"
        raise ArgumentError(f"{quoted(value, 60)} is too long: {most}, so give less")
    return _whole_ms(value, span_ms)


def bounded_duration(value: str | float | timedelta, least_ms: int, most_ms: int, refusal: str) -> int:
    """A duration as `parse_duration` reads it, from `least_ms` to `most_ms`. Raises `ArgumentError` with the `refusal`,
    which names these bounds, for any other, however long or short it is."""
    span_ms = _span_ms(value)
    if not least_ms <= span_ms <= most_ms and (abs(span_ms) >= 1 or least_ms > 1 or not span_ms):
        raise ArgumentError(refusal)
    return _whole_ms(value, span_ms)


def _whole_ms(value: str | float | timedelta, span_ms: float) -> int:
    """The span in milliseconds. One below a millisecond is refused; a fraction of a longer one is rounded."""
    is_zero = not re.search("[1-9]", value) if isinstance(value, str) else not value
    if abs(span_ms) < 1 and not is_zero:
        raise ArgumentError(f"{quoted(value)} is shorter than a millisecond, the unit of time: give at least '1ms'")
    return round(span_ms)


def duration_near(value: str | float | timedelta, least_ms: int, most_ms: int) -> int:
    """A duration for a place that has bounds of its own, which its error names: one that `parse_duration` refuses as
    too long is just outside of them."""
    span_ms = _span_ms(value)
    if abs(span_ms) > MAX_INSTANT_MS:
        return most_ms + 1 if span_ms > 0 else least_ms - 1
    return parse_duration(value)


def duration_up_to(value: str | float, most_ms: int) -> int:
    """A duration as `parse_duration` reads it, and `most_ms` for every longer one."""
    return most_ms if _span_ms(value) > most_ms else parse_duration(value)


def _span_ms(value: str | float | timedelta) -> float:
    """The span before it is rounded; infinite when it has too many digits."""
    if isinstance(value, timedelta):
        return value / timedelta(milliseconds=1)
    if isinstance(value, bool):
        raise ArgumentError(f"{value} is not a duration: give {SPAN_FORMS}")
    if isinstance(value, (int, float)):
        if value != value or value in (float("inf"), float("-inf")):
            raise ArgumentError(f"{value} is not a duration, because it is not finite: give {SPAN_FORMS}")
        return value * 1_000
    if isinstance(value, Real):  # of numpy, for example
        try:
            return _span_ms(int(value) if isinstance(value, Integral) else float(value))
        except OverflowError:  # a fraction that is larger than any float
            return float("inf")
    if not isinstance(value, str):
        raise ArgumentError(f"{quoted(value)} is not a duration: give {SPAN_FORMS}, or in Python a timedelta")
    text = value.strip()
    sign = -1 if text.startswith("-") else 1
    body = text[1:] if text[:1] in {"+", "-"} else text
    pieces = _DURATION.findall(body)
    if _BARE.fullmatch(body):
        number = text.removeprefix("+")[:20]
        raise ArgumentError(f'{quoted(value, 60)} has no unit: write "{number}s" or "{number}ms"')
    if not pieces or "".join(number + unit for number, unit in pieces) != body:
        raise ArgumentError(f"{quoted(value)} is not a duration: give {SPAN_FORMS}")
    return sign * sum(float(number) * _UNIT_MS[unit] for number, unit in pieces)


def span_in_words(span_ms: int) -> str:
    """Milliseconds in their two largest units: 300000 -> `5 min`, 5400000 -> `1 h 30 min`, 0 -> `0 s`."""
    parts: list[str] = []
    rest = span_ms
    for size, unit in _UNITS:
        whole, rest = divmod(rest, size)
        if whole:
            parts.append(f"{whole} {unit}")
    return " ".join(parts[:2]) or "0 s"
