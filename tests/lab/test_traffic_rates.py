"""Rates of arrival: weekly cycles, sums, products, bursts with a rate, mappings and functions."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.errors import DistributionError
from leyden.lab.rates import arrival_process, per_minute
from leyden.rng import RandomStream
from leyden.world.traffic.arrivals import DAY_MS, WEEK_MS, at_work, next_arrival, pieces
from tests.support.bounded_calls import bounded_calls
from tests.support.deep import deep, deep_except

SATURDAY = 1_893_801_600_000


def test_the_days_of_these_tests_are_what_their_names_say() -> None:
    assert datetime.fromtimestamp(SATURDAY / 1_000, UTC) == datetime(2030, 1, 5, tzinfo=UTC)
    assert datetime(2030, 1, 5, tzinfo=UTC).weekday() == 5


def arrivals_of(rate: Any, until_ms: float, origin: float = float(SATURDAY), key: bytes = b"key") -> list[float]:
    """The instants of arrivals before `until_ms`."""
    process, stream, at, together, found = arrival_process(rate), RandomStream("test", key), origin, 0, list[float]()
    while True:
        at, together = next_arrival(process, stream, at, len(found), origin=origin, together=together)
        if at >= until_ms:
            return found
        found.append(at)


def mean_by_weekday(rate: str, weeks: int = 20) -> list[float]:
    """Customers per minute by weekday, Monday first."""
    counts = Counter(int((at + 3 * DAY_MS) % WEEK_MS // DAY_MS) for at in arrivals_of(rate, SATURDAY + weeks * WEEK_MS))
    return [counts[day] / weeks / 1_440 for day in range(7)]


@deep("test_a_product_has_the_hours_of_the_one_and_the_days_of_the_other")
def test_a_weekly_cycle_follows_its_weights_and_keeps_its_average() -> None:
    days = mean_by_weekday("weekly(2/min, mon-fri:1, sat:3, sun:0)")
    assert np.mean(days) == pytest.approx(2, rel=0.02)
    assert days[6] == 0
    assert days[5] / np.mean(days[:5]) == pytest.approx(3, rel=0.05)


def test_a_weekly_cycle_has_hours_and_each_weight_holds_until_the_next() -> None:
    terms = arrival_process("weekly(1/h, mon 8:1, fri 17:0)")[1]
    days = list(pieces(terms, SATURDAY, SATURDAY + WEEK_MS))
    assert [(datetime.fromtimestamp(since / 1_000, UTC).strftime("%a %H"), rate > 0) for since, _, rate in days] == [
        ("Sat 00", False), ("Mon 00", False), ("Mon 08", True), ("Fri 17", False),
    ]  # fmt: skip
    assert sum(rate * (until - since) for since, until, rate in days) == pytest.approx(7 * 24)


def test_a_product_has_the_hours_of_the_one_and_the_days_of_the_other() -> None:
    found = arrivals_of("2/min * daily(8:1, 20:0) * weekly(mon-fri:1, sat:0)", SATURDAY + 4 * WEEK_MS)
    times = [datetime.fromtimestamp(at / 1_000, UTC) for at in found]
    assert {at.weekday() for at in times} == {0, 1, 2, 3, 4}
    assert {at.hour for at in times} == set(range(8, 20))
    assert len(found) / 4 == pytest.approx(2 * 7 * 1_440, rel=0.02)


def test_a_sum_adds_and_a_number_multiplies() -> None:
    both = arrivals_of("1/min + 2 * daily(1/min, 12:1, 13:0)", SATURDAY + 7 * DAY_MS)
    at_noon = [at for at in both if at % DAY_MS // 3_600_000 == 12]
    assert len(both) / 7 == pytest.approx(3 * 1_440, rel=0.03)
    assert len(at_noon) / 7 == pytest.approx(60 + 2 * 1_440, rel=0.03)
    assert arrival_process(["1/min", "2 * daily(1/min, 12:1, 13:0)"]) == arrival_process(
        "1/min + 2 * daily(1/min, 12:1, 13:0)"
    )


def test_bursts_come_besides_a_rate() -> None:
    found = arrivals_of("1/min + burst(20, 10m) + every(1h)", SATURDAY + DAY_MS)
    at = Counter(found)
    bursts = {instant: number for instant, number in at.items() if number > 1}
    assert sorted(bursts) == [SATURDAY + 600_000 * number for number in range(1, 144)]
    assert {number for instant, number in bursts.items() if (instant - SATURDAY) % 3_600_000} == {20}
    assert {number for instant, number in bursts.items() if not (instant - SATURDAY) % 3_600_000} == {21}
    assert len(found) - sum(bursts.values()) == pytest.approx(1_440, abs=120)


def test_a_mapping_has_the_rate_from_each_instant_on() -> None:
    text = {"2030-01-05T01:00Z": 10, "2030-01-05T02:00Z": "0/min", "2030-01-05T03:00Z": "60/h"}
    hours = Counter(int((at - SATURDAY) // 3_600_000) for at in arrivals_of(text, SATURDAY + 6 * 3_600_000))
    assert set(hours) == {1, 3, 4, 5}
    assert hours[1] == pytest.approx(600, abs=75)
    assert sum(hours[hour] for hour in (3, 4, 5)) == pytest.approx(180, abs=45)


# What becomes of the arguments


def came(sandbox: Sandbox) -> list[int]:
    return [entry.at_ms for entry in sandbox.world.journal.entries(kind="customer_arrived")]


def test_a_function_of_the_time_is_the_mapping_of_its_steps() -> None:
    def rate(at: datetime) -> float:
        assert at.tzinfo is UTC
        assert at.second == at.microsecond == 0
        return 4 if 1 <= at.hour < 2 else 0.5

    def stream(given: Any) -> Sandbox:
        sandbox = Sandbox(seed=3)
        sandbox.traffic(given, duration="4h", payers=3)
        sandbox.run()
        return sandbox

    steps = {"2030-01-01T00:00:00Z": 0.5, "2030-01-01T01:00:00Z": 4, "2030-01-01T02:00:00Z": 0.5}
    function, mapping = stream(rate), stream(steps)
    series = stream(pd.Series(list(steps.values()), index=pd.to_datetime(list(steps), utc=True)))
    assert function.journal_hash == mapping.journal_hash == series.journal_hash
    assert len(came(function)) == pytest.approx(330, abs=60)


@pytest.mark.parametrize(("duration", "calls"), [("2h", 120), ("30d", 8_640), (timedelta(days=3_650), 3_650)])
def test_a_function_of_the_time_is_read_a_bounded_number_of_times(duration: Any, calls: int) -> None:
    read = []
    Sandbox(seed=1).traffic(lambda at: read.append(at) or 1.0, duration=duration)  # type: ignore[func-returns-value]
    assert len(read) == calls


@pytest.mark.parametrize("shift", deep_except([0, 1, 86_399_999], 1))
def test_arrivals_of_a_stream_do_not_depend_on_how_time_moves(shift: int) -> None:
    def instants(*moves: str) -> list[int]:
        sandbox = Sandbox(seed=9)
        sandbox.advance(shift / 1_000)
        sandbox.traffic("weekly(20/h, mon:1, tue 12:4) + burst(3, 7h)", duration="2d", payers=2)
        for move in moves:
            sandbox.advance(move)
        sandbox.run()
        return came(sandbox)

    assert instants() == instants("1h", "1ms", "30h")


FACTORS = st.sampled_from(["3/min", "daily(2/min, 8:1, 12:3, 22:0)", "weekly(5/h, mon-fri 9:2, sat:1, sun:0)"])
TERMS = st.sampled_from(["daily(7:1, 19:0.2)", "weekly(tue-thu:3, fri:1)", "0.5", "2"])
RATES = st.lists(
    st.builds(lambda rate, more: " * ".join([rate, *more]), FACTORS, st.lists(TERMS, max_size=2)),
    min_size=1,
    max_size=3,
)


@given(rate=RATES, key=st.binary(min_size=1, max_size=8), start=st.integers(0, 4 * 10**12))
def test_an_arrival_takes_one_draw_and_follows_the_one_before(rate: list[str], key: bytes, start: int) -> None:
    stream, at = RandomStream("test", key), float(start)
    process = arrival_process([*rate, "burst(2, 3h)"])
    for number in range(5):
        after, _ = next_arrival(process, stream, at, number, origin=float(start), together=0)
        assert after >= at
        assert stream.position == number + 1
        at = after


@given(rate=RATES, work=st.floats(0.001, 5_000), start=st.integers(0, 4 * 10**12))
def test_the_rate_integrated_until_an_arrival_is_the_drawn_work(rate: list[str], work: float, start: int) -> None:
    terms = arrival_process(" + ".join([*rate, "1/d"]))[1]
    at = at_work(terms, work, float(start))
    done = sum(piece * (until - since) for since, until, piece in pieces(terms, float(start), at))
    assert done == pytest.approx(work, rel=1e-6, abs=1e-6)


def test_a_rate_of_one_customer_in_centuries_costs_a_few_calls() -> None:
    process = ["mixed", [[["cycle", WEEK_MS, [0, DAY_MS], [0.0, 1e-16]]]], []]
    with bounded_calls(300):
        assert next_arrival(process, RandomStream("rare", b"seed"), 0.0, 0)[0] > 1e14


@pytest.mark.parametrize("text", ["30/min", "every(2s)", "burst(20, 10m)", "daily(30/min, 8:1, 12:3, 22:0)"])
def test_a_process_alone_keeps_its_stored_form(text: str) -> None:
    assert arrival_process(text)[0] in ("poisson", "every", "burst", "daily")


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        ("weekly(30/min)", "cannot be read"),
        ("weekly(30/min, noon:1)", "write for example sat:3, mon-fri:1 or mon-fri 8:1"),
        ("weekly(30/min, mon 24:1)", "hours are 0 to 23"),
        ("weekly(30/min, mon:-1)", "0 or more"),
        ("weekly(30/min, mon:0)", "no customer would arrive"),
        ("daily(8:1, 22:0)", "needs one rate and only one"),
        ("30/min * 20/min", "needs one rate and only one"),
        ("30/min * burst(2, 1h)", "add every(...) and burst(...) instead"),
        ("30/min +", "cannot be read"),
        ("0 * 30/min", "more than 0"),
        ("daily(1/min, 8:1, 9:0) * daily(10:1, 11:0)", "0 at every time"),
        ({}, "0 at every time"),
        ([], "has no unit of time"),
        ({"monday": 3}, "monday"),
        ({"2030-01-05T02:00Z": 1, "2030-01-05T01:00Z": 2}, "ascending"),
        ({"2030-01-05T02:00Z": -1}, "customers per minute"),
        ({"2030-01-05T02:00Z": 0}, "0 at every time"),
        ([["1/min"]], "has no unit of time"),
        (["1/min"] * 21, "more than 20"),
    ],
)
def test_an_invalid_rate_is_refused_with_the_mend(rate: Any, words: str) -> None:
    with pytest.raises(DistributionError) as refused:
        arrival_process(rate)
    assert words in str(refused.value)


def test_invalid_functions_of_the_time_are_refused() -> None:
    sandbox = Sandbox(seed=1)
    with pytest.raises(DistributionError, match=r"rate: the function <lambda> raised ZeroDivisionError"):
        sandbox.traffic(lambda at: 1 / 0)
    with pytest.raises(DistributionError, match="rate: None is no number of customers per minute"):
        sandbox.traffic(lambda at: None)
    with pytest.raises(DistributionError, match="needs an end: give duration="):
        sandbox.traffic(lambda at: 1, duration=None, count=5)
    with pytest.raises(DistributionError, match="has no time zone"):
        sandbox.traffic({datetime(2030, 1, 1): 3})  # noqa: DTZ001
    assert len(sandbox.action_log) == 0
    assert len(sandbox.journal) == len(Sandbox(seed=1).journal)


@pytest.mark.parametrize(("value", "rate"), [(3, 3.0), ("90/h", 1.5), ("0/min", 0.0), (np.float64(2), 2.0)])
def test_customers_per_minute_are_a_number_or_a_text(value: Any, rate: float) -> None:
    assert per_minute(value) == pytest.approx(rate)
