"""Cases: a run in one JSON file that can be run again anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from leyden.files.json_files import WRONG_DATA, DocumentKind, in_words, shown, warn_of_version
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.model.charges import CoverageItem
from leyden.harness.model.rules import iso
from leyden.harness.runs.case_schema import CASE_VALIDATOR
from leyden.harness.runs.describe import describe_step, describe_violation
from leyden.harness.runs.external import ExternalRun
from leyden.harness.runs.run import Run
from leyden.harness.runs.specification import Patch, contract_of, document_hash, patch_to, spec_hash
from leyden.harness.session.exchanges import Exchange, Request
from leyden.harness.steps import Step
from leyden.harness.targets.served import ExternalService, HttpTarget, public_url
from leyden.harness.targets.target import IN_PROCESS, SERVED, InProcess, Response, Target
from leyden.server.contract.types import Contract
from leyden.server.errors import ContractError, LeydenError
from leyden.server.printable import cut, printable
from leyden.server.timestamps import parse_iso
from leyden.server.version import VERSION

FORMAT = 3
# Formats 1 and 2 had other names.
_EXPECTATION_KEYS_1 = {"clause": "ruleId", "promised": "expected", "seen": "observed"}
_STEP_KEYS_1 = {"once": "idempotency_key"}
_STEP_NAMES_2 = {"terms": "pay_request"}  # of `do`
_ODD_KINDS_2 = {"query-moment": "query-timestamp"}


class CaseError(LeydenError, ValueError):
    """A case file that cannot be read or run; the text says why."""

    exit_status = 2


_CASE = DocumentKind("case", CaseError, "write it as `leyden fuzz --cases` does", CASE_VALIDATOR, 64_000_000)


@dataclass(frozen=True, slots=True)
class Case:
    """Steps from a fresh start at `start_ms`; with `disk` the data is kept in a directory.

    `expectation` is the violation (`ContractViolation.as_dict()`), or None if there is none. `found_on` is the kind of
    target that the case was run on (`Target.kind`), or empty; of a target over HTTP, `target` is the URL without
    secrets and `adapter` the name of the adapter. `journal_hash` is that of a sandbox in process with the specification
    of this target, which got the requests of the steps and no others; it is None for a case with restarts, and for a
    violation that this sandbox did not have. `spec_hash` identifies the specification; `spec_patch` leads to it from
    the packaged one with the overlays. `version` is the Leyden that wrote the case; `origin` is the file that it was
    read from, or empty.
    """

    steps: tuple[Step, ...]
    seed: int = 0
    start_ms: int = 1_893_456_000_000
    overlays: tuple[str, ...] = ()
    disk: bool = False
    name: str = "case"
    spec_hash: str = ""
    spec_patch: Patch = ()
    found_on: str = ""
    target: str = ""
    adapter: str = ""
    expectation: Mapping[str, str] | None = None
    journal_hash: str | None = None
    version: str | None = VERSION
    origin: str = field(default="", compare=False)

    @property
    def restarts(self) -> bool:
        """Whether a step restarts the service."""
        return any(
            "restart" in (one["do"], one.get("between", {}).get("do"))
            for step in self.steps
            for one in (step, *step.get("steps", ()))
        )

    @property
    def is_reproduced(self) -> bool:
        """Whether a sandbox in process had the result of the case when it was written."""
        return self.expectation is None or self.journal_hash is not None or self.found_on == IN_PROCESS

    def contract(self) -> Contract:
        """The specification of the case. Raises `CaseError` if it is not that of `spec_hash`, for example because the
        packaged specification is that of another version of Leyden."""
        origin = self.origin or self.name
        try:
            contract = contract_of(self.overlays, self.spec_patch)
        except (ContractError, *WRONG_DATA) as error:
            why = f"its specPatch does not give a specification ({in_words(error)})"
            raise _CASE.refusal(origin, why) from None
        here = document_hash(contract.document)
        if self.spec_hash and self.spec_hash != here:
            of_case = printable(cut(self.spec_hash, 64))
            raise CaseError(
                f"{origin} belongs to another specification (specHash {of_case}, this Leyden's is {here}): give that"
                " specification with --spec FILE, or replay(case, InProcess(FILE)) in Python"
            )
        return contract

    def document(self) -> dict[str, Any]:
        """The case as JSON values."""
        return {
            "leydenCase": FORMAT,
            "leyden": self.version or "",
            "name": self.name,
            "specHash": self.spec_hash or spec_hash(self.overlays),
            "specPatch": [dict(operation) for operation in self.spec_patch],
            "overlays": list(self.overlays),
            "seed": self.seed,
            "start": iso(self.start_ms),
            "disk": self.disk,
            "foundOn": self.found_on,
            "target": self.target,
            "adapter": self.adapter,
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


def read_case(source: str | Path | Mapping[str, Any], *, content: bytes | None = None) -> Case:
    """Read a case from a file or from its JSON document, in this format or in a former one. `content` are the bytes of
    the file if they were read already: those of a pipe are read once.

    Warns with `VersionWarning` about a case of another version of Leyden. Raises `CaseError` for what is no case: one
    line with the file and the place.
    """
    origin = "the case" if isinstance(source, Mapping) else shown(source)
    document: Any = source
    if not isinstance(source, Mapping):
        data = _CASE.content(source) if content is None else _CASE.bounded(content, source)
        document = _CASE.parse(data, origin)
    form = document.get("leydenCase") if isinstance(document, Mapping) else None
    if type(form) is not int or form not in range(1, FORMAT + 1):
        raise _CASE.refusal(origin, f"its leydenCase is not 1 to {FORMAT}, the known formats")
    document = _CASE.check(_renamed(document, form, origin), origin)
    version = document.get("leyden") or None
    warn_of_version(version, origin)
    return Case(
        steps=tuple(document["steps"]),
        seed=int(document["seed"]),
        start_ms=parse_iso(document["start"]),
        overlays=tuple(document["overlays"]),
        disk=document["disk"],
        name=document["name"],
        spec_hash=document["specHash"],
        spec_patch=tuple(document.get("specPatch", ())),
        found_on=document.get("foundOn", ""),
        target=document.get("target", ""),
        adapter=document.get("adapter", ""),
        expectation=document["expectation"],
        journal_hash=document["journalHash"],
        version=version,
        origin=origin,
    )


def _renamed(document: Mapping[str, Any], form: int, origin: str) -> Mapping[str, Any]:
    """The document of a case of this or a former format with the names of this format."""
    if form == FORMAT:
        return document
    try:
        document = {**document, "steps": [_step_of_format_2(step) for step in document["steps"]]}
        if form > 1:
            return document
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


def _step_of_format_2(step: Mapping[str, Any]) -> Step:
    renamed = {**step}
    if isinstance(step.get("do"), str):
        renamed["do"] = _STEP_NAMES_2.get(step["do"], step["do"])
    if step.get("do") == "odd" and isinstance(step.get("kind"), str):
        renamed["kind"] = _ODD_KINDS_2.get(step["kind"], step["kind"])
    return cast("Step", renamed)


def _step_of_format_1(step: Mapping[str, Any]) -> Step:
    renamed = {_STEP_KEYS_1.get(key, key): value for key, value in step.items()}
    if renamed.get("by") == "rival":
        renamed["by"] = "second"
    if "between" in renamed:
        renamed["between"] = _step_of_format_1(renamed["between"])
    return cast("Step", renamed)


@dataclass(slots=True)
class CaseResult:
    """The result of a case, or of several runs of an engine.

    `requests` are those of the steps, without those that only check; `exchanges` have their responses too, and at the
    end the request that revealed a violation. `revealed` is the request and the response in
    which the violation was observed. `done` and `skipped` count the steps; a step is skipped if what it refers to does
    not exist.
    """

    case: Case
    violation: ContractViolation | None = None
    requests: list[Request] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
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
    yields for the started run.

    The target is by default a sandbox in process with the specification of the case.
    """
    target = target or InProcess(case.contract())
    result = CaseResult(case)
    steps: list[Step] = []
    run: Run | None = None
    try:
        with refusing(case):
            run = start_run(target, case)
        result.requests, result.reached, result.unchecked = run.requests, run.reached, run.unchecked
        result.exchanges = run.exchanges
        for step in case.steps if choose is None else choose(run):
            steps.append(step)
            with refusing(case, len(steps), step):
                result.skipped += not run.do(step)
        with refusing(case, len(steps), *steps[-1:]):
            run.final_checks()
    except ContractViolation as error:
        result.violation = error.without(target.without_secrets)
        result.revealed = None if run is None else run.last
        if run is not None and run.last is not None and run.last[0] not in run.requests[-1:]:
            result.exchanges.append(Exchange(*run.last, run.model.now))
    finally:
        target.end()
    if choose is not None:
        result.case = replace(case, steps=tuple(steps))
    result.done = 0 if run is None else run.done
    return result


@contextmanager
def refusing(case: Case, number: int = 0, step: Step | None = None) -> Iterator[None]:
    """Raises `CaseError` where a value of a case that was read from a file does not let a step be done."""
    try:
        yield
    except WRONG_DATA as error:
        if not case.origin or isinstance(error, LeydenError):
            raise
        place = "the start" if step is None else f"step {number} ({step['do']})"
        raise _CASE.refusal(case.origin, f"{place} cannot be done ({in_words(error)})") from error


def start_run(target: Target, case: Case) -> Run:
    """Start a run of a case: an `ExternalRun` for an `ExternalService`. Raises `ContractViolation` like `Run`."""
    start: Any = {"seed": case.seed, "start_ms": case.start_ms, "overlays": case.overlays, "disk": case.disk}
    return ExternalRun(target, **start) if isinstance(target, ExternalService) else Run(target, **start)


def journal_hash_of(case: Case, requests: Sequence[Request], target: Target | None = None) -> str | None:
    """The journal's hash of a sandbox in process after these requests and no others; the target is by default one with
    the specification of the case. None for a case with restarts, because each process starts a new journal."""
    if case.restarts:
        return None
    target = target or InProcess(case.contract())
    try:
        target.begin(case.seed, case.start_ms, case.overlays)
        for request in requests:
            target.send(*request)
        return target.journal_hash()
    except Exception:  # the service raised an exception: there is no journal to compare
        return None
    finally:
        target.end()


def with_result(case: Case, result: CaseResult, target: Target | None = None) -> Case:
    """The case with its violation, with the specification of the target, and with its journal hash.

    A result of a target that is not in process has a hash if a sandbox in process with the same specification has the
    same result.
    """
    target = target or InProcess()
    try:
        document = target.specification(case.overlays)
    except LeydenError:  # it does not respond any more
        document = None
    case = replace(
        case,
        spec_hash=spec_hash(case.overlays) if document is None else document_hash(document),
        spec_patch=() if document is None else tuple(patch_to(document, case.overlays)),
        found_on=target.kind,
        target=public_url(target.url) if isinstance(target, HttpTarget) else "",
        adapter=target.adapter_name if isinstance(target, HttpTarget) else "",
        expectation=result.expectation,
        journal_hash=None,
    )
    if target.kind == IN_PROCESS:
        return replace(case, journal_hash=journal_hash_of(case, result.requests, target))
    if target.kind != SERVED:
        return case
    try:
        again = replay(case)
    except Exception:  # this Leyden cannot run the specification of the served one, or what that answered
        return case
    return replace(case, journal_hash=again.journal_hash) if again.same_violation else case


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a case that was run again, and the hash of its journal; None if the target was not in process."""

    case: Case
    result: CaseResult
    journal_hash: str | None

    @property
    def same_journal(self) -> bool | None:
        """Whether the journal is the same as in the case; None if the case or this run has none."""
        if self.case.journal_hash is None or self.journal_hash is None:
            return None
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
    """Run a case again: once with all checks, and once with only its own requests, for the journal.

    The target is by default a sandbox in process with the specification of the case. Raises `CaseError` if this is not
    the specification that the case was written with.
    """
    target = target or InProcess(case.contract())
    result = play(case, target)
    in_process = target.kind == IN_PROCESS
    return ReplayResult(case, result, journal_hash_of(case, result.requests, target) if in_process else None)
