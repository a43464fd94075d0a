"""Defects of states and of times."""

from __future__ import annotations

import leyden.server.charges.static_charges
from leyden.server.charges.charges import ChargeService
from tests.seeded_defects.defect import Make, seeded
from tests.seeded_defects.patches import attribute, both, component, port, row, schema, spec
from tests.seeded_defects.ports import (
    BackwardsClock,
    InvoicedAmountNode,
    LongPayableNode,
    RepeatingNode,
    RoundingNode,
    ShortPayableNode,
    every_id_twice,
    timer_lost,
    timer_moved,
    without_effect,
)
from tests.seeded_defects.probing import STATICS, charge_shown, new_charge, new_static, paid, send, wallet_of


@seeded(
    "state",
    "A payment is ignored: the Charge stays pending and then expires.",
    violates="row: Charge pending payment_settled",
    plant=without_effect(ChargeService, "invoice_settled"),
)
def payment_ignored(make: Make) -> bool:
    with make() as sandbox:
        charge = new_charge(sandbox)
        paid(sandbox, charge)
        return bool(charge.status == "pending")


@seeded(
    "state",
    "A Charge whose invoice failed at the node stays pending.",
    violates="row: Charge pending invoice_failed",
    plant=without_effect(ChargeService, "invoice_failed"),
)
def failure_ignored(make: Make) -> bool:
    with make() as sandbox:
        return bool(new_charge(sandbox).fail().status == "pending")


@seeded(
    "state",
    "A paid Charge expires at its `expiresAt`.",
    violates="row: Charge completed expiry_reached",
    plant=spec(row("Charge", "completed", "expiry_reached", to="expired")),
)
def paid_charge_expires(make: Make) -> bool:
    with make() as sandbox:
        charge = new_charge(sandbox)
        paid(sandbox, charge)
        sandbox.run()
        return bool(charge.status == "expired")


@seeded(
    "state",
    "A settlement that is reported twice completes the Charge twice, and is credited twice.",
    violates="row: Charge completed payment_settled",
    plant=both(
        spec(row("Charge", "completed", "payment_settled", to="completed", effects=["notify"])),
        port("node", RepeatingNode),
    ),
)
def completes_twice(make: Make) -> bool:
    with make() as sandbox:
        paid(sandbox, new_charge(sandbox))
        return bool(wallet_of(sandbox) == "50000")


@seeded(
    "state",
    "A failed Charge expires at its `expiresAt`.",
    violates="row: Charge error expiry_reached",
    plant=spec(row("Charge", "error", "expiry_reached", to="expired")),
)
def failed_charge_expires(make: Make) -> bool:
    with make() as sandbox:
        charge = new_charge(sandbox).fail()
        sandbox.run()
        return bool(charge.status == "expired")


@seeded(
    "state",
    "An expired Charge can still be paid, and completes.",
    violates="row: Charge expired payment_settled",
    plant=both(spec(row("Charge", "expired", "payment_settled", to="completed")), port("node", LongPayableNode)),
)
def expired_charge_completes(make: Make) -> bool:
    with make() as sandbox:
        charge = new_charge(sandbox, expiresIn=60)
        sandbox.advance("61s")
        paid(sandbox, charge, late=True)
        return bool(charge.status == "completed")


@seeded(
    "state",
    "Each new id is issued twice, so a second Charge replaces the first.",
    violates="decision: ids",
    plant=component("ChargeService", new_id=every_id_twice),
)
def ids_repeated(make: Make) -> bool:
    with make() as sandbox:
        return bool(new_charge(sandbox).id == new_charge(sandbox).id)


@seeded(
    "state",
    "An expired Static Charge is active again after a change.",
    violates="row: StaticCharge expired slots_reopened",
    plant=spec(row("StaticCharge", "expired", "slots_reopened", to="active", when="slot_free")),
)
def expired_static_reopens(make: Make) -> bool:
    with make() as sandbox:
        static = new_static(sandbox, expiresIn=60)
        sandbox.advance("60s")
        return send(sandbox, "PATCH", f"{STATICS}/{static.id}", {"allowedSlots": 5}).status == 200


@seeded(
    "state",
    "An overpayment is credited with the amount of the Charge only.",
    violates="decision: wallet",
    plant=port("node", InvoicedAmountNode),
)
def overpayment_lost(make: Make) -> bool:
    with make() as sandbox:
        paid(sandbox, new_charge(sandbox), outcome="overpay")
        return bool(wallet_of(sandbox) == "25000")


# Time


@seeded(
    "time",
    "A Charge expires a second before its `expiresAt`.",
    violates="row: Charge pending expiry_reached",
    plant=timer_moved(-1_000),
)
def expires_early(make: Make) -> bool:
    with make() as sandbox:
        charge = new_charge(sandbox, expiresIn=60)
        sandbox.advance("59.999s")
        return bool(charge.status == "expired")


@seeded(
    "time",
    "A Charge expires a second after its `expiresAt`.",
    violates="row: Charge pending expiry_reached",
    plant=timer_moved(1_000),
)
def expires_late(make: Make) -> bool:
    with make() as sandbox:
        charge = new_charge(sandbox, expiresIn=60)
        sandbox.advance("60.999s")
        return bool(charge.status == "pending")


@seeded(
    "time",
    "A Charge expires a millisecond after its `expiresAt`.",
    violates="decision: charge-expiry-instant",
    plant=timer_moved(1),
)
def expires_a_millisecond_late(make: Make) -> bool:
    with make() as sandbox:
        charge = new_charge(sandbox, expiresIn=60)
        sandbox.advance("60s")
        return bool(charge.status == "pending")


@seeded(
    "time",
    "A payment exactly at `expiresAt` completes the Charge.",
    violates="decision: charge-expiry-instant",
    plant=spec(overlays=("payable-at-expiry",)),
)
def payable_at_expiry(make: Make) -> bool:
    with make() as sandbox:
        charge = new_charge(sandbox, expiresIn=60)
        sandbox.wallet("ana").pay(charge, delay="60s")
        sandbox.advance("60s")
        return bool(charge.status == "completed")


@seeded(
    "time",
    "A Charge cannot be paid in its last second.",
    violates="row: Charge pending payment_settled",
    plant=port("node", ShortPayableNode),
)
def last_second_refused(make: Make) -> bool:
    with make() as sandbox:
        charge = new_charge(sandbox, expiresIn=60)
        payment = sandbox.wallet("ana").pay(charge, delay="59.5s")
        sandbox.advance("59.5s")
        return bool(payment.status == "failed")


@seeded(
    "time",
    "A Charge without an `expiresIn` expires after an hour instead of ten minutes.",
    violates="decision: expires-in",
    plant=spec(schema("ChargeRequest", "expiresIn", default=3_600)),
)
def another_default_expiry(make: Make) -> bool:
    return charge_shown(make)["expiresAt"] == "2030-01-01T01:00:00.000Z"


@seeded(
    "time",
    "A Static Charge with an `expiresIn` never expires.",
    violates="row: StaticCharge active expiry_reached",
    plant=timer_lost(leyden.server.charges.static_charges.TIMER),
)
def static_never_expires(make: Make) -> bool:
    with make() as sandbox:
        static = new_static(sandbox, expiresIn=60)
        sandbox.advance("60s")
        return bool(static.status == "active")


@seeded(
    "time",
    "An invoice of a Static Charge expires after the Static Charge.",
    violates="decision: static-expiry",
    plant=attribute(
        ChargeService,
        "issue",
        lambda original: (
            lambda self, **facts: original(
                self, **({**facts, "expiry_s": 300} if facts.get("static_charge_id") else facts)
            )
        ),
    ),
)
def invoice_outlives_its_static_charge(make: Make) -> bool:
    with make() as sandbox:
        static = new_static(sandbox, expiresIn=60)
        paid(sandbox, static, 2_000, outcome="hold")
        return bool(static.charges[0].data["expiresAt"] > static.data["expiresAt"])


@seeded(
    "time",
    "The clock goes back: a later Charge has an earlier `createdAt`.",
    violates="spec: /components/schemas/Charge/properties/createdAt",
    plant=component("ChargeService", clock=BackwardsClock),
)
def clock_goes_back(make: Make) -> bool:
    with make() as sandbox:
        sandbox.advance("59s")
        first = new_charge(sandbox)
        sandbox.advance("1s")
        return bool(new_charge(sandbox).created_at < first.created_at)


@seeded(
    "time",
    "`confirmedAt` is rounded down to the second, so a payment seems to arrive before it was sent.",
    violates="spec: /components/schemas/Charge/properties/confirmedAt",
    plant=port("node", RoundingNode),
)
def confirmed_at_rounded(make: Make) -> bool:
    with make() as sandbox:
        charge = new_charge(sandbox)
        sandbox.wallet("ana").pay(charge, delay="1.5s")
        sandbox.advance("2s")
        return bool(charge.data["confirmedAt"] == "2030-01-01T00:00:01.000Z")
