"""Sweeps: one function called for every scenario and replication, with one row per run, failed ones included."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leyden.arguments import checked_flag, checked_list, checked_path, checked_text, shortened, whole_number, with_hints
from leyden.errors import SweepError
from leyden.extras import require
from leyden.lab.progress import bar, is_wanted
from leyden.lab.sweeps.comparisons import METRICS, PARAMETERS
from leyden.lab.sweeps.identity import Identity
from leyden.lab.sweeps.intervals import checked_confidence, count_for_width, interval
from leyden.lab.sweeps.runs import COLUMNS, OK, Scenario, SweepRow, SweepRun, as_json, function_key, run_key, seed_for
from leyden.lab.sweeps.store import SweepStore
from leyden.server.printable import quoted
from leyden.server.version import VERSION

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pandas as pd

log = logging.getLogger("leyden")
MAX_REPLICATIONS = 1_000_000


def grid(**params: Iterable[Any]) -> list[Scenario]:
    """All combinations of the values, the last parameter varying fastest: `grid(amount=[10**6, 10**7])`.

    Raises `SweepError` for a parameter without values, or with the name of a column of the sweep.
    """
    scenarios = [Scenario()]
    for name, values in params.items():
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise SweepError(f"{name}={quoted(values)} is one value: write {name}=[{quoted(values)}]")
        listed = list(checked_list(name, values))
        if not listed:
            raise SweepError(f"{name} has no values, so there is no scenario: give at least one")
        scenarios = [Scenario(**vars(scenario), **{name: value}) for scenario in scenarios for value in listed]
    _check_names(params)
    return scenarios


@with_hints
def sweep(
    fn: Callable[[Scenario], Mapping[str, Any]],
    scenarios: Iterable[Scenario | Mapping[str, Any]],
    replications: int = 1,
    executor: Executor | None = None,
    store: str | Path | None = None,
    progress: bool | None = None,
    seed: int = 0,
    *,
    workers: int | None = None,
    version: str = "",
    width: Mapping[str, float] | None = None,
    at_most: int = 1_000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Call `fn(scenario)` for every scenario and replication, and return one row per run, scenario by scenario.

    `fn` creates its sandbox with `scenario.seed` and returns a dict of metrics. It may be defined in a notebook. A run
    that raises is a row with `status` "failed" and its `error`, and the first one is logged; else `status` is "ok".

    **Common random numbers.** `scenario.seed` depends on `seed` and the replication only: replication 3 has the same
    random numbers in every scenario. Scenarios then differ by their parameters alone, and a difference shows with fewer
    replications. Compare them pairwise, replication by replication.

    Runs go to `executor` (any `concurrent.futures.Executor`; `client.get_executor()` for a Dask cluster). Without one,
    the first run is done in this process; if the rest would take long, a pool of `workers` processes does it, one per
    core by default. `workers=1` does all runs in this process. The rows are the same everywhere except `real_time_s`.

    `store` names a file that gets each row at once, as a line of JSON. A sweep with an existing file continues: runs
    are read from it, unless they failed, if the parameters, the seed, `version` and all that `fn` reaches are equal:
    its code, your helpers, classes and modules, the values of globals, closures and defaults, and the versions of
    Python, of Leyden and of the packages that it uses. Files and environment variables that `fn` reads, and what it
    finds by a computed name, are not seen: give another `version` when they change. A value that has no fixed form,
    such as a sandbox or an open file, raises `SweepError`, unless `version` stands for it.

    `width` continues until the means are known well enough: `width={"conversion": 0.02}` adds replications, the same
    number to every scenario, until the confidence interval of each scenario's mean (Student's, at `confidence`) is at
    most this wide from end to end, or there are `at_most` replications. It begins with `replications`, at least two;
    with ten or more it is unlikely that a spread which is small at random ends the sweep too early. `leyden.estimates`
    shows the intervals and `leyden.compare` the differences from a baseline.

    `progress` shows a bar; None shows it at a terminal and in a notebook, as `leyden.lab.progress` does.

    Columns: `run_id, scenario, replication, seed`, the parameters, the metrics, `status, error, real_time_s, version,
    leyden_version`; `version` is the argument.
    Raises `SweepError` when there is nothing to run or a name is taken. Needs the extra `lab`.
    """
    for package in ("pandas", "loky", "tqdm"):
        require("sweep()", package, "lab")
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise SweepError(f"executor={quoted(executor, 60)} takes no runs: give a concurrent.futures.Executor, or None")
    path = None if store is None else checked_path("store", store)
    if progress is not None:
        checked_flag("progress", progress)
    seed = whole_number("seed", seed)
    confidence = checked_confidence(confidence)
    wanted = _checked_width(width, at_most, replications)
    listed = _listed(scenarios)
    runs = _runs(fn, listed, replications, seed, version)
    if path is not None and not version:
        _check_identity(fn, runs)
    file = SweepStore(path) if path is not None else None
    rows: dict[str, SweepRow] = {}
    with file if file is not None else nullcontext(), _ProgressBar(progress) as bar:

        def on_row(number: int, row: SweepRow) -> None:
            rows[runs[number].run_id] = row
            if file is not None:
                file.add(row)
            bar.advance()
            for name in wanted:
                if row["metrics"] and name not in row["metrics"]:  # at the first run, and not after all of them
                    raise _not_returned(name, row["metrics"])

        from leyden.lab.sweeps.pools import perform_runs

        while True:
            for run in runs:
                if file is not None and run.run_id not in rows and (row := file.row_of(run)) is not None:
                    rows[run.run_id] = row
            bar.expect(len(runs), len(rows))
            perform_runs(
                fn,
                [(number, run) for number, run in enumerate(runs) if run.run_id not in rows],
                executor,
                workers,
                on_row,
            )
            more = _more_replications([rows[run.run_id] for run in runs], wanted, confidence, at_most)
            if more is None:
                break
            runs = _runs(fn, listed, more, seed, version)
    ordered = [rows[run.run_id] for run in runs]
    failed = [row for row in ordered if row["status"] != OK]
    if failed:
        log.warning("%s of %s runs failed, the first with %s", len(failed), len(runs), failed[0]["error"])
    return frame(ordered, [list(run.params) for run in runs])


def _checked_width(width: Mapping[str, float] | None, at_most: int, replications: int) -> Mapping[str, float]:
    """The wanted width of the interval of each metric."""
    if width is None:
        return {}
    if not isinstance(width, Mapping) or not width:
        raise SweepError(
            f'width={quoted(width, 60)}: write for example width={{"conversion": 0.02}}, for a metric of the sweep'
        )
    for name, value in width.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise SweepError(f"width: {name}={quoted(value)}: give a number above 0, in the unit of the metric")
    if type(replications) is int and replications < 2:
        raise SweepError("replications=1 has no interval: give at least 2 with width, better 10")
    if type(at_most) is not int or (type(replications) is int and at_most < replications):
        raise SweepError(f"at_most={quoted(at_most)}: give a whole number that is not below replications")
    if at_most > MAX_REPLICATIONS:
        raise SweepError(f"at_most={shortened(at_most)}: give at most {MAX_REPLICATIONS}")
    return width


def _not_returned(name: str, known: Iterable[str]) -> SweepError:
    return SweepError(f"width: the function returned no number {quoted(name)}: it returned {', '.join(sorted(known))}")


def _more_replications(
    rows: list[SweepRow], wanted: Mapping[str, float], confidence: float, at_most: int
) -> int | None:
    """The number of replications of the next round; None when every interval is narrow enough or `at_most` is
    reached."""
    made = 1 + max(row["replication"] for row in rows)
    ok = [row for row in rows if row["status"] == OK]
    needed = made
    for name, width in wanted.items():
        values: dict[int, list[float]] = {row["scenario"]: [] for row in ok}
        for row in ok:
            value = row["metrics"].get(name)
            if isinstance(value, (int, float)):
                values[row["scenario"]].append(float(value))
        if ok and not any(values.values()):
            raise _not_returned(name, {metric for row in ok for metric in row["metrics"]})
        for got in values.values():
            found = interval(got, confidence)
            if found.width > width:
                needed = max(needed, count_for_width(found.std, width, confidence) or at_most, made + 1)
    return None if needed == made or made >= at_most else min(needed, 2 * made, at_most)


def frame(rows: list[SweepRow], parameters: list[list[str]]) -> pd.DataFrame:
    """The rows as a DataFrame: whole numbers stay integers when some are missing."""
    import pandas as pd

    named = list(dict.fromkeys(name for names in parameters for name in names))
    metrics = list(dict.fromkeys(name for row in rows for name in row["metrics"]))
    plain: Sequence[Mapping[str, Any]] = rows
    columns: dict[str, Any] = {name: [row[name] for row in plain] for name in COLUMNS[:4]}
    columns |= {name: [row["params"].get(name) for row in rows] for name in named}
    columns |= {name: [row["metrics"].get(name) for row in rows] for name in metrics}
    columns |= {name: [row[name] for row in plain] for name in COLUMNS[4:]}
    kinds = {name: "str" if name == "error" else _kind(values) for name, values in columns.items()}
    found = pd.DataFrame({name: pd.Series(values, dtype=kinds[name]) for name, values in columns.items()})
    found.attrs.update({PARAMETERS: named, METRICS: metrics})
    return found


def _kind(values: list[Any]) -> str:
    present = [value for value in values if value is not None]
    kinds = {type(value) for value in present}
    if kinds == {bool}:
        return "bool" if len(present) == len(values) else "boolean"
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in present):
        return "int64" if len(present) == len(values) else "Int64"
    if kinds and kinds <= {int, float}:
        return "float64"
    if kinds == {str}:
        return "str"
    return "object" if kinds else "float64"


def _listed(scenarios: Iterable[Scenario | Mapping[str, Any]]) -> list[Scenario | Mapping[str, Any]]:
    if isinstance(scenarios, (str, Mapping)) or not isinstance(scenarios, Iterable):
        raise SweepError(f"scenarios={quoted(scenarios, 60)} is no list: write for example grid(expiresIn=[60, 300])")
    return list(checked_list("scenarios", scenarios))


def _runs(
    fn: Callable[..., Any],
    scenarios: Sequence[Scenario | Mapping[str, Any]],
    replications: int,
    seed: int,
    version: str,
) -> list[SweepRun]:
    if type(replications) is not int or not 1 <= replications <= MAX_REPLICATIONS:
        shown = shortened(replications) if type(replications) is int else quoted(replications)
        raise SweepError(f"replications={shown}: give a whole number from 1 to {MAX_REPLICATIONS}")
    if not callable(fn):
        raise SweepError(
            f"{quoted(fn)} cannot be called: give a function of one scenario that returns a dict of metrics"
        )
    text = function_key(fn)
    checked_text("version", version)
    runs = []
    for number, scenario in enumerate(scenarios):
        if not isinstance(scenario, Mapping) and not hasattr(scenario, "__dict__"):
            raise SweepError(
                f"{quoted(scenario, 60)} is no scenario: give mappings, or write grid(expiresIn=[60, 300])"
            )
        params = dict(scenario) if isinstance(scenario, Mapping) else dict(vars(scenario))
        _check_names(params)
        kept = {name: as_json(value) for name, value in params.items()}
        for replication in range(replications):
            its_seed = seed_for(seed, replication)
            run_id = run_key(text, params, its_seed, f"{VERSION} {version}")
            runs.append(SweepRun(run_id, number, replication, its_seed, params, kept, version))
    if not runs:
        raise SweepError("there is no scenario to run: write for example grid(expiresIn=[60, 300])")
    return _with_unique_ids(runs)


def _check_identity(fn: Callable[..., Any], runs: list[SweepRun]) -> None:
    """Raise `SweepError` when the rows of a store could not be told from those of another function."""
    parameters = [Identity(value, name) for run in runs for name, value in run.params.items()]
    for identity in (Identity(fn), *parameters):
        if identity.unknown:
            raise SweepError(
                f"the rows in the store cannot be identified: {identity.unknown[0]} has no fixed form. Create "
                'it within the function, or write sweep(..., version="1") and another version when it changes'
            )


def _with_unique_ids(runs: list[SweepRun]) -> list[SweepRun]:
    """The runs with unique ids: a scenario that is given twice runs twice, as two rows."""
    seen: dict[str, int] = {}
    unique = []
    for run in runs:
        count = seen[run.run_id] = seen.get(run.run_id, 0) + 1
        unique.append(run if count == 1 else run._replace(run_id=f"{run.run_id}-{count}"))
    return unique


def _check_names(params: Iterable[str]) -> None:
    taken = sorted(set(params) & {*COLUMNS, "params", "metrics"})
    if taken:
        raise SweepError(
            f"{taken[0]} is a column of every sweep: rename the parameter"
            + (", and choose other random numbers with sweep(..., seed=...)" if taken[0] == "seed" else "")
        )


class _ProgressBar:
    """A progress bar of runs, or nothing."""

    def __init__(self, wanted: bool | None) -> None:
        self._wanted = is_wanted() if wanted is None else wanted
        self._shown: Any = None

    def __enter__(self) -> _ProgressBar:
        return self

    def expect(self, total: int, done: int) -> None:
        """Set the number of all runs, and the number of those that are finished."""
        if self._shown is not None:
            self._shown.total = total
            self._shown.refresh()
        elif self._wanted:
            self._shown = bar("", "run", total, done, leave=True)

    def advance(self) -> None:
        """One more run is made."""
        if self._shown is not None:
            self._shown.update()

    def __exit__(self, *raised: object) -> None:
        if self._shown is not None:
            self._shown.close()
