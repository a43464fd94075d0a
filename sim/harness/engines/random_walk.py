"""The random walk: one run of random steps from a seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leyden.harness.generators.choices import Choices, one_in, pick
from leyden.harness.generators.generators import LARGE, ROWS, STEPS, next_step, random_run_config
from leyden.harness.generators.run_config import RunConfig
from leyden.harness.model.rules import OVERLAYS
from leyden.harness.runs.cases import Case, CaseResult, play
from leyden.harness.runs.run import Run
from leyden.harness.steps import Step
from leyden.harness.targets.target import Target
from leyden.rng import RandomStreams
from leyden.server.errors import ContractError


def _steps(choices: Choices, run: Run, config: RunConfig) -> Iterator[Step]:
    """The steps of a run; a large one may begin with more rows than the largest page has."""
    if config.size == LARGE and one_in(choices, 4):
        yield {"do": "fill", "of": pick(choices, ("charges", "statics")), "count": ROWS, "as": "row"}
    for _ in range(STEPS * config.size):
        yield next_step(choices, run.model, config)


def random_walk(seed: int, target: Target, *, overlays: Sequence[str] | None = None, disks: bool = True) -> CaseResult:
    """Run `STEPS` random steps from this seed, up to the first violation.

    With `overlays` None the run chooses one overlay or, mostly, none. Without `disks` no run keeps its data in a
    directory, so none restarts the service.
    """
    choices = RandomStreams(seed).stream("walk")
    if overlays is None:
        overlays = (pick(choices, OVERLAYS),) if one_in(choices, 4) else ()
    config = random_run_config(
        choices, overlays=overlays, controlled=target.controlled, disks=disks and target.restarts
    )
    case = Case((), seed, config.start_ms, config.overlays, config.disk, name=f"random-walk-{seed}")
    try:
        return play(case, target, lambda run: _steps(choices, run, config))
    except ContractError:
        # The target serves another document than the overlay was written for: this combination does not exist.
        if not config.overlays:
            raise
        return CaseResult(case)
