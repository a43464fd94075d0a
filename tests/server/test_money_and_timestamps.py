"""Amounts, timestamps, durations, and strict JSON."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.server.errors import InvalidAmount, InvalidRequest
from leyden.server.http.strict_json import parse
from leyden.server.money import parse_msat, to_wire
from leyden.server.timestamps import MAX_INSTANT_MS, parse_duration, parse_iso, to_iso

INSTANTS = st.integers(0, MAX_INSTANT_MS)


@given(st.integers(1, 10**18 - 1))
def test_an_amount_is_parsed_as_it_was_formatted(amount: int) -> None:
    assert parse_msat(to_wire(amount)) == amount


@pytest.mark.parametrize("text", ["", "01", "1e3", "-1", "+1", " 1", "1 ", "1\n", "1.0", "١", "1_0", "00"])
def test_an_invalid_amount_text(text: str) -> None:
    with pytest.raises(InvalidAmount, match="not an amount"):
        parse_msat(text)


@pytest.mark.parametrize(("text", "said"), [("0", "0"), ("9" * 19, "9" * 19), ("1" * 5_000, "of 5000 digits")])
def test_digits_that_mean_too_little_or_too_much_are_out_of_range(text: str, said: str) -> None:
    with pytest.raises(InvalidAmount) as caught:
        parse_msat(text)
    assert str(caught.value) == f"amount {said} is out of range: give 1 to 999999999999999999 millisatoshis"


@pytest.mark.parametrize("value", [1, 10**18])
def test_a_whole_number_is_taken_as_it_is(value: int) -> None:
    assert parse_msat(value) == value


@pytest.mark.parametrize("value", [0, -1, True, False])
def test_an_invalid_amount_number(value: int) -> None:
    with pytest.raises(InvalidAmount):
        parse_msat(value)


@given(INSTANTS)
def test_an_instant_is_parsed_as_it_was_formatted_and_agrees_with_datetime(instant: int) -> None:
    text = to_iso(instant)
    assert parse_iso(text) == instant
    assert datetime.fromisoformat(text) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=instant)


@given(INSTANTS, INSTANTS)
def test_texts_sort_as_instants_do(one: int, other: int) -> None:
    assert (to_iso(one) < to_iso(other)) == (one < other)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2030-01-01T10:00:00+01:00", "2030-01-01T09:00:00.000Z"),
        ("2030-01-01T09:00Z", "2030-01-01T09:00:00.000Z"),
        ("2030-01-01t09:00:00.1239z", "2030-01-01T09:00:00.123Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000Z"),
    ],
)
def test_other_spellings_of_an_instant(text: str, same: str) -> None:
    assert to_iso(parse_iso(text)) == same


@pytest.mark.parametrize("text", ["", "soon", "2030-01-01T09:00:00", "2030-02-30T00:00:00Z", "1969-12-31T23:59:59Z"])
def test_an_invalid_instant(text: str) -> None:
    with pytest.raises(ValueError, match=r"for example 2030-01-01T09:00:00Z|outside the years"):
        parse_iso(text)


@pytest.mark.parametrize(
    ("span", "milliseconds"),
    [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("-1s", -1_000),
        ("+250ms", 250),
        ("1.5s", 1_500),
        (" 1d ", 86_400_000),
        ("2w", 1_209_600_000),
        (0.25, 250),
        (7, 7_000),
        (timedelta(minutes=1), 60_000),
        ("0.5ms0.5ms", 1),
        (0.001, 1),
        ("1.6ms", 2),
        (timedelta(microseconds=1_600), 2),
        (timedelta(microseconds=-1_600), -2),
        ("0.000s", 0),
    ],
)
def test_durations(span: Any, milliseconds: int) -> None:
    assert parse_duration(span) == milliseconds


@pytest.mark.parametrize("span", ["9" * 400 + "s", "-" + "9" * 400 + "w", "2932897d", 1e308, 10**400, timedelta.max])
def test_a_duration_is_not_longer_than_the_calendar(span: Any) -> None:
    with pytest.raises(ValueError, match="a duration is at most 2932896d"):
        parse_duration(span)


@pytest.mark.parametrize(
    "span", ["0.6ms", 0.0006, "-0.6ms", 0.0005, f"0.{'0' * 400}1ms", timedelta(microseconds=600), -timedelta.resolution]
)
def test_a_duration_is_0_or_at_least_a_millisecond(span: Any) -> None:
    with pytest.raises(ValueError, match="is shorter than a millisecond, the unit of time: give at least '1ms'"):
        parse_duration(span)


@pytest.mark.parametrize("span", ["", "5", "s", "5 m", "5x", "--1s", "1s!", float("nan"), float("inf"), True])
def test_an_invalid_duration(span: Any) -> None:
    with pytest.raises(ValueError):
        parse_duration(span)


WHOLE = st.text(st.characters(codec="utf-8"), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WHOLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WHOLE, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.booleans())
def test_what_json_writes_is_read_back_exactly(value: Any, ascii_only: bool) -> None:
    assert parse(json.dumps(value, ensure_ascii=ascii_only).encode(), depth_limit=64) == value


@given(st.binary(max_size=60))
def test_bytes_are_json_or_refused_and_nothing_else(body: bytes) -> None:
    with contextlib.suppress(InvalidRequest):
        assert parse(body, depth_limit=8) == json.loads(body)


@pytest.mark.parametrize("depth", [7, 8, 9])
def test_the_depth_is_counted_to_the_bracket(depth: int) -> None:
    body = b'{"a":' * depth + b'"]]]}{{{"' + b"}" * depth
    if depth <= 8:
        assert parse(body, depth_limit=8)
    else:
        with pytest.raises(InvalidRequest, match="deeper"):
            parse(body, depth_limit=8)
