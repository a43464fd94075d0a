"""Defects of texts and bodies in requests: lengths, missing fields and null."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.seeded_defects.defect import Make, Plant, seeded
from tests.seeded_defects.middleware import HttpRequest, bodies, requests
from tests.seeded_defects.patches import schema, spec
from tests.seeded_defects.probing import CHARGE, CHARGES, STATICS, charge_status, new_static, send, static_status
from tests.seeded_defects.request_fields import INVALID, field


def longest(name: str, limit: int) -> Plant:
    """Use another maximum length for a text."""
    places = {
        "description": ("ChargeRequest", "StaticChargeRequest", "StaticChargeChanges", "Charge", "StaticCharge"),
        "internalId": ("ChargeRequest", "StaticChargeRequest", "StaticChargeChanges", "Charge", "StaticCharge"),
        "successMessage": ("StaticChargeRequest", "StaticChargeChanges", "StaticCharge"),
    }[name]
    callback_schemas = ("ChargeUpdate", "StaticChargeUpdate") if name != "successMessage" else ()
    return spec(*(schema(place, name, maxLength=limit) for place in places + callback_schemas))


@seeded(
    "input",
    "A description of 640 characters is accepted.",
    violates="decision: description",
    plant=longest("description", 640),
)
def description_too_long(make: Make) -> bool:
    return charge_status(make, description="x" * 640) == 200


@seeded(
    "input",
    "The length of a description is counted in bytes, so one of 320 accented letters is refused.",
    violates="decision: description",
    plant=field("description", lambda text: INVALID if len(str(text).encode(errors="ignore")) > 639 else text),
)
def description_counted_in_bytes(make: Make) -> bool:
    return charge_status(make, description="é" * 320) == 400


@seeded(
    "input",
    "An empty description is refused.",
    violates="decision: request-bodies",
    plant=field("description", lambda text: INVALID if text == "" else text),
)
def empty_description_refused(make: Make) -> bool:
    return charge_status(make, description="") == 400


@seeded(
    "input",
    "An `internalId` of 256 characters is accepted.",
    violates="decision: text-lengths",
    plant=longest("internalId", 256),
)
def internal_id_too_long(make: Make) -> bool:
    return charge_status(make, internalId="x" * 256) == 200


@seeded(
    "input",
    "A `successMessage` of 144 characters, the maximum length, is refused.",
    violates="decision: text-lengths",
    plant=field("successMessage", lambda text: INVALID if isinstance(text, str) and len(text) == 144 else text),
)
def longest_message_refused(make: Make) -> bool:
    return static_status(make, successMessage="x" * 144) == 400


@seeded(
    "input",
    "A Charge without a description is accepted.",
    violates="decision: request-bodies",
    plant=bodies(lambda body: body.setdefault("description", ""), CHARGES),
)
def description_missing(make: Make) -> bool:
    with make() as sandbox:
        return send(sandbox, "POST", CHARGES, {"amount": "25000"}).status == 200


@seeded(
    "input",
    "A Static Charge without a `maxAmount` is accepted.",
    violates="spec: /components/schemas/StaticChargeRequest/required",
    plant=bodies(lambda body: body.setdefault("maxAmount", "500000000"), STATICS),
)
def maximum_missing(make: Make) -> bool:
    with make() as sandbox:
        return send(sandbox, "POST", STATICS, {"minAmount": "2000", "description": "Tips"}).status == 200


def _turned_round(body: dict[str, Any]) -> None:
    least, most = body.get("minAmount"), body.get("maxAmount")
    if all(isinstance(one, str) and one.isdigit() for one in (least, most)) and int(least or 0) > int(most or 0):
        body["minAmount"], body["maxAmount"] = most, least


@seeded(
    "input",
    "A `minAmount` above `maxAmount` is accepted when a Static Charge is created.",
    violates="decision: amounts",
    plant=bodies(_turned_round, STATICS),
)
def minimum_above_maximum(make: Make) -> bool:
    return static_status(make, minAmount="9001") == 200


@seeded(
    "input",
    "A change of `minAmount` to more than `maxAmount` is accepted.",
    violates="decision: static-updates",
    plant=bodies(lambda body: "minAmount" in body and body.setdefault("maxAmount", "500000000"), method="PATCH"),
)
def minimum_changed_above_maximum(make: Make) -> bool:
    with make() as sandbox:
        static = new_static(sandbox)
        return send(sandbox, "PATCH", f"{STATICS}/{static.id}", {"minAmount": "9001"}).status == 200


@seeded(
    "input",
    "`null` as `internalId` is refused, although it means not given.",
    violates="decision: not-given",
    plant=field("internalId", lambda value: INVALID if value is None else value),
)
def null_refused(make: Make) -> bool:
    return charge_status(make, internalId=None) == 400


@seeded(
    "input",
    "An empty `callbackUrl` is refused, although it means that there are no callbacks.",
    violates="decision: not-given",
    plant=field("callbackUrl", lambda value: INVALID if value == "" else value),
)
def empty_url_refused(make: Make) -> bool:
    return charge_status(make, callbackUrl="") == 400


@seeded(
    "input",
    "A `callbackUrl` with user name and password is accepted.",
    violates="decision: callback-url",
    plant=field("callbackUrl", lambda url: re.sub("//[^/@]*@", "//", url) if isinstance(url, str) else url),
)
def url_with_a_password(make: Make) -> bool:
    return charge_status(make, callbackUrl="http://ana:secret@shop.localhost/") == 200


@seeded(
    "input",
    "A request with an unknown field is refused.",
    violates="decision: request-bodies",
    plant=spec(schema("ChargeRequest", additionalProperties=False)),
)
def unknown_field_refused(make: Make) -> bool:
    return charge_status(make, colour="green") == 400


def _last_of_twins(request: HttpRequest) -> None:
    if request.json is not None:
        request.raw = json.dumps(request.json, separators=(",", ":")).encode()


@seeded(
    "input",
    "A body with a duplicate member is accepted, and the last value is used.",
    violates="decision: statuses",
    plant=requests(_last_of_twins, "POST"),
)
def duplicate_member(make: Make) -> bool:
    with make() as sandbox:
        twins = json.dumps(CHARGE).replace("{", '{"amount": "26000", ', 1).encode()
        return send(sandbox, "POST", CHARGES, twins).status == 200
