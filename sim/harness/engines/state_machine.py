"""The state machine: the step generators as rules of a Hypothesis `RuleBasedStateMachine`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis import target as maximize
from hypothesis.errors import HypothesisException
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from leyden.harness.checks.violations import ContractViolation
from leyden.harness.generators.choices import HashedChoices
from leyden.harness.generators.generators import GENERATORS, STEPS, random_run_config
from leyden.harness.generators.run_config import RunConfig, StepGenerator
from leyden.harness.model.rules import OVERLAYS
from leyden.harness.runs.cases import Case, CaseResult, start_run
from leyden.harness.runs.run import Run
from leyden.harness.steps import Step
from leyden.harness.targets.adapter import TargetError
from leyden.harness.targets.target import InProcess, Target

_NUMBERS = st.integers(0, HashedChoices.SPAN - 1)
_RARE = frozenset({"no_slot_left", "too_late", "exhausted", "stopped", "at_or_before_expiry"})


class SearchStopped(BaseException):
    """Ends a search at its first violation. Hypothesis does not catch what is no `Exception`."""


def state_machine(
    make: Callable[[], Target] = InProcess,
    *,
    result: CaseResult | None = None,
    overlays: Sequence[str] | None = None,
    stop_early: bool = False,
) -> type[RuleBasedStateMachine]:
    """A state machine class; each run has a fresh target. Everything is recorded in `result`, whose case is the last
    run: the one with the violation.

    With `overlays` None Hypothesis chooses one overlay or none for each run. With `stop_early` the first violation ends
    the search, and so does a target that cannot be tested; Hypothesis by itself goes on for thousands of runs.
    """
    recorded = result if result is not None else CaseResult(Case(()))
    is_interrupted = False

    @contextmanager
    def recording() -> Iterator[None]:
        nonlocal is_interrupted
        try:
            yield
        except KeyboardInterrupt:
            is_interrupted = True
            raise
        except ContractViolation as error:
            recorded.violation = error
            if stop_early:
                raise SearchStopped from error
            raise
        except TargetError as error:
            if stop_early:
                raise SearchStopped from error
            raise

    class Machine(RuleBasedStateMachine):
        """One run."""

        def __init__(self) -> None:
            super().__init__()
            self.target = make()
            self.run: Run | None = None
            self.config: RunConfig | None = None
            self.steps: list[Step] = []

        @initialize(number=_NUMBERS, overlay=st.sampled_from((None, None, None, *OVERLAYS)))
        def begin(self, number: int, overlay: str | None) -> None:
            names = overlays if overlays is not None else () if overlay is None else (overlay,)
            controlled, disks = self.target.controlled, self.target.restarts
            config = random_run_config(HashedChoices(number), overlays=names, controlled=controlled, disks=disks)
            self.config = config
            recorded.case = Case((), 1, config.start_ms, config.overlays, config.disk, name=recorded.case.name)
            with recording():
                self.run = start_run(self.target, recorded.case)

        def do(self, generator: StepGenerator, number: int) -> None:
            assert self.run is not None
            assert self.config is not None
            step = generator(HashedChoices(number), self.run.model, self.config)
            if step is not None:
                self.steps.append(step)
                with recording():
                    self.run.do(step)

        def teardown(self) -> None:
            run = self.run
            if self.config is None:
                return
            recorded.case = replace(recorded.case, steps=tuple(self.steps))
            recorded.done += 0 if run is None else run.done
            try:
                if run is not None and not is_interrupted and not (stop_early and recorded.violation is not None):
                    with recording():
                        run.final_checks()
                    maximize(float(len(run.reached)), label="coverage items")
                    maximize(float(sum(item[-1] in _RARE for item in run.reached)), label="rare states")
            finally:
                if run is not None:
                    recorded.reached.update(run.reached)
                    recorded.unchecked.update(run.unchecked)
                self.target.end()

    for name, generator in GENERATORS.items():
        setattr(Machine, name, _rule(name, generator))
    return Machine


def _rule(name: str, generator: StepGenerator) -> Any:
    def do(self: Any, number: int) -> None:
        self.do(generator, number)

    do.__name__ = name
    return rule(number=_NUMBERS)(do)


def search_settings(runs: int, *, steps: int = STEPS, shrinks: bool = True, derandomize: bool = False) -> settings:
    """The Hypothesis settings for a search of so many runs of at most so many steps."""
    phases = [Phase.generate, Phase.target, *([Phase.shrink] if shrinks else [])]
    return settings(
        max_examples=runs,
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
    seed: int, runs: int, make: Callable[[], Target] = InProcess, *, overlays: Sequence[str] | None = None
) -> CaseResult:
    """Let Hypothesis search from a seed, in so many runs, up to the first violation.

    Raises `TargetError` as a run does, and for a target that answers the same steps in two ways: it keeps what former
    runs did, and Hypothesis refuses to go on.
    """
    result = CaseResult(Case((), name=f"state-machine, seed {seed}"))
    machine = seeded(seed)(state_machine(make, result=result, overlays=overlays, stop_early=True))
    try:
        run_state_machine_as_test(machine, settings=search_settings(runs, shrinks=False))
    except (SearchStopped, HypothesisException) as error:
        stopped = _stop_within(error)
        if stopped is not None and isinstance(stopped.__cause__, TargetError):
            raise stopped.__cause__ from None
        if result.violation is None:
            raise TargetError(
                "the state machine has no result: the target answered the same steps in two ways"
                f" ({type(error).__name__} of Hypothesis); use the engine random-walk, which repeats no steps"
            ) from error
    return result


def _stop_within(error: BaseException | None) -> SearchStopped | None:
    """The stop during which Hypothesis may have raised an error of its own."""
    while error is not None and not isinstance(error, SearchStopped):
        error = error.__context__
    return error
