"""The records of the model, and how the service must show each.

Values that the service chooses (an id, an invoice, a preimage) are None until a response shows them; from then on they
must not change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from leyden.harness.model.rules import iso

# The default delay of a fault.
FAULT_DELAYS_MS = {
    "delay": 3_600_000,
    "reorder": 3_600_000,
    "burst": 60_000,
    "duplicate": 1_000,
    "duplicate_new_id": 1_000,
    "redeliver": 86_400_000,
    "stale_timestamp": 600_000,
    "future_timestamp": 600_000,
}


@dataclass(slots=True, eq=False)
class StaticCharge:
    """A Static Charge; `label` is its name in the steps, `history` its events: the time, the trigger, the new state.
    `former_internal_ids` are those that changes have replaced."""

    label: str
    project: str
    min_msat: int
    max_msat: int
    description: str
    success_message: str | None
    allowed: int | None
    internal_id: str | None
    callback_url: str | None
    identifier: str | None
    created_at: int
    expires_at: int | None
    slots: int = 0
    status: str = "active"
    id: str | None = None
    link: str | None = None
    metadata: str | None = None
    children: list[Charge] = field(default_factory=list)
    former_internal_ids: list[str] = field(default_factory=list)
    history: list[tuple[int, str, str]] = field(default_factory=list)

    @property
    def full(self) -> bool:
        """Whether no slot is free: settled payments count, nothing else does [slots]."""
        return self.allowed is not None and self.slots >= self.allowed

    def resource(self) -> dict[str, Any]:
        """The `data` of the response to GET."""
        return {
            "id": self.id,
            "unit": "msats",
            "slots": self.slots,
            "minAmount": str(self.min_msat),
            "maxAmount": str(self.max_msat),
            "createdAt": iso(self.created_at),
            "expiresAt": None if self.expires_at is None else iso(self.expires_at),
            "internalId": self.internal_id,
            "description": self.description,
            "callbackUrl": self.callback_url,
            "allowedSlots": self.allowed,
            "successMessage": self.success_message,
            "identifier": self.identifier,
            "status": self.status,
            "invoice": {"request": self.link, "uri": f"lightning:{self.link}"},
        }


@dataclass(slots=True, eq=False)
class Charge:
    """A Charge. `invoice` is the state of its invoice at the node: open, held, settled or cancelled. `history` has its
    events: the time, the trigger, the new state. `waiting` are payments of which a part is missing."""

    label: str
    project: str
    amount_msat: int
    description: str
    internal_id: str | None
    callback_url: str | None
    created_at: int
    expires_at: int
    parent: StaticCharge | None = None
    status: str = "pending"
    confirmed_at: int | None = None
    invoice: str = "open"
    held: Payment | None = None
    waiting: list[Payment] = field(default_factory=list)
    id: str | None = None
    request: str | None = None
    payment_hash: str | None = None
    preimage: str | None = None
    metadata: str | None = None
    delivery: Delivery | None = None
    history: list[tuple[int, str, str]] = field(default_factory=list)

    def resource(self) -> dict[str, Any]:
        """The `data` of the response to GET."""
        expires_at = iso(self.expires_at)
        return {
            "id": self.id,
            "unit": "msats",
            "amount": str(self.amount_msat),
            "status": self.status,
            "description": self.description,
            "internalId": self.internal_id,
            "callbackUrl": self.callback_url,
            "createdAt": iso(self.created_at),
            "expiresAt": expires_at,
            "confirmedAt": None if self.confirmed_at is None else iso(self.confirmed_at),
            "staticChargeId": None if self.parent is None else self.parent.id,
            "invoice": {"request": self.request, "uri": f"lightning:{self.request}", "expiresAt": expires_at},
        }

    def update(self) -> dict[str, Any]:
        """The body of a callback about the Charge in its present state [callback-body]."""
        body = {**self.resource(), "invoice": {"request": self.request}}
        del body["staticChargeId"]
        if self.confirmed_at is None:
            del body["confirmedAt"]
        if self.parent is not None:
            body.update(staticChargeId=self.parent.id, slots=self.parent.slots, allowedSlots=self.parent.allowed)
        return body


@dataclass(slots=True, eq=False)
class Payment:
    """A payment. `status` is in_flight, held, succeeded or failed, as the control plane shows it."""

    label: str
    charge: Charge
    amount_msat: int
    outcome: str
    created_at: int
    status: str = "in_flight"
    is_delayed: bool = False
    started_at: int | None = None
    resolved_at: int | None = None
    held_at: int | None = None
    id: str | None = None


@dataclass(slots=True, eq=False)
class Attempt:
    """One attempt of a delivery. `fault` is the kind of the fault that applied to it, `changed_by` the one that changed
    or dropped its message, and `earlier_secret` the secret before the last rotation. `overtaken` is what it releases
    when it ends: deliveries with the numbers of their attempts. `answer` is the text of the reply."""

    number: int
    due_at: int
    at: int
    secrets: list[str]
    ended_at: int | None = None
    status: int | None = None
    error: str | None = None
    latency_ms: int = 0
    fault: str | None = None
    changed_by: Fault | None = None
    earlier_secret: str | None = None
    overtaken: list[tuple[Delivery, int]] = field(default_factory=list)
    answer: str = ""
    answer_headers: tuple[tuple[str, str], ...] = ()
    headers_left_out: int = 0


@dataclass(slots=True, eq=False)
class Delivery:
    """One callback and its attempts. `status` is pending, delivered, exhausted, stopped or blocked."""

    charge: Charge
    endpoint: object
    url: str
    event: str
    body: dict[str, Any]
    created_at: int
    due_at: int | None
    status: str = "pending"
    attempts: list[Attempt] = field(default_factory=list)
    replayed_from: int | None = None
    schedule_version: int = 0
    id: str | None = None
    text: str | None = None

    @property
    def is_in_flight(self) -> bool:
        """Whether an attempt has no reply yet."""
        return bool(self.attempts) and self.attempts[-1].ended_at is None

    @property
    def is_stopped_by_another(self) -> bool:
        """Whether it is stopped, and the 410 was the answer to another delivery."""
        return self.status == "stopped" and not (self.attempts and self.attempts[-1].status == 410)


@dataclass(slots=True, eq=False)
class Fault:
    """A fault that applies `left` more times. `until` is the time until which a burst holds what it has held last.

    `given_ms` is its `delay`, `value` its `value` and `names` its `headers`; None where they were left out.
    """

    kind: str
    left: int
    event: str | None = None
    charge: str | None = None
    attempt: int | None = None
    until: int | None = None
    given_ms: int | None = None
    value: str | None = None
    names: tuple[str, ...] | None = None
    id: str | None = None

    @property
    def delay_ms(self) -> int:
        """The delay of this fault, by default that of its kind; 0 if it has none."""
        return FAULT_DELAYS_MS.get(self.kind, 0) if self.given_ms is None else self.given_ms

    def matches(self, delivery: Delivery, number: int) -> bool:
        """Whether it applies to this attempt."""
        return (
            self.left > 0
            and self.event in (None, delivery.event)
            and self.attempt in (None, number)
            and self.charge in (None, delivery.charge.label, getattr(delivery.endpoint, "label", None))
        )


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A callback request that a receiver must have got: at which time, of which delivery, as which attempt.

    `fault` is the one that changed the message, or that sent this copy of it. `secrets` are those that sign now.
    """

    at: int
    delivery: Delivery
    number: int
    fault: Fault | None
    is_copy: bool
    secrets: list[str]
