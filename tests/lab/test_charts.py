"""Charts: what their artists hold is what pandas computes from the tables, and each chart can be drawn."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure

from leyden import Sandbox, estimates, grid, plot_sweep, sweep
from leyden.errors import SweepError
from leyden.lab.charts.figures import short
from leyden.lab.sweeps.intervals import share_interval
from leyden.server.timestamps import to_iso
from tests.support.deep import deep, sampled

CHARTS = ["conversion", "settle_times", "liquidity", "retries", "success_by_amount"]
STATELESS = """
import sys
from leyden import Sandbox

sb = Sandbox(seed=1)
sb.charges.create(amount="1000", description="tea")
sb.run()
assert "matplotlib" not in sys.modules
for name in ("conversion", "settle_times", "retries", "success_by_amount"):
    getattr(sb.plot, name)()._repr_png_()
assert "matplotlib.pyplot" not in sys.modules
import matplotlib

assert matplotlib.rcParams._get_backend_or_none() is None
"""
URL = "http://shop.localhost/paid"


@pytest.fixture(scope="module")
def stats() -> Any:
    """Imported for who needs it: every worker collects this file, and few run it."""
    return import_module("scipy.stats")


@pytest.fixture(scope="module")
def sb() -> Sandbox:
    sb = Sandbox(seed=3, start="2030-01-01T09:20Z", network="hub:30")
    sb.receiver("shop").answers([500, "timeout", 200, 200, 404, 200] * 20)
    sb.traffic("4/min", amount="lognorm(3_000_000, 2.5)", patience="3m", payers=40, duration="40m", callbackUrl=URL)
    sb.run("3h")
    return sb


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    def metrics(s: Any) -> dict[str, float]:
        return {"paid": s.seed % 97 / 97 + s.expiresIn / 100, "cost": s.seed % 7}

    scenarios = grid(expiresIn=[60, 10, 300], group=["slow", "fast"], shape=["a", "b", "c", "d"])
    return sweep(metrics, scenarios, 4, workers=1, progress=False)


def times(ax: Axes, line: int = 0) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(ax.lines[line].get_xdata(orig=True)).tz_localize("UTC")


def test_conversion_has_a_step_for_each_window(sb: Sandbox) -> None:
    ax = sb.plot.conversion("20m")
    charges = sb.charges.table
    windows = charges.groupby(charges["created_at"].dt.floor("20min"))["status"].agg(
        lambda each: (each == "completed").mean()
    )
    assert list(times(ax)) == [*windows.index, windows.index[-1] + pd.Timedelta("20min")]
    assert ax.lines[0].get_ydata() == pytest.approx([*windows, windows.iloc[-1]])
    assert ax.lines[0].get_drawstyle() == "steps-post"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (UTC)", "charges paid\n(windows of 20m)")


def test_the_conversion_of_charges_that_are_pending_is_not_drawn() -> None:
    sb = Sandbox(start="2030-01-01T09:00Z")
    sb.charges.create(amount="1000", description="tea")
    sb.advance("5m")
    ax = sb.plot.conversion("1m")
    assert [text.get_text() for text in ax.texts] == ["no charge has ended"]
    assert ax.get_xlim()[0] > 20_000  # days since 1970


def test_settle_times_are_the_cumulative_distribution(sb: Sandbox) -> None:
    ax = sb.plot.settle_times()
    paid = sb.charges.table.dropna(subset="confirmed_at")
    seconds = (paid["confirmed_at"] - paid["created_at"]).dt.total_seconds()
    x, y = (np.asarray(each, dtype=float) for each in ax.lines[0].get_data())
    assert sorted(x[1:]) == pytest.approx(sorted(seconds))
    assert y[1:] == pytest.approx(np.arange(1, len(seconds) + 1) / len(seconds))
    [label] = ax.get_legend_handles_labels()[1]
    assert label == f"main\nmedian {seconds.median():.3g} s\n95 % in {seconds.quantile(0.95):.3g} s"
    assert ax.get_xlim()[0] == 0


def test_liquidity_is_what_the_channels_had_at_each_instant() -> None:
    sb = Sandbox(seed=3, start="2030-01-01T09:00Z", network="hub:30")
    sb.traffic("20/min", amount="lognorm(3_000_000, 2)", payers=40, duration="20m")
    shop = sb.network["shop"]
    acts = {
        2: lambda: shop.drain(inbound=0.3),
        4: lambda: sb.network["n3"].open_channel("shop", 900_000_000, local=500_000_000),
        5: lambda: shop.open_channel("n4", 800_000_000),
        6: lambda: shop.drain(outbound=0.5),
        7: lambda: shop.rebalance(5_000),
        8: lambda: sb.network.close_channel(shop.channels[0]["channel"]),
        10: lambda: sb.network["n3"].drain(inbound=0.2),
    }
    seen = {}
    for minute in range(12):
        acts.get(minute, lambda: None)()
        for _ in range(20):
            seen[sb.now] = (shop.inbound_msat / 1_000, shop.outbound_msat / 1_000)
            sb.run("3s")
    ax = sb.plot.liquidity()
    assert [line.get_label() for line in ax.lines] == ["inbound", "outbound"]
    for number, line in enumerate(ax.lines):
        drawn = pd.Series(np.asarray(line.get_ydata(), dtype=float), index=times(ax, number))
        at = drawn.loc[~drawn.index.duplicated(keep="last")].asof(pd.DatetimeIndex(list(seen)))
        assert list(at) == pytest.approx([amounts[number] for amounts in seen.values()])
    balances = sb.balances.query("shop and status != 'closed'")
    now = [balances["remote_sat"].sum(), balances["balance_sat"].sum()]
    assert [line.get_ydata()[-1] for line in ax.lines] == pytest.approx(now)  # type: ignore[index]
    assert len(set(ax.lines[0].get_ydata())) > 30  # type: ignore[arg-type]


def drawn_inbound(sandbox: Sandbox) -> list[tuple[str, float]]:
    [line, _] = sandbox.plot.liquidity().lines
    at = pd.DatetimeIndex(line.get_xdata(orig=True)).strftime("%H:%M")
    return list(dict(zip(at, map(float, np.asarray(line.get_ydata())), strict=True)).items())


@pytest.mark.parametrize(
    "act",
    [
        lambda sb: sb.network["shop"].drain(inbound=0.5),
        lambda sb: sb.network["n1"].open_channel("shop", 900_000_000),
        lambda sb: sb.network.close_channel(2),
    ],
    ids=["drain", "open", "close"],
)
def test_the_first_change_of_the_liquidity_is_at_its_instant_also_after_a_restart(act: Any, tmp_path: Any) -> None:
    with Sandbox(seed=1, network="line:4,ideal", data=tmp_path / "kept") as first:
        before = first.network["shop"].inbound_msat / 1_000
        first.advance("1h")
        act(first)
        after = first.network["shop"].inbound_msat / 1_000
        first.advance("1h")
        assert drawn_inbound(first) == [("00:00", before), ("01:00", after), ("02:00", after)]
    with Sandbox(data=tmp_path / "kept") as again:
        again.advance("1h")
        assert drawn_inbound(again) == [("02:00", after), ("03:00", after)]
        again.wallet("ana").pay(again.charges.create(amount="7000000", description="tea"), outcome="hold")
        again.advance("1m")
        paid = again.network["shop"].inbound_msat / 1_000
        again.network["shop"].drain(inbound=0.2)
        last = again.network["shop"].inbound_msat / 1_000
        again.advance("1h")
        drawn = dict(drawn_inbound(again))
        assert (drawn["02:00"], drawn["03:01"]) == (after, last)
        assert drawn.get("03:00", after) in (paid, after)


def test_liquidity_after_a_restart_ends_with_the_present_balances(tmp_path: Any) -> None:
    with Sandbox(seed=3, network="line:4", data=tmp_path / "kept") as first:
        first.network["shop"].drain(inbound=0.5)
        first.wallet("ana").pay(first.charges.create(amount="70000000", description="tea"))
        first.run("1m")
    with Sandbox(data=tmp_path / "kept") as again:
        again.run("1h")
        ax = again.plot.liquidity()
        assert ax.lines[0].get_ydata()[-1] == again.network["shop"].inbound_msat / 1_000  # type: ignore[index]


def noted_liquidity(sandbox: Sandbox) -> tuple[list[Any], str, str]:
    """The first inbound balance that the chart has, if it has any, with the sentences in it and above it."""
    ax = sandbox.plot.liquidity()
    first = [float(np.asarray(line.get_ydata())[0]) for line in ax.lines[:1]]
    return first, " ".join(text.get_text() for text in ax.texts), ax.get_title(loc="right")


def test_a_copy_of_a_reopened_directory_draws_no_balances_of_before(tmp_path: Any) -> None:
    with Sandbox(seed=1, network="star:5,ideal", data=tmp_path / "kept") as first:
        first.traffic("10/min", count=8, payers=3)
        first.run("1m")
        first.network["shop"].drain(inbound=0.5)
        first.network["n0"].open_channel("shop", 1_000_000_000)
        first.run()
        since, begins = to_iso(first.world.clock.now()), [first.network["shop"].inbound_msat / 1_000]
        of_before = first.fork("before")
    note = f"the balances before {since} are unknown:\nthe journal no longer has what happened before {since}"
    with Sandbox(data=tmp_path / "kept") as again:
        again.fork("z").save(tmp_path / "saved.json")
        copies = {"itself": again, "fork": again.fork("f"), "loaded": Sandbox.load(tmp_path / "saved.json")}
        copies["fork of a fork"] = copies["fork"].fork("g")
        copies["snapshot"] = Sandbox.from_snapshot(again.snapshot())
        for name, copy in copies.items():
            assert noted_liquidity(copy) == ([], note, ""), name
            copy.run("1h")
            copy.network["shop"].drain(inbound=0.25)
            copy.run("1h")
            shown, text, title = noted_liquidity(copy)
            assert (shown, text, title.removeprefix(f"{copy.label}: ")) == (begins, "", note), name
    whole, text, title = noted_liquidity(of_before)
    assert (whole != begins, text, title) == (True, "", "")


def test_a_journal_that_dropped_entries_draws_only_the_balances_since() -> None:
    """An entry is dropped when a bound is reached, although no payment was removed."""
    with Sandbox(seed=1, network="star:5,ideal") as sandbox:
        sandbox.network["shop"].drain(inbound=0.5)
        sandbox.advance("1h")
        after = sandbox.network["shop"].inbound_msat / 1_000
        for _ in range(1_024):
            sandbox.world.journal.note("noted", "test")
        sandbox.advance("1h")
        sandbox.world.journal.drop_readable()
        shown, _, title = noted_liquidity(sandbox)
        assert (shown, title.partition(" are ")[0]) == ([after], "the balances before 2030-01-01T01:00:00.000Z")


def test_what_another_node_changed_after_a_restart_is_in_no_balance_of_before(tmp_path: Any) -> None:
    with Sandbox(seed=1, network="line:4,ideal", data=tmp_path / "kept") as first:
        first.advance("1h")
    with Sandbox(data=tmp_path / "kept") as again:
        again.advance("1h")
        again.network["n2"].drain(outbound=0.5)
        after = again.network["shop"].inbound_msat / 1_000
        again.advance("1h")
        assert drawn_inbound(again) == [("02:00", after), ("03:00", after)]


def test_the_notes_of_two_sandboxes_in_one_chart_name_each(tmp_path: Any) -> None:
    for name, span in (("a", "1h"), ("b", "2h")):
        with Sandbox(seed=1, network="line:4,ideal", data=tmp_path / name) as first:
            first.advance(span)
    with Sandbox(data=tmp_path / "a") as one, Sandbox(data=tmp_path / "b") as other:
        for sandbox in (one, other):
            sandbox.advance("1h")
        ax = other.fork("late").plot.liquidity(ax=one.plot.liquidity())
        shown = ax.get_title(loc="right")
        assert (shown.count("are unknown"), "late: the balances before" in shown) == (2, True)


def test_a_liquidity_chart_of_several_sandboxes_names_each() -> None:
    sb = Sandbox(seed=3, network="line:4")
    sb.run("1m")
    late, early = sb.fork("late"), sb.fork("early")
    for order in ((sb, late, early), (late, sb, early)):
        ax = Figure().subplots()
        for sandbox in order:
            sandbox.plot.liquidity(ax=ax)
        legend = [text.get_text() for text in ax.get_legend().get_texts()]  # type: ignore[union-attr]
        assert legend == [f"{sandbox.label}: {name}" for sandbox in order for name in ("inbound", "outbound")]
    assert [line.get_label() for line in sb.plot.liquidity().lines] == ["inbound", "outbound"]


def test_direct_payments_have_no_liquidity_chart() -> None:
    with pytest.raises(ValueError, match="payments are direct here: create the sandbox with network='scale-free:400'"):
        Sandbox().plot.liquidity()


def test_retries_are_attempts_by_their_number_and_result(sb: Sandbox) -> None:
    ax = sb.plot.retries()
    attempts = sb.callbacks
    status = attempts["http_status"]
    masks = {
        "delivered (2xx)": status.between(200, 299).fillna(False),
        "other status": (~status.between(200, 299)).fillna(False),
        "no response": attempts["error"].notna(),
    }
    bars = [each for each in ax.containers if isinstance(each, BarContainer)]
    assert [bar.get_label() for bar in bars] == list(masks)
    below = np.zeros(attempts["attempt"].max())
    for bar, mask in zip(bars, masks.values(), strict=True):
        counted = attempts[mask]["attempt"].value_counts().reindex(range(1, len(below) + 1), fill_value=0)
        assert [patch.get_height() for patch in bar] == list(counted)
        assert [patch.get_y() for patch in bar] == list(below)
        assert [patch.get_x() + patch.get_width() / 2 for patch in bar] == pytest.approx(counted.index)
        below += counted.to_numpy(dtype=float)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("attempt (number)", "callback attempts (count)")


@pytest.mark.parametrize("bounds", [None, [1_000_000, 20_000_000]])
def test_success_by_amount_has_shares_with_their_intervals(sb: Sandbox, bounds: list[int] | None, stats: Any) -> None:
    ax = sb.plot.success_by_amount(bounds)
    ended = sb.payments.dropna(subset="outcome")
    amount = ended["amount_msat"].astype("float64")
    if bounds is None:
        band = np.floor(np.log10(amount))
    else:
        band = pd.cut(amount, [0, *bounds, np.inf], right=False).astype("str")
    groups = [each for _, each in ended.groupby(band)]
    groups.sort(key=lambda each: float(each["amount_sat"].median()))
    assert len(groups) > 2
    [container] = [each for each in ax.containers if isinstance(each, ErrorbarContainer)]
    x, y = container.lines[0].get_data()
    assert list(x) == pytest.approx([each["amount_sat"].median() for each in groups])
    assert list(y) == pytest.approx([(each["outcome"] == "SUCCEEDED").mean() for each in groups])
    across, along = (list(lines.get_segments()) for lines in container.lines[2])
    for segment, each in zip(across, groups, strict=True):
        assert list(segment[:, 0]) == pytest.approx([each["amount_sat"].min(), each["amount_sat"].max()])
    for segment, each in zip(along, groups, strict=True):
        wilson = stats.binomtest(int((each["outcome"] == "SUCCEEDED").sum()), len(each)).proportion_ci(
            0.95, method="wilson"
        )
        assert list(segment[:, 1]) == pytest.approx([wilson.low, wilson.high])
    assert [text.get_text() for text in ax.texts] == [str(len(each)) for each in groups]
    assert ax.get_xscale() == "log"


@pytest.mark.parametrize(("successes", "count"), [(0, 1), (1, 1), (3, 7), (50, 50), (0, 400), (399, 400)])
def test_the_interval_of_a_share_is_wilsons(successes: int, count: int, stats: Any) -> None:
    found = share_interval(successes, count, 0.9)
    wilson = stats.binomtest(successes, count).proportion_ci(0.9, method="wilson")
    assert (found.mean, found.size) == (successes / count, count)
    assert (found.low, found.high) == pytest.approx((wilson.low, wilson.high), abs=1e-12)
    assert share_interval(0, 0, 0.9).size == 0


@pytest.mark.parametrize("name", [name for name in CHARTS if name != "retries"])
def test_a_chart_draws_into_given_axes_and_adds_a_second_sandbox(sb: Sandbox, name: str) -> None:
    ax = Figure(layout="constrained").subplots()
    assert getattr(sb.plot, name)(ax=ax) is ax
    assert getattr(sb.fork("a $label_ \u202e").plot, name)(ax=ax) is ax
    labels = ax.get_legend_handles_labels()[1]
    assert any("label" in label for label in labels)
    assert ax.get_legend() is not None
    ax.get_figure(root=True).draw_without_rendering()


def test_axes_take_a_second_sandbox_only_in_the_same_chart_and_none_beside_retries(sb: Sandbox) -> None:
    ax, user = Figure().subplots(2)
    user.axhline(3)
    for free in (ax, user):
        assert sb.plot.retries(ax=free) is free
        drawn = len(free.patches)
        with pytest.raises(ValueError, match="retries is of one sandbox only, and ax= has it already: give other axes"):
            sb.fork("other").plot.retries(ax=free)
        for name in CHARTS:
            if name != "retries":
                with pytest.raises(ValueError, match=f"ax= has the chart retries: give other axes for {name}, or"):
                    getattr(sb.plot, name)(ax=free)
        assert len(free.patches) == drawn
    with pytest.raises(ValueError, match="ax= has the chart conversion: give other axes for retries, or leave it out"):
        sb.plot.retries(ax=sb.plot.conversion())
    ax.clear()
    assert sb.plot.settle_times(ax=ax) is ax


def test_the_points_of_every_sandbox_have_their_counts(sb: Sandbox) -> None:
    other = Sandbox(seed=4, label="other")
    for amount in ("1000", "20000"):
        other.wallet("ana").pay(other.charges.create(amount=amount, description="tea"))
    other.run()
    ax = sb.plot.success_by_amount()
    first = [text.get_text() for text in ax.texts]
    other.plot.success_by_amount(ax=ax)
    assert [text.get_text() for text in ax.texts] == [*first, "1", "1"]
    assert {text.get_color() for text in ax.texts[-2:]} == {ax.lines[-1].get_color()} != {ax.texts[0].get_color()}


@pytest.mark.parametrize("name", CHARTS)
def test_an_empty_sandbox_has_a_chart_that_says_so(sb: Sandbox, name: str) -> None:
    sandbox = Sandbox(seed=1, network="line:4")
    ax = getattr(sandbox.plot, name)()
    [text] = ax.texts
    assert (
        text.get_text()
        == {
            "conversion": "no charge was created",
            "settle_times": "no charge was paid",
            "liquidity": "time has not moved",
            "retries": "no callback was sent",
            "success_by_amount": "no payment has ended",
        }[name]
    )
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    ax.get_figure(root=True).draw_without_rendering()
    assert getattr(sb.plot, name)(ax=ax) is ax
    assert text not in ax.texts


@pytest.mark.parametrize("name", sampled(CHARTS, 5))
def test_a_chart_shows_itself_in_a_notebook_and_leaves_no_state(sb: Sandbox, name: str) -> None:
    image, size = getattr(sb.plot, name)()._repr_png_()
    assert image.startswith(b"\x89PNG")
    assert int.from_bytes(image[16:20]) == 2 * size["width"]
    assert (image, size) == getattr(sb.plot, name)()._repr_png_()


@deep("test_a_chart_shows_itself_in_a_notebook_and_leaves_no_state")
def test_charts_choose_no_backend_and_open_no_figure() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", STATELESS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_repr_of_plot_names_every_chart(sb: Sandbox) -> None:
    with pytest.raises(AttributeError, match="did you mean conversion"):
        sb.plot.conversions  # noqa: B018
    assert [f"sb.plot.{name}()" in repr(sb.plot) for name in CHARTS] == [True] * len(CHARTS)


# Sweeps


def points(ax: Axes) -> dict[str, tuple[list[float], list[float], list[list[float]]]]:
    """The label, x, means and intervals of each series."""
    return {
        str(each.get_label()): (
            list(each.lines[0].get_xdata()),
            list(each.lines[0].get_ydata()),
            [[y for _, y in segment] for segment in each.lines[2][0].get_segments() if len(segment)],
        )
        for each in ax.containers
        if isinstance(each, ErrorbarContainer)
    }


def test_a_chart_of_single_replications_names_no_interval() -> None:
    runs = sweep(lambda s: {"paid": s.expiresIn / 100}, grid(expiresIn=[60, 10]), 1, workers=1, progress=False)
    assert plot_sweep(runs, "paid", x="expiresIn").axes[0].get_ylabel() == "paid"


def test_a_chart_of_a_sweep_has_a_panel_and_a_line_for_each_value(runs: pd.DataFrame) -> None:
    figure = plot_sweep(runs, "paid", x="expiresIn", by="group", facet="shape", confidence=0.9)
    assert [ax.get_title() for ax in figure.axes] == [f"shape = {shape}" for shape in "abcd"]
    means = estimates(runs, ["paid"], confidence=0.9)
    for ax, shape in zip(figure.axes, "abcd", strict=True):
        drawn = points(ax)
        assert list(drawn) == ["slow", "fast"]
        for group, (x, y, intervals) in drawn.items():
            rows = means[(means["shape"] == shape) & (means["group"] == group)].sort_values("expiresIn")
            assert x == [10, 60, 300]
            assert y == pytest.approx(list(rows["mean"]))
            assert np.array(intervals) == pytest.approx(rows[["low", "high"]].to_numpy())
    shown = [ax.get_xlabel() for ax in figure.axes if ax.xaxis.label.get_visible()]
    assert shown == ["expiresIn"] * 3  # the lowest of each column
    assert figure.axes[0].get_ylabel() == "paid\n(mean, 90 % interval)"
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["slow", "fast"]
    assert figure._repr_png_()[0].startswith(b"\x89PNG")  # type: ignore[attr-defined]


def test_a_column_that_names_the_values_of_a_parameter_may_stand_for_it(runs: pd.DataFrame) -> None:
    chosen = runs[runs["shape"] == "a"].assign(words=runs["group"].map({"slow": "in a bag", "fast": "in the hand"}))
    ax = Figure().subplots()
    assert plot_sweep(chosen, "cost", x="words", by="expiresIn", ax=ax) is ax.figure
    assert [text.get_text() for text in ax.get_xticklabels()] == ["in a bag", "in the hand"]
    assert list(points(ax)) == ["60", "10", "300"]
    assert points(ax)["60"][0] == [0, 1]


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1_000, 10_000, 100_000], "log"),
        ([1, 100], "log"),
        ([1, 99], "linear"),
        ([0, 1_000], "linear"),
        ([-1, 1_000], "linear"),
        (["1", "1000"], "linear"),
    ],
)
def test_the_axis_of_values_over_two_decades_is_logarithmic(values: list[Any], scale: str) -> None:
    runs = sweep(lambda s: {"paid": s.seed}, grid(a=values), workers=1, progress=False)
    assert plot_sweep(runs, "paid", x="a").axes[0].get_xscale() == scale


def test_one_replication_has_no_interval() -> None:
    runs = sweep(lambda s: {"paid": s.a}, grid(a=[1, 2]), workers=1, progress=False)
    figure = plot_sweep(runs, "paid", x="a")
    figure.draw_without_rendering()
    [(x, y, _)] = points(figure.axes[0]).values()
    assert (x, y) == ([1, 2], [1, 2])


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"x": "expiresIn"}, "they differ by group, shape: give by= or facet=, or select rows"),
        ({"x": "expiresIn", "by": "group", "ax": Figure().subplots(), "facet": "shape"}, "ax= is one panel"),
        ({"x": "expiresIn", "by": "group"}, "differ by shape: give facet=, or select rows"),
        ({"x": "expires"}, "x='expires' is no column of the sweep: its parameters are expiresIn, group, shape"),
        ({"x": "expiresIn", "by": "replication"}, "by='replication' has several values in a scenario"),
        ({"x": "expiresIn", "by": "expiresIn", "facet": "shape"}, "name each column once"),
    ],
)
def test_a_chart_that_would_mix_scenarios_is_refused(runs: pd.DataFrame, named: dict[str, Any], words: str) -> None:
    with pytest.raises(SweepError, match=words.replace("(", r"\(")):
        plot_sweep(runs, "paid", **named)


@pytest.mark.parametrize(
    ("metric", "words"), [("conversion", "no metric 'conversion'"), (["paid"], "name of one metric")]
)
def test_a_metric_that_cannot_be_drawn_is_refused(runs: pd.DataFrame, metric: Any, words: str) -> None:
    with pytest.raises(SweepError, match=words):
        plot_sweep(runs, metric, x="expiresIn")
    with pytest.raises(SweepError, match="no DataFrame of a sweep"):
        plot_sweep(pd.DataFrame({"a": [1]}), "paid", x="a")


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (0.5, "0.5"), (999, "999"), (2500, "2.5k"), (1e6, "1M"), (21e9, "21G")]
)
def test_amounts_are_short(number: float, text: str) -> None:
    assert short(number) == text


def test_a_chart_with_windows_of_several_widths_says_which_series_has_which() -> None:
    sandbox = Sandbox(seed=3, label="old")
    for _ in range(3):
        sandbox.wallet("ana").pay(sandbox.charges.create(amount="1000", description="tea"))
        sandbox.run("2h")
    new = sandbox.fork("new")
    ax = sandbox.plot.conversion("1h")
    new.plot.conversion("60m", ax=ax)
    assert ax.get_ylabel() == "charges paid\n(windows of 60m)"
    assert ax.get_legend_handles_labels()[1] == ["old", "new"]
    for _ in range(2):
        ax = new.plot.conversion("30m", ax=ax)
        assert ax.get_ylabel() == "charges paid\n(windows of several widths)"
    labels = ["old\nwindows of 1 h", "new\nwindows of 1 h", *["new\nwindows of 30 min"] * 2]
    assert ax.get_legend_handles_labels()[1] == labels
    assert [text.get_text() for text in ax.get_legend().get_texts()] == labels
    sandbox.plot.conversion("1h", ax=ax)
    assert ax.get_ylabel() == "charges paid\n(windows of several widths)"


@pytest.mark.parametrize("answers", [[200], [500, 200], [500] * 3 + [200], [500] * 10])
def test_the_ticks_of_attempts_and_their_numbers_are_integers(answers: list[int]) -> None:
    sandbox = Sandbox(seed=3)
    sandbox.receiver("shop").answers(answers)
    sandbox.wallet("ana").pay(sandbox.charges.create(amount="1000", description="tea", callbackUrl=URL))
    sandbox.run()
    ax = sandbox.plot.retries()
    ax.figure.draw_without_rendering()
    for axis, most in ((ax.xaxis, len(answers)), (ax.yaxis, 1)):
        low, high = axis.get_view_interval()
        ticks = [tick for tick in axis.get_majorticklocs() if low <= tick <= high]
        assert ticks
        assert all(tick == round(tick) for tick in ticks)
        assert ticks[-1] <= most
