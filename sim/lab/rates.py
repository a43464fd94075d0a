"""Arrival rates of customers, given as texts, mappings and sums."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, NamedTuple

from leyden.arguments import MAX_SPAN_MS, real_number, span_from
from leyden.distributions import Distribution, split_outside
from leyden.errors import ArgumentError, DistributionError
from leyden.server.printable import quoted
from leyden.server.timestamps import parse_iso
from leyden.world.traffic.arrivals import DAY_MS, WEEK_MS, pieces

_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*/\s*([a-z0-9.]+)")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_CALL = re.compile(r"([a-z]+)\s*\((.*)\)", re.DOTALL)
_UNITS = {"sec": "s", "second": "s", "min": "m", "minute": "m", "hour": "h", "day": "d", "week": "w"}
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = "|".join(_DAYS)
_WEEKDAYS = re.compile(rf"({_DAY})(?:\s*-\s*({_DAY}))?(?:\s+([0-9]{{1,2}}))?")
_LEAST_GAP_MS = 1e-6
_FORMS = (
    '"30/min", "every(2s)", "burst(20, 10m)", "daily(30/min, 8:1, 12:3, 22:0)", "weekly(30/min, mon-fri:1, sat:3, '
    'sun:0)", sums (+) and products (*) of them'
)


class _Factor(NamedTuple):
    """A part of a product: `cycle`, which is a rate per ms or, with the mean 1, a pure number; or a point."""

    is_rate: bool
    cycle: list[Any]
    point: list[int] | None = None


def arrival_process(rate: Any) -> Distribution:
    """The arrival process as the world stores it, from a text, a list of rates to add, or a mapping from instants to
    customers per minute. Raises `DistributionError` with the possible forms."""
    if isinstance(rate, str):
        single = _single(rate.strip())
        if single is not None:
            return single
    terms: list[Any] = []
    points: list[Any] = []
    _add(rate, terms, points)
    if len(points) > 20 or len(terms) > 20:
        raise DistributionError("rate: a sum of more than 20 rates is not read: put them into a mapping of instants")
    has_steps = any(factor[0] == "steps" for term in terms for factor in term)
    if not points and not has_steps and not any(piece for _, _, piece in pieces(terms, 0.0, float(WEEK_MS))):
        raise DistributionError(f"rate: {quoted(rate, 80)} is 0 at every time, so no customer would arrive")
    return ["mixed", terms, points]


def per_minute(value: Any) -> float:
    """Customers per minute: a number, or a text such as `90/h`; 0 is possible. Raises `DistributionError`."""
    if isinstance(value, str):
        found = _RATE.fullmatch(value.strip())
        if found is not None and not float(found[1]):
            return 0.0
        return _MINUTE_MS / _gap_ms(value)
    number = real_number(value)
    if number is None or not (isfinite(number) and 0 <= number <= _MINUTE_MS / _LEAST_GAP_MS):
        raise DistributionError(
            f"rate: {quoted(value, 60)} is no number of customers per minute: give 0 or more, or a text"
        )
    return number


def _single(text: str) -> Distribution | None:
    """A process of one kind alone; None for any other text. Raises `DistributionError`."""
    if len(split_outside(text, "+")) != 1 or len(split_outside(text, "*")) != 1:
        return None
    call = _CALL.fullmatch(text)
    if call is None:
        return ["poisson", _gap_ms(text)]
    parts = split_outside(call[2], ",")
    if call[1] in ("every", "burst"):
        point = _point(call[1], parts)
        if point is None:
            raise _unreadable(text)
        return ["every", point[1]] if call[1] == "every" else ["burst", *point]
    if call[1] == "daily" and len(parts) > 1 and _RATE.fullmatch(parts[0]):
        return ["daily", *_cycle(_hours(parts[1:]), DAY_MS, _gap_ms(parts[0]))[2:]]
    return None


def _add(rate: Any, terms: list[Any], points: list[Any]) -> None:
    """Add what a rate is a sum of."""
    if isinstance(rate, Mapping):
        terms.append([_steps(rate)])
    elif isinstance(rate, list) and rate and not any(isinstance(each, list) for each in rate):
        for each in rate:
            _add(each, terms, points)
    elif isinstance(rate, str):
        for term in split_outside(rate, "+") or [""]:
            factors = [_factor(text, rate) for text in split_outside(term, "*") or [""]]
            if len(factors) == 1 and factors[0].point is not None:
                points.append(factors[0].point)
                continue
            if any(factor.point is not None for factor in factors):
                raise DistributionError(
                    f"rate: {quoted(term)} multiplies instants: add every(...) and burst(...) instead"
                )
            if sum(factor.is_rate for factor in factors) != 1:
                raise DistributionError(
                    f"rate: {quoted(term)} needs one rate and only one: write for example 30/min * daily(8:1, 22:0) * "
                    "weekly(mon-fri:1, sat:3)"
                )
            terms.append([factor.cycle for factor in factors])
    else:
        raise DistributionError(f"rate: {quoted(rate, 60)} has no unit of time: write for example {_FORMS}")


def _factor(text: str, whole: str) -> _Factor:
    if _NUMBER.fullmatch(text):
        return _Factor(False, ["cycle", DAY_MS, [0], [_bounded(float(text), text)]])
    call = _CALL.fullmatch(text)
    if call is None:
        return _Factor(True, ["cycle", DAY_MS, [0], [1 / _gap_ms(text)]])
    parts = split_outside(call[2], ",")
    if call[1] in ("every", "burst") and (point := _point(call[1], parts)) is not None:
        return _Factor(False, [], point)
    is_rate = bool(parts) and _RATE.fullmatch(parts[0]) is not None
    weights = parts[1:] if is_rate else parts
    if call[1] not in ("daily", "weekly") or not weights:
        raise _unreadable(whole)
    gap_ms = _gap_ms(parts[0]) if is_rate else 1.0
    if call[1] == "daily":
        return _Factor(is_rate, _cycle(_hours(weights), DAY_MS, gap_ms))
    return _Factor(is_rate, _cycle(_weekdays(weights), WEEK_MS, gap_ms))


def _point(kind: str, parts: list[str]) -> list[int] | None:
    if kind == "every" and len(parts) == 1:
        return [1, _span_ms(parts[0])]
    if kind == "burst" and len(parts) == 2 and re.fullmatch("[1-9][0-9]{0,14}", parts[0]):
        return [int(parts[0]), _span_ms(parts[1])]
    return None


def _steps(rates: Mapping[str, Any]) -> list[Any]:
    instants = []
    for text in rates:
        try:
            instants.append(parse_iso(text))
        except (AttributeError, TypeError, ValueError) as error:
            raise DistributionError(f"rate: {error}") from None
    if instants != sorted(set(instants)):
        raise DistributionError("rate: the instants are not in ascending order: sort them, each once")
    values = [per_minute(value) / _MINUTE_MS for value in rates.values()]
    if not any(values):
        raise DistributionError(f"rate: {quoted(dict(rates), 80)} is 0 at every time, so no customer would arrive")
    return ["steps", instants, values]


def _gap_ms(text: str) -> float:
    found = _RATE.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise _unreadable(text)
    unit = _UNITS.get(found[2], found[2])
    gap_ms = _span_ms(unit if unit[:1].isdigit() else f"1{unit}") / float(found[1])
    if not _LEAST_GAP_MS <= gap_ms <= MAX_SPAN_MS:
        raise DistributionError(f"rate: {quoted(text, 60)} is out of bounds: give one in 1000 years to 1000000/ms")
    return gap_ms


def _unreadable(text: str) -> DistributionError:
    return DistributionError(f"rate: {quoted(text, 80)} cannot be read: write one of {_FORMS}")


def _bounded(number: float, text: str) -> float:
    if not 0 < number <= 1e6:
        raise DistributionError(f"rate: {text:.60} is out of bounds for a factor: give more than 0, at most 1000000")
    return number


def _span_ms(text: str) -> int:
    try:
        return span_from("rate", text, least_ms=1)
    except (TypeError, ValueError) as error:
        raise DistributionError(f"rate: {error}") from None


def _weighted(parts: list[str], starts: Callable[[str], list[int]], example: str) -> dict[int, float]:
    weights: dict[int, float] = {}
    for part in parts:
        when, _, weight = part.partition(":")
        try:
            weights |= dict.fromkeys(starts(when.strip()), float(weight))
        except DistributionError:
            raise
        except ValueError:
            raise DistributionError(f"rate: {quoted(part)} is not {example}") from None
    if not all(0 <= each < 1e9 for each in weights.values()):
        raise DistributionError("rate: weights are 0 or more")
    return weights


def _hours(parts: list[str]) -> dict[int, float]:
    def starts(when: str) -> list[int]:
        return [_hour_ms(when)]

    return _weighted(parts, starts, "an hour with a weight: write for example 12:3")


def _weekdays(parts: list[str]) -> dict[int, float]:
    def starts(when: str) -> list[int]:
        found = _WEEKDAYS.fullmatch(when.lower())
        if found is None:
            raise ArgumentError(when)
        first, last = _DAYS.index(found[1]), _DAYS.index(found[2] or found[1])
        hour_ms = _hour_ms(found[3]) if found[3] else 0
        return [(first + day) % 7 * DAY_MS + hour_ms for day in range((last - first) % 7 + 1)]

    return _weighted(parts, starts, "a weekday with a weight: write for example sat:3, mon-fri:1 or mon-fri 8:1")


def _hour_ms(text: str) -> int:
    hour = int(text)
    if not 0 <= hour <= 23:
        raise DistributionError("rate: hours are 0 to 23, their weights 0 or more")
    return hour * _HOUR_MS


def _cycle(weights: dict[int, float], period_ms: int, gap_ms: float) -> list[Any]:
    """A cycle with the mean `1 / gap_ms`, from the weights by the time in the period from which each holds."""
    times = sorted(weights)
    # The weight of the last time also holds before the first one: periods follow each other.
    steps = ([] if times[0] == 0 else [(0, weights[times[-1]])]) + [(time, weights[time]) for time in times]
    ends = [start for start, _ in steps[1:]] + [period_ms]
    total = sum(weight * (end - start) for (start, weight), end in zip(steps, ends, strict=True))
    if total < 1e-9 * period_ms:
        raise DistributionError("rate: the weights are 0 on average, so no customer would arrive: give larger ones")
    scale = period_ms / total / gap_ms
    return ["cycle", period_ms, [start for start, _ in steps], [weight * scale for _, weight in steps]]
