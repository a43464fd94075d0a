"""Payments as the payer sees them: a payment request, a script of what it does, and the outcome."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Unpack, cast

from leyden.errors import PaymentError
from leyden.lightning.engine.htlc import (
    FAILED,
    HELD,
    SETTLED,
    WAITING,
    Htlc,
    HtlcResolution,
    PaymentNotHeld,
)
from leyden.lightning.failure_codes import FAILURE_NAMES, GOOD, FailureCode
from leyden.lightning.payer.payment_rows import AttemptRow, PaymentRow, RouteFields, payment_summary
from leyden.lightning.payer.payment_scripts import (
    amount_to_send,
    build_script,
    expired_reason,
    part_amount,
    scripted_reason,
)
from leyden.lightning.receiver.node import DirectNode
from leyden.rng import uuid4_from
from leyden.server.ports import SETTLEMENT, USER, Clock, EventJournal, RandomSource
from leyden.server.store.rows import CommitParticipant
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable

TIMER = "payment"
PATIENCE_TIMER = "payment_patience"

_IN_FLIGHT, _SUCCEEDED = "in_flight", "succeeded"


class Payments:
    """Payments that reach a node directly, each by a script, in the store's `payments` table.

    A payment's `status` is `in_flight`, `held`, `succeeded` or `failed`; its `outcome`, once it has ended, `SUCCEEDED`,
    `TIMEOUT`, `NO_ROUTE`, `INCORRECT_PAYMENT_DETAILS`, `INSUFFICIENT_BALANCE`, `CANCELED` or `ERROR` (the payer's or
    the receiver's node failed, or the wallet did not start the payment). `reason` is a sentence that a real payer would
    not receive. `random_source` gives the ids.
    """

    def __init__(
        self, store: Store, clock: Clock, node: DirectNode, random_source: RandomSource, journal: EventJournal
    ) -> None:
        indexes = ("payment_hash", "status", "payer", "refused_request")
        self.rows = cast(TypedTable[PaymentRow], store.table("payments", key="id", indexes=indexes))
        self.rows.declare_summary(payment_summary)
        self._clock = clock
        self._node = node
        self._random_source = random_source
        self._journal = journal
        clock.on(TIMER, self._send)
        clock.on(PATIENCE_TIMER, self._give_up)
        node.invoices.on_resolution(self._htlc_resolved)

    @property
    def participants(self) -> tuple[CommitParticipant, ...]:
        """What changes with the payments, in memory, and is undone with a commit."""
        return ()

    def pay(
        self,
        request: str,
        *,
        payer: str = "wallet",
        amount_msat: int | None = None,
        outcome: str = "settle",
        failure: str = "NO_ROUTE",
        delay_ms: int = 0,
        parts: int = 1,
        gap_ms: int = 0,
        payment_secret: bytes | None = None,
        cltv_blocks: int | None = None,
        patience_ms: int | None = 60_000,
        scheduled: bool = False,
        late: bool = False,
    ) -> PaymentRow:
        """Pay a BOLT11 request and return the payment's row.

        `outcome` is the script: `settle`; `hold` (the receiver withholds the preimage until `settle` or `cancel`,
        and returns the payment when its HTLCs come near to their expiry: see `leyden.lightning.receiver.invoices`);
        `incomplete` (the last of at least two parts is never sent); `wrong_secret`; `underpay` (1 msat too little);
        `overpay` (half as much again); `overpay_double` (1 msat more than twice); `fail` (never reaches the receiver,
        and ends with `failure`). A given `amount_msat` is sent with every script.
        The first of 1 to 16 `parts` arrives after `delay_ms`, each other one `gap_ms` after the one before it.
        `payment_secret` replaces the invoice's; `cltv_blocks` is how many blocks the parts live.
        `patience_ms` after the first part the payer gives up (None: never); parts in flight may still arrive.
        Without a delay the payment arrives before this returns, or with `scheduled` as soon as time moves.
        The wallet does not start to pay an invoice that has expired: the payment fails with `ERROR`. With `late` it
        does. The wallet decides when this is called: what it sends after a delay may arrive after the expiry.
        Raises `Bolt11Error` for an invalid invoice, `PaymentError` for an invalid script.
        """
        invoice = self._node.terms(request)
        sent_msat = amount_to_send(outcome, invoice.amount_msat, amount_msat)
        if delay_ms < 0 or gap_ms < 0 or (patience_ms is not None and patience_ms < 0):
            raise PaymentError("delay_ms, gap_ms and patience_ms must be 0 or more")
        # The payer adds the invoice's own delta to the present height (BOLT 11, field c).
        blocks = invoice.min_final_cltv if cltv_blocks is None else cltv_blocks
        script = build_script(outcome, failure, sent_msat, parts, gap_ms, payment_secret or invoice.payment_secret)
        now = self._clock.now()
        row = self._new_row(request, payer, sent_msat, now)
        payment_hash = invoice.payment_hash.hex()
        issued = self._node.invoices.row(payment_hash)
        # The text of the node's own invoice, if it is one: an index has each text, and two would take twice the memory.
        row["payment_hash"] = payment_hash if issued is None else issued["payment_hash"]
        row["script"] = {**script, "cltv_expiry": self._node.invoices.height() + blocks, "blocks": blocks}
        if now > invoice.expires_at_ms and not late:
            # BOLT 11, a payer: "after the timestamp plus expiry has passed: SHOULD NOT attempt a payment".
            return self._end(row, FAILED, "ERROR", expired_reason(invoice.expires_at_ms))
        later = scheduled or delay_ms > 0
        if delay_ms > 0:
            row["starts_at"] = now + delay_ms
        row["next_part_at"] = now + delay_ms
        row["gives_up_at"] = None if patience_ms is None else now + delay_ms + patience_ms
        self.rows.put(row)
        if delay_ms > 0:
            self._note(row, "payment_scheduled", starts_at=row["starts_at"])
        else:
            self._note(row, "payment_started")
        if later:
            self._clock.call_at(now + delay_ms, SETTLEMENT, TIMER, row["id"])
        else:
            self._send(row["id"])
            row = self._existing_row(row["id"])
        if row["gives_up_at"] is not None and row["outcome"] is None:
            self._clock.call_at(row["gives_up_at"], USER, PATIENCE_TIMER, row["id"])
        return row

    def record_refusal(
        self, request: str, amount_msat: int | None, reason: str, *, payer: str = "wallet"
    ) -> PaymentRow:
        """Record a payment that the wallet refused to start, with the reason."""
        # Imported here: it needs the codec of invoices, which a server needs only later.
        from leyden.lightning.payer.payment_requests import strip_scheme

        now = self._clock.now()
        row = self._new_row(request, payer, amount_msat, now)
        row["refused_request"] = strip_scheme(request).lower()
        return self._end(row, FAILED, "ERROR", reason)

    def settle(self, payment_id: str) -> PaymentRow:
        """Let the receiver settle a held payment. Raises `PaymentNotHeld`: not held, or too late."""
        row = self._existing_row(payment_id)
        if row["status"] != HELD:
            raise PaymentNotHeld(f"payment {payment_id} is {row['status']}: only a held one can be settled")
        assert row["payment_hash"] is not None
        self._check_is_held(row)
        self._node.invoices.settle(row["payment_hash"])
        return self._existing_row(payment_id)

    def cancel(self, payment_id: str) -> PaymentRow:
        """Cancel a payment that has not ended. Raises `PaymentNotHeld` for one that has.

        The receiver's node fails a held payment and reports its invoice as failed. A payment that was not sent yet is
        not sent, and parts that wait for others are failed: the invoice stays open in both cases.
        """
        row = self._existing_row(payment_id)
        if row["status"] == HELD:
            assert row["payment_hash"] is not None
            self._check_is_held(row)
            self._node.fail_invoice(row["payment_hash"], "the node failed the payment it held")
        elif row["status"] != _IN_FLIGHT:
            raise PaymentNotHeld(f"payment {payment_id} has already {row['status']}: nothing is left to cancel")
        elif any(attempt["status"] == WAITING for attempt in row["attempts"]):
            self._fail_waiting_parts(row)
        else:
            self._end(row, FAILED, "CANCELED", "the payment was cancelled before it reached the receiver")
        return self._existing_row(payment_id)

    def _check_is_held(self, row: PaymentRow) -> None:
        """Raise `PaymentNotHeld` when the receiver has decided already: a payer at a distance learns that later."""
        assert row["payment_hash"] is not None
        invoice = self._node.invoices.row(row["payment_hash"])
        state = "unknown" if invoice is None else invoice["state"]
        if state != "ACCEPTED":
            what = "settled" if state == "SETTLED" else "returned"
            raise PaymentNotHeld(
                f"the receiver has {what} payment {row['id']}, whose invoice is {state}: the payer learns that when "
                "the result arrives"
            )

    @property
    def has_long_searches(self) -> bool:
        """Whether an event can raise `SearchNeeded`: of direct payments, none does."""
        return False

    def searches_deferred(self, is_over: Callable[[], bool]) -> AbstractContextManager[None]:
        """A context in which an event raises `SearchNeeded` for a long search, as `Searches.deferred` says."""
        return nullcontext()

    def begin(self) -> None:
        """Start what a new world starts by itself: of direct payments, nothing."""

    def discard(self) -> None:
        """The world has ended: free what takes much memory. Of direct payments, nothing does."""

    def resume(self) -> None:
        """Set the timers of the payments that have not ended, after the store was opened."""
        for status in (_IN_FLIGHT, HELD):
            for row in self.rows.find("status", status):
                if row["next_part_at"] is not None:
                    self._clock.call_at(row["next_part_at"], SETTLEMENT, TIMER, row["id"])
                if row["gives_up_at"] is not None and row["gave_up_at"] is None:
                    self._clock.call_at(row["gives_up_at"], USER, PATIENCE_TIMER, row["id"])

    # Timers and resolutions

    def _send(self, payment_id: str) -> None:
        """Send the next part to the receiver, and all others too if there is no gap between them."""
        while True:
            row = self._existing_row(payment_id)
            script, number = row["script"], len(row["attempts"])
            if row["next_part_at"] is None:
                return
            assert script is not None
            assert row["amount_msat"] is not None
            if number == 0 and "starts_at" in row:
                self._note(row, "payment_started")
            if script["outcome"] == "fail":
                self._end(row, FAILED, script["failure"], scripted_reason(script["failure"]))
                return
            now, last = self._clock.now(), number + 1 >= script["sent_parts"]
            amount_msat = part_amount(row["amount_msat"], script["parts"], number)
            htlc = self._htlc(row, number, amount_msat, script["cltv_expiry"])
            attempt = self._new_attempt(number, amount_msat)
            next_at = None if last else now + script["gap_ms"]
            sent: PaymentRow = {**row, "attempts": [*row["attempts"], attempt], "next_part_at": next_at}
            if number or not last:  # the receiver may resolve other parts first, by their stored row
                self.rows.put(sent)
                self._htlc_resolved(self._node.invoices.receive_htlc(htlc))
            else:
                self._record_resolution(sent, number, self._node.invoices.receive_htlc(htlc))
            if next_at is not None and next_at > now:
                if self._existing_row(payment_id)["next_part_at"] is not None:
                    self._clock.call_at(next_at, SETTLEMENT, TIMER, payment_id)
                return

    def _htlc_resolved(self, resolution: HtlcResolution) -> None:
        """A part was resolved, or waits or is held."""
        payment_id, _, number = resolution.htlc_id.rpartition(":")
        found = self.rows.row(payment_id)
        if found is not None:  # else the HTLC is not one of ours
            self._record_resolution(found, int(number), resolution)

    def _record_resolution(self, payment: PaymentRow, number: int, resolution: HtlcResolution) -> None:
        """Store what follows for a payment from the resolution of its part `number`."""
        attempts = list(payment["attempts"])
        attempt: AttemptRow = {**attempts[number], "status": resolution.status}
        attempts[number] = attempt
        if resolution.status in {SETTLED, FAILED}:
            attempt["resolved_at"] = self._clock.now()
        row: PaymentRow = {**payment, "attempts": attempts}
        if resolution.status == FAILED:
            # BOLT 4: only the final node sends these two codes, so the route is known to be good.
            attempt["source"], attempt["learned"] = "final", GOOD
            attempt["code"], attempt["name"] = resolution.code, FAILURE_NAMES.get(resolution.code or 0)
            attempt["why"], attempt["reason"] = resolution.why, resolution.reason
            row["next_part_at"] = None  # after a refusal by the receiver no part can help
            row["reason"] = row["reason"] or resolution.reason
        elif resolution.status == SETTLED:
            attempt["learned"] = GOOD
            row["preimage"] = resolution.preimage
            row["received_msat"] += attempt["amount_msat"]
            row["next_part_at"] = None  # with the preimage the payment has succeeded
        self._update_status(row, resolution)

    def _update_status(self, row: PaymentRow, resolution: HtlcResolution) -> None:
        """Store the status that follows from those of the parts."""
        kinds = {attempt["status"] for attempt in row["attempts"]}
        if kinds & {_IN_FLIGHT, WAITING, HELD} or row["next_part_at"] is not None:
            held = HELD in kinds and not kinds & {_IN_FLIGHT, WAITING}
            if held and row["status"] != HELD:
                self._journal.note("payment_held", row["id"])
            self.rows.put({**row, "status": HELD if held else _IN_FLIGHT})
        elif SETTLED in kinds:
            # The HTLC decides: a payer that gave up has paid nevertheless.
            self._end(row, _SUCCEEDED, "SUCCEEDED", None)
        elif row["gave_up_at"] is not None or resolution.code == FailureCode.MPP_TIMEOUT:
            self._end(row, FAILED, "TIMEOUT", row["reason"])
        else:
            self._end(row, FAILED, "INCORRECT_PAYMENT_DETAILS", row["reason"])

    def _give_up(self, payment_id: str) -> None:
        """The payer's timeout: no further part is sent, but those in flight decide."""
        row = self._existing_row(payment_id)
        self.rows.put({**row, "gave_up_at": self._clock.now(), "next_part_at": None})
        self._clock.cancel(TIMER, payment_id)
        self._journal.note("payment_given_up", payment_id)

    def _end(self, row: PaymentRow, status: str, outcome: str, reason: str | None) -> PaymentRow:
        ended: PaymentRow = {
            **row,
            "status": status,
            "outcome": outcome,
            "reason": reason,
            "resolved_at": self._clock.now(),
            "next_part_at": None,
        }
        self._clock.cancel(TIMER, row["id"])
        self._clock.cancel(PATIENCE_TIMER, row["id"])
        self.rows.put(ended)
        facts = {"received_msat": row["received_msat"]} if status == _SUCCEEDED else {"reason": reason}
        self._journal.note(f"payment_{status}", row["id"], outcome=outcome, **facts)
        return ended

    def _note(self, row: PaymentRow, kind: str, **more: Any) -> None:
        facts = {"payment_hash": row["payment_hash"], "amount_msat": row["amount_msat"], "payer": row["payer"]}
        self._journal.note(kind, row["id"], **facts, **more)

    def _new_row(self, request: str, payer: str, amount_msat: int | None, now: int) -> PaymentRow:
        return {
            "id": uuid4_from(self._random_source),
            "payer": payer,
            "request": request,
            "payment_hash": None,
            "amount_msat": amount_msat,
            "received_msat": 0,
            "status": _IN_FLIGHT,
            "outcome": None,
            "reason": None,
            "preimage": None,
            "created_at": now,
            "resolved_at": None,
            "gives_up_at": None,
            "gave_up_at": None,
            "next_part_at": None,
            "script": None,
            "attempts": [],
        }

    def _new_attempt(self, number: int, amount_msat: int, **routed: Unpack[RouteFields]) -> AttemptRow:
        """The attempt of a part that is sent now; `routed` are the facts that only a routed one has."""
        return {
            "part": number,
            "at": self._clock.now(),
            "amount_msat": amount_msat,
            **routed,
            "status": _IN_FLIGHT,
            "source": None,
            "code": None,
            "name": None,
            "why": None,
            "reason": None,
            "retried": False,
            "learned": None,
            "resolved_at": None,
        }

    def _htlc(self, row: PaymentRow, number: int, amount_msat: int, cltv_expiry: int) -> Htlc:
        """The HTLC of part `number` at the receiver."""
        script = row["script"]
        assert row["payment_hash"] is not None
        assert row["amount_msat"] is not None
        assert script is not None
        return Htlc(
            id=f"{row['id']}:{number}",
            payment_hash=row["payment_hash"],
            payment_secret=script["payment_secret"],
            amount_msat=amount_msat,
            total_msat=row["amount_msat"],
            cltv_expiry=cltv_expiry,
            hold=script["outcome"] == "hold",
        )

    def _fail_waiting_parts(self, row: PaymentRow) -> None:
        assert row["payment_hash"] is not None
        self._node.invoices.fail_waiting_parts(row["payment_hash"], row["id"])

    def _existing_row(self, payment_id: str) -> PaymentRow:
        row = self.rows.row(payment_id)
        if row is None:
            raise PaymentError(f"there is no payment {payment_id}: list the payments to see which there are")
        return row
