"""The commands `leyden fuzz`, `leyden conformance` and `leyden replay`."""

from __future__ import annotations

import argparse
import shlex
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

from leyden.errors import MissingExtra
from leyden.extras import require
from leyden.files.json_files import VersionWarning, read_text, shown
from leyden.files.standard_streams import print_document
from leyden.files.written_files import check_directory, check_file, write_document, write_private
from leyden.harness.constants import DEFAULT_SECONDS, EXPORT_FORMATS, PACKAGED_SPEC, REPORT_FORMATS
from leyden.harness.engines.campaign import run_campaign, split
from leyden.harness.engines.processes import available_cores, run_in_processes
from leyden.harness.engines.results import CampaignConfig
from leyden.harness.reports.at_target import runs_at_target
from leyden.harness.reports.coverage import TITLES, item_name
from leyden.harness.reports.exports import EXPORTS, PRINTED, ExportError
from leyden.harness.reports.formats import FORMATS
from leyden.harness.reports.results import CampaignReport, FoundViolation
from leyden.harness.runs.cases import Case, read_case, replay
from leyden.harness.runs.specification import document_hash
from leyden.harness.targets.adapter import NO_ADAPTER, adapter_from, load_adapter
from leyden.harness.targets.served import ExternalService, ServedLeyden, public_url, target_at
from leyden.harness.targets.target import SERVED, InProcess, Target
from leyden.server.docs.tables import replace_between_markers
from leyden.server.errors import LeydenError
from leyden.server.printable import printable
from leyden.server.system.clock import system_time_ms

_FINITE = frozenset({"conformance", "obligations"})  # engines that end by themselves
_MOST_NAMES = 100  # of obligations that were not tested, in the output


class HarnessError(LeydenError):
    """The options cannot be used together, or a directory or cluster cannot be used; the text says what to do."""

    exit_status = 2


def fuzz(options: argparse.Namespace) -> int:
    """Run a campaign, or with the engine `conformance` alone the conformance run, and print its report.

    Returns 1 if there is a violation; with `--require-full-coverage` 1 also for an item not reached. Returns 3 if the
    target was not tested completely, otherwise 0. The items not reached are listed then, and after every conformance
    run. The files to be written are checked before.
    """
    seconds = options.seconds
    if seconds is None and options.examples is None and not set(options.engines) <= _FINITE:
        seconds = DEFAULT_SECONDS
    config = CampaignConfig(
        engines=(*options.engines, "obligations") if getattr(options, "deep", False) else options.engines,
        seed=options.seed,
        seconds=seconds,
        examples=options.examples,
        overlays=options.overlay and tuple(options.overlay),
        stop_early=not options.keep_going,
        make=_target_factory(options),
    )
    reports = [(Path(file), _format_of(Path(file), options.format)) for file in options.report]
    for file, form in reports:
        _check_report(file, form)
    if options.cases is not None:
        _check_directory(Path(options.cases))
    if options.target is not None and ((options.workers or 1) > 1 or options.cluster):
        raise HarnessError("several processes cannot share one served sandbox: leave --workers and --cluster out")
    progress = Progress(config)
    if options.cluster:
        report = _run_on_cluster(config, options.workers or 1, options.cluster)
    elif len(parts := split(config, options.workers or _default_workers(options, config))) > 1:
        report = run_in_processes(parts, progress.show)
    else:
        report = run_campaign(config, system_time_ms, progress)
    progress.done(report)
    for file, form in reports:
        _write(file, _rendered(report, file, form), is_private=form != "markdown")
    if options.format is not None and not reports:
        _write_cases(report, options.cases)
        print_document(FORMATS[options.format](report))
    else:
        _print_report(config, report, options)
    lost = report.coverage.missing() or report.coverage.untested()
    if report.violations or (options.require_full_coverage and lost):
        return 1
    return 3 if report.incomplete else 0


def replay_case(options: argparse.Namespace) -> int:
    """Run a case file again, or print it in another format.

    Returns 0 if there is no violation, 1 otherwise. The specification is that of the case, or `--spec`.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", VersionWarning)
        case = read_case(options.case, content=getattr(options, "content", None))
    for warning in caught:
        print(f"leyden replay: {warning.message}", file=sys.stderr)
    if options.export is not None:
        print_document(_exported(case, options))
        return 0
    if not (case.steps or case.is_reproduced or case.target):
        raise HarnessError(
            f"{options.case} has no steps and no target, so nothing can be replayed: run `{_fuzz_again(case)}` again"
        )
    target = _replay_target(case, options)
    replayed = replay(case, target)
    if replayed.result.expectation is not None:
        print(replace(case, expectation=replayed.result.expectation).describe(_replay_again(options)))
    else:
        print(case.describe() if case.expectation is None else _without_violation(case, target, options.target))
        print(*(f"not checked: {printable(what)}\n" for what in replayed.result.unchecked), sep="", end="")
    if replayed.journal_hash is not None:
        former = "the case has none" if case.journal_hash is None else f"differs, the case has {case.journal_hash}"
        print(f"journal {replayed.journal_hash}: {'the same' if replayed.same_journal else former}")
    return 0 if replayed.result.violation is None else 1


def _exported(case: Case, options: argparse.Namespace) -> str:
    """The case in another format; one that runs an adapter has that of the options. Raises `ExportError` with the
    file, and `HarnessError` as `_adapter_of`."""
    if options.export in EXPORTS and runs_at_target(case):
        case = replace(case, adapter=_adapter_of(case, options))
    try:
        return PRINTED[options.export](case)
    except MissingExtra:
        raise
    except LeydenError as error:
        raise ExportError(f"{shown(options.case)} cannot be exported as {options.export}: {error}") from None


def _replay_target(case: Case, options: argparse.Namespace) -> Target:
    """The target that the options name. Raises `CaseError` for one with another specification than the case."""
    if options.spec is not None and options.target is not None:
        raise HarnessError("--spec is for a sandbox in this process: leave it out, or the URL")
    url = options.target
    if url is None and options.spec is None and not case.is_reproduced:
        url = case.target or None
    if url is not None:
        target = _target_of(case, url, options)
        served = target.specification(case.overlays)
        if served is not None and case.spec_hash != document_hash(served):
            print(f"leyden replay: {_shown_url(url)} has another specification than the case", file=sys.stderr)
        return target
    if options.spec is None:
        return InProcess(case.contract())
    spec = None if options.spec == PACKAGED_SPEC else options.spec
    target = InProcess(spec)
    if case.spec_hash != document_hash(target.specification(case.overlays)):
        print(f"leyden replay: {options.spec} is another specification than that of the case", file=sys.stderr)
    return target


def _shown_url(url: str) -> str:
    return printable(public_url(url))


def _target_of(case: Case, url: str, options: argparse.Namespace) -> Target:
    """The target at a URL: the kind of target that the case was found on, with the adapter of the options."""
    keys = {"api_key": options.api_key, "second_api_key": options.second_api_key}
    target = target_at(case.found_on, url, **keys, adapter=_adapter_of(case, options))
    print(f"leyden replay: at {_shown_url(url)}", file=sys.stderr)
    return target


def _adapter_of(case: Case, options: argparse.Namespace) -> str:
    """The adapter of the options. Raises `HarnessError` if the case names one and the options do not: an adapter is a
    program, and a case may come from anybody."""
    if options.adapter is None and case.adapter not in ("", NO_ADAPTER):
        name = printable(case.adapter)
        raise HarnessError(
            f"{options.case} was found with the adapter {name}, a program that is run: add --adapter"
            f" {shlex.quote(name)}, or --adapter {NO_ADAPTER} to replay what needs none"
        )
    return str(options.adapter or case.adapter)


def _without_violation(case: Case, target: Target, url: str | None) -> str:
    """The text about a run in which the violation of the case does not occur. `url` is the target's, if the options
    name one."""
    if target.kind == case.found_on or case.is_reproduced:
        if url is not None and public_url(url) != case.target:
            found = f"It was found at {printable(case.target)}." if case.target else "It was found in process."
            return f"The violation does not occur at {_shown_url(url)}. {found}"
        return "The violation does not occur any more."
    where = {"": "elsewhere", SERVED: "on a served Leyden"}.get(case.found_on, f"on {case.found_on}")
    adapter = "" if case.adapter in ("", NO_ADAPTER) else f" --adapter {shlex.quote(printable(case.adapter))}"
    return (
        f"This target does not have the violation. It was found {where} and not reproduced in process, so this says"
        f" nothing about that service: replay the case there, with leyden replay CASE URL{adapter}."
    )


def _replay_command(path: Path, case: Case, options: argparse.Namespace) -> str:
    """The command that shows the violation of a case of this run again."""
    if not (case.steps or case.is_reproduced or case.target):  # only its engine has the requests
        url = [] if options.target is None else [public_url(options.target)]
        adapter = [] if options.adapter is None else ["--adapter", options.adapter]
        return f"{_fuzz_again(case)} {shlex.join(['--seed', str(options.seed), *url, *adapter])}"
    needs_adapter = not case.is_reproduced and case.adapter not in ("", NO_ADAPTER)
    return shlex.join(["leyden", "replay", str(path), *(["--adapter", case.adapter] if needs_adapter else [])])


def _fuzz_again(case: Case) -> str:
    """The command of the engine that finds cases without steps, with the overlays of the case."""
    engine = " --engines schemathesis" if case.name.startswith("schemathesis ") else ""
    return f"leyden fuzz{engine}" + "".join(f" --overlay {name}" for name in case.overlays)


def _replay_again(options: argparse.Namespace) -> str:
    """The command that was given, without the API keys."""
    words = [options.case] if options.target is None else [options.case, public_url(options.target)]
    for name in ("adapter", "spec"):
        words += [] if getattr(options, name) is None else [f"--{name}", getattr(options, name)]
    return shlex.join(["leyden", "replay", *words])


def _default_workers(options: argparse.Namespace, config: CampaignConfig) -> int:
    """The number of processes of a campaign in process that a time or the obligations limit; one otherwise, because a
    number of runs with a seed is the same everywhere."""
    is_one = options.target is not None or config.examples is not None or set(config.engines) <= {"conformance"}
    return 1 if is_one else available_cores()


def _run_on_cluster(config: CampaignConfig, workers: int, address: str) -> CampaignReport:
    """Split the campaign over the processes of a Dask cluster, `workers` at least."""
    require("leyden fuzz --cluster", "distributed", "cluster")
    try:
        client = import_module("distributed").Client(address)
    except (ImportError, OSError, ValueError) as error:
        raise HarnessError(f"no cluster at {address}: {error}; install leyden[cluster] and check the address") from None
    with client, client.get_executor(pure=False) as executor:
        parts = split(config, max(workers, sum(client.ncores().values())))
        report = CampaignReport()
        for future in [executor.submit(run_campaign, part, system_time_ms) for part in parts]:
            report.merge(future.result())
        return report


def _target_factory(options: argparse.Namespace) -> Callable[[], Target]:
    if options.target is None:
        if options.adapter is not None:
            raise HarnessError("--adapter is for a service at a URL: give its URL")
        return InProcess
    keys = (options.target, options.api_key, options.second_api_key)
    if options.adapter is None:
        return partial(ServedLeyden, *keys)
    adapter = load_adapter(options.adapter)
    return partial(ExternalService, *keys, adapter=adapter, adapter_name=options.adapter)


class Progress:
    """The progress line on standard error: updated on a terminal, elsewhere printed once at the end."""

    def __init__(self, config: CampaignConfig) -> None:
        self._live = sys.stderr.isatty()
        self._next_at = 0
        self._seed = config.seed

    def __call__(self, report: CampaignReport) -> None:
        if self._live and system_time_ms() >= self._next_at:
            self._next_at = system_time_ms() + 200
            self._print(self._line(report))

    def show(self, counts: Sequence[int]) -> None:
        """Print the numbers of runs, steps and violations of several processes."""
        if self._live:
            runs, steps, violations = counts
            self._print(f"seed {self._seed}: {runs} runs, {steps} steps, {violations or 'no'} violations")

    def _print(self, line: str) -> None:
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    def done(self, report: CampaignReport) -> None:
        """Print the final line."""
        print(f"{chr(13) + chr(27) + '[K' if self._live else ''}{self._line(report)}", file=sys.stderr)

    def _line(self, report: CampaignReport) -> str:
        runs, steps, _ = report.counts()
        return f"seed {self._seed}: {runs} runs, {steps} steps, {report.totals()}"


def _print_report(config: CampaignConfig, report: CampaignReport, options: argparse.Namespace) -> None:
    if report.cut_short:
        print(f"Cut short: {report.cut_short}.")
    paths = _write_cases(report, options.cases)
    for found, path in zip(report.violations, paths, strict=True):
        replay_command = "" if path is None else _replay_command(path, found.case, options)
        print(f"\nFound by {found.engine}.\n{found.case.describe(replay_command)}")
    missing = report.coverage.missing()
    for what in report.coverage.unchecked:
        print(f"not checked: {printable(what)}")
    finite = set(config.engines) <= _FINITE
    if report.coverage.obligations:
        print(report.coverage.tested())
        untested = report.coverage.untested() if finite or options.require_full_coverage else []
        print(*(f"  {printable(line)}\n" for line in _listed(untested)), sep="", end="")
    if missing and (finite or options.require_full_coverage):
        print(f"\nDeclared coverage items that were not reached: {len(missing)}")
        print(*(f"  {TITLES[item[0]]}: {printable(item_name(item))}" for item in missing), sep="\n")
    if report.cut_short or not report.violations:
        print(report.summary())


def _listed(untested: Sequence[str]) -> Sequence[str]:
    """The names of obligations; of many the number for each operation."""
    if len(untested) <= _MOST_NAMES:
        return [f"not tested: {name}" for name in untested]
    words = (name.split() for name in untested)  # the overlay, if there is one, and the operation come first
    operations = Counter(first[1] if first[0].endswith(":") else first[0] for first in words)
    counts = [f"not tested: {count:,} of {name}" for name, count in operations.most_common()]
    return [*counts, "a report names each: --report FILE"]


def _format_of(path: Path, given: str | None) -> str:
    """The format of a report file. Raises `HarnessError` if neither `--format` nor the name's ending says it."""
    endings = {ending: name for name, ending in REPORT_FORMATS.items()}
    if given is None and path.suffix not in endings:
        raise HarnessError(
            f"--report {path}: the name must end with one of {', '.join(endings)}; or give --format, one of"
            f" {', '.join(REPORT_FORMATS)}"
        )
    return given or endings[path.suffix]


def _check_report(path: Path, form: str) -> None:
    """Raise `HarnessError` if the report cannot be written, before a long run."""
    if form == "markdown":
        text = read_text(path)
        try:
            replace_between_markers(text, "coverage", "")
        except LeydenError as error:
            raise HarnessError(f"{path}: {error}") from None
    try:
        check_file(path)
    except OSError as error:
        raise HarnessError(f"{shown(path)}: {error.strerror}; check the path") from None


def _check_directory(folder: Path) -> None:
    """Raise `HarnessError` if the directory cannot be created, before a long run."""
    try:
        check_directory(folder)
    except OSError as error:
        raise HarnessError(
            f"{shown(folder)} is no directory that can be written ({error.strerror}); choose another for the cases"
        ) from None


def _rendered(report: CampaignReport, file: Path, form: str) -> str:
    text = FORMATS[form](report)
    return replace_between_markers(read_text(file), "coverage", text) if form == "markdown" else text


def _write_cases(report: CampaignReport, folder: str | None) -> list[Path | None]:
    """Write the case of each violation to the directory, if there is one, and return the files."""
    if folder is None:
        return [None for _ in report.violations]
    return [_write_case(Path(folder), number, found) for number, found in enumerate(report.violations, 1)]


def _write_case(folder: Path, number: int, found: FoundViolation) -> Path:
    check = (found.case.expectation or {}).get("check", "case")
    path = folder / f"{number:02d}-{check}.case.json"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"{folder}: {error.strerror}; choose another directory for the cases") from None
    _write(path, found.case.dumps())
    for form, ending in EXPORT_FORMATS.items():
        try:
            text = EXPORTS[form](replace(found.case, adapter=adapter_from(found.case.adapter, Path(), folder)))
        except LeydenError as error:  # curl cannot restart a service, for example
            print(f"no {form} file for {path.name}: {error}", file=sys.stderr)
            continue
        _write(folder / f"test_{number:02d}_{check}{ending}", text)
    return path


def _write(path: Path, text: str, *, is_private: bool = True) -> None:
    """Write a file with requests and secrets, so only its owner may read it; else a document of the user's."""
    try:
        if is_private:
            write_private(path, text)
        else:
            write_document(path, text)
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}; check the path") from None
