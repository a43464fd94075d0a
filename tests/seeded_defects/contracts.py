"""Defects of form: answers that the document does not declare."""

from __future__ import annotations

import json

from tests.seeded_defects.defect import Make, seeded
from tests.seeded_defects.probing import (
    CHARGE,
    CHARGES,
    STATICS,
    WALLET,
    charge_status,
    send,
)
from tests.seeded_defects.wire import Answered, Asked, answers


def _created(asked: Asked, answered: Answered) -> None:
    if asked.method == "POST" and answered.status == 200:
        answered.status = 201


@seeded("contract", "Creation is answered with 201.", violates="decision: paths", plant=answers(_created))
def created_with_201(make: Make) -> bool:
    return charge_status(make) == 201


def _another_status(asked: Asked, answered: Answered) -> None:
    if answered.status == 400:
        answered.status = 422
        answered.rewrite(lambda body: body.update(status=422))


@seeded(
    "contract",
    "A body that breaks the schema is answered with 422, which no operation declares.",
    violates="decision: statuses",
    plant=answers(_another_status),
)
def undeclared_status(make: Make) -> bool:
    return charge_status(make, amount="x") == 422


def _plain(asked: Asked, answered: Answered) -> None:
    if answered.status == 400:
        answered.become(400, b"text/plain", b"Bad Request")


@seeded("contract", "Errors are plain texts.", violates="decision: errors", plant=answers(_plain))
def error_as_plain_text(make: Make) -> bool:
    with make() as sandbox:
        return send(sandbox, "POST", CHARGES, {}).json is None


def _without_code(asked: Asked, answered: Answered) -> None:
    if answered.status >= 400:
        answered.rewrite(lambda body: body.pop("code", None))


@seeded(
    "contract",
    "Errors lack the code that programs branch on.",
    violates="spec: /components/schemas/Problem/required",
    plant=answers(_without_code),
)
def error_without_code(make: Make) -> bool:
    with make() as sandbox:
        return "code" not in send(sandbox, "POST", CHARGES, {}).json


def _other_media(asked: Asked, answered: Answered) -> None:
    if answered.status >= 400:
        answered.headers = [
            (name, b"application/json" if name == b"content-type" else value) for name, value in answered.headers
        ]


@seeded(
    "contract",
    "Errors are not sent as `application/problem+json`.",
    violates="decision: errors",
    plant=answers(_other_media),
)
def error_of_another_media_type(make: Make) -> bool:
    with make() as sandbox:
        return send(sandbox, "POST", CHARGES, {}).headers["content-type"] == "application/json"


def _falls_over(asked: Asked, answered: Answered) -> None:
    body = asked.json if asked.method == "POST" else None
    if isinstance(body, dict) and any(character > "\uffff" for character in str(body.get("description"))):
        answered.become(500, b"text/plain", b"Internal Server Error")


@seeded(
    "contract",
    "A description with an emoji is answered with 500.",
    violates="spec: /components/schemas/ChargeRequest/properties/description",
    plant=answers(_falls_over),
)
def emoji_falls_over(make: Make) -> bool:
    return charge_status(make, description="tea 🍵") == 500


def _found_nothing(asked: Asked, answered: Answered) -> None:
    if answered.status == 404 and asked.path.startswith(CHARGES + "/"):
        raw = json.dumps({"success": True, "message": "Charge found", "data": None}).encode()
        answered.become(200, b"application/json", raw)


@seeded(
    "contract",
    "An unknown id is answered with 200 and no Charge.",
    violates="decision: statuses",
    plant=answers(_found_nothing),
)
def unknown_id_answered_with_200(make: Make) -> bool:
    with make() as sandbox:
        return send(sandbox, "GET", f"{CHARGES}/739536b5-9639-43de-8ee4-236858fc171e").status == 200


def _without_success(asked: Asked, answered: Answered) -> None:
    if asked.path.startswith(STATICS):
        answered.rewrite(lambda body: body.pop("success", None))


@seeded(
    "contract",
    "The answers about Static Charges lack `success`.",
    violates="decision: envelope",
    plant=answers(_without_success),
)
def envelope_without_success(make: Make) -> bool:
    with make() as sandbox:
        return "success" not in send(sandbox, "GET", STATICS).json


def _number(asked: Asked, answered: Answered) -> None:
    if asked.path == WALLET and answered.status == 200:
        answered.rewrite(lambda body: body["data"].update(balance=int(body["data"]["balance"])))


@seeded("contract", "The balance is a number.", violates="decision: wallet", plant=answers(_number))
def balance_as_number(make: Make) -> bool:
    with make() as sandbox:
        return send(sandbox, "GET", WALLET).json["data"]["balance"] == 0


def _accepts_anything(asked: Asked, answered: Answered) -> None:
    if answered.status == 415:
        raw = json.dumps({"success": True, "message": "Charge created", "data": {**CHARGE}}).encode()
        answered.become(200, b"application/json", raw)


@seeded(
    "contract",
    "A body of another media type is answered as if it had been read.",
    violates="decision: statuses",
    plant=answers(_accepts_anything),
)
def form_accepted(make: Make) -> bool:
    with make() as sandbox:
        form = {"content_type": "application/x-www-form-urlencoded"}
        return send(sandbox, "POST", CHARGES, **form).status == 200
