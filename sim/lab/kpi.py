"""Figures of a shop: how many charges became money, how long it took, and what was tried on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isnan, nan
from typing import TYPE_CHECKING, Any

from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.deliveries import DELIVERED, PENDING
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.timestamps import parse_duration, to_iso

if TYPE_CHECKING:
    from datetime import timedelta

    import pandas as pd

    from leyden.world.world import World

Row = Mapping[str, Any]

FIGURES = (
    "created", "pending", "completed", "expired", "errors", "conversion", "received_msat",
    "settle_p50_s", "settle_p95_s", "payments", "paid_share", "attempts", "fees_msat",
    "callbacks", "delivered_share", "callback_attempts", "refused",
)  # fmt: skip


class Kpi:
    """The figures of one world, worked out anew each time one is read.

    They cover the Charges created from `since_ms` (on) until `until_ms` (before it), those of Static Charges included,
    with their payments and callbacks whenever these came. Counts are 0 where nothing happened; a share or a span of
    which there is no single instance is NaN, which pandas leaves out of its means.
    """

    def __init__(self, world: World, *, since_ms: int | None = None, until_ms: int | None = None) -> None:
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
        """Charges still waiting."""
        return self._count("pending")

    @property
    def completed(self) -> int:
        """Charges paid."""
        return self._count("completed")

    @property
    def expired(self) -> int:
        """Charges whose time ran out unpaid."""
        return self._count("expired")

    @property
    def errors(self) -> int:
        """Charges whose invoice the node could not honour."""
        return self._count("error")

    @property
    def conversion(self) -> float:
        """The share of the Charges that was paid.

        While some still wait, only those count whose time is up, whatever became of them: who pays does so early, and
        so the Charges of the last minutes would make every shop look better than it is, the more the longer they are
        payable. NaN while there is none to count.
        """
        charges = self._charges()
        if self._count("pending", charges):
            now = self._world.clock.now()
            charges = [row for row in charges if row["expires_at"] <= now]
        return _share(self._count("completed", charges), len(charges))

    @property
    def received_msat(self) -> int:
        """What the paid Charges brought, overpayments included."""
        return sum(row["received_msat"] for row in self._charges() if row["status"] == "completed")

    def settle_s(self, q: float = 0.5) -> float:
        """The time from a Charge's creation to its payment in seconds: the median, or another quantile from 0 to 1.

        Between two values it is interpolated. Creation counts in whole seconds, as invoices do, so up to a second of a
        figure is that rounding. NaN when none was paid; `ValueError` for a quantile that is none.
        """
        paid = [row for row in self._charges() if row["confirmed_at"] is not None]
        return quantile([(row["confirmed_at"] - row["created_at"]) / 1_000 for row in paid], q)

    # Payments

    @property
    def payments(self) -> int:
        """Payments that wallets began for these Charges."""
        return sum(1 for _ in self._payments())

    @property
    def paid_share(self) -> float:
        """Of the payments that have ended, the share that succeeded. NaN while none has."""
        ended = [row["outcome"] for row in self._payments() if row["outcome"] is not None]
        return _share(ended.count("SUCCEEDED"), len(ended))

    @property
    def attempts(self) -> int:
        """Parts that these payments sent on their way, those that came back included."""
        return sum(len(row["attempts"]) for row in self._payments())

    @property
    def fees_msat(self) -> int:
        """What payers paid for the way, on parts that arrived; 0 where payments are direct."""
        return sum(
            attempt.get("fee_msat", 0)
            for row in self._payments()
            for attempt in row["attempts"]
            if attempt["status"] == "settled"
        )

    # Callbacks

    @property
    def callbacks(self) -> int:
        """Callbacks that these Charges caused."""
        return len(self._deliveries())

    @property
    def delivered_share(self) -> float:
        """Of the callbacks that have ended, the share that a receiver took. NaN while none has."""
        ended = [row["status"] for row in self._deliveries() if row["status"] != PENDING]
        return _share(ended.count(DELIVERED), len(ended))

    @property
    def callback_attempts(self) -> int:
        """Posts that it took, or that were spent so far."""
        return sum(AttemptLog(row).attempt_count for row in self._deliveries())

    # Traffic

    @property
    def refused(self) -> int:
        """Visitors for whom the service made no Charge, in the whole run: there is no Charge to tell the window by."""
        return sum(row["refused"] for row in self._world.traffic.rows)

    # All at once

    def row(self) -> dict[str, Any]:
        """Every figure by its name, ready to be the row of a sweep."""
        return {
            name: self.settle_s(0.5 if name == "settle_p50_s" else 0.95)
            if name.startswith("settle")
            else getattr(self, name)
            for name in FIGURES
        }

    def between(self, since_ms: int | None, until_ms: int | None) -> Kpi:
        """The figures of the Charges created between two instants (ms): the first included, the second not."""
        return Kpi(self._world, since_ms=since_ms, until_ms=until_ms)

    def windows(self, span: str | float | timedelta) -> Iterator[tuple[int, Kpi]]:
        """One Kpi for each span of time from the first Charge's to the last's, with the instant (ms) it begins at.
        They begin where the span divides the epoch evenly: at full hours for `1h`."""
        span_ms = parse_duration(span)
        if span_ms <= 0:
            raise ValueError(f"a window of {span!r} holds nothing: give a span of more than 0")
        created = [row["created_at"] for row in self._charges()]
        if not created:
            return
        for start in range(min(created) // span_ms * span_ms, max(created) + 1, span_ms):
            since = start if self._since_ms is None else max(start, self._since_ms)
            until = start + span_ms if self._until_ms is None else min(start + span_ms, self._until_ms)
            yield start, self.between(since, until)

    def by(self, span: str | float | timedelta) -> pd.DataFrame:
        """A table with a row for each window of `windows(span)`, indexed by its beginning (UTC)."""
        import pandas as pd

        rows = list(self.windows(span))
        index = pd.DatetimeIndex([pd.Timestamp(start, unit="ms", tz="UTC") for start, _ in rows], tz="UTC", name="from")
        figures = [{name: value for name, value in kpi.row().items() if name != "refused"} for _, kpi in rows]
        return pd.DataFrame(figures, index=index, columns=[name for name in FIGURES if name != "refused"])

    def __repr__(self) -> str:
        since = "the beginning" if self._since_ms is None else to_iso(self._since_ms)
        until = "now" if self._until_ms is None else to_iso(self._until_ms)
        lines = [f"  {name:20} {_shown(value)}" for name, value in self.row().items()]
        return "\n".join([f"Kpi of the charges created from {since} until {until}", *lines])

    # Inside

    def _charges(self) -> list[Row]:
        since, until = self._since_ms, self._until_ms
        return [
            row
            for row in self._world.service.charges.charges
            if (since is None or row["created_at"] >= since) and (until is None or row["created_at"] < until)
        ]

    def _count(self, status: str, charges: list[Row] | None = None) -> int:
        return sum(row["status"] == status for row in (self._charges() if charges is None else charges))

    def _payments(self) -> Iterator[Row]:
        rows = self._world.payments.rows
        if self._since_ms is None and self._until_ms is None:
            return iter(rows)
        return (payment for charge in self._charges() for payment in rows.find("payment_hash", charge["payment_hash"]))

    def _deliveries(self) -> list[DeliveryRow]:
        deliveries = self._world.service.outbox.deliveries()
        if self._since_ms is None and self._until_ms is None:
            return deliveries
        ours = {charge["id"] for charge in self._charges()}
        return [row for row in deliveries if row["resource_id"] in ours]


def quantile(values: list[float], q: float) -> float:
    """The value below which a share `q` of the values lies, interpolated between neighbours; NaN of none."""
    if not 0 <= q <= 1:
        raise ValueError(f"a quantile lies between 0 and 1, not at {q!r}: the 95th percentile is 0.95")
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
