"""The machine: the same rules as a Hypothesis state machine, which looks for rare states and shrinks what it finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis import target as aim
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from sim.harness.adapters import InProcess, Target
from sim.harness.broken import Broken
from sim.harness.cases import Case, run_on
from sim.harness.dice import Digits
from sim.harness.options import OVERLAYS
from sim.harness.rules import RULES, scene
from sim.harness.run import Run
from sim.harness.scene import Rule, Scene

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
    seen: dict[tuple[str, ...], str] = field(default_factory=dict)
    case: Case | None = None
    runs: int = 0
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
            around = scene(Digits(luck), overlays=readings, controlled=self.target.controlled)
            self.around = around
            self.run = run_on(
                self.target, seed=1, start_ms=around.start_ms, overlays=around.overlays, disk=around.disk
            )  # fmt: skip

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
            watching.runs += 1
            if self.run is None or self.around is None:
                return
            around, run = self.around, self.run
            watching.case = Case(tuple(self.steps), 1, around.start_ms, around.overlays, around.disk, name="machine")
            watching.done += run.done
            if watching.hasty and watching.broken is not None:
                self.target.end()
                return
            try:
                self._watched(run.finish)
                aim(float(len(run.seen)), label="cells reached")
                aim(float(sum(cell[-1] in _RARE for cell in run.seen)), label="rare states")
            finally:
                for cell in run.seen:
                    watching.seen.setdefault(cell, f"machine run {watching.runs}")
                self.target.end()

    for name, by in RULES.items():
        setattr(Machine, name, _rule(by))
    return Machine


def _rule(by: Rule) -> Any:
    def act(self: Any, luck: int) -> None:
        self.act(by, luck)

    act.__name__ = by.__name__.lstrip("_")
    return rule(luck=LUCK)(act)


def bounded(examples: int, steps: int = 30, *, shrinks: bool = True, derandomize: bool = False) -> settings:
    """Settings for a campaign of so many worlds of so many steps."""
    phases = [Phase.generate, Phase.target, *([Phase.shrink] if shrinks else [])]
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
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
) -> tuple[Watch, Broken | None]:
    """Let Hypothesis look, from a seed, through so many worlds; what it saw, and the promise it found broken."""
    watch = Watch(hasty=True)
    found = seeded(seed)(machine(make, watch=watch, overlays=overlays))
    try:
        run_state_machine_as_test(found, settings=bounded(examples, shrinks=False))
    except Enough:
        return watch, watch.broken
    except Broken as error:
        return watch, error
    except (Flaky, BaseExceptionGroup) as error:
        return watch, _first_of(error)
    return watch, None


def _first_of(error: BaseException) -> Broken:
    if isinstance(error, Broken):
        return error
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            try:
                return _first_of(one)
            except BaseException:  # another of the group may be a finding
                continue
    raise error
