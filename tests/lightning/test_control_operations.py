"""Control operations on a network, in Python and over the control plane, and their effect on payments."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import networkx  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.errors import ApiError, GraphError, InterceptError
from leyden.lightning.engine import channel_operations
from leyden.lightning.engine.channel_operations import _has_circle
from leyden.lightning.engine.engine import Engine
from leyden.lightning.network.network_tables import (
    ATTEMPT_COLUMNS,
    BalanceRow,
    HtlcRow,
    attempts_of,
    balances_of,
    htlcs_of,
)
from leyden.lightning.topology.generate import generate
from leyden.lightning.topology.graph import from_edges
from leyden.sandbox.resources import Charge, Payment
from leyden.server.store.tinydb.table import IndexedTable
from leyden.stepwise import run_to_end
from tests.support.channel_audit import audit
from tests.support.examples import examples
from tests.support.lists import listed

TEMPORARY_CHANNEL_FAILURE, UNKNOWN_DETAILS, PERMANENT_CHANNEL_FAILURE = 0x1007, 0x400F, 0x4008
UNKNOWN_NEXT_PEER = 0x400A

HTLC_COLUMNS, BALANCE_COLUMNS = tuple(HtlcRow.__annotations__), tuple(BalanceRow.__annotations__)

# Two ways from ana to the shop: a short one over n1 and a dearer one over n2 and n3.
DIAMOND = [
    ("ana", "n1", 10_000_000),
    ("n1", "shop", 10_000_000),
    ("ana", "n2", 10_000_000),
    {"a": "n2", "b": "n3", "capacity_sat": 10_000_000, "base_msat": 5_000},
    {"a": "n3", "b": "shop", "capacity_sat": 10_000_000, "base_msat": 5_000},
]


@pytest.fixture
def sandbox():
    with Sandbox(seed=7, start="2030-01-01T09:00:00Z", network=from_edges(DIAMOND, shop="shop")) as sandbox:
        # No random failures: no node is offline and no HTLC is stuck unless the test asks for it.
        conditions = sandbox.world.engine.conditions
        conditions.always_up, conditions.stuck = True, frozenset()
        yield sandbox


def pay(sandbox: Sandbox, amount: str = "250000", wait: str = "20s", **how: object) -> tuple[Charge, Payment]:
    charge = sandbox.charges.create(amount=amount, description="tea", expiresIn=3_600)
    payment = sandbox.wallet("ana").pay(charge, **how)
    sandbox.run(wait)
    return charge, payment


def codes(payment: Payment) -> list[int | None]:
    return [attempt["code"] for attempt in payment.row["attempts"]]


def test_a_payment_over_http_is_that_of_the_wallet_it_names(sandbox):
    for more, payer in (({"payer": "ana"}, "ana"), ({}, "wallet"), ({"payer": "bob", "amount": "1"}, "bob")):
        charge = sandbox.charges.create(amount="250000", description="tea")
        body = {"request": charge.request, **more}
        payment = sandbox.ask("POST", "/sandbox/v1/payments", body)
        assert sandbox.world.payments.rows.row(payment["id"])["payer"] == payer
    with pytest.raises(ApiError, match="/payer"):
        sandbox.ask("POST", "/sandbox/v1/payments", {"request": "lnbcrt1", "payer": ""})


# Interceptors


def test_a_payment_avoids_a_node_that_failed_once(sandbox):
    sandbox.network.intercept("fail", node="n1", code="temporary_channel_failure", times=1)
    charge, payment = pay(sandbox)
    first, second = payment.row["attempts"]
    assert (first["code"], first["hop"], first["source"], first["retried"]) == (
        TEMPORARY_CHANNEL_FAILURE,
        1,
        "n1",
        True,
    )
    assert "by interceptor intercept-1" in first["reason"]
    assert second["route"] == ["n2", "n3", "shop"]
    assert (payment.outcome, charge.status) == ("SUCCEEDED", "completed")


def test_a_receiver_that_fails_with_a_permanent_code_is_not_tried_again(sandbox):
    interceptor = sandbox.network.intercept("fail", hop=-1, code=UNKNOWN_DETAILS)
    charge, payment = pay(sandbox)
    assert (codes(payment), payment.outcome) == ([UNKNOWN_DETAILS], "INCORRECT_PAYMENT_DETAILS")
    assert (charge.status, interceptor.acted) == ("pending", 1)


def test_a_delay_is_as_long_as_asked_and_counts_once(sandbox):
    _, usual = pay(sandbox)
    sandbox.network.intercept("delay", hop=1, delay="9s", times=1)
    _, slow = pay(sandbox)
    usual_ms, slow_ms = (each.row["resolved_at"] - each.row["created_at"] for each in (usual, slow))
    assert slow_ms >= 9_000 > usual_ms
    assert slow.outcome == "SUCCEEDED"


@pytest.mark.parametrize(
    ("hop", "code", "source"), [(0, 0x100E, "ana"), (1, 0x100E, "n1"), (-1, UNKNOWN_DETAILS, "final")]
)
def test_no_delay_is_longer_than_the_htlc_may_live(sandbox, hop, code, source):
    """BOLT 2: "once the `cltv_expiry` of an incoming HTLC has been reached, OR if `cltv_expiry` minus `current_height`
    is less than `cltv_expiry_delta` for the corresponding outgoing HTLC: MUST fail that incoming HTLC"; the receiver
    18 blocks before."""
    sandbox.network.intercept("delay", hop=hop, delay="13d", times=1)
    charge, payment = pay(sandbox, wait="20d")
    first = payment.row["attempts"][0]
    assert (first["code"], first["source"]) == (code, source)
    conditions = sandbox.world.engine.conditions
    rows = htlcs_of(sandbox.world.payments)
    assert len(rows) == {0: 0, 1: 1, -1: 2}[hop]
    assert all(row["resolved_at"] < conditions.block_time(row["cltv_expiry"]) for row in rows)
    assert first["resolved_at"] < conditions.block_time(first["hops"][0][4])
    assert (payment.outcome, charge.status) == ("TIMEOUT", "expired")


def test_a_dropped_htlc_is_stuck_until_it_expires_even_if_the_payer_gave_up(sandbox):
    sandbox.network.intercept("drop", hop=1, times=1)
    charge, payment = pay(sandbox, wait="10m")
    assert (payment.status, charge.status) == ("in_flight", "pending")
    [stuck] = [row for row in htlcs_of(sandbox.world.payments) if row["status"] == "in_flight"]
    assert stuck["hop"] == 0
    sandbox.run("20d")
    assert (codes(payment), payment.outcome) == ([PERMANENT_CHANNEL_FAILURE], "TIMEOUT")
    assert "never answered" in str(payment.reason)
    assert not any(sandbox.world.engine.in_flight)


def test_an_offline_node_is_reported_by_the_node_before_it_as_an_unknown_next_peer(sandbox):
    """LND's switch, for a link that is not eligible to forward."""
    sandbox.network["n1"].offline("10m")
    _, payment = pay(sandbox)
    assert codes(payment) == [UNKNOWN_NEXT_PEER, None]
    assert "n1 was offline" in payment.row["attempts"][0]["reason"]
    sandbox.run("2h")  # the payer's penalties have expired
    _, later = pay(sandbox)
    assert later.row["attempts"][0]["route"] == ["n1", "shop"]


@pytest.mark.parametrize(("where", "acts"), [("after", "1s"), ("lasting", "5m")])
def test_an_interceptor_acts_only_in_its_interval(sandbox, where, acts):
    when = {"after": {"after": acts}, "lasting": {"lasting": acts}}[where]
    sandbox.network.intercept("fail", node="n1", code=TEMPORARY_CHANNEL_FAILURE, **when)
    _, now = pay(sandbox, wait="0s")
    sandbox.run("900ms")
    _, later = pay(sandbox, wait="1m")
    first = [attempt["code"] == TEMPORARY_CHANNEL_FAILURE for attempt in now.row["attempts"][:1]]
    assert first == [where == "lasting"]
    assert later.outcome == "SUCCEEDED"


def test_an_interceptor_for_one_payment_or_one_channel_does_not_affect_others(sandbox):
    charge = sandbox.charges.create(amount="250000", description="tea", expiresIn=3_600)
    mine = sandbox.wallet("ana").pay(charge, delay=1)
    sandbox.network.intercept("fail", payment=mine, hop=-1, code=UNKNOWN_DETAILS)
    by_channel = sandbox.network.intercept("fail", channel=3, code=TEMPORARY_CHANNEL_FAILURE)
    _, other = pay(sandbox)
    assert (mine.outcome, other.outcome, by_channel.acted) == ("INCORRECT_PAYMENT_DETAILS", "SUCCEEDED", 0)


def test_a_removed_interceptor_does_not_act(sandbox):
    interceptor = sandbox.network.intercept("fail", hop=-1, code=UNKNOWN_DETAILS)
    interceptor.remove()
    assert pay(sandbox)[1].outcome == "SUCCEEDED"
    with pytest.raises(InterceptError, match="removed"):
        _ = interceptor.row


def test_a_removed_interceptor_keeps_its_id_and_its_outage(sandbox):
    network = sandbox.network
    gone = network["n1"].offline()
    sandbox.run("5m")
    gone.remove()
    short = network["n2"].offline("1m")
    network["n3"].offline("1h").remove()  # before time has moved
    sandbox.run("5m")
    short.remove()
    later = network.intercept("delay", node="n1", delay="1s")
    assert len({gone.id, short.id, later.id}) == 3
    for call in (lambda: gone.row, lambda: gone.acted, gone.remove, lambda: repr(gone)):
        with pytest.raises(InterceptError):
            call()
    assert [each.id for each in network.interceptors] == [later.id]
    assert network.offline == []
    found = [sandbox, Sandbox.from_snapshot(sandbox.snapshot()), sandbox.fork()]
    for each in found:
        each.run("1m")
        rows = each.outages
        spans = [(until - at).total_seconds() for at, until in zip(rows["at"], rows["until"], strict=True)]
        assert list(zip(rows["node"], rows["cause"], spans, strict=True)) == [
            ("n1", gone.id, 300.0), ("n2", short.id, 60.0)
        ]  # fmt: skip
    assert len({each.network.intercept("delay", node="n1", delay="1s").id for each in found} | {later.id}) == 2


def test_what_an_interceptor_took_offline_is_named(sandbox):
    channel = sandbox.network["shop"].channels[0]["channel"]
    reasons = []
    for where in ({"channel": channel}, {"node": "n1", "times": 1}, {"node": "n1"}):
        interceptor = sandbox.network.intercept("offline", **where)
        reasons.append(pay(sandbox)[1].row["attempts"][0]["reason"])
        interceptor.remove()
        sandbox.advance("1d")  # what the payer learned is forgotten
    assert reasons == [
        "the channel from n1 to shop was offline, by interceptor intercept-1",
        "n1 was offline to this HTLC, by interceptor intercept-2",
        "n1 was offline, by interceptor intercept-3",
    ]


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("vanish", {}),
        ("fail", {}),
        ("fail", {"code": 9_999}),
        ("fail", {"code": "no_such_failure"}),
        ("delay", {}),
        ("drop", {"delay": "1s"}),
        ("drop", {"hop": 0}),
        ("offline", {}),
        ("drop", {"channel": 99}),
        ("drop", {"times": 0}),
    ],
)
def test_an_invalid_interceptor_is_refused(sandbox, kind, more):
    with pytest.raises(InterceptError):
        sandbox.network.intercept(kind, **more)


# BOLT 4: a final node MUST NOT send the first, and only a final node sends the second.
OF_FORWARDERS = ("temporary_channel_failure", "permanent_channel_failure", "unknown_next_peer", "amount_below_minimum",
                 "fee_insufficient", "incorrect_cltv_expiry", "expiry_too_soon", "channel_disabled",
                 "expiry_too_far")  # fmt: skip
OF_THE_RECEIVER = ("incorrect_or_unknown_payment_details", "final_incorrect_cltv_expiry", "final_incorrect_htlc_amount",
                   "mpp_timeout")  # fmt: skip
OF_ANY_NODE = ("temporary_node_failure", "permanent_node_failure")


@pytest.mark.parametrize("place", [{"hop": -1}, {"hop": 20}, {"node": "shop"}])
@pytest.mark.parametrize("code", OF_FORWARDERS)
def test_a_code_of_forwarding_nodes_is_refused_at_the_receiver(sandbox, code, place):
    with pytest.raises(InterceptError, match=f"is the receiver, and only a node before it sends {code}"):
        sandbox.network.intercept("fail", code=code, **place)


@pytest.mark.parametrize("place", [{"hop": 0}, {"hop": -2}, {"hop": -20}, {"node": "n1"}, {"channel": 0}])
@pytest.mark.parametrize("code", OF_THE_RECEIVER)
def test_a_code_of_the_receiver_is_refused_before_it(sandbox, code, place):
    with pytest.raises(InterceptError, match=f"before the receiver, and only the receiver sends {code}"):
        sandbox.network.intercept("fail", code=code, **place)


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("drop", {"hop": -1, "channel": 1}),
        ("drop", {"node": "shop", "channel": 1}),
        ("drop", {"node": "shop", "hop": -2}),
        ("drop", {"node": "n1", "hop": -1}),
        ("offline", {"node": "n1", "hop": -1}),
        ("drop", {"node": "n3", "channel": 0}),
        ("offline", {"node": "n3", "channel": 0}),
    ],
)
def test_conditions_that_no_htlc_meets_are_refused(sandbox, kind, place):
    with pytest.raises(InterceptError, match=r"before it|joins"):
        sandbox.network.intercept(kind, **place)


def test_every_code_acts_where_it_is_accepted(sandbox):
    """The places of the route ana > n1 > shop, one after the other."""
    places = [
        (hop, code)
        for hops, codes in (
            ((0, 1, -2, -3), OF_FORWARDERS),
            ((2, -1), OF_THE_RECEIVER),
            ((0, 1, 2, -1, -2), OF_ANY_NODE),
        )
        for hop in hops
        for code in codes
    ]
    for hop, code in places:
        with sandbox.fork() as fork:
            fork.world.engine.conditions.always_up, fork.world.engine.conditions.stuck = True, frozenset()
            interceptor = fork.network.intercept("fail", code=code, hop=hop, times=1)
            _, payment = pay(fork)
            assert (interceptor.acted, payment.row["attempts"][0]["name"]) == (1, code), (hop, code)


# Liquidity


def test_inbound_liquidity_grows_by_a_channel_to_the_shop_and_not_by_a_circular_payment(sandbox):
    network = sandbox.network
    network["shop"].drain(inbound=1.0)
    assert network["shop"].inbound_msat == 0
    _, failed = pay(sandbox)
    assert failed.outcome == "NO_ROUTE"
    assert {attempt["code"] for attempt in failed.row["attempts"]} == {TEMPORARY_CHANNEL_FAILURE}
    with pytest.raises(GraphError, match="no circle"):
        network["shop"].rebalance(1_000_000)
    network["n2"].open_channel("shop", 5_000_000_000)
    assert network["shop"].inbound_msat == 5_000_000_000
    assert pay(sandbox)[1].outcome == "SUCCEEDED"


@given(st.integers(0, 5), st.integers(0, 19), st.sets(st.integers(0, 39)), st.data())
@examples(150, bounded=60)
def test_a_circle_exists_where_one_peer_reaches_another_without_the_node(seed, node, empty, data):
    engine = Engine(generate("scale-free:20", seed), 0, lambda name: sha256(name.encode()).digest())
    for edge in empty:
        engine.move_balance(edge, engine.balance[edge])
    peers = sorted({engine.policies.target[edge] for edge in engine.out_edges(node)})
    out, into = (data.draw(st.sampled_from([None, *peers])) for _ in range(2))
    edges = [edge for edge in range(len(engine.balance)) if engine.spendable_msat(edge) > 0]
    ends = [(engine.policies.source[edge], engine.policies.target[edge]) for edge in edges]
    drawn = networkx.DiGraph(pair for pair in ends if node not in pair)
    drawn.add_nodes_from(peers)
    starts = {b for a, b in ends if a == node and out in (None, b)}
    backs = {a for a, b in ends if b == node and into in (None, a)}
    expected = any(start != back and networkx.has_path(drawn, start, back) for start in starts for back in backs)
    assert run_to_end(_has_circle(engine, node, out, into)) == expected


def test_a_refusal_after_the_most_searches_does_not_say_that_no_circle_carries_the_amount(sandbox, monkeypatch):
    sandbox.network["n3"].drain(outbound=0.9)
    with pytest.raises(GraphError, match="no circle carries 3000000000 msat: it needs a channel"):
        sandbox.network["ana"].rebalance(3_000_000_000)
    monkeypatch.setattr(channel_operations, "_MOST_SEARCHES", 1)
    monkeypatch.setattr(channel_operations, "_LEAST_SEARCHES", 1)
    with pytest.raises(GraphError, match="no circle was found that carries 3000000000 msat: it needs a channel"):
        sandbox.network["ana"].rebalance(3_000_000_000)


def test_a_circular_payment_moves_inbound_liquidity_between_channels_and_costs_fees(sandbox):
    shop = sandbox.network["shop"]
    before = (shop.outbound_msat, shop.inbound_msat)
    fee = shop.rebalance(1_000_000_000, out="n1", into="n3")
    assert (shop.outbound_msat, shop.inbound_msat) == (before[0] - fee, before[1] + fee)
    moved = {channel["peer"]: channel["local_msat"] - 5_000_000_000 for channel in shop.channels}
    assert moved == {"n1": -1_000_000_000 - fee, "n3": 1_000_000_000}
    audit(sandbox.world.engine)


def test_a_circle_over_no_peer_or_over_one_peer_is_refused_with_its_cause(sandbox):
    shop = sandbox.network["shop"]
    for ends, cause in (
        ({"out": "ana"}, "out=ana: shop has no open channel to it, so give one of its peers: n1, n3"),
        ({"into": "shop"}, "into=shop: shop has no open channel to it"),
        ({"out": "n1", "into": "n1"}, "out and into are both n1: a circle needs channels to two peers"),
    ):
        with pytest.raises(GraphError, match=cause):
            shop.rebalance(1_000, **ends)
    sandbox.network.close_channel(shop.channels[0]["channel"])
    with pytest.raises(GraphError, match="shop has open channels to n3 alone, and a circle needs two"):
        shop.rebalance(1_000)


def test_a_closed_channel_takes_no_new_htlc_and_resolves_those_in_flight(sandbox):
    sandbox.network.intercept("delay", hop=-1, delay="30s", times=1)
    charge, under_way = pay(sandbox, wait="5s")
    sandbox.network.close_channel(1)
    _, other = pay(sandbox)
    assert other.row["attempts"][0]["route"] == ["n2", "n3", "shop"]
    sandbox.run("1m")
    assert (under_way.outcome, charge.status) == ("SUCCEEDED", "completed")
    with pytest.raises(GraphError):
        sandbox.network.close_channel(1)


@pytest.mark.parametrize("channel", [-1, 5])
def test_an_unknown_channel_cannot_be_closed(sandbox, channel):
    with pytest.raises(GraphError):
        sandbox.network.close_channel(channel)


@pytest.mark.parametrize(("peer", "capacity", "local"), [("shop", 1_000, None), ("n1", 0, None), ("n1", 10, 11)])
def test_an_invalid_channel_is_not_opened(sandbox, peer, capacity, local):
    with pytest.raises(GraphError):
        sandbox.network["shop"].open_channel(peer, capacity, local=local)


# Rollback, cancellation, reset


def test_a_rolled_back_commit_restores_the_network(sandbox):
    world, operations = sandbox.world, sandbox.network.operations
    charge = sandbox.charges.create(amount="250000", description="tea", expiresIn=3_600)
    engine = world.engine
    before = (
        engine.balance[:],
        engine.graph,
        engine.router,
        engine.closed,
        engine.next_event_ms(),
        len(world.journal),
    )

    def operate() -> None:
        with world.exclusive():
            world.payments.pay(charge.request, payer="ana")
            operations.open_channel(1, 3, 1_000_000, None, 0, 0)
            operations.close_channel(0)
            operations.drain(operations.node("shop"), 1.0, 0.0)
            operations.intercept("fail", code=UNKNOWN_DETAILS)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        operate()
    after = (engine.balance, engine.graph, engine.router, engine.closed, engine.next_event_ms())
    assert after == before[:-1]
    assert not engine.shards
    assert not len(operations.payments.interceptors.rows)
    assert pay(sandbox)[1].outcome == "SUCCEEDED"
    audit(engine)


def test_a_payment_cancelled_in_flight_sends_nothing_more_and_ends_as_its_htlc_does(sandbox):
    sandbox.network.intercept("fail", node="n1", code=TEMPORARY_CHANNEL_FAILURE, times=1)
    charge = sandbox.charges.create(amount="250000", description="tea", expiresIn=3_600)
    failing, arriving = (sandbox.wallet("ana").pay(charge) for _ in range(2))
    sandbox.run("0s")  # both parts are sent
    with sandbox.world.exclusive():
        for payment in (failing, arriving):
            sandbox.world.payments.cancel(payment.id)
    sandbox.run("1m")
    assert {failing.outcome, arriving.outcome} == {"CANCELED", "SUCCEEDED"}
    assert (len(failing.row["attempts"]), charge.status) == (1, "completed")


def test_a_reset_restores_the_initial_network(sandbox):
    initial = sandbox.world.engine.balance[:]
    sandbox.network["shop"].drain(inbound=0.5)
    sandbox.network["n2"].open_channel("shop", 5_000_000_000)
    sandbox.network.intercept("offline", node="shop")
    pay(sandbox, wait="100ms")
    sandbox.ask("POST", "/sandbox/v1/reset", {})
    engine = sandbox.world.engine
    assert (engine.balance, engine.shards, sandbox.network.interceptors) == (initial, {}, [])


# The tables


def test_the_tables_have_attempts_htlcs_and_balances(sandbox):
    sandbox.network.intercept("fail", node="n1", code=TEMPORARY_CHANNEL_FAILURE, times=1)
    _, payment = pay(sandbox)
    world = sandbox.world
    tried, locked, held = attempts_of(world.payments), htlcs_of(world.payments), balances_of(world.payments)
    for rows, columns in ((tried, ATTEMPT_COLUMNS), (locked, HTLC_COLUMNS), (held, BALANCE_COLUMNS)):
        assert {tuple(row) for row in rows} == {columns}
    assert [(row["attempt"], row["hop"], row["status"]) for row in locked] == [
        (0, 0, "failed"), (1, 0, "settled"), (1, 1, "settled"), (1, 2, "settled"),
    ]  # fmt: skip
    assert all(row["payment"] == payment.id and row["resolved_at"] > row["at"] for row in locked)
    assert sum(row["change_msat"] for row in held) == 0
    assert sum(row["change_msat"] for row in held if row["shop"]) == 250_000
    assert sum(row["fee_msat"] for row in locked if row["attempt"] == 1) == tried[1]["fee_msat"]
    assert len(balances_of(world.payments, "shop")) == 2


def test_direct_payments_have_attempts_and_one_hop_and_no_channels():
    with Sandbox(seed=1) as direct:
        pay(direct)
        [tried], [locked] = attempts_of(direct.world.payments), htlcs_of(direct.world.payments)
        assert (tuple(tried), tuple(locked)) == (ATTEMPT_COLUMNS, HTLC_COLUMNS)
        assert (locked["source"], locked["target"], locked["status"]) == ("ana", "shop", "settled")
        assert balances_of(direct.world.payments) == []


# The control API


def test_the_control_api_has_the_same_control_operations(sandbox):
    base = "/sandbox/v1/network"
    added = sandbox.ask("POST", f"{base}/interceptors", {"kind": "fail", "node": "n1", "code": 4_103, "times": 1})
    _, payment = pay(sandbox)
    tried = listed(sandbox.ask, f"/sandbox/v1/payments/{payment.id}/attempts")
    assert [(attempt["code"], attempt["status"]) for attempt in tried] == [(4_103, "failed"), (None, "settled")]
    [found] = listed(sandbox.ask, f"{base}/interceptors")
    assert (found["id"], found["node"], found["acted"]) == (added["id"], "n1", 1)
    assert sandbox.ask("DELETE", f"{base}/interceptors/{added['id']}") == {"cleared": 1}
    assert sandbox.ask("POST", f"{base}/nodes/shop/drain", {"inbound": 1})["inbound"] == "0"
    opened = sandbox.ask("POST", f"{base}/nodes/n2/channels", {"peer": "shop", "capacity": "5000000000"})
    assert (opened["local"], opened["peer"]) == ("5000000000", "shop")
    assert sandbox.ask("GET", f"{base}/nodes/shop")["inbound"] == "5000000000"
    assert int(sandbox.ask("POST", f"{base}/nodes/shop/rebalance", {"amount": "1000000"})["fee"]) > 0
    assert sandbox.ask("DELETE", f"{base}/channels/{opened['channel']}") == {"cleared": 1}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("DELETE", "/interceptors/intercept-7", None, 404),
        ("DELETE", "/channels/999", None, 404),
        ("POST", "/interceptors", {"kind": "fail"}, 409),
        ("POST", "/interceptors", {"kind": "vanish"}, 400),
        ("POST", "/nodes/shop/drain", {"inbound": 1.1}, 400),
        ("POST", "/nodes/shop/rebalance", {"amount": "99999999999999"}, 409),
        ("POST", "/nodes/shop/channels", {"peer": "shop", "capacity": "1000"}, 409),
    ],
)
def test_invalid_operations_are_refused_with_a_reason(sandbox, method, path, body, status):
    with pytest.raises(ApiError) as refused:
        sandbox.ask(method, f"/sandbox/v1/network{path}", body)
    assert refused.value.status == status


def test_a_sandbox_with_direct_payments_refuses_control_operations():
    with Sandbox(seed=1) as direct, pytest.raises(ApiError, match="direct") as refused:
        direct.ask("GET", "/sandbox/v1/network/nodes/shop")
    assert refused.value.status == 409


def test_a_payment_that_the_shop_has_failed_cannot_be_settled_before_the_payer_knows(sandbox: Sandbox):
    charge, payment = pay(sandbox, outcome="hold")
    assert payment.status == "held"
    charge.fail()
    assert payment.status == "held"  # the failure is on its way to the payer
    with pytest.raises(ApiError, match=r"409.*CANCELED"):
        sandbox.ask("POST", f"/sandbox/v1/payments/{payment.id}/settle")
    sandbox.run("5s")
    assert payment.status == "failed"


@pytest.mark.parametrize(("decide", "words"), [("settle", "settled it, and the preimage"), ("cancel", "returned it")])
def test_a_payment_that_the_receiver_has_decided_is_not_held_any_more(sandbox: Sandbox, decide: str, words: str):
    _, payment = pay(sandbox, outcome="hold")
    getattr(payment, decide)()
    assert f"the node has {words}" in repr(payment)
    for again in (payment.settle, payment.cancel):
        with pytest.raises(ApiError, match="409"):
            again()
    sandbox.run("5s")
    assert payment.status == ("succeeded" if decide == "settle" else "failed")


@pytest.mark.parametrize(("name", "near"), [("shp", "did you mean shop"), ("n4", "its nodes are ana, "), ("zzz", "")])
def test_a_name_that_is_neither_a_node_nor_a_wallet_that_has_paid_is_refused(
    sandbox: Sandbox, name: str, near: str
) -> None:
    with pytest.raises(GraphError, match=f"there is no node {name}, and no wallet.*5 nodes.*{near}"):
        sandbox.network[name]
    with pytest.raises(GraphError, match="there is no node"):
        sandbox.network["shop"].open_channel(name, 5_000_000_000)
    with pytest.raises(GraphError, match="there is no node"):
        sandbox.network["shop"].rebalance(1_000, out=name)
    with pytest.raises(GraphError, match="there is no node"):
        sandbox.network.intercept("offline", node=name)
    entries = len(sandbox.world.journal)
    answer = sandbox.http.post(f"/sandbox/v1/network/nodes/{name}/drain", json={"inbound": 1})
    assert (answer.status_code, answer.json()["code"]) == (409, "not_possible")
    assert [entry.kind for entry in sandbox.world.journal.entries(entries)] == ["request"]


def test_a_wallet_has_its_node_before_and_after_its_first_payment() -> None:
    sandbox = Sandbox(seed=7, network="line:4")
    before = sandbox.network.wallet("bob")
    assert ", the node of the wallet 'bob', with" in repr(before)
    before.drain(outbound=0.1)
    sandbox.wallet("bob").pay(sandbox.charges.create(amount="1000", description="tea"))
    sandbox.run()
    assert sandbox.network["bob"].number == before.number
    names: dict[str, Any] = {}
    exec(sandbox.script(), names)
    assert names["sb"].journal_hash == sandbox.journal_hash


@pytest.mark.parametrize("amount", [5e9, "5e3", True])
def test_amounts_on_the_network_are_integers(sandbox: Sandbox, amount: object) -> None:
    for options in ({"capacity": amount}, {"capacity": 5_000, "local": amount}):
        with pytest.raises(ValueError, match="give whole millisatoshis"):
            sandbox.network["n1"].open_channel("shop", **options)
    with pytest.raises(ValueError, match="give whole millisatoshis"):
        sandbox.network["n1"].rebalance(amount)


@pytest.mark.parametrize("code", ["temporary_node_failure", "permanent_node_failure"])
def test_a_failure_of_the_receivers_own_node_ends_the_payment_with_an_error_of_its_own(sandbox, code):
    """BOLT 4, the origin node: "if the final node is returning the error: if the PERM bit is set: SHOULD fail the
    payment; otherwise [...] MAY retry the payment". LND does not (`FAILURE_REASON_ERROR`). It is no
    `incorrect_or_unknown_payment_details`: the invoice is right."""
    sandbox.network.intercept("fail", hop=-1, code=code)
    charge, payment = pay(sandbox, wait="2m")
    [attempt] = payment.row["attempts"]
    assert (attempt["name"], attempt["source"], attempt["retried"]) == (code, "final", False)
    assert (payment.outcome, charge.status) == ("ERROR", "pending")
    assert f"shop answered {code}" in str(payment.reason)


@pytest.mark.parametrize(
    ("code", "outcome"), [(18, "ERROR"), (19, "ERROR"), (UNKNOWN_DETAILS, "INCORRECT_PAYMENT_DETAILS")]
)
def test_only_refused_details_are_called_so(code, outcome):
    """BOLT 4, the final node: `final_incorrect_cltv_expiry` and `final_incorrect_htlc_amount` say that the HTLC is not
    what the onion says. A payer with a channel to the receiver made both itself."""
    graph = from_edges([("ana", "shop", 10_000_000)], shop="shop")
    with Sandbox(seed=7, start="2030-01-01T09:00:00Z", network=graph, conditions="ideal") as sandbox:
        sandbox.network.intercept("fail", hop=-1, code=code)
        _, payment = pay(sandbox)
        assert (codes(payment), payment.outcome) == ([code], outcome)


def test_the_wallets_with_similar_names_are_found_without_a_payment_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = Sandbox(seed=7, network="star:12")
    for number in range(4):
        sandbox.wallet(f"wallet{number}").pay(sandbox.charges.create(amount="1000", description="tea"))

    def read(table: IndexedTable) -> Iterator[Any]:
        raise AssertionError("a row was read")

    monkeypatch.setattr(IndexedTable, "__iter__", read)
    with pytest.raises(ApiError, match=r"did you mean wallet\d or wallet\d or wallet\d\?"):
        sandbox.ask("GET", "/sandbox/v1/network/nodes/wallet")
    with pytest.raises(ApiError, match=r"its nodes are "):
        sandbox.ask("GET", f"/sandbox/v1/network/nodes/{'x' * 250}")


def test_no_pair_of_channels_is_tried_when_no_search_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub has a thousand channels: without a bound the pairs of them would take half a minute in one step."""
    monkeypatch.setattr(channel_operations, "_LEAST_SEARCHES", 3)
    monkeypatch.setattr(channel_operations, "_MOST_SEARCHES", 3)
    sandbox = Sandbox(seed=7, network="star:40,ideal")
    tried: list[int] = []
    found = channel_operations._found

    def counted(*args: Any, **more: Any) -> Any:
        tried.append(1)
        return found(*args, **more)

    monkeypatch.setattr(channel_operations, "_found", counted)
    with pytest.raises(ApiError, match="no circle"):
        sandbox.ask("POST", "/sandbox/v1/network/nodes/n0/rebalance", {"amount": "1000000"})
    assert len(tried) <= 2 * 3
