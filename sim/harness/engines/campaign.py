"""A campaign: several engines test one target for a given time or number of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from leyden.extras import require
from leyden.harness.conformance.conformance import run_conformance
from leyden.harness.engines.random_walk import random_walk
from leyden.harness.engines.results import CampaignConfig
from leyden.harness.engines.shrink import as_found, shrink
from leyden.harness.reports.results import CampaignReport, FoundViolation
from leyden.harness.runs.cases import CaseResult
from leyden.harness.session.exchanges import Exchange, Request
from leyden.harness.targets.adapter import TargetError
from leyden.harness.targets.served import HttpTarget
from leyden.harness.targets.target import Response, Target
from leyden.server.system.stop_signals import is_stopping

_BATCH = 25  # runs of the state machine between two checks of the time
_LARGEST_SEED = 2**53 - 1  # that a served Leyden takes

ProgressCallback = Callable[[CampaignReport], None]


def run_campaign(
    config: CampaignConfig, now: Callable[[], int], progress: ProgressCallback = lambda report: None
) -> CampaignReport:
    """Run the engines until the limits of the config are reached.

    The conformance run comes first; then the engine that has used the least time is next. The obligations get ten
    times the time of another engine until all are asked. `now` returns real milliseconds. `progress` is called after
    each part. The report says so if the time limit, an interrupt, or a target that does not respond any more ended the
    campaign before an engine had done its runs. Raises `MissingExtra` if an engine needs a package that is not
    installed, and `TargetError` if no run was possible.
    """
    require_packages(config.engines)
    report = CampaignReport()
    at = now()
    ends_at = None if config.seconds is None else at + round(1_000 * config.seconds)
    targets = {name: config.make() for name in config.engines}
    if "obligations" in config.engines:
        report.coverage.obligations = declared_obligations()
    parts = {name: _ENGINES[name](config, target) for name, target in targets.items()}
    spent_ms = {name: -1 if name == "conformance" else 0 for name in parts}
    while parts:
        name = min(parts, key=lambda one: spent_ms[one])
        try:
            result = next(parts[name], None)
            if is_stopping():
                raise KeyboardInterrupt  # a library may have caught it, and a run that it interrupted has no result
            if result is None:
                del parts[name]
            else:
                _add(report, name, result, targets[name])
        except TargetError as error:
            if not report.coverage.runs:
                raise
            report.cut_short, report.incomplete = str(error), True
            return report
        except KeyboardInterrupt:
            report.cut_short, report.incomplete = "it was interrupted", True
            return report
        before, at = at, now()
        spent_ms[name] += round(_SHARES.get(name, 1) * (at - before))
        progress(report)
        if config.stop_early and report.violations:
            return report
        if ends_at is not None and at >= ends_at:
            ended = [one for one in parts if one in _FINITE or config.examples is not None]
            if ended:
                limit = f"the time limit of {config.seconds:g} s ended {', '.join(ended)} before all runs were made"
                report.cut_short = f"{limit}; give more --seconds"
                # A search without an end goes on with the obligations as long as there is time.
                searches = [one for one in config.engines if one not in _FINITE]
                report.incomplete = ended != ["obligations"] or not searches
            return report
    return report


def require_packages(engines: Sequence[str]) -> None:
    """Raise `MissingExtra` if an engine needs a package that is not installed."""
    for name, package in _PACKAGES.items():
        if name in engines:
            require(f"leyden fuzz --engines {name}", package, "qa")


def _add(report: CampaignReport, engine: str, result: CaseResult, target: Target) -> None:
    """Add one result and shrink its violation. The violation is kept if shrinking is interrupted."""
    report.coverage.add(engine, result.case.name, result.reached, done=result.done, unchecked=result.unchecked)
    if engine == "conformance":
        report.cases[result.case.name] = result.violation is not None
    if result.violation is not None:
        result.violation = result.violation.without(target.without_secrets)
        case, shrunk = result.case, result
        try:
            if engine != "schemathesis":  # what it finds has no steps
                case, shrunk = shrink(case, target, result.violation)
                report.coverage.unchecked.update(shrunk.unchecked)
            if is_stopping():
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            case = as_found(result, target)
            raise
        finally:
            exchanges = tuple(without_secrets(one, target) for one in shrunk.exchanges or result.exchanges)
            report.add(FoundViolation(engine, case, exchanges, target.base_url if target.network else ""))


def without_secrets(exchange: Exchange, target: Target) -> Exchange:
    """The exchange as reports may show it."""
    if not isinstance(target, HttpTarget):
        return exchange
    (method, path, sent, body), response, at_ms = exchange
    hidden = target.secrets
    request = Request(method, hidden.text(path), tuple(hidden.headers(sent)), hidden.body(body))
    got = dict(hidden.headers(response.headers.items()))
    return Exchange(request, Response(response.status, got, hidden.body(response.body)), at_ms)


def _conformance(config: CampaignConfig, target: Target) -> Iterator[CaseResult]:
    return run_conformance(target, _overlays(config, target), seed=config.seed + 1)


def declared_obligations() -> tuple[str, ...]:
    """The names of all obligations."""
    from leyden.harness.engines import obligations  # the conformance run does not wait for them

    return obligations.declared_obligations()


def _obligations(config: CampaignConfig, target: Target) -> Iterator[CaseResult]:
    from leyden.harness.engines.obligations import run_obligations

    return run_obligations(config, target, _overlays(config, target) if target.network else config.overlays)


def _random_walk(config: CampaignConfig, target: Target) -> Iterator[CaseResult]:
    first = config.seed * 1_000_000
    seeds = count(first) if config.examples is None else range(first, first + config.examples)
    return (random_walk(seed & _LARGEST_SEED, target, overlays=_overlays(config, target)) for seed in seeds)


def _state_machine(config: CampaignConfig, target: Target) -> Iterator[CaseResult]:
    from leyden.harness.engines.state_machine import search

    for batch in count():
        size = _BATCH if config.examples is None else min(_BATCH, config.examples - batch * _BATCH)
        if size <= 0:
            return
        yield search(config.seed * 1_000_003 + batch, size, config.make, overlays=_overlays(config, target))


def _schemathesis(config: CampaignConfig, target: Target) -> Iterator[CaseResult]:
    from leyden.harness.engines.schemathesis_engine import run_schemathesis

    return run_schemathesis(config, target)


# Engines that end by themselves.
_FINITE = frozenset({"conformance", "obligations"})
# By how much the time of an engine counts.
_SHARES = {"conformance": 0.0, "obligations": 0.1}
# The packages that engines need besides those of the core.
_PACKAGES = {"state-machine": "hypothesis", "schemathesis": "schemathesis"}

_ENGINES: dict[str, Callable[[CampaignConfig, Target], Iterator[CaseResult]]] = {
    "conformance": _conformance,
    "obligations": _obligations,
    "random-walk": _random_walk,
    "state-machine": _state_machine,
    "schemathesis": _schemathesis,
}


def _overlays(config: CampaignConfig, target: Target) -> tuple[str, ...] | None:
    """The overlays of the runs; None lets each run choose. A served target has those that it is served with."""
    return () if config.overlays is None and target.network else config.overlays


def split(config: CampaignConfig, workers: int) -> list[CampaignConfig]:
    """The config in as many parts as there are workers, each with its own seeds; only the first has the conformance
    run."""
    examples = None if config.examples is None else -(-config.examples // workers)
    parts = []
    for number in range(workers):
        engines = [name for name in config.engines if name != "conformance" or number == 0]
        seed, part = config.seed * workers + number, (number, workers)
        parts.append(replace(config, engines=engines, seed=seed, examples=examples, part=part))
    return [part for part in parts if part.engines]
