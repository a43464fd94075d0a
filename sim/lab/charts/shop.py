"""Charts of one sandbox: conversion, payment times, callbacks and the success of payments by amount.

Each draws into `ax`, or into axes of its own, and returns the axes. A sandbox without the events that a chart shows has
a chart with axes and a sentence. The series has the sandbox's label, so that a fork can be drawn into the same axes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Sized
from datetime import timedelta
from statistics import median
from typing import Any

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from leyden.arguments import span_from
from leyden.lab.charts.figures import amounts, axes, finish, instants, label_text, note_above, share_axis, time_axis
from leyden.lab.drawings.svg import BAD, COLOURS, GOOD, OPEN, WAIT
from leyden.lab.kpi import Kpi, quantile
from leyden.lab.kpi_rows import Selection, amount_bands
from leyden.lab.sweeps.intervals import Interval, share_interval
from leyden.lab.table_rows import TABLES
from leyden.server.timestamps import span_in_words
from leyden.world.world import World

DELIVERED, REFUSED, NO_RESPONSE, IN_FLIGHT = "delivered (2xx)", "other status", "no response", "in flight"
_RESULTS = {DELIVERED: GOOD, REFUSED: BAD, NO_RESPONSE: WAIT, IN_FLIGHT: OPEN}
CONFIDENCE = 0.95
# Where the numbers of each series stand: their distance from the point or its interval, and how they are aligned.
_PLACES = (
    ((0, 3), "center", "bottom"),
    ((0, -3), "center", "top"),
    ((4, 5), "left", "center"),
    ((-4, 5), "right", "center"),
)
_ROWS: dict[str, Callable[[World], Sized]] = {
    "charges": lambda world: world.service.charges.charges,
    "payments": lambda world: world.payments.rows,
    "deliveries": lambda world: world.service.outbox.rows,
}
_WINDOWS = "leyden-windows-"  # the start of the id of a line, which ends with the width of its windows (ms)


def conversion(world: World, by: str | float | timedelta, ax: Axes | None) -> Axes:
    """The share of the Charges that were paid, in each window of time: `kpi.by(by)`."""
    figures = Kpi(world).by(by)["conversion"]
    ax = axes(ax, "conversion")
    starts = [int(start.timestamp() * 1_000) for start in figures.index]
    is_known = bool(figures.notna().any())
    width_ms = span_from("by", by, least_ms=1)
    is_one_width = _name_widths(ax, width_ms)
    if is_known:
        # A window is as wide as it lasts: the last value is repeated at its end.
        ends = [*starts, starts[-1] + width_ms]
        shares = [*figures, figures.iloc[-1]]
        label = label_text(world.label) + ("" if is_one_width else f"\n{_width(width_ms)}")
        ax.plot(instants(ends), shares, drawstyle="steps-post", label=label, gid=f"{_WINDOWS}{width_ms}")
    time_axis(ax, world.config.start_ms, world.clock.now())
    share_axis(ax, f"charges paid\n({f'windows of {label_text(by)}' if is_one_width else 'windows of several widths'})")
    return _finish(world, ax, "charges", "no charge", "has ended" if starts else "was created")


def _name_widths(ax: Axes, width_ms: int) -> bool:
    """Whether all series with windows have this width. If not, the label of each series says its own from now on."""
    drawn = [(line, str(line.get_gid()).removeprefix(_WINDOWS)) for line in ax.lines]
    widths = [(line, _width(int(width))) for line, width in drawn if width.isdigit()]
    if {width for _, width in widths} <= {_width(width_ms)}:
        return True
    for line, width in widths:
        if not str(line.get_label()).endswith(width):
            line.set_label(f"{line.get_label()}\n{width}")
    return False


def _width(width_ms: int) -> str:
    return f"windows of {span_in_words(width_ms)}"


def settle_times(world: World, ax: Axes | None) -> Axes:
    """The cumulative distribution of the time from a Charge's creation to its payment."""
    charges = Selection(world, None, None).charges.values()
    seconds = sorted(charge[4] / 1_000 for charge in charges if charge[4] is not None)
    ax = axes(ax, "settle_times")
    if seconds:
        middle, most = (f"{quantile(seconds, q):.3g}" for q in (0.5, 0.95))
        ax.ecdf(seconds, label=f"{label_text(world.label)}\nmedian {middle} s\n95 % in {most} s")
    ax.set_xlabel("time to payment (s)")
    ax.set_xlim(left=0, auto=True)
    share_axis(ax, "paid charges")
    _finish(world, ax, "charges", "no charge", "was paid")
    if seconds:
        ax.legend(loc="lower right")
    return ax


def retries(world: World, ax: Axes | None) -> Axes:
    """The number of callbacks that had a first, a second, ... attempt, by the result of the attempt."""
    counts = Counter(
        (row["attempt"], _result(row["http_status"], row["error"])) for row in TABLES["callbacks"].rows(world)
    )
    ax = axes(ax, "retries", is_alone=True)
    numbers = range(1, 1 + max((attempt for attempt, _ in counts), default=0))
    below = [0] * len(numbers)
    for result, tone in _RESULTS.items():
        heights = [counts[number, result] for number in numbers]
        if any(heights):
            ax.bar(list(numbers), heights, bottom=below, color=COLOURS[tone], label=result)
            below = [low + height for low, height in zip(below, heights, strict=True)]
    ax.set_xlabel("attempt (number)")
    ax.set_ylabel("callback attempts (count)")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(nbins="auto", steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
    if not ax.has_data():
        ax.axis((0.5, 4.5, 0, 4))
    _finish(world, ax, "deliveries", "no callback", "was sent")
    if counts:
        ax.legend()
    return ax


def success_by_amount(world: World, bounds_msat: Sequence[int] | None, ax: Axes | None) -> Axes:
    """The share of the ended payments that succeeded, by bands of their amount, with Wilson's confidence interval.

    A point stands at the median amount of its band, its horizontal line goes from the smallest to the largest, and the
    number beside it is that of the payments.
    """
    band = amount_bands(bounds_msat)
    bands: dict[int, list[float]] = {}
    succeeded: Counter[int] = Counter()
    for row in world.payments.rows:
        if row["outcome"] is not None and row["amount_msat"]:
            start = band(row["amount_msat"])
            bands.setdefault(start, []).append(row["amount_msat"] / 1_000)
            succeeded[start] += row["outcome"] == "SUCCEEDED"
    ax = axes(ax, "success_by_amount")
    if bands:
        starts = sorted(bands)
        found = [share_interval(succeeded[start], len(bands[start]), CONFIDENCE) for start in starts]
        shares = [one.mean for one in found]
        middles = [median(bands[start]) for start in starts]
        ax.errorbar(
            middles,
            shares,
            xerr=_lengths(middles, [min(bands[start]) for start in starts], [max(bands[start]) for start in starts]),
            yerr=_lengths(shares, [one.low for one in found], [one.high for one in found]),
            fmt="o",
            capsize=3,
            label=label_text(world.label),
        )
        _add_counts(ax, middles, found)
    ax.set_xscale("log")
    amounts(ax.xaxis)
    ax.set_xlabel("amount (sat)")
    share_axis(ax, "succeeded payments\n(95 % interval)")
    ax.set_ylim(-0.02 if len(ax.containers) < 2 else -0.1, 1.12)
    return _finish(world, ax, "payments", "no payment", "has ended")


def _add_counts(ax: Axes, middles: list[float], found: list[Interval]) -> None:
    """The numbers of payments of the newest series: those of a second one are in its colour, at another place."""
    number = len(ax.containers) - 1
    (dx, dy), ha, va = _PLACES[number % len(_PLACES)]
    colour = ax.lines[-1].get_color() if number else rcParams["text.color"]
    for middle, one in zip(middles, found, strict=True):
        height = {"bottom": one.high, "top": one.low}.get(va, one.mean)
        style: dict[str, Any] = {"ha": ha, "va": va, "color": colour, "fontsize": "small"}
        ax.annotate(str(one.size), (middle, height), xytext=(dx, dy), textcoords="offset points", **style)


def _finish(world: World, ax: Axes, name: str, nothing: str, happened: str) -> Axes:
    """The axes with a sentence in the middle while they have no data, and above them with the number of what is missing
    because it was removed: of each sandbox, if several are drawn."""
    without, is_kept = world.removed.without(name), len(_ROWS[name](world)) > 0
    if without:
        nothing = f"{nothing} that is kept {happened}" if is_kept else f"{nothing} is kept"
    else:
        nothing = f"{nothing} {happened}"
    finish(ax, nothing)
    if without:
        note_above(ax, world.label, "\n(".join(map(label_text, without.split(" (", 1))))
    return ax


def _lengths(middles: list[float], lows: list[float], highs: list[float]) -> list[list[float]]:
    """The lengths of error bars, below and above."""
    pairs = list(zip(middles, lows, highs, strict=True))
    return [
        [max(0.0, middle - low) for middle, low, _ in pairs],
        [max(0.0, high - middle) for middle, _, high in pairs],
    ]


def _result(status: int | None, error: str | None) -> str:
    if status is not None:
        return DELIVERED if 200 <= status < 300 else REFUSED
    return IN_FLIGHT if error is None else NO_RESPONSE
