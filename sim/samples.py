"""Values from a program as plain JSON values: lists, arrays, Series, weights, and the results of functions.

They are read once, when they are given, so that a fork, a saved sandbox and a script have them too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import islice
from math import isfinite
from numbers import Integral
from typing import Any

from leyden.arguments import ALL_MSAT, MAX_SPAN_MS, real_number
from leyden.distributions import MAX_VALUES, msat_value
from leyden.errors import DistributionError
from leyden.rng import RandomStream
from leyden.server.printable import quoted
from leyden.server.timestamps import duration_near, to_iso

# The values that are drawn from a function.
DRAWS = 10_000
# The steps of a rate that is a function, the shortest first (ms), and how many there are at most.
_STEPS_MS = (60_000, 300_000, 900_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000)
_MOST_STEPS = 10_000

Drawn = Callable[[RandomStream], Any]


def plain_values(value: Any, name: str, read: Callable[[Any], float], stream: Callable[[], RandomStream]) -> Any:
    """A distribution as JSON values: texts and numbers stay, a list, an array and a Series become a list, a mapping
    from values to weights a dict. A function of a random stream becomes the list of `DRAWS` values that it draws from
    `stream()`, each read by `read`. Raises `DistributionError` for anything else."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        _check_length(name, len(value))
        return {_key(each, name): _plain(weight, name) for each, weight in value.items()}
    if callable(value):
        return _drawn(value, name, read, stream())
    if isinstance(value, bytes | bytearray | set | frozenset) or not isinstance(value, Iterable):
        return _plain(value, name)
    try:
        found = list(islice(value, MAX_VALUES + 1))
    except TypeError:  # an array without a dimension
        return _plain(value, name)
    _check_length(name, len(found))
    return [_plain(each, name) for each in found]


def drawn_msat(value: Any) -> int:
    """An amount that a function drew: rounded, or the nearest of the bounds 0 and all bitcoin."""
    number = msat_value(value) if isinstance(value, str) else _finite(value)
    return round(min(max(number, 0), ALL_MSAT))


def drawn_seconds(value: Any) -> float:
    """A span that a function drew, in seconds: rounded to milliseconds, or the nearest of 0 and 1,000 years."""
    number = duration_near(value, 0, MAX_SPAN_MS) if isinstance(value, (str, timedelta)) else _finite(value) * 1_000
    return round(min(max(number, 0), MAX_SPAN_MS)) / 1_000


def drawn_expiry(value: Any) -> float:
    """As `drawn_seconds`, 1 at least."""
    return max(1.0, drawn_seconds(value))


def plain_rate(value: Any, start_ms: int, ends_at: int | None, per_minute: Callable[[Any], float]) -> Any:
    """A rate as JSON values: a text stays, a list has rates to add, and a mapping or a Series has instants, each with
    the rate from there on. A function of the time becomes such a mapping from `start_ms` to `ends_at`. `per_minute`
    reads one rate. Raises `DistributionError` for anything else."""
    if isinstance(value, str):
        return value
    if hasattr(value, "items") and not isinstance(value, Mapping):  # a Series
        value = dict(value.items())
    if isinstance(value, Mapping):
        _check_length("rate", len(value), _MOST_STEPS)
        return {_instant_text(instant): per_minute(rate) for instant, rate in value.items()}
    if callable(value):
        return _tabulated(value, start_ms, ends_at, per_minute)
    if isinstance(value, list | tuple):
        if any(isinstance(each, list | tuple) for each in value):
            raise DistributionError(f"rate: {quoted(value, 60)} has lists in a list: give one list of rates to add")
        return [plain_rate(each, start_ms, ends_at, per_minute) for each in value]
    return _plain(value, "rate")


def _tabulated(function: Callable[[datetime], Any], start_ms: int, ends_at: int | None, per_minute: Any) -> Any:
    what = f"rate: the function {_name_of(function)}"
    if ends_at is None:
        raise DistributionError(f"{what} needs an end: give duration=, because it is read for that time")
    span = ends_at - start_ms
    step = next((one for one in _STEPS_MS if span // one < _MOST_STEPS - 1), None)
    if step is None:
        raise DistributionError(f"{what} cannot be read for so long: give a duration of at most 190 years")
    rates: dict[str, float] = {}
    before: float | None = None
    for at in range(start_ms - start_ms % step, ends_at, step):
        rate = per_minute(_result(function, datetime.fromisoformat(to_iso(at)), what))
        if rate != before:
            rates[to_iso(at)] = before = rate
    return rates


def _drawn(function: Drawn, name: str, read: Callable[[Any], float], stream: RandomStream) -> list[float]:
    what = f"{name}: the function {_name_of(function)}"
    values = []
    for _ in range(DRAWS):
        value = _result(function, stream, what)
        try:
            values.append(read(value))
        except (TypeError, ValueError) as error:
            raise DistributionError(f"{what} returned {quoted(value, 60)}: {error}") from None
    return values


def _result(function: Callable[[Any], Any], argument: Any, what: str) -> Any:
    try:
        return function(argument)
    except Exception as error:
        raise DistributionError(f"{what} raised {type(error).__name__}: {error}") from error


def _finite(value: Any) -> float:
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    number = real_number(value)
    if number is None or not isfinite(number):
        raise ValueError("return a number")
    return number


def _plain(value: Any, name: str) -> Any:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Integral) and not isinstance(value, bool):  # numpy's, for example
        return int(value)
    if (number := real_number(value)) is not None:
        return number
    raise DistributionError(
        f"{name}: {quoted(value, 60)} is not a distribution: give a number, a text, a list of values, a mapping from "
        "values to weights, or a function"
    )


def _key(value: Any, name: str) -> str:
    plain = _plain(value, name)
    return plain if isinstance(plain, str) else repr(plain)


def _check_length(name: str, length: int, most: int = MAX_VALUES) -> None:
    if length > most:
        raise DistributionError(f"{name}: there are more than {most} values: give a sample of them")


def _instant_text(value: Any) -> str:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise DistributionError(f"rate: {quoted(value)} has no time zone: give an instant in UTC")
        return value.isoformat()
    if not isinstance(value, str):
        raise DistributionError(f'rate: {quoted(value, 60)} is no instant: write for example "2030-01-01T09:00Z"')
    return value


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", None) or type(function).__name__)
