"""Bar charts of figures."""

from __future__ import annotations

from xml.etree import ElementTree

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden.lab.drawings import DrawingError, bars

SVG = "{http://www.w3.org/2000/svg}"
figures = st.floats(0, 1e15) | st.just(float("nan"))


def lengths(svg: str) -> list[float]:
    root = ElementTree.fromstring(svg)
    return [float(rect.get("width", "")) for rect in root.iter(f"{SVG}rect")]


def test_a_bar_is_as_long_as_its_figure() -> None:
    drawn = bars(pd.DataFrame({"paid": [0.25, 0.5, 1.0]}, index=["a", "b", "c"]), title="Paid", percent=True)
    short, middle, long = lengths(drawn.svg)
    assert (2 * short, 2 * middle) == (middle, long)
    assert "25 %" in drawn.svg
    assert drawn.text.splitlines()[1].split()[:3] == ["a", "paid", "25"]
    assert drawn.mermaid is None


def test_shares_are_relative_to_one() -> None:
    half = bars(pd.DataFrame({"paid": [0.5]}), title="Paid", percent=True)
    most = bars(pd.DataFrame({"paid": [0.5]}), title="Paid")
    assert 2 * lengths(half.svg)[0] == lengths(most.svg)[0]


def test_every_series_has_its_colour_and_its_name() -> None:
    drawn = bars(pd.DataFrame({"one": [1.0], "two": [2.0]}, index=["x"]), title="Both")
    fills = {rect.get("fill") for rect in ElementTree.fromstring(drawn.svg).iter(f"{SVG}rect")}
    assert len(fills) == 2
    assert ">one<" in drawn.svg
    assert ">two<" in drawn.svg


def test_low_and_high_are_a_line_over_the_bar() -> None:
    table = pd.DataFrame({"paid": [0.5]})
    plain = bars(table, title="Paid", percent=True)
    ranged = bars(table, title="Paid", percent=True, low=table - 0.1, high=table + 0.1)
    assert ranged.svg.count("<line") == plain.svg.count("<line") + 3
    assert bars(table, title="Paid", low=table * float("nan"), high=table).svg.count("<line") == 1


@given(st.lists(st.tuples(figures, figures), min_size=1, max_size=12), st.booleans())
def test_any_figures_stay_inside_the_drawing(rows: list[tuple[float, float]], percent: bool) -> None:
    drawn = bars(pd.DataFrame(rows, columns=["a", "b"]), title="<Any & all>", percent=percent)
    root = ElementTree.fromstring(drawn.svg)
    wide = float(root.get("width", ""))
    for rect in root.iter(f"{SVG}rect"):
        assert float(rect.get("x", "")) + float(rect.get("width", "")) <= wide
    assert all(len(line) < 200 for line in drawn.text.splitlines())


def test_whole_numbers_with_gaps_are_drawn_too() -> None:
    assert " - " in f"{bars(pd.DataFrame({'n': pd.array([1, None], dtype='Int64')}), title='n').text} "


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pd.DataFrame(), "no chart"),
        (pd.DataFrame([[1.0] * 6]), "no chart"),
        (pd.DataFrame({"a": [1.0] * 41}), "no chart"),
        (pd.DataFrame({"a": ["x"]}), "no number"),
        (pd.DataFrame({"a": [-1.0]}), "below 0"),
        (pd.DataFrame({"a": [float("inf")]}), "without end"),
    ],
)
def test_an_invalid_table_is_refused(table: pd.DataFrame, words: str) -> None:
    with pytest.raises(DrawingError, match=words):
        bars(table, title="No")


def test_a_range_of_another_shape_is_refused() -> None:
    table = pd.DataFrame({"a": [1.0]})
    with pytest.raises(DrawingError, match="same shape"):
        bars(table, title="No", low=pd.DataFrame({"a": [1.0, 2.0]}), high=table)
