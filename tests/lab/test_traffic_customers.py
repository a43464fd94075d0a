"""Customers who pay Static Charges and Lightning addresses, who come back, and payers of unequal weight."""

from __future__ import annotations

import inspect
import json
from collections import Counter
from copy import deepcopy
from itertools import pairwise
from math import isnan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.errors import DistributionError, ForkError
from leyden.lab.traffic import traffic
from leyden.server.errors import InternalError
from tests.support.deep import deep

HOOK = "http://shop.localhost/paid"


def tips(sandbox: Sandbox, least: int = 1_000, most: int = 9_000, **fields: Any) -> Any:
    return sandbox.static_charges.create(minAmount=str(least), maxAmount=str(most), description="Tips", **fields)


def visits(sandbox: Sandbox) -> list[dict[str, Any]]:
    kinds = ("customer_arrived", "customer_refused")
    entries = [entry for entry in sandbox.world.journal.entries() if entry.kind in kinds]
    return [{"at_ms": entry.at_ms, "kind": entry.kind, **entry.facts} for entry in entries]


# Static Charges, LNURLs and Lightning addresses


@pytest.mark.parametrize("form", ["object", "id", "lnurl", "uri", "address"])
def test_customers_pay_what_to_names(sandbox: Sandbox, form: str) -> None:
    code = tips(sandbox, callbackUrl=HOOK, identifier="tips@leyden.localhost")
    forms = {"object": code, "id": code.id, "lnurl": code.request, "uri": f"lightning:{code.request}",
             "address": "tips@leyden.localhost"}  # fmt: skip
    customers = sandbox.traffic("every(1m)", to=forms[form], amount=[2_000, 3_000], patience=None, payers=3, count=8)
    sandbox.run()
    assert (customers.arrived, customers.refused, code.slots) == (8, 0, 8)
    assert {charge.data["staticChargeId"] for charge in sandbox.charges} == {code.id}
    assert set(sandbox.charges.table["amount_msat"]) == {2_000, 3_000}
    assert len(sandbox.receiver("shop").inbox) == 8
    assert (sandbox.kpi.created, sandbox.kpi.completed, sandbox.kpi.payments) == (8, 8, 8)
    names: dict[str, Any] = {}
    exec(sandbox.script(), names)
    assert names["sb"].journal_hash == sandbox.journal_hash


def test_a_script_names_the_static_charge_by_its_variable(sandbox: Sandbox) -> None:
    sandbox.traffic("every(1m)", to=tips(sandbox), count=2)
    assert 'sb.traffic("every(1m)", to=code1.id, count=2)' in sandbox.script()


def test_without_an_amount_it_is_the_only_one_or_the_default_within_the_bounds(sandbox: Sandbox) -> None:
    fixed, free = tips(sandbox, 7_000, 7_000), tips(sandbox, 100_000, 900_000)
    for code in (fixed, free):
        sandbox.traffic("every(1m)", to=code, count=20)
    sandbox.run()
    found = sandbox.charges.table.groupby("static_charge_id")["amount_msat"]
    assert set(found.get_group(fixed.id)) == {7_000}
    assert found.get_group(free.id).between(100_000, 900_000).all()
    assert found.get_group(free.id).nunique() > 5


def test_amounts_outside_the_bounds_and_a_full_static_charge_are_refused(sandbox: Sandbox) -> None:
    code = tips(sandbox, allowedSlots=3)
    customers = sandbox.traffic("every(10m)", to=code, amount=[2_000, 10_000], patience=None, count=30)
    sandbox.run()
    assert code.slots == 3
    assert customers.refused == 30 - len(sandbox.charges) == sandbox.kpi.refused
    reasons = {each["reason"] for each in visits(sandbox) if each["kind"] == "customer_refused"}
    assert any("out of range" in reason for reason in reasons)
    assert any("slot" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("behaviour", "outcomes"),
    [("late", ["INCORRECT_PAYMENT_DETAILS"]), ("never", []), ("twice", ["SUCCEEDED", "INCORRECT_PAYMENT_DETAILS"])],
)
def test_customers_of_a_static_charge_have_behaviours_too(
    sandbox: Sandbox, behaviour: str, outcomes: list[str]
) -> None:
    sandbox.traffic("every(1m)", to=tips(sandbox), behaviours=behaviour, think_time=3, patience=None, count=1)
    sandbox.run()
    assert list(sandbox.payments["outcome"]) == outcomes


def test_a_service_that_fails_is_no_refusal_of_an_invoice(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(order: object) -> None:
        raise RuntimeError

    customers = sandbox.traffic("every(1s)", to=tips(sandbox), count=3)
    with monkeypatch.context() as defect:
        defect.setattr(sandbox.world.node, "issue", failing)
        with pytest.raises(InternalError, match="customer of the traffic stream 1 got no invoice"):
            sandbox.run()
    assert (customers.arrived, customers.refused) == (0, 0)
    sandbox.run()
    assert (customers.arrived, customers.refused, len(sandbox.charges)) == (3, 0, 3)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"to": 5}, "to: 5 cannot be paid"),
        ({"to": "tips"}, "to: 'tips' is neither"),
        ({"to": "nobody@leyden.localhost"}, "to: nobody can pay nobody@leyden.localhost"),
        ({"to": "lnurl1abc"}, "to: nobody can pay lnurl1abc"),
        ({"callbackUrl": HOOK}, "callbackUrl: a Static Charge has its own"),
        ({"expiresIn": 60}, "expiresIn: a Static Charge has its own"),
        ({"description": "x"}, "description: a Static Charge has its own"),
        ({"amount": None}, "give one from 1000 to 9000 msat"),
    ],
)
def test_what_cannot_be_paid_is_refused_at_the_start(sandbox: Sandbox, how: dict[str, Any], words: str) -> None:
    code = tips(sandbox)
    with pytest.raises(DistributionError) as refused:
        sandbox.traffic("1/min", **{"to": code, **how})
    assert words in str(refused.value)
    charge = sandbox.charges.create(amount="1000", description="tea")
    with pytest.raises(DistributionError, match="an invoice is paid once"):
        sandbox.traffic("1/min", to=charge.request)
    assert not list(sandbox.world.traffic.rows)


# Customers who return


def returning(seed: int = 3, **how: Any) -> Sandbox:
    sandbox = Sandbox(seed=seed)
    usual = {"returning": 0.5, "return_after": "exp(2h)", "count": 200, "patience": None, "duration": "30d"}
    sandbox.traffic("every(1m)", **{**usual, **how})
    sandbox.run()
    return sandbox


def test_a_share_of_the_visits_is_followed_by_another_one() -> None:
    sandbox = returning()
    [row] = sandbox.world.traffic.rows
    assert row["arrived"] == 200
    assert row["returned"] / (row["arrived"] + row["returned"]) == pytest.approx(0.5, abs=0.06)
    found = visits(sandbox)
    assert len(found) == row["arrived"] + row["returned"] == sandbox.kpi.created
    by_customer: dict[int, list[dict[str, Any]]] = {}
    for each in found:
        by_customer.setdefault(each["number"], []).append(each)
    gaps = []
    for several in by_customer.values():
        assert [each.get("visit", 1) for each in several] == list(range(1, len(several) + 1))
        assert len({each["payer"] for each in several}) == 1
        gaps += [after["at_ms"] - before["at_ms"] for before, after in pairwise(several)]
    assert sum(gaps) / len(gaps) == pytest.approx(7_200_000, rel=0.2)
    assert len({charge.data["internalId"] for charge in sandbox.charges}) == len(found)


def test_new_customers_are_the_same_whether_some_return_or_not() -> None:
    def first(sandbox: Sandbox) -> list[Any]:
        return [each for each in visits(sandbox) if "visit" not in each]

    assert first(returning(returning=0)) == first(returning()) == first(returning(return_after=[60, 90]))


def test_nobody_returns_at_the_end_of_the_duration_or_after_a_stop() -> None:
    ended = returning(duration="3h", returning=0.9)
    assert max(each["at_ms"] for each in visits(ended)) < ended.world.traffic.rows.existing("1")["ends_at"]
    stopped = Sandbox(seed=3)
    customers = stopped.traffic("every(1m)", returning=0.9, return_after="1h", count=20)
    stopped.advance("90m")
    before = customers.returned
    customers.stop()
    stopped.run()
    assert customers.returned == before > 0
    assert not list(stopped.world.traffic.returns)
    assert len(stopped.world.journal.entries(kind="traffic_ended")) == 1


def test_a_stream_ends_with_the_last_return() -> None:
    sandbox = returning(count=5)
    [ended] = sandbox.world.journal.entries(kind="traffic_ended")
    assert ended.at_ms == max(each["at_ms"] for each in visits(sandbox))
    assert ended.facts["arrived"] == 5
    assert "returned" in repr(sandbox.session.world.traffic.rows.existing("1"))


@deep("test_counts_and_figures_are_those_of_the_rows")
def test_a_saved_sandbox_with_lists_or_customers_that_miss_is_refused() -> None:
    sandbox = Sandbox(seed=3)
    sandbox.traffic(["1/min", {"2030-01-01T00:00Z": 9}], amount=[1_000, 2_000], returning=0.9, payers="zipf(3)")
    sandbox.advance("1h")
    snapshot = json.loads(json.dumps(sandbox.snapshot()))
    Sandbox.from_snapshot(deepcopy(snapshot))
    assert len(snapshot["tables"]["traffic_values"]["rows"]) == 3

    def changed(table: str, place: int, **fields: Any) -> dict[str, Any]:
        copy: dict[str, Any] = deepcopy(snapshot)
        copy["tables"][table]["rows"][place][1] |= fields
        return copy

    [amounts, payers, rates] = [
        next(place for place, (_, row) in enumerate(snapshot["tables"]["traffic_values"]["rows"]) if row["id"] == name)
        for name in ("1/amount", "1/payer", "1/rate/1")
    ]
    for wrong in (
        changed("traffic_values", amounts, id="1/other"),
        changed("traffic_values", amounts, values=["a"]),
        changed("traffic_values", payers, places=[1.0]),
        changed("traffic_values", rates, values=[-1.0]),
        changed("traffic_values", rates, places=None),
        changed("traffic_returns", 0, traffic="7"),
        changed("traffic_returns", 0, visit=1),
    ):
        with pytest.raises(ForkError, match="traffic"):
            Sandbox.from_snapshot(wrong)


# Payers, and the network behind them


def test_nodes_of_a_network_pay_with_weights() -> None:
    with Sandbox(seed=3, network="star:5") as sandbox:
        sandbox.traffic("every(1m)", payers={"n1": 8, "n2": 1}, count=60)
        sandbox.run()
        counted = Counter(sandbox.payments["payer"])
        assert set(counted) == {"n1", "n2"}
        assert counted["n1"] > 4 * counted["n2"]
        assert sandbox.network["n1"].name == sandbox.network.wallet("n1").name


# Help, completion, and figures


def test_the_method_has_the_parameters_of_the_function() -> None:
    method = inspect.signature(Sandbox.traffic).parameters
    function = inspect.signature(traffic).parameters
    assert list(method)[1:] == list(function)[1:]
    for name in list(method)[1:]:
        assert method[name].default == function[name].default
        assert method[name].kind == function[name].kind
        assert name in str(Sandbox.traffic.__doc__) or name in ("callbackUrl", "description")
        assert name in str(traffic.__doc__)


@given(
    seed=st.integers(0, 999),
    share=st.sampled_from([0, 0.5]),
    is_static=st.booleans(),
    moved=st.sampled_from(["7m", "2h"]),
)
def test_counts_and_figures_are_those_of_the_rows(seed: int, share: float, is_static: bool, moved: str) -> None:
    with Sandbox(seed=seed) as sandbox:
        sandbox.receiver("shop").behaves(failure=0.3)
        where: dict[str, Any] = {"callbackUrl": HOOK, "expiresIn": "choice(60, 600)"}
        if is_static:
            where = {"to": tips(sandbox, callbackUrl=HOOK, allowedSlots=20)}
        customers = sandbox.traffic(
            "weekly(2/min, tue:1, sat:2) + burst(3, 5m)", amount="pareto(900, 1.5, 9500)", duration="15m",
            behaviours={"pays": 6, "late": 1, "never": 1, "twice": 1, "overpays": 1}, returning=share,
            return_after="weibull(2m, 0.7)", payers="zipf(4)", **where,
        )  # fmt: skip
        sandbox.advance(moved)
        charges, payments, deliveries = sandbox.charges.table, sandbox.payments, sandbox.deliveries
        kpi, seen = sandbox.kpi, visits(sandbox)
        assert len(seen) == customers.arrived + customers.returned
        assert customers.refused == kpi.refused == sum(each["kind"] == "customer_refused" for each in seen)
        assert kpi.created == len(charges) == len(seen) - customers.refused
        paid = charges[charges["status"] == "completed"]
        assert (kpi.completed, kpi.expired) == (len(paid), sum(charges["status"] == "expired"))
        assert kpi.received_msat == paid["received_msat"].sum()
        assert kpi.payments == len(payments)
        ended = payments["outcome"].dropna()
        assert (isnan(kpi.paid_share) and not len(ended)) or kpi.paid_share == (ended == "SUCCEEDED").mean()
        assert kpi.callbacks == len(deliveries)
        assert kpi.callback_attempts == len(sandbox.callbacks)
        by_window = kpi.by("3m")
        for name in ("created", "completed", "payments", "callbacks", "received_msat"):
            assert by_window[name].sum() == getattr(kpi, name)
