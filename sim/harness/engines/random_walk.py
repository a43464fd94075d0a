"""The walk: seeded steps at full speed, one fresh world after another, until a promise is broken or time is up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from leyden.harness.checks.violations import Broken
from leyden.harness.engines.shrink import shrink
from leyden.harness.generators.choices import chance, pick, stream
from leyden.harness.generators.generators import STEPS, next_step, scene
from leyden.harness.model.charges import Cell
from leyden.harness.options import OVERLAYS
from leyden.harness.runs.adapters import Target
from leyden.harness.runs.cases import Case, Played, run_on
from leyden.harness.runs.run import Run
from leyden.server.errors import ContractError


@dataclass(slots=True)
class Walked:
    """One run of the walk: the steps it made, what it reached, and the promise it found broken."""

    case: Case
    seen: dict[Cell, None]
    broken: Broken | None
    done: int
    unchecked: dict[str, None] = field(default_factory=dict)


def walk(seed: int, target: Target, *, overlays: Sequence[str] | None = None, disks: bool = True) -> Walked:
    """One run from this seed. `overlays` None lets the dice choose, mostly none. Without `disks` no world is kept in a
    directory, so none is stopped and started."""
    dice = stream(seed)
    if overlays is None:
        overlays = (pick(dice, OVERLAYS),) if chance(dice, 4) else ()
    around = scene(dice, overlays=overlays, controlled=target.controlled, disks=disks and target.restarts)
    made = []
    broken = None
    run: Run | None = None
    try:
        run = run_on(target, seed=seed, start_ms=around.start_ms, overlays=around.overlays, disk=around.disk)
        for _ in range(STEPS):
            step = next_step(dice, run.model, around)
            made.append(step)
            run.do(step)
        run.finish()
    except Broken as error:
        broken = error
    except ContractError:
        # This specification is another one than the overlay was written for: then there is no such world.
        if run is not None or not around.overlays:
            raise
    finally:
        target.end()
    case = Case(tuple(made), seed, around.start_ms, tuple(around.overlays), around.disk, name=f"walk-{seed}")
    if run is None:
        return Walked(case, {}, broken, 0)
    return Walked(case, run.seen, broken, run.done, run.unchecked)


def minimal(walked: Walked, target: Target) -> tuple[Case, Played]:
    """The finding of a run as a small case that happens again, with its proof."""
    assert walked.broken is not None, "only a run that broke a promise has a finding"
    return shrink(walked.case, target, walked.broken)
