"""Rows and resources: how a stored row is shown on the wire, and how little of it is ours to decide.

A row is a plain dict with Python's names and integers; a resource is the specification's JSON. Request fields that the
spec declares and the answer declares too, but that this code has never heard of, travel in `row["extra"]`; a Charge
without any has no such field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leyden.server.money import to_wire
from leyden.server.timestamps import to_iso

Row = Mapping[str, Any]

UNIT = "msats"


def _instant(value: int | None) -> str | None:
    return None if value is None else to_iso(value)


def echo(names: Sequence[str], body: Mapping[str, Any]) -> dict[str, Any]:
    """The submitted values of the declared fields that no code knows: absent ones are answered `null`."""
    return {name: body.get(name) for name in names}


def _charge(row: Row) -> dict[str, Any]:
    """What a Charge's resource and its callback have in common."""
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


def charge_resource(row: Row) -> dict[str, Any]:
    """A Charge as the specification shows it."""
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


def static_charge_resource(row: Row, lnurl: str) -> dict[str, Any]:
    """A Static Charge as the specification shows it; `lnurl` is its bech32 payment request."""
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


def charge_update(row: Row) -> dict[str, Any]:
    """The body of a Charge's callback: the Charge, flat, and nothing that strict receivers do not know."""
    update = {**_charge(row), "invoice": {"request": row["request"]}}
    if row["confirmed_at"] is not None:
        update["confirmedAt"] = to_iso(row["confirmed_at"])
    return update


def static_charge_update(row: Row, parent: Row) -> dict[str, Any]:
    """The body of the callback for one payment of a Static Charge: the payment's own Charge, and the slots as they
    stand after it."""
    return {
        **charge_update(row),
        "staticChargeId": parent["id"],
        "slots": parent["slots"],
        "allowedSlots": parent["allowed_slots"],
    }


def envelope(message: str, data: Any) -> dict[str, Any]:
    """The answer's outer object."""
    return {"success": True, "message": message, "data": data}
