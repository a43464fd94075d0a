"""Numbers of any size: a call refuses one, or the sandbox can be run, read, drawn, saved and scripted after it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.arguments import ALL_MSAT, MAX_COUNT
from leyden.callbacks.replies import Reply
from leyden.errors import DistributionError, InterceptError, LeydenError
from leyden.lab.table_rows import TABLES
from tests.support.deep import deep_except

NUMBERS = (10**308, 10**30, 2**63, 2**63 - 1, MAX_COUNT, ALL_MSAT, ALL_MSAT + 1, 0, -1, -(2**63), 5.5)
SPANS = (10**30, 1e308, "2932896d", 253402300799.999, "365250d", timedelta.max, "0s", 0, -1, "-1h", timedelta.min)
SPREADS = (
    "lognorm(1d, 50)",
    "lognorm(0s, 1000)",
    "exp(365250d)",
    "exp(2932896d)",
    "normal(1d, 365250d)",
    "normal(0s, 5s)",
)
AMOUNTS = ("lognorm(5000, 50)", "lognorm(5000, 1000)", "normal(5000, 1e18)", "uniform(1e300, 1e305)", "exp(1e308)",
           "exp(2e18)", "choice(1e300:1)", "choice(5000:1e308, 6000:1e308)", "1e400", 1e300)  # fmt: skip
RATES = ("every(2932896d)", "every(365250d)", "1/365250d", "0.00000000000000000001/d", f"{'9' * 400}/s",
         f"0.{'0' * 400}1/d", f"burst({'9' * 30}, 1d)", f"burst({'9' * 5000}, 1d)", "daily(1/365250d, 8:1)",
         "daily(1/d, 8:1e-300)")  # fmt: skip


def charge(sb: Sandbox) -> Any:
    return sb.charges.create(amount="1000", description="tea", callbackUrl="http://shop.localhost/p")


def static(sb: Sandbox) -> Any:
    return sb.static_charges.create(minAmount="1000", maxAmount="9000", description="tea")


CALLS: dict[str, tuple[tuple[Any, ...], Callable[[Sandbox, Any], Any]]] = {
    "pay amount": (NUMBERS, lambda sb, v: sb.wallet("ana").pay(charge(sb), amount=v)),
    "scan amount": (NUMBERS, lambda sb, v: sb.wallet("ana").scan(static(sb), amount=v)),
    "pay delay": (SPANS, lambda sb, v: sb.wallet("ana").pay(charge(sb), delay=v)),
    "scan delay": (SPANS, lambda sb, v: sb.wallet("ana").scan(static(sb), amount=1000, delay=v)),
    "expiresIn": (NUMBERS, lambda sb, v: sb.charges.create(amount="1000", description="tea", expiresIn=v)),
    "allowedSlots": (NUMBERS, lambda sb, v: static(sb).update(allowedSlots=v)),
    "advance": (SPANS, lambda sb, v: sb.advance(v)),
    "run": (SPANS, lambda sb, v: sb.run(v)),
    "events": (NUMBERS, lambda sb, v: sb.run(events=v)),
    "advance_to": (NUMBERS, lambda sb, v: sb.advance_to(v)),
    "offset": (SPANS, lambda sb, v: sb.advance_to(sb.now, v)),
    "traffic amount": ((*NUMBERS, *AMOUNTS), lambda sb, v: sb.traffic(amount=v, count=3)),
    "traffic think_time": ((*SPANS, *SPREADS), lambda sb, v: sb.traffic(think_time=v, count=3)),
    "traffic patience": ((*SPANS, *SPREADS), lambda sb, v: sb.traffic(patience=v, count=3)),
    "traffic expiresIn": ((*SPANS, *SPREADS), lambda sb, v: sb.traffic(expiresIn=v, count=3)),
    "traffic duration": (SPANS, lambda sb, v: sb.traffic(duration=v, count=3)),
    **{
        f"traffic {behaviour}": (
            SPANS,
            lambda sb, v, behaviour=behaviour: sb.traffic(behaviours=behaviour, think_time=v, count=3),
        )
        for behaviour in ("late", "twice", "splits")
    },
    "traffic payers": (NUMBERS, lambda sb, v: sb.traffic(payers=v, count=3)),
    "traffic count": (NUMBERS, lambda sb, v: sb.traffic("1/d", count=v, duration="5d")),
    "traffic rate": (RATES, lambda sb, v: sb.traffic(v, count=3)),
    "fault attempt": (NUMBERS, lambda sb, v: sb.faults.add("drop", attempt=v)),
    "fault count": (NUMBERS, lambda sb, v: sb.faults.add("drop", count=v)),
    "fault delay": (SPANS, lambda sb, v: sb.faults.add("delay", delay=v)),
    "reply status": (NUMBERS, lambda sb, v: sb.receiver("shop").always(v)),
    "reply delay": (SPANS, lambda sb, v: sb.receiver("shop").always(Reply(delay=v))),
    "reply size": (NUMBERS, lambda sb, v: sb.receiver("shop").always(Reply(size=v))),
    "rule attempt": (NUMBERS, lambda sb, v: sb.receiver("shop").when(500, attempt=v)),
    "rule count": (NUMBERS, lambda sb, v: sb.receiver("shop").when(500, count=v)),
    "kpis": (NUMBERS, lambda sb, v: sb.kpis(since=v)),
    "reseed": (NUMBERS, lambda sb, v: sb.fork(reseed=v)),
}
ROUTED: dict[str, tuple[tuple[Any, ...], Callable[[Sandbox, Any], Any]]] = {
    "routed pay amount": CALLS["pay amount"],
    "intercept delay": (SPANS, lambda sb, v: sb.network.intercept("delay", delay=v)),
    "intercept after": (SPANS, lambda sb, v: sb.network.intercept("drop", after=v)),
    "intercept lasting": (SPANS, lambda sb, v: sb.network.intercept("drop", after="1000d", lasting=v)),
    "intercept times": (NUMBERS, lambda sb, v: sb.network.intercept("drop", times=v)),
    "intercept hop": (NUMBERS, lambda sb, v: sb.network.intercept("drop", hop=v)),
    "intercept code": (NUMBERS, lambda sb, v: sb.network.intercept("fail", code=v)),
    "intercept channel": (NUMBERS, lambda sb, v: sb.network.intercept("drop", channel=v)),
    "offline": (SPANS, lambda sb, v: sb.network["shop"].offline(v)),
    "close_channel": (NUMBERS, lambda sb, v: sb.network.close_channel(v)),
    "capacity": (NUMBERS, lambda sb, v: sb.network["n1"].open_channel("shop", v)),
    "local": (NUMBERS, lambda sb, v: sb.network["n1"].open_channel("shop", 10**9, local=v)),
    "base_msat": (NUMBERS, lambda sb, v: sb.network["n1"].open_channel("shop", 10**9, base_msat=v)),
    "ppm": (NUMBERS, lambda sb, v: sb.network["n1"].open_channel("shop", 10**9, ppm=v)),
    "rebalance": (NUMBERS, lambda sb, v: sb.network["n1"].rebalance(v)),
    "drain": ((*NUMBERS, float("nan"), 1.0), lambda sb, v: sb.network["n1"].drain(inbound=v)),
}
TOO_SHORT: dict[str, Callable[[Sandbox, Any], Any]] = {
    "delay": lambda sb, v: sb.network.intercept("delay", delay=v),
    "lasting": lambda sb, v: sb.network.intercept("drop", lasting=v),
    "lasting of a node": lambda sb, v: sb.network["n1"].offline(v),
    "duration": lambda sb, v: sb.traffic(duration=v),
}
CONTROL = ("clock", "journal", "faults", "payments", "inboxes", "inboxes/shop")


NAMES = [*CALLS, *ROUTED]


@pytest.mark.parametrize("name", deep_except(NAMES, *NAMES[::8]))
def test_after_a_number_of_any_size_everything_can_be_read_and_saved(name: str, tmp_path: Path) -> None:
    """A refused call leaves the sandbox as it is for the next value; a call that succeeds has one of its own."""
    values, call = CALLS[name] if name in CALLS else ROUTED[name]
    network = "line:4" if name in ROUTED else None
    sandbox = Sandbox(seed=1, network=network)
    for value in values:
        try:
            call(sandbox, value)
        except (LeydenError, ValueError, TypeError) as refused:
            assert str(refused).strip(), value  # noqa: PT017  a refusal is one of two results
            continue
        _check_all_can_be_read(sandbox, tmp_path / "saved.json")
        sandbox = Sandbox(seed=1, network=network)
    _check_all_can_be_read(sandbox, tmp_path / "saved.json")


def _check_all_can_be_read(sandbox: Sandbox, path: Path) -> None:
    if sandbox.now < "2100":
        sandbox.run("1h")
    for table in TABLES:
        sandbox.table(table)
    drawings = [sandbox.schedule(), *(each.timeline() for each in sandbox.charges)]
    assert all([repr(sandbox), repr(sandbox.kpi), *(drawing.svg for drawing in drawings)])
    for each in CONTROL:
        assert sandbox.request("GET", f"/sandbox/v1/{each}").status in (200, 404)  # 404: no such receiver
    hash_before = sandbox.journal_hash
    loaded = Sandbox.load(sandbox.save(path))
    assert loaded.journal_hash == hash_before
    assert json.dumps(loaded.snapshot()["tables"]) == json.dumps(sandbox.snapshot()["tables"])
    program: dict[str, Any] = {}
    exec(sandbox.script(), program)
    assert program["sb"].journal_hash == hash_before


@pytest.mark.parametrize("value", [-1, "-1h", "-1ms", "0s", 0, timedelta(0)])
@pytest.mark.parametrize("name", TOO_SHORT)
def test_a_time_in_which_nothing_can_happen_is_refused(name: str, value: Any) -> None:
    sandbox = Sandbox(network="line:4")
    with pytest.raises((InterceptError, DistributionError), match="more than 0"):
        TOO_SHORT[name](sandbox, value)
    assert not sandbox.network.interceptors


@pytest.mark.parametrize("value", [-1, "-1h", "-1ms"])
def test_a_time_before_now_is_refused(value: Any) -> None:
    sandbox = Sandbox(network="line:4")
    charged = charge(sandbox)
    with pytest.raises(InterceptError, match=f"after={value!r}.*0 or more"):
        sandbox.network.intercept("drop", after=value)
    with pytest.raises(ValueError, match=f"delay={value!r}.*0 or more"):
        sandbox.wallet("ana").pay(charged, delay=value)
    assert sandbox.network.intercept("drop", after="0s").row["from_ms"] == sandbox.world.clock.now()


def test_an_interceptor_without_duration_is_refused_over_http_too() -> None:
    sandbox = Sandbox(network="line:4")
    answer = sandbox.request("POST", "/sandbox/v1/network/interceptors", {"kind": "drop", "lasting": "0s"})
    assert answer.status == 409
    assert b"lasting='0s'" in answer.body


def test_an_amount_above_all_bitcoin_is_refused_and_all_bitcoin_are_an_amount() -> None:
    sandbox = Sandbox(network="line:4")
    charged = charge(sandbox)
    with pytest.raises(ValueError, match=f"amount={ALL_MSAT + 1} is more than all bitcoin: give at most {ALL_MSAT}"):
        sandbox.wallet("ana").pay(charged, amount=ALL_MSAT + 1)
    assert sandbox.wallet("ana").pay(charged, amount=str(10**18 - 1)).row["amount_msat"] == 10**18 - 1
    assert sandbox.wallet("ana").pay(charged, amount=ALL_MSAT).row["amount_msat"] == ALL_MSAT
    channel = sandbox.network["n1"].open_channel("shop", ALL_MSAT)
    assert sandbox.network["n1"].channels[-1]["capacity_msat"] == ALL_MSAT
    sandbox.network.close_channel(channel)
