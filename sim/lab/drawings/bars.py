"""Bar charts of small tables of figures."""

from __future__ import annotations

from math import isfinite, isnan
from typing import TYPE_CHECKING, NamedTuple

from leyden.arguments import checked_text
from leyden.errors import DrawingError
from leyden.lab.drawings.drawing import Drawing
from leyden.lab.drawings.svg import BAD, GOOD, MARGIN, OPEN, OTHER, WAIT, line, rect, svg_root, text_at
from leyden.lab.drawings.text_metrics import clean
from leyden.server.html import Html

if TYPE_CHECKING:
    import pandas as pd

_TONES = (OPEN, OTHER, WAIT, GOOD, BAD)
_MOST_ROWS = 40
_NAMES, _LENGTH, _FIGURES = 150, 440, 92
_BAR, _GAP = 15.0, 11.0
_BLOCKS = 30

Figures = list[list[float]]


class _Bar(NamedTuple):
    """One bar: its length, and from where to where its figure may lie, as shares of the longest bar."""

    length: float
    ends: tuple[float, ...]
    written: str


Groups = list[tuple[str, list[_Bar]]]


def bars(
    table: pd.DataFrame,
    *,
    title: str,
    percent: bool = False,
    low: pd.DataFrame | None = None,
    high: pd.DataFrame | None = None,
) -> Drawing:
    """A table of figures of 0 or more as bars: a group for each row, a bar for each column (at most 5).

    With `percent` a figure of 1 is written 100 % and is the longest bar there can be. `low` and `high` are tables of
    the same shape, and draw from where to where each figure may lie. A figure that is NaN has no bar.
    Raises `DrawingError` for a table that cannot be drawn.
    """
    checked_text("title", title)
    for name, frame in (("table", table), ("low", low), ("high", high)):
        if not (frame is None and name != "table") and not hasattr(frame, "columns"):
            raise DrawingError(f"{name}={frame!r:.60} is no table: give a DataFrame")
    rows, columns = [str(row) for row in table.index], [str(column) for column in table.columns]
    if not rows or not 1 <= len(columns) <= len(_TONES) or len(rows) > _MOST_ROWS:
        raise DrawingError(
            f"{len(rows)} rows of {len(columns)} figures are no chart: give up to {_MOST_ROWS} of up to {len(_TONES)}"
        )
    figures = _figures(table, "the table")
    ends = [_figures(frame, name) for name, frame in (("low", low), ("high", high)) if frame is not None]
    if any([len(row) for row in end] != [len(row) for row in figures] for end in ends):
        raise DrawingError("low and high have a figure for each of the table's: give tables of the same shape")
    largest = max((each for part in (figures, *ends) for row in part for each in row if isfinite(each)), default=0.0)
    whole = 1.0 if percent and largest <= 1 else largest or 1.0
    groups: Groups = [(row, []) for row in rows]
    for number, (_, group) in enumerate(groups):
        for place, figure in enumerate(figures[number]):
            span = tuple(end[number][place] / whole for end in ends)
            shown = span if len(span) == 2 and not any(map(isnan, span)) else ()
            length = 0.0 if isnan(figure) else figure / whole
            group.append(_Bar(length, shown, _formatted(figure, percent, largest)))
    return Drawing(_svg(title, columns, groups), None, _text(title, columns, groups))


def _figures(table: pd.DataFrame, name: str) -> Figures:
    try:
        figures = [[float(each) for each in row] for row in table.to_numpy(dtype="float64", na_value=float("nan"))]
    except (TypeError, ValueError):
        raise DrawingError(f"{name} holds something that is no number: choose the columns to draw") from None
    if any(each < 0 or (not isfinite(each) and not isnan(each)) for row in figures for each in row):
        raise DrawingError(f"{name} holds a figure below 0 or without end, which a bar cannot show")
    return figures


def _formatted(figure: float, percent: bool, largest: float) -> str:
    if isnan(figure):
        return "-"
    if percent:
        return f"{100 * figure:.0f} %"
    return f"{figure:,.0f}" if largest >= 100 else f"{figure:,.2f}"


def _svg(title: str, columns: list[str], groups: Groups) -> Html:
    width, left = MARGIN * 2 + _NAMES + _LENGTH + _FIGURES, float(MARGIN + _NAMES)
    drawn = [text_at(MARGIN, 30, title, width - 2 * MARGIN, bold=True, size=16)]
    top = 50.0
    if len(columns) > 1:
        step = (width - 2 * MARGIN) / len(columns)
        for place, column in enumerate(columns):
            x = MARGIN + place * step
            drawn.append(_rect(x, top - 3, 12, place))
            drawn.append(text_at(x + 18, top + 8, column, step - 24, size=12))
        top += 28
    y = top
    for row, group in groups:
        drawn.append(text_at(left - 10, y + _BAR * len(group) / 2 + 4, row, _NAMES - 12, bold=True, anchor="end"))
        for place, bar in enumerate(group):
            drawn.append(_rect(left, y, bar.length * _LENGTH, place))
            xs, middle = [left + end * _LENGTH for end in bar.ends], y + (_BAR - 3) / 2
            if xs:
                drawn.append(line(xs[0], middle, xs[1], middle, width=1.4))
            drawn += [line(x, middle - 3, x, middle + 3, width=1.4) for x in xs]
            edge = max([left + bar.length * _LENGTH, *xs[1:]])
            drawn.append(text_at(edge + 7, y + 10.5, bar.written, _FIGURES - 12, size=11.5))
            y += _BAR
        y += _GAP
    drawn.append(line(left, top - 4, left, y - _GAP + 1, stroke_opacity=".5"))
    return svg_root(width, y + 4, f"{title}: {len(groups)} rows of bars", *drawn)


def _rect(x: float, y: float, long: float, column: int) -> Html:
    return rect(x, y, long, _BAR - 3, 2, _TONES[column], ".8")


def _text(title: str, columns: list[str], groups: Groups) -> str:
    wide, across = max(len(clean(name)) for name, _ in groups), max(map(len, columns))
    lines = [clean(title)]
    for row, group in groups:
        for place, (column, bar) in enumerate(zip(columns, group, strict=True)):
            name = f"{clean(row) if place == 0 else '':>{wide}}  {clean(column):<{across}}"
            lines.append(f"  {name}  {bar.written:>7} {'█' * round(bar.length * _BLOCKS)}".rstrip())
    return "\n".join(lines)
