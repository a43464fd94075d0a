"""Defects of resources: their values differ from the submitted ones."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Callable
from typing import Any

from tests.seeded_defects.defect import Make, Plant, seeded
from tests.seeded_defects.middleware import bodies, changed_resources
from tests.seeded_defects.probing import (
    CHARGES,
    charge_shown,
    get,
    new_charge,
    paid,
    send,
    static_shown,
)


def echoed(name: str, alter: Callable[[Any], Any]) -> Plant:
    """Change a text before it is stored."""

    def edit(body: dict[str, Any]) -> None:
        if isinstance(body.get(name), str):
            body[name] = alter(body[name])

    return bodies(edit)


def seen(name: str, alter: Callable[[Any], Any]) -> Plant:
    """Change a field of each resource in responses."""

    def edit(resource: dict[str, Any]) -> None:
        if name in resource:
            resource[name] = alter(resource[name])

    return changed_resources(edit)


@seeded(
    "echo",
    "Amounts in responses are numbers with a decimal point.",
    violates="decision: amounts",
    plant=seen("amount", float),
)
def amount_as_float(make: Make) -> bool:
    return charge_shown(make)["amount"] != "25000"


@seeded(
    "echo",
    "The spaces around a description are removed.",
    violates="spec: /components/schemas/Charge/properties/description",
    plant=echoed("description", str.strip),
)
def description_trimmed(make: Make) -> bool:
    return charge_shown(make, description=" tea ")["description"] == "tea"


@seeded(
    "echo",
    "A description is returned with HTML escapes.",
    violates="spec: /components/schemas/Charge/properties/description",
    plant=seen("description", html.escape),
)
def description_escaped(make: Make) -> bool:
    return charge_shown(make, description="tea & <cake>")["description"] != "tea & <cake>"


@seeded(
    "echo",
    "A description is returned in Unicode NFC, which is another text.",
    violates="spec: /components/schemas/Charge/properties/description",
    plant=echoed("description", lambda text: unicodedata.normalize("NFC", text)),
)
def description_normalised(make: Make) -> bool:
    return charge_shown(make, description="the\u0301")["description"] == "th\u00e9"


@seeded(
    "echo",
    "Characters beyond U+FFFF are returned as question marks.",
    violates="spec: /components/schemas/Charge/properties/description",
    plant=echoed("description", lambda text: "".join("?" if character > "\uffff" else character for character in text)),
)
def emoji_replaced(make: Make) -> bool:
    return charge_shown(make, description="tea 🍵")["description"] == "tea ?"


@seeded(
    "echo",
    "An `internalId` of digits is returned as a number.",
    violates="spec: /components/schemas/Charge/properties/internalId",
    plant=seen("internalId", lambda text: int(text) if text and text.isascii() and text.isdigit() else text),
)
def internal_id_as_number(make: Make) -> bool:
    return charge_shown(make, internalId="007")["internalId"] == 7


@seeded(
    "echo",
    "An `internalId` is returned in lower case.",
    violates="spec: /components/schemas/Charge/properties/internalId",
    plant=echoed("internalId", str.lower),
)
def internal_id_lowered(make: Make) -> bool:
    return charge_shown(make, internalId="Table-7")["internalId"] == "table-7"


@seeded(
    "echo",
    'An empty text is returned as `null` instead of `""`.',
    violates="decision: not-given",
    plant=seen("internalId", lambda text: text or None),
)
def empty_text_as_null(make: Make) -> bool:
    return charge_shown(make, internalId="")["internalId"] is None


def _without_nulls(resource: dict[str, Any]) -> None:
    for name in [name for name, value in resource.items() if value is None]:
        del resource[name]


@seeded(
    "echo",
    "Fields that are null are left out of the response.",
    violates="spec: /components/schemas/Charge/required",
    plant=changed_resources(_without_nulls),
)
def nulls_left_out(make: Make) -> bool:
    return "confirmedAt" not in charge_shown(make)


@seeded(
    "echo",
    "Absent `allowedSlots` are returned as 0 instead of `null`.",
    violates="decision: allowed-slots",
    plant=seen("allowedSlots", lambda slots: slots or 0),
)
def unlimited_slots_as_zero(make: Make) -> bool:
    return static_shown(make)["allowedSlots"] == 0


@seeded(
    "echo",
    "Times are written in the local time of the server instead of UTC.",
    violates="decision: timestamps",
    plant=seen("createdAt", lambda moment: moment.replace("Z", "+01:00")),
)
def local_time(make: Make) -> bool:
    return not charge_shown(make)["createdAt"].endswith("Z")


@seeded(
    "echo",
    "Times are written without milliseconds.",
    violates="decision: timestamps",
    plant=seen("expiresAt", lambda moment: moment and moment.replace(".000Z", "Z")),
)
def times_without_milliseconds(make: Make) -> bool:
    return len(charge_shown(make)["expiresAt"]) == len("2030-01-01T00:00:00Z")


@seeded("echo", "The unit is called sats.", violates="decision: client-fields", plant=seen("unit", lambda unit: "sats"))
def wrong_unit(make: Make) -> bool:
    return charge_shown(make)["unit"] == "sats"


@seeded(
    "echo",
    "The URI of an invoice lacks the scheme `lightning:`.",
    violates="decision: client-fields",
    plant=seen("invoice", lambda invoice: {**invoice, "uri": invoice["request"]}),
)
def link_without_a_scheme(make: Make) -> bool:
    return not charge_shown(make)["invoice"]["uri"].startswith("lightning:")


@seeded(
    "echo",
    "In a list a paid Charge has no `confirmedAt`, but in its details it has one.",
    violates="spec: /components/schemas/Charge/properties/confirmedAt",
    plant=changed_resources(lambda resource: "confirmedAt" in resource and resource.update(confirmedAt=None), CHARGES),
)
def list_shows_another_charge(make: Make) -> bool:
    with make() as sandbox:
        charge = new_charge(sandbox)
        paid(sandbox, charge)
        return send(sandbox, "GET", CHARGES).json["data"][0] != get(sandbox, CHARGES, charge)
