"""Static Charges: one payment request that can be paid repeatedly, limited by its slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from leyden.server.charges.charges import ChargeService
from leyden.server.charges.lifecycle import Lifecycle
from leyden.server.charges.lists import CHARGE, STATIC_CHARGE, page, removed_from
from leyden.server.charges.lnurl import encode_lnurl, pay_metadata
from leyden.server.charges.request_values import (
    CHANGES_READS,
    ID_READS,
    MOST_STATIC_CHARGE_S,
    PAGE_READS,
    STATIC_CHARGE_READS,
    amount_field,
    whole_field,
)
from leyden.server.charges.rows import ChargeRow, StaticChargeRow
from leyden.server.charges.wire_model import (
    STATIC_CHARGE_NAMES,
    STATIC_CHARGE_UPDATE_NAMES,
    charge_resource,
    echo,
    echoed_names,
    envelope,
    static_charge_resource,
)
from leyden.server.contract.bind import handles
from leyden.server.contract.types import Contract, LifecycleTable
from leyden.server.errors import Conflict, FieldError, InvalidRequest, NotFound, SemanticConflict, StorageUnavailable
from leyden.server.http.corrections import other_kind, unknown_id
from leyden.server.http.request import Request
from leyden.server.ports import EXPIRY, Clock, EventJournal
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable

TIMER = "static_charge_expiry"

_ROW_NAMES = {
    "minAmount": "min_msat",
    "maxAmount": "max_msat",
    "description": "description",
    "successMessage": "success_message",
    "allowedSlots": "allowed_slots",
    "internalId": "internal_id",
    "callbackUrl": "callback_url",
}


class StaticChargeService:
    """Creates Static Charges, counts their slots, and moves them through the spec's `StaticCharge` table.

    `public_url` returns the base URL for LNURLs. `user_taken` returns whether a user part of a lightning address is in
    use anywhere on this server.
    """

    def __init__(
        self,
        contract: Contract,
        store: Store,
        clock: Clock,
        charges: ChargeService,
        journal: EventJournal,
        new_id: Callable[[], str],
        public_url: Callable[[], str],
        user_taken: Callable[[str], bool] | None = None,
    ) -> None:
        self._clock = clock
        self._charges = charges
        self._new_id = new_id
        self.public_url = public_url
        self._charge_path = contract.path("getChargeDetails", "")
        self._lnurl_path = contract.path("getPayRequest", "/lnurlp/{id}")
        self._echoed = echoed_names(contract, "createStaticCharge", STATIC_CHARGE_NAMES)
        self._editable = echoed_names(contract, "updateStaticCharge", STATIC_CHARGE_NAMES)
        indexes = ("project", "internal_id", "status", "user")
        self.static_charges = cast(
            TypedTable[StaticChargeRow], store.table("static_charges", key="id", indexes=indexes)
        )
        self._user_taken = user_taken or self.user_exists
        self._is_changed = False  # whether what happens to a Static Charge now is caused by a change of its fields
        self.guards = {"slot_free": self._slot_free, "slot_unreserved": self._slot_unreserved}
        self.effects = {
            "take_slot": self._take_slot,
            "cancel_outstanding": self._cancel_outstanding,
            # The Charge of the payment issues the invoice; here the effect only states that one can be requested.
            "issue_invoice": lambda draft, at: None,
        }
        self.lifecycle: Lifecycle[StaticChargeRow] = Lifecycle(
            _lifecycle(contract),
            triggers=(
                "created",
                "invoice_requested",
                "payment_settled",
                "slots_filled",
                "slots_reopened",
                "expiry_reached",
            ),
            guards=self.guards,
            effects=self.effects,
            put=self.static_charges.put,
            journal=journal,
        )
        clock.on(TIMER, self.expire)
        charges.on_child_settled = self.payment_settled
        charges.after_child_settled = self.disable_if_full

    # API operations

    @handles(
        raises=(InvalidRequest, SemanticConflict, Conflict, StorageUnavailable),
        needs=("key", "body.minAmount", "body.maxAmount", "body.description"),
        reads=STATIC_CHARGE_READS,
        computes=STATIC_CHARGE_NAMES,
        sends=STATIC_CHARGE_UPDATE_NAMES,
    )
    def create_static_charge(self, request: Request) -> dict[str, Any]:
        """Store an active Static Charge and return its LNURL."""
        body = request.body
        identifier = body.get("identifier")
        user = identifier.partition("@")[0] if identifier else None
        if user is not None and self._user_taken(user):
            detail = (
                f"the user name {user} is in use below this URL, where it has to be unique whatever follows the @:"
                " choose another one"
            )
            raise Conflict(detail, field_errors=[FieldError("/identifier", detail)])
        now = self._clock.now()
        expires_in_s = whole_field(body, "expiresIn", most=MOST_STATIC_CHARGE_S)
        row: dict[str, Any] = {
            "id": self._new_id(),
            "project": request.project,
            **_fields(body, {}),
            "slots": 0,
            "identifier": identifier,
            "user": user,
            "created_at": now,
            "expires_at": now + expires_in_s * 1_000 if expires_in_s else None,
            "extra": echo(self._echoed, body),
        }
        row["metadata"] = pay_metadata(row["description"], identifier or None)
        static = self.lifecycle.apply(row, "created", now).resource
        if static["expires_at"] is not None:
            self._clock.call_at(static["expires_at"], EXPIRY, TIMER, static["id"])
        return envelope("Static charge created", self.show(static))

    @handles(raises=(NotFound,), needs=("key", "path.id"), reads=ID_READS)
    def get_static_charge_details(self, request: Request) -> dict[str, Any]:
        """One Static Charge of the caller's project."""
        return envelope("Static charge found", self.show(self.find(request)))

    @handles(
        raises=(InvalidRequest, NotFound, SemanticConflict, Conflict, StorageUnavailable),
        needs=("key", "path.id"),
        reads={**ID_READS, **CHANGES_READS},
        computes=STATIC_CHARGE_NAMES,
        is_partial=True,
    )
    def update_static_charge(self, request: Request) -> dict[str, Any]:
        """Change the fields in the request; the LNURL does not change. More `allowedSlots` can make it active again."""
        static = self.find(request)
        now = self._clock.now()
        if static["status"] in self.lifecycle.table.terminal:
            raise Conflict("this static charge has expired and cannot be changed: create a new one")
        # Neither a field that the document does not have, nor a default: a field that was left out keeps its value.
        sent = {name: value for name, value in request.raw_body.items() if name in request.body}
        changed = cast(StaticChargeRow, {**static, **_fields(sent, static)})
        changed["extra"] = {
            **static["extra"],
            **echo([name for name in self._editable if name in sent], request.body),
        }
        changed["metadata"] = pay_metadata(changed["description"], static["identifier"] or None)
        self.static_charges.put(changed)
        full = not self._slot_free(changed, now)
        self._is_changed = True
        try:
            changed = self._apply(changed, "slots_filled" if full else "slots_reopened", now)
        finally:
            self._is_changed = False
        return envelope("Static charge updated", self.show(changed))

    @handles(raises=(InvalidRequest,), needs=("key", "query.limit"), reads=PAGE_READS)
    def list_static_charges(self, request: Request) -> dict[str, Any]:
        """The project's Static Charges."""
        return page(self.static_charges, request, self.show, STATIC_CHARGE, "static charge")

    @handles(
        raises=(InvalidRequest, NotFound), needs=("key", "path.id", "query.limit"), reads={**ID_READS, **PAGE_READS}
    )
    def list_static_charge_charges(self, request: Request) -> dict[str, Any]:
        """The Charges that payers requested through one Static Charge."""
        static = self.find(request)
        return page(self._charges.charges, request, charge_resource, CHARGE, "charge", static_charge_id=static["id"])

    # Events from the Charges and the clock

    def payment_settled(self, charge: ChargeRow, at: int) -> None:
        """A Charge of this Static Charge was paid: use a slot."""
        self._apply(self._parent(charge), "payment_settled", at)

    def disable_if_full(self, charge: ChargeRow, at: int) -> None:
        """After a payment: when the last slot is used, no other invoice can be paid."""
        static = self._parent(charge)
        if not self._slot_free(static, at):
            self._apply(static, "slots_filled", at)

    def expire(self, static_charge_id: str) -> None:
        """The expiry of the Static Charge is reached."""
        self._apply(self.static_charges.existing(static_charge_id), "expiry_reached", self._clock.now())

    def resume(self) -> None:
        """Set the timers of all Static Charges that can expire, for a store that was just opened."""
        now = self._clock.now()
        for row in self.static_charges:
            if row["expires_at"] is not None and self.lifecycle.awaits_expiry(row, now):
                self._clock.call_at(row["expires_at"], EXPIRY, TIMER, row["id"])

    # Used by the other services

    def show(self, row: StaticChargeRow) -> dict[str, Any]:
        """The resource, with an LNURL for the server's present public URL."""
        return static_charge_resource(row, self.lnurl(row["id"]))

    def lnurl(self, static_charge_id: str) -> str:
        """The LNURL, in lower case, for the server's present public URL."""
        return encode_lnurl(self.pay_url(static_charge_id))

    def pay_url(self, static_charge_id: str) -> str:
        """The URL that the LNURL encodes."""
        return self.public_url() + self._lnurl_path.replace("{id}", static_charge_id)

    def find(self, request: Request) -> StaticChargeRow:
        """The project's Static Charge with the id in the path. Raises `NotFound`."""
        static_id = request.path["id"]
        row = self.static_charges.row(static_id)
        if row is None or row["project"] != request.project:
            charge = self._charges.charges.row(static_id)
            if charge is not None and charge["project"] == request.project:
                raise NotFound(other_kind(static_id, "Charge", self._charge_path))
            raise unknown_id(removed=removed_from(self.static_charges, self._charges.removed_hint))
        return row

    def by_user(self, user: str) -> StaticChargeRow | None:
        """The Static Charge with this user part of a lightning address, or None."""
        return self.static_charges.first("user", user)

    def identifier_of(self, user: str) -> str | None:
        """The lightning address with this user part that a Static Charge has, or None."""
        static = self.by_user(user)
        return None if static is None else static["identifier"]

    def user_exists(self, user: str) -> bool:
        """Whether a Static Charge of this service has the user part."""
        return self.by_user(user) is not None

    def _parent(self, charge: ChargeRow) -> StaticChargeRow:
        return self.static_charges.existing(charge["static_charge_id"])

    def _apply(self, static: StaticChargeRow, trigger: str, at: int) -> StaticChargeRow:
        # Most triggers are refused, because the slots are checked after every change: a refusal is not journaled.
        if self.lifecycle.decide(static, trigger, at).to is None:
            return static
        return self.lifecycle.apply(static, trigger, at).resource

    def _slot_free(self, row: StaticChargeRow, at: int) -> bool:
        allowed = row["allowed_slots"]
        return allowed is None or row["slots"] < allowed

    def _slot_unreserved(self, row: StaticChargeRow, at: int) -> bool:
        allowed = row["allowed_slots"]
        return allowed is None or row["slots"] + len(self._charges.outstanding(row["id"])) < allowed

    def _take_slot(self, draft: StaticChargeRow, at: int) -> None:
        draft["slots"] += 1

    def _cancel_outstanding(self, draft: StaticChargeRow, at: int) -> None:
        # The invoices keep the reason: it says what happened now, whatever is changed later.
        because, slots = "its Static Charge accepts no more payments", draft["allowed_slots"]
        if not self._slot_free(draft, at):
            allowed = "the one slot" if slots == 1 else f"the last of the {slots} slots"
            because = f"another payment took {allowed} that its Static Charge allowed then"
            if self._is_changed:
                because = f"allowedSlots of its Static Charge was changed to {slots}, and {draft['slots']} were used"
        self._charges.cancel_outstanding(draft["id"], because)


def _fields(body: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The row fields for the fields of the body, or all row fields when `before` is empty.

    Raises `InvalidRequest` for a value that no code reads, and `SemanticConflict` when the minimum is above the
    maximum, or when fewer slots are allowed than are used.
    """
    fields: dict[str, Any] = {}
    for wire, name in _ROW_NAMES.items():
        if wire in body or not before:
            value = body.get(wire)
            if name in {"min_msat", "max_msat"}:
                value = amount_field(body, wire)
            elif name == "allowed_slots":
                value = whole_field(body, wire) or None
            fields[name] = value
    after = {**before, **fields}
    if after["min_msat"] > after["max_msat"]:
        detail = (
            f"minAmount ({after['min_msat']}) is above maxAmount ({after['max_msat']}): lower one or raise the other"
        )
        raise SemanticConflict(
            detail, field_errors=[FieldError("/minAmount", detail), FieldError("/maxAmount", detail)]
        )
    allowed = fields.get("allowed_slots")
    if allowed is not None and allowed < before.get("slots", 0):
        detail = f"allowedSlots must be at least {before['slots']}, the slots already used"
        raise SemanticConflict(detail, field_errors=[FieldError("/allowedSlots", detail)])
    return fields


def _lifecycle(contract: Contract) -> LifecycleTable:
    """The document's table. It may leave it out when it leaves out the operation that creates Static Charges."""
    if "createStaticCharge" in contract.operations:
        return contract.lifecycle("StaticCharge")
    return contract.lifecycles.get("StaticCharge", LifecycleTable("StaticCharge", (), (), ()))
