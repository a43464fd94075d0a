"""Cases: a run in one file, small enough to read, exact enough to happen again anywhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from leyden.harness.checks.violations import Broken
from leyden.harness.model.charges import Cell
from leyden.harness.model.rules import instant, iso
from leyden.harness.reports.describe import sentence, story
from leyden.harness.runs.adapters import Answer, InProcess, Target
from leyden.harness.runs.run import Request, Run, Step
from leyden.server.errors import LeydenError
from leyden.world.config import packaged_contract

FORMAT = 1


class CaseError(LeydenError, ValueError):
    """A case file that cannot be read or replayed; the text says why."""


@dataclass(frozen=True, slots=True)
class Case:
    """Steps from a fresh world. `start_ms` is its first instant, `disk` whether it is kept in a directory.

    `expectation` is the finding (`Broken.fact()`) or None when every promise was kept. `journal_hash` is that of a
    sandbox in process to which the steps' own requests were sent and nothing else.
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

    @property
    def restarts(self) -> bool:
        """Whether the service is stopped and started on the way."""
        return any("restart" in (step["do"], step.get("between", {}).get("do")) for step in self.steps)

    def document(self) -> dict[str, Any]:
        """The case as JSON values."""
        return {
            "leydenCase": FORMAT,
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
        """The case as a text, one step a line."""
        document = self.document()
        steps = ",\n".join(f"    {json.dumps(step)}" for step in document["steps"])
        lines = [
            f"  {json.dumps(name)}: " + (f"[\n{steps}\n  ]" if name == "steps" and steps else json.dumps(value))
            for name, value in document.items()
        ]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def tell(self, replay: str = "") -> str:
        """The finding as a story; for a case without one, the steps."""
        if self.expectation is None:
            return "\n".join(f"{number}. {sentence(step)}" for number, step in enumerate(self.steps, 1))
        return story(self.steps, self.expectation, overlays=self.overlays, replay=replay)


def read_case(source: str | Path | Mapping[str, Any]) -> Case:
    """A case from a file or from its JSON document. Raises `CaseError` with what is wrong."""
    if isinstance(source, Mapping):
        document: Any = source
    else:
        try:
            document = json.loads(Path(source).read_text())
        except (OSError, ValueError) as error:
            raise CaseError(f"{source} is no case: {error}") from None
    if not isinstance(document, Mapping) or document.get("leydenCase") != FORMAT:
        raise CaseError(f"{str(source)[:100]} is no case of format {FORMAT}: it has no leydenCase")
    try:
        return Case(
            steps=tuple(document["steps"]),
            seed=document["seed"],
            start_ms=instant(document["start"]),
            overlays=tuple(document["overlays"]),
            disk=document["disk"],
            name=document["name"],
            spec_hash=document["specHash"],
            expectation=document["expectation"],
            journal_hash=document["journalHash"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CaseError(f"a case lacks {error} or has it in another form: write it as `leyden fuzz` does") from None


def spec_hash(overlays: Sequence[str]) -> str:
    """The hash of the specification as these overlays make it, so that a case knows what it was about."""
    document = packaged_contract("charges", tuple(overlays)).document
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()


@dataclass(slots=True)
class Played:
    """What became of a case: the finding if there was one, the requests that the steps made, and what came last.

    `revealed` is the request, of ours or of a step, whose answer broke the promise. `skipped` counts steps that pointed
    at nothing.
    """

    case: Case
    broken: Broken | None
    requests: list[Request]
    revealed: tuple[Request, Answer] | None
    seen: dict[Cell, None]
    unchecked: dict[str, None] = field(default_factory=dict)
    skipped: int = 0
    done: int = 0

    @property
    def fact(self) -> Mapping[str, str] | None:
        """The finding as plain texts."""
        return None if self.broken is None else self.broken.fact()


def play(case: Case, target: Target | None = None) -> Played:
    """Do the steps of a case and check everything, to its end or to the first promise that is broken."""
    target = target or InProcess()
    run: Run | None = None
    skipped = 0
    broken = None
    try:
        run = run_on(target, seed=case.seed, start_ms=case.start_ms, overlays=case.overlays, disk=case.disk)
        for step in case.steps:
            skipped += not run.do(step)
        run.finish()
    except Broken as error:
        broken = error
    finally:
        target.end()
    if run is None:
        return Played(case, broken, [], None, {}, skipped=skipped)
    revealed = run.last if broken is not None else None
    return Played(case, broken, run.requests, revealed, run.seen, run.unchecked, skipped, run.done)


def run_on(target: Target, **world: Any) -> Run:
    """A run of the kind that goes with the target."""
    from leyden.harness.runs.served import AnyService

    if isinstance(target, AnyService):
        from leyden.harness.runs.external import ForeignRun

        return ForeignRun(target, **world)
    return Run(target, **world)


def bare_hash(case: Case, requests: Sequence[Request]) -> str | None:
    """The journal's hash after the steps' requests and nothing else. A case with restarts has none: a journal begins
    anew with the process."""
    if case.restarts:
        return None
    target = InProcess()
    target.begin(case.seed, case.start_ms, case.overlays)
    try:
        for request in requests:
            target.send(*request)
        return target.journal_hash()
    except Exception:  # a service that falls over has no journal to compare
        return None
    finally:
        target.end()


def recorded(case: Case, played: Played, target: Target | None = None) -> Case:
    """The case with what was found and, if that was in process, the proof that it can be found again."""
    in_process = target is None or isinstance(target, InProcess)
    return replace(
        case,
        spec_hash=spec_hash(case.overlays),
        expectation=played.fact,
        journal_hash=bare_hash(case, played.requests) if in_process else None,
    )


@dataclass(frozen=True, slots=True)
class Replayed:
    """A case that was played again: what it found this time, and whether the journal is the same."""

    case: Case
    played: Played
    journal_hash: str | None

    @property
    def same_journal(self) -> bool:
        """Whether the steps led to the very same journal."""
        return self.journal_hash == self.case.journal_hash

    @property
    def same_finding(self) -> bool:
        """Whether the same promise was broken, or again none."""
        before, now = self.case.expectation, self.played.fact
        if before is None or now is None:
            return before is None and now is None
        return (before["check"], before["clause"]) == (now["check"], now["clause"])

    def check(self) -> None:
        """Raise `AssertionError` with the story while a promise is broken."""
        if self.played.fact is not None:
            raise AssertionError(story(self.case.steps, self.played.fact, overlays=self.case.overlays))


def replay(case: Case, target: Target | None = None) -> Replayed:
    """Play a case again: once with all checks, and once bare, for the journal."""
    played = play(case, target)
    return Replayed(case, played, bare_hash(case, played.requests))
