"""Nodes that are offline: they neither send nor forward, in either direction. What waits for them goes on when they are
back, or expires."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leyden import Sandbox
from leyden.lightning.engine.network_conditions import NetworkConditions, SampledConditions
from leyden.lightning.failure_codes import FailureCode
from leyden.lightning.network.network_tables import htlcs_of
from leyden.lightning.topology.graph import from_edges
from leyden.sandbox.resources import Payment
from tests.support.channel_audit import audit

START = "2030-01-01T09:00:00Z"
LINE = [("ana", "n1", 10_000_000), ("n1", "n2", 10_000_000), ("n2", "shop", 10_000_000)]


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(seed=7, start=START, network=from_edges(LINE, shop="shop"), conditions="ideal") as sandbox:
        yield sandbox


def pay(sandbox: Sandbox, **how: str) -> Payment:
    charge = sandbox.charges.create(amount="250000", description="tea", expiresIn=30 * 86_400)
    return sandbox.wallet("ana").pay(charge, **how)


def minutes(sandbox: Sandbox, payment: Payment) -> float:
    """How long the payment took."""
    row = payment.row
    return (row["resolved_at"] - row["created_at"]) / 60_000


@pytest.mark.parametrize("node", ["n1", "n2", "shop"])
def test_the_answer_of_the_receiver_waits_for_a_node_that_is_offline(sandbox, node):
    """BOLT 2, "Message Retransmission": a node that reconnects MUST retransmit what its peer has not received. Without
    a connection there is no `update_fulfill_htlc`."""
    payment = pay(sandbox, outcome="hold")
    sandbox.run("20s")
    sandbox.network[node].offline("30m")
    payment.settle()
    sandbox.run("20m")
    assert payment.status == "held"
    sandbox.run("20m")
    assert payment.outcome == "SUCCEEDED"
    assert 30 < minutes(sandbox, payment) < 31
    audit(sandbox.world.engine)


def test_a_failure_waits_too_on_its_way_back(sandbox):
    sandbox.network.intercept("delay", hop=-1, delay="5s")
    sandbox.network.intercept("fail", hop=-1, code="incorrect_or_unknown_payment_details")
    payment = pay(sandbox, outcome="wrong_secret")
    sandbox.run("3s")
    sandbox.network["n1"].offline("10m")
    sandbox.run("9m")
    assert payment.status == "in_flight"
    sandbox.run("2m")
    assert payment.outcome == "TIMEOUT"


@pytest.mark.parametrize("node", ["n1", "shop"])
def test_an_htlc_on_its_way_waits_at_the_channel_to_a_node_that_went_offline(sandbox, node):
    hop = {"n1": 1, "shop": -1}[node]
    sandbox.network.intercept("delay", hop=hop, delay="5s", times=1)
    payment = pay(sandbox)
    sandbox.run("4s")
    away = sandbox.network[node].offline()
    sandbox.run("10m")
    assert payment.status == "in_flight"
    assert [row["status"] for row in htlcs_of(sandbox.world.payments)] == ["in_flight"] * len(
        sandbox.world.payments.rows.row(payment.id)["attempts"][0]["route"][: {"n1": 1, "shop": 3}[node]]
    )
    away.remove()  # it is back: what waits goes on at once
    sandbox.run("20s")
    assert payment.outcome == "SUCCEEDED"
    audit(sandbox.world.engine)


def test_a_channel_that_is_offline_carries_no_answer(sandbox):
    payment = pay(sandbox, outcome="hold")
    sandbox.run("20s")
    sandbox.network.intercept("offline", channel=1, lasting="15m")
    payment.settle()
    sandbox.run("1h")
    assert 15 < minutes(sandbox, payment) < 16


def test_an_outage_of_one_payment_leaves_the_others_alone(sandbox):
    first, second = pay(sandbox, outcome="hold"), pay(sandbox, outcome="hold")
    sandbox.run("20s")
    sandbox.network.intercept("offline", payment=first, node="n1", lasting="15m")
    first.settle()
    second.settle()
    sandbox.run("1m")
    assert (first.status, second.status) == ("held", "succeeded")


def test_what_waits_for_a_node_that_stays_away_expires(sandbox):
    """BOLT 2: "once the `cltv_expiry` of an incoming HTLC has been reached [...] MUST fail that incoming HTLC"."""
    sandbox.network.intercept("delay", hop=2, delay="5s", times=1)
    payment = pay(sandbox)
    sandbox.run("4s")
    sandbox.network["n2"].offline()
    sandbox.run("20d")
    assert (payment.outcome, payment.row["attempts"][0]["code"]) == ("TIMEOUT", 0x4008)
    assert not any(sandbox.world.engine.in_flight)
    audit(sandbox.world.engine)


def test_waiting_survives_a_restart_and_a_fork(tmp_path):
    graph = from_edges(LINE, shop="shop")
    with Sandbox(seed=7, start=START, network=graph, conditions="ideal", data=tmp_path / "kept") as sandbox:
        payment = pay(sandbox, outcome="hold")
        sandbox.run("20s")
        away = sandbox.network["n1"].offline()
        payment.settle()
        sandbox.run("20m")
        fork, payment_id, number = sandbox.fork(), payment.id, away.id
    with Sandbox(data=tmp_path / "kept") as again:
        for one in (fork, again):
            with one:
                assert one.world.payments.rows.row(payment_id)["status"] == "held"
                one.network.remove(number)
                one.run("20s")
                assert one.world.payments.rows.row(payment_id)["outcome"] == "SUCCEEDED"


def test_an_outage_of_the_conditions_stops_answers_but_not_those_to_the_payers_own_node():
    """Who pays is online: the conditions say nothing of a payer's own payments."""
    down = {"n1": (60_000, 3_600_000), "ana": (0, 10**9)}
    with Sandbox(seed=7, start=START, network=from_edges(LINE, shop="shop"), conditions="ideal") as sandbox:
        conditions, since = sandbox.world.engine.conditions, sandbox.world.clock.now()
        conditions.always_up = False
        names = sandbox.network.graph.names

        def up_until(node: int, at_ms: int) -> int | None:
            start, end = down.get(names[node], (0, 0))
            return since + end if start <= at_ms - since < end else None

        conditions.is_up = lambda node, at_ms: up_until(node, at_ms) is None
        conditions.same_until = lambda node, at_ms: up_until(node, at_ms) or at_ms + 1
        payment = pay(sandbox, outcome="hold")
        sandbox.run("2m")
        payment.settle()
        sandbox.run("2h")
        assert payment.outcome == "SUCCEEDED"
        assert 60 <= minutes(sandbox, payment) < 61


def test_an_outage_lasts_at_least_until_the_instant_that_the_conditions_name():
    conditions = SampledConditions(20, 0, lambda name: name.encode().ljust(32), NetworkConditions(up_share=0.5))
    for at_ms in range(0, 20 * 3_600_000, 1_234_567):
        for node in range(20):
            until = conditions.same_until(node, at_ms)
            assert until > at_ms
            assert conditions.is_up(node, until - 1) == conditions.is_up(node, at_ms)


@pytest.mark.parametrize("by_conditions", [True, False])
@pytest.mark.parametrize(
    ("conditions", "code", "attempts"),
    [
        ("ideal", FailureCode.UNKNOWN_NEXT_PEER, 1),
        ("ideal,offline_code=temporary_channel_failure", FailureCode.TEMPORARY_CHANNEL_FAILURE, 31),
    ],
)
def test_a_payer_tries_a_node_that_is_offline_once(conditions, code, attempts, by_conditions):
    """As LND answers; Core Lightning's answer lets the payer try again with ever smaller parts."""
    with Sandbox(seed=7, start=START, network=from_edges(LINE, shop="shop"), conditions=conditions) as sandbox:
        if by_conditions:
            up, dead = sandbox.world.engine.conditions.is_up, sandbox.network["n2"].number
            sandbox.world.engine.conditions.always_up = False
            sandbox.world.engine.conditions.is_up = lambda node, at_ms: node != dead and up(node, at_ms)
        else:
            sandbox.network["n2"].offline()
        charge = sandbox.charges.create(amount="400000000", description="tea", expiresIn=86_400)
        payment = sandbox.wallet("ana").pay(charge)
        sandbox.run("5m")
        assert [attempt["code"] for attempt in payment.row["attempts"]] == [code] * attempts
        assert payment.outcome == "NO_ROUTE"
