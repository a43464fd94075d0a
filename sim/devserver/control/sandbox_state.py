"""The resources of the control plane that show the sandbox as a whole and its clock."""

from __future__ import annotations

from typing import Any

from leyden.devserver.clock_changes import shown_notes
from leyden.server.timestamps import to_iso
from leyden.server.version import VERSION
from leyden.world.world import World


def sandbox_state(world: World, project: str) -> dict[str, Any]:
    """The sandbox: its configuration, its clock, the balance of the project, and how much there is of each kind."""
    charges, retention = world.service.charges.charges, world.retention
    return {
        "version": VERSION,
        "contract": world.config.contract.version,
        "seed": world.config.seed,
        "start": to_iso(world.config.start_ms),
        **clock_state(world),
        "overlays": list(world.config.contract.overlays),
        "charges": {status: count for (status,), count in sorted(charges.counts("status").items())},
        "pending": len(world.clock),
        "journalHash": world.journal.hash,
        "publicUrl": world.public_url,
        "balance": str(world.service.charges.balance_msat(project)),
        "network": world.engine is not None,
        "ignoredFields": world.service.pipeline.ignored_fields.texts,
        "notes": shown_notes(world),
        "serviceFaults": len(world.service_faults.index),
        "lnurlRefused": 0 if world.server is None else world.server.lnurl_refused,
        **({} if retention is None else {"keep": retention.keep}),
        **({} if retention is None and not world.removed.any_row() else {"removed": world.removed.counts()}),
    }


def clock_state(world: World) -> dict[str, Any]:
    """The clock."""
    return {"now": to_iso(world.clock.now()), "rate": world.clock.rate}


def over_http(world: World) -> str:
    """How a request reaches the server of this sandbox: what is no operation of a request in process may be one
    there."""
    if world.server is not None:
        return f"send the request to {world.public_url}, where this sandbox is served"
    return "send the request to the URL that Sandbox.serve() returns, or to that of `leyden serve`"
