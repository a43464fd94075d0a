"""Charts of a sweep: the mean of a metric over a parameter, with its confidence interval over the replications."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, isnan
from typing import TYPE_CHECKING, Any

from leyden.arguments import with_hints
from leyden.errors import SweepError
from leyden.extras import require
from leyden.lab.sweeps.comparisons import PARAMETERS, estimates
from leyden.server.printable import quoted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ACROSS = 3  # panels in a row
_PANEL = (4.0, 3.2)  # inches
_DECADES = 100  # times the smallest value: from there on equal distances on the axis are equal ratios


@with_hints
def plot_sweep(
    runs: pd.DataFrame,
    metric: str,
    *,
    x: str,
    by: str | None = None,
    facet: str | None = None,
    confidence: float = 0.95,
    shares: Iterable[str] = (),
    ax: Axes | None = None,
) -> Figure:
    """Draw the mean of a metric over the parameter `x`, with its confidence interval, and return matplotlib's `Figure`.

    `by` is a parameter with a line for each of its values, `facet` one with a panel for each. Any column that has one
    value in each scenario is a parameter here, so a readable name may replace a long one. The means and intervals are
    those of `estimates`, which describes `shares`; a scenario with one replication has no interval. `ax` is where to
    draw; it has no panels.
    The figure shows itself in a notebook, and `figure.savefig("sweep.svg")` writes it. The axis of positive numbers of
    which the largest is at least 100 times the smallest is logarithmic.

    Raises `SweepError` for what is no DataFrame of a sweep, for a column that it does not have or that has several
    values in a scenario, and if several scenarios would be one point: then name the other parameter, or select rows.
    Raises `ValueError` for a confidence level that is not between 0 and 1. Needs the extra `lab`.
    """
    require("plot_sweep()", "matplotlib", "lab")
    if not isinstance(metric, str):
        raise SweepError(f"metric={quoted(metric, 60)}: give the name of one metric of the sweep")
    found = estimates(runs, [metric], confidence=confidence, shares=shares)
    named = {"x": x, **{name: value for name, value in (("by", by), ("facet", facet)) if value is not None}}
    columns = {name: _column(runs, name, column) for name, column in named.items()}
    if len(set(named.values())) < len(named):
        given = " and ".join(f"{name}={quoted(value)}" for name, value in named.items())
        raise SweepError(f"{given}: name each column once")
    if ax is not None and facet is not None:
        raise SweepError("ax= is one panel: leave it out, or leave out facet=")
    points = [
        {**{name: values[row["scenario"]] for name, values in columns.items()}, **row}
        for row in found.to_dict("records")
    ]
    _check_points(runs, points, named)
    return _drawn(points, metric, named, columns, confidence, ax)


def _column(runs: pd.DataFrame, name: str, column: Any) -> dict[int, Any]:
    """The value of a column in each scenario. Raises `SweepError`."""
    if not isinstance(column, str) or column not in runs.columns:
        known = ", ".join(map(str, runs.attrs.get(PARAMETERS) or runs.columns))
        raise SweepError(f"{name}={quoted(column, 60)} is no column of the sweep: its parameters are {known}")
    values = {}
    for scenario, rows in runs.groupby("scenario", sort=True)[column]:
        if rows.map(str).nunique() != 1:
            raise SweepError(f"{name}={quoted(column)} has several values in a scenario: give a parameter of the sweep")
        values[int(scenario)] = rows.iloc[0]
    return values


def _check_points(runs: pd.DataFrame, points: list[dict[str, Any]], named: dict[str, str]) -> None:
    """Raise `SweepError` if two scenarios have the same place in the chart."""
    places = {tuple(str(point[name]) for name in named) for point in points}
    if len(places) < len(points):
        varied = [name for name in runs.attrs.get(PARAMETERS, ()) if runs[name].astype(str).nunique() > 1]
        others = ", ".join(name for name in varied if name not in named.values()) or "what they differ by"
        free = [name for name in ("by", "facet") if name not in named]
        give = f"give {'= or '.join(free)}=, or select" if free else "select"
        raise SweepError(f"several scenarios are one point of the chart, they differ by {others}: {give} rows of one")


def _drawn(
    points: list[dict[str, Any]],
    metric: str,
    named: dict[str, str],
    columns: dict[str, dict[int, Any]],
    confidence: float,
    ax: Axes | None,
) -> Figure:
    from leyden.lab.charts.figures import axes, finish, label_text

    panels = _values(columns["facet"]) if "facet" in named else [None]
    drawn = [axes(ax)] if "facet" not in named else _panels(len(panels))
    groups = _values(columns["by"]) if "by" in named else [None]
    described = "" if all(isnan(point["low"]) for point in points) else f"\n(mean, {100 * confidence:g} % interval)"
    for panel, one in zip(panels, drawn, strict=True):
        here = [point for point in points if panel is None or point["facet"] == panel]
        _draw(one, here, _values(columns["x"]), groups)
        finish(one)
        if panel is not None:
            one.set_title(f"{label_text(named['facet'])} = {label_text(panel)}")
        one.set_xlabel(label_text(named["x"]))
        one.set_ylabel(f"{label_text(metric)}{described}")
    found = drawn[0].get_figure(root=True)
    assert found is not None
    if "by" in named and "facet" not in named:
        drawn[0].legend(title=label_text(named["by"]))
    elif "by" in named:
        for one in drawn:
            if (legend := one.get_legend()) is not None:
                legend.remove()
        found.legend(*drawn[0].get_legend_handles_labels(), title=label_text(named["by"]), loc="outside right upper")
    return found


def _panels(count: int) -> list[Axes]:
    """Panels with common axes. Ticks have labels at the left, and where no panel is below."""
    from leyden.lab.charts.figures import SERIES, figure

    across = min(_ACROSS, count)
    down = ceil(count / across)
    made = figure((_PANEL[0] * across, _PANEL[1] * down))
    grid = made.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    every = list(grid.flat)
    for empty in every[count:]:
        empty.remove()
    for number, one in enumerate(every[:count]):
        one.set_prop_cycle(color=SERIES)
        one.tick_params(labelbottom=number + across >= count)
        one.xaxis.label.set_visible(number + across >= count)
        one.yaxis.label.set_visible(number % across == 0)
    return every[:count]


def _draw(ax: Axes, points: list[dict[str, Any]], places: list[Any], groups: list[Any]) -> None:
    from leyden.lab.charts.figures import label_text

    is_number = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in places)
    at = {str(value): value if is_number else number for number, value in enumerate(places)}
    for group in groups:
        here = [point for point in points if group is None or point["by"] == group]
        here.sort(key=lambda point: at[str(point["x"])])
        ax.errorbar(
            [at[str(point["x"])] for point in here],
            [point["mean"] for point in here],
            yerr=[[point["mean"] - point["low"] for point in here], [point["high"] - point["mean"] for point in here]],
            marker="o",
            capsize=3,
            label=None if group is None else label_text(group),
        )
    if not is_number:
        ax.set_xticks(list(at.values()), [label_text(value) for value in at])
    elif min(places) > 0 and max(places) >= _DECADES * min(places):
        ax.set_xscale("log")


def _values(column: dict[int, Any]) -> list[Any]:
    """The values of a column as Python values, in the order in which the scenarios have them."""
    values = [value.item() if hasattr(value, "item") else value for value in column.values()]
    return list({str(value): value for value in values}.values())
