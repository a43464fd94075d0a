"""The client check: serves a sandbox for each case, runs the command in it, and grades the client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from leyden.devserver.client_check.cases import CASES, CRITICAL, FAIL, NOTICE, SERIOUS, Case, Judgement, judged
from leyden.devserver.client_check.runs import RequestRecorder, Run, run_command
from leyden.devserver.multi_tenant import MultiTenantApp
from leyden.json_files import InputError
from leyden.lightning.payer.payer_rules import PayerSpec
from leyden.server.spelling import closest
from leyden.server.store.store import Store
from leyden.server.system.clock import ServerClock, random_key, random_seed
from leyden.server.system.http_server import ServerThread, base_url, open_listener
from leyden.world.config import world_config
from leyden.world.world import World

GRADES = "ABCDF"

_SERIOUS_FOR_D = 4  # this many serious failures make a D
_PAYS_AFTER = "200ms"
_PLAIN = CASES[0]
_SHOWN_OUTPUT = 2_000
_LEAK = Judgement(FAIL, SERIOUS, "its output has the API key", "leave headers out of logs, or mask the key")


@dataclass(frozen=True, slots=True)
class Finding:
    """A case, its run and the judgement."""

    case: Case
    run: Run
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class ClientReport:
    """The findings, and the grade with its reason; None if the command fails without a fault."""

    command: Sequence[str]
    findings: Sequence[Finding]
    grade: str | None
    why: str

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
    findings: list[Finding] = []
    with _served(cases, limit_s) as (url, worlds, recorder):
        wanted = 1
        for case in cases:
            world, key = worlds[case.name]
            run = run_command(command, case.name, url, key, world, recorder, limit_s)
            if case is _PLAIN:
                wanted = run.charges
                if run.exit_status != 0 or not wanted:
                    return ClientReport(command, [_plain_failure(run)], None, _why_no_grade(run))
            findings.append(Finding(case, run, judged(case, run, wanted)))
            if run.shows_key:
                findings.append(Finding(case, run, _LEAK))
    return ClientReport(command, findings, *_grade(findings))


def resource(report: ClientReport) -> dict[str, object]:
    """The report as JSON values. The keys of the sandboxes are replaced in the output: each lived for one run."""
    return {
        "command": list(report.command),
        "grade": report.grade,
        "why": report.why,
        "cases": [
            {
                "name": finding.case.name,
                "title": finding.case.title,
                "good": finding.case.good,
                "verdict": finding.judgement.verdict,
                "severity": finding.judgement.severity,
                "found": finding.judgement.found,
                "mend": finding.judgement.mend,
                "exitStatus": finding.run.exit_status,
                "seconds": round(finding.run.elapsed_s, 2),
                "charges": finding.run.charges,
                "requests": len(finding.run.requests),
                "output": finding.run.output[-_SHOWN_OUTPUT:].replace(finding.run.key, "(the API key)"),
            }
            for finding in report.findings
        ],
    }


def text(report: ClientReport) -> str:
    """The report to read in a terminal."""
    width = max(len(finding.case.name) for finding in report.findings)
    lines = [f"Client check of {_printable(' '.join(report.command))}", ""]
    for finding in report.findings:
        judgement = finding.judgement
        lines.append(f"{judgement.verdict:7} {finding.case.name:{width}}  {_printable(judgement.found)}")
        if judgement.mend:
            indent = " " * (width + 10)
            lines += [f"{indent}a good client: {finding.case.good}", f"{indent}how to fix it: {judgement.mend}"]
    grade = "No grade" if report.grade is None else f"Grade {report.grade}"
    lines += ["", f"{grade}: {report.why}"]
    if report.grade is None:
        lines += [f"  | {_printable(line)}" for line in report.findings[0].run.output.splitlines()[-10:]]
    return "\n".join(lines) + "\n"


def _selected(only: Iterable[str] | None) -> list[Case]:
    names = [case.name for case in CASES]
    wanted = None if only is None else list(only)
    for name in wanted or ():
        if name not in names:
            near = closest(name, names)
            mend = f"choose one of {', '.join(names)}" if near is None else f"did you mean {near}?"
            raise InputError(f"there is no case {name[:60]!r}: {mend}")
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
                world.payers.add(PayerSpec(delay=_PAYS_AFTER))
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
    found = f"exit status {run.exit_status}, {run.charges} Charges"
    return Finding(_PLAIN, run, Judgement(FAIL, "", found, "let the command create a Charge and end with 0"))


def _why_no_grade(run: Run) -> str:
    if run.exit_status is None:
        return "without any fault the command does not end: give a command that creates a Charge and ends"
    if run.exit_status:
        return f"without any fault the command ends with exit status {run.exit_status}: correct that first"
    return "the command creates no Charge: send its requests to LEYDEN_URL with the key LEYDEN_API_KEY"


def _grade(findings: Sequence[Finding]) -> tuple[str, str]:
    failed = [finding for finding in findings if finding.judgement.verdict == FAIL]
    critical = [finding.case.name for finding in failed if finding.judgement.severity == CRITICAL]
    serious = [finding.case.name for finding in failed if finding.judgement.severity == SERIOUS]
    weak = [finding.case.name for finding in findings if finding.judgement.verdict == NOTICE or finding in failed]
    if critical:
        return "F", f"it may charge twice ({', '.join(critical)})"
    if serious:
        names = ", ".join(dict.fromkeys(serious))
        return ("D" if len(serious) >= _SERIOUS_FOR_D else "C"), f"serious failures: {names}"
    if weak:
        return "B", f"it could do better: {', '.join(dict.fromkeys(weak))}"
    return "A", "it did what a good client does in every case"


def _printable(value: str) -> str:
    """The text with control characters escaped: a command chooses it, and a terminal must not obey it."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in value)
