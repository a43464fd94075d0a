"""The harness on the command line: `leyden fuzz`, `leyden tour`, `leyden replay`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

from leyden.extras import require
from leyden.harness.engines.campaign import Finding, Order, Report, campaign, share
from leyden.harness.options import USUAL_SECONDS
from leyden.harness.reports.coverage import Coverage
from leyden.harness.reports.exports import FORMS
from leyden.harness.runs.adapters import InProcess, Target
from leyden.harness.runs.cases import CaseError, read_case, replay
from leyden.server.docs.tables import replace_between_markers
from leyden.server.errors import LeydenError
from leyden.server.system.clock import system_time_ms

_ENDINGS = {"pytest": ".py", "curl": ".sh", "notebook": ".ipynb"}


class HarnessError(LeydenError):
    """The harness was asked for something that it cannot do; the text says what to ask instead."""


def fuzz(options: argparse.Namespace) -> int:
    """Run a campaign and tell what came of it: 0 when every promise was kept, 1 otherwise."""
    overlays = None if options.overlay is None else tuple(options.overlay)
    seconds = options.seconds
    if seconds is None and options.examples is None and set(options.engines) != {"tour"}:
        seconds = USUAL_SECONDS
    order = Order(
        engines=options.engines,
        seed=options.seed,
        seconds=seconds,
        examples=options.examples,
        overlays=overlays,
        stop_early=not options.keep_going,
        make=_maker(options),
    )
    if options.target is not None and (options.workers > 1 or options.cluster):
        raise HarnessError("one served world cannot be shared by several processes: leave --workers and --cluster out")
    progress = Progress(order)
    if options.workers > 1 or options.cluster:
        report = _shared(order, options.workers, options.cluster)
    else:
        report = campaign(order, system_time_ms, progress)
    progress.done(report)
    return _tell(report, options, cover=options.cover)


def tour(options: argparse.Namespace) -> int:
    """Take the tour once."""
    overlays = None if options.overlay is None else tuple(options.overlay)
    order = Order(engines=("tour",), overlays=overlays, make=_maker(options))
    return _tell(campaign(order, system_time_ms, Progress(order)), options, cover=False)


def replay_case(options: argparse.Namespace) -> int:
    """Play a case file again, or print it in another form."""
    case = read_case(options.case)
    if options.export is not None:
        print(FORMS[options.export](case), end="")
        return 0
    replayed = replay(case)
    if replayed.played.fact is not None:
        print(replace(case, expectation=replayed.played.fact).tell(f"leyden replay {options.case}"))
    else:
        print(case.tell() if case.expectation is None else "Every promise is kept now.")
    print(f"journal {replayed.journal_hash}: {'the same' if replayed.same_journal else f'was {case.journal_hash}'}")
    return 0 if replayed.played.broken is None else 1


def _shared(order: Order, workers: int, cluster: str | None) -> Report:
    """The order in parts, each by a process of its own, here or on a Dask cluster."""
    with ExitStack() as rooms:
        executor: Executor
        if cluster is None:
            executor = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
        else:
            require("leyden fuzz --cluster", "distributed", "cluster")
            try:
                client = rooms.enter_context(import_module("distributed").Client(cluster))
            except (ImportError, OSError, ValueError) as error:
                raise HarnessError(
                    f"no cluster at {cluster}: {error}; install leyden[cluster] and check the address"
                ) from None
            executor = client.get_executor(pure=False)
            workers = max(workers, sum(client.ncores().values()))
        rooms.enter_context(executor)
        report = Report()
        futures: list[Future[Report]] = [executor.submit(run_share, part) for part in share(order, workers)]
        for future in wait(futures).done:
            report.merge(future.result())
        return report


def run_share(order: Order) -> Report:
    """One process's part of a campaign."""
    return campaign(order, system_time_ms)


def _maker(options: argparse.Namespace) -> Callable[[], Target]:
    if options.target is None:
        if options.levers is not None:
            raise HarnessError("--levers are for a service at a URL: give one")
        return InProcess
    if options.levers is None:
        from leyden.harness.runs.served import ServedLeyden

        return partial(ServedLeyden, options.target, options.api_key, options.rival_key)
    from leyden.harness.runs.served import AnyService

    return partial(AnyService, options.target, options.api_key, options.rival_key, levers=_levers(options.levers))


def _levers(text: str) -> object | None:
    if text == "none":
        return None
    module, colon, name = text.partition(":")
    if not colon:
        raise HarnessError(f"{text!r} names no levers: write module:object, or none")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise HarnessError(f"the levers {text!r} cannot be imported: {error}") from None
    levers: object = found() if isinstance(found, type) else found
    return levers


class Progress:
    """A line that says what has been reached so far: written over on a terminal, elsewhere only the last one."""

    def __init__(self, order: Order) -> None:
        self._live = sys.stderr.isatty()
        self._next_at = 0
        self._seed = order.seed

    def __call__(self, report: Report) -> None:
        if self._live and system_time_ms() >= self._next_at:
            self._next_at = system_time_ms() + 200
            print(f"\r\x1b[K{self._line(report)}", end="", file=sys.stderr, flush=True)

    def done(self, report: Report) -> None:
        """The last line."""
        print(f"{chr(13) if self._live else ''}{self._line(report)}", file=sys.stderr)

    def _line(self, report: Report) -> str:
        coverage = report.coverage
        reached, within = coverage.counted()
        worlds, steps = sum(coverage.runs.values()), sum(coverage.steps.values())
        found = len(report.findings)
        return (
            f"seed {self._seed}: {worlds} worlds, {steps} steps, {reached} of {within} cells reached, "
            f"{found or 'no'} promise{'' if found == 1 else 's'} broken"
        )


def _tell(report: Report, options: argparse.Namespace, *, cover: bool) -> int:
    for file in options.report:
        _write(Path(file), _coverage_as(report.coverage, Path(file)))
    folder = None if options.cases is None else Path(options.cases)
    for number, finding in enumerate(report.findings, 1):
        path = None if folder is None else _keep(folder, number, finding)
        print(f"\nFound by the {finding.engine}.\n{finding.case.tell('' if path is None else f'leyden replay {path}')}")
    missing = report.coverage.missing()
    for what in report.coverage.unchecked:
        print(f"not checked: {what}")
    if cover and missing:
        print(f"\n{len(missing)} declared cells were never reached, for example {' '.join(missing[0])}")
    if not report.findings:
        reached, within = report.coverage.counted()
        print(f"Every promise was kept; {reached} of {within} cells were reached.")
    return 1 if report.findings or (cover and missing) else 0


def _coverage_as(coverage: Coverage, file: Path) -> str:
    if file.suffix == ".md":
        try:
            return replace_between_markers(file.read_text(), "coverage", coverage.summary())
        except OSError as error:
            raise HarnessError(f"{file}: {error.strerror}; the summary goes into a page that is there") from None
    if file.suffix == ".html":
        return coverage.html()
    return coverage.json() if file.suffix == ".json" else coverage.text()


def _keep(folder: Path, number: int, finding: Finding) -> Path:
    check = (finding.case.expectation or {}).get("check", "case")
    path = folder / f"{number:02d}-{check}.case.json"
    folder.mkdir(parents=True, exist_ok=True)
    _write(path, finding.case.dumps())
    for form, ending in _ENDINGS.items():
        try:
            text = FORMS[form](finding.case)
        except CaseError:
            continue
        except LeydenError as error:  # not every case can be said in every form
            print(f"no {form} of {path.name}: {error}", file=sys.stderr)
            continue
        _write(folder / f"test_{number:02d}_{check}{ending}", text)
    return path


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}; check the path") from None
