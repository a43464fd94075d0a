"""Arguments of the Python API: a wrong one is refused at once, by an error that names it and the mend."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leyden import Sandbox, sweep
from leyden.errors import ClosedError, DistributionError, GraphError, InterceptError
from leyden.lab.traffic import traffic
from leyden.lightning.topology.generate import SHAPES

# The call, the error, and two texts of its message: the value and the mend.
Case = tuple[Callable[[Sandbox, Any], Any], type[Exception], str, str]
REFUSED: dict[str, Case] = {
    "rule, event": (
        lambda sb, _: sb.receiver("shop").when(500, event="charge.complete"),
        ValueError,
        "'charge.complete'",
        "did you mean 'charge.completed'?",
    ),
    "rule, charge": (lambda sb, _: sb.receiver("shop").when(500, charge="nosuch"), ValueError, "'nosuch'", "its id"),
    "rule, number": (lambda sb, _: sb.receiver("shop").when(500, charge=5), ValueError, "charge=5", "its id"),
    "fault, charge": (lambda sb, _: sb.faults.add("duplicate", charge="nosuch"), ValueError, "'nosuch'", "its id"),
    "interceptor, payment": (
        lambda sb, _: sb.network.intercept("drop", payment="nosuch"),
        InterceptError,
        "'nosuch'",
        "its id",
    ),
    "interceptor, hop": (lambda sb, _: sb.network.intercept("drop", hop=99), InterceptError, "99", "at most 20"),
    "interceptor, text": (lambda sb, _: sb.network.intercept("drop", hop="1"), InterceptError, "hop='1'", "hop=1"),
    "interceptor, times": (lambda sb, _: sb.network.intercept("drop", times=True), InterceptError, "True", "times=1"),
    **{
        f"receiver {name!r}": (
            lambda sb, _, name=name: sb.receiver(name),
            ValueError,
            repr(name)[:60],
            f'receiver("{mend}")',
        )
        for name, mend in (
            ("", "shop"),
            (None, "shop"),
            (5, "shop"),
            ("a b", "a-b"),
            ("shop/paid", "shop"),
            ("http://shop.localhost", "shop"),
            ("http://shop.localhost/p", "shop"),
            ("a" * 64, "a" * 63),
            ("a..b", "a.b"),
            ("-.-", "shop"),
            ("a-.b", "a.b"),
            (".".join(["a" * 63] * 4), "shop"),
        )
    },
    **{
        f"wallet {name!r}": (lambda sb, _, name=name: sb.wallet(name), ValueError, repr(name), 'wallet("ana")')
        for name in ("", " ", None, 5)
    },
    "network wallet": (lambda sb, _: sb.network.wallet(""), ValueError, "''", 'wallet("ana")'),
    **{
        f"pay {amount!r}": (
            lambda sb, charge, amount=amount: sb.wallet("ana").pay(charge, amount=amount),
            ValueError,
            repr(amount),
            "whole millisatoshis",
        )
        for amount in (True, "1e3", " 5", "5.0", 5.0)
    },
    "rebalance": (lambda sb, _: sb.network["shop"].rebalance(True), ValueError, "True", "whole millisatoshis"),
    "open_channel": (
        lambda sb, _: sb.network["n1"].open_channel("shop", 5.0),
        ValueError,
        "capacity=5.0",
        "whole millisatoshis",
    ),
    "attribute": (lambda sb, _: setattr(sb, "labels", 3), AttributeError, "labels", "did you mean label?"),
    "property": (lambda sb, _: setattr(sb, "label", 3), AttributeError, "label", "not set"),
    "collection": (lambda sb, _: sb.chargs, AttributeError, "chargs", "did you mean charges?"),
    "figure set": (lambda sb, _: setattr(sb.kpi, "create", 3), AttributeError, "create", "did you mean created?"),
    "figure read": (lambda sb, _: sb.kpi.convertion, AttributeError, "convertion", "did you mean conversion?"),
    "advance": (lambda sb, _: sb.advance("0.0001s"), ValueError, "'0.0001s'", "1ms"),
    "run": (lambda sb, _: sb.run(0.0001), ValueError, "0.0001", "1ms"),
    "advance_to": (lambda sb, _: sb.advance_to(1893488400), ValueError, "1893488400", "1893488400000"),
    "kpis, seconds": (lambda sb, _: sb.kpis(since=1893488400), ValueError, "1893488400", "1893488400000"),
    "kpis": (
        lambda sb, _: sb.kpis(since="2030-01-02T00:00:00Z", until="2030-01-01T00:00:00Z"),
        ValueError,
        "2030-01-01",
        "exchange them",
    ),
    "traffic": (lambda sb, _: sb.traffic(callbackUrl="shop"), DistributionError, "'shop'", "http://shop.localhost"),
    "traffic, text": (lambda sb, _: sb.traffic(description=5), DistributionError, "description", "5"),
    **{
        f"seed {seed!r}": (lambda sb, _, seed=seed: Sandbox(seed), ValueError, repr(seed), "from 0")
        for seed in ("7", 7.0, True, -1, 2**53)
    },
    "reseed": (lambda sb, _: sb.fork(reseed="7"), ValueError, "'7'", "from 0"),
    "node": (lambda sb, _: sb.network[5], GraphError, "5", '"shop"'),
    "drain": (lambda sb, _: sb.network["shop"].drain(inbound="50%"), ValueError, "'50%'", "inbound=0.98"),
    "quantile": (lambda sb, _: sb.kpi.settle_s("p95"), ValueError, "'p95'", "0.95"),
    "answers 500": (lambda sb, _: sb.receiver("shop").answers(500), ValueError, "500", "answers([500])"),
    "answers text": (lambda sb, _: sb.receiver("shop").answers("reset"), ValueError, "'reset'", "answers(['reset'])"),
    "column": (lambda sb, _: sb.charges["status"], TypeError, "'status'", "sb.charges.table['status']"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_argument_is_refused_and_changes_nothing(name: str) -> None:
    call, error, value, mend = REFUSED[name]
    with Sandbox(network="line:4") as sandbox:
        charge = sandbox.charges.create(amount="1000", description="tea")
        before, lines = sandbox.journal_hash, sandbox.script()
        with pytest.raises(error) as refused:
            call(sandbox, charge)
        assert value in str(refused.value)
        assert mend in str(refused.value)
        assert (sandbox.journal_hash, sandbox.script()) == (before, lines)


def test_what_is_right_in_several_forms_is_taken() -> None:
    sandbox = Sandbox()
    assert (sandbox.advance("0s"), sandbox.advance_to("2020-01-01T00:00:00Z")) == ([], [])
    with Sandbox(seed=np.int64(7), network="line:4") as sandbox, Sandbox(seed=7, network="line:4") as other:
        charges = [one.charges.create(amount="1000", description="tea") for one in (sandbox, other)]
        assert charges[0] == charges[1]
        assert sandbox.wallet("ana").pay(charges[0], amount="1000").row["amount_msat"] == 1000
        assert other.wallet("ana").pay(charges[1], amount=np.int64(1000)).row["amount_msat"] == 1000
        assert sandbox.journal_hash == other.journal_hash
        assert sandbox.receiver("Shop.localhost").when(500, charge=charges[0]).rules[0]["charge"] == charges[0].id
        assert sandbox.kpis(since=sandbox.now, until=sandbox.now).created == 0


def test_a_rule_of_an_unknown_event_is_refused_over_http_too(sandbox: Sandbox) -> None:
    body = {"rules": [{"say": 500, "event": "charge.complete"}]}
    answer = sandbox.request("PUT", "/sandbox/v1/inboxes/shop/script", body)
    assert answer.status == 409
    assert b"charge.completed" in answer.body


@pytest.mark.parametrize("kept", [False, True])
def test_a_closed_sandbox_says_so(kept: bool, tmp_path: Path) -> None:
    sandbox = Sandbox(data=tmp_path if kept else None)
    charge = sandbox.charges.create(amount="1000", description="tea")
    sandbox.close()
    sandbox.close()
    uses: list[Callable[[], Any]] = [
        lambda: sandbox.now,
        lambda: sandbox.run(),
        lambda: sandbox.charges.create(amount="1000", description="tea"),
        lambda: len(sandbox.charges),
        lambda: sandbox.kpi,
        lambda: charge.status,
        lambda: sandbox.receiver("shop"),
        lambda: sandbox.wallet("ana"),
        lambda: sandbox.action_log,
        lambda: sandbox.app,
        lambda: sandbox.__enter__(),
        lambda: sandbox.label,
        lambda: sandbox.serve(),
        lambda: sandbox.set_egress("none"),
        lambda: sandbox.snapshot(),
        lambda: sandbox.save(tmp_path / "saved.json"),
        lambda: sandbox.http.get("/v0/charges"),
        lambda: sandbox.fork(),
    ]
    for use in uses:
        with pytest.raises(ClosedError, match="closed"):
            use()
    assert repr(sandbox) == "Sandbox(closed)"


def test_every_receiver_name_is_a_host_that_a_charge_can_call(sandbox: Sandbox) -> None:
    for name in ("a", "a_b", "a" * 63, ".".join(["a" * 60] * 4)[:243].rstrip(".")):
        receiver = sandbox.receiver(name)
        charge = sandbox.charges.create(
            amount="1000", description="tea", callbackUrl=f"http://{receiver.name}.localhost/paid"
        )
        sandbox.wallet("ana").pay(charge)
        sandbox.run("1m")
        assert len(receiver.inbox) == 1


def test_numbers_of_numpy_are_numbers(sandbox: Sandbox) -> None:
    start = sandbox.world.clock.now()
    for span in (np.int64(60), np.float64(60), np.float32(60), np.uint8(60)):
        sandbox.advance(span)
    assert sandbox.world.clock.now() == start + 240_000
    sandbox.advance_to(np.int64(start + 300_000))
    assert sandbox.world.clock.now() == start + 300_000
    assert sandbox.run(events=np.int64(0)) == []


@pytest.mark.parametrize("start", ["1960-01-01T00:00:00Z", "1970-06-01T00:00:00Z", "3000-01-01T00:00:00Z", -1, 2**80])
def test_a_start_outside_the_years_of_the_clock_names_these_years(start: Any) -> None:
    with pytest.raises(ValueError, match="from 1971 to the end of 2999"):
        Sandbox(start=start)


@pytest.mark.parametrize(("value", "mend"), [("\ud800", "surrogate"), (10**30, "64 bits"), (object(), "not JSON")])
def test_a_field_without_json_form_says_why(sandbox: Sandbox, value: Any, mend: str) -> None:
    with pytest.raises(TypeError, match=f"description=.*{mend}"):
        sandbox.charges.create(amount="1000", description=value)


@pytest.mark.parametrize("copied", [copy.deepcopy, pickle.dumps])
def test_what_belongs_to_a_sandbox_says_how_it_is_copied(sandbox: Sandbox, copied: Callable[[Any], Any]) -> None:
    charge = sandbox.charges.create(amount="1000", description="tea")
    for each in (
        sandbox,
        charge,
        sandbox.charges,
        sandbox.kpi,
        sandbox.wallet("ana"),
        sandbox.wallet("ana").pay(charge),
    ):
        with pytest.raises(TypeError, match=r"fork\(\), or keep it with save"):
            copied(each)
    with pytest.raises(TypeError, match=r"^a sandbox cannot be copied or pickled: copy the sandbox with fork\(\)"):
        copy.copy(sandbox)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda sb: sb.traffic(expires_in=5), "traffic() has no argument expires_in: did you mean expiresIn?"),
        (lambda sb: traffic(sb.world, thinktime=5), "traffic() has no argument thinktime: did you mean think_time?"),
        (lambda sb: sb.wallet("a").pay("", amount_msat=5), "pay() has no argument amount_msat: did you mean amount?"),
        (lambda sb: sb.receiver("shop").behaves(fail=1), "behaves() has no argument fail: did you mean failure?"),
        (lambda sb: sb.receiver("shop").when(200, events="x"), "when() has no argument events: did you mean event?"),
        (lambda sb: sb.run(timeout=1), "run() has no argument timeout: its arguments are until, events, spill"),
        (lambda sb: sb.advance(span=1), "advance() has no argument span: its argument is by"),
        (lambda sb: sb.step(count=1), "step() has no argument count: leave it out"),
        (lambda sb: sb.kpis(to=1), "kpis() has no argument to: its arguments are since, until"),
        (lambda sb: sb.plot.conversion(axes=1), "conversion() has no argument axes: did you mean ax?"),
        (lambda sb: sb.fork(seed=1), "fork() has no argument seed: did you mean reseed?"),
        (lambda _: Sandbox(sead=1), "Sandbox() has no argument sead: did you mean seed?"),
        (lambda _: Sandbox.load("x", labels="x"), "load() has no argument labels: did you mean label?"),
        (lambda _: sweep(len, [], replication=2), "sweep() has no argument replication: did you mean replications?"),
        (lambda sb: sb.faults.add("drop", counts=1), "a fault has no field counts: did you mean count?"),
        (lambda sb: sb.service_faults.add("x", counts=1), "a service fault has no field counts: did you mean count?"),
        (lambda sb: sb.payers.add(delays="1s"), "a payer has no field delays: did you mean delay?"),
    ],
)  # fmt: skip
def test_an_argument_that_a_call_does_not_have_names_the_nearest_one(
    sandbox: Sandbox, call: Callable[[Sandbox], Any], words: str
) -> None:
    with pytest.raises(TypeError) as error:
        call(sandbox)
    assert str(error.value) == words


@pytest.mark.parametrize("name", ["count", "attempt", "nth", "status"])
@pytest.mark.parametrize("wrong", ["3", "", 3.0, True, "many"])
def test_a_whole_number_of_a_fault_is_a_number(sandbox: Sandbox, name: str, wrong: Any) -> None:
    calls: list[Callable[..., Any]] = [lambda **given: sandbox.service_faults.add("error", **given)]
    if name in ("count", "attempt"):
        calls = [
            lambda **given: sandbox.faults.add("drop", **given),
            lambda **given: sandbox.receiver("x").when(500, **given),
        ]
    if name == "count":
        calls += [lambda **given: sandbox.service_faults.add("error", **given), sandbox.payers.add]
    for call in calls:
        with pytest.raises(ValueError, match=f"{name}.*(whole number|choose one of)"):
            call(**{name: wrong})
    assert [*sandbox.faults, *sandbox.service_faults, *sandbox.payers] == []


def test_a_whole_number_of_a_fault_may_be_one_of_numpy(sandbox: Sandbox) -> None:
    fault = sandbox.faults.add("drop", count=np.int64(3), attempt=np.int32(2))
    service_fault = sandbox.service_faults.add("error", count=np.int64(3), nth=np.int8(2))
    payer = sandbox.payers.add(count=np.int64(3))
    sandbox.receiver("shop").when(500, count=np.int64(3))
    kinds = [type(row[name]) for row, name in ((fault, "attempt"), (service_fault, "nth"), (payer, "count"))]
    assert kinds == [int] * 3
    names: dict[str, Any] = {}
    exec(sandbox.script(), names)
    assert names["sb"].journal_hash == sandbox.journal_hash


def test_a_text_of_digits_is_no_number_of_wallets(sandbox: Sandbox) -> None:
    with pytest.raises(
        DistributionError, match=r"payers: '3' is a text: write 3 for that many wallets, or choice\(3\)"
    ):
        sandbox.traffic(payers="3")
    assert sandbox.traffic(payers="choice(3)", count=1).arrived == 0


@pytest.mark.parametrize("wrong", ["mesh:5", "star", "hub:many", "", "graph.txt", 5, ["hub:30"]])
def test_a_wrong_network_names_every_form_at_once(wrong: Any) -> None:
    with pytest.raises(ValueError, match="is not a network") as error:
        Sandbox(network=wrong)
    forms = ["direct", *(f"{shape}:N" for shape in SHAPES), "star:12,ideal", "graph.json", "Graph"]
    assert [form for form in forms if form not in str(error.value)] == []
