"""Key figures of a shop: counts of Charges by outcome, conversion, payment times, payments and callbacks.

They are computed from the summaries that the tables of Charges, payments and deliveries keep beside their rows, in one
pass over each, so that the time is linear in their number and a packed row is not unpacked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence, Set
from math import isnan, nan
from typing import TYPE_CHECKING, Any, TypeVar

from leyden.arguments import Spelled, checked_share, methods_with_hints, span_from, whole_number
from leyden.errors import ArgumentError
from leyden.extras import require
from leyden.lab.charge_states import states_entered
from leyden.lab.kpi_rows import KpiRows, Selection, amount_bands
from leyden.lightning.payer.payment_rows import PaymentSummary
from leyden.repr_tables import html_table
from leyden.server.callbacks.attempts import DeliverySummary
from leyden.server.callbacks.deliveries import DELIVERED, PENDING
from leyden.server.charges.rows import ChargeSummary
from leyden.server.contract.lifecycle_rows import EXPIRY_REACHED, INVOICE_FAILED, PAYMENT_SETTLED
from leyden.server.contract.types import LifecycleTable
from leyden.server.gc_pause import gc_paused
from leyden.server.printable import quoted
from leyden.server.timestamps import MAX_INSTANT_MS, to_iso

if TYPE_CHECKING:
    from datetime import timedelta

    import pandas as pd

    from leyden.world.world import World

G = TypeVar("G", bound=Hashable)

FIGURES = (
    "created", "pending", "completed", "expired", "errors", "conversion", "received_msat",
    "settle_p50_s", "settle_p95_s", "payments", "paid_share", "attempts", "fees_msat",
    "callbacks", "delivered_share", "callback_attempts", "callback_p50_ms", "callback_p95_ms",
    "notified_p50_s", "notified_p95_s", "refused",
)  # fmt: skip
SHARES = frozenset({"conversion", "paid_share", "delivered_share"})  # figures from 0 to 1
_COLUMNS = tuple(name for name in FIGURES if name != "refused")  # of a group of Charges
_PERCENTILES = {"p50": 0.5, "p95": 0.95}

_MAX_WINDOWS = 100_000


@methods_with_hints
class Kpi(Spelled):
    """The figures of one world, computed anew at each reading.

    They cover the Charges created from `since_ms` (included) to `until_ms` (excluded), those of Static Charges too, and
    all payments and callbacks of these Charges. Counts are 0 when nothing happened; a share or a duration without any
    instance is NaN, which pandas leaves out of its means.
    """

    _fields = frozenset({"_since_ms", "_until_ms", "_world"})

    def __init__(self, world: World, *, since_ms: int | None = None, until_ms: int | None = None) -> None:
        if since_ms is not None and until_ms is not None and until_ms < since_ms:
            raise ArgumentError(f"until={to_iso(until_ms)} is before since={to_iso(since_ms)}: exchange them")
        self._world = world
        self._since_ms = since_ms
        self._until_ms = until_ms

    # Charges

    @property
    def created(self) -> int:
        """Charges created: a count."""
        return len(self._charges())

    @property
    def pending(self) -> int:
        """Charges without an end. They can still be paid, unless their Static Charge has no slot left."""
        return self._count({self._table.initial})

    @property
    def completed(self) -> int:
        """Charges paid: a count."""
        return self._count(self._paid_states)

    @property
    def expired(self) -> int:
        """Charges that expired unpaid: a count."""
        return self._count(states_entered(self._table, EXPIRY_REACHED))

    @property
    def errors(self) -> int:
        """Charges whose invoice the node failed: a count."""
        return self._count(states_entered(self._table, INVOICE_FAILED))

    @property
    def conversion(self) -> float:
        """The share of the Charges that were paid: `completed / created`, 0 to 1.

        While some Charges are pending, only those past their expiry count, whatever their state: customers who
        pay do so early, so the newest Charges would raise the share, the more the longer they can be paid. NaN when no
        Charge counts.
        """
        states = self._column("state")
        if self._table.initial in states:
            now = self._world.clock.now()
            states = [charge[0] for charge in self._charges() if charge[2] + charge[3] <= now]
        return _share(sum(map(states.count, self._paid_states)), len(states))

    @property
    def received_msat(self) -> int:
        """The amount received for paid Charges in msat, overpayments included."""
        paid = self._paid_states
        return sum([charge[5] for charge in self._charges() if charge[0] in paid])

    def settle_s(self, q: float = 0.5) -> float:
        """The time from a Charge's creation to its payment in seconds: the median, or another quantile from 0 to 1.

        It is interpolated between two values. The creation is rounded down to whole seconds, as in invoices, so a
        figure may be up to a second too long. NaN when no Charge was paid; `ValueError` for `q` outside 0 to 1.
        """
        return quantile(self._column("settle_s"), q)

    # Payments

    @property
    def payments(self) -> int:
        """Payments that wallets started or scheduled for these Charges: a count."""
        return len(self._payments())

    @property
    def paid_share(self) -> float:
        """The share of ended payments that succeeded, 0 to 1. NaN when none has ended."""
        ended = [payment[0] for payment in self._payments() if payment[0] is not None]
        return _share(ended.count("SUCCEEDED"), len(ended))

    @property
    def attempts(self) -> int:
        """Parts that these payments sent, failed ones included: a count."""
        return sum([payment[1] for payment in self._payments()])

    @property
    def fees_msat(self) -> int:
        """Routing fees of settled parts in msat; 0 with direct payments."""
        return sum([payment[2] for payment in self._payments()])

    # Callbacks

    @property
    def callbacks(self) -> int:
        """Callback messages about these Charges: a count."""
        return len(self._deliveries())

    @property
    def delivered_share(self) -> float:
        """The share of ended callbacks that were delivered, 0 to 1. NaN when none has ended."""
        ended = [delivery[0] for delivery in self._deliveries() if delivery[0] != PENDING]
        return _share(ended.count(DELIVERED), len(ended))

    @property
    def callback_attempts(self) -> int:
        """Attempts to deliver these callbacks so far: a count. Blocked and dropped ones are attempts, too."""
        return sum([delivery[1] for delivery in self._deliveries()])

    def callback_ms(self, q: float = 0.5) -> float:
        """The receiver's latency in milliseconds: the median, or another quantile from 0 to 1.

        For each callback it is the time from the start of the first attempt that was answered with 2xx to its answer.
        NaN when no callback was answered so; `ValueError` for `q` outside 0 to 1.
        """
        return quantile(self._column("callback_ms"), q)

    def notified_s(self, q: float = 0.5) -> float:
        """The time to the first notification in seconds: the median, or another quantile from 0 to 1.

        For each Charge it is the time from the change that its first callback tells to the end of the first attempt,
        of any of its callbacks, that was answered with 2xx. Charges without such an attempt are left out. NaN when none
        has one; `ValueError` for `q` outside 0 to 1.
        """
        return quantile(self._column("notified_s"), q)

    # Traffic

    @property
    def refused(self) -> int:
        """Visits in which the service refused a Charge or an invoice; of the whole run, not of the window."""
        return sum(row["refused"] for row in self._world.traffic.rows)

    # All at once

    def row(self) -> dict[str, Any]:
        """All figures by name, for example as the result of a sweep's function.

        `settle_p50_s` is `settle_s(0.5)`, and so are the other names with a percentile.
        """
        figures = _SelectedKpi(self._world, self._selection().all_rows())
        return {name: _figure(figures, name) for name in FIGURES}

    def between(self, since_ms: int | None, until_ms: int | None) -> Kpi:
        """The figures of the Charges created from one instant (ms, included) to another (excluded). Raises `ValueError`
        for what is no instant in ms."""
        for name, instant in (("since_ms", since_ms), ("until_ms", until_ms)):
            if instant is not None:
                whole_number(name, instant, 0, MAX_INSTANT_MS)
        return Kpi(self._world, since_ms=since_ms, until_ms=until_ms)

    def windows(self, span: str | float | timedelta) -> Iterator[tuple[int, Kpi]]:
        """One Kpi per window of time from the first Charge to the last, with the start of the window (ms).

        Windows start at multiples of the span since the epoch: at full hours for `1h`. Raises `ValueError` for a span
        that is not positive, and for one that needs more than 100,000 windows.
        """
        starts = _window_starts(span, [charge[2] for charge in self._charges()])
        for start in starts:
            since = start if self._since_ms is None else max(start, self._since_ms)
            until = start + starts.step if self._until_ms is None else min(start + starts.step, self._until_ms)
            yield start, self.between(since, until)

    def by(self, span: str | float | timedelta) -> pd.DataFrame:
        """A DataFrame with one row per window of `windows(span)`, indexed by its start (UTC). Needs pandas."""
        require("kpi.by()", "pandas", "lab")
        import pandas as pd

        span_ms = span_from("span", span, least_ms=1)
        grouped = self._grouped(lambda charge: charge[2] // span_ms)
        created = [charge[2] for rows in grouped.values() for charge in rows.charges]
        starts = _window_starts(span, created)
        empty = KpiRows()
        figures = [self._columns(grouped.get(start // span_ms, empty)) for start in starts]
        index = pd.DatetimeIndex(pd.to_datetime(list(starts), unit="ms", utc=True), name="from")
        return pd.DataFrame(figures, index=index, columns=list(_COLUMNS))

    def by_amount(self, bounds_msat: Sequence[int] | None = None) -> pd.DataFrame:
        """A DataFrame with one row per band of amounts that has Charges, the smallest first. Needs pandas.

        A band is from its bound (included), which is the index `from_msat`, to the next (excluded); the first begins at
        0. Without bounds they are the powers of ten. The columns are those of `by`. Raises `ValueError` for bounds that
        are not positive whole numbers in ascending order.
        """
        require("kpi.by_amount()", "pandas", "lab")
        import pandas as pd

        band = amount_bands(bounds_msat)
        grouped = self._grouped(lambda charge: band(charge[1]))
        index = pd.Index(sorted(grouped), dtype="int64", name="from_msat")
        return pd.DataFrame([self._columns(grouped[bound]) for bound in index], index=index, columns=list(_COLUMNS))

    def __repr__(self) -> str:
        since = "the start" if self._since_ms is None else to_iso(self._since_ms)
        until = "now" if self._until_ms is None else to_iso(self._until_ms)
        lines = [f"  {name:20} {_shown(value)}" for name, value in self.row().items()]
        without = self._world.removed.without("charges")
        missing = f", {without}" if without else ""
        return "\n".join([f"Kpi of the charges created from {since} until {until}{missing}", *lines])

    def _repr_html_(self) -> str:
        rows = [(name, _shown(value)) for name, value in self.row().items()]
        return html_table(rows, caption=repr(self).partition("\n")[0])

    # Private

    @gc_paused()  # the summaries of all rows are no garbage
    def _grouped(self, group: Callable[[ChargeSummary], G]) -> dict[G, KpiRows]:
        return self._selection().grouped(group)

    def _selection(self) -> Selection:
        return Selection(self._world, self._since_ms, self._until_ms)

    def _columns(self, rows: KpiRows) -> dict[str, Any]:
        figures = _SelectedKpi(self._world, rows)
        return {name: _figure(figures, name) for name in _COLUMNS}

    @property
    def _table(self) -> LifecycleTable:
        return self._world.service.contract.lifecycles["Charge"]

    @property
    def _paid_states(self) -> Set[str]:
        return states_entered(self._table, PAYMENT_SETTLED)

    def _count(self, states: Set[str]) -> int:
        return sum(map(self._column("state").count, states))

    def _column(self, name: str) -> list[Any]:
        """The values of `_COLUMN_OF` with this name."""
        return _COLUMN_OF[name](self)

    def _charges(self) -> Collection[ChargeSummary]:
        return self._selection().charges.values()

    def _payments(self) -> Collection[PaymentSummary]:
        return self._selection().all_rows(deliveries=False).payments

    def _deliveries(self) -> Collection[DeliverySummary]:
        return self._selection().all_rows(payments=False).deliveries

    def _notified_ms(self) -> Collection[int]:
        return self._selection().all_rows(payments=False).notified_ms


class _SelectedKpi(Kpi):
    """The figures of rows that were selected before."""

    _fields = Kpi._fields | {"_rows", "_kept"}

    def __init__(self, world: World, rows: KpiRows) -> None:
        super().__init__(world)
        self._rows = rows
        self._kept: dict[str, list[Any]] = {}  # several figures are made of one column

    def _column(self, name: str) -> list[Any]:
        found = self._kept.get(name)
        if found is None:
            found = self._kept[name] = super()._column(name)
        return found

    def _charges(self) -> Collection[ChargeSummary]:
        return self._rows.charges

    def _payments(self) -> Collection[PaymentSummary]:
        return self._rows.payments

    def _deliveries(self) -> Collection[DeliverySummary]:
        return self._rows.deliveries

    def _notified_ms(self) -> Collection[int]:
        return self._rows.notified_ms


# Those of which quantiles are made are sorted.
_COLUMN_OF: Mapping[str, Callable[[Kpi], list[Any]]] = {
    "state": lambda kpi: [charge[0] for charge in kpi._charges()],
    "settle_s": lambda kpi: sorted([charge[4] / 1_000 for charge in kpi._charges() if charge[4] is not None]),
    "callback_ms": lambda kpi: sorted([float(one[4]) for one in kpi._deliveries() if one[4] is not None]),
    "notified_s": lambda kpi: sorted([wait_ms / 1_000 for wait_ms in kpi._notified_ms()]),
}


def _figure(kpi: Kpi, name: str) -> Any:
    """The figure of this name in `FIGURES`; `settle_p95_s` is `settle_s(0.95)`."""
    what, percentile, unit = (*name.split("_"), "", "")[:3]
    if percentile in _PERCENTILES:
        return getattr(kpi, f"{what}_{unit}")(_PERCENTILES[percentile])
    return getattr(kpi, name)


def _window_starts(span: str | float | timedelta, created: list[int]) -> range:
    """The starts of the windows from the first of the creations to the last, a span apart. Raises `ValueError`."""
    span_ms = span_from("span", span, least_ms=1)
    starts = range(min(created) // span_ms * span_ms, max(created) + 1, span_ms) if created else range(0, 0, span_ms)
    if len(starts) > _MAX_WINDOWS:
        raise ArgumentError(
            f"span={quoted(span)} makes {len(starts)} windows, and at most {_MAX_WINDOWS} fit: give a longer one"
        )
    return starts


def quantile(values: list[float], q: float) -> float:
    """The `q` quantile of the values, interpolated; NaN without values. Raises `ValueError` for `q` outside 0 to 1."""
    q = checked_share("q", q, "the 95th percentile is 0.95")
    if not values:
        return nan
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else nan


def _shown(value: float | int) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return "-" if isnan(value) else f"{value:.3f}"
