"""The Schemathesis engine: every operation with data of both kinds, and the links, watched by the witness as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import Unsatisfiable
from hypothesis.stateful import run_state_machine_as_test

from leyden.harness.checks.violations import Broken
from leyden.harness.engines.schemathesis_target import Bench
from leyden.harness.model.charges import Cell
from leyden.harness.runs.adapters import Answer

if TYPE_CHECKING:
    from leyden.harness.engines.campaign import Finding, Order

_EXAMPLES, _SCENARIOS, _STEPS = 15, 100, 8


def judge(bench: Bench) -> Callable[[Any, Any, Any], None]:
    """The check to hand to Schemathesis as an additional one: the witness's word as a failure of that answer's."""
    from schemathesis.core.failures import Failure

    def witness(ctx: Any, response: Any, case: Any) -> None:
        """Look at one answer and the world behind it."""
        raw = response.request.body or b""
        sent = raw.encode() if isinstance(raw, str) else bytes(raw)
        named = {name.lower(): values[0] for name, values in response.headers.items()}
        operation = str(case.operation.definition.raw["operationId"])
        try:
            bench.cases += 1
            bench.witness.look(operation, sent, Answer(response.status_code, named, response.content))
        except Broken as error:
            raise Failure(operation=case.operation.label, title=error.check, message=str(error)) from error

    return witness


@dataclass(frozen=True, slots=True)
class Examined:
    """One part of the work: what it was, what was reached so far, how many cases it took, and what was found."""

    name: str
    seen: dict[Cell, None]
    cases: int
    finding: Finding | None
    unchecked: dict[str, None]


def examine(order: Order) -> Iterator[Examined]:
    """Operation after operation, then the links, round after round, until there were as many cases as `examples`."""
    bench = Bench(order.make(), order.overlays or ())
    schema = bench.schema()
    operations = [result.ok() for result in schema.get_all_operations()]

    def part(name: str, attempt: Callable[[], None]) -> Examined:
        before = bench.cases
        found = _tried(bench, attempt)
        return Examined(name, bench.seen, bench.cases - before, found, bench.unchecked)

    for number in count():
        if order.examples is not None and bench.cases >= order.examples:
            return
        seed = order.seed * 1_000 + number
        for operation in operations:
            yield part(f"schemathesis {operation.label}, seed {seed}", partial(_fuzzed, operation, bench, seed))
        yield part(f"schemathesis links, seed {seed}", partial(_linked, schema, bench, seed))


def _tried(bench: Bench, attempt: Callable[[], None]) -> Finding | None:
    bench.begin()
    try:
        attempt()
    except (AssertionError, BaseExceptionGroup) as error:
        return _finding(error, bench.overlays)
    finally:
        bench.close()
    return None


def _settings(examples: int, steps: int = 1) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )


def _fuzzed(operation: Any, bench: Bench, seed: int) -> None:
    """One operation, with data of both kinds."""
    from schemathesis import GenerationMode
    from schemathesis.specs.openapi.checks import negative_data_rejection

    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

        @seeded(seed)
        @_settings(_EXAMPLES)
        @given(case=operation.as_strategy(generation_mode=mode))
        def one(case: Any) -> None:
            # Where all that is wrong is the key, which was left out to be refused, ours makes the request sound again.
            keyless = "apikey" not in (case.headers or {})
            case.call_and_validate(
                headers={"apikey": bench.key},
                additional_checks=[judge(bench)],
                excluded_checks=[negative_data_rejection] if keyless else [],
            )

        # An operation with nothing that could be wrong has no negative data.
        with suppress(Unsatisfiable):
            one()


def _linked(schema: Any, bench: Bench, seed: int) -> None:
    """Scenarios along the links, a fresh world for each."""
    from schemathesis.specs.openapi.checks import negative_data_rejection

    class Links(schema.as_state_machine()):  # type: ignore[misc]
        """From creating to paying, failing and waiting."""

        def setup(self) -> None:
            bench.begin()

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"headers": {"apikey": bench.key}}

        def validate_response(self, response: Any, case: Any, additional_checks: Any = None, **kwargs: Any) -> None:
            # A link puts its own sound body in the place of one that was made to be refused, and is none the wiser.
            case.validate_response(
                response,
                additional_checks=[*(additional_checks or ()), judge(bench)],
                excluded_checks=[negative_data_rejection],
                transport_kwargs=kwargs or None,
                recorder=self.recorder,
            )

    run_state_machine_as_test(seeded(seed)(Links), settings=_settings(_SCENARIOS, _STEPS))


def _finding(error: BaseException, overlays: Sequence[str]) -> Finding:
    """A failure as a finding. Its requests stand in the text that Schemathesis wrote."""
    from leyden.harness.engines.campaign import Finding
    from leyden.harness.runs.cases import Case as Kept

    first = error
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    cause = first.__cause__
    if isinstance(cause, Broken):
        fact = cause.fact()
    else:
        fact = {
            "check": "errors_are_problems",
            "clause": "Schemathesis: " + (getattr(first, "title", None) or type(first).__name__),
            "where": str(getattr(first, "operation", "")),
            "promised": "what the document declares",
            "seen": str(first)[:2_000],
        }
    return Finding("schemathesis", Kept((), overlays=tuple(overlays), name="schemathesis", expectation=fact))
