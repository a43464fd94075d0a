"""Values of a request as the services use them. The document checks a request first; what an edited document lets
through besides is refused here.

`*_READS` are the values that the operations read, with the JSON types that this code expects (`handles(reads=...)`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.server.errors import FieldError, InvalidAmount, InvalidRequest
from leyden.server.http.corrections import received
from leyden.server.money import Msat, parse_msat
from leyden.server.timestamps import MAX_INSTANT_MS

# The greatest `expiresIn` in seconds: BOLT 11 has 35 bits for the expiry of an invoice, and a Static Charge ends before
# the year 10000 if it is created before the year 3000, in which each clock has ended.
MOST_CHARGE_S = 2**35 - 1
MOST_STATIC_CHARGE_S = (MAX_INSTANT_MS - 32_503_680_000_000) // 1_000

_TEXT, _TEXT_OR_NONE, _AMOUNT, _WHOLE = "string", "string null", "string integer", "integer string null"
CHARGE_READS = {
    "body.amount": _AMOUNT,
    "body.description": _TEXT,
    "body.internalId": _TEXT_OR_NONE,
    "body.callbackUrl": _TEXT_OR_NONE,
    "body.expiresIn": _WHOLE,
}
CHANGES_READS = {
    "body.minAmount": _AMOUNT,
    "body.maxAmount": _AMOUNT,
    "body.description": _TEXT,
    "body.successMessage": _TEXT_OR_NONE,
    "body.allowedSlots": _WHOLE,
    "body.internalId": _TEXT_OR_NONE,
    "body.callbackUrl": _TEXT_OR_NONE,
}
STATIC_CHARGE_READS = {**CHANGES_READS, "body.expiresIn": _WHOLE, "body.identifier": _TEXT_OR_NONE}
PAGE_READS = {
    "query.limit": "integer",
    **{f"query.{name}": _TEXT for name in ("after", "status", "internalId", "createdAfter", "createdBefore")},
}
ID_READS = {"path.id": _TEXT}


def invalid(pointer: str, detail: str) -> InvalidRequest:
    """The error for one value of a request."""
    return InvalidRequest(f"{pointer}: {detail}", field_errors=[FieldError(pointer, detail)])


def amount_field(body: Mapping[str, Any], name: str) -> Msat:
    """The amount in a field, in millisatoshis. Raises `InvalidRequest` for a value that is no amount."""
    try:
        return parse_msat(body[name])
    except InvalidAmount as error:
        raise invalid(f"/{name}", str(error)) from None


def whole_field(body: Mapping[str, Any], name: str, least: int = 0, most: int | None = None) -> int:
    """The whole number in a field, from `least` to `most`: also as a text of digits, and 0 for null and an empty text.
    Raises `InvalidRequest` for another value."""
    value = body.get(name)
    number = value
    if value is None or value == "":
        number = 0
    elif isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        number = int(value)
    if type(number) is not int or number < least or (most is not None and number > most):
        bounds = f"from {least}" if most is None else f"from {least} to {most}"
        raise invalid(f"/{name}", f"expected a whole number {bounds}; received {received(value)}")
    return number
