"""Defects of slots, and of races."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import leyden.server.charges.static_charges
from leyden.server.charges.charges import ChargeService
from leyden.server.charges.lnurl_pay import INVOICE_EXPIRY_S
from leyden.server.charges.static_charges import StaticChargeService
from tests.seeded_defects.defect import Make, seeded
from tests.seeded_defects.patches import attribute, both, component, handler, port, refusal, row, spec
from tests.seeded_defects.ports import RepeatingNode, without_effect
from tests.seeded_defects.probing import fetch, new_charge, new_static, paid


def _one_more(guards: Mapping[str, Any]) -> dict[str, Any]:
    true = guards["slot_free"]
    return {**guards, "slot_free": lambda row, at: true({**row, "slots": row["slots"] - 1}, at)}


def _closes_after_one_more(original: Callable[..., Any]) -> Callable[..., Any]:
    def close_if_full(self: Any, charge: Any, at: int) -> None:
        row = self.static_charges.existing(charge["static_charge_id"])
        if row["allowed_slots"] is None or row["slots"] > row["allowed_slots"]:
            original(self, charge, at)

    return close_if_full


def _closes_before_the_last(original: Callable[..., Any]) -> Callable[..., Any]:
    def close_if_full(self: Any, charge: Any, at: int) -> None:
        original(self, charge, at)
        row = self.static_charges.existing(charge["static_charge_id"])
        if row["allowed_slots"] is not None and row["slots"] == row["allowed_slots"] - 1:
            self.lifecycle.apply(row, "slots_filled", at)

    return close_if_full


def slots_after(make: Make, payments: int, **fields: Any) -> tuple[int, str]:
    """The number of used slots and the state after several payments, some of which may fail."""
    with make() as sandbox:
        static = new_static(sandbox, **fields)
        for _ in range(payments):
            try:
                paid(sandbox, static, 2_000)
            except ValueError:
                break
        return static.slots, static.status


@seeded(
    "slots",
    "A Static Charge accepts one payment more than `allowedSlots`.",
    violates="row: StaticCharge active slots_filled",
    plant=both(
        component("Lifecycle", leyden.server.charges.static_charges, guards=_one_more),
        attribute(StaticChargeService, "disable_if_full", _closes_after_one_more),
    ),
)
def one_slot_too_many(make: Make) -> bool:
    return slots_after(make, 3, allowedSlots=2)[0] == 3


@seeded(
    "slots",
    "A Static Charge is disabled while one slot is left.",
    violates="row: StaticCharge active slots_filled",
    plant=attribute(StaticChargeService, "disable_if_full", _closes_before_the_last),
)
def one_slot_too_few(make: Make) -> bool:
    return slots_after(make, 3, allowedSlots=2) == (1, "disabled")


@seeded(
    "slots",
    "A Static Charge stays active when its last slot is used.",
    violates="row: StaticCharge active slots_filled",
    plant=without_effect(StaticChargeService, "disable_if_full"),
)
def never_disabled(make: Make) -> bool:
    return slots_after(make, 2, allowedSlots=2) == (2, "active")


@seeded(
    "slots",
    "Each payment uses two slots.",
    violates="decision: slots",
    plant=port("node", RepeatingNode),
)
def slot_counted_twice(make: Make) -> bool:
    return slots_after(make, 1)[0] == 2


@seeded(
    "slots",
    "A slot is used when an invoice is requested, even if it is never paid.",
    violates="decision: last-slot",
    plant=spec(overlays=("reserve-on-issue",)),
)
def slot_used_without_payment(make: Make) -> bool:
    with make() as sandbox:
        static = new_static(sandbox, allowedSlots=1)
        sandbox.wallet("ana").scan(static, amount=2_000, delay="5m")
        try:
            sandbox.wallet("bob").scan(static, amount=2_000)
        except ValueError:
            return True
        return False


@seeded(
    "slots",
    "More slots do not reopen a disabled Static Charge.",
    violates="row: StaticCharge disabled slots_reopened",
    plant=spec(refusal("StaticCharge", "disabled", "slots_reopened")),
)
def not_reopened(make: Make) -> bool:
    with make() as sandbox:
        static = new_static(sandbox, allowedSlots=1)
        paid(sandbox, static, 2_000)
        return bool(static.update(allowedSlots=2).status == "disabled")


@seeded(
    "slots",
    "A disabled Static Charge still issues invoices.",
    violates="row: StaticCharge disabled invoice_requested",
    plant=spec(row("StaticCharge", "disabled", "invoice_requested", to="disabled", effects=["issue_invoice"])),
)
def disabled_issues_invoices(make: Make) -> bool:
    with make() as sandbox:
        static = new_static(sandbox, allowedSlots=1)
        paid(sandbox, static, 2_000)
        return "pr" in fetch(sandbox, f"http://localhost/lnurlp/{static.id}/invoice?amount=2000")


# Races


@seeded(
    "races",
    "Two payers use the last slot, because the open invoices are not cancelled.",
    violates="decision: last-slot",
    plant=spec(row("StaticCharge", "active", "slots_filled", to="disabled")),
)
def last_slot_sold_twice(make: Make) -> bool:
    with make() as sandbox:
        static = new_static(sandbox, allowedSlots=1)
        payments = [sandbox.wallet(name).scan(static, amount=2_000) for name in ("ana", "bob")]
        sandbox.advance("1s")
        return all(payment.status == "succeeded" for payment in payments)


@seeded(
    "races",
    "Two payers use the last slot, and both payments are counted.",
    violates="decision: slots",
    plant=spec(overlays=("count-on-settle",)),
)
def slots_above_the_allowed(make: Make) -> bool:
    with make() as sandbox:
        static = new_static(sandbox, allowedSlots=1)
        for name in ("ana", "bob"):
            sandbox.wallet(name).scan(static, amount=2_000)
        sandbox.advance("1s")
        return bool(static.slots == 2)


@seeded(
    "races",
    "A payment that is held when the Charge expires does not fail.",
    violates="row: Charge pending expiry_reached",
    plant=spec(row("Charge", "pending", "expiry_reached", to="expired", effects=["notify"])),
)
def held_payment_not_failed_at_expiry(make: Make) -> bool:
    with make() as sandbox:
        charge = new_charge(sandbox, expiresIn=60)
        payment = paid(sandbox, charge, outcome="hold")
        sandbox.advance("60s")
        return bool(payment.status == "held")


def _a_minute_more(facts: dict[str, Any]) -> dict[str, Any]:
    # Only an invoice of a Static Charge that expires earlier has less than five minutes.
    ends = facts.get("static_charge_id") and facts["expiry_s"] < INVOICE_EXPIRY_S
    return {**facts, "expiry_s": facts["expiry_s"] + 60} if ends else facts


@seeded(
    "races",
    "The open invoices of an expired Static Charge can be paid.",
    violates="row: StaticCharge active expiry_reached",
    plant=both(
        spec(row("StaticCharge", "active", "expiry_reached", to="expired")),
        attribute(
            ChargeService,
            "issue",
            lambda original: lambda self, **facts: original(self, **_a_minute_more(facts)),
        ),
    ),
)
def payable_after_the_static_charge(make: Make) -> bool:
    with make() as sandbox:
        static = new_static(sandbox, expiresIn=60)
        payment = sandbox.wallet("ana").scan(static, amount=2_000, delay="61s")
        sandbox.advance("61s")
        return bool(payment.status == "succeeded")


def _writes_back(service: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    def update(call: Any) -> Any:
        response = original(call)
        table = service.static_charges.static_charges
        table.put({**table.existing(call.path["id"]), "slots": 0})
        return response

    return update


@seeded(
    "races",
    "A change of a Static Charge resets its slots to those at its creation.",
    violates="decision: static-updates",
    plant=handler("updateStaticCharge", _writes_back),
)
def change_resets_slots(make: Make) -> bool:
    with make() as sandbox:
        static = new_static(sandbox)
        paid(sandbox, static, 2_000)
        return bool(static.update(maxAmount="8000").slots == 0)
