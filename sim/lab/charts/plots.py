"""The charts of a sandbox: `sb.plot`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from leyden.arguments import Spelled, methods_with_hints
from leyden.extras import require
from leyden.world.world import World

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@methods_with_hints
class Plots(Spelled):
    """The charts of a sandbox, by matplotlib: each method returns the `Axes`, which show themselves in a notebook.

    `ax` is where to draw, by default a new figure: `ax.figure.savefig("chart.svg")` writes it. A second sandbox, such
    as a fork, may be drawn into the same axes. When nothing has happened yet, the chart says so. `retries` is of
    one sandbox only. Charts need the extra `lab`; `TypeError` is raised for an `ax` that is none, `ValueError` for one
    with another chart.
    """

    _fields = frozenset({"_world"})

    def __init__(self, world: Callable[[], World]) -> None:
        self._world = world

    def conversion(self, by: str | float | timedelta = "1h", *, ax: Axes | None = None) -> Axes:
        """The share of the Charges that were paid, by window of time, as in `kpi.by(by)`. Raises `ValueError` for
        a span as `kpi.windows` does."""
        _require("conversion")
        from leyden.lab.charts.shop import conversion

        world = self._world()
        with world.exclusive():
            return conversion(world, by, ax)

    def settle_times(self, *, ax: Axes | None = None) -> Axes:
        """The cumulative distribution of the time from a Charge's creation to its payment, over the paid Charges. The
        legend has the median and the 95th percentile."""
        _require("settle_times")
        from leyden.lab.charts.shop import settle_times

        world = self._world()
        with world.exclusive():
            return settle_times(world, ax)

    def liquidity(self, *, ax: Axes | None = None) -> Axes:
        """The amounts that the shop's open channels could receive and send, over time, in satoshis. Of a directory
        that was opened again, and of a copy of it, the chart begins then and says so. Raises `ValueError` when payments
        are direct, and when payments were removed."""
        _require("liquidity")
        from leyden.lab.charts.liquidity import liquidity

        world = self._world()
        with world.exclusive():
            return liquidity(world, ax)

    def retries(self, *, ax: Axes | None = None) -> Axes:
        """The number of callbacks that had a first, a second, ... attempt, by the result of the attempt: delivered,
        answered with another status, without a response, or still in flight."""
        _require("retries")
        from leyden.lab.charts.shop import retries

        world = self._world()
        with world.exclusive():
            return retries(world, ax)

    def success_by_amount(self, bounds_msat: Sequence[int] | None = None, *, ax: Axes | None = None) -> Axes:
        """The share of the ended payments that succeeded, by bands of their amount, with 95 % intervals (Wilson's).

        Bands are powers of ten, or are bounded by `bounds_msat` as in `kpi.by_amount`; empty bands are left out.
        A point stands at the median amount of its band, with the number of its payments; its horizontal line goes from
        the smallest amount to the largest. Raises `ValueError` for bounds as `kpi.by_amount` does.
        """
        _require("success_by_amount")
        from leyden.lab.charts.shop import success_by_amount

        world = self._world()
        with world.exclusive():
            return success_by_amount(world, bounds_msat, ax)

    def __repr__(self) -> str:
        names = [name for name, value in vars(Plots).items() if callable(value) and not name.startswith("_")]
        return "charts of the sandbox: " + ", ".join(f"sb.plot.{name}()" for name in names)


def _require(name: str) -> None:
    for package in ("matplotlib", "pandas"):
        require(f"sb.plot.{name}()", package, "lab")
