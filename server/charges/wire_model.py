"""The wire model: how a stored row becomes a resource of the API or the body of a callback.

A row has Python names and integers; a resource is the JSON of the spec. A field that the spec declares for the request
and for the response, and that no code handles, is stored in `row["extra"]`; a Charge without such fields has none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from leyden.server.charges.rows import ChargeRow, StaticChargeRow
from leyden.server.contract.types import Contract
from leyden.server.money import to_wire
from leyden.server.timestamps import to_iso

UNIT = "msats"
# The properties of the resources, none of which a request sets by its name alone
CHARGE_NAMES = frozenset({
    "id", "unit", "amount", "status", "description", "internalId", "callbackUrl", "createdAt", "expiresAt",
    "confirmedAt", "staticChargeId", "invoice",
})  # fmt: skip
STATIC_CHARGE_NAMES = frozenset({
    "id", "unit", "slots", "minAmount", "maxAmount", "createdAt", "expiresAt", "internalId", "description",
    "callbackUrl", "allowedSlots", "successMessage", "identifier", "status", "invoice",
})  # fmt: skip
# The fields of the bodies of the callbacks
CHARGE_UPDATE_NAMES = CHARGE_NAMES - {"staticChargeId"}
STATIC_CHARGE_UPDATE_NAMES = CHARGE_NAMES | {"slots", "allowedSlots"}


def _instant(value: int | None) -> str | None:
    return None if value is None else to_iso(value)


def echoed_names(contract: Contract, operation_id: str, handled: Collection[str]) -> tuple[str, ...]:
    """The declared fields of request and response that no code handles; none when the operation is left out."""
    operation = contract.operations.get(operation_id)
    return () if operation is None else tuple(name for name in operation.echoed if name not in handled)


def echo(names: Sequence[str], body: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the declared fields that no code handles; an absent one is `null`."""
    return {name: body.get(name) for name in names}


def _charge(row: ChargeRow) -> dict[str, Any]:
    """The fields that a Charge's resource and its callback share."""
    return {
        "id": row["id"],
        "unit": UNIT,
        "amount": to_wire(row["amount_msat"]),
        "status": row["status"],
        "description": row["description"],
        "internalId": row["internal_id"],
        "callbackUrl": row["callback_url"],
        "createdAt": to_iso(row["created_at"]),
        "expiresAt": to_iso(row["expires_at"]),
    }


def charge_resource(row: ChargeRow) -> dict[str, Any]:
    """A Charge as the API returns it."""
    charge = _charge(row)
    return {
        **charge,
        "confirmedAt": _instant(row["confirmed_at"]),
        "staticChargeId": row["static_charge_id"],
        "invoice": {
            "request": row["request"],
            "uri": f"lightning:{row['request']}",
            "expiresAt": charge["expiresAt"],
        },
        **row.get("extra", {}),
    }


def static_charge_resource(row: StaticChargeRow, lnurl: str) -> dict[str, Any]:
    """A Static Charge as the API returns it; `lnurl` is its bech32 payment request."""
    return {
        "id": row["id"],
        "unit": UNIT,
        "slots": row["slots"],
        "minAmount": to_wire(row["min_msat"]),
        "maxAmount": to_wire(row["max_msat"]),
        "createdAt": to_iso(row["created_at"]),
        "expiresAt": _instant(row["expires_at"]),
        "internalId": row["internal_id"],
        "description": row["description"],
        "callbackUrl": row["callback_url"],
        "allowedSlots": row["allowed_slots"],
        "successMessage": row["success_message"],
        "identifier": row["identifier"],
        "status": row["status"],
        "invoice": {"request": lnurl, "uri": f"lightning:{lnurl}"},
        **row["extra"],
    }


def charge_callback(row: ChargeRow) -> dict[str, Any]:
    """The body of a Charge's callback: flat, with only the fields that the spec declares for it."""
    body = {**_charge(row), "invoice": {"request": row["request"]}}
    if row["confirmed_at"] is not None:
        body["confirmedAt"] = to_iso(row["confirmed_at"])
    return body


def static_charge_callback(row: ChargeRow, parent: StaticChargeRow) -> dict[str, Any]:
    """The body of the callback for a payment of a Static Charge: the payment's Charge, and the slots after it."""
    return {
        **charge_callback(row),
        "staticChargeId": parent["id"],
        "slots": parent["slots"],
        "allowedSlots": parent["allowed_slots"],
    }


def envelope(message: str, data: Any) -> dict[str, Any]:
    """The outer object of a response."""
    return {"success": True, "message": message, "data": data}
