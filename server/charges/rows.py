"""The rows of the tables `charges`, `static_charges` and `wallets`. Instants are in milliseconds since the epoch."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class ChargeRow(TypedDict):
    """A Charge. Fields that few Charges have are left out, so that most rows hold only plain values.

    `payment_hash` and `request` are the invoice's, `extra` has the fields that only the spec knows, `sequence` counts
    its callbacks, `closed` is set when the node no longer accepts a payment. `received_msat` and `preimage` are set by
    the settlement, `failure` by the failure of the invoice.
    """

    id: str
    project: str
    status: str
    amount_msat: int
    description: str
    internal_id: str | None
    callback_url: str | None
    created_at: int
    expires_at: int
    confirmed_at: int | None
    static_charge_id: str | None
    payment_hash: str
    request: str
    extra: NotRequired[dict[str, Any]]
    comment: NotRequired[str]
    sequence: NotRequired[int]
    closed: NotRequired[bool]
    received_msat: NotRequired[int]
    preimage: NotRequired[str]
    failure: NotRequired[str]


# Status, amount in msat, creation, time from it to the expiry and to the payment in ms (None: not paid), received msat.
ChargeSummary = tuple[str, int, int, int, int | None, int]


def charge_summary(row: ChargeRow) -> ChargeSummary:
    """The fields of a Charge from which key figures are computed."""
    created_at, confirmed_at = row["created_at"], row["confirmed_at"]
    wait_ms = None if confirmed_at is None else confirmed_at - created_at
    expiry_ms = row["expires_at"] - created_at
    return row["status"], row["amount_msat"], created_at, expiry_ms, wait_ms, row.get("received_msat", 0)


class StaticChargeRow(TypedDict):
    """A Static Charge. `slots` are used, `allowed_slots` is their limit or None.

    `identifier` is the lightning address `user@host`, and `user` its first part. `metadata` is the LNURL metadata, to
    which the invoices commit.
    """

    id: str
    project: str
    status: str
    min_msat: int
    max_msat: int
    description: str
    success_message: str | None
    slots: int
    allowed_slots: int | None
    internal_id: str | None
    callback_url: str | None
    identifier: str | None
    user: str | None
    metadata: str
    created_at: int
    expires_at: int | None
    extra: dict[str, Any]


class WalletRow(TypedDict):
    """The amount that a project's settled invoices received; `id` is the project."""

    id: str
    balance_msat: int
