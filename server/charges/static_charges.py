"""Static Charges: one payment request that many may pay, and the slots that say how many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leyden.server.charges.charges import ChargeService
from leyden.server.charges.lifecycle import Lifecycle
from leyden.server.charges.lists import page
from leyden.server.charges.lnurl import encode_lnurl, pay_metadata
from leyden.server.charges.wire_model import charge_resource, echo, envelope, static_charge_resource
from leyden.server.contract.bind import handles
from leyden.server.contract.types import Contract
from leyden.server.errors import Conflict, FieldError, NotFound, SemanticConflict
from leyden.server.http.request import Request
from leyden.server.money import parse_msat
from leyden.server.ports import EXPIRY, Clock, EventJournal
from leyden.server.store.store import Store

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
_KNOWN = frozenset(_ROW_NAMES) | {"expiresIn", "identifier", "id", "status", "invoice", "slots"}


class StaticChargeService:
    """Creates Static Charges, counts their slots, and moves them through the spec's `StaticCharge` table.

    `public_url` gives the base of the addresses put into LNURLs. `name_taken` tells whether a lightning address's user
    part is in use anywhere on this server.
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
    ) -> None:
        self._clock = clock
        self._charges = charges
        self._new_id = new_id
        self.public_url = public_url
        self._lnurl_path = contract.operations["getPayRequest"].path
        self._echoed, self._editable = (
            tuple(name for name in contract.operations[operation_id].echoed if name not in _KNOWN)
            for operation_id in ("createStaticCharge", "updateStaticCharge")
        )
        self.static_charges = store.table(
            "static_charges", key="id", indexes=("project", "internal_id", "status", "user")
        )
        self.user_taken: Callable[[str], bool] = self.user_exists
        self.guards = {"slot_free": self._slot_free, "slot_unreserved": self._slot_unreserved}
        self.effects = {
            "take_slot": self._take_slot,
            "cancel_outstanding": lambda draft, at: self._charges.cancel_outstanding(draft["id"]),
            # The invoice is the child Charge's own effect; here the word only says that one may be asked for.
            "issue_invoice": lambda draft, at: None,
        }
        self.lifecycle = Lifecycle(
            contract.lifecycles["StaticCharge"],
            guards=self.guards,
            effects=self.effects,
            put=self.static_charges.put,
            journal=journal,
        )
        clock.on(TIMER, self.expire)
        charges.on_child_settled = self.payment_settled
        charges.after_child_settled = self.disable_if_full

    # What clients ask

    @handles(raises=(SemanticConflict, Conflict))
    def create_static_charge(self, call: Request) -> dict[str, Any]:
        """Store an active Static Charge and give out its LNURL."""
        body = call.body
        identifier = body.get("identifier")
        user = identifier.partition("@")[0] if identifier else None
        if user is not None and self.user_taken(user):
            detail = f"the name {user} is taken on this server: choose another"
            raise Conflict(detail, field_errors=[FieldError("/identifier", detail)])
        now = self._clock.now()
        span_s = int(body.get("expiresIn") or 0)
        row = {
            "id": self._new_id(),
            "project": call.project,
            **_fields(body, {}),
            "slots": 0,
            "identifier": identifier,
            "user": user,
            "created_at": now,
            "expires_at": now + span_s * 1_000 if span_s else None,
            "extra": echo(self._echoed, body),
        }
        row["metadata"] = pay_metadata(row["description"], identifier or None)
        static = self.lifecycle.apply(row, "created", now).resource
        if static["expires_at"] is not None:
            self._clock.call_at(static["expires_at"], EXPIRY, TIMER, static["id"])
        return envelope("Static charge created", self.show(static))

    @handles(raises=(NotFound,))
    def get_static_charge_details(self, call: Request) -> dict[str, Any]:
        """One Static Charge of the caller's project."""
        return envelope("Static charge found", self.show(self.find(call)))

    @handles(raises=(NotFound, SemanticConflict, Conflict))
    def update_static_charge(self, call: Request) -> dict[str, Any]:
        """Change what the caller named; the LNURL stays what it was. Raising `allowedSlots` may open it again."""
        static = self.find(call)
        now = self._clock.now()
        if static["status"] in self.lifecycle.table.terminal:
            raise Conflict("this static charge has expired and cannot be changed: create a new one")
        changed = {**static, **_fields(call.raw_body, static)}
        changed["extra"] = {
            **static["extra"],
            **echo([n for n in self._editable if n in call.raw_body], call.body),
        }
        changed["metadata"] = pay_metadata(changed["description"], static["identifier"] or None)
        self.static_charges.put(changed)
        full = not self._slot_free(changed, now)
        changed = self._apply(changed, "slots_filled" if full else "slots_reopened", now)
        return envelope("Static charge updated", self.show(changed))

    @handles()
    def list_static_charges(self, call: Request) -> dict[str, Any]:
        """The project's Static Charges."""
        return page(self.static_charges, call, self.show, "static charge")

    @handles(raises=(NotFound,))
    def list_static_charge_charges(self, call: Request) -> dict[str, Any]:
        """The Charges that payers asked for through one Static Charge."""
        static = self.find(call)
        return page(self._charges.charges, call, charge_resource, "charge", static_charge_id=static["id"])

    # What the world reports

    def payment_settled(self, charge: Mapping[str, Any], at: int) -> None:
        """A child Charge was paid: take its slot."""
        self._apply(self._parent(charge), "payment_settled", at)

    def disable_if_full(self, charge: Mapping[str, Any], at: int) -> None:
        """After a child's payment: with the last slot gone, no other invoice may be paid."""
        static = self._parent(charge)
        if not self._slot_free(static, at):
            self._apply(static, "slots_filled", at)

    def expire(self, static_charge_id: str) -> None:
        """The Static Charge's time is up."""
        self._apply(self.static_charges.existing(static_charge_id), "expiry_reached", self._clock.now())

    def resume(self) -> None:
        """Set the timers of every Static Charge that will expire: for a store that was just opened."""
        for row in self.static_charges:
            if row["expires_at"] is not None and row["status"] not in self.lifecycle.table.terminal:
                self._clock.call_at(row["expires_at"], EXPIRY, TIMER, row["id"])

    # What the house uses

    def show(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The resource; its LNURL leads to wherever this server is reached now."""
        return static_charge_resource(row, encode_lnurl(self.pay_url(row["id"])))

    def pay_url(self, static_charge_id: str) -> str:
        """The address behind the LNURL."""
        return self.public_url() + self._lnurl_path.replace("{id}", static_charge_id)

    def find(self, call: Request) -> dict[str, Any]:
        """The project's Static Charge named in the path, or `NotFound`."""
        row: dict[str, Any] | None = self.static_charges.row(call.path["id"])
        if row is None or row["project"] != call.project:
            raise NotFound("this API key has no resource with this id: check the id and the key")
        return row

    def by_user(self, user: str) -> dict[str, Any] | None:
        """The Static Charge behind a lightning address's user part, on this store."""
        return next(iter(self.static_charges.find("user", user)), None)

    def user_exists(self, user: str) -> bool:
        """Whether a Static Charge of this store has the user part."""
        return self.by_user(user) is not None

    def _parent(self, charge: Mapping[str, Any]) -> dict[str, Any]:
        return self.static_charges.existing(charge["static_charge_id"])

    def _apply(self, static: dict[str, Any], trigger: str, at: int) -> dict[str, Any]:
        # Slots are counted after every change, and mostly nothing follows: only what moves is applied.
        if self.lifecycle.decide(static, trigger, at).to is None:
            return static
        return self.lifecycle.apply(static, trigger, at).resource

    def _slot_free(self, row: Mapping[str, Any], at: int) -> bool:
        allowed = row["allowed_slots"]
        return allowed is None or row["slots"] < allowed

    def _slot_unreserved(self, row: Mapping[str, Any], at: int) -> bool:
        allowed = row["allowed_slots"]
        return allowed is None or row["slots"] + len(self._charges.outstanding(row["id"])) < allowed

    def _take_slot(self, draft: dict[str, Any], at: int) -> None:
        draft["slots"] += 1


def _fields(body: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The row fields the body names (all of them for a new row), checked against each other.

    Raises `Impossible` when the minimum exceeds the maximum, or fewer slots are allowed than payments were taken.
    """
    fields: dict[str, Any] = {}
    for wire, name in _ROW_NAMES.items():
        if wire in body or not before:
            value = body.get(wire)
            if name in {"min_msat", "max_msat"}:
                value = parse_msat(value)  # type: ignore[arg-type]
            elif name == "allowed_slots":
                value = int(value) if value else None
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
        detail = f"allowedSlots must be at least {before['slots']}, the payments already taken"
        raise SemanticConflict(detail, field_errors=[FieldError("/allowedSlots", detail)])
    return fields
