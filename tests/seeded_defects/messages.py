"""Defects of callback bodies and signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from leyden.server.callbacks.outbox import Outbox
from leyden.server.callbacks.signing import sign
from leyden.server.ports import CallbackRequest
from leyden.server.timestamps import parse_iso
from tests.seeded_defects.callback_changes import (
    changed_callback,
    changed_request,
    data,
    delivery,
    headers,
    signed_again,
)
from tests.seeded_defects.defect import Make, Plant, seeded
from tests.seeded_defects.patches import attribute, changed, spec
from tests.seeded_defects.probing import HOOK, inbox, new_charge, new_static, paid, payment_callback


@seeded(
    "callbacks",
    "The callback about a paid Charge has the status pending.",
    violates="decision: callback-body",
    plant=data(lambda body: body.update(status="pending")),
)
def stale_status(make: Make) -> bool:
    return payment_callback(make).json["status"] == "pending"


def _before(body: dict[str, Any]) -> None:
    if "slots" in body:
        body["slots"] -= 1


@seeded(
    "callbacks",
    "The callback about a payment to a Static Charge has the slots before the payment.",
    violates="spec: /components/schemas/StaticChargeUpdate/properties/slots",
    plant=data(_before),
)
def stale_slots(make: Make) -> bool:
    with make() as sandbox:
        paid(sandbox, new_static(sandbox, callbackUrl=HOOK), 2_000)
        return bool(inbox(sandbox)[0].json["slots"] == 0)


@seeded(
    "callbacks",
    "The callback has the amount in another field.",
    violates="spec: /components/schemas/ChargeUpdate/properties/amount",
    plant=data(lambda body: body.update(amountMsat=body.pop("amount"))),
)
def wrong_field(make: Make) -> bool:
    return "amount" not in payment_callback(make).json


@seeded(
    "callbacks",
    "The callback has the amount in satoshis.",
    violates="decision: callback-body",
    plant=data(lambda body: body.update(amount=str(int(body["amount"]) // 1_000))),
)
def amount_in_satoshis(make: Make) -> bool:
    return payment_callback(make).json["amount"] == "25"


@seeded(
    "callbacks",
    "The callback about a paid Charge has no time of payment.",
    violates="spec: /components/schemas/ChargeUpdate/properties/confirmedAt",
    plant=data(lambda body: body.pop("confirmedAt", None)),
)
def payment_time_missing(make: Make) -> bool:
    return "confirmedAt" not in payment_callback(make).json


@seeded(
    "callbacks",
    "The callback has no `internalId`.",
    violates="spec: /components/schemas/ChargeUpdate/properties/internalId",
    plant=data(lambda body: body.update(internalId=None)),
)
def internal_id_missing(make: Make) -> bool:
    return payment_callback(make, internalId="order-7").json["internalId"] is None


def _paid_event(arguments: dict[str, Any]) -> None:
    if arguments["event"] == "charge.completed":
        arguments["event"] = "charge.paid"


@seeded(
    "callbacks",
    "The event of a paid Charge has an undeclared name.",
    violates="decision: callback-delivery",
    plant=changed_callback(_paid_event),
)
def unknown_event(make: Make) -> bool:
    return payment_callback(make).event == "charge.paid"


def _first_url(original: Callable[..., Any]) -> Callable[..., Any]:
    def enqueue(self: Any, **facts: Any) -> None:
        rows = self.deliveries()
        original(self, **({**facts, "url": rows[0]["url"]} if rows else facts))

    return enqueue


@seeded(
    "callbacks",
    "All callbacks are sent to the URL of the first Charge.",
    violates="spec: /components/schemas/ChargeUpdate/properties/callbackUrl",
    plant=attribute(Outbox, "enqueue", _first_url),
)
def callback_to_another_url(make: Make) -> bool:
    with make() as sandbox:
        for url in (HOOK, "http://other.localhost/"):
            paid(sandbox, new_charge(sandbox, callbackUrl=url))
        return len(inbox(sandbox)) == 2


# Signatures


def _another_id(post: CallbackRequest, service: Any) -> CallbackRequest:
    if post.attempt == 1:
        return post
    return signed_again(headers(post, webhook_id=f"{post.headers['webhook-id']}-{post.attempt}"), service)


@seeded(
    "callbacks",
    "Each attempt has another message id, so a receiver cannot detect duplicates.",
    violates="decision: callback-signature",
    plant=changed_request(_another_id),
)
def new_id_on_retry(make: Make) -> bool:
    with make() as sandbox:
        sandbox.receiver("shop").answers([500])
        paid(sandbox, new_charge(sandbox, callbackUrl=HOOK))
        sandbox.run()
        first, second = inbox(sandbox)
        return first.webhook_id != second.webhook_id


def _other_bytes(post: CallbackRequest, service: Any) -> CallbackRequest:
    if post.attempt == 1:
        return post
    return signed_again(changed(post, body=orjson.dumps(orjson.loads(post.body), option=orjson.OPT_INDENT_2)), service)


@seeded(
    "callbacks",
    "The bytes of the body differ between attempts.",
    violates="spec: /components/parameters/WebhookId",
    plant=changed_request(_other_bytes),
)
def new_bytes_on_retry(make: Make) -> bool:
    with make() as sandbox:
        sandbox.receiver("shop").answers([500])
        paid(sandbox, new_charge(sandbox, callbackUrl=HOOK))
        sandbox.run()
        first, second = inbox(sandbox)
        return first.body != second.body


@seeded(
    "callbacks",
    "Every attempt has the number 1.",
    violates="spec: /components/parameters/LeydenAttempt",
    plant=changed_request(lambda post, service: headers(post, leyden_attempt="1")),
)
def attempts_not_counted(make: Make) -> bool:
    with make() as sandbox:
        sandbox.receiver("shop").answers([500])
        paid(sandbox, new_charge(sandbox, callbackUrl=HOOK))
        sandbox.run()
        return bool(inbox(sandbox)[1].headers["leyden-attempt"] == "1")


@seeded(
    "callbacks",
    "Callbacks are not signed.",
    violates="decision: callback-signature",
    plant=changed_request(lambda post, service: headers(post, webhook_signature=None)),
)
def not_signed(make: Make) -> bool:
    return "webhook-signature" not in payment_callback(make).headers


def _without_id(post: CallbackRequest, service: Any) -> CallbackRequest:
    wrong = signed_again(headers(post, webhook_id="x"), service).headers["webhook-signature"]
    return headers(post, webhook_signature=wrong)


@seeded(
    "callbacks",
    "The signature does not include the message id.",
    violates="decision: callback-signature",
    plant=changed_request(_without_id),
)
def signature_without_message_id(make: Make) -> bool:
    return any("signature" in fault for fault in payment_callback(make).verdict)


@seeded(
    "callbacks",
    "The timestamp of a callback is that of the Charge's creation.",
    violates="spec: /components/parameters/WebhookTimestamp",
    plant=changed_request(
        lambda post, service: signed_again(
            headers(post, webhook_timestamp=str(parse_iso(orjson.loads(post.body)["createdAt"]) // 1_000)), service
        )
    ),
)
def old_timestamp(make: Make) -> bool:
    with make() as sandbox:
        charge = new_charge(sandbox, callbackUrl=HOOK)
        sandbox.advance("9m")
        paid(sandbox, charge)
        return any("old" in fault for fault in inbox(sandbox)[0].verdict)


def signatures_after_rotation(make: Make, later: str) -> tuple[bool, bool]:
    """Whether the old and the new secret sign at this time after a rotation."""
    with make() as sandbox:
        projects = sandbox.world.service.projects
        old = projects.secrets("default")[0]["secret"]
        with sandbox.world.exclusive():
            new = projects.rotate_secret("default")
        sandbox.advance(later)
        paid(sandbox, new_charge(sandbox, callbackUrl=HOOK))
        got = inbox(sandbox)[0]
        expected = [sign([one], got.webhook_id, int(got.headers["webhook-timestamp"]), got.body) for one in (old, new)]
        given = got.headers["webhook-signature"].split(" ")
        return expected[0] in given, expected[1] in given


def secrets(choose: Callable[[list[str]], list[str]]) -> Plant:
    """Sign with only some of the secrets, which are ordered newest first."""
    return changed_request(lambda post, service: signed_again(post, service, choose))


@seeded(
    "callbacks",
    "After a rotation only the old secret signs until its retention ends.",
    violates="decision: callback-signature",
    plant=secrets(lambda valid: valid[-1:]),
)
def new_secret_does_not_sign(make: Make) -> bool:
    return signatures_after_rotation(make, "1h") == (True, False)


@seeded(
    "callbacks",
    "After a rotation the old secret does not sign any more.",
    violates="decision: callback-signature",
    plant=secrets(lambda valid: valid[:1]),
)
def old_secret_ends_at_once(make: Make) -> bool:
    return signatures_after_rotation(make, "1h") == (False, True)


@seeded(
    "callbacks",
    "A rotated secret still signs after a day.",
    violates="decision: callback-signature",
    plant=spec(delivery(secretRotation="48h"), delivery("createStaticCharge", secretRotation="48h")),
)
def old_secret_never_ends(make: Make) -> bool:
    return signatures_after_rotation(make, "25h")[0]
