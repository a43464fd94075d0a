"""Simulated customers: arrivals, amounts and behaviours, and the figures of the shop."""

from __future__ import annotations

from math import isnan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.distributions import (
    msat_distribution,
    payer_distribution,
    sample,
    seconds_distribution,
    span_distribution,
)
from leyden.errors import DistributionError
from leyden.lab.kpi import Kpi, quantile
from leyden.lab.rates import arrival_process
from leyden.lab.traffic import Traffic, behaviour_distribution, traffic
from leyden.rng import RandomStream
from leyden.server.errors import InternalError
from leyden.world.traffic.arrivals import DAY_MS, next_arrival
from leyden.world.traffic.rows import BEHAVIOURS
from tests.support.bounded_calls import bounded_calls

HOOK = "http://shop.localhost/paid"
DAY = 1_893_456_000_000  # 2030-01-01T00:00:00Z


def rows(sandbox: Sandbox, table: str) -> list[dict[str, Any]]:
    return [dict(row) for row in sandbox.world.store.db.table(table)]


def busy(sandbox: Sandbox, rate: str = "every(10s)", **how: Any) -> Traffic:
    """Ten customers who pay at once, by default."""
    calm = {"amount": 5_000, "think_time": 3, "patience": None, "count": 10}
    return traffic(sandbox.world, rate, **{**calm, **how})


# When they come


def test_no_customer_arrives_before_time_moves(sandbox: Sandbox) -> None:
    customers = busy(sandbox)
    assert (customers.arrived, len(sandbox.charges)) == (0, 0)
    sandbox.advance("9999ms")
    assert customers.arrived == 0
    sandbox.advance("1ms")
    assert customers.arrived == 1


def test_fixed_arrivals_have_equal_gaps(sandbox: Sandbox) -> None:
    busy(sandbox, "every(10s)", count=3)
    sandbox.run()
    came = [entry.at_ms for entry in sandbox.world.journal.entries(kind="customer_arrived")]
    assert [at - came[0] for at in came] == [0, 10_000, 20_000]


def test_a_burst_arrives_at_once_with_pauses_between(sandbox: Sandbox) -> None:
    busy(sandbox, "burst(3, 10m)", count=7)
    sandbox.run()
    came = [entry.at_ms for entry in sandbox.world.journal.entries(kind="customer_arrived")]
    assert [(at - came[0]) // 60_000 for at in came] == [0, 0, 0, 10, 10, 10, 20]


def test_poisson_arrivals_keep_their_rate_in_the_long_run() -> None:
    stream, distribution, at = RandomStream("test", b"key"), arrival_process("30/min"), 0.0
    for number in range(4_000):
        at, _ = next_arrival(distribution, stream, at, number)
    assert at / 4_000 == pytest.approx(2_000, rel=0.05)


def test_a_daily_profile_with_one_customer_in_centuries_costs_a_few_calls() -> None:
    arrivals = ["daily", [0, DAY_MS // 3], [0.0, 1e-30]]
    with bounded_calls(100):
        assert next_arrival(arrivals, RandomStream("rare", b"seed"), 0.0, 0)[0] > 1e25


def test_a_daily_profile_follows_its_weights_and_keeps_its_average() -> None:
    stream, distribution, at = (
        RandomStream("test", b"key"),
        arrival_process("2/min, 8:1, 12:3, 22:0".join(("daily(", ")"))),
        float(DAY),
    )
    hours = [0] * 24
    number = 0
    while at < DAY + 10 * DAY_MS:
        at, _ = next_arrival(distribution, stream, at, number)
        hours[int(at % DAY_MS) // 3_600_000] += 1
        number += 1
    assert number == pytest.approx(10 * 2 * 1_440, rel=0.03)
    assert sum(hours[:8]) + sum(hours[22:]) <= 1  # before eight, what holds from 22:00 still holds
    assert sum(hours[12:22]) / 10 == pytest.approx(3 * sum(hours[8:12]) / 4, rel=0.05)


@pytest.mark.parametrize(
    ("duration", "arrived"), [("9999ms", 0), ("10s", 0), ("10001ms", 1), ("20s", 1), ("20001ms", 2), (None, 3)]
)
def test_customers_arrive_until_the_end_of_the_duration_and_not_at_it(
    sandbox: Sandbox, duration: str | None, arrived: int
) -> None:
    customers = busy(sandbox, duration=duration, count=3)
    sandbox.run()
    assert customers.arrived == arrived
    assert sandbox.world.journal.entries(kind="traffic_ended")[-1].facts["arrived"] == arrived


def test_stopped_traffic_does_not_affect_customers_who_have_arrived(sandbox: Sandbox) -> None:
    customers = busy(sandbox, think_time=60)
    sandbox.advance("25s")
    customers.stop().stop()
    sandbox.run()
    assert customers.arrived == 2
    assert [charge.status for charge in sandbox.charges] == ["completed", "completed"]
    assert "ended" in repr(customers)


# What they do


@pytest.mark.parametrize(
    ("behaviour", "status", "outcomes"),
    [
        ("pays", "completed", ["SUCCEEDED"]),
        ("late", "expired", ["INCORRECT_PAYMENT_DETAILS"]),
        ("never", "expired", []),
        ("twice", "completed", ["SUCCEEDED", "INCORRECT_PAYMENT_DETAILS"]),
        ("underpays", "expired", ["INCORRECT_PAYMENT_DETAILS"]),
        ("overpays", "completed", ["SUCCEEDED"]),
        ("splits", "completed", ["SUCCEEDED"]),
        ("holds", "expired", ["INCORRECT_PAYMENT_DETAILS"]),
        ("fails", "expired", ["NO_ROUTE"]),
    ],
)
def test_every_behaviour_has_its_outcome(sandbox: Sandbox, behaviour: str, status: str, outcomes: list[str]) -> None:
    busy(sandbox, behaviours=behaviour, count=1)
    sandbox.run()
    assert [charge.status for charge in sandbox.charges] == [status]
    assert [row["outcome"] for row in rows(sandbox, "payments")] == outcomes


def test_every_behaviour_is_tested() -> None:
    (mark,) = test_every_behaviour_has_its_outcome.pytestmark
    assert [case[0] for case in mark.args[1]] == list(BEHAVIOURS)


@pytest.mark.parametrize(("think_time", "payments"), [("9999ms", 1), ("10s", 1), ("10001ms", 0)])
def test_a_customer_with_a_think_time_over_the_patience_does_not_pay(
    sandbox: Sandbox, think_time: str, payments: int
) -> None:
    busy(sandbox, think_time=think_time, patience="10s", count=1)
    sandbox.run()
    assert len(rows(sandbox, "payments")) == payments


def test_patience_counts_from_the_arrival_and_ends_the_payment(sandbox: Sandbox) -> None:
    busy(sandbox, think_time="4s", patience="10s", behaviours="holds", count=1)
    sandbox.run()
    (payment,) = rows(sandbox, "payments")
    assert payment["gave_up_at"] - payment["created_at"] == 10_000


def test_a_customer_has_a_charge_of_the_service(sandbox: Sandbox) -> None:
    busy(sandbox, callbackUrl=HOOK, description="Stall 3", expiresIn="2m", payers="ana", count=1)
    sandbox.run()
    (charge,) = sandbox.charges
    assert charge.data["internalId"] == "traffic-1-1"
    assert charge.data["description"] == "Stall 3"
    assert (charge.expires_at - charge.created_at).total_seconds() == 120
    assert [got.event for got in sandbox.receiver("shop").inbox] == ["charge.completed"]
    assert [row["payer"] for row in rows(sandbox, "payments")] == ["ana"]


def test_a_refused_amount_is_only_counted(sandbox: Sandbox) -> None:
    customers = busy(sandbox, amount="choice(999, 1000)", count=20)
    sandbox.run()
    assert customers.arrived == 20
    assert customers.refused == 20 - len(sandbox.charges) > 0
    refusals = sandbox.world.journal.entries(kind="customer_refused")
    assert {entry.facts["amount_msat"] for entry in refusals} == {999}
    assert Kpi(sandbox.world).refused == customers.refused


def test_a_request_in_which_the_service_fails_is_not_counted_as_refused(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(order: object) -> None:
        raise RuntimeError

    customers = busy(sandbox, "every(1s)", count=3)
    with monkeypatch.context() as defect:
        defect.setattr(sandbox.world.node, "issue", failing)
        with pytest.raises(InternalError, match="customer of the traffic stream 1 got no Charge: createCharge failed"):
            sandbox.run()
    assert (customers.arrived, customers.refused, sandbox.kpi.refused) == (0, 0, 0)
    sandbox.run()
    assert (customers.arrived, customers.refused, len(sandbox.charges)) == (3, 0, 3)


def test_traffic_crosses_a_network_too() -> None:
    with Sandbox(seed=3, network="star:6") as sandbox:
        busy(sandbox, payers=4, count=5)
        sandbox.run()
        kpi = Kpi(sandbox.world)
        assert (kpi.created, kpi.payments) == (5, 5)
        assert kpi.completed + kpi.expired == 5
        assert kpi.attempts >= kpi.completed > 0


# What they have in common


def visits(seed: int, **how: Any) -> list[dict[str, Any]]:
    with Sandbox(seed=seed) as sandbox:
        busy(sandbox, "30/min", **{"behaviours": "choice(pays:3, never:1)", "patience": "lognorm(45s)", **how})
        sandbox.run()
        return [
            {"at": entry.at_ms, **entry.facts}
            for entry in sandbox.world.journal.entries()
            if entry.kind.startswith("customer")
        ]


def test_one_seed_gives_the_same_customers() -> None:
    assert visits(1) == visits(1)
    assert visits(1) != visits(2)


def test_customers_are_the_same_in_every_scenario() -> None:
    plain, other = visits(1), visits(1, amount="uniform(1000, 9000)", expiresIn=3600, think_time="exp(5s)")
    assert plain == other
    patient = visits(1, patience="lognorm(90s)")
    assert [round(each["patience_ms"] / 2) for each in patient] == pytest.approx(
        [each["patience_ms"] for each in plain], abs=1
    )


def test_two_streams_of_customers_are_independent() -> None:
    with Sandbox(seed=1) as sandbox:
        busy(sandbox, "30/min", behaviours="choice(pays:3, never:1)", patience="lognorm(45s)")
        busy(sandbox, "every(1s)", count=50)
        sandbox.run()
        first = [
            {"at": entry.at_ms, **entry.facts}
            for entry in sandbox.world.journal.entries(kind="customer_arrived")
            if entry.facts["traffic"] == "1"
        ]
    assert first == visits(1)


def test_traffic_continues_after_a_restart(tmp_path: Any) -> None:
    with Sandbox(seed=5, data=tmp_path / "whole") as sandbox:
        busy(sandbox, "30/min", payers=3)
        sandbox.run()
        whole = [(row["id"], row["status"]) for row in rows(sandbox, "charges")]
    with Sandbox(seed=5, data=tmp_path / "parted") as sandbox:
        busy(sandbox, "30/min", payers=3)
        sandbox.advance("7s")
    with Sandbox(data=tmp_path / "parted") as sandbox:
        sandbox.run()
        assert [(row["id"], row["status"]) for row in rows(sandbox, "charges")] == whole


# How distributions are written


@pytest.mark.parametrize(
    ("value", "distribution"),
    [
        ("45s", ["const", 45_000]),
        (45, ["const", 45_000]),
        ("exp(2m)", ["exp", 120_000]),
        ("uniform(1s, 1h30m)", ["uniform", 1_000, 5_400_000]),
        ("lognorm(45s)", ["lognorm", 45_000, 0.6]),
        (" lognorm( 45s , 1 ) ", ["lognorm", 45_000, 1.0]),
        ("normal(60s, 5s)", ["normal", 60_000, 5_000]),
        ("choice(1s:3, 2s)", ["choice", [[1_000, 3.0], [2_000, 1.0]]]),
    ],
)
def test_the_forms_of_a_distribution_of_spans(value: Any, distribution: list[Any]) -> None:
    assert span_distribution(value) == distribution
    assert seconds_distribution(value)[0] == distribution[0]


@pytest.mark.parametrize(
    ("value", "distribution"),
    [
        (1_000, ["const", 1_000]),
        (1e6, ["const", 1_000_000]),
        ("250_000", ["const", 250_000]),
        ("25sat", ["const", 25_000]),
        ("1.5sat", ["const", 1_500]),
        ("uniform(1000, 50000)", ["uniform", 1_000, 50_000]),
        ("choice(1000:3, 5000:1)", ["choice", [[1_000, 3.0], [5_000, 1.0]]]),
    ],
)
def test_the_forms_of_a_distribution_of_amounts(value: Any, distribution: list[Any]) -> None:
    assert msat_distribution(value) == distribution


@pytest.mark.parametrize(
    ("read", "value", "words"),
    [
        (span_distribution, "lognorm(45q)", "'45q' is not a duration"),
        (span_distribution, "logn(45s)", "no distribution 'logn'"),
        (
            span_distribution,
            "lognorm()",
            "'lognorm()' has 0 values: write lognorm(median[, spread]), where what is in brackets may be",
        ),
        (span_distribution, "lognorm(1s, 2, 3)", "has 3 values: write lognorm(median[, spread])"),
        (span_distribution, "lognorm(1s, -1)", "0 or more"),
        (span_distribution, "lognorm(1s, nan)", "0 or more"),
        (span_distribution, "uniform(5s, 1s)", "write uniform(1s, 5s)"),
        (span_distribution, "exp(1s, 2s)", "write exp(mean)"),
        (span_distribution, "exp(-1s)", "negative"),
        (span_distribution, "choice()", "has no values"),
        (span_distribution, "choice(1s:0)", "every weight"),
        (span_distribution, "choice(1s:x)", "not a plain number"),
        (span_distribution, "exp(1s", "not a distribution"),
        (span_distribution, True, "not a distribution"),
        (span_distribution, None, "not a distribution"),
        (msat_distribution, "12 coins", "not an amount"),
        (msat_distribution, "-5", "not an amount"),
        (behaviour_distribution, "prays", "there is no 'prays'"),
        (behaviour_distribution, "choice(pays, prays)", "there is no 'prays'"),
        (behaviour_distribution, "exp(3)", "has no names"),
        (payer_distribution, 0, "from 1 to"),
        (payer_distribution, True, "not a whole number"),
        (payer_distribution, ["a b"], "not a name"),
        (arrival_process, "30", "30/min"),
        (arrival_process, 30, "has no unit of time"),
        (arrival_process, "0/min", "cannot be read"),
        (arrival_process, "30/fortnight", "is not a duration"),
        (arrival_process, "every(0s)", "more than 0"),
        (arrival_process, "burst(0, 1m)", "cannot be read"),
        (arrival_process, "daily(30/min)", "cannot be read"),
        (arrival_process, "daily(30/min, 24:1)", "hours are 0 to 23"),
        (arrival_process, "daily(30/min, 8:0)", "no customer would arrive"),
        (arrival_process, "daily(30/min, noon)", "not an hour"),
    ],
)
def test_an_invalid_text_is_refused_with_the_right_form(read: Any, value: Any, words: str) -> None:
    with pytest.raises(DistributionError, match=r".") as refused:
        read(value)
    assert words in str(refused.value)


@pytest.mark.parametrize("how", [{"count": 0}, {"count": 1.5}, {"duration": "0s"}, {"duration": "-1s"}])
def test_impossible_traffic_is_refused(sandbox: Sandbox, how: dict[str, Any]) -> None:
    with pytest.raises(DistributionError):
        traffic(sandbox.world, **how)
    assert not rows(sandbox, "traffic")


@given(
    distribution=st.one_of(
        st.tuples(st.just("const"), st.integers(0, 10**9)),
        st.tuples(st.just("uniform"), st.integers(0, 10**6), st.integers(10**6, 10**9)),
        st.tuples(st.just("exp"), st.integers(1, 10**9)),
        st.tuples(st.just("lognorm"), st.integers(1, 10**9), st.floats(0, 3)),
        st.tuples(st.just("normal"), st.integers(0, 10**9), st.integers(0, 10**6)),
        st.tuples(st.just("people"), st.integers(1, 1000)),
        st.tuples(
            st.just("choice"),
            st.lists(st.tuples(st.integers(), st.floats(0.01, 9)).map(list), min_size=1, max_size=5),
        ),
    ).map(list),
    key=st.binary(min_size=1, max_size=8),
)
def test_every_distribution_takes_one_draw_and_stays_within_its_bounds(distribution: list[Any], key: bytes) -> None:
    stream = RandomStream("test", key)
    value = sample(distribution, stream)
    assert stream.position == 1
    if distribution[0] == "uniform":
        assert distribution[1] <= value <= distribution[2]
    if distribution[0] == "const":
        assert value == distribution[1]
    if distribution[0] in {"exp", "lognorm"}:
        assert value >= 0
    if distribution[0] == "choice":
        assert value in [choice for choice, _ in distribution[1]]
    if distribution[0] == "people":
        assert 1 <= int(value.removeprefix("payer-")) <= distribution[1]


def test_the_median_of_a_lognormal_and_the_weights_of_a_choice() -> None:
    stream = RandomStream("test", b"key")
    spans = [sample(span_distribution("lognorm(45s)"), stream) for _ in range(2_000)]
    assert sum(span < 45_000 for span in spans) == pytest.approx(1_000, abs=100)
    amounts = [sample(msat_distribution("choice(1000:3, 5000:1, 7000:0)"), stream) for _ in range(2_000)]
    assert amounts.count(1_000) == pytest.approx(1_500, abs=100)
    assert amounts.count(7_000) == 0


# The figures


def test_the_figures_of_a_shop_without_customers(sandbox: Sandbox) -> None:
    kpi = Kpi(sandbox.world)
    figures = kpi.row()
    assert {name for name, value in figures.items() if value != 0} == {
        "conversion", "settle_p50_s", "settle_p95_s", "paid_share", "delivered_share", "callback_p50_ms",
        "callback_p95_ms", "notified_p50_s", "notified_p95_s",
    }  # fmt: skip
    assert all(isnan(value) for value in figures.values() if value != 0)
    assert list(kpi.by("1h").columns) == [name for name in figures if name != "refused"]
    assert len(kpi.by("1h")) == 0
    assert "conversion           -" in repr(kpi)


def test_figures_add_up(sandbox: Sandbox) -> None:
    sandbox.receiver("shop").answers([500])
    busy(sandbox, behaviours="choice(pays:2, never:1)", callbackUrl=HOOK, count=30, amount=5_000)
    sandbox.run()
    kpi = Kpi(sandbox.world)
    assert kpi.created == 30 == kpi.completed + kpi.expired
    assert kpi.conversion == kpi.completed / 30
    assert kpi.received_msat == 5_000 * kpi.completed
    assert kpi.payments == kpi.completed == kpi.attempts
    assert kpi.paid_share == 1.0
    assert (kpi.settle_s(), kpi.settle_s(0), kpi.settle_s(1.0)) == (3.0, 3.0, 3.0)
    assert kpi.callbacks == 30
    assert kpi.delivered_share == 1.0
    assert kpi.callback_attempts == 31
    assert kpi.fees_msat == kpi.errors == kpi.refused == 0


def test_while_charges_are_pending_only_those_past_their_expiry_count(sandbox: Sandbox) -> None:
    busy(sandbox, "every(10s)", expiresIn=60, count=2)
    kpi = Kpi(sandbox.world)
    sandbox.advance("21s")
    assert (kpi.created, kpi.pending, isnan(kpi.conversion)) == (2, 1, True)
    sandbox.advance("2s")
    assert (kpi.pending, kpi.conversion) == (0, 1.0)  # nobody waits: everything is known
    busy(sandbox, "every(1s)", expiresIn=60, behaviours="never", count=1)
    sandbox.advance_to("2030-01-01T09:01:09.999Z")
    assert (kpi.pending, isnan(kpi.conversion)) == (1, True)
    sandbox.advance("1ms")
    assert (kpi.pending, kpi.conversion) == (1, 1.0)
    sandbox.run()
    assert (kpi.pending, kpi.conversion) == (0, 2 / 3)


def test_conversion_in_the_middle_of_traffic_is_not_too_high(sandbox: Sandbox) -> None:
    busy(sandbox, "30/min", behaviours="choice(pays:1, never:1)", expiresIn=600, count=None)
    sandbox.advance("20m")
    assert Kpi(sandbox.world).conversion == pytest.approx(0.5, abs=0.06)


def test_windows_partition_the_charges(sandbox: Sandbox) -> None:
    busy(sandbox, "every(1m)", count=30, callbackUrl=HOOK)
    sandbox.run()
    kpi = Kpi(sandbox.world)
    table = kpi.by("10m")
    assert list(table["created"]) == [9, 10, 10, 1]
    assert str(table.index[0]) == "2030-01-01 09:00:00+00:00"
    for name in ("created", "completed", "payments", "attempts", "callbacks", "received_msat"):
        assert table[name].sum() == getattr(kpi, name)
    edge = kpi.between(DAY + 9 * 3_600_000 + 60_000, DAY + 9 * 3_600_000 + 120_000)
    assert edge.created == 1  # the first instant belongs to the window, the last one to the next
    with pytest.raises(ValueError, match="more than 0"):
        kpi.by("0s")


@pytest.mark.parametrize("span", ["1ms", "7s", "1m", "10m", "1h", 30.5])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_table_of_windows_has_the_figures_of_each_window(seed: int, span: Any) -> None:
    with Sandbox(seed=seed) as sandbox:
        habits = "choice(pays:5, late:1, never:1, twice:1, underpays:1, holds:1, fails:1)"
        last = "2s" if span == "1ms" else "20m"
        gap = "every(300ms)" if span == "1ms" else "every(45s)"
        busy(sandbox, gap, behaviours=habits, amount="lognorm(9000)", callbackUrl=HOOK, count=None, duration=last)
        sandbox.receiver("shop").answers([500, 500, 200])
        sandbox.advance("17m")
        rows = list(sandbox.world.service.charges.charges)
        since = rows[len(rows) // 2]["created_at"]
        for kpi in (sandbox.kpi, sandbox.kpis(since=since), sandbox.kpis(since=since, until=since + 90_000)):
            windows = list(kpi.windows(span))
            expected = [{name: value for name, value in one.row().items() if name != "refused"} for _, one in windows]
            table = kpi.by(span)
            assert [int(each.timestamp() * 1_000) for each in table.index] == [start for start, _ in windows]
            assert repr(table.to_dict("records")) == repr(expected) or not windows


@pytest.mark.parametrize("span", ["1ms", "10ms"])
def test_a_table_of_too_many_windows_is_refused(sandbox: Sandbox, span: str) -> None:
    busy(sandbox, "every(10m)", count=3)
    sandbox.run()
    for method in (sandbox.kpi.by, lambda each: next(iter(sandbox.kpi.windows(each)))):
        with pytest.raises(ValueError, match=f"span='{span}' makes [0-9]+ windows"):
            method(span)  # type: ignore[operator]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30), st.floats(0, 1))
def test_a_quantile_is_between_its_values(values: list[float], q: float) -> None:
    assert min(values) <= quantile(values, q) <= max(values) + 1e-6
    assert quantile(values, 0) == min(values)
    assert quantile(values, 1) == max(values)


@pytest.mark.parametrize("q", [-0.1, 1.1, 95])
def test_a_percentage_is_refused_as_a_quantile(q: float) -> None:
    with pytest.raises(ValueError, match=r"0\.95"):
        quantile([1.0], q)


def test_a_rate_limit_refuses_customers(sandbox: Sandbox) -> None:
    sandbox.faults.add("rate_limit", count=2)
    customers = busy(sandbox, count=5)
    sandbox.run()
    assert (customers.arrived, customers.refused, len(sandbox.charges)) == (5, 2, 3)
    assert {entry.facts["status"] for entry in sandbox.world.journal.entries(kind="customer_refused")} == {429}


def test_traffic_uses_the_valid_api_key(sandbox: Sandbox) -> None:
    customers = busy(sandbox, count=4)
    sandbox.advance("20s")
    with sandbox.world.exclusive():
        sandbox.world.service.projects.rotate_key("default", "another-key")
    sandbox.run()
    assert (customers.arrived, customers.refused) == (4, 0)


@pytest.mark.parametrize("expires", ["uniform(0s, 600ms)", "normal(1s, 10s)", "exp(1ms)", "lognorm(0s, 1)"])
def test_a_drawn_expiry_is_at_least_a_second_because_0_is_the_default(sandbox: Sandbox, expires: str) -> None:
    customers = busy(sandbox, expiresIn=expires, behaviours="never", count=50)
    sandbox.run()
    assert (customers.arrived, customers.refused) == (50, 0)
    charges = sandbox.world.service.charges.charges
    spans = {(row["expires_at"] - row["created_at"]) // 1_000 for row in charges}
    assert min(spans) == 1
    assert max(spans) < 100


@pytest.mark.parametrize("expires", [0, "0s", 0.4, "999ms", "choice(0s:1, 60s:1)", "-1s"])
def test_an_expiry_below_a_second_is_refused(sandbox: Sandbox, expires: Any) -> None:
    with pytest.raises(DistributionError, match="expiresIn"):
        busy(sandbox, expiresIn=expires)


@pytest.mark.parametrize("amount", [250000.5, "250000.5", "0.0005sat", "choice(1000:1, 1000.5:1)", "exp(1.5)"])
def test_an_amount_that_is_not_whole_is_refused_as_by_a_wallet(sandbox: Sandbox, amount: Any) -> None:
    with pytest.raises(DistributionError, match="not rounded"):
        busy(sandbox, amount=amount)


@pytest.mark.parametrize(
    ("amount", "msat"), [(5000.0, 5_000), ("5.5sat", 5_500), ("1e5", 100_000), ("1_000", 1_000), ("250sat", 250_000)]
)
def test_a_whole_amount_may_be_written_in_several_forms(amount: Any, msat: int) -> None:
    assert msat_distribution(amount) == ["const", msat]
