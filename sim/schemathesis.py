"""The harness's checks for Schemathesis: `st run` and Schemathesis' pytest form report what only these checks see.

    from leyden.schemathesis import register_checks

    register_checks(api_key="leyden", second_api_key="second")

`leyden qa init` writes a hooks file with these lines and a `schemathesis.toml` that loads it. The checks are
`callback_contract`, `lifecycle`, `echo`, `isolation`, `invoice_agrees`, `answers_are_declared` and
`errors_are_problems`; the section `[checks.NAME]` of `schemathesis.toml` can disable each. They compare responses with
the rules of the specification, and read the latest Charges again after each response, so run one worker. The document
is the service's, or `/sandbox/v1/merged.json` of a served Leyden, whose callbacks are then checked too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from leyden.errors import LeydenError
from leyden.extras import require
from leyden.harness.checks.invariants import Invariants
from leyden.harness.checks.violations import CHECKS, ContractViolation
from leyden.harness.constants import API_KEY, NO_KEY
from leyden.harness.engines.schemathesis_responses import exchange_of
from leyden.harness.model.rules import OVERLAYS, Interpretation
from leyden.harness.targets.served import HttpTarget
from leyden.harness.targets.target import Response
from leyden.world.merged_openapi import CONTROL_OPERATIONS

_FOLLOWED = 5  # Charges that are read again after each response


class CheckError(LeydenError, ValueError):
    """The checks cannot be registered with these options; the text says what to do."""


def register_checks(*, api_key: str = API_KEY, second_api_key: str | None = None, overlays: Sequence[str] = ()) -> None:
    """Register the checks with Schemathesis.

    `api_key` is the key of the run, with which the checks read resources again; `second_api_key` that of another
    project, for `isolation`. `overlays` are those that the service is served with. Raises `CheckError` for an unknown
    overlay, and `MissingExtra` without Schemathesis.
    """
    require("leyden.schemathesis", "schemathesis", "qa")
    unknown = [name for name in overlays if name not in OVERLAYS]
    if unknown:
        raise CheckError(f"{unknown[0]!r} is no overlay: give some of {', '.join(OVERLAYS)}")
    import schemathesis

    checks = ServiceChecks(api_key, second_api_key or NO_KEY, overlays)
    for name in CHECKS:
        schemathesis.check(_named(name, checks))


class ServiceChecks:
    """The checks of the responses of each service, by its base URL."""

    def __init__(self, api_key: str, second_api_key: str, overlays: Sequence[str]) -> None:
        self._keys = (api_key, second_api_key)
        self._interpretation = Interpretation.of(list(overlays))
        self._services: dict[str, Invariants] = {}
        self._targets: list[HttpTarget] = []
        self._latest: tuple[Any, ContractViolation | None] = (None, None)

    def violation(self, response: Any, case: Any) -> ContractViolation | None:
        """The violation that a response shows, if there is one. All checks ask for it; it is looked for once."""
        if self._latest[0] is not response:
            self._latest = (response, self._check(response, case))
        return self._latest[1]

    def close(self) -> None:
        """Close the connections."""
        for target in self._targets:
            target.end()

    def _check(self, response: Any, case: Any) -> ContractViolation | None:
        operation = str(case.operation.definition.raw.get("operationId", ""))
        base_url = str(case.operation.base_url).rstrip("/")
        request, seen = exchange_of(response)
        if request.path.startswith("/sandbox/") and request.method != "GET" and operation not in CONTROL_OPERATIONS:
            self._services.pop(base_url, None)  # a reset or an import replaces every resource
        try:
            self._of(base_url).check(operation, request.body, seen)
        except ContractViolation as error:
            return error
        return None

    def _of(self, base_url: str) -> Invariants:
        """The invariants of one service. Resources are read again with the keys of these checks."""
        if base_url not in self._services:
            target = HttpTarget(base_url, *self._keys)
            self._targets.append(target)

            def read(path: str, key: str) -> Response:
                return target.send("GET", path, [("apikey", key)], b"")

            controlled = read("/sandbox/v1", self._keys[0]).status == 200
            self._services[base_url] = Invariants(
                read, self._interpretation, *self._keys, controlled=controlled, followed=_FOLLOWED
            )
        return self._services[base_url]


def _named(name: str, checks: ServiceChecks) -> Callable[[Any, Any, Any], None]:
    """The check of this name for Schemathesis."""

    def check(ctx: Any, response: Any, case: Any) -> None:
        violation = checks.violation(response, case)
        if violation is not None and violation.check == name:
            from schemathesis.core.failures import Failure

            title = f"{name}: {violation.rule_id}"
            raise Failure(operation=case.operation.label, title=title, message=str(violation)) from violation

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"{CHECKS[name][:1].upper()}{CHECKS[name][1:]}."
    return check
