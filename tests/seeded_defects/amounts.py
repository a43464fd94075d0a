"""Defects of numbers in requests: which amounts, seconds and slots are accepted."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.seeded_defects.defect import Make, Plant, seeded
from tests.seeded_defects.middleware import bodies
from tests.seeded_defects.patches import both, schema, spec
from tests.seeded_defects.probing import charge_status, static_status
from tests.seeded_defects.request_fields import AMOUNTS, INVALID, field


def amounts(read: Callable[[Any], Any]) -> Plant:
    """Change the amounts of a request before they are validated."""

    def edit(body: dict[str, Any]) -> None:
        for name in AMOUNTS:
            if name in body:
                body[name] = read(body[name])

    return both(bodies(edit), bodies(edit, method="PATCH"))


def pattern(text: str) -> Plant:
    """Use another pattern for amounts, in requests and in responses."""
    return spec(schema("RequestedAmount", pattern=text), schema("Amount", pattern=text))


def _zeros(value: Any) -> Any:
    return value.lstrip("0") if isinstance(value, str) and re.fullmatch("0+[1-9][0-9]*", value) else value


def _as_number(value: Any) -> Any:
    # Python accepts more as a number than the specification.
    try:
        return str(int(value)) if isinstance(value, str) and not value.startswith("0") else value
    except ValueError:
        return value


@seeded("input", "An amount with leading zeros is accepted.", violates="decision: amounts", plant=amounts(_zeros))
def amount_with_leading_zeros(make: Make) -> bool:
    return charge_status(make, amount="0025000") == 200


@seeded(
    "input",
    'The amount "0" is accepted and replaced by the minimum.',
    violates="decision: amounts",
    plant=amounts(lambda value: "1000" if value == "0" else value),
)
def amount_of_zero(make: Make) -> bool:
    return charge_status(make, amount="0") == 200


@seeded(
    "input",
    "An amount with spaces, a sign, underscores or the digits of another script is accepted.",
    violates="decision: amounts",
    plant=amounts(_as_number),
)
def amount_with_other_characters(make: Make) -> bool:
    return 200 in {charge_status(make, amount=amount) for amount in (" 25000", "+25000", "25_000", "٢٥٠٠٠")}


@seeded(
    "input",
    "An amount sent as a JSON number is accepted.",
    violates="decision: amounts",
    plant=amounts(lambda value: str(value) if type(value) is int else value),
)
def amount_as_number(make: Make) -> bool:
    return charge_status(make, amount=25000) == 200


@seeded(
    "input",
    "An amount below one satoshi is accepted.",
    violates="spec: /components/schemas/RequestedAmount",
    plant=pattern("^(?:[1-9][0-9]{2,7}|[1-4][0-9]{8}|500000000)$"),
)
def amount_below_the_minimum(make: Make) -> bool:
    return charge_status(make, amount="999") == 200


@seeded(
    "input",
    "An amount of one millisatoshi above the maximum is accepted.",
    violates="spec: /components/schemas/RequestedAmount",
    plant=pattern("^(?:[1-9][0-9]{3,7}|[1-4][0-9]{8}|50000000[01])$"),
)
def amount_above_the_maximum(make: Make) -> bool:
    return charge_status(make, amount="500000001") == 200


@seeded(
    "input",
    "The maximum amount itself is refused.",
    violates="spec: /components/schemas/RequestedAmount",
    plant=amounts(lambda value: INVALID if value == "500000000" else value),
)
def largest_amount_refused(make: Make) -> bool:
    return charge_status(make, amount="500000000") == 400


@seeded(
    "input",
    "`true` is accepted as one second of `expiresIn`.",
    violates="decision: expires-in",
    plant=field("expiresIn", lambda value: int(value) if isinstance(value, bool) else value),
)
def expiry_of_true(make: Make) -> bool:
    return charge_status(make, expiresIn=True) == 200


@seeded(
    "input",
    "`true` is accepted as one slot.",
    violates="decision: allowed-slots",
    plant=field("allowedSlots", lambda value: int(value) if isinstance(value, bool) else value),
)
def slots_of_true(make: Make) -> bool:
    return static_status(make, allowedSlots=True) == 200


@seeded(
    "input",
    "A whole number written with a decimal point is accepted.",
    violates="decision: statuses",
    plant=field("expiresIn", lambda value: int(value) if isinstance(value, float) and value.is_integer() else value),
)
def expiry_with_a_point(make: Make) -> bool:
    return charge_status(make, expiresIn=600.0) == 200


@seeded(
    "input",
    "An `expiresIn` of one second more than 30 days is accepted.",
    violates="decision: expires-in",
    plant=field("expiresIn", lambda value: 2_592_000 if value == 2_592_001 else value),
)
def expiry_too_long(make: Make) -> bool:
    return charge_status(make, expiresIn=2_592_001) == 200


@seeded(
    "input",
    "An `expiresIn` of exactly 30 days is refused.",
    violates="decision: expires-in",
    plant=field("expiresIn", lambda value: INVALID if value == 2_592_000 else value),
)
def longest_expiry_refused(make: Make) -> bool:
    return charge_status(make, expiresIn=2_592_000) == 400
