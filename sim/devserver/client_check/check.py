"""The client check: serves a sandbox for each case, runs the command in it, and grades the client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from leyden.devserver.client_check.cases import CASES, Case
from leyden.devserver.client_check.crashes import exit_text
from leyden.devserver.client_check.judgements import FAIL, SKIPPED, VERDICTS, Judgement
from leyden.devserver.client_check.mistakes import CRITICAL, MINOR, SERIOUS, SEVERITIES, Mistake
from leyden.devserver.client_check.runs import RequestRecorder, Run, run_command
from leyden.devserver.multi_tenant import MultiTenantApp
from leyden.files.json_files import InputError
from leyden.lightning.payer.payer_rules import PayerSpec
from leyden.server.printable import cut, encodable
from leyden.server.spelling import closest
from leyden.server.store.store import Store
from leyden.server.system.clock import ServerClock, random_key, random_seed
from leyden.server.system.http_server.listening import ServerThread, base_url, open_listener
from leyden.world.config import world_config
from leyden.world.world import World

GRADES = "ABCDF"

_SERIOUS_FOR_D = 4  # this many serious mistakes make a D
_PAYS_AFTER = "200ms"
_PAYS_LATE = "1200ms"  # without a fault: long enough to tell a client that reads without a pause
_PLAIN = CASES[0]


@dataclass(frozen=True, slots=True)
class Finding:
    """A case, its run and the judgements: the first is about what the case is for."""

    case: Case
    run: Run
    judgements: Sequence[Judgement]

    @property
    def verdict(self) -> str:
        """The worst verdict of the judgements."""
        return max((judgement.verdict for judgement in self.judgements), key=VERDICTS.index)

    @property
    def found(self) -> str:
        """A text about the actions of the client."""
        return "; ".join(judgement.found for judgement in self.judgements)

    @property
    def mistakes(self) -> list[Mistake]:
        """The mistakes that the run shows, each once."""
        return list(dict.fromkeys(one.mistake for one in self.judgements if one.mistake is not None))


class FoundMistake(NamedTuple):
    """A mistake with the findings that show it."""

    mistake: Mistake
    findings: Sequence[Finding]

    @property
    def cases(self) -> list[str]:
        """The names of the cases."""
        return [finding.case.name for finding in self.findings]


@dataclass(frozen=True, slots=True)
class ClientReport:
    """The finding of each case, and the grade with its reason; None if the command fails without a fault."""

    command: Sequence[str]
    findings: Sequence[Finding]
    grade: str | None
    why: str

    @property
    def mistakes(self) -> list[FoundMistake]:
        """Each mistake once, the worst first."""
        return found_mistakes(self.findings)

    def count(self, verdict: str) -> int:
        """The number of cases with this verdict."""
        return [finding.verdict for finding in self.findings].count(verdict)

    def reaches(self, grade: str) -> bool:
        """Whether there is a grade, and it is this one or better."""
        return self.grade is not None and GRADES.index(self.grade) <= GRADES.index(grade)


def check_client(command: Sequence[str], *, only: Iterable[str] | None = None, limit_s: float = 30) -> ClientReport:
    """Run the command once without a fault and then once for each case (or `only` those of these names).

    Each case has a sandbox and an API key of its own, on one server of this machine; a payer pays each Charge after
    200 ms. A run ends after `limit_s` real seconds, and slow answers take longer than that. Raises `InputError` for an
    unknown name, and for a command that cannot be started.
    """
    cases = _selected(only)
    shown = [*map(encodable, command)]  # a report has no other bytes than those of UTF-8
    findings: list[Finding] = []
    with _served(cases, limit_s) as (url, worlds, recorder):
        wanted = 1
        for case in cases:
            world, key = worlds[case.name]
            run = run_command(command, case.name, url, key, world, recorder, limit_s)
            if case is _PLAIN:
                wanted = run.charges
                if run.exit_status != 0 or not wanted:
                    return ClientReport(shown, [_plain_failure(run)], None, _why_no_grade(run))
            findings.append(Finding(case, run, case.judgements(run, wanted)))
    return ClientReport(shown, findings, *grade(findings))


def found_mistakes(findings: Sequence[Finding]) -> list[FoundMistake]:
    """The mistakes of these findings, each once, the worst first."""
    by_name: dict[str, FoundMistake] = {}
    for finding in findings:
        for mistake in finding.mistakes:
            known = by_name.get(mistake.name, FoundMistake(mistake, ()))
            by_name[mistake.name] = known._replace(findings=[*known.findings, finding])
    return sorted(by_name.values(), key=lambda one: SEVERITIES.index(one.mistake.severity))


def _selected(only: Iterable[str] | None) -> list[Case]:
    names = [case.name for case in CASES]
    wanted = None if only is None else list(only)
    for name in wanted or ():
        if name not in names:
            near = closest(name, names)
            mend = f"choose one of {', '.join(names)}" if near is None else f"did you mean {near}?"
            raise InputError(f"there is no case {cut(name, 60)!r}: {mend}")
    return [case for case in CASES if case is _PLAIN or wanted is None or case.name in wanted]


@contextmanager
def _served(
    cases: Sequence[Case], limit_s: float
) -> Iterator[tuple[str, dict[str, tuple[World, str]], RequestRecorder]]:
    """A server with a world and a key for each case."""
    clock, seed = ServerClock(), random_seed()
    listener = open_listener("127.0.0.1", 0)
    url = base_url(listener)
    worlds: dict[str, tuple[World, str]] = {}
    try:
        for number, case in enumerate(cases):
            key = random_key()
            config = world_config(
                seed=seed + number, start_ms=clock.now(), api_key=key, rate=1, real_clock=clock.now, control=False
            )
            world = World(config, Store.memory(), public_url=url, label=case.name)
            worlds[case.name] = (world, key)
            with world.exclusive():
                world.payers.add(PayerSpec(delay=_PAYS_LATE if case is _PLAIN else _PAYS_AFTER))
                for spec in case.specs(2 * limit_s):
                    world.service_faults.add(spec)
        app = MultiTenantApp({key: world for world, key in worlds.values()})
        first, _ = worlds[_PLAIN.name]
        recorder = RequestRecorder(app, first.service.pipeline.api_key_header)
        server = ServerThread(recorder, listener)
        try:
            yield url, worlds, recorder
        finally:
            server.close()
    finally:
        listener.close()
        for world, _ in worlds.values():
            world.store.close()


def _plain_failure(run: Run) -> Finding:
    how = "it did not end" if run.exit_status is None else exit_text(run.exit_status)
    found = f"{how}, {run.charges} Charges"
    return Finding(_PLAIN, run, [Judgement(FAIL, found)])


def _why_no_grade(run: Run) -> str:
    if run.exit_status is None:
        return "without any fault the command does not end: give a command that creates a Charge and ends"
    if run.exit_status:
        return f"without any fault the command ends with {exit_text(run.exit_status)}: correct that first"
    return "the command creates no Charge: send its requests to LEYDEN_URL with the key LEYDEN_API_KEY"


def grade(findings: Sequence[Finding]) -> tuple[str, str]:
    """The grade of these findings, and its reason."""
    names: dict[str, list[str]] = {severity: [] for severity in SEVERITIES}
    for found in found_mistakes(findings):
        names[found.mistake.severity].append(found.mistake.name)
    skipped = [finding.case.name for finding in findings if finding.judgements[0].verdict == SKIPPED]
    open_cases = f"not exercised: {', '.join(skipped)}"
    if names[CRITICAL]:
        return "F", f"it may charge twice: {', '.join(names[CRITICAL])}"
    serious = names[SERIOUS]
    if serious:
        return ("D" if len(serious) >= _SERIOUS_FOR_D else "C"), f"serious mistakes: {', '.join(serious)}"
    if names[MINOR]:
        return "B", f"it could do better: {', '.join(names[MINOR])}{f'; {open_cases}' if skipped else ''}"
    if skipped:
        return "B", f"no mistake was found; {open_cases}"
    run = [finding.case.name for finding in findings]
    return "A", f"it did what a good client does in {'every case' if len(run) == len(CASES) else ' and '.join(run)}"
