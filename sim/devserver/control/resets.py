"""A reset of a served sandbox, and what it says about the webhook secrets that signed before it."""

from __future__ import annotations

from leyden.devserver.clock_changes import note_reset
from leyden.world.engines import PreparedEngine
from leyden.world.world import World

_ROTATION_ENDED = (
    "the reset ended the rotation of the webhook secret: only the current one signs in this run, so a receiver that"
    " has an earlier one refuses its callbacks; give it the secret of GET /sandbox/v1/webhook-secret"
)


def reset_world(
    world: World,
    *,
    seed: int | None,
    start_ms: int | None,
    starts_now: bool,
    prepared: PreparedEngine | None = None,
) -> None:
    """Do `World.reset`. If an earlier webhook secret signed besides the current one, the notes of the new run say that
    it does so no longer, and whether it is ahead of the system clock."""
    with world.lock:
        signing = world.service.projects.signing_secrets(world.config.project, world.clock.now())
        world.reset(seed=seed, start_ms=start_ms, starts_now=starts_now, prepared=prepared)
        if len(signing) > 1:
            world.run_notes.append(_ROTATION_ENDED)
        if start_ms is None:
            note_reset(world)
