"""The target of a case, and runs there whose requests and responses are printed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from leyden.harness.checks.violations import ContractViolation
from leyden.harness.runs.cases import Case, CaseError, start_run
from leyden.harness.steps import Step
from leyden.harness.targets.adapter import adapter_from
from leyden.harness.targets.served import ExternalService, ServedLeyden, target_at
from leyden.harness.targets.target import Headers, Response

HttpService = ServedLeyden | ExternalService


def target_of(case: Case, environment: Mapping[str, str], file: str = "") -> HttpService:
    """The target over HTTP that a case was run on, with the API keys of the environment.

    `LEYDEN_API_KEY` and `LEYDEN_SECOND_API_KEY` are the keys; `LEYDEN_TARGET` and `LEYDEN_ADAPTER` replace the URL and
    the adapter of the case, whose relative path is from the folder of `file`, if that is given, and else from the
    present directory. The adapter is a program, which is run. Raises `CaseError` for a case without a URL.
    """
    url = environment.get("LEYDEN_TARGET") or case.target
    if not url:
        raise CaseError(f"{case.origin or case.name} has no target: give its URL in LEYDEN_TARGET")
    adapter = adapter_from(case.adapter, Path(file).resolve().parent, Path()) if file else case.adapter
    return target_at(
        case.found_on,
        url,
        api_key=environment.get("LEYDEN_API_KEY", ""),
        second_api_key=environment.get("LEYDEN_SECOND_API_KEY", ""),
        adapter=environment.get("LEYDEN_ADAPTER") or adapter,
    )


class PrintedRun:
    """A run of a case at a target, step by step. Each step prints its requests and the responses.

    Everything raises `ContractViolation` as long as the target has the violation.
    """

    def __init__(self, case: Case, target: HttpService) -> None:
        self._run = start_run(target, case)
        send, hide = target.send, target.without_secrets

        def printed(method: str, target: str, headers: Headers, body: bytes) -> Response:
            response = send(method, target, headers, body)
            print(method, target, body.decode("utf-8", "replace")[:2_000])
            print("   ", response.status, hide(response.body.decode("utf-8", "replace"))[:2_000])
            return response

        target.send = printed  # type: ignore[method-assign]

    def do(self, step: Step) -> None:
        """Do a step and check its effects."""
        with ExitStack() as failed:
            failed.callback(self._run.target.end)
            try:
                done = self._run.do(step)
            except ContractViolation as error:
                raise error.without(self._run.target.without_secrets) from None
            failed.pop_all()
        if not done:
            print(f"{step['do']} could not be done here:", *self._run.unchecked)

    def finish(self) -> None:
        """Check everything that this run has created, and close the connection."""
        try:
            self._run.final_checks()
        except ContractViolation as error:
            raise error.without(self._run.target.without_secrets) from None
        finally:
            self._run.target.end()
