"""Defects of deliveries: how often and when a callback is sent, and which responses count as success."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leyden.callbacks.replies import Reply
from leyden.server.charges.charges import TIMER
from leyden.server.charges.wire_model import charge_resource
from leyden.server.ports import CallbackRequest, CallbackResponse
from tests.seeded_defects.callback_changes import (
    SCHEDULE,
    attempts_at,
    changed_callback,
    changed_response,
    delivery,
    enqueue_callback,
)
from tests.seeded_defects.defect import Make, seeded
from tests.seeded_defects.patches import Wrapper, both, changed, handler, port, spec
from tests.seeded_defects.probing import HOOK, inbox, new_charge, new_static, paid

EARLY = "told_early"


class Doubling(Wrapper):
    """A transport that sends each request twice."""

    def post(self, post: CallbackRequest, on_response: Callable[[CallbackRequest, CallbackResponse], None]) -> None:
        self.inner.post(post, on_response)
        self.inner.post(post, on_response)


@seeded(
    "callbacks",
    "Every callback is sent twice.",
    violates="decision: callback-delivery",
    plant=port("transport", Doubling),
)
def sent_twice(make: Make) -> bool:
    return len(attempts_at(make, [])) == 2


@seeded(
    "callbacks",
    "There is no callback about a payment.",
    violates="row: Charge pending payment_settled",
    plant=changed_callback(lambda facts: facts["event"] != "charge.completed"),
)
def payment_not_notified(make: Make) -> bool:
    return attempts_at(make, []) == []


@seeded(
    "callbacks",
    "There is no callback about an expired Charge.",
    violates="row: Charge pending expiry_reached",
    plant=changed_callback(lambda facts: facts["event"] != "charge.expired"),
)
def expiry_not_notified(make: Make) -> bool:
    with make() as sandbox:
        new_charge(sandbox, callbackUrl=HOOK)
        sandbox.run()
        return not inbox(sandbox)


@seeded(
    "callbacks",
    "There is no callback about a failed Charge.",
    violates="row: Charge pending invoice_failed",
    plant=changed_callback(lambda facts: facts["event"] != "charge.error"),
)
def failure_not_notified(make: Make) -> bool:
    with make() as sandbox:
        new_charge(sandbox, callbackUrl=HOOK).fail()
        sandbox.run()
        return not inbox(sandbox)


def _notified_at_once(service: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    def create_charge(call: Any) -> Any:
        response = original(call)
        enqueue_callback(service, "createCharge", response["data"]["id"], "charge.pending", "pending", due="createdAt")
        return response

    return create_charge


@seeded(
    "callbacks",
    "There is a callback about the creation of a Charge.",
    violates="decision: callback-delivery",
    plant=handler("createCharge", _notified_at_once),
)
def callback_about_creation(make: Make) -> bool:
    with make() as sandbox:
        new_charge(sandbox, callbackUrl=HOOK)
        sandbox.advance("1s")
        return len(inbox(sandbox)) == 1


class TellsEarly(Wrapper):
    """A clock that enqueues the callback about an expiry a second early."""

    def on(self, kind: str, run: Callable[[str], None]) -> None:
        self.inner.on(kind, run)
        if kind == TIMER:
            self.inner.on(EARLY, self._notify)

    def call_at(self, when_ms: int, priority: int, kind: str, key: str) -> None:
        self.inner.call_at(when_ms, priority, kind, key)
        if kind == TIMER:
            self.inner.call_at(when_ms - 1_000, priority, EARLY, key)

    def _notify(self, charge_id: str) -> None:
        service = self.late.service
        charge = charge_resource(service.charges.charges.existing(charge_id))
        if charge["status"] == "pending" and not charge["staticChargeId"]:
            enqueue_callback(service, "createCharge", charge_id, "charge.expired", "expired", due="createdAt")


@seeded(
    "callbacks",
    "The callback about an expired Charge is sent a second before its expiry.",
    violates="row: Charge pending expiry_reached",
    plant=both(
        port("clock", TellsEarly),
        changed_callback(lambda facts: facts["event"] != "charge.expired" or "endpoint_id" not in facts),
    ),
)
def expired_callback_too_early(make: Make) -> bool:
    with make() as sandbox:
        charge = new_charge(sandbox, callbackUrl=HOOK, expiresIn=60)
        sandbox.advance("59s")
        return bool(inbox(sandbox)) and charge.status == "pending"


class TellsOfTheUnpaid(Wrapper):
    """A clock that enqueues a callback when an invoice of a Static Charge expires."""

    def on(self, kind: str, run: Callable[[str], None]) -> None:
        def run_and_tell(charge_id: str) -> None:
            run(charge_id)
            charge = charge_resource(self.late.service.charges.charges.existing(charge_id))
            if charge["staticChargeId"] and charge["status"] == "expired":
                self._notify(charge_id)

        self.inner.on(kind, run_and_tell if kind == TIMER else run)

    def _notify(self, charge_id: str) -> None:
        enqueue_callback(
            self.late.service, "createStaticCharge", charge_id, "charge.expired", "expired", due="expiresAt"
        )


@seeded(
    "callbacks",
    "There is a callback about every unpaid invoice of a Static Charge.",
    violates="decision: callback-delivery",
    plant=port("clock", TellsOfTheUnpaid),
)
def callback_about_unpaid_invoice(make: Make) -> bool:
    with make() as sandbox:
        paid(sandbox, new_static(sandbox, callbackUrl=HOOK), 2_000, outcome="fail")
        sandbox.run()
        return bool(inbox(sandbox))


# Times and timeouts


@seeded(
    "callbacks",
    "The first attempt is ten seconds after the event instead of immediately.",
    violates="decision: callback-delivery",
    plant=spec(delivery(attempts=["10s", *SCHEDULE[1:]])),
)
def sent_late(make: Make) -> bool:
    return attempts_at(make, [])[0] > 5


@seeded(
    "callbacks",
    "A failed callback is not retried.",
    violates="decision: callback-delivery",
    plant=spec(overlays=("no-retries",)),
)
def no_retry(make: Make) -> bool:
    return len(attempts_at(make, [500])) == 1


@seeded(
    "callbacks",
    "The delay between all attempts is five seconds.",
    violates="decision: callback-delivery",
    plant=spec(delivery(attempts=[0, *["5s"] * 9])),
)
def no_backoff(make: Make) -> bool:
    moments = attempts_at(make, [500, 500])
    return moments[2] - moments[1] < 10


@seeded(
    "callbacks",
    "The retries of a callback never end.",
    violates="decision: callback-delivery",
    plant=spec(delivery(attempts=[*SCHEDULE, *["24h"] * 90])),
)
def endless_retries(make: Make) -> bool:
    return len(attempts_at(make, [500] * 200)) == 100


@seeded(
    "callbacks",
    "A callback has nine attempts instead of ten.",
    violates="decision: callback-delivery",
    plant=spec(delivery(attempts=SCHEDULE[:-1])),
)
def too_few_attempts(make: Make) -> bool:
    return len(attempts_at(make, [500] * 20)) == 9


@seeded(
    "callbacks",
    "The jitter of the delays is much larger than 20 %.",
    violates="decision: callback-delivery",
    plant=spec(delivery(jitter=0.9)),
)
def jitter_too_large(make: Make) -> bool:
    moments = attempts_at(make, [500] * 20)
    pauses = [300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]
    return any(
        not 0.79 < (later - sooner) / pause < 1.21
        for sooner, later, pause in zip(moments[1:], moments[2:], pauses, strict=False)
    )


@seeded(
    "callbacks",
    "A longer `Retry-After` of a receiver is ignored.",
    violates="decision: callback-delivery",
    plant=changed_response(lambda response: changed(response, headers={})),
)
def retry_after_ignored(make: Make) -> bool:
    return attempts_at(make, [Reply(503, headers={"Retry-After": "9"})])[1] < 9


@seeded(
    "callbacks",
    "`Retry-After` is used without an upper bound.",
    violates="decision: callback-delivery",
    plant=spec(delivery(retryAfterTimes=1_000)),
)
def retry_after_without_bound(make: Make) -> bool:
    return attempts_at(make, [Reply(503, headers={"Retry-After": "3600"})])[1] > 12


@seeded(
    "callbacks",
    "The timeout of an attempt is a minute instead of 15 seconds.",
    violates="decision: callback-delivery",
    plant=spec(delivery(timeout="60s")),
)
def timeout_too_long(make: Make) -> bool:
    return len(attempts_at(make, [Reply(200, delay="20s")])) == 1


def _as(wrong: int, *statuses: int) -> Callable[[CallbackResponse], CallbackResponse]:
    return lambda response: changed(response, status=wrong) if response.status in statuses else response


@seeded(
    "callbacks",
    "A redirect counts as success.",
    violates="decision: callback-delivery",
    plant=changed_response(_as(200, *range(300, 400))),
)
def redirect_counts(make: Make) -> bool:
    return len(attempts_at(make, [302])) == 1


@seeded(
    "callbacks",
    "Only 200 counts as success, so a receiver that responds with 204 gets the callback again.",
    violates="decision: callback-delivery",
    plant=changed_response(_as(500, *range(201, 300))),
)
def only_200_counts(make: Make) -> bool:
    return len(attempts_at(make, [204])) == 2


@seeded(
    "callbacks",
    "A receiver that responds with 410 gets the callback again.",
    violates="decision: callback-delivery",
    plant=changed_response(_as(500, 410)),
)
def sent_again_after_410(make: Make) -> bool:
    return len(attempts_at(make, [410])) == 2
