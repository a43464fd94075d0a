"""The random walk: one run of random steps from a seed."""

from __future__ import annotations

from collections.abc import Sequence

from leyden.harness.checks.violations import ContractViolation
from leyden.harness.constants import OVERLAYS
from leyden.harness.generators.choices import one_in, pick, seeded_choices
from leyden.harness.generators.generators import STEPS, next_step, random_run_config
from leyden.harness.runs.cases import Case, CaseResult, result_of, start_run
from leyden.harness.runs.run import Run
from leyden.harness.targets.target import Target
from leyden.server.errors import ContractError


def random_walk(seed: int, target: Target, *, overlays: Sequence[str] | None = None, disks: bool = True) -> CaseResult:
    """Run `STEPS` random steps from this seed, up to the first violation.

    With `overlays` None the run chooses one overlay or, mostly, none. Without `disks` no run keeps its data in a
    directory, so none restarts the service.
    """
    choices = seeded_choices(seed)
    if overlays is None:
        overlays = (pick(choices, OVERLAYS),) if one_in(choices, 4) else ()
    config = random_run_config(
        choices, overlays=overlays, controlled=target.controlled, disks=disks and target.restarts
    )
    steps = []
    violation = None
    run: Run | None = None
    try:
        run = start_run(target, seed=seed, start_ms=config.start_ms, overlays=config.overlays, disk=config.disk)
        for _ in range(STEPS):
            step = next_step(choices, run.model, config)
            steps.append(step)
            run.do(step)
        run.final_checks()
    except ContractViolation as error:
        violation = error
    except ContractError:
        # The target serves another document than the overlay was written for: this combination does not exist.
        if run is not None or not config.overlays:
            raise
    finally:
        target.end()
    name = f"random-walk-{seed}"
    case = Case(tuple(steps), seed, config.start_ms, tuple(config.overlays), config.disk, name=name)
    return result_of(case, run, violation)
