"""The rows of the table `invoices`, with their parts. Instants are in milliseconds since the epoch."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class PartRow(TypedDict):
    """An HTLC that was accepted. `state` is held, settled or failed, `total_msat` the total that the payer announced,
    `cltv_expiry` a block height."""

    id: str
    amount_msat: int
    total_msat: int
    cltv_expiry: int
    hold: bool
    arrived_at: int
    state: str


class InvoiceRow(TypedDict):
    """An invoice; `state` is OPEN, ACCEPTED, SETTLED or CANCELED.

    It can be paid until `payable_until_ms`, that instant included; `expires_at` is the end in the request. The waiting
    parts are failed at `mpp_due_at`. `parts` is absent while none has arrived.
    `holds_at` has the instants from which all parts of a payment were held, `accepted_at` the last; it is absent
    without one and in rows of earlier versions.
    """

    payment_hash: str
    payment_secret: str
    preimage: str
    request: str
    amount_msat: int
    payable_until_ms: int
    expires_at: int
    state: str
    received_msat: int
    opened_at: int
    accepted_at: int | None
    settled_at: int | None
    closed_at: int | None
    closed_because: str | None
    mpp_due_at: int | None
    parts: NotRequired[list[PartRow]]
    holds_at: NotRequired[list[int]]
