"""Date-times of RFC 3339, as the filters of the lists take them [lists]."""

from __future__ import annotations

import re
from datetime import date

_DATE_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_EPOCH = date(1970, 1, 1).toordinal()
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def is_leap_year(year: int) -> bool:
    """Whether a year has a 29th of February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def instant_of(text: str) -> int | None:
    """The time of a text in ms since 1970; None if it is no date-time. A fraction of a millisecond is rounded up: both
    filters compare whole milliseconds with it.

    A leap second is the second after it; it is at the end of a day in UTC (RFC 3339, 5.7).
    """
    found = _DATE_TIME.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= _DAYS[month - 1] and hour <= 23 and minute <= 59 and second <= 60):
        return None
    if month == 2 and day == 29 and not is_leap_year(year):
        return None
    offset = 0
    if found[8]:
        hours, minutes = int(found[9]), int(found[10])
        if hours > 23 or minutes > 59:
            return None
        offset = (hours * 60 + minutes) * (1 if found[8] == "+" else -1)
    days = _days(year, month, day)
    at_s = ((days * 24 + hour) * 60 + minute - offset) * 60 + second
    if second == 60 and at_s % 86_400:
        return None
    fraction = found[7] or "0"
    return at_s * 1_000 + int(fraction.ljust(3, "0")[:3]) + any(one != "0" for one in fraction[3:])


def _days(year: int, month: int, day: int) -> int:
    """The days since 1970 of a date of the proleptic Gregorian calendar, which has a year 0."""
    if year == 0:
        return date(400, month, day).toordinal() - _EPOCH - 146_097
    return date(year, month, day).toordinal() - _EPOCH
