"""Distributions given as heavy-tailed texts, as values with and without weights, and as functions."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox, grid, sweep
from leyden.distributions import (
    msat_distribution,
    msat_value,
    payer_distribution,
    sample,
    span_distribution,
    value_distribution,
)
from leyden.errors import DistributionError
from leyden.rng import RandomStream
from tests.support.examples import examples
from tests.support.strategies import full_state

KEYS = st.binary(min_size=1, max_size=8)


def draws(distribution: list[Any], number: int = 4_000, key: bytes = b"key") -> list[Any]:
    stream = RandomStream("test", key)
    found = [sample(distribution, stream) for _ in range(number)]
    assert stream.position == number
    return found


# Heavy tails


def test_a_pareto_has_its_survival_function() -> None:
    found = draws(msat_distribution("pareto(1000, 1.5)"))
    assert min(found) >= 1_000
    for above in (2_000, 10_000):
        assert sum(each > above for each in found) / 4_000 == pytest.approx((1_000 / above) ** 1.5, abs=0.015)


def test_a_bounded_pareto_is_the_pareto_given_its_bound() -> None:
    found = draws(msat_distribution("pareto(1000, 0.5, 100000)"))
    assert 1_000 <= min(found) < max(found) <= 100_000
    expected = ((1_000 / 10_000) ** 0.5 - (1_000 / 100_000) ** 0.5) / (1 - (1_000 / 100_000) ** 0.5)
    assert sum(each > 10_000 for each in found) / 4_000 == pytest.approx(expected, abs=0.02)


def test_a_weibull_has_its_survival_function_and_is_exponential_at_one() -> None:
    found = draws(span_distribution("weibull(10s, 0.5)"))
    assert sum(each > 40_000 for each in found) / 4_000 == pytest.approx(np.exp(-2), abs=0.015)
    assert draws(span_distribution("weibull(10s, 1)")) == pytest.approx(draws(span_distribution("exp(10s)")))


def test_a_clipped_distribution_draws_its_bounds_for_what_is_outside() -> None:
    plain, clipped = msat_distribution("lognorm(5000, 2)"), msat_distribution("clip(lognorm(5000, 2), 1000, 20000)")
    assert draws(clipped) == [min(max(each, 1_000), 20_000) for each in draws(plain)]


@given(
    text=st.sampled_from(
        [
            "pareto(1000, 0.1)",
            "pareto(1sat, 100, 2sat)",
            "weibull(1, 0.1)",
            "clip(pareto(7, 2), 9, 90)",
            "pareto(3, 2, 3)",
        ]
    ),
    key=KEYS,
)
def test_a_heavy_tailed_distribution_takes_one_draw_and_is_finite(text: str, key: bytes) -> None:
    [value] = draws(msat_distribution(text), 1, key)
    assert 0 <= value < 10**300


# Values and weights


def spans_and_amounts(amount: Any, think_time: Any, count: int = 30) -> Sandbox:
    sandbox = Sandbox(seed=4)
    sandbox.traffic("every(1m)", amount=amount, think_time=think_time, patience=None, count=count)
    sandbox.run()
    return sandbox


@pytest.mark.parametrize(
    "values",
    [
        [1_000, 2_000, 5_000],
        (1_000, "2sat", 5e3),
        np.array([1_000, 2_000, 5_000]),
        np.array([1_000.0, 2_000.0, 5_000.0]),
        pd.Series([1_000, 2_000, 5_000], index=[7, 8, 9]),
        (each for each in (1_000, 2_000, 5_000)),
    ],
    ids=["list", "tuple", "array", "floats", "Series", "generator"],
)
def test_values_are_drawn_with_the_same_probability(values: Any) -> None:
    sandbox = spans_and_amounts(values, [1, "2s", timedelta(seconds=3)])
    assert sandbox.journal_hash == spans_and_amounts([1_000, 2_000, 5_000], [1, 2, 3]).journal_hash
    assert set(sandbox.charges.table["amount_msat"]) == {1_000, 2_000, 5_000}


def test_values_have_weights_in_a_mapping() -> None:
    found = Counter(draws(value_distribution({"1000": 3, "5sat": 1, "7000": 0}, "amount", msat_value)))
    assert found[1_000] / 4_000 == pytest.approx(0.75, abs=0.02)
    assert set(found) == {1_000, 5_000}
    weights = pd.Series([3, 1], index=[1_000, 5_000]).to_dict()
    assert spans_and_amounts(weights, 1).journal_hash == spans_and_amounts("choice(1000:3, 5000:1)", 1).journal_hash


@given(values=st.lists(st.integers(0, 10**12), min_size=1, max_size=30), key=KEYS)
def test_only_given_values_are_drawn(values: list[int], key: bytes) -> None:
    assert set(draws(value_distribution(values, "amount", msat_value), 20, key)) <= set(values)
    weighted = {str(value): place % 3 for place, value in enumerate(values, 1)}
    drawn = draws(value_distribution(weighted | {"1": 1}, "amount", msat_value), 20, key)
    assert set(map(str, drawn)) <= {value for value, weight in weighted.items() if weight} | {"1"}


# Functions


def test_a_function_draws_from_its_own_stream() -> None:
    names, places = set(), []

    def amounts(rng: RandomStream) -> float:
        names.add(rng.name)
        places.append(rng.position)
        return rng.lognormal(250_000, 1)

    sandbox = Sandbox(seed=4)
    before = sandbox.world.streams.snapshot()
    sandbox.traffic("every(1m)", amount=amounts, count=5)
    assert names == {"traffic/1/amount"}
    assert places == list(range(10_000))
    assert {name for name in sandbox.world.streams.snapshot() if name not in before} == {"traffic/1"}
    sandbox.traffic("every(1m)", amount=amounts, count=5)
    assert "traffic/2/amount" in names


def test_a_function_has_the_distribution_that_it_draws() -> None:
    sandbox = spans_and_amounts(lambda rng: rng.lognormal(250_000, 0.5), lambda rng: timedelta(seconds=3), 400)
    amounts = sandbox.charges.table["amount_msat"].astype(float)
    assert np.median(amounts) == pytest.approx(250_000, rel=0.1)
    assert np.std(np.log(amounts)) == pytest.approx(0.5, rel=0.15)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"amount": lambda rng: 1 / 0}, "amount: the function <lambda> raised ZeroDivisionError"),
        ({"amount": lambda rng: None}, "amount: the function <lambda> returned None: return a number"),
        ({"amount": lambda rng: float("nan")}, "returned nan: return a number"),
        ({"patience": lambda rng: "soon"}, "patience: the function <lambda> returned 'soon'"),
        ({"amount": print}, "amount: the function print returned None"),
        ({"amount": []}, "amount: [] has no values"),
        ({"amount": {}}, "amount: {} has no values"),
        ({"amount": [1_000, None]}, "None"),
        ({"amount": [1_000.5]}, "not rounded"),
        ({"amount": pd.Series([1_000, None])}, "nan"),
        ({"amount": {1_000: 0}}, "every weight"),
        ({"amount": {1_000: -1}}, "0 or more"),
        ({"amount": {1_000, 2_000}}, "a list of values"),
        ({"amount": [1_000] * 100_001}, "more than 100000 values"),
        ({"amount": np.zeros((2, 2))}, "amount: array"),
        ({"amount": None}, "amount: None is not a distribution"),
        ({"expiresIn": [0, 60]}, "give 1s or more"),
        ({"amount": "pareto(0, 1)"}, "begins at 0"),
        ({"amount": "pareto(1000, 0)"}, "out of bounds for a shape"),
        ({"amount": "pareto(1000, 1, 999)"}, "exchange them"),
        (
            {"amount": "pareto(1000)"},
            "has 1 value: write pareto(least, shape[, most]), where what is in brackets may be",
        ),
        ({"amount": "pareto(1000, 1, 2000, 3)"}, "has 4 values: write pareto(least, shape[, most])"),
        ({"amount": "clip(5000)"}, "has 1 value: write clip(lognorm(median), least, most)"),
        ({"amount": "weibull(1000)"}, "write weibull(scale, shape)"),
        ({"amount": "clip(5000, 9, 8)"}, "exchange them"),
        ({"amount": "clip(clip(5000, 1, 9), 2, 8)"}, "clips twice"),
        ({"payers": {"ana": "many"}}, "payers: 'many' is not a weight"),
        ({"payers": {"a b": 1}}, "not a name"),
        ({"payers": {}}, "has no values"),
        ({"payers": "zipf(0)"}, "from 1 to"),
        ({"payers": "zipf(1, 2, 3)"}, "has 3 values: write zipf(number[, exponent])"),
        ({"behaviours": {"prays": 1}}, "there is no 'prays'"),
        ({"returning": 1}, "returning=1 would bring every customer back"),
        ({"returning": 0.5, "return_after": "often"}, "return_after"),
    ],
)
def test_invalid_values_are_refused_with_the_mend(sandbox: Sandbox, how: dict[str, Any], words: str) -> None:
    with pytest.raises((DistributionError, ValueError)) as refused:
        sandbox.traffic("1/min", **how)
    assert words in str(refused.value)
    assert len(sandbox.action_log) == 0
    assert not list(sandbox.world.traffic.rows)


# Everything in one sandbox: forks, files, scripts, directories, sweeps

PLAIN_AND_OTHER: dict[str, list[Any]] = {
    "rate": [
        "30/min",
        "weekly(20/min, tue:1, sat:2) + burst(3, 45s)",
        lambda at: 20 + at.minute,
        ["9/min", "every(7s)"],
    ],
    "amount": ["pareto(1000, 1.1, 9e6)", [1_000, 5_000], {"1000": 2, "9000": 1}, lambda rng: rng.lognormal(5_000, 2)],
    "patience": [None, "weibull(30s, 0.7)", np.array([5, 60]), lambda rng: rng.exponential(30)],
    "think_time": ["clip(lognorm(9s, 2), 1s, 1m)", [1, "9s"], lambda rng: rng.uniform() * 20],
    "expiresIn": [60, [30, "2m"], lambda rng: 5 + rng.below(90)],
    "behaviours": ["pays", {"pays": 5, "late": 1, "never": 1, "twice": 1}],
    "payers": [3, "zipf(5, 1.3)", {"ana": 5, "bob": 1}, ["ana", "bob"]],
    "returning": [0, 0.6],
    "return_after": ["exp(40s)", [10, 20]],
}
OPTIONS = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in PLAIN_AND_OTHER.items()})


@given(options=OPTIONS, seed=st.integers(0, 99), seconds=st.integers(0, 70))
@examples(25, bounded=3)
def test_the_same_seed_gives_the_same_bytes_by_every_way(options: dict[str, Any], seed: int, seconds: int) -> None:
    def started() -> Sandbox:
        sandbox = Sandbox(seed=seed)
        sandbox.traffic(**options, duration="90s")
        return sandbox

    straight, moved = started(), started()
    straight.run()
    moved.advance(seconds)
    names: dict[str, Any] = {}
    exec(moved.script(), names)
    copies = [moved, moved.fork(), Sandbox.from_snapshot(moved.snapshot()), names["sb"]]
    for copy in copies:
        copy.run()
        assert copy.journal_hash == straight.journal_hash
    exec(straight.script(), names)
    assert full_state(names["sb"]) == full_state(straight)


def test_a_directory_has_the_lists_and_who_will_return(tmp_path: Any) -> None:
    how: dict[str, Any] = {
        "amount": lambda rng: rng.lognormal(5_000, 2), "payers": "zipf(4)", "returning": 0.7,
        "return_after": "exp(20s)", "rate": {"2030-01-01T00:00Z": 40, "2030-01-01T00:01Z": 5}, "duration": "3m",
    }  # fmt: skip
    with Sandbox(seed=5) as whole:
        whole.traffic(**how)
        whole.run()
        expected = [(charge.id, charge.status) for charge in whole.charges]
    with Sandbox(seed=5, data=tmp_path) as parted:
        parted.traffic(**how)
        parted.advance("70s")
    with Sandbox(data=tmp_path) as parted:
        parted.run()
        assert [(charge.id, charge.status) for charge in parted.charges] == expected


def test_a_fork_with_another_seed_draws_other_values_from_the_same_lists() -> None:
    sandbox = Sandbox(seed=5)
    sandbox.traffic("every(1s)", amount=list(range(1_000, 2_000)), count=40)
    sandbox.advance("20s")
    other = sandbox.fork(reseed=9)
    for each in (sandbox, other):
        each.run()
    amounts, others = (list(each.charges.table["amount_msat"]) for each in (sandbox, other))
    assert amounts[:20] == others[:20]
    assert sum(a == b for a, b in zip(amounts[20:], others[20:], strict=True)) < 5


def test_a_sweep_has_functions_and_lists_as_parameters() -> None:
    def shop(scenario: Any) -> dict[str, float]:
        with Sandbox(seed=scenario.seed) as sandbox:
            sandbox.traffic("every(10s)", amount=[1_000, 3_000], payers=scenario.payers, count=20,
                            think_time=lambda rng: rng.exponential(scenario.mean_s))  # fmt: skip
            sandbox.run()
            return {"median_s": sandbox.kpi.settle_s(), "received": sandbox.kpi.received_msat}

    df = sweep(shop, grid(mean_s=[2, 20], payers=["zipf(5)"]), replications=3, workers=1, progress=False)
    assert list(df["status"]) == ["ok"] * 6
    assert (df[df["mean_s"] == 2]["median_s"].to_numpy() < df[df["mean_s"] == 20]["median_s"].to_numpy()).all()


def test_weights_of_wallets_follow_zipf_and_mappings() -> None:
    found = Counter(draws(payer_distribution("zipf(10, 1)"), 8_000))
    assert found["payer-1"] / found["payer-4"] == pytest.approx(4, rel=0.15)
    assert set(found) == {f"payer-{number}" for number in range(1, 11)}
    assert Counter(draws(payer_distribution({"ana": 3, "bob": 1})))["ana"] == pytest.approx(3_000, abs=90)
