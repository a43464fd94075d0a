"""Defects of copies of a sandbox: what a restore does not undo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leyden import Sandbox
from leyden.devserver.control import copies
from leyden.world.world import World
from tests.seeded_defects.defect import Make, Plant, seeded
from tests.seeded_defects.idempotency import post
from tests.seeded_defects.patches import attribute
from tests.seeded_defects.probing import CHARGES, HOOK, inbox, new_charge, paid, send

_INBOX = "/sandbox/v1/inboxes/shop/script"


def not_undone(name: str) -> Plant:
    """A restore keeps the rows of a table that were added or changed since the snapshot."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def return_to(world: World, snapshot: Mapping[str, Any], rate: float) -> None:
            rows = [dict(row) for row in world.store.table(name)]
            original(world, snapshot, rate)
            with world.exclusive():
                for row in rows:
                    world.store.table(name).put(row)

        return return_to

    return attribute(copies, "return_to", make)


def _undone(sandbox: Sandbox, change: Callable[[], object]) -> None:
    """Change something, and return to a snapshot from before it."""
    snapshot = send(sandbox, "POST", "/sandbox/v1/snapshots", {}).json["id"]
    change()
    send(sandbox, "POST", "/sandbox/v1/restore", {"snapshot": snapshot})


@seeded(
    "idempotency",
    "After a restore the Idempotency-Keys that were used since the snapshot are still used.",
    violates="decision: sandbox-copies",
    plant=not_undone("idempotency"),
)
def key_used_after_a_restore(make: Make) -> bool:
    with make() as sandbox:
        _undone(sandbox, lambda: post(sandbox))
        return bool(send(sandbox, "GET", f"{CHARGES}/{post(sandbox).json['data']['id']}").status == 404)


@seeded(
    "callbacks",
    "After a restore a receiver answers as it was told to since the snapshot.",
    violates="decision: sandbox-copies",
    plant=not_undone("receivers"),
)
def script_kept_in_a_restore(make: Make) -> bool:
    with make() as sandbox:
        send(sandbox, "PUT", _INBOX, {"always": 204})
        _undone(sandbox, lambda: send(sandbox, "PUT", _INBOX, {"always": 410}))
        paid(sandbox, new_charge(sandbox, callbackUrl=HOOK))
        rows = send(sandbox, "GET", "/sandbox/v1/deliveries").json["data"]
        return bool(rows[0]["attempts"][0]["status"] == 410)


@seeded(
    "callbacks",
    "A fault that was added since the snapshot changes callbacks after a restore.",
    violates="decision: sandbox-copies",
    plant=not_undone("faults"),
)
def fault_kept_in_a_restore(make: Make) -> bool:
    with make() as sandbox:
        _undone(sandbox, lambda: send(sandbox, "POST", "/sandbox/v1/faults", {"kind": "drop"}))
        paid(sandbox, new_charge(sandbox, callbackUrl=HOOK))
        return len(inbox(sandbox)) == 0
