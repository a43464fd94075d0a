"""The machine: the same rules as a Hypothesis state machine, which looks for rare states and shrinks what it finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis import target as aim
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from leyden.harness.checks.violations import Broken
from leyden.harness.generators.choices import Digits
from leyden.harness.generators.generators import RULES, STEPS, scene
from leyden.harness.model.charges import Cell
from leyden.harness.options import OVERLAYS
from leyden.harness.runs.adapters import InProcess, Target
from leyden.harness.runs.cases import Case, run_on
from leyden.harness.runs.run import Run
from leyden.harness.runs.run_config import Rule, Scene

LUCK = st.integers(0, Digits.SPAN - 1)
_RARE = frozenset({"no_slot_left", "too_late", "exhausted", "stopped", "lost", "at_or_before_expiry"})


@dataclass(slots=True)
class Watch:
    """What the machines of one campaign have seen: the last one's steps are those of the finding.

    `hasty` ends everything at the first finding, which is then `broken`; Hypothesis by itself would look for more, and
    climb for thousands of worlds.
    """

    hasty: bool = False
    broken: Broken | None = None
    seen: dict[Cell, None] = field(default_factory=dict)
    unchecked: dict[str, None] = field(default_factory=dict)
    case: Case | None = None
    done: int = 0


class Enough(BaseException):
    """A hasty search has found something. Hypothesis lets through what is no `Exception`."""


def machine(
    make: Callable[[], Target] = InProcess, *, watch: Watch | None = None, overlays: Sequence[str] | None = None
) -> type[RuleBasedStateMachine]:
    """A state machine over fresh worlds of a target. `overlays` None lets Hypothesis choose; `watch` is told
    everything."""
    watching = watch if watch is not None else Watch()

    class Machine(RuleBasedStateMachine):
        """One world, and the model beside it."""

        def __init__(self) -> None:
            super().__init__()
            self.target = make()
            self.run: Run | None = None
            self.around: Scene | None = None
            self.steps: list[dict[str, Any]] = []

        @initialize(luck=LUCK, chosen=st.sampled_from((None, None, None, *OVERLAYS)))
        def begin(self, luck: int, chosen: str | None) -> None:
            readings = overlays if overlays is not None else () if chosen is None else (chosen,)
            around = scene(
                Digits(luck), overlays=readings, controlled=self.target.controlled, disks=self.target.restarts
            )
            self.around = around

            def enter() -> None:
                self.run = run_on(
                    self.target, seed=1, start_ms=around.start_ms, overlays=around.overlays, disk=around.disk
                )  # fmt: skip

            self._watched(enter)

        def act(self, by: Rule, luck: int) -> None:
            assert self.run is not None
            assert self.around is not None
            run = self.run
            step = by(Digits(luck), run.model, self.around)
            if step is not None:
                self.steps.append(step)
                self._watched(lambda: run.do(step))

        def _watched(self, look: Callable[[], object]) -> None:
            try:
                look()
            except Broken as error:
                watching.broken = error
                if watching.hasty:
                    raise Enough from error
                raise

        def teardown(self) -> None:
            around, run = self.around, self.run
            if around is None:
                return
            watching.case = Case(tuple(self.steps), 1, around.start_ms, around.overlays, around.disk, name="machine")
            watching.done += 0 if run is None else run.done
            if run is None or (watching.hasty and watching.broken is not None):
                self.target.end()
                return
            try:
                self._watched(run.finish)
                aim(float(len(run.seen)), label="cells reached")
                aim(float(sum(cell[-1] in _RARE for cell in run.seen)), label="rare states")
            finally:
                watching.seen.update(run.seen)
                watching.unchecked.update(run.unchecked)
                self.target.end()

    for name, by in RULES.items():
        setattr(Machine, name, _rule(by))
    return Machine


def _rule(by: Rule) -> Any:
    def act(self: Any, luck: int) -> None:
        self.act(by, luck)

    act.__name__ = by.__name__.lstrip("_")
    return rule(luck=LUCK)(act)


def bounded(examples: int, *, shrinks: bool = True, derandomize: bool = False) -> settings:
    """Settings for a campaign of so many worlds."""
    phases = [Phase.generate, Phase.target, *([Phase.shrink] if shrinks else [])]
    return settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        derandomize=derandomize,
        phases=phases,
        verbosity=Verbosity.quiet,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


def search(
    seed: int, examples: int, make: Callable[[], Target] = InProcess, *, overlays: Sequence[str] | None = None
) -> Watch:
    """Let Hypothesis look, from a seed, through so many worlds, up to the first promise that it finds broken."""
    watch = Watch(hasty=True)
    found = seeded(seed)(machine(make, watch=watch, overlays=overlays))
    with suppress(Enough):
        run_state_machine_as_test(found, settings=bounded(examples, shrinks=False))
    return watch
