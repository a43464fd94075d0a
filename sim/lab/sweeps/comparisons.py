"""Results of a sweep: the means of its scenarios, and their differences from a baseline, with confidence intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

from leyden.arguments import checked_list, hint, with_hints
from leyden.errors import ArgumentError, SweepError
from leyden.extras import require
from leyden.lab.kpi import SHARES
from leyden.lab.sweeps.intervals import checked_confidence, count_for_width, interval, within
from leyden.lab.sweeps.runs import OK
from leyden.server.printable import quoted

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = {
    "scenario", "metric", "mean", "baseline", "difference", "low", "high", "std", "replications", "needed"
}  # fmt: skip
PARAMETERS, METRICS = "leyden_parameters", "leyden_metrics"  # names in the `attrs` of the DataFrame of a sweep


@with_hints
def estimates(
    runs: pd.DataFrame,
    metrics: Iterable[str] | None = None,
    *,
    confidence: float = 0.95,
    shares: Iterable[str] = (),
) -> pd.DataFrame:
    """The mean of each metric in each scenario of a sweep, with its confidence interval over the replications.

    A row per scenario and metric: `scenario`, the parameters, `metric`, `mean`, `low`, `high`, `std`, `replications`,
    in the unit of the metric. The interval is Student's. It assumes that the replications are independent, which is
    true in a sweep, and that their means are approximately normal. Equal values have an interval without a width: that
    of a share of 1 does not say that another value is impossible. Failed runs and missing values are left out; with
    fewer than two values `low` and `high` are missing. `metrics` are all columns of numbers that the function of the
    sweep returned.

    The interval of a share ends at 0 and 1. Shares are metrics of truth values, those of `sb.kpi` that are shares
    (`conversion`, `paid_share`, `delivered_share`), and those that `shares` names. That of another metric is
    symmetric: with few replications that differ much, `low` of a fee or a time can be below 0.

    Raises `SweepError` if `runs` is not a DataFrame of a sweep or does not have a metric, and `ValueError` for a
    confidence level that is not between 0 and 1. Needs the extra `lab`.
    """
    confidence = checked_confidence(confidence)
    names, parameters = _checked(runs, metrics)
    of_shares = _shares(runs, names, shares)
    rows = []
    for scenario, found in runs.groupby("scenario", sort=True):
        for name in names:
            got = interval(list(_values(found, name).values()), confidence)
            got = within(got, 0.0, 1.0) if name in of_shares else got
            rows.append({**_of_scenario(scenario, found, parameters), "metric": name, **_shown(got)})
    return _frame(rows)


@with_hints
def compare(
    runs: pd.DataFrame,
    baseline: int | Mapping[str, Any] = 0,
    metrics: Iterable[str] | None = None,
    *,
    confidence: float = 0.95,
    width: float | None = None,
    shares: Iterable[str] = (),
) -> pd.DataFrame:
    """The difference of each scenario of a sweep from a baseline scenario, pair by pair of replications.

    `baseline` is the number of a scenario, or parameters that only one scenario has: `{"expiresIn": 60}`. A row per
    other scenario and metric: `scenario`, the parameters, `metric`, `baseline` (its mean), `difference` (mean of
    scenario minus baseline), `low`, `high`, `std` (of the differences), `replications` (pairs).

    Replication 3 has the same random numbers in every scenario, so a pair differs by the parameters alone and the
    interval of the differences is narrower than that of two independent means. It is Student's interval of the
    differences. An interval that does not contain 0 shows a difference. The confidence level holds for each row alone:
    among twenty comparisons without a true difference, at 0.95, one is expected to show one. Pairs with a failed run or
    a missing value are left out. The interval of a difference of shares (see `estimates`) ends at -1 and 1.

    With a `width`, in the unit of the metric, `needed` estimates from the present spread how many replications make the
    interval as narrow as that, from `low` to `high`.

    Raises `SweepError` if `runs` is not a DataFrame of a sweep or does not have a metric or the baseline, and
    `ValueError` for a confidence level that is not between 0 and 1 or a width that is not above 0. Needs the extra
    `lab`.
    """
    confidence = checked_confidence(confidence)
    if width is not None and not (isinstance(width, (int, float)) and width > 0):
        raise ArgumentError(
            f"width={quoted(width)}: give the wanted width of the interval, above 0, in the unit of the metric"
        )
    names, parameters = _checked(runs, metrics)
    of_shares = _shares(runs, names, shares)
    number = _baseline(runs, baseline, parameters)
    base = runs[runs["scenario"] == number]
    rows = []
    for scenario, found in runs.groupby("scenario", sort=True):
        if scenario == number:
            continue
        for name in names:
            ours, theirs = _values(found, name), _values(base, name)
            pairs = [replication for replication in ours if replication in theirs]
            got = interval([ours[one] - theirs[one] for one in pairs], confidence)
            got = within(got, -1.0, 1.0) if name in of_shares else got
            row = {**_of_scenario(scenario, found, parameters), "metric": name}
            row["baseline"] = interval([theirs[one] for one in pairs], confidence).mean
            row |= {"difference" if key == "mean" else key: value for key, value in _shown(got).items()}
            if width is not None:
                row["needed"] = count_for_width(got.std, width, confidence)
            rows.append(row)
    frame = _frame(rows)
    return frame.astype({"needed": "Int64"}) if "needed" in frame else frame


def _checked(runs: pd.DataFrame, metrics: Iterable[str] | None) -> tuple[list[str], list[str]]:
    """The names of the metrics and of the parameters."""
    require("compare() and estimates()", "scipy", "lab")
    columns = getattr(runs, "columns", ())
    missing = next((name for name in ("scenario", "replication", "status") if name not in columns), None)
    if missing is not None:
        raise SweepError(f"runs is no DataFrame of a sweep, it has no column {missing}: give what sweep() returned")
    parameters = [name for name in runs.attrs.get(PARAMETERS, ()) if name in columns]
    taken = next((name for name in parameters if name in _COLUMNS), None)
    if taken is not None:
        raise SweepError(f"the parameter {taken} has the name of a column of the result: rename it and sweep again")
    returned = [name for name in runs.attrs.get(METRICS, ()) if name in columns]
    if metrics is None:
        names = [name for name in returned if runs[name].dtype.kind in "biuf"]
        if not names:
            raise SweepError("the DataFrame names no metric that is a number: give metrics=[...], names of its columns")
        return names, parameters
    if isinstance(metrics, str) or not isinstance(metrics, Iterable):
        raise SweepError(
            f"metrics={quoted(metrics, 60)}: give a list of names, for example metrics=[{quoted(metrics, 60)}]"
        )
    names = list(checked_list("metrics", metrics))
    for name in names:
        if not isinstance(name, str) or name not in columns:
            known = ", ".join(returned or map(str, columns))
            raise SweepError(f"the sweep has no metric {quoted(name)}: it has {known}")
        if runs[name].dtype.kind not in "biuf":
            raise SweepError(f"the metric {name} is no number in every run: its values are {runs[name].dtype}")
    return names, parameters


def _shares(runs: pd.DataFrame, names: list[str], given: Iterable[str]) -> set[str]:
    """Those of the metrics that are shares. One with the name of a share of `sb.kpi` and other values, such as per
    cent, is none. Raises `SweepError` for one that is given and has other values."""
    listed, found = checked_list("shares", given), set()
    for name in listed:
        if not isinstance(name, str) or name not in names:
            raise SweepError(f"shares: {quoted(name, 60)} is no metric here: {hint(name, names)}")
    for name in names:
        values = runs[name].dropna()
        if not (name in listed or name in SHARES or runs[name].dtype.kind == "b"):
            continue
        if ((values >= 0) & (values <= 1)).all():
            found.add(name)
        elif name in listed:
            raise SweepError(f"shares: {name} has values outside of 0 to 1: leave it out")
    return found


def _baseline(runs: pd.DataFrame, baseline: int | Mapping[str, Any], parameters: list[str]) -> int:
    """The number of the baseline scenario."""
    if isinstance(baseline, Mapping):
        unknown = next((name for name in baseline if name not in (parameters or runs.columns)), None)
        if unknown is not None:
            raise SweepError(f"baseline: the sweep has no parameter {quoted(unknown)}: it has {', '.join(parameters)}")
        wanted = [
            number
            for number, found in runs.groupby("scenario", sort=True)
            if all(_is_equal(found[name].iloc[0], value) for name, value in baseline.items())
        ]
    else:
        wanted = [number for number in runs["scenario"].unique() if _is_equal(number, baseline)]
    if len(wanted) != 1:
        raise SweepError(
            f"baseline={quoted(baseline)} is that of {len(wanted) or 'no'} scenario{'s' * bool(wanted)}: give the"
            " number of one, or parameters that only one has"
        )
    return int(wanted[0])


def _is_equal(ours: Any, given: Any) -> bool:
    """Whether two values are equal. A comparison with a value of another library may have no truth value."""
    same = ours == given
    return same is True or (getattr(same, "ndim", None) == 0 and bool(same))


def _values(found: pd.DataFrame, metric: str) -> dict[int, float]:
    """The values of the runs that succeeded, by replication."""
    present = found[(found["status"] == OK) & found[metric].notna()]
    pairs = zip(present["replication"].tolist(), map(float, present[metric]), strict=True)
    return {replication: value for replication, value in pairs if isfinite(value)}


def _of_scenario(scenario: Any, found: pd.DataFrame, parameters: list[str]) -> dict[str, Any]:
    return {"scenario": scenario, **{name: found[name].iloc[0] for name in parameters}}


def _shown(got: Any) -> dict[str, Any]:
    return {"mean": got.mean, "low": got.low, "high": got.high, "std": got.std, "replications": got.size}


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows)
