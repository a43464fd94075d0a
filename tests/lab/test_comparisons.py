"""Means and differences of sweeps: their intervals are those of scipy, and contain the truth as often as they say."""

from __future__ import annotations

import random
from importlib import import_module
from math import isnan, sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pandas as pd
import pytest

from leyden import Sandbox, compare, estimates, grid, plot_sweep, sweep
from leyden.errors import SweepError
from leyden.lab.sweeps.intervals import count_for_width, interval


@pytest.fixture(scope="module")
def stats() -> Any:
    """Imported for who needs it: every worker collects this file, and few run it."""
    return import_module("scipy.stats")


def noisy(s: Any) -> dict[str, Any]:
    """A metric with a common part and a part of its own, one that is missing at times, and a text."""
    common, own = random.Random(s.seed), random.Random(f"{s.seed} {s.x}")
    return {
        "level": 10 * s.x + common.gauss(0, 5) + own.gauss(0, 1),
        "rare": None if common.random() < 0.3 else own.random(),
        "even": s.replication % 2 == 0,
        "name": f"x{s.x}",
    }


def fails_at_two(s: Any) -> dict[str, Any]:
    if s.x == 1 and s.replication == 2:
        raise ValueError("no")
    return noisy(s)


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    return sweep(noisy, grid(x=[0, 1, 3]), replications=12, workers=1, progress=False)


def column(runs: pd.DataFrame, x: int, metric: str = "level") -> list[float]:
    return [float(value) for value in runs[runs["x"] == x][metric]]


def test_estimates_have_a_row_for_each_scenario_and_metric_with_the_interval_of_scipy(
    runs: pd.DataFrame, stats: Any
) -> None:
    found = estimates(runs)
    assert [*found.columns] == ["scenario", "x", "metric", "mean", "low", "high", "std", "replications"]
    assert [*zip(found["x"], found["metric"], strict=True)] == [
        (x, name) for x in (0, 1, 3) for name in ("level", "rare", "even")
    ]
    for confidence in (0.5, 0.95, 0.999):
        shown = estimates(runs, ["level"], confidence=confidence).set_index("x")
        for x in (0, 1, 3):
            values = column(runs, x)
            low, high = stats.t.interval(confidence, len(values) - 1, fmean(values), stats.sem(values))
            assert shown.loc[x, ["mean", "low", "high", "std"]].tolist() == pytest.approx(
                [fmean(values), low, high, stdev(values)]
            )
    rare = found[found["metric"] == "rare"].set_index("x")["replications"]
    assert rare.to_dict() == {x: runs[runs["x"] == x]["rare"].notna().sum() for x in (0, 1, 3)}
    assert 0 < rare[0] < 12


def test_a_comparison_is_the_paired_one_of_scipy(runs: pd.DataFrame, stats: Any) -> None:
    found = compare(runs, metrics=["level"])
    assert [*found["x"]] == [1, 3]
    for row in found.to_dict("records"):
        ours, theirs = column(runs, row["x"]), column(runs, 0)
        paired = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
        assert [row["low"], row["high"]] == pytest.approx([*paired])
        assert row["baseline"] == pytest.approx(fmean(theirs))
        assert row["difference"] == pytest.approx(fmean(ours) - fmean(theirs))
        assert row["low"] < 10 * row["x"] < row["high"]
        independent = sqrt(stdev(ours) ** 2 + stdev(theirs) ** 2)
        assert row["std"] < independent / 2  # the random numbers are common


@pytest.mark.parametrize("baseline", [1, {"x": 1}])
def test_the_baseline_is_a_number_or_parameters(runs: pd.DataFrame, baseline: Any) -> None:
    found = compare(runs, baseline, ["level", "even"])
    assert [*zip(found["x"], found["metric"], strict=True)] == [
        (0, "level"), (0, "even"), (3, "level"), (3, "even")
    ]  # fmt: skip
    assert found["difference"].iloc[0] < 0 < found["difference"].iloc[2]
    assert found[found["metric"] == "even"]["difference"].tolist() == [0, 0]


def test_a_failed_run_takes_its_pair_out(runs: pd.DataFrame) -> None:
    failed = sweep(fails_at_two, grid(x=[0, 1, 3]), replications=12, workers=1, progress=False)
    assert compare(failed, metrics=["level"])["replications"].tolist() == [11, 12]
    assert compare(failed, 1, ["level"])["replications"].tolist() == [11, 11]
    assert estimates(failed, ["level"])["replications"].tolist() == [12, 11, 12]


def test_one_replication_has_a_mean_and_no_interval() -> None:
    one = sweep(noisy, grid(x=[0, 1]), workers=1, progress=False)
    for found in (estimates(one, ["level"]), compare(one, metrics=["level"], width=1)):
        assert found["low"].isna().all()
        assert found["replications"].eq(1).all()
    assert compare(one, metrics=["level"], width=1)["needed"].isna().all()


def test_the_needed_number_gives_the_wanted_width(runs: pd.DataFrame, stats: Any) -> None:
    for width in (0.1, 1, 50):
        for row in compare(runs, metrics=["level"], width=width).to_dict("records"):

            def width_of(count: int, std: float = row["std"]) -> float:
                return float(2 * stats.t.ppf(0.975, count - 1) * std / sqrt(count))

            assert width_of(row["needed"]) <= width
            assert row["needed"] == 2 or width_of(row["needed"] - 1) > width
    assert count_for_width(0.0, 1e-9, 0.95) == 2
    assert count_for_width(1.0, 1e-9, 0.95) is None
    assert count_for_width(float("nan"), 1, 0.95) is None


def test_an_interval_contains_the_mean_as_often_as_it_says() -> None:
    draw = random.Random(7)
    for confidence in (0.5, 0.9):
        hits = 0
        for _ in range(2_000):
            found = interval([draw.gauss(3, 2) for _ in range(6)], confidence)
            hits += found.low <= 3 <= found.high
        assert abs(hits / 2_000 - confidence) < 0.04
    assert isnan(interval([], 0.9).mean)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda runs: compare(runs, 7), "baseline=7 is that of no scenario:"),
        (lambda runs: compare(runs, {}), r"baseline=\{\} is that of 3 scenarios"),
        (lambda runs: compare(runs, {"y": 1}), "no parameter 'y': it has x"),
        (lambda runs: compare(runs, metrics=["levle"]), "no metric 'levle': it has level, rare, even, name"),
        (lambda runs: estimates(runs, "level"), r"give a list of names, for example metrics=\['level'\]"),
        (lambda runs: estimates(runs, ["name"]), "the metric name is no number"),
        (lambda runs: estimates(runs.drop(columns="status")), "no column status: give what sweep"),
        (lambda runs: estimates([1, 2]), "no column scenario"),
        (lambda runs: estimates(pd.DataFrame(runs.to_dict("list"))), r"give metrics=\[\.\.\.\]"),
    ],
)
def test_what_is_not_there_is_named(runs: pd.DataFrame, call: Any, words: str) -> None:
    with pytest.raises(SweepError, match=words):
        call(runs)


def fractions(s: Any) -> dict[str, Any]:
    """Shares at both ends, by their names, by their type and unnamed, and a duration."""
    high = 1.0 if s.x or s.replication else 0.7
    return {
        "conversion": high,
        "paid_share": 1 - high,
        "delivered_share": 100 * high,
        "late": s.replication == 0,
        "sold_out": high,
        "settle_p50_s": high,
    }


def test_the_interval_of_a_share_is_within_0_and_1() -> None:
    runs = sweep(fractions, grid(x=[0, 1]), replications=3, workers=1, progress=False)
    found = estimates(runs, shares=["sold_out"]).set_index(["x", "metric"])
    student = estimates(runs).set_index(["x", "metric"]).loc[0]
    for metric in ("conversion", "paid_share", "late", "sold_out"):
        low, high, mean = found.loc[(0, metric), ["low", "high", "mean"]]
        assert 0 <= low < mean < high <= 1
    assert student.loc["sold_out", "high"] > 1
    assert student.loc["settle_p50_s", "high"] > 1  # a duration may be longer
    assert found.loc[(0, "delivered_share"), "high"] > 100  # per cent
    assert found.loc[(0, "conversion"), "low"] == student.loc["sold_out", "low"]
    differences = compare(runs, shares=["sold_out"]).set_index("metric")
    assert differences.loc["conversion", "high"] == differences.loc["sold_out", "high"] <= 1
    [line] = plot_sweep(runs, "conversion", x="x").axes[0].containers
    [[bars]] = [line.lines[2]]
    assert max(y for segment in bars.get_segments() for _, y in segment) <= 1


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        (["sold"], "shares: 'sold' is no metric here: did you mean 'sold_out'"),
        (["xyz"], "shares: 'xyz' is no metric here: choose one of"),
        ("conversion", "write shares="),
        (["delivered_share"], "shares: delivered_share has values outside of 0 to 1"),
    ],
)
def test_a_wrong_share_is_named(shares: Any, words: str) -> None:
    runs = sweep(fractions, grid(x=[0, 1]), replications=2, workers=1, progress=False)
    for call in (estimates, compare):
        with pytest.raises(ValueError, match=words):
            call(runs, shares=shares)


@pytest.mark.parametrize("wrong", [0, 1, 95, "0.9", True, float("nan")])
def test_a_confidence_level_is_between_0_and_1(runs: pd.DataFrame, wrong: Any) -> None:
    for call in (compare, estimates):
        with pytest.raises(ValueError, match=r"confidence=.*between 0 and 1, such as 0\.95"):
            call(runs, confidence=wrong)
    with pytest.raises(ValueError, match=r"width=.*above 0"):
        compare(runs, width=-1)


def test_a_parameter_with_the_name_of_a_column_is_refused() -> None:
    runs = sweep(lambda s: {"level": 1}, grid(low=[1, 2]), workers=1, progress=False)
    with pytest.raises(SweepError, match="the parameter low has the name of a column"):
        estimates(runs)


# Until the intervals are narrow enough


def test_replications_are_added_until_every_interval_is_narrow_enough() -> None:
    runs = sweep(noisy, grid(x=[0, 1]), 5, workers=1, progress=False, width={"level": 3})
    found = estimates(runs, ["level"])
    assert (found["high"] - found["low"]).max() <= 3
    [count] = set(found["replications"])
    assert 5 < count < 200
    plain = sweep(noisy, grid(x=[0, 1]), int(count), workers=1, progress=False)
    pd.testing.assert_frame_equal(runs.drop(columns="real_time_s"), plain.drop(columns="real_time_s"))


def test_no_replication_is_added_to_intervals_that_are_narrow_or_beyond_the_bound(tmp_path: Path) -> None:
    enough = sweep(noisy, grid(x=[0, 1]), 5, workers=1, progress=False, width={"level": 1e6, "even": 2})
    assert len(enough) == 10
    bounded = sweep(noisy, grid(x=[0, 1]), 5, workers=1, progress=False, width={"level": 1e-6}, at_most=9)
    assert len(bounded) == 18
    store = tmp_path / "runs.jsonl"
    for _ in range(2):  # the second time from the file
        stored = sweep(noisy, grid(x=[0]), 5, workers=1, progress=False, width={"level": 3}, store=store)
    assert len(stored) == len(store.read_text().splitlines())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"width": {"levle": 1}}, "returned no number 'levle': it returned even, level, name, rare"),
        ({"width": {"name": 1}}, "returned no number 'name'"),
        ({"width": {"level": 0}}, "level=0: give a number above 0"),
        ({"width": 0.02}, r'write for example width=\{"conversion": 0\.02\}'),
        ({"width": {"level": 1}, "replications": 1}, "replications=1 has no interval"),
        ({"width": {"level": 1}, "at_most": 2}, "at_most=2: give a whole number that is not below replications"),
    ],
)
def test_a_wrong_width_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SweepError, match=words):
        sweep(noisy, grid(x=[0]), **{"replications": 3, "workers": 1, "progress": False, **options})


def test_a_metric_that_the_function_does_not_return_is_named_after_the_first_run() -> None:
    performed: list[int] = []

    def counted(s: Any) -> dict[str, Any]:
        performed.append(s.replication)
        return noisy(s)

    with pytest.raises(SweepError, match="returned no number 'levle'"):
        sweep(counted, grid(x=[0, 1]), 5, workers=1, progress=False, width={"levle": 1})
    assert len(performed) == 1


def test_what_a_longer_expiry_changes() -> None:
    """As an analyst compares: the same customers with another expiry."""

    def shop(s: Any) -> dict[str, Any]:
        with Sandbox(seed=s.seed) as sandbox:
            sandbox.traffic("30/min", patience="lognorm(45s)", expiresIn=s.expires_s, count=20)
            sandbox.run()
            return {"conversion": sandbox.kpi.conversion}

    runs = sweep(shop, grid(expires_s=[5, 300]), 6, workers=1, progress=False)
    [row] = compare(runs, {"expires_s": 5}).to_dict("records")
    assert row["expires_s"] == 300
    assert 0 < row["low"] < row["difference"] < row["high"]
