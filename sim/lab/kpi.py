"""Key figures of a shop: counts of Charges by outcome, conversion, payment times, payments and callbacks."""

from __future__ import annotations

from collections.abc import Iterator, Set
from math import isnan, nan
from typing import TYPE_CHECKING, Any

from leyden.arguments import Spelled, checked_share, span_from, whole_number
from leyden.extras import require
from leyden.lab.charge_states import EXPIRY_REACHED, INVOICE_FAILED, PAYMENT_SETTLED, states_entered
from leyden.lightning.payer.payment_rows import PaymentRow
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.deliveries import DELIVERED, PENDING
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.charges.rows import ChargeRow
from leyden.server.contract.types import LifecycleTable
from leyden.server.timestamps import MAX_INSTANT_MS, to_iso

if TYPE_CHECKING:
    from datetime import timedelta

    import pandas as pd

    from leyden.world.world import World

FIGURES = (
    "created", "pending", "completed", "expired", "errors", "conversion", "received_msat",
    "settle_p50_s", "settle_p95_s", "payments", "paid_share", "attempts", "fees_msat",
    "callbacks", "delivered_share", "callback_attempts", "refused",
)  # fmt: skip


_MAX_WINDOWS = 100_000


class Kpi(Spelled):
    """The figures of one world, computed anew at each reading.

    They cover the Charges created from `since_ms` (included) to `until_ms` (excluded), those of Static Charges too, and
    all payments and callbacks of these Charges. Counts are 0 when nothing happened; a share or a duration without any
    instance is NaN, which pandas leaves out of its means.
    """

    _fields = frozenset({"_since_ms", "_until_ms", "_world"})

    def __init__(self, world: World, *, since_ms: int | None = None, until_ms: int | None = None) -> None:
        if since_ms is not None and until_ms is not None and until_ms < since_ms:
            raise ValueError(f"until={to_iso(until_ms)} is before since={to_iso(since_ms)}: exchange them")
        self._world = world
        self._since_ms = since_ms
        self._until_ms = until_ms

    # Charges

    @property
    def created(self) -> int:
        """Charges created."""
        return len(self._charges())

    @property
    def pending(self) -> int:
        """Charges without an end. They can still be paid, unless their Static Charge has no slot left."""
        return self._count({self._table.initial})

    @property
    def completed(self) -> int:
        """Charges paid."""
        return self._count(self._paid_states)

    @property
    def expired(self) -> int:
        """Charges that expired unpaid."""
        return self._count(states_entered(self._table, EXPIRY_REACHED))

    @property
    def errors(self) -> int:
        """Charges whose invoice the node failed."""
        return self._count(states_entered(self._table, INVOICE_FAILED))

    @property
    def conversion(self) -> float:
        """The share of the Charges that were paid.

        While some Charges are pending, only those past their expiry count, whatever their state: customers who
        pay do so early, so the newest Charges would raise the share, the more the longer they can be paid. NaN when no
        Charge counts.
        """
        charges = self._charges()
        if self._count({self._table.initial}, charges):
            now = self._world.clock.now()
            charges = [row for row in charges if row["expires_at"] <= now]
        return _share(self._count(self._paid_states, charges), len(charges))

    @property
    def received_msat(self) -> int:
        """The amount received for paid Charges, overpayments included."""
        paid = self._paid_states
        return sum(row["received_msat"] for row in self._charges() if row["status"] in paid)

    def settle_s(self, q: float = 0.5) -> float:
        """The time from a Charge's creation to its payment in seconds: the median, or another quantile from 0 to 1.

        It is interpolated between two values. The creation is rounded down to whole seconds, as in invoices, so a
        figure may be up to a second too long. NaN when no Charge was paid; `ValueError` for `q` outside 0 to 1.
        """
        waits = [
            (row["confirmed_at"] - row["created_at"]) / 1_000
            for row in self._charges()
            if row["confirmed_at"] is not None
        ]
        return quantile(waits, q)

    # Payments

    @property
    def payments(self) -> int:
        """Payments that wallets started for these Charges."""
        return sum(1 for _ in self._payments())

    @property
    def paid_share(self) -> float:
        """The share of ended payments that succeeded. NaN when none has ended."""
        ended = [row["outcome"] for row in self._payments() if row["outcome"] is not None]
        return _share(ended.count("SUCCEEDED"), len(ended))

    @property
    def attempts(self) -> int:
        """Parts that these payments sent, failed ones included."""
        return sum(len(row["attempts"]) for row in self._payments())

    @property
    def fees_msat(self) -> int:
        """Routing fees of settled parts; 0 with direct payments."""
        return sum(
            attempt.get("fee_msat", 0)
            for row in self._payments()
            for attempt in row["attempts"]
            if attempt["status"] == "settled"
        )

    # Callbacks

    @property
    def callbacks(self) -> int:
        """Callback messages about these Charges."""
        return len(self._deliveries())

    @property
    def delivered_share(self) -> float:
        """The share of ended callbacks that were delivered. NaN when none has ended."""
        ended = [row["status"] for row in self._deliveries() if row["status"] != PENDING]
        return _share(ended.count(DELIVERED), len(ended))

    @property
    def callback_attempts(self) -> int:
        """Attempts to deliver these callbacks so far."""
        return sum(AttemptLog(row).attempt_count for row in self._deliveries())

    # Traffic

    @property
    def refused(self) -> int:
        """Customers without a Charge, because the service refused it; of the whole run, not of the window."""
        return sum(row["refused"] for row in self._world.traffic.rows)

    # All at once

    def row(self) -> dict[str, Any]:
        """All figures by name, for example as the result of a sweep's function."""
        return {
            name: self.settle_s(0.5 if name == "settle_p50_s" else 0.95)
            if name.startswith("settle")
            else getattr(self, name)
            for name in FIGURES
        }

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
        starts = _window_starts(span, self._charges())
        for start in starts:
            since = start if self._since_ms is None else max(start, self._since_ms)
            until = start + starts.step if self._until_ms is None else min(start + starts.step, self._until_ms)
            yield start, self.between(since, until)

    def by(self, span: str | float | timedelta) -> pd.DataFrame:
        """A DataFrame with one row per window of `windows(span)`, indexed by its start (UTC). Needs pandas."""
        require("kpi.by()", "pandas", "lab")
        import pandas as pd

        starts = _window_starts(span, self._charges())
        grouped = self._grouped(starts)
        empty = _WindowKpi(self._world).row()
        figures = [grouped[start].row() if start in grouped else empty for start in starts]
        index = pd.DatetimeIndex(pd.to_datetime(list(starts), unit="ms", utc=True), name="from")
        return pd.DataFrame(figures, index=index, columns=[name for name in FIGURES if name != "refused"])

    def __repr__(self) -> str:
        since = "the start" if self._since_ms is None else to_iso(self._since_ms)
        until = "now" if self._until_ms is None else to_iso(self._until_ms)
        lines = [f"  {name:20} {_shown(value)}" for name, value in self.row().items()]
        return "\n".join([f"Kpi of the charges created from {since} until {until}", *lines])

    # Private

    def _grouped(self, starts: range) -> dict[int, _WindowKpi]:
        """The windows that have Charges, by their start, in one pass over all rows."""
        windows: dict[int, _WindowKpi] = {}
        by_hash: dict[str, _WindowKpi] = {}
        by_id: dict[str, _WindowKpi] = {}
        for charge in self._charges():
            start = charge["created_at"] // starts.step * starts.step
            window = windows.get(start)
            if window is None:
                window = windows[start] = _WindowKpi(self._world)
            window.charge_rows.append(charge)
            by_hash[charge["payment_hash"]] = by_id[charge["id"]] = window
        for payment in self._payments():
            if (window := by_hash.get(payment["payment_hash"] or "")) is not None:
                window.payment_rows.append(payment)
        for delivery in self._deliveries():
            if (window := by_id.get(delivery["resource_id"])) is not None:
                window.delivery_rows.append(delivery)
        return windows

    def _charges(self) -> list[ChargeRow]:
        since, until = self._since_ms, self._until_ms
        return [
            row
            for row in self._world.service.charges.charges
            if (since is None or row["created_at"] >= since) and (until is None or row["created_at"] < until)
        ]

    @property
    def _table(self) -> LifecycleTable:
        return self._world.service.contract.lifecycles["Charge"]

    @property
    def _paid_states(self) -> Set[str]:
        return states_entered(self._table, PAYMENT_SETTLED)

    def _count(self, states: Set[str], charges: list[ChargeRow] | None = None) -> int:
        return sum(row["status"] in states for row in (self._charges() if charges is None else charges))

    def _payments(self) -> Iterator[PaymentRow]:
        rows = self._world.payments.rows
        if self._since_ms is None and self._until_ms is None:
            ours = {charge["payment_hash"] for charge in self._charges()}
            return (row for row in rows if row["payment_hash"] in ours)
        return (payment for charge in self._charges() for payment in rows.find("payment_hash", charge["payment_hash"]))

    def _deliveries(self) -> list[DeliveryRow]:
        deliveries = self._world.service.outbox.deliveries()
        if self._since_ms is None and self._until_ms is None:
            return deliveries
        ours = {charge["id"] for charge in self._charges()}
        return [row for row in deliveries if row["resource_id"] in ours]


class _WindowKpi(Kpi):
    """The figures of rows that were selected before."""

    _fields = Kpi._fields | {"charge_rows", "delivery_rows", "payment_rows"}

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.charge_rows: list[ChargeRow] = []
        self.payment_rows: list[PaymentRow] = []
        self.delivery_rows: list[DeliveryRow] = []

    def _charges(self) -> list[ChargeRow]:
        return self.charge_rows

    def _payments(self) -> Iterator[PaymentRow]:
        return iter(self.payment_rows)

    def _deliveries(self) -> list[DeliveryRow]:
        return self.delivery_rows


def _window_starts(span: str | float | timedelta, charges: list[ChargeRow]) -> range:
    """The starts of the windows from the first of the Charges to the last, a span apart. Raises `ValueError`."""
    span_ms = span_from("span", span, least_ms=1)
    created = [row["created_at"] for row in charges]
    starts = range(min(created) // span_ms * span_ms, max(created) + 1, span_ms) if created else range(0, 0, span_ms)
    if len(starts) > _MAX_WINDOWS:
        raise ValueError(
            f"span={span!r} makes {len(starts)} windows, and at most {_MAX_WINDOWS} fit: give a longer one"
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
