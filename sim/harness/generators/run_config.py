"""The configuration of a random run, and the choices that all generators share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from leyden.harness.generators.choices import Choices, one_in, pick
from leyden.harness.model.model import Model
from leyden.harness.model.records import Charge, StaticCharge
from leyden.harness.steps import Step


@dataclass(slots=True)
class RunConfig:
    """The configuration of a run: the names of its generators, its start, its overlays, and whether its data is on
    disk.

    `size` is how many times as many rows and steps it has as most runs. Swarm testing: a run has only some of the
    generators, so that those it has get more steps.
    """

    generators: tuple[str, ...]
    start_ms: int
    overlays: tuple[str, ...] = ()
    disk: bool = False
    size: int = 1
    counts: dict[str, int] = field(default_factory=dict)
    idempotent_steps: list[Step] = field(default_factory=list)

    def label(self, kind: str) -> str:
        """The next label of a kind: c1, c2, ..."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return f"{kind}{self.counts[kind]}"


StepGenerator = Callable[[Choices, Model, RunConfig], Step | None]


def random_charge(choices: Choices, model: Model) -> Charge | None:
    """One of the Charges; mostly a pending one."""
    charges = list(model.ledger.charges.values())
    if not charges:
        return None
    pending = [one for one in charges if one.status == "pending"]
    return pick(choices, pending if pending and choices.below(3) else charges)


def random_static(choices: Choices, model: Model) -> StaticCharge | None:
    """One of the Static Charges."""
    static_charges = list(model.ledger.static_charges.values())
    return pick(choices, static_charges) if static_charges else None


def by_either_project(choices: Choices, step: Step) -> Step:
    """The step; one time in eight with the second project's API key."""
    return {**step, "by": "second"} if one_in(choices, 8) else step
