"""Defects of restarts: what is lost when a sandbox on disk is reopened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leyden import Sandbox
from leyden.rng import RandomStreams
from leyden.server.callbacks.outbox import Outbox
from leyden.server.charges.charges import ChargeService
from leyden.server.charges.static_charges import StaticChargeService
from leyden.server.service import Service
from tests.seeded_defects.defect import Make, Plant, seeded
from tests.seeded_defects.idempotency import post
from tests.seeded_defects.patches import attribute
from tests.seeded_defects.ports import without_effect
from tests.seeded_defects.probing import (
    CHARGES,
    HOOK,
    after_restart,
    inbox,
    new_charge,
    new_static,
    paid,
    send,
    wallet_of,
)


def resumed(spoil: Callable[[Service], Any]) -> Plant:
    """Change the state when a service opens an existing store."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def resume(self: Service, *arguments: Any) -> None:
            spoil(self)
            original(self, *arguments)

        return resume

    return attribute(Service, "resume", make)


def _newest_gone(service: Service) -> None:
    table = service.charges.charges
    for row in list(table)[-1:]:
        table.delete(row["id"])


@seeded(
    "restart",
    "The newest Charge is lost in a restart.",
    violates="spec: /paths/~1v0~1charges~1{id}/get",
    plant=resumed(_newest_gone),
)
def row_lost(make: Make) -> bool:
    return after_restart(
        make,
        lambda sandbox: new_charge(sandbox).id,
        lambda sandbox, kept: send(sandbox, "GET", f"{CHARGES}/{kept}").status == 404,
    )


@seeded(
    "restart",
    "A Charge that was pending before a restart never expires.",
    violates="row: Charge pending expiry_reached",
    plant=without_effect(ChargeService, "resume"),
)
def expiry_forgotten(make: Make) -> bool:
    def overdue(sandbox: Sandbox, kept: str) -> bool:
        sandbox.advance("1h")
        return bool(sandbox.charges[kept].status == "pending")

    return after_restart(make, lambda sandbox: new_charge(sandbox).id, overdue)


@seeded(
    "restart",
    "A Static Charge with an `expiresIn` never expires after a restart.",
    violates="row: StaticCharge active expiry_reached",
    plant=without_effect(StaticChargeService, "resume"),
)
def static_expiry_forgotten(make: Make) -> bool:
    def overdue(sandbox: Sandbox, kept: str) -> bool:
        sandbox.advance("1h")
        return bool(sandbox.static_charges[kept].status == "active")

    return after_restart(make, lambda sandbox: new_static(sandbox, expiresIn=60).id, overdue)


@seeded(
    "restart",
    "A callback with a scheduled retry is lost in a restart.",
    violates="decision: callback-delivery",
    plant=without_effect(Outbox, "resume"),
)
def delivery_forgotten(make: Make) -> bool:
    def refused(sandbox: Sandbox) -> None:
        sandbox.receiver("shop").answers([500])
        paid(sandbox, new_charge(sandbox, callbackUrl=HOOK))

    def silent(sandbox: Sandbox, kept: None) -> bool:
        sandbox.advance("1d")
        return len(inbox(sandbox)) == 1

    return after_restart(make, refused, silent)


def _keys_gone(service: Service) -> None:
    table = service.store.table("idempotency", key="id")
    for row in list(table):
        table.delete(row["id"])


@seeded(
    "restart",
    "Idempotency-Keys are lost in a restart, so a repeated request is processed twice.",
    violates="decision: idempotency",
    plant=resumed(_keys_gone),
)
def keys_forgotten(make: Make) -> bool:
    return after_restart(make, lambda sandbox: post(sandbox).raw, lambda sandbox, kept: post(sandbox).raw != kept)


def _empty_wallets(service: Service) -> None:
    table = service.store.table("wallets", key="id")
    for row in list(table):
        table.put({**row, "balance_msat": 0})


@seeded(
    "restart",
    "The balance is 0 after a restart.",
    violates="decision: wallet",
    plant=resumed(_empty_wallets),
)
def balance_forgotten(make: Make) -> bool:
    return after_restart(
        make,
        lambda sandbox: paid(sandbox, new_charge(sandbox)),
        lambda sandbox, kept: wallet_of(sandbox) == "0",
    )


@seeded(
    "restart",
    "After a restart the same ids are issued again, and new Charges replace old ones.",
    violates="decision: ids",
    plant=without_effect(RandomStreams, "restore"),
)
def ids_repeated_after_restart(make: Make) -> bool:
    return after_restart(
        make, lambda sandbox: new_charge(sandbox).id, lambda sandbox, kept: new_charge(sandbox).id == kept
    )
