"""Defects of restarts: what is forgotten when a sandbox that lasts is opened again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leyden import Sandbox
from leyden.server.callbacks.outbox import Outbox
from leyden.server.charges.charges import ChargeService
from leyden.server.charges.static_charges import StaticChargeService
from leyden.server.service import Service
from leyden.world.rng import RandomStreams
from tests.seeded_defects.defect import Make, Plant, seeded
from tests.seeded_defects.ports import deaf
from tests.seeded_defects.probing import (
    CHARGES,
    HOOK,
    inbox,
    new_charge,
    new_static,
    paid,
    restarted,
    send,
    wallet_of,
)
from tests.seeded_defects.repeats import post
from tests.seeded_defects.seams import attribute


def resumed(spoil: Callable[[Service], Any]) -> Plant:
    """Spoil something when a service takes up the work of a store that was kept."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def resume(self: Service) -> None:
            spoil(self)
            original(self)

        return resume

    return attribute(Service, "resume", make)


def _newest_gone(made: Service) -> None:
    table = made.charges.charges
    for row in list(table)[-1:]:
        table.delete(row["id"])


@seeded(
    "restart",
    "The newest Charge is lost in a restart.",
    violates="spec: /paths/~1v0~1charges~1{id}/get",
    plant=resumed(_newest_gone),
)
def row_lost(make: Make) -> bool:
    return restarted(
        make,
        lambda sandbox: new_charge(sandbox).id,
        lambda sandbox, kept: send(sandbox, "GET", f"{CHARGES}/{kept}").status == 404,
    )


@seeded(
    "restart",
    "A Charge that was pending before a restart never expires.",
    violates="row: Charge pending expiry_reached",
    plant=deaf(ChargeService, "resume"),
)
def expiry_forgotten(make: Make) -> bool:
    def overdue(sandbox: Sandbox, kept: str) -> bool:
        sandbox.advance("1h")
        return bool(sandbox.charges[kept].status == "pending")

    return restarted(make, lambda sandbox: new_charge(sandbox).id, overdue)


@seeded(
    "restart",
    "A Static Charge with an `expiresIn` never expires after a restart.",
    violates="row: StaticCharge active expiry_reached",
    plant=deaf(StaticChargeService, "resume"),
)
def static_expiry_forgotten(make: Make) -> bool:
    def overdue(sandbox: Sandbox, kept: str) -> bool:
        sandbox.advance("1h")
        return bool(sandbox.static_charges[kept].status == "active")

    return restarted(make, lambda sandbox: new_static(sandbox, expiresIn=60).id, overdue)


@seeded(
    "restart",
    "A callback that waited for its next attempt is forgotten in a restart.",
    violates="decision: callback-delivery",
    plant=deaf(Outbox, "resume"),
)
def delivery_forgotten(make: Make) -> bool:
    def refused(sandbox: Sandbox) -> None:
        sandbox.receiver("shop").answers([500])
        paid(sandbox, new_charge(sandbox, callbackUrl=HOOK))

    def silent(sandbox: Sandbox, kept: None) -> bool:
        sandbox.advance("1d")
        return len(inbox(sandbox)) == 1

    return restarted(make, refused, silent)


def _keys_gone(made: Service) -> None:
    table = made.store.table("idempotency", key="id")
    for row in list(table):
        table.delete(row["id"])


@seeded(
    "restart",
    "Idempotency-Keys are forgotten in a restart, so a repeated request is done twice.",
    violates="decision: idempotency",
    plant=resumed(_keys_gone),
)
def keys_forgotten(make: Make) -> bool:
    return restarted(make, lambda sandbox: post(sandbox).raw, lambda sandbox, kept: post(sandbox).raw != kept)


def _empty_wallets(made: Service) -> None:
    table = made.store.table("wallets", key="id")
    for row in list(table):
        table.put({**row, "balance_msat": 0})


@seeded(
    "restart",
    "The balance begins at nothing after a restart.",
    violates="decision: wallet",
    plant=resumed(_empty_wallets),
)
def balance_forgotten(make: Make) -> bool:
    return restarted(
        make,
        lambda sandbox: paid(sandbox, new_charge(sandbox)),
        lambda sandbox, kept: wallet_of(sandbox) == "0",
    )


@seeded(
    "restart",
    "After a restart the same ids are given out again, and new Charges take the place of old ones.",
    violates="decision: ids",
    plant=deaf(RandomStreams, "restore"),
)
def ids_begin_anew(make: Make) -> bool:
    return restarted(make, lambda sandbox: new_charge(sandbox).id, lambda sandbox, kept: new_charge(sandbox).id == kept)
