"""Shared parts of the charts: a figure that shows itself in a notebook, and axes for times, shares and amounts.

No chart uses `pyplot`: there is no list of open figures, no window and no choice of a backend. A new figure has the
background and the text colour of matplotlib's settings (`rcParams`), by default dark on white, so it is readable on
light and dark pages. The series have the colours of the drawings.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from io import BytesIO
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from leyden.errors import ArgumentError
from leyden.lab.drawings.svg import BAD, COLOURS, GOOD, OPEN, OTHER, WAIT
from leyden.lab.drawings.text_metrics import clean
from leyden.server.printable import quoted

SIZE = (7.2, 3.8)  # inches
SERIES = tuple(COLOURS[tone] for tone in (OPEN, WAIT, GOOD, BAD, OTHER))
_NOTE = "leyden-note"
_HOUR_MS = 3_600_000
_SHARP = 2  # pixels of the image for each pixel of the page
_charts: WeakKeyDictionary[Axes, str] = WeakKeyDictionary()  # the name of the chart that each axes have


class ChartFigure(Figure):
    """A figure that shows itself in a notebook."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The image at twice the resolution, and its size in pixels of the page."""
        written = BytesIO()
        self.savefig(written, format="png", dpi=_SHARP * self.dpi, metadata={"Software": None})
        width, height = self.get_size_inches() * self.dpi
        return written.getvalue(), {"width": round(width), "height": round(height)}


class ChartAxes(Axes):
    """Axes that show their figure in a notebook."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]] | None:
        show = getattr(self.get_figure(root=True), "_repr_png_", None)
        found: tuple[bytes, dict[str, int]] | None = None if show is None else show()
        return found


def figure(size: tuple[float, float] = SIZE) -> ChartFigure:
    """A new figure, whose parts do not overlap."""
    return ChartFigure(figsize=size, layout="constrained")


def axes(ax: Axes | None, chart: str = "", *, is_alone: bool = False) -> Axes:
    """These axes, or those of a new figure, which from now on have this chart; with `is_alone` no other sandbox's is
    drawn into them. Raises `TypeError` for what is no axes of matplotlib, `ValueError` for axes with another chart."""
    if ax is None:
        ax = figure().add_subplot(axes_class=ChartAxes)
        ax.set_prop_cycle(color=SERIES)
    if not isinstance(ax, Axes):
        raise ArgumentError(f"ax={quoted(ax, 60)} is no Axes of matplotlib: give one, or leave it out")
    drawn = _charts.get(ax) if ax.has_data() else None
    if drawn == chart and is_alone:
        raise ArgumentError(f"{chart} is of one sandbox only, and ax= has it already: give other axes, or leave it out")
    if drawn and chart and drawn != chart:
        raise ArgumentError(f"ax= has the chart {drawn}: give other axes for {chart}, or leave it out")
    if chart:
        _charts[ax] = chart
    return ax


def instants(times_ms: Sequence[int]) -> Any:
    """Milliseconds since 1970 as matplotlib takes instants: `datetime64` in UTC."""
    return np.array(times_ms, dtype="datetime64[ms]")


def time_axis(ax: Axes, from_ms: int, until_ms: int) -> None:
    """Ticks and label of an x axis of instants. Axes without data show the time from an instant to another, at least
    an hour."""
    locator = AutoDateLocator(tz=UTC, minticks=3, maxticks=7)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    ax.set_xlabel("time (UTC)", loc="left")
    if not ax.has_data():
        ax.set_xlim(*instants([from_ms, max(until_ms, from_ms + _HOUR_MS)]), auto=True)


def share_axis(ax: Axes, label: str) -> None:
    """Ticks, limits and label of a y axis of shares from 0 to 1, written as per cent."""
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    ax.set_ylim(-0.02, 1.05)
    ax.set_ylabel(label)


def amounts(axis: Axis) -> None:
    """Ticks of an axis of satoshis: 2.5k, 1M."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


def short(number: float) -> str:
    """A number with the suffix k, M or G: 2500 is 2.5k."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:g}{suffix}"
    return f"{number:g}"


def finish(ax: Axes, empty: str = "") -> Axes:
    """The axes with light grid lines, with a legend if there is more than one series, and with the sentence `empty` in
    the middle while they have no data."""
    ax.grid(visible=True, axis="y", alpha=0.3)
    ax.set_axisbelow(True)
    for text in [text for text in ax.texts if text.get_gid() == _NOTE]:
        text.remove()
    if not ax.has_data():
        ax.text(0.5, 0.5, empty, transform=ax.transAxes, ha="center", va="center", wrap=True, gid=_NOTE)
    if len(ax.get_legend_handles_labels()[1]) > 1:
        ax.legend()
    return ax


def note_above(ax: Axes, label: str, note: str) -> None:
    """Add a note about what is missing of the sandbox with this label above the axes, below those of the sandboxes that
    were drawn before, unless one of these says the same."""
    title = ax.get_title(loc="right")
    whose = f"{label_text(label)}: " if title or label != "main" else ""
    if note not in title:
        ax.set_title("\n".join(filter(None, [title, whose + note])), loc="right", fontsize="small")


def label_text(text: Any) -> str:
    """A text from outside, escaped for matplotlib: one line, without formulas. Blank for a blank text."""
    return clean(str(text)).replace("$", r"\$").lstrip("_") or " "
