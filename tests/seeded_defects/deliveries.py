"""Defects of deliveries: how often a callback is sent, when, and what counts as received."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leyden.callbacks.replies import Reply
from leyden.server.charges.charges import TIMER
from leyden.server.charges.wire_model import charge_resource
from leyden.server.ports import CallbackRequest, CallbackResponse
from tests.seeded_defects.defect import Make, seeded
from tests.seeded_defects.posting import (
    SCHEDULE,
    attempts_at,
    delivery,
    heard,
    tell,
    told,
)
from tests.seeded_defects.probing import HOOK, inbox, new_charge, new_static, paid
from tests.seeded_defects.seams import Through, both, changed, handler, port, row, spec

EARLY = "told_early"


class Doubling(Through):
    """A courier that carries everything twice."""

    def post(self, post: CallbackRequest, answered: Callable[[CallbackRequest, CallbackResponse], None]) -> None:
        self.inner.post(post, answered)
        self.inner.post(post, answered)


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
    "Nobody is told of a payment.",
    violates="row: Charge pending payment_settled",
    plant=told(lambda facts: facts["event"] != "charge.completed"),
)
def payment_not_told(make: Make) -> bool:
    return attempts_at(make, []) == []


@seeded(
    "callbacks",
    "Nobody is told when a Charge expires.",
    violates="row: Charge pending expiry_reached",
    plant=spec(row("Charge", "pending", "expiry_reached", to="expired", effects=["cancel_invoice"])),
)
def expiry_not_told(make: Make) -> bool:
    with make() as sandbox:
        new_charge(sandbox, callbackUrl=HOOK)
        sandbox.run()
        return not inbox(sandbox)


@seeded(
    "callbacks",
    "Nobody is told when a Charge fails.",
    violates="row: Charge pending invoice_failed",
    plant=spec(row("Charge", "pending", "invoice_failed", to="error", effects=["cancel_invoice"])),
)
def failure_not_told(make: Make) -> bool:
    with make() as sandbox:
        new_charge(sandbox, callbackUrl=HOOK).fail()
        sandbox.run()
        return not inbox(sandbox)


def _told_at_once(made: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    def create_charge(call: Any) -> Any:
        answer = original(call)
        tell(made, "createCharge", answer["data"]["id"], "charge.pending", "pending", due="createdAt")
        return answer

    return create_charge


@seeded(
    "callbacks",
    "A callback is sent when a Charge is created, before anything has happened to it.",
    violates="decision: callback-delivery",
    plant=handler("createCharge", _told_at_once),
)
def told_of_creation(make: Make) -> bool:
    with make() as sandbox:
        new_charge(sandbox, callbackUrl=HOOK)
        sandbox.advance("1s")
        return len(inbox(sandbox)) == 1


class TellsEarly(Through):
    """A clock that has the expiry of a Charge told a second too soon."""

    def on(self, kind: str, run: Callable[[str], None]) -> None:
        self.inner.on(kind, run)
        if kind == TIMER:
            self.inner.on(EARLY, self._tell)

    def call_at(self, when_ms: int, priority: int, kind: str, key: str) -> None:
        self.inner.call_at(when_ms, priority, kind, key)
        if kind == TIMER:
            self.inner.call_at(when_ms - 1_000, priority, EARLY, key)

    def _tell(self, charge_id: str) -> None:
        made = self.late.service
        charge = charge_resource(made.charges.charges.existing(charge_id))
        if charge["status"] == "pending" and not charge["staticChargeId"]:
            tell(made, "createCharge", charge_id, "charge.expired", "expired", due="createdAt")


@seeded(
    "callbacks",
    "A callback says that a Charge has expired while it can still be paid for a second.",
    violates="row: Charge pending expiry_reached",
    plant=both(
        port("clock", TellsEarly), told(lambda facts: facts["event"] != "charge.expired" or "endpoint_id" not in facts)
    ),
)
def told_before_it_is_so(make: Make) -> bool:
    with make() as sandbox:
        charge = new_charge(sandbox, callbackUrl=HOOK, expiresIn=60)
        sandbox.advance("59s")
        return bool(inbox(sandbox)) and charge.status == "pending"


class TellsOfTheUnpaid(Through):
    """A clock that, when an invoice of a Static Charge has expired, has that told."""

    def on(self, kind: str, run: Callable[[str], None]) -> None:
        def run_and_tell(charge_id: str) -> None:
            run(charge_id)
            charge = charge_resource(self.late.service.charges.charges.existing(charge_id))
            if charge["staticChargeId"] and charge["status"] == "expired":
                self._tell(charge_id)

        self.inner.on(kind, run_and_tell if kind == TIMER else run)

    def _tell(self, charge_id: str) -> None:
        tell(self.late.service, "createStaticCharge", charge_id, "charge.expired", "expired", due="expiresAt")


@seeded(
    "callbacks",
    "A Static Charge's owner is told of every invoice that nobody paid.",
    violates="decision: callback-delivery",
    plant=port("clock", TellsOfTheUnpaid),
)
def unpaid_invoice_told(make: Make) -> bool:
    with make() as sandbox:
        paid(sandbox, new_static(sandbox, callbackUrl=HOOK), 2_000, outcome="fail")
        sandbox.run()
        return bool(inbox(sandbox))


# When, and for how long


@seeded(
    "callbacks",
    "The first attempt is made ten seconds after the event instead of at once.",
    violates="decision: callback-delivery",
    plant=spec(delivery(attempts=["10s", *SCHEDULE[1:]])),
)
def sent_late(make: Make) -> bool:
    return attempts_at(make, [])[0] > 5


@seeded(
    "callbacks",
    "A callback that the receiver refused is not sent again.",
    violates="decision: callback-delivery",
    plant=spec(overlays=("no-retries",)),
)
def no_retry(make: Make) -> bool:
    return len(attempts_at(make, [500])) == 1


@seeded(
    "callbacks",
    "All attempts follow each other after five seconds.",
    violates="decision: callback-delivery",
    plant=spec(delivery(attempts=[0, *["5s"] * 9])),
)
def no_backoff(make: Make) -> bool:
    moments = attempts_at(make, [500, 500])
    return moments[2] - moments[1] < 10


@seeded(
    "callbacks",
    "A receiver that never answers well gets the message without end.",
    violates="decision: callback-delivery",
    plant=spec(delivery(attempts=[*SCHEDULE, *["24h"] * 90])),
)
def no_end(make: Make) -> bool:
    return len(attempts_at(make, [500] * 200)) == 100


@seeded(
    "callbacks",
    "The message is given up after nine attempts instead of ten.",
    violates="decision: callback-delivery",
    plant=spec(delivery(attempts=SCHEDULE[:-1])),
)
def given_up_too_soon(make: Make) -> bool:
    return len(attempts_at(make, [500] * 20)) == 9


@seeded(
    "callbacks",
    "Pauses are spread by much more than a fifth.",
    violates="decision: callback-delivery",
    plant=spec(delivery(jitter=0.9)),
)
def pauses_spread_too_far(make: Make) -> bool:
    moments = attempts_at(make, [500] * 20)
    pauses = [300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]
    return any(
        not 0.79 < (later - sooner) / pause < 1.21
        for sooner, later, pause in zip(moments[1:], moments[2:], pauses, strict=False)
    )


@seeded(
    "callbacks",
    "A receiver that asks with `Retry-After` to be left alone longer is not.",
    violates="decision: callback-delivery",
    plant=heard(lambda answer: changed(answer, headers={})),
)
def retry_after_ignored(make: Make) -> bool:
    return attempts_at(make, [Reply(503, headers={"Retry-After": "9"})])[1] < 9


@seeded(
    "callbacks",
    "`Retry-After` is honoured however long it is, so a receiver can put a message off for ever.",
    violates="decision: callback-delivery",
    plant=spec(delivery(retryAfterTimes=1_000)),
)
def retry_after_without_bound(make: Make) -> bool:
    return attempts_at(make, [Reply(503, headers={"Retry-After": "3600"})])[1] > 12


@seeded(
    "callbacks",
    "An attempt may take a minute instead of 15 seconds.",
    violates="decision: callback-delivery",
    plant=spec(delivery(timeout="60s")),
)
def waits_too_long(make: Make) -> bool:
    return len(attempts_at(make, [Reply(200, delay="20s")])) == 1


def _as(wrong: int, *statuses: int) -> Callable[[CallbackResponse], CallbackResponse]:
    return lambda answer: changed(answer, status=wrong) if answer.status in statuses else answer


@seeded(
    "callbacks",
    "A redirect counts as received.",
    violates="decision: callback-delivery",
    plant=heard(_as(200, *range(300, 400))),
)
def redirect_counts(make: Make) -> bool:
    return len(attempts_at(make, [302])) == 1


@seeded(
    "callbacks",
    "Only 200 counts as received, so a receiver that answers 204 gets the message again.",
    violates="decision: callback-delivery",
    plant=heard(_as(500, *range(201, 300))),
)
def only_200_counts(make: Make) -> bool:
    return len(attempts_at(make, [204])) == 2


@seeded(
    "callbacks",
    "A receiver that answers 410 gets the message again.",
    violates="decision: callback-delivery",
    plant=heard(_as(500, 410)),
)
def sent_again_after_410(make: Make) -> bool:
    return len(attempts_at(make, [410])) == 2
