"""The Schemathesis engine: every operation with data of both kinds, and the links, watched by the witness as well."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import Unsatisfiable
from hypothesis.stateful import run_state_machine_as_test

from sim.harness.adapters import KEY, RIVAL, RIVAL_KEY, Answer, InProcess
from sim.harness.broken import Broken
from sim.harness.merged import merged
from sim.harness.model_door import OPERATIONS
from sim.harness.model_rules import Reading
from sim.harness.witness import Cell, Witness
from sim.loopback import ask
from sim.plans import packaged_contract
from sim.sandbox import Sandbox

if TYPE_CHECKING:
    from sim.harness.campaign import Finding, Order

_EXAMPLES, _SCENARIOS, _STEPS = 15, 100, 8
# Of the control plane only what makes something happen to a Charge: the more there is to choose, the less does.
_LEVERS = ("createPayment", "settlePayment", "cancelPayment", "failCharge", "advanceClock")


class Bench:
    """The application that Schemathesis is given, with a world behind it that can be exchanged for a fresh one, and the
    witness of what happens in it."""

    def __init__(self, overlays: Sequence[str]) -> None:
        self._overlays = tuple(overlays)
        self.seen: dict[Cell, None] = {}
        self._sandbox: Sandbox | None = None
        self.begin()

    def begin(self) -> None:
        """A fresh world."""
        self.close()
        logging.getLogger("leyden").disabled = True
        self._sandbox = Sandbox(5, overlays=self._overlays, api_key=KEY)
        with self._sandbox.world.turn():
            self._sandbox.world.service.projects.add(RIVAL, RIVAL_KEY)
        self.witness = Witness(self._read, Reading.of(self._overlays), KEY)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The application, which does at once what is due at once, as a served one would."""
        if scope["type"] == "lifespan":
            # The client's own beginning and end have nothing to do with those of a world.
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        assert self._sandbox is not None
        await self._sandbox.app(scope, receive, send)
        self._sandbox.world.catch_up()

    def _read(self, path: str, key: str) -> Answer:
        assert self._sandbox is not None
        answer = ask(self._sandbox.app, "GET", path, ((b"apikey", key.encode()),))
        return Answer(answer.status, {name.decode(): value.decode() for name, value in answer.headers}, answer.body)

    def close(self) -> None:
        """The world is over; what was seen in it is kept."""
        if self._sandbox is not None:
            self.seen.update(self.witness.seen)
            self._sandbox.close()
            self._sandbox = None
            logging.getLogger("leyden").disabled = False


def whole_schema(bench: Bench, overlays: Sequence[str] = ()) -> Any:
    """Both documents as one, for Schemathesis, answered by the bench."""
    from schemathesis import openapi

    service = packaged_contract("charges", tuple(overlays)).document
    schema = openapi.from_dict(merged(service, packaged_contract("sandbox").document))
    schema.app = bench
    return schema.include(operation_id=[*OPERATIONS, *_LEVERS])


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
            bench.witness.look(operation, sent, Answer(response.status_code, named, response.content))
        except Broken as error:
            raise Failure(operation=case.operation.label, title=error.check, message=str(error)) from error

    return witness


def examine(order: Order) -> Iterator[tuple[str, dict[Cell, None], Finding | None]]:
    """Operation after operation, then the links, round after round: what was reached, and what was found.

    In process only: over HTTP the stock `schemathesis run` needs no code of ours. A hundred `examples` are one round.
    """
    if order.make is not InProcess:
        return
    overlays = order.overlays or ()
    bench = Bench(overlays)
    schema = whole_schema(bench, overlays)
    operations = [result.ok() for result in schema.get_all_operations()]
    rounds = count() if order.examples is None else range(-(-order.examples // 100))
    for number in rounds:
        seed = order.seed * 1_000 + number
        for operation in operations:
            found = _tried(bench, partial(_fuzzed, operation, bench, seed), overlays)
            yield f"schemathesis {operation.label}, seed {seed}", bench.seen, found
        yield (
            f"schemathesis links, seed {seed}",
            bench.seen,
            _tried(bench, partial(_linked, schema, bench, seed), overlays),
        )


def _tried(bench: Bench, attempt: Callable[[], None], overlays: Sequence[str]) -> Finding | None:
    bench.begin()
    try:
        attempt()
    except (AssertionError, BaseExceptionGroup) as error:
        return _finding(error, overlays)
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
                headers={"apikey": KEY},
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
            return {"headers": {"apikey": KEY}}

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
    from sim.harness.campaign import Finding
    from sim.harness.cases import Case as Kept

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
