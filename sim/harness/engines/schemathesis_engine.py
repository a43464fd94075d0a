"""The Schemathesis engine: every operation with valid and invalid data, and the links, with our invariants."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import partial
from itertools import count
from typing import Any
from unittest import SkipTest

from hypothesis import given
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.errors import FlakyStrategyDefinition, Unsatisfiable, UnsatisfiedAssumption
from hypothesis.stateful import run_state_machine_as_test

from leyden.harness.checks.invariants import Invariants
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.constants import NO_KEY
from leyden.harness.engines.results import CampaignConfig
from leyden.harness.engines.schemathesis_responses import exchange_of
from leyden.harness.engines.state_machine import search_settings
from leyden.harness.generators.generators import START_MS
from leyden.harness.model.charges import CoverageItem
from leyden.harness.model.rules import Interpretation
from leyden.harness.runs.cases import Case, CaseResult
from leyden.harness.session.exchanges import Exchange
from leyden.harness.targets.served import HttpTarget
from leyden.harness.targets.target import PROJECT, SECOND_PROJECT, InProcess, Response, Target
from leyden.world.config import packaged_contract
from leyden.world.merged_openapi import merged

_EXAMPLES, _SCENARIOS, _STEPS = 15, 100, 8
_REJECTIONS = 50
_EXCLUDED = ["listPayments", "getPayment", "listDeliveries", "getDelivery"]
_SEED = 5


class SchemathesisTarget:
    """A target for Schemathesis: a Leyden starts anew for each part; another service keeps its state.

    `reached` has the coverage items, `cases` is the number of checked responses, `unchecked` names what cannot be
    checked at this target. `recent` has the last requests since the start.
    """

    def __init__(self, target: Target, overlays: Sequence[str]) -> None:
        self._target = target
        self.overlays = tuple(overlays)
        self.key, second_api_key = target.keys[PROJECT], target.keys[SECOND_PROJECT]
        interpretation, controlled = Interpretation.of(self.overlays), target.controlled
        self._new_invariants = partial(
            Invariants, self._read, interpretation, self.key, second_api_key, controlled=controlled
        )
        self.reached: dict[CoverageItem, None] = {}
        self.cases = 0
        self.unchecked: dict[str, None] = {}
        self.recent: deque[Exchange] = deque(maxlen=_STEPS)
        self.invariants = self._new_invariants()
        if not target.controlled:
            self.unchecked["payments and time: Schemathesis only uses the control plane of a Leyden"] = None
            self.unchecked["callbacks: Schemathesis sees responses only"] = None
        if second_api_key == NO_KEY:
            self.unchecked["isolation of projects: give --second-api-key"] = None

    def begin(self) -> None:
        """Start anew, where the target can."""
        self.close()
        self._target.begin(_SEED, START_MS, self.overlays)
        self.recent.clear()
        self.invariants = self._new_invariants()

    def close(self) -> None:
        """End the target; the coverage is kept."""
        self.reached.update(self.invariants.reached)
        self._target.end()

    def schema(self) -> Any:
        """The Schemathesis schema, connected to the target: of the merged document, or of the service's document where
        there is no control plane."""
        from schemathesis import openapi

        document = packaged_contract("charges", self.overlays).document
        if self._target.controlled:
            document = merged(document, packaged_contract("sandbox").document)
        # A copy, because Schemathesis adds its own links to the document. The excluded operations have little to
        # show in short scenarios; the invariants read the same data.
        schema = openapi.from_dict(deepcopy(dict(document))).exclude(operation_id=_EXCLUDED)
        if isinstance(self._target, InProcess):
            schema.app = _CurrentApp(self._target)
        elif isinstance(self._target, HttpTarget):
            schema.config.update(base_url=self._target.url)
        return schema

    def check(self, ctx: Any, response: Any, case: Any) -> None:
        """The additional check for Schemathesis: a violation of an invariant is a failure of this response."""
        from schemathesis.core.failures import Failure

        operation = str(case.operation.definition.raw["operationId"])
        self.cases += 1
        request, seen = exchange_of(response)
        self.recent.append(Exchange(request, seen, START_MS))
        try:
            self.invariants.check(operation, request.body, seen)
        except ContractViolation as error:
            raise Failure(operation=case.operation.label, title=error.check, message=str(error)) from error

    def _read(self, path: str, key: str) -> Response:
        return self._target.send("GET", path, [("apikey", key)], b"")


class _CurrentApp:
    """The ASGI application of the target's present sandbox; after each request it does what is due."""

    def __init__(self, target: InProcess) -> None:
        self._target = target

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            # The lifespan of the client has nothing to do with that of a sandbox.
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        sandbox = self._target.sandbox
        await sandbox.app(scope, receive, send)
        sandbox.world.catch_up()


def run_schemathesis(config: CampaignConfig, service: Target) -> Iterator[CaseResult]:
    """Test each operation, then the links, in rounds, until there were as many cases as `config.examples`.

    A result has the coverage so far and the number of checked responses. Its case has no steps: the requests are in the
    text of the violation.
    """
    target = SchemathesisTarget(service, config.overlays or ())
    schema = target.schema()
    operations = [result.ok() for result in schema.get_all_operations()]

    def part(name: str, test: Callable[[], None]) -> CaseResult:
        before, violation = target.cases, None
        target.begin()
        try:
            # A response that differs on a slow machine changes what a repeated example draws: this is no violation, and
            # the next round has another seed. Schemathesis' own runner does the same.
            with suppress(FlakyStrategyDefinition):
                test()
        except (AssertionError, BaseExceptionGroup) as error:
            violation = _violation(error).without(service.without_secrets)
        finally:
            target.close()
        expectation = None if violation is None else violation.as_dict(2_000)
        case = Case((), overlays=target.overlays, name=f"schemathesis {name}", expectation=expectation)
        done = target.cases - before
        exchanges = [] if violation is None else [*target.recent]
        return CaseResult(
            case, violation, exchanges=exchanges, reached=target.reached, unchecked=target.unchecked, done=done
        )

    for number in count():
        if config.examples is not None and target.cases >= config.examples:
            return
        seed = config.seed * 1_000 + number
        for operation in operations:
            yield part(f"{operation.label}, seed {seed}", partial(_fuzz, operation, target, seed))
        yield part(f"links, seed {seed}", partial(_follow_links, schema, target, seed))


def _fuzz(operation: Any, target: SchemathesisTarget, seed: int) -> None:
    """One operation, with valid and with invalid data."""
    from schemathesis import GenerationMode
    from schemathesis.specs.openapi.checks import negative_data_rejection

    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

        @seeded(seed)
        @search_settings(_EXAMPLES)
        @given(case=_unless_impossible(operation.as_strategy(generation_mode=mode)))
        def one(case: Any) -> None:
            # If only the API key was left out, the key that is sent here makes the request valid again.
            keyless = "apikey" not in (case.headers or {})
            case.call_and_validate(
                headers={"apikey": target.key},
                additional_checks=[target.check],
                excluded_checks=[negative_data_rejection] if keyless else [],
            )

        # An operation with nothing but a path parameter that any text fits has no invalid data.
        with suppress(Unsatisfiable, SkipTest):
            one()


def _unless_impossible(strategy: Any) -> Any:
    """The same cases. Skips the test when Schemathesis has rejected its first `_REJECTIONS` attempts at a case.

    Hypothesis would continue until nearly 500 attempts are rejected, which takes longer than most operations' tests.
    """
    rejected, found = 0, False

    @st.composite
    def cases(draw: st.DrawFn) -> Any:
        nonlocal rejected, found
        try:
            case = draw(strategy)
        except UnsatisfiedAssumption:
            rejected += 1
            if rejected >= _REJECTIONS and not found:
                raise SkipTest("no such data") from None
            raise
        found = True
        return case

    return cases()


def _follow_links(schema: Any, target: SchemathesisTarget, seed: int) -> None:
    """Scenarios along the links, each from a fresh start."""
    from schemathesis.specs.openapi.checks import negative_data_rejection

    class Links(schema.as_state_machine()):  # type: ignore[misc]
        """Create, then pay, fail and wait."""

        def setup(self) -> None:
            target.begin()

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"headers": {"apikey": target.key}}

        def validate_response(self, response: Any, case: Any, additional_checks: Any = None, **kwargs: Any) -> None:
            # A link replaces an invalid body by its own valid one, and Schemathesis does not notice.
            case.validate_response(
                response,
                additional_checks=[*(additional_checks or ()), target.check],
                excluded_checks=[negative_data_rejection],
                transport_kwargs=kwargs or None,
                recorder=self.recorder,
            )

    run_state_machine_as_test(seeded(seed)(Links), settings=search_settings(_SCENARIOS, steps=_STEPS))


def _violation(error: BaseException) -> ContractViolation:
    """A failure as a violation: of an invariant, or of what Schemathesis itself requires."""
    first = error
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if isinstance(first.__cause__, ContractViolation):
        return first.__cause__
    rule_id = f"Schemathesis: {getattr(first, 'title', None) or type(first).__name__}"
    where = str(getattr(first, "operation", ""))
    return ContractViolation("errors_are_problems", rule_id, where, "what the OpenAPI document declares", str(first))
