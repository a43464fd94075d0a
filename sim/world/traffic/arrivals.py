"""Arrival processes: when the next customer of a stream comes, for exactly one draw.

["poisson", gap], ["every", gap], ["burst", number, gap]     gaps in ms
["daily", starts, rates]                                     a rate that repeats every day: from ms of the day (UTC)
["mixed", terms, points]                                     a rate that is the sum of terms, and instants besides

A rate is in customers per ms. A term of a mixed process is a product of factors, ["cycle", period, starts, rates] with
the period of a day or a week from Monday 00:00 UTC, or it is one ["steps", starts, rates] from instants on. A point
[number, gap] is that many customers at once, after each gap from the start of the stream.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from math import inf
from typing import Any

from leyden.rng import RandomStream
from leyden.world.time.clock import LAST_MS

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
_MONDAY_MS = 3 * DAY_MS  # 1970-01-01 was a Thursday


def next_arrival(
    arrivals: list[Any], rng: RandomStream, after: float, arrived: int, *, origin: float = 0.0, together: int = 0
) -> tuple[float, int]:
    """The instant (ms, not rounded) of the arrival that follows the one at `after`, and how many points of that instant
    have arrived with it. `arrived` customers came before, `together` of them at `after` as points; the stream began at
    `origin`.
    """
    name = arrivals[0]
    work = rng.exponential(1.0)
    if name == "poisson":
        return after + work * float(arrivals[1]), 0
    if name == "every":
        return after + float(arrivals[1]), 0
    if name == "burst":
        return after + (0.0 if arrived % arrivals[1] else float(arrivals[2])), 0
    if name == "daily":
        return at_work([[["cycle", DAY_MS, arrivals[1], arrivals[2]]]], work, after), 0
    terms, points = arrivals[1], arrivals[2]
    here = sum(number for number, gap in points if after > origin and not (after - origin) % gap)
    if together < here:
        return after, together + 1
    at_rate = at_work(terms, work, after)
    at_point = min((origin + ((after - origin) // gap + 1) * gap for _, gap in points), default=inf)
    return (at_rate, 0) if at_rate < at_point else (at_point, 1)


def at_work(terms: list[Any], work: float, after: float) -> float:
    """The instant at which the integral of the sum of the terms since `after` reaches `work`. If `work` is exponential
    with mean 1, it is the next arrival of a Poisson process with this rate. Infinite if there is none."""
    if not terms:
        return inf
    factors = [factor for term in terms for factor in term]
    last_step = max((factor[1][-1] for factor in factors if factor[0] == "steps"), default=0)
    period = max((factor[1] for factor in factors if factor[0] == "cycle"), default=DAY_MS)
    started = after
    while after <= LAST_MS:
        if after >= last_step and after - started >= period:  # from here on each period is like the next
            whole = sum(rate * (until - since) for since, until, rate in pieces(terms, after, after + period))
            if not whole:
                return inf
            periods, work = divmod(work, whole)
            after += periods * period
            started = inf
        rate, until = _rate_at(terms, after)
        if until == inf:
            return after + work / rate if rate else inf
        done = rate * (until - after)
        if work < done:
            return after + work / rate
        work -= done
        after = until
    return after


def pieces(terms: list[Any], since: float, until: float) -> Iterator[tuple[float, float, float]]:
    """The spans between `since` and `until` in which the sum of the terms is constant: start, end, rate."""
    while since < until:
        rate, end = _rate_at(terms, since)
        end = min(end, until)
        yield since, end, rate
        since = end


def _rate_at(terms: list[Any], at: float) -> tuple[float, float]:
    """The sum of the terms at an instant, and the next instant at which it may change."""
    total, until = 0.0, inf
    for term in terms:
        product = 1.0
        for factor in term:
            if factor[0] == "steps":
                starts, rates, before, end = factor[1], factor[2], 0.0, inf
                place = bisect_right(starts, at) - 1
            else:
                _, period, starts, rates = factor
                before = at - (at + _MONDAY_MS) % period
                end = period
                place = bisect_right(starts, at - before) - 1
            product *= rates[place] if place >= 0 else 0.0
            until = min(until, before + (starts[place + 1] if place + 1 < len(starts) else end))
        total += product
    return total, until
