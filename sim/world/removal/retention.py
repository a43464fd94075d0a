"""Retention: a sandbox with a bound removes what ended longest ago."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from leyden.callbacks.callback_rows import attempt_id
from leyden.callbacks.inboxes import Inbox, Posts
from leyden.server.callbacks.attempts import AttemptLog
from leyden.server.callbacks.deliveries import PENDING
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.contract.types import Contract
from leyden.server.store.store import Store
from leyden.server.store.table import RowTable
from leyden.world.removal.end_order import EndOrder
from leyden.world.removal.removed_rows import RemovedRows

_REMOVED_PER_COMMIT = 8
_POSTS_PER_COMMIT = 50  # of one inbox
_LEAST_INBOXES = 100  # that have posts, also with a lower bound

Row = Mapping[str, Any]


class _Kind(NamedTuple):
    """A table whose rows end: which have ended, and how one is removed; False: it is needed still. At least `least` of
    those that ended stay. A row that `renews` itself gets the last place with each change."""

    table: RowTable
    has_ended: Callable[[Row], bool]
    remove: Callable[[Row], bool]
    ended: EndOrder
    least: int
    renews: bool


class Retention:
    """Removes Charges and Static Charges in a final state, with their invoices, payments that ended, callbacks that are
    not pending and of which no copy is due, and responses kept for idempotency keys: of each the oldest beyond `keep`,
    in the order in which they ended. A Charge has not ended while a callback about it is pending. Those that ended
    before the first start with a bound count in the order of their creation.

    The inboxes of `keep` receivers, or of 100, those that received last, have posts: a receiver stays, with its
    settings and the number of what it has received.

    What is pending is never removed. A removed Charge is unknown: its id gets 404, and a payment of its invoice fails
    as one of an unknown invoice does. The event journal has a bound of its own.
    """

    def __init__(self, store: Store, contract: Contract, removed: RemovedRows, keep: int) -> None:
        """`keep` is at least 1."""
        self.keep = keep
        self._store = store
        self._removed = removed
        self._final = {name: frozenset(table.terminal) for name, table in contract.lifecycles.items()}
        self._invoices = store.table("invoices", key="payment_hash")
        self._fault_hits = store.table("fault_hits")
        self._posts = store.table("fault_posts"), store.table("late_answers")  # due copies, and answers to copies
        self._received = Posts(store)
        self._kinds = {
            "charges": self._kind("charges", self._charge_ended, self._remove_charge),
            "static_charges": self._kind("static_charges", self._static_ended, self._remove_static_charge),
            "idempotency": self._kind("idempotency", lambda row: True, self._remove_from("idempotency")),
            "payments": self._kind("payments", _payment_ended, self._remove_from("payments")),
            "deliveries": self._kind("deliveries", _delivery_ended, self._remove_delivery),
            "receivers": self._kind(
                "receivers", self._has_posts, self._remove_posts, least=_LEAST_INBOXES, renews=True
            ),
        }
        self._is_read = False

    def run(self) -> None:
        """Note what ended in the open commit, and remove at most eight rows of each kind in it."""
        if not self._is_read:
            self._read()
        self._note_ended()
        for name, kind in self._kinds.items():
            rows = self._store.table_data(name).rows
            needed = []
            excess = len(kind.ended) - max(self.keep, kind.least)
            for _ in range(min(_REMOVED_PER_COMMIT, max(0, excess))):
                doc_id = kind.ended.oldest()
                row = rows.get(doc_id)
                is_removed = row is None or kind.remove(row)
                if not is_removed and kind.renews:
                    break  # the next commit removes more of it
                kind.ended.discard(doc_id)
                if not is_removed:
                    needed.append(doc_id)
            for doc_id in needed:
                kind.ended.add(doc_id)
        self._removed.note()

    # A commit that fails restores what was removed (`leyden.server.store.rows.CommitParticipant`)

    def begin(self) -> None:
        """Nothing has been removed yet."""

    def commit(self) -> None:
        """Keep the queues."""

    def rollback(self, error: BaseException) -> None:
        """Read the queues again from the rows before they are used next."""
        self._is_read = False

    def _note_ended(self) -> None:
        for data in self._store.touched:
            kind = self._kinds.get(data.name)
            if kind is None:
                continue
            for doc_id, old in (data.before or {}).items():
                row = data.rows.get(doc_id)
                if row is None or not kind.has_ended(row):
                    kind.ended.discard(doc_id)  # a callback that is sent again, or a row that was deleted
                elif old is None or kind.renews or not kind.has_ended(old):
                    kind.ended.add(doc_id)
                is_of_charge = data.name == "deliveries" and row is not None
                if is_of_charge and (old is None or _is_pending(old) != _is_pending(row)):
                    self._note_charge(row["resource_id"])

    def _note_charge(self, charge_id: str) -> None:
        """A callback about this Charge became pending, or ended."""
        data, ended = self._store.table_data("charges"), self._kinds["charges"].ended
        doc_id = data.keys.get(charge_id)
        if doc_id is None:
            return
        ended.discard(doc_id)
        if self._charge_ended(data.rows[doc_id]):
            ended.add(doc_id)

    def _read(self) -> None:
        for name, kind in self._kinds.items():
            rows = self._store.table_data(name).rows.items()
            kind.ended.read([doc_id for doc_id, row in rows if kind.has_ended(row)])
        self._is_read = True

    def _kind(
        self,
        name: str,
        has_ended: Callable[[Row], bool],
        remove: Callable[[Row], bool],
        *,
        least: int = 0,
        renews: bool = False,
    ) -> _Kind:
        return _Kind(self._store.table(name), has_ended, remove, EndOrder(self._store, name), least, renews)

    def _charge_ended(self, row: Row) -> bool:
        deliveries = self._kinds["deliveries"].table
        return row["status"] in self._final.get("Charge", ()) and not deliveries.count_with(
            {"resource_id": row["id"], "status": PENDING}
        )

    def _static_ended(self, row: Row) -> bool:
        return row["status"] in self._final.get("StaticCharge", ())

    def _has_posts(self, row: Row) -> bool:
        return len(self._inbox(row)) > 0

    def _remove_posts(self, row: Row) -> bool:
        """Delete the oldest posts of a receiver; whether it has no others."""
        inbox = self._inbox(row)
        self._received.delete_first(row["id"], row["received"], _POSTS_PER_COMMIT)
        return len(inbox) == 0

    def _inbox(self, row: Row) -> Inbox:
        return Inbox(row["id"], self._received, row["received"])

    def _remove_static_charge(self, row: Row) -> bool:
        children = self._kinds["charges"].table.find("static_charge_id", row["id"])
        if not all(map(self._charge_ended, children)):
            return False
        return self._kinds["static_charges"].table.delete(row["id"])

    def _remove_from(self, name: str) -> Callable[[Row], bool]:
        table = self._store.table(name)
        return lambda row: table.delete(row["id"])

    def _remove_delivery(self, row: Row) -> bool:
        numbers = range(1, AttemptLog(cast(DeliveryRow, row)).attempt_count + 1)
        hits = [hit for number in numbers if self._fault_hits.row(hit := attempt_id(row["id"], number)) is not None]
        if hits and any(post["post"]["delivery_id"] == row["id"] for posts in self._posts for post in posts):
            return False
        for hit in hits:
            self._fault_hits.delete(hit)
        return self._kinds["deliveries"].table.delete(row["id"])

    def _remove_charge(self, row: Row) -> bool:
        invoice = self._invoices.row(row["payment_hash"])
        if invoice is not None:
            parts = invoice.get("parts", ())  # absent until a payment arrives
            if invoice["state"] not in ("SETTLED", "CANCELED") or any(part["state"] == "held" for part in parts):
                return False
            payments = self._kinds["payments"].table.find("payment_hash", invoice["payment_hash"])
            if not all(map(_payment_ended, payments)):
                return False  # over a network the result is on its way back to the payer, who gets the preimage
            self._invoices.delete(invoice["payment_hash"])
        return self._kinds["charges"].table.delete(row["id"])


def _payment_ended(row: Row) -> bool:
    return row["resolved_at"] is not None and all(attempt["resolved_at"] is not None for attempt in row["attempts"])


def _is_pending(row: Row) -> bool:
    return bool(row["status"] == PENDING)


def _delivery_ended(row: Row) -> bool:
    # A 410 disables the endpoint for as long as its row is kept.
    return not _is_pending(row) and not row.get("refused")
