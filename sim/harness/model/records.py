"""What the model remembers of each thing, and how the service must show it.

What only the service can choose (an id, an invoice, a preimage) is None until it is seen for the first time, and held
from then on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from leyden.harness.model.rules import iso


@dataclass(slots=True, eq=False)
class Static:
    """A Static Charge, by the label that the steps call it."""

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

    @property
    def full(self) -> bool:
        """Whether no slot is free: settled payments count, nothing else does [slots]."""
        return self.allowed is not None and self.slots >= self.allowed

    def resource(self) -> dict[str, Any]:
        """What GET answers as `data`."""
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
    """A Charge. `invoice` is what its node would say: open, held, settled or cancelled."""

    label: str
    project: str
    amount_msat: int
    description: str
    internal_id: str | None
    callback_url: str | None
    created_at: int
    expires_at: int
    parent: Static | None = None
    status: str = "pending"
    confirmed_at: int | None = None
    invoice: str = "open"
    held: Payment | None = None
    id: str | None = None
    request: str | None = None
    payment_hash: str | None = None
    preimage: str | None = None
    metadata: str | None = None
    delivery: Delivery | None = None

    def resource(self) -> dict[str, Any]:
        """What GET answers as `data`."""
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
        """What a callback about the Charge as it is now must carry [callback-body]."""
        body: dict[str, Any] = {
            "id": self.id,
            "unit": "msats",
            "amount": str(self.amount_msat),
            "status": self.status,
            "description": self.description,
            "internalId": self.internal_id,
            "callbackUrl": self.callback_url,
            "createdAt": iso(self.created_at),
            "expiresAt": iso(self.expires_at),
            "invoice": {"request": self.request},
        }
        if self.confirmed_at is not None:
            body["confirmedAt"] = iso(self.confirmed_at)
        if self.parent is not None:
            body.update(staticChargeId=self.parent.id, slots=self.parent.slots, allowedSlots=self.parent.allowed)
        return body


@dataclass(slots=True, eq=False)
class Payment:
    """Somebody's attempt to pay. `status` is in_flight, held, succeeded or failed, as the control plane says it."""

    label: str
    charge: Charge
    amount_msat: int
    outcome: str
    created_at: int
    status: str = "in_flight"
    resolved_at: int | None = None
    id: str | None = None


@dataclass(slots=True, eq=False)
class Attempt:
    """One POST of a message. `fault` is the kind that struck it."""

    number: int
    due_at: int
    at: int
    secrets: list[str]
    ended_at: int | None = None
    status: int | None = None
    error: str | None = None
    latency_ms: int = 0
    fault: str | None = None


@dataclass(slots=True, eq=False)
class Delivery:
    """One message and its attempts. `status` is pending, delivered, exhausted, stopped or blocked."""

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
    round: int = 0
    id: str | None = None
    text: str | None = None

    @property
    def awaited(self) -> bool:
        """Whether an attempt was sent and not yet answered."""
        return bool(self.attempts) and self.attempts[-1].ended_at is None


@dataclass(frozen=True, slots=True)
class Received:
    """A post that a receiver must have got: which message, when, and as which attempt."""

    at: int
    delivery: Delivery
    number: int
    fault: str | None
    renamed: bool = False
    copy: bool = False
