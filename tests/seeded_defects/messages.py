"""Defects of messages: what a callback says, and how one knows that it is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from leyden.server.callbacks.outbox import Outbox
from leyden.server.callbacks.signing import sign
from leyden.server.ports import CallbackRequest
from leyden.server.timestamps import parse_iso
from tests.seeded_defects.defect import Make, Plant, seeded
from tests.seeded_defects.posting import (
    data,
    delivery,
    headers,
    posted,
    sealed,
)
from tests.seeded_defects.probing import HOOK, inbox, new_charge, new_static, paid, told_of_payment
from tests.seeded_defects.seams import attribute, changed, spec


@seeded(
    "callbacks",
    "The callback of a paid Charge still says that it is pending.",
    violates="decision: callback-body",
    plant=data(lambda body: body.update(status="pending")),
)
def stale_status(make: Make) -> bool:
    return told_of_payment(make).json["status"] == "pending"


def _before(body: dict[str, Any]) -> None:
    if "slots" in body:
        body["slots"] -= 1


@seeded(
    "callbacks",
    "The callback of a payment to a Static Charge shows the slots as they were before it.",
    violates="spec: /components/schemas/StaticChargeUpdate/properties/slots",
    plant=data(_before),
)
def stale_slots(make: Make) -> bool:
    with make() as sandbox:
        paid(sandbox, new_static(sandbox, callbackUrl=HOOK), 2_000)
        return bool(inbox(sandbox)[0].json["slots"] == 0)


@seeded(
    "callbacks",
    "The callback names the amount in a field that nobody expects.",
    violates="spec: /components/schemas/ChargeUpdate/properties/amount",
    plant=data(lambda body: body.update(amountMsat=body.pop("amount"))),
)
def wrong_field(make: Make) -> bool:
    return "amount" not in told_of_payment(make).json


@seeded(
    "callbacks",
    "The callback gives the amount in satoshis.",
    violates="decision: callback-body",
    plant=data(lambda body: body.update(amount=str(int(body["amount"]) // 1_000))),
)
def amount_in_satoshis(make: Make) -> bool:
    return told_of_payment(make).json["amount"] == "25"


@seeded(
    "callbacks",
    "The callback of a paid Charge does not say when it was paid.",
    violates="spec: /components/schemas/ChargeUpdate/properties/confirmedAt",
    plant=data(lambda body: body.pop("confirmedAt", None)),
)
def payment_time_not_told(make: Make) -> bool:
    return "confirmedAt" not in told_of_payment(make).json


@seeded(
    "callbacks",
    "The `internalId` does not come back in the callback.",
    violates="spec: /components/schemas/ChargeUpdate/properties/internalId",
    plant=data(lambda body: body.update(internalId=None)),
)
def internal_id_not_told(make: Make) -> bool:
    return told_of_payment(make, internalId="order-7").json["internalId"] is None


@seeded(
    "callbacks",
    "The event of a paid Charge has a name that nobody announced.",
    violates="decision: callback-delivery",
    plant=spec(delivery(events={"completed": "charge.paid", "expired": "charge.expired", "error": "charge.error"})),
)
def unknown_event(make: Make) -> bool:
    return told_of_payment(make).event == "charge.paid"


def _first_url(original: Callable[..., Any]) -> Callable[..., Any]:
    def enqueue(self: Any, **facts: Any) -> None:
        rows = self.deliveries()
        original(self, **({**facts, "url": rows[0]["url"]} if rows else facts))

    return enqueue


@seeded(
    "callbacks",
    "All callbacks go to the URL of the first Charge that was told of.",
    violates="spec: /components/schemas/ChargeUpdate/properties/callbackUrl",
    plant=attribute(Outbox, "enqueue", _first_url),
)
def told_to_another_url(make: Make) -> bool:
    with make() as sandbox:
        for url in (HOOK, "http://other.localhost/"):
            paid(sandbox, new_charge(sandbox, callbackUrl=url))
        return len(inbox(sandbox)) == 2


# How one knows that it is true


def _another_id(post: CallbackRequest, service: Any) -> CallbackRequest:
    if post.attempt == 1:
        return post
    return sealed(headers(post, webhook_id=f"{post.headers['webhook-id']}-{post.attempt}"), service)


@seeded(
    "callbacks",
    "Each attempt has an id of its own, so a receiver cannot know a message again.",
    violates="decision: callback-signature",
    plant=posted(_another_id),
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
    return sealed(changed(post, body=orjson.dumps(orjson.loads(post.body), option=orjson.OPT_INDENT_2)), service)


@seeded(
    "callbacks",
    "A message is written anew for each attempt, and its bytes are not the same.",
    violates="spec: /components/parameters/WebhookId",
    plant=posted(_other_bytes),
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
    "Every attempt says that it is the first.",
    violates="spec: /components/parameters/LeydenAttempt",
    plant=posted(lambda post, service: headers(post, leyden_attempt="1")),
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
    plant=posted(lambda post, service: headers(post, webhook_signature=None)),
)
def not_signed(make: Make) -> bool:
    return "webhook-signature" not in told_of_payment(make).headers


def _without_id(post: CallbackRequest, service: Any) -> CallbackRequest:
    wrong = sealed(headers(post, webhook_id="x"), service).headers["webhook-signature"]
    return headers(post, webhook_signature=wrong)


@seeded(
    "callbacks",
    "The signature does not cover the message's id.",
    violates="decision: callback-signature",
    plant=posted(_without_id),
)
def signature_of_something_else(make: Make) -> bool:
    return any("signature" in fault for fault in told_of_payment(make).verdict)


@seeded(
    "callbacks",
    "The timestamp is that of the Charge's creation, so a receiver takes the message for an old one.",
    violates="spec: /components/parameters/WebhookTimestamp",
    plant=posted(
        lambda post, service: sealed(
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
    """Whether the old and the new secret sign, so long after a rotation."""
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
    """Sign with only some of the secrets that should sign, the newest of which comes first."""
    return posted(lambda post, service: sealed(post, service, choose))


@seeded(
    "callbacks",
    "After a change of secret only the old one signs until it ends.",
    violates="decision: callback-signature",
    plant=secrets(lambda valid: valid[-1:]),
)
def new_secret_does_not_sign(make: Make) -> bool:
    return signatures_after_rotation(make, "1h") == (True, False)


@seeded(
    "callbacks",
    "After a change of secret the old one signs no more, and receivers have no time to change over.",
    violates="decision: callback-signature",
    plant=secrets(lambda valid: valid[:1]),
)
def old_secret_ends_at_once(make: Make) -> bool:
    return signatures_after_rotation(make, "1h") == (False, True)


@seeded(
    "callbacks",
    "A secret that was changed goes on signing after its day.",
    violates="decision: callback-signature",
    plant=spec(delivery(secretRotation="48h"), delivery("createStaticCharge", secretRotation="48h")),
)
def old_secret_never_ends(make: Make) -> bool:
    return signatures_after_rotation(make, "25h")[0]
