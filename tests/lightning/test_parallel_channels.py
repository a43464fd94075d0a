"""Several channels between two nodes: in generated networks by the condition `parallel`, and what a node does with it.

BOLT 4, "Non-strict Forwarding": "the HTLC can be forwarded across any channel connecting A and B".
"""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leyden import Sandbox
from leyden.errors import ForkError, GraphError
from leyden.lightning.engine.engine import MAX_ACCEPTED_HTLCS, Engine
from leyden.lightning.engine.shard import Shard
from leyden.lightning.failure_codes import FailureCode
from leyden.lightning.payer.payment_session import PaymentSession, PaymentSessions
from leyden.lightning.topology.generate import generate
from leyden.lightning.topology.graph import from_edges
from tests.support.channel_audit import audit
from tests.support.deep import deep_except

AMOUNT = 100_000_000


def middle(a_balance_sat: int, **changes: Any) -> dict[str, Any]:
    """A channel of 1,000,000 sat from a to b, of which a has this much."""
    return {"a": "a", "b": "b", "capacity_sat": 1_000_000, "a_balance_sat": a_balance_sat, "base_msat": 7, **changes}


def engine_with(*channels: dict[str, Any]) -> Engine:
    """A line from the payer over a and b to the shop, with these channels between a and b: 1, 2 and so on."""
    last = {"a": "b", "b": "shop", "capacity_sat": 5_000_000, "base_msat": 0, "ppm": 0}
    edges = [("payer", "a", 5_000_000), *channels, last]
    return Engine(from_edges(edges, shop="shop"), 0, lambda name: sha256(name.encode()).digest())


def sent(engine: Engine, edge: int = 2) -> Shard:
    """A shard of 100,000 sat whose payer named this edge between a and b, when it is back."""
    returned: list[Shard] = []
    engine.on_return = returned.append
    route = engine.policies.route([0, edge, 2 * engine.graph.channels - 2], AMOUNT)
    shard = engine.send(None, 0, route, engine.block_height() + 200)
    while (due := engine.next_event_ms()) is not None:
        engine.run(due)
        audit(engine)
    assert returned == [shard]
    return shard


def moved(engine: Engine) -> list[int]:
    """What each channel between a and b has lost on a's side, in msat."""
    return [engine.initial_balance[2 * c] - engine.balance[2 * c] for c in range(1, engine.graph.channels - 1)]


def test_the_channel_that_the_payer_named_is_used_if_it_has_enough() -> None:
    engine = engine_with(middle(200_000), middle(150_000), middle(900_000))
    assert sent(engine).settled
    assert moved(engine) == [AMOUNT, 0, 0]


def test_else_it_is_that_with_the_least_that_is_enough() -> None:
    engine = engine_with(middle(50_000), middle(900_000), middle(120_000), middle(109_999), middle(120_000))
    shard = sent(engine)
    assert (shard.settled, shard.edges[1], shard.taken[1]) == (True, 2, 6)
    assert moved(engine) == [0, 0, AMOUNT, 0, 0]


def test_the_reserve_counts_and_so_does_a_single_msat() -> None:
    # The reserve is 10,000 sat.
    assert sent(engine_with(middle(50_000), middle(110_000))).settled
    failed = sent(engine_with(middle(50_000), middle(109_999)))
    assert (failed.settled, failed.code) == (False, FailureCode.TEMPORARY_CHANNEL_FAILURE)
    assert failed.reason == "the channel from a to b had 50000000 msat for 100000000"


def test_the_fee_and_the_delta_are_those_of_the_named_channel() -> None:
    """The other one is dearer, which the payer does not pay."""
    engine = engine_with(middle(50_000), middle(900_000, base_msat=9_000, ppm=500, cltv_delta=144))
    shard = sent(engine)
    assert shard.settled
    assert shard.amounts[0] - shard.amounts[1] == 7 + AMOUNT // 1_000_000
    assert moved(engine) == [0, AMOUNT]


def test_a_named_channel_whose_fee_is_not_paid_is_not_replaced_by_a_cheaper_one() -> None:
    engine = engine_with(middle(50_000, base_msat=9_000), middle(900_000, base_msat=0, ppm=0))
    edges = [0, 2, 6]
    route = engine.policies.route(edges, AMOUNT)._replace(amounts=[AMOUNT] * 3)
    returned: list[Shard] = []
    engine.on_return = returned.append
    engine.send(None, 0, route, engine.block_height() + 200)
    while (due := engine.next_event_ms()) is not None:
        engine.run(due)
    assert returned[0].code == FailureCode.FEE_INSUFFICIENT


@pytest.mark.parametrize(
    "unfit",
    [
        {"disabled": True},
        {"htlc_min_msat": AMOUNT + 1},
        {"htlc_max_msat": AMOUNT - 1},
    ],
    ids=str,
)
def test_a_channel_that_is_disabled_or_has_other_limits_is_passed_over(unfit: dict[str, Any]) -> None:
    assert not sent(engine_with(middle(50_000), middle(200_000, **unfit))).settled
    engine = engine_with(middle(50_000), middle(200_000, **unfit), middle(900_000))
    assert sent(engine).settled
    assert moved(engine) == [0, 0, AMOUNT]


def test_a_channel_that_carries_too_little_at_once_or_has_no_slot_left_is_replaced() -> None:
    limited = engine_with(middle(900_000, htlc_max_msat=AMOUNT - 1), middle(900_000))
    assert sent(limited).settled
    assert moved(limited) == [0, AMOUNT]
    full = engine_with(middle(900_000), middle(500_000), middle(900_000))
    full.slots[2] = full.slots[4] = MAX_ACCEPTED_HTLCS
    shard = PaymentSession(0, 0, 3, AMOUNT)
    route = full.policies.route([0, 2, 8], AMOUNT)
    found = full.send(shard, 0, route, full.block_height() + 200)
    while (due := full.next_event_ms()) is not None:
        full.run(due)
    assert (found.settled, found.taken[1]) == (True, 6)


@pytest.mark.parametrize("what", ["closed", "disabled"])
def test_a_named_channel_that_is_closed_or_disabled_fails(what: str) -> None:
    engine = engine_with(middle(900_000, disabled=what == "disabled"), middle(900_000))
    if what == "closed":
        engine.close([1])
    shard = sent(engine)
    assert shard.code == {
        "closed": FailureCode.PERMANENT_CHANNEL_FAILURE, "disabled": FailureCode.CHANNEL_DISABLED,
    }[what]  # fmt: skip


def test_a_channel_closed_since_is_not_another_one() -> None:
    engine = engine_with(middle(50_000), middle(900_000))
    assert sent(engine).settled
    engine.close([2])
    assert not sent(engine).settled


def test_the_payer_s_own_channel_is_the_one_that_it_chose() -> None:
    edges = [
        {"a": "payer", "b": "shop", "capacity_sat": 1_000_000, "a_balance_sat": mine} for mine in (50_000, 900_000)
    ]
    engine = Engine(from_edges(edges, shop="shop"), 0, lambda name: sha256(name.encode()).digest())
    shard = engine.send(None, 0, engine.policies.route([0], AMOUNT), engine.block_height() + 200)
    while (due := engine.next_event_ms()) is not None:
        engine.run(due)
    assert (shard.settled, shard.reporter_hop) == (False, 0)


def test_the_other_channel_is_freed_when_a_later_hop_fails() -> None:
    engine = engine_with(middle(50_000), middle(900_000))
    engine.balance[6], engine.balance[7] = 0, engine.capacity[3]
    shard = sent(engine)
    assert (shard.settled, shard.reporter_hop, shard.taken[1]) == (False, 2, 4)
    assert moved(engine) == [0, 0]


def test_payers_learn_of_the_channel_that_they_named() -> None:
    engine = engine_with(middle(50_000), middle(900_000, base_msat=99_000))
    payers = PaymentSessions(engine)
    session = payers.start(PaymentSession(0, 0, 3, AMOUNT))
    while (due := engine.next_event_ms()) is not None:
        engine.run(due)
    assert (session.outcome, session.attempt_count) == ("SUCCEEDED", 1)
    [known] = [{edge: low for edge, low, *_ in row[2]} for row in payers.mission_control.dump() if row[0] == 0]
    assert known[2]
    assert 4 not in known


def test_a_rollback_gives_back_what_the_other_channel_carried() -> None:
    engine = engine_with(middle(50_000), middle(900_000))
    route = engine.policies.route([0, 2, 6], AMOUNT)
    shard = engine.send(None, 0, route, engine.block_height() + 200)
    before = engine.balance[:], list(engine.slots), list(engine.in_flight)
    engine.begin()
    while shard.hop < 1:
        engine.run(engine.next_event_ms() or 0)
    assert shard.taken == [0, 4, 6]
    engine.rollback()
    assert shard.taken == [0, 2, 6]
    assert (engine.balance, engine.slots, engine.in_flight) == before
    audit(engine)
    while (due := engine.next_event_ms()) is not None:
        engine.run(due)
    assert (shard.settled, shard.taken) == (True, [0, 4, 6])
    audit(engine)


def test_an_interceptor_of_a_channel_acts_on_what_was_named_for_it() -> None:
    for channel, code in ((1, FailureCode.TEMPORARY_NODE_FAILURE), (2, None)):
        with Sandbox(seed=3, network=from_edges(PAIR, shop="shop"), conditions="ideal") as sandbox:
            charge = sandbox.charges.create(amount=str(AMOUNT), description="tea", expiresIn=7_200)
            sandbox.network.intercept("fail", channel=channel, code=FailureCode.TEMPORARY_NODE_FAILURE)
            payment = sandbox.wallet("ana").pay(charge)
            sandbox.advance("1m")
            assert payment.row["attempts"][0]["code"] == code


# What is kept


PAIR = [
    ("ana", "a", 9_000_000),
    {"a": "a", "b": "shop", "capacity_sat": 1_000_000, "a_balance_sat": 50_000},
    {"a": "a", "b": "shop", "capacity_sat": 2_000_000, "a_balance_sat": 1_500_000, "base_msat": 50_000},
]


def held(sandbox: Sandbox) -> Any:
    """A payment over another channel than the payer named, which is on its way."""
    charge = sandbox.charges.create(amount=str(AMOUNT), description="tea", expiresIn=7_200)
    sandbox.network.intercept("delay", hop=-1, delay="10m")
    payment = sandbox.wallet("ana").pay(charge)
    sandbox.advance("1m")
    [shard] = sandbox.world.engine.shards.values()
    assert (shard.edges, shard.taken) == ([0, 2], [0, 4])
    return payment


def ended(sandbox: Sandbox) -> list[int]:
    sandbox.run("1h")
    audit(sandbox.world.engine)
    return list(sandbox.world.engine.balance)


def test_an_htlc_on_another_channel_is_forked_saved_and_reopened(tmp_path: Path) -> None:
    graph = from_edges(PAIR, shop="shop")
    with Sandbox(seed=3, network=graph, conditions="ideal", data=tmp_path / "data") as sandbox:
        held(sandbox)
        audit(sandbox.world.engine)
        sandbox.save(tmp_path / "saved.json")
        with sandbox.fork() as fork, Sandbox.load(tmp_path / "saved.json") as loaded:
            found = [ended(one) for one in (fork, loaded)]
    with Sandbox(data=tmp_path / "data") as reopened:
        assert [ended(reopened)] * 2 == found
    balances = found[0]
    assert balances[2:4] == [50_000_000, 950_000_000]
    assert balances[4] == 1_500_000_000 - AMOUNT


def test_a_saved_htlc_on_a_channel_of_other_nodes_is_refused(tmp_path: Path) -> None:
    with Sandbox(seed=3, network=from_edges(PAIR, shop="shop"), conditions="ideal") as sandbox:
        held(sandbox)
        written = sandbox.snapshot()
    written["network"]["shards"][0]["taken"] = [0, 1]
    path = tmp_path / "saved.json"
    path.write_text(json.dumps(written))
    with pytest.raises(ForkError, match="taken has edges that do not join the same nodes"):
        Sandbox.load(path)


# Generated networks


@pytest.mark.parametrize(("nodes", "share"), deep_except([(400, 0.11), (1_500, 0.11), (6_006, 0.11)], (400, 0.11)))
def test_a_share_of_the_channels_is_parallel_and_degrees_stay(nodes: int, share: float) -> None:
    plain, graph = generate(f"scale-free:{nodes}", 5), generate(f"scale-free:{nodes}", 5, parallel_share=share)
    assert graph.channels == plain.channels
    times = np.unique(graph.source[::2] * nodes + graph.target[::2], return_counts=True)[1]
    assert 1 - len(times) / graph.channels == pytest.approx(share, abs=0.002)
    # In the snapshot 1,925 of 2,404 such pairs have two channels.
    assert (times == 2).sum() / (times > 1).sum() == pytest.approx(0.76, abs=0.12)
    for quantile in (0.5, 0.75, 0.9, 0.99):
        assert np.quantile(graph.degree, quantile) == pytest.approx(
            np.quantile(plain.degree, quantile), rel=0.15, abs=1
        )
    assert graph.degree.max() == pytest.approx(plain.degree.max(), rel=0.1)
    assert graph.dump() == generate(f"scale-free:{nodes}", 5, parallel_share=share).dump()


@pytest.mark.parametrize("share", [0.01, 0.11, 0.5])
def test_a_small_network_with_parallel_channels_is_connected(share: float) -> None:
    networkx = pytest.importorskip("networkx")
    for nodes, seed in ((10, 1), (12, 2), (30, 3), (60, 4), (1_200, 5)):
        graph = generate(f"scale-free:{nodes}", seed, parallel_share=share)
        drawn = networkx.DiGraph(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
        assert len(drawn) == nodes
        assert networkx.is_strongly_connected(drawn)


def test_other_shapes_and_graphs_that_exist_have_no_such_condition() -> None:
    with pytest.raises(GraphError, match="parallel is of scale-free networks: leave it out for 'hub:30'"):
        Sandbox(network="hub:30,parallel=0.1")
    with pytest.raises(GraphError, match=r"'parallel=0.1' is of generated networks, and this one has its channels"):
        Sandbox(network=from_edges(PAIR), conditions="parallel=0.1")
    with pytest.raises(GraphError, match=r"parallel='0.6' is out of bounds: give a number from 0 to 0.5"):
        Sandbox(network="scale-free:30,parallel=0.6")


def test_more_payments_need_one_attempt_where_nodes_forward_over_any_channel() -> None:
    """Of the same payments, with and without the rule."""
    attempts = {}
    for any_channel in (True, False):
        graph = replace(generate("scale-free:400", 11, parallel_share=0.3), conditions="ideal")
        engine = Engine(graph, 0, lambda name: sha256(name.encode()).digest())
        if not any_channel:
            engine.parallel_edges = lambda edge: []  # type: ignore[method-assign]
        payers, chance = PaymentSessions(engine), np.random.default_rng(3)
        sessions = []
        for number in range(150):
            payer, target = (int(node) for node in chance.choice(400, 2, replace=False))
            sessions.append(payers.start(PaymentSession(number, payer, target, 300_000_000)))
            while (due := engine.next_event_ms()) is not None:
                engine.run(due)
        attempts[any_channel] = sum(each.attempt_count for each in sessions)
        audit(engine)
    assert attempts[True] < attempts[False]
