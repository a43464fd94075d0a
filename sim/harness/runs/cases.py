"""Cases: a run in one JSON file that can be run again anywhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import orjson

from leyden.harness.checks.violations import ContractViolation
from leyden.harness.model.charges import CoverageItem
from leyden.harness.model.rules import instant, iso
from leyden.harness.runs.case_schema import CASE_VALIDATOR
from leyden.harness.runs.describe import describe_step, describe_violation
from leyden.harness.runs.external import ExternalRun
from leyden.harness.runs.run import Run
from leyden.harness.session.session import Request
from leyden.harness.steps import Step
from leyden.harness.targets.served import ExternalService
from leyden.harness.targets.target import InProcess, Response, Target
from leyden.json_files import WRONG_DATA, DocumentKind, printable, shown, warn_of_version
from leyden.server.errors import LeydenError
from leyden.server.version import VERSION
from leyden.world.config import packaged_contract

FORMAT = 2
# Format 1 had other names.
_EXPECTATION_KEYS_1 = {"clause": "ruleId", "promised": "expected", "seen": "observed"}
_STEP_KEYS_1 = {"once": "idempotency_key"}


class CaseError(LeydenError, ValueError):
    """A case file that cannot be read or run; the text says why."""

    exit_status = 2


_CASE = DocumentKind("case", CaseError, "write it as `leyden fuzz --cases` does", CASE_VALIDATOR, 64_000_000)


@dataclass(frozen=True, slots=True)
class Case:
    """Steps from a fresh start at `start_ms`; with `disk` the data is kept in a directory.

    `expectation` is the violation (`ContractViolation.as_dict()`), or None if there is none. `journal_hash` is that of
    a sandbox in process which got the requests of the steps and no others. `version` is the Leyden that wrote the case;
    `origin` is the file that it was read from, or empty.
    """

    steps: tuple[Step, ...]
    seed: int = 0
    start_ms: int = 1_893_456_000_000
    overlays: tuple[str, ...] = ()
    disk: bool = False
    name: str = "case"
    spec_hash: str = ""
    expectation: Mapping[str, str] | None = None
    journal_hash: str | None = None
    version: str | None = VERSION
    origin: str = field(default="", compare=False)

    @property
    def restarts(self) -> bool:
        """Whether a step restarts the service."""
        return any("restart" in (step["do"], step.get("between", {}).get("do")) for step in self.steps)

    def document(self) -> dict[str, Any]:
        """The case as JSON values."""
        return {
            "leydenCase": FORMAT,
            "leyden": self.version or "",
            "name": self.name,
            "specHash": self.spec_hash or spec_hash(self.overlays),
            "overlays": list(self.overlays),
            "seed": self.seed,
            "start": iso(self.start_ms),
            "disk": self.disk,
            "steps": [dict(step) for step in self.steps],
            "expectation": None if self.expectation is None else dict(self.expectation),
            "journalHash": self.journal_hash,
        }

    def dumps(self) -> str:
        """The case as JSON text, one line for each step."""
        document = self.document()
        steps = ",\n".join(f"    {json.dumps(step)}" for step in document["steps"])
        lines = [
            f"  {json.dumps(name)}: " + (f"[\n{steps}\n  ]" if name == "steps" and steps else json.dumps(value))
            for name, value in document.items()
        ]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def describe(self, replay: str = "") -> str:
        """The violation as a report that ends with the command `replay`; without a violation, the steps."""
        if self.expectation is None:
            return "\n".join(f"{number}. {describe_step(step)}" for number, step in enumerate(self.steps, 1))
        return describe_violation(self.steps, self.expectation, overlays=self.overlays, replay=replay)


def read_case(source: str | Path | Mapping[str, Any]) -> Case:
    """Read a case from a file or from its JSON document, in this format or in format 1.

    Warns with `VersionWarning` about a case of another version of Leyden. Raises `CaseError` for what is no case: one
    line with the file and the place.
    """
    origin = "the case" if isinstance(source, Mapping) else shown(source)
    document: Any = source if isinstance(source, Mapping) else _CASE.load(source)
    form = document.get("leydenCase") if isinstance(document, Mapping) else None
    if type(form) is not int or form not in (1, FORMAT):
        raise _CASE.refusal(origin, f"its leydenCase is not 1 or {FORMAT}, the known formats")
    document = _CASE.check(_of_format_1(document, origin) if form == 1 else document, origin)
    try:
        start_ms = instant(document["start"])
    except (OverflowError, ValueError):
        raise _CASE.refusal(origin, '/start is no instant such as "2030-01-01T00:00:00.000Z"') from None
    version = document.get("leyden") or None
    warn_of_version(version, origin)
    return Case(
        steps=tuple(document["steps"]),
        seed=int(document["seed"]),
        start_ms=start_ms,
        overlays=tuple(document["overlays"]),
        disk=document["disk"],
        name=document["name"],
        spec_hash=document["specHash"],
        expectation=document["expectation"],
        journal_hash=document["journalHash"],
        version=version,
        origin=origin,
    )


def _of_format_1(document: Mapping[str, Any], origin: str) -> Mapping[str, Any]:
    try:
        expectation = document["expectation"]
        return {
            **document,
            "steps": [_step_of_format_1(step) for step in document["steps"]],
            "expectation": expectation
            and {_EXPECTATION_KEYS_1.get(key, key): text for key, text in expectation.items()},
        }
    except KeyError as error:
        raise _CASE.refusal(origin, f"it lacks {error}") from None
    except (AttributeError, RecursionError, TypeError):
        raise _CASE.refusal(origin, "its steps or its expectation are not objects") from None


def _step_of_format_1(step: Mapping[str, Any]) -> Step:
    renamed = {_STEP_KEYS_1.get(key, key): value for key, value in step.items()}
    if renamed.get("by") == "rival":
        renamed["by"] = "second"
    if "between" in renamed:
        renamed["between"] = _step_of_format_1(renamed["between"])
    return cast("Step", renamed)


def spec_hash(overlays: Sequence[str]) -> str:
    """The hash of the specification with these overlays."""
    document = packaged_contract("charges", tuple(overlays)).document
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()


@dataclass(slots=True)
class CaseResult:
    """The result of a case, or of several runs of an engine.

    `requests` are those of the steps, without those that only check. `revealed` is the request and the response in
    which the violation was observed. `done` and `skipped` count the steps; a step is skipped if what it refers to does
    not exist.
    """

    case: Case
    violation: ContractViolation | None = None
    requests: list[Request] = field(default_factory=list)
    revealed: tuple[Request, Response] | None = None
    reached: dict[CoverageItem, None] = field(default_factory=dict)
    unchecked: dict[str, None] = field(default_factory=dict)
    skipped: int = 0
    done: int = 0

    @property
    def expectation(self) -> Mapping[str, str] | None:
        """The violation as texts."""
        return None if self.violation is None else self.violation.as_dict()


def play(case: Case, target: Target | None = None, choose: Callable[[Run], Iterable[Step]] | None = None) -> CaseResult:
    """Do the steps of a case with all checks, up to the first violation. With `choose` its steps are those that it
    yields for the started run."""
    target = target or InProcess()
    result = CaseResult(case)
    steps: list[Step] = []
    run: Run | None = None
    try:
        run = start_run(target, case)
        result.requests, result.reached, result.unchecked = run.requests, run.reached, run.unchecked
        for step in case.steps if choose is None else choose(run):
            steps.append(step)
            result.skipped += not run.do(step)
        run.final_checks()
    except ContractViolation as error:
        result.violation = error
        result.revealed = None if run is None else run.last
    except WRONG_DATA as error:
        if not case.origin or isinstance(error, LeydenError):
            raise
        place = f"step {len(steps)} ({steps[-1]['do']})" if steps else "the start"
        why = printable(f"{type(error).__name__}: {error}"[:200])
        raise _CASE.refusal(case.origin, f"{place} cannot be done ({why})") from error
    finally:
        target.end()
    if choose is not None:
        result.case = replace(case, steps=tuple(steps))
    result.done = 0 if run is None else run.done
    return result


def start_run(target: Target, case: Case) -> Run:
    """Start a run of a case: an `ExternalRun` for an `ExternalService`. Raises `ContractViolation` like `Run`."""
    start: Any = {"seed": case.seed, "start_ms": case.start_ms, "overlays": case.overlays, "disk": case.disk}
    return ExternalRun(target, **start) if isinstance(target, ExternalService) else Run(target, **start)


def journal_hash_of(case: Case, requests: Sequence[Request]) -> str | None:
    """The journal's hash after these requests and no others. None for a case with restarts, because each process
    starts a new journal."""
    if case.restarts:
        return None
    target = InProcess()
    target.begin(case.seed, case.start_ms, case.overlays)
    try:
        for request in requests:
            target.send(*request)
        return target.journal_hash()
    except Exception:  # the service raised an exception: there is no journal to compare
        return None
    finally:
        target.end()


def with_result(case: Case, result: CaseResult, target: Target | None = None) -> Case:
    """The case with its violation and, if the target was in process, with its journal hash."""
    in_process = target is None or isinstance(target, InProcess)
    return replace(
        case,
        spec_hash=spec_hash(case.overlays),
        expectation=result.expectation,
        journal_hash=journal_hash_of(case, result.requests) if in_process else None,
    )


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a case that was run again, and the hash of its journal."""

    case: Case
    result: CaseResult
    journal_hash: str | None

    @property
    def same_journal(self) -> bool:
        """Whether the journal is the same as in the case."""
        return self.journal_hash == self.case.journal_hash

    @property
    def same_violation(self) -> bool:
        """Whether the check and the rule of the violation are the same, or there is again none."""
        before, now = self.case.expectation, self.result.expectation
        if before is None or now is None:
            return before is None and now is None
        return (before["check"], before["ruleId"]) == (now["check"], now["ruleId"])

    def check(self) -> None:
        """Raise `AssertionError` with the report if there is a violation."""
        if self.result.expectation is not None:
            raise AssertionError(
                describe_violation(self.case.steps, self.result.expectation, overlays=self.case.overlays)
            )


def replay(case: Case, target: Target | None = None) -> ReplayResult:
    """Run a case again: once with all checks, and once with only its own requests, for the journal."""
    result = play(case, target)
    return ReplayResult(case, result, journal_hash_of(case, result.requests))
