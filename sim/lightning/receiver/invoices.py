"""Invoices at the receiver: each HTLC is checked in a fixed order and then waits, is held, failed or settled.

OPEN ----- complete -------------------------> SETTLED
  |------- complete, but held --> ACCEPTED --> SETTLED   (settled by the user)
  |                                  |-------> CANCELED  (every held part is failed)
  | <------ a part would expire -----'                   (every held part is failed)
  `------- cancelled ------------------------> CANCELED
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from leyden.errors import ArgumentError
from leyden.lightning.engine.htlc import (
    FAILED,
    FULFILLMENT_DEADLINE_BLOCKS,
    HELD,
    SETTLED,
    WAITING,
    Htlc,
    HtlcResolution,
    PaymentNotHeld,
    UnknownInvoice,
    explain,
)
from leyden.lightning.failure_codes import FailureCode
from leyden.lightning.receiver import set_reasons
from leyden.lightning.receiver.invoice_row import InvoiceRow, PartRow
from leyden.server.ports import EXPIRY, Clock, EventJournal, InvoiceParams, SettledInvoice
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable

MPP_TIMER = "mpp_timeout"
HOLD_TIMER = "hold_deadline"

# BOLT 4: one code for every refusal, so that a payer cannot tell them apart.
_REFUSED = FailureCode.INCORRECT_OR_UNKNOWN_PAYMENT_DETAILS

# BOLT 2 and BOLT 11 give a final delta of 18; nodes today require at least 19.
_MIN_FINAL_CLTV = 19

# What a block takes where no chain is simulated: Bitcoin's mean.
_BLOCK_MS = 600_000


@dataclass(frozen=True, slots=True)
class NodePolicy:
    """The receiver's options. Raises `ValueError` for what BOLT 4 forbids.

    `overpay`: `bolt` refuses a payment of more than twice the amount, `lnd` takes it. `mpp_timeout_ms` bounds the wait
    for the missing parts of a set (BOLT 4: at least 60 s). `min_final_cltv` is the invoice's `c`, in blocks. A held
    payment is failed back `hold_margin_blocks` before the first of its parts expires (BOLT 2: "18 blocks is
    reasonable"; LND's `invoices.holdexpirydelta` is 12).
    """

    overpay: str = "bolt"
    mpp_timeout_ms: int = 120_000
    min_final_cltv: int = 80
    hold_margin_blocks: int = FULFILLMENT_DEADLINE_BLOCKS

    def __post_init__(self) -> None:
        if self.overpay not in {"bolt", "lnd"}:
            raise ArgumentError(
                f"overpay is bolt (refuse more than twice the amount) or lnd (take it), not {self.overpay!r}"
            )
        if self.mpp_timeout_ms < 60_000:
            raise ArgumentError(f"mpp_timeout_ms must be at least 60000 (BOLT 4), not {self.mpp_timeout_ms}")
        if self.min_final_cltv < 1:
            raise ArgumentError(f"min_final_cltv must be at least 1 block, not {self.min_final_cltv}")
        least = max(_MIN_FINAL_CLTV, self.min_final_cltv)
        if not 1 <= self.hold_margin_blocks < least:
            raise ArgumentError(
                f"hold_margin_blocks must be at least 1 and below {least}, the fewest blocks that a payment arrives "
                f"with, not {self.hold_margin_blocks}"
            )


class Invoices:
    """The invoices of one node, in the store's `invoices` table by payment hash.

    `height` returns the present block height, `block_time` the instant (ms) at which the chain has a height; without
    it the height never changes, and a block takes ten minutes from the arrival of a part. `receive_htlc` returns the
    resolution of the HTLC that arrives; `on_resolution` reports those of the HTLCs that waited or were held.
    `removed_hint` is the end of an error about an unknown invoice: what removed some after their end, if any was.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        journal: EventJournal,
        policy: NodePolicy,
        height: Callable[[], int],
        block_time: Callable[[int], int] | None = None,
    ) -> None:
        self.policy = policy
        self.height = height
        self._block_time = block_time
        self._clock = clock
        self._journal = journal
        table = store.table("invoices", key="payment_hash", indexes=("state",))
        self._table = cast(TypedTable[InvoiceRow], table)
        self.removed_hint: Callable[[], str] = lambda: ""
        self._settlement_listeners: list[Callable[[SettledInvoice], None]] = []
        self._resolution_listeners: list[Callable[[HtlcResolution], None]] = []
        clock.on(MPP_TIMER, self._mpp_timed_out)
        clock.on(HOLD_TIMER, self._hold_ended)

    def on_settled(self, listener: Callable[[SettledInvoice], None]) -> None:
        """Register a listener for settlements; listeners are called in the order of registration."""
        self._settlement_listeners.append(listener)

    def on_resolution(self, listener: Callable[[HtlcResolution], None]) -> None:
        """Register a listener for the HTLCs that waited or were held; it ignores ids that it does not know."""
        self._resolution_listeners.append(listener)

    def row(self, payment_hash: str) -> InvoiceRow | None:
        """The stored invoice, or None."""
        stored = self._table.row(payment_hash)
        return None if stored is None else {**stored, "parts": _parts(stored)}

    @property
    def rows(self) -> TypedTable[InvoiceRow]:
        """The table of the invoices, to be read."""
        return self._table

    def open(
        self, params: InvoiceParams, payment_hash: str, preimage: str, payment_secret: str, request: str
    ) -> InvoiceRow:
        """Store a new invoice: it can be paid from now until `params.payable_until_ms`, that instant included."""
        row: InvoiceRow = {
            "payment_hash": payment_hash,
            "payment_secret": payment_secret,
            "preimage": preimage,
            "request": request,
            "amount_msat": params.amount_msat,
            "payable_until_ms": params.payable_until_ms,
            "expires_at": (params.timestamp_s + params.expiry_s) * 1_000,
            "state": "OPEN",
            "received_msat": 0,
            "opened_at": self._clock.now(),
            "accepted_at": None,
            "settled_at": None,
            "closed_at": None,
            "closed_because": None,
            "mpp_due_at": None,
        }
        self._table.put(row)
        self._journal.note("invoice_issued", payment_hash, amount_msat=params.amount_msat)
        return row

    def receive_htlc(self, htlc: Htlc) -> HtlcResolution:
        """Check an HTLC that reaches this node, in the order that payers can observe, and resolve it or let it wait.

        Raises `ValueError` for an amount of 0, which no channel carries (BOLT 2).
        """
        if htlc.amount_msat <= 0:
            raise ArgumentError(f"HTLC {htlc.id} carries {htlc.amount_msat} msat: a part carries at least 1 msat")
        stored = self._table.row(htlc.payment_hash)
        why = self._refusal(stored, htlc)
        if stored is None or why is not None:
            return self._refuse(stored, htlc, why or "unknown")
        now = self._clock.now()
        part: PartRow = {
            "id": htlc.id,
            "amount_msat": htlc.amount_msat,
            "total_msat": htlc.total_msat,
            "cltv_expiry": htlc.cltv_expiry,
            "hold": htlc.hold,
            "arrived_at": now,
            "state": HELD,
        }
        waiting = _held(stored)
        row: InvoiceRow = {**stored, "parts": [*_parts(stored), part]}
        # BOLT 4: a set is complete when its parts add up to the announced total, or to more.
        if sum(held["amount_msat"] for held in waiting) + htlc.amount_msat < htlc.total_msat:
            # BOLT 4: the timeout counts from the first part; later parts do not extend it. No part waits for longer
            # than it could be held.
            latest = now + self.policy.mpp_timeout_ms if row["mpp_due_at"] is None else row["mpp_due_at"]
            due_at = min(latest, self._deadline(part))
            if due_at != row["mpp_due_at"]:
                row["mpp_due_at"] = due_at
                self._clock.call_at(due_at, EXPIRY, MPP_TIMER, htlc.payment_hash)
            self._table.put(row)
            self._journal.note("htlc_waiting", htlc.payment_hash, htlc=htlc.id, amount_msat=htlc.amount_msat)
            return HtlcResolution(htlc.id, htlc.payment_hash, WAITING)
        if row["mpp_due_at"] is not None:
            row["mpp_due_at"] = None
            self._clock.cancel(MPP_TIMER, htlc.payment_hash)
        if htlc.hold or any(held["hold"] for held in waiting):
            row = {**row, "state": "ACCEPTED", "accepted_at": now, "holds_at": [*row.get("holds_at", ()), now]}
            self._table.put(row)
            self._clock.call_at(self._hold_deadline(row), EXPIRY, HOLD_TIMER, htlc.payment_hash)
            self._journal.note("invoice_accepted", htlc.payment_hash, parts=len(waiting) + 1)
            self._notify(waiting, HtlcResolution("", htlc.payment_hash, HELD))
            return HtlcResolution(htlc.id, htlc.payment_hash, HELD)
        self._settle(row, now, waiting)
        return HtlcResolution(htlc.id, htlc.payment_hash, SETTLED, preimage=row["preimage"])

    def settle(self, payment_hash: str) -> None:
        """Settle a held (ACCEPTED) invoice with its preimage.

        Raises `PaymentNotHeld` in another state, and after the last instant at which it may be paid: its charge expires
        at that instant, and must not be both.
        """
        row = self._existing_row(payment_hash)
        now = self._clock.now()
        if row["state"] != "ACCEPTED":
            raise PaymentNotHeld(f"the invoice is {row['state']}, not ACCEPTED: only a held payment can be settled")
        if now > row["payable_until_ms"]:
            raise PaymentNotHeld("the invoice can no longer be paid, and its held payment is failed: settle it earlier")
        self._settle(row, now, _held(row))

    def forget(self, payment_hash: str) -> None:
        """Delete an invoice that was settled or cancelled: from now on it is unknown. No effect on an unknown one."""
        self._table.delete(payment_hash)

    def cancel(self, payment_hash: str, because: str) -> bool:
        """Cancel an OPEN or ACCEPTED invoice and fail its held parts. Returns False, without effect, in a final state.

        `because` completes the sentence "the invoice was closed: ...". Raises `UnknownInvoice`.
        """
        row = self._existing_row(payment_hash)
        if row["state"] not in {"OPEN", "ACCEPTED"}:
            return False
        row = {**row, "state": "CANCELED", "closed_at": self._clock.now(), "closed_because": because}
        self._journal.note("invoice_canceled", payment_hash, because=because)
        self._fail_set(row, "canceled", lambda part: f"the receiver closed the invoice: {because}")
        return True

    def fail_waiting_parts(self, payment_hash: str, payment_id: str) -> None:
        """Fail the parts of an incomplete set, because this payment is cancelled; the invoice stays OPEN.

        Raises `PaymentNotHeld` if no part waits.
        """
        row = self._existing_row(payment_hash)
        if row["state"] != "OPEN" or not _held(row):
            raise PaymentNotHeld(f"no part of a payment waits for this invoice, which is {row['state']}")
        self._fail_set(row, "given_back", set_reasons.given_back(payment_id))

    def resume(self) -> None:
        """Set the timers of the incomplete sets and of the held payments, after the store was opened."""
        for row in self._table.find("state", "OPEN"):
            if row["mpp_due_at"] is not None:
                self._clock.call_at(row["mpp_due_at"], EXPIRY, MPP_TIMER, row["payment_hash"])
        self.set_hold_timers()

    def set_hold_timers(self) -> None:
        """Set the timers of the held payments: called when the times of coming blocks have changed."""
        for row in self._table.find("state", "ACCEPTED"):
            self._clock.call_at(self._hold_deadline(row), EXPIRY, HOLD_TIMER, row["payment_hash"])

    def min_cltv_expiry(self) -> int:
        """The lowest block height at which an HTLC that arrives now may expire."""
        return self.height() + max(_MIN_FINAL_CLTV, self.policy.min_final_cltv)

    def _refusal(self, row: InvoiceRow | None, htlc: Htlc) -> str | None:
        """The first check that fails, as a word that `explain` knows; None if none does. Tests observe the order."""
        if row is None or htlc.payment_secret is None:
            return "unknown"
        if row["state"] != "OPEN":
            # An expired invoice is also canceled; the analyst wants to read that it expired.
            late = row["state"] == "CANCELED" and (row["closed_at"] or 0) >= row["expires_at"]
            return "expired" if late else row["state"].lower()
        if self._clock.now() > row["payable_until_ms"]:
            return "expired"
        if htlc.payment_secret != row["payment_secret"]:
            return "secret"
        if htlc.total_msat <= 0:
            return "nothing"
        amount_msat, held = row["amount_msat"], _held(row)
        if htlc.total_msat < amount_msat:
            return "underpaid"
        # BOLT 4: fail an HTLC of more than twice the amount expected, which is `total_msat`: parts may bring more.
        if self.policy.overpay == "bolt" and htlc.total_msat > 2 * amount_msat:
            return "overpaid"
        if held and htlc.total_msat != held[0]["total_msat"]:
            return "other_total"
        if htlc.cltv_expiry < self.min_cltv_expiry():
            return "cltv"
        return None

    def _refuse(self, row: InvoiceRow | None, htlc: Htlc, why: str) -> HtlcResolution:
        reason = explain(why, row, htlc, self._clock.now(), min_cltv=self.min_cltv_expiry())
        if row is None:
            reason += self.removed_hint()
        self._journal.note("htlc_refused", htlc.payment_hash, htlc=htlc.id, why=why, code=_REFUSED)
        if why in {"underpaid", "other_total"} and row is not None and _held(row):
            # BOLT 4: these fail the whole set, with the parts that wait already.
            self._fail_set(row, "other_part", set_reasons.mismatch(row, htlc))
        return HtlcResolution(htlc.id, htlc.payment_hash, FAILED, _REFUSED, why, reason)

    def _settle(self, row: InvoiceRow, now: int, earlier: Sequence[PartRow]) -> None:
        """Store the settlement and report it; `earlier` are the parts that waited or were held."""
        parts: list[PartRow] = [{**part, "state": SETTLED} if part["state"] == HELD else part for part in _parts(row)]
        amounts = [part["amount_msat"] for part in parts if part["state"] == SETTLED]
        received_msat = sum(amounts)
        payment_hash, preimage = row["payment_hash"], row["preimage"]
        if row["state"] == "ACCEPTED":
            self._clock.cancel(HOLD_TIMER, payment_hash)
        self._table.put({**row, "state": "SETTLED", "settled_at": now, "received_msat": received_msat, "parts": parts})
        self._journal.note("invoice_settled", payment_hash, received_msat=received_msat, parts=len(amounts))
        settled = SettledInvoice(payment_hash, received_msat, now, preimage)
        for listener in self._settlement_listeners:
            listener(settled)
        self._notify(earlier, HtlcResolution("", payment_hash, SETTLED, preimage=preimage))

    def _fail_set(self, row: InvoiceRow, why: str, reason: set_reasons.Reason, code: int = _REFUSED) -> None:
        """Store the row with its held parts failed, and report each with its reason."""
        held = _held(row)
        row = {**row, "mpp_due_at": None}
        if held:
            row["parts"] = [{**part, "state": FAILED} if part["state"] == HELD else part for part in _parts(row)]
        self._clock.cancel(MPP_TIMER, row["payment_hash"])
        self._clock.cancel(HOLD_TIMER, row["payment_hash"])
        self._table.put(row)
        for part in held:
            self._journal.note("htlc_failed_back", row["payment_hash"], htlc=part["id"], why=why, code=code)
        for part in held:
            self._notify([part], HtlcResolution("", row["payment_hash"], FAILED, code, why, reason(part)))

    def _mpp_timed_out(self, payment_hash: str) -> None:
        row = self._existing_row(payment_hash)
        reason = set_reasons.timed_out(_held(row), self._clock.now())
        self._fail_set(row, "mpp_timeout", reason, code=FailureCode.MPP_TIMEOUT)

    def _hold_ended(self, payment_hash: str) -> None:
        """Fail a held payment back in time: the invoice is OPEN again.

        BOLT 2: "once the `cltv_expiry` of an incoming HTLC has been reached [...] MUST fail that incoming HTLC"; and a
        node "MUST fail (and not forward) an HTLC whose fulfillment deadline is already past".
        """
        row = self._existing_row(payment_hash)
        reason = set_reasons.held_too_long(_held(row), self.policy.hold_margin_blocks)
        self._fail_set({**row, "state": "OPEN", "accepted_at": None}, "held_too_long", reason)

    def returns_at(self, row: InvoiceRow) -> int | None:
        """The instant at which the held payment of an invoice is failed back, its expiry at the latest; None if it has
        none."""
        return min(self._hold_deadline(row), row["expires_at"]) if row["state"] == "ACCEPTED" else None

    def _hold_deadline(self, row: InvoiceRow) -> int:
        return min(self._deadline(part) for part in _held(row))

    def _deadline(self, part: PartRow) -> int:
        """The instant by which a part is fulfilled, or failed back."""
        height = part["cltv_expiry"] - self.policy.hold_margin_blocks
        if self._block_time is not None:
            return self._block_time(height)
        return part["arrived_at"] + (height - self.height()) * _BLOCK_MS

    def _notify(self, parts: Sequence[PartRow], resolution: HtlcResolution) -> None:
        """Report this resolution of each part."""
        for part in parts:
            for listener in self._resolution_listeners:
                listener(resolution._replace(htlc_id=part["id"]))

    def _existing_row(self, payment_hash: str) -> InvoiceRow:
        row = self._table.row(payment_hash)
        if row is None:
            raise UnknownInvoice(f"this node never issued an invoice with payment hash {payment_hash}")
        return row


def _parts(row: InvoiceRow) -> list[PartRow]:
    # Absent while none has arrived: the garbage collector does not track a row without containers.
    return row.get("parts", [])


def _held(row: InvoiceRow) -> list[PartRow]:
    return [part for part in _parts(row) if part["state"] == HELD]
