"""Charges: creation, lookup, settlement, failure and expiry. A Charge is one row with its invoice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from leyden.server.callbacks.outbox import Outbox
from leyden.server.charges.lifecycle import Lifecycle, TransitionResult
from leyden.server.charges.lists import CHARGE, RemovedHint, by_keep, page, removed_from
from leyden.server.charges.request_values import (
    CHARGE_READS,
    ID_READS,
    MOST_CHARGE_S,
    PAGE_READS,
    amount_field,
    whole_field,
)
from leyden.server.charges.rows import ChargeRow, StaticChargeRow, WalletRow, charge_summary
from leyden.server.charges.wire_model import (
    CHARGE_NAMES,
    CHARGE_UPDATE_NAMES,
    charge_callback,
    charge_resource,
    echo,
    echoed_names,
    envelope,
    static_charge_callback,
)
from leyden.server.contract.bind import handles
from leyden.server.contract.types import CallbackRule, Contract
from leyden.server.errors import InvalidRequest, NotFound, StorageUnavailable
from leyden.server.http.corrections import other_kind, unknown_id
from leyden.server.http.request import Request
from leyden.server.ports import EXPIRY, Clock, EventJournal, FailedInvoice, InvoiceParams, LightningNode, SettledInvoice
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable

TIMER = "charge_expiry"


class ChargeService:
    """Creates Charges and moves them through the lifecycle of the spec's `Charge` table.

    A Charge that was requested through a Static Charge's LNURL is a Charge with a `static_charge_id`. Its parent gets
    the settlement through `on_child_settled` before the Charge completes, so that the callback has the new number of
    slots, and through `after_child_settled` afterwards.
    """

    def __init__(
        self,
        contract: Contract,
        store: Store,
        clock: Clock,
        node: LightningNode,
        outbox: Outbox,
        journal: EventJournal,
        new_id: Callable[[], str],
    ) -> None:
        self._clock = clock
        self._node = node
        self._outbox = outbox
        self._new_id = new_id
        self._echoed = echoed_names(contract, "createCharge", CHARGE_NAMES)
        self._static_charge_path = contract.path("getStaticChargeDetails", "")
        self._charge_rule = _rule(contract, "createCharge")
        self._static_charge_rule = _rule(contract, "createStaticCharge")
        indexes = ("payment_hash", "project", "internal_id", "status", "static_charge_id")
        self.charges = cast(TypedTable[ChargeRow], store.table("charges", key="id", indexes=indexes))
        self.charges.declare_summary(charge_summary)
        self.removed_hint: RemovedHint = by_keep
        self._wallets = cast(TypedTable[WalletRow], store.table("wallets", key="id"))
        self._parents = cast(TypedTable[StaticChargeRow], store.table("static_charges", key="id"))
        self.guards = {
            "before_expiry": lambda row, at: at < row["expires_at"],
            "at_or_before_expiry": lambda row, at: at <= row["expires_at"],
        }
        self.effects = {
            "issue_invoice": self._issue_invoice,
            "cancel_invoice": lambda draft, at: self._node.cancel(draft["payment_hash"]),
            "notify": self._notify,
        }
        self.lifecycle: Lifecycle[ChargeRow] = Lifecycle(
            contract.lifecycle("Charge"),
            triggers=("created", "payment_settled", "expiry_reached", "invoice_failed"),
            guards=self.guards,
            effects=self.effects,
            put=self.charges.put,
            journal=journal,
        )
        # The node must stop accepting payments exactly where the table does: ask the table about the instant of expiry.
        probe = {"status": self.lifecycle.table.initial, "expires_at": 0}
        self._grace_ms = 0 if self.lifecycle.decide(probe, "payment_settled", 0).to is not None else -1
        self.on_child_settled: Callable[[ChargeRow, int], None]
        self.after_child_settled: Callable[[ChargeRow, int], None]
        clock.on(TIMER, self.expire)
        node.on_settled(self.invoice_settled)
        node.on_failed(self.invoice_failed)

    # API operations

    @handles(
        raises=(InvalidRequest, StorageUnavailable),
        needs=("key", "body.amount", "body.description", "body.expiresIn"),
        reads=CHARGE_READS,
        computes=CHARGE_NAMES,
        sends=CHARGE_UPDATE_NAMES,
    )
    def create_charge(self, request: Request) -> dict[str, Any]:
        """Issue an invoice and store a pending Charge."""
        body = request.body
        charge = self.issue(
            project=request.project,
            amount_msat=amount_field(body, "amount"),
            description=body["description"],
            expiry_s=whole_field(body, "expiresIn", least=1, most=MOST_CHARGE_S),
            internal_id=body.get("internalId"),
            callback_url=body.get("callbackUrl"),
            extra=echo(self._echoed, body),
        )
        return envelope("Charge created", charge_resource(charge))

    @handles(raises=(NotFound,), needs=("key", "path.id"), reads=ID_READS)
    def get_charge_details(self, request: Request) -> dict[str, Any]:
        """One Charge of the caller's project."""
        return envelope("Charge found", charge_resource(self.find(request.project, request.path["id"])))

    @handles(raises=(InvalidRequest,), needs=("key", "query.limit"), reads=PAGE_READS)
    def list_charges(self, request: Request) -> dict[str, Any]:
        """The project's Charges, including those of its Static Charges."""
        return page(self.charges, request, charge_resource, CHARGE, "charge")

    @handles(needs=("key",), reads={})
    def get_wallet(self, request: Request) -> dict[str, Any]:
        """The balance: the amount that the project's invoices have received."""
        return envelope("Wallet", {"unit": "msats", "balance": str(self.balance_msat(request.project))})

    # Events from the node and the clock

    def invoice_settled(self, settled: SettledInvoice) -> None:
        """The invoice was paid: use a slot of the parent, if any, and complete the Charge."""
        charge = self._by_hash(settled.payment_hash)
        if charge["static_charge_id"] is not None:
            self.on_child_settled(charge, settled.settled_at)
        result = self._apply(
            charge,
            "payment_settled",
            settled.settled_at,
            confirmed_at=settled.settled_at,
            received_msat=settled.amount_msat,
            preimage=settled.preimage,
        )
        if not result.refused:
            balance = self.balance_msat(charge["project"]) + settled.amount_msat
            self._wallets.put({"id": charge["project"], "balance_msat": balance})
        if charge["static_charge_id"] is not None:
            self.after_child_settled(charge, settled.settled_at)

    def invoice_failed(self, failed: FailedInvoice) -> None:
        """The node can no longer settle the invoice."""
        self._apply(self._by_hash(failed.payment_hash), "invoice_failed", failed.failed_at, failure=failed.reason)

    def expire(self, charge_id: str) -> None:
        """The expiry of the Charge is reached."""
        self._apply(self.charges.existing(charge_id), "expiry_reached", self._clock.now())

    def resume(self) -> None:
        """Set the timers of all Charges that can expire, oldest first, for a store that was just opened."""
        table, now = self.lifecycle.table, self._clock.now()
        for state in [state for state in table.states if state not in table.terminal]:
            for row in self.charges.find("status", state):
                if self.lifecycle.awaits_expiry(row, now):
                    self._clock.call_at(row["expires_at"], EXPIRY, TIMER, row["id"])

    # Used by the other services

    def issue(
        self,
        *,
        project: str,
        amount_msat: int,
        description: str,
        expiry_s: int,
        internal_id: str | None = None,
        callback_url: str | None = None,
        static_charge_id: str | None = None,
        description_hash: bytes | None = None,
        comment: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> ChargeRow:
        """Create a Charge with its invoice. It expires `expiry_s` seconds after its creation.

        The creation time is the invoice's timestamp, which is in whole seconds (BOLT 11).
        """
        created_at = self._clock.now() // 1_000 * 1_000
        row: dict[str, Any] = {
            "id": self._new_id(),
            "project": project,
            "amount_msat": amount_msat,
            "description": description,
            "internal_id": internal_id,
            "callback_url": callback_url,
            "created_at": created_at,
            "expires_at": created_at + expiry_s * 1_000,
            "confirmed_at": None,
            "static_charge_id": static_charge_id,
        }
        # Seldom used fields are left out: the garbage collector does not track a row of plain values only.
        if extra:
            row["extra"] = dict(extra)
        if description_hash is not None:
            row["description_hash"] = description_hash.hex()
        if comment:
            row["comment"] = comment
        charge = self.lifecycle.apply(row, "created", created_at).resource
        self._clock.call_at(charge["expires_at"], EXPIRY, TIMER, charge["id"])
        return charge

    def find(self, project: str, charge_id: str) -> ChargeRow:
        """The project's Charge. Raises `NotFound`, for an unknown id and for another project's alike."""
        row = self.charges.row(charge_id)
        if row is None or row["project"] != project:
            static = self._parents.row(charge_id)
            if static is not None and static["project"] == project:
                raise NotFound(other_kind(charge_id, "Static Charge", self._static_charge_path))
            raise unknown_id(removed=removed_from(self.charges, self.removed_hint))
        return row

    def cancel_outstanding(self, static_charge_id: str, because: str) -> None:
        """Cancel every unpaid invoice of a Static Charge; its Charges stay pending until they expire. `because` is as
        in `LightningNode.cancel`."""
        for row in self.outstanding(static_charge_id):
            self._node.cancel(row["payment_hash"], because)
            self.charges.put({**row, "closed": True})

    def outstanding(self, static_charge_id: str) -> list[ChargeRow]:
        """The Static Charge's pending Charges whose invoices can still be paid."""
        pending, children = self.lifecycle.table.initial, self.charges.find("static_charge_id", static_charge_id)
        return [row for row in children if row["status"] == pending and "closed" not in row]

    def balance_msat(self, project: str) -> int:
        """The amount that the project's settled invoices received, in millisatoshis."""
        wallet = self._wallets.row(project)
        return 0 if wallet is None else wallet["balance_msat"]

    def _apply(self, charge: ChargeRow, trigger: str, at: int, **changes: Any) -> TransitionResult[ChargeRow]:
        result = self.lifecycle.apply(charge, trigger, at, **changes)
        if result.resource["status"] in self.lifecycle.table.terminal:
            self._clock.cancel(TIMER, charge["id"])
        return result

    def _issue_invoice(self, draft: Any, at: int) -> None:
        description_hash = draft.pop("description_hash", None)
        invoice = self._node.issue(
            InvoiceParams(
                amount_msat=draft["amount_msat"],
                description=draft["description"],
                description_hash=None if description_hash is None else bytes.fromhex(description_hash),
                timestamp_s=draft["created_at"] // 1_000,
                expiry_s=(draft["expires_at"] - draft["created_at"]) // 1_000,
                payable_until_ms=draft["expires_at"] + self._grace_ms,
            )
        )
        draft["payment_hash"] = invoice.payment_hash
        draft["request"] = invoice.request

    def _notify(self, draft: ChargeRow, at: int) -> None:
        url = draft["callback_url"]
        rule = self._charge_rule if draft["static_charge_id"] is None else self._static_charge_rule
        event = None if rule is None else rule.delivery.events.get(draft["status"])
        if not url or rule is None or event is None:
            return
        if draft["static_charge_id"] is None:
            data = charge_callback(draft)
        else:
            data = static_charge_callback(draft, self._parents.existing(draft["static_charge_id"]))
        draft["sequence"] = draft.get("sequence", 0) + 1
        self._outbox.enqueue(
            resource_id=draft["id"],
            endpoint_id=draft["static_charge_id"] or draft["id"],
            project=draft["project"],
            url=url,
            rule=rule,
            event=event,
            sequence=draft["sequence"],
            data=data,
            at=at,
        )

    def _by_hash(self, payment_hash: str) -> ChargeRow:
        row = self.charges.first("payment_hash", payment_hash)
        if row is None:
            raise LookupError(f"no charge has an invoice with payment hash {payment_hash}")
        return row


def _rule(contract: Contract, operation_id: str) -> CallbackRule | None:
    """The rule of the operation's callback; None when the document leaves the operation or its callback out."""
    operation = contract.operations.get(operation_id)
    return operation.callbacks[0] if operation is not None and operation.callbacks else None
