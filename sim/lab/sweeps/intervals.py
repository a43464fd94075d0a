"""Confidence intervals: Student's of a mean, with the number of replications for a given width, and Wilson's of a share
of independent events."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, nan, sqrt
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple

from leyden.errors import ArgumentError
from leyden.server.printable import quoted

_MOST = 10**9


class Interval(NamedTuple):
    """A mean with its confidence interval from `low` to `high`, of `size` values with the standard deviation `std`.
    With fewer than two values there is no interval, and the missing numbers are NaN."""

    mean: float
    low: float
    high: float
    std: float
    size: int

    @property
    def width(self) -> float:
        """From `low` to `high`; infinite where there is no interval."""
        return self.high - self.low if self.size > 1 else inf


def checked_confidence(confidence: object) -> float:
    """The confidence level, between 0 and 1. Raises `ValueError`."""
    if isinstance(confidence, (int, float)) and not isinstance(confidence, bool) and 0 < confidence < 1:
        return float(confidence)
    raise ArgumentError(f"confidence={quoted(confidence)}: give a number between 0 and 1, such as 0.95")


def interval(values: Sequence[float], confidence: float) -> Interval:
    """The mean of independent values and its confidence interval, by Student's t with one degree of freedom less than
    there are values: mean ± t s / √n."""
    count = len(values)
    if count == 0:
        return Interval(nan, nan, nan, nan, 0)
    mean = fmean(values)
    if count == 1:
        return Interval(mean, nan, nan, nan, 1)
    std = stdev(values)
    half = _quantile(confidence, count) * std / sqrt(count)
    return Interval(mean, mean - half, mean + half, std, count)


def within(found: Interval, least: float, most: float) -> Interval:
    """The interval without what lies outside of the bounds of the quantity, for example above 1 for a share."""
    return found if found.size < 2 else found._replace(low=max(found.low, least), high=min(found.high, most))


def share_interval(successes: int, count: int, confidence: float) -> Interval:
    """The share of successes among `count` independent events and its confidence interval, by Wilson's score: unlike
    Student's it stays between 0 and 1, and its width is not 0 when all events are equal."""
    if count == 0:
        return Interval(nan, nan, nan, nan, 0)
    share, z2 = successes / count, _normal_quantile(confidence) ** 2
    middle = (successes + z2 / 2) / (count + z2)
    half = sqrt(z2 * (share * (1 - share) + z2 / (4 * count)) / count) / (1 + z2 / count)
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half), sqrt(share * (1 - share)), count)


def count_for_width(std: float, width: float, confidence: float) -> int | None:
    """The least number of values with this standard deviation whose interval is at most `width` from end to end. None
    without a standard deviation, and above a milliard."""

    def fits(count: int) -> bool:
        return 2 * _quantile(confidence, count) * std / sqrt(count) <= width

    if not isfinite(std) or not fits(_MOST):
        return None
    low, high = 1, 2
    while not fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _quantile(confidence: float, count: int) -> float:
    """The factor t of an interval of this number of values."""
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    return float(stdtrit(count - 1, (1 + confidence) / 2))


def _normal_quantile(confidence: float) -> float:
    """The factor z of an interval of a normal distribution."""
    return NormalDist().inv_cdf((1 + confidence) / 2)
