"""The input of key figures: summaries of the Charges of a window, of their payments and callbacks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from leyden.arguments import ALL_MSAT, checked_list, whole_number
from leyden.errors import ArgumentError
from leyden.lightning.payer.payment_rows import PaymentSummary
from leyden.server.callbacks.attempts import DeliverySummary
from leyden.server.charges.rows import ChargeSummary
from leyden.server.printable import quoted
from leyden.server.timestamps import MAX_INSTANT_MS

if TYPE_CHECKING:
    from leyden.world.world import World

G = TypeVar("G", bound=Hashable)


def amount_bands(bounds_msat: Sequence[int] | None) -> Callable[[int], int]:
    """A function from an amount (msat) to the lower bound of its band: 0 or one of the bounds, and without bounds a
    power of ten. Raises `ValueError` for bounds that are not positive whole numbers in ascending order."""
    if bounds_msat is None:
        return lambda amount_msat: 10 ** (len(str(amount_msat)) - 1)
    given = checked_list("bounds_msat", bounds_msat)
    bounds = [whole_number("bounds_msat", bound, 1, ALL_MSAT) for bound in given]
    if bounds != sorted(set(bounds)):
        raise ArgumentError(f"bounds_msat={quoted(bounds, 200)}: give each bound once, in ascending order")
    starts = [0, *bounds]
    return lambda amount_msat: starts[bisect_right(bounds, amount_msat)]


class KpiRows:
    """The summaries of some Charges, of their payments and callbacks, and the times to the first notification (ms).

    None of the lists is in a particular order.
    """

    __slots__ = ("charges", "deliveries", "notified_ms", "payments")

    def __init__(self) -> None:
        self.charges: list[ChargeSummary] = []
        self.payments: list[PaymentSummary] = []
        self.deliveries: list[DeliverySummary] = []
        self.notified_ms: list[int] = []


class Selection:
    """The Charges created from `since_ms` (included) to `until_ms` (excluded), by document id in `charges`.

    Payments and callbacks are found by the indexes of the tables, in one pass.
    """

    def __init__(self, world: World, since_ms: int | None, until_ms: int | None) -> None:
        self._table = world.service.charges.charges
        self._payments = world.payments.rows
        self._deliveries = world.service.outbox.rows
        charges = cast(dict[int, ChargeSummary], self._table.summaries())
        if since_ms is not None or until_ms is not None:
            since = 0 if since_ms is None else since_ms
            until = MAX_INSTANT_MS + 1 if until_ms is None else until_ms
            charges = {doc_id: charge for doc_id, charge in charges.items() if since <= charge[2] < until}
        self.charges: Mapping[int, ChargeSummary] = charges

    def grouped(self, group: Callable[[ChargeSummary], G]) -> dict[G, KpiRows]:
        """The Charges by `group(charge)`, with their payments and callbacks."""
        groups: dict[G, KpiRows] = {}
        by_charge: dict[int, KpiRows] = {}
        for doc_id, charge in self.charges.items():
            name = group(charge)
            rows = groups.get(name)
            if rows is None:
                rows = groups[name] = KpiRows()
            rows.charges.append(charge)
            by_charge[doc_id] = rows
        self._add_payments(by_charge)
        self._add_deliveries(by_charge)
        return groups

    def all_rows(self, *, payments: bool = True, deliveries: bool = True) -> KpiRows:
        """All Charges of the selection, with their payments and callbacks unless these are not wanted."""
        rows = KpiRows()
        rows.charges = list(self.charges.values())
        by_charge = dict.fromkeys(self.charges, rows)
        if payments:
            self._add_payments(by_charge)
        if deliveries:
            self._add_deliveries(by_charge)
        return rows

    def _add_payments(self, by_charge: Mapping[int, KpiRows]) -> None:
        hashes = cast(Iterable[tuple[str, int]], self._table.ids_by_value("payment_hash"))  # no two Charges share one
        by_hash = {text: by_charge[doc_id].payments for text, doc_id in hashes if doc_id in by_charge}
        if not by_hash:
            return
        summaries = cast(dict[int, PaymentSummary], self._payments.summaries())
        for payment_hash, held in self._payments.ids_by_value("payment_hash"):
            payments = by_hash.get(payment_hash)
            if payments is None:
                continue
            if isinstance(held, int):
                payments.append(summaries[held])
            else:
                payments += [summaries[doc_id] for doc_id in held]

    def _add_deliveries(self, by_charge: Mapping[int, KpiRows]) -> None:
        ids = cast(Iterable[tuple[str, int]], self._table.ids_by_value("id"))
        charge_ids = {text: doc_id for text, doc_id in ids if doc_id in by_charge}
        if not charge_ids:
            return
        summaries = cast(dict[int, DeliverySummary], self._deliveries.summaries())
        for resource_id, held in self._deliveries.ids_by_value("resource_id"):
            charge_id = charge_ids.get(resource_id)
            if charge_id is None:
                continue
            rows = by_charge[charge_id]
            if isinstance(held, int):
                delivery = summaries[held]
                rows.deliveries.append(delivery)
                if delivery[3] is not None:
                    rows.notified_ms.append(delivery[3])
                continue
            deliveries = [summaries[doc_id] for doc_id in held]
            rows.deliveries += deliveries
            ended = [created_at + after_ms for _, _, created_at, after_ms, _ in deliveries if after_ms is not None]
            if ended:
                rows.notified_ms.append(min(ended) - min([delivery[2] for delivery in deliveries]))
