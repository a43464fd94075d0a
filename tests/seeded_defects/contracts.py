"""Defects of the contract: responses that the OpenAPI document does not declare."""

from __future__ import annotations

import json

from tests.seeded_defects.defect import Make, seeded
from tests.seeded_defects.middleware import HttpRequest, HttpResponse, responses
from tests.seeded_defects.probing import (
    CHARGE,
    CHARGES,
    STATICS,
    WALLET,
    charge_status,
    send,
)


def _created(request: HttpRequest, response: HttpResponse) -> None:
    if request.method == "POST" and response.status == 200:
        response.status = 201


@seeded("contract", "Creation has the status 201.", violates="decision: paths", plant=responses(_created))
def created_with_201(make: Make) -> bool:
    return charge_status(make) == 201


def _another_status(request: HttpRequest, response: HttpResponse) -> None:
    if response.status == 400:
        response.status = 422
        response.rewrite(lambda body: body.update(status=422))


@seeded(
    "contract",
    "A body that violates the schema gets the status 422, which no operation declares.",
    violates="decision: statuses",
    plant=responses(_another_status),
)
def undeclared_status(make: Make) -> bool:
    return charge_status(make, amount="x") == 422


def _plain(request: HttpRequest, response: HttpResponse) -> None:
    if response.status == 400:
        response.replace(400, b"text/plain", b"Bad Request")


@seeded("contract", "Errors are plain texts.", violates="decision: errors", plant=responses(_plain))
def error_as_plain_text(make: Make) -> bool:
    with make() as sandbox:
        return send(sandbox, "POST", CHARGES, {}).json is None


def _without_code(request: HttpRequest, response: HttpResponse) -> None:
    if response.status >= 400:
        response.rewrite(lambda body: body.pop("code", None))


@seeded(
    "contract",
    "Error responses have no code.",
    violates="spec: /components/schemas/Problem/required",
    plant=responses(_without_code),
)
def error_without_code(make: Make) -> bool:
    with make() as sandbox:
        return "code" not in send(sandbox, "POST", CHARGES, {}).json


def _other_media(request: HttpRequest, response: HttpResponse) -> None:
    if response.status >= 400:
        response.headers = [
            (name, b"application/json" if name == b"content-type" else value) for name, value in response.headers
        ]


@seeded(
    "contract",
    "Errors are not sent as `application/problem+json`.",
    violates="decision: errors",
    plant=responses(_other_media),
)
def error_of_another_media_type(make: Make) -> bool:
    with make() as sandbox:
        return send(sandbox, "POST", CHARGES, {}).headers["content-type"] == "application/json"


def _falls_over(request: HttpRequest, response: HttpResponse) -> None:
    body = request.json if request.method == "POST" else None
    if isinstance(body, dict) and any(character > "\uffff" for character in str(body.get("description"))):
        response.replace(500, b"text/plain", b"Internal Server Error")


@seeded(
    "contract",
    "A description with an emoji causes the status 500.",
    violates="spec: /components/schemas/ChargeRequest/properties/description",
    plant=responses(_falls_over),
)
def emoji_causes_500(make: Make) -> bool:
    return charge_status(make, description="tea 🍵") == 500


def _found_nothing(request: HttpRequest, response: HttpResponse) -> None:
    if response.status == 404 and request.path.startswith(CHARGES + "/"):
        raw = json.dumps({"success": True, "message": "Charge found", "data": None}).encode()
        response.replace(200, b"application/json", raw)


@seeded(
    "contract",
    "An unknown id gets the status 200 without a Charge.",
    violates="decision: statuses",
    plant=responses(_found_nothing),
)
def unknown_id_answered_with_200(make: Make) -> bool:
    with make() as sandbox:
        return send(sandbox, "GET", f"{CHARGES}/739536b5-9639-43de-8ee4-236858fc171e").status == 200


def _without_success(request: HttpRequest, response: HttpResponse) -> None:
    if request.path.startswith(STATICS):
        response.rewrite(lambda body: body.pop("success", None))


@seeded(
    "contract",
    "The responses about Static Charges lack `success`.",
    violates="decision: envelope",
    plant=responses(_without_success),
)
def envelope_without_success(make: Make) -> bool:
    with make() as sandbox:
        return "success" not in send(sandbox, "GET", STATICS).json


def _number(request: HttpRequest, response: HttpResponse) -> None:
    if request.path == WALLET and response.status == 200:
        response.rewrite(lambda body: body["data"].update(balance=int(body["data"]["balance"])))


@seeded("contract", "The balance is a number.", violates="decision: wallet", plant=responses(_number))
def balance_as_number(make: Make) -> bool:
    with make() as sandbox:
        return send(sandbox, "GET", WALLET).json["data"]["balance"] == 0


def _accepts_anything(request: HttpRequest, response: HttpResponse) -> None:
    if response.status == 415:
        raw = json.dumps({"success": True, "message": "Charge created", "data": {**CHARGE}}).encode()
        response.replace(200, b"application/json", raw)


@seeded(
    "contract",
    "A body of another media type is accepted.",
    violates="decision: statuses",
    plant=responses(_accepts_anything),
)
def form_accepted(make: Make) -> bool:
    with make() as sandbox:
        form = {"content_type": "application/x-www-form-urlencoded"}
        return send(sandbox, "POST", CHARGES, **form).status == 200
