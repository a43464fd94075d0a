"""The network: policies of hops, what payers learn, and conservation of every msat."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from leyden import Sandbox
from leyden.errors import GraphError
from leyden.lightning.engine.engine import Engine
from leyden.lightning.engine.network_conditions import NetworkConditions
from leyden.lightning.payer.payment_session import PaymentSession, PaymentSessions
from leyden.lightning.payer.trial_payments import fee_limit
from leyden.lightning.routing.mission_control import interpret_failure
from leyden.lightning.routing.pathfinding import EdgePolicies, hop_fee
from leyden.lightning.topology.generate import LEAST_NODES, SHAPES, generate
from leyden.lightning.topology.graph import from_edges
from leyden.lightning.topology.import_graph import import_graph
from tests.support.channel_audit import audit
from tests.support.examples import examples
from tests.support.set_receiver import fail_incomplete_sets, receive_sets


def secret(name: str) -> bytes:
    return sha256(name.encode()).digest()


def sessions(engine: Engine) -> PaymentSessions:
    receive_sets(engine)
    return PaymentSessions(engine)


def finish(engine: Engine) -> None:
    while (due := engine.next_event_ms()) is not None or fail_incomplete_sets(engine):
        engine.run(due or engine.now)
        audit(engine)


# Fees and deltas of hops


def test_the_standards_own_example_of_a_fee():
    assert hop_fee(4_999_999, 200, 2_000) == 10_199  # BOLT 7, "HTLC Fees"


def test_fees_and_deltas_add_up_from_the_receiver_backwards():
    graph = from_edges(
        [
            {"a": "a", "b": "b", "capacity_sat": 10_000, "base_msat": 100, "ppm": 1_000, "cltv_delta": 10},
            {"a": "b", "b": "c", "capacity_sat": 10_000, "base_msat": 200, "ppm": 2_000, "cltv_delta": 20},
            {"a": "c", "b": "d", "capacity_sat": 10_000, "base_msat": 300, "ppm": 3_000, "cltv_delta": 30},
        ]
    )
    terms = EdgePolicies(graph)
    last = 4_999_999 + hop_fee(4_999_999, 300, 3_000)
    route = terms.route([0, 2, 4], 4_999_999)
    assert route.amounts == [last + hop_fee(last, 200, 2_000), last, 4_999_999]
    assert route.cltv_offsets == [50, 30, 0]


@pytest.mark.parametrize(("amount", "limit"), [(999_999, 999_999), (1_000_000, 1_000_000), (1_000_001, 50_000)])
def test_a_payer_spends_as_much_as_a_small_amount_and_5_percent_of_a_larger_one(amount, limit):
    assert fee_limit(amount) == limit


# What payers learn: LIGHTNING's table, for a route of three edges whose second node answers


@pytest.mark.parametrize(
    ("code", "reporter", "second", "retried", "shut", "at_any", "good_to"),
    [
        (0x1007, 1, False, True, (2,), False, 1),
        (0x1014, 1, False, True, (2, 3), True, 1),
        (0x400A, 1, False, True, (2, 3), True, 1),
        (0x100B, 1, False, True, (), True, 0),
        (0x100C, 1, True, True, (0,), True, 0),
        (0x100D, 1, True, True, (0,), True, 0),
        (0x100E, 1, False, True, (7, 6), True, 0),
        (21, 1, False, True, (7, 6), True, 0),
        (0x2002, 1, False, True, (7, 6), True, 0),
        (0x6002, 1, False, True, (7, 6), True, 0),
        (0x4008, 1, False, True, (2, 3), True, 0),
        (0x400F, 3, False, False, (), True, 3),
        (18, 3, False, True, (4,), True, 0),
        (19, 3, False, True, (4,), True, 0),
        (23, 3, False, True, (), True, 3),
    ],
)
def test_a_failure_code_gives_its_penalties(code, reporter, second, retried, shut, at_any, good_to):
    interpretation = interpret_failure(code, reporter, [0, 2, 4], already_retried=second, reporter_edges=[7, 6])
    assert (
        interpretation.retried,
        interpretation.failed_edges,
        interpretation.at_any_amount,
        interpretation.succeeded_hops,
    ) == (
        retried,
        shut,
        at_any,
        good_to,
    )
    assert interpretation.learned.endswith("removed" if code in (0x2002, 0x6002, 0x4008) else "amount") is bool(shut)


def test_a_final_refusal_of_a_direct_channel_is_not_retried():
    assert not interpret_failure(18, 1, [0], already_retried=False, reporter_edges=[]).retried


# Networks


def test_equal_seeds_make_equal_networks():
    one, same, other = (generate("scale-free:200", seed) for seed in (1, 1, 2))
    assert (one.local_msat == same.local_msat).all()
    assert (one.source == same.source).all()
    assert one.channels != other.channels or (one.source != other.source).any()


@pytest.mark.parametrize("what", ["mesh:5", "line", "line:1", "line:-2", "scale-free:9", "star:200000", "line:\u0664"])
def test_an_invalid_network_is_refused(what):
    with pytest.raises(GraphError, match=r"network="):
        generate(what, 1)


def test_every_shape_is_connected():
    networkx = pytest.importorskip("networkx")
    for what in (f"{shape}:{nodes}" for shape in SHAPES for nodes in (LEAST_NODES.get(shape, 2), 40, 300)):
        graph = generate(what, 3)
        drawn = networkx.DiGraph(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
        assert len(drawn) == len(graph.names)
        assert networkx.is_strongly_connected(drawn)


def test_a_file_of_lnd_with_holes_is_read_and_the_holes_are_counted():
    policy = {"fee_base_msat": "1000", "fee_rate_milli_msat": "1", "time_lock_delta": 40, "min_htlc": "1"}
    edges = [
        {"channel_id": "1", "node1_pub": "a", "node2_pub": "b", "capacity": "50000", "node1_policy": policy},
        {"channel_id": "2", "node1_pub": "b", "node2_pub": "c", "capacity": "0", "node1_policy": policy},
        {"channel_id": "3", "node1_pub": "b", "node2_pub": "c", "capacity": "7"},
        {"channel_id": "4", "node1_pub": "b", "node2_pub": "", "capacity": "7", "node1_policy": policy},
    ]
    read = import_graph({"edges": edges})
    assert (read.graph.names, read.graph.channels, read.graph.disabled.tolist()) == (["a", "b"], 1, [False, True])
    assert sum(read.dropped.values()) == 4


def test_a_file_of_core_lightning_is_read():
    half = {"short_channel_id": "1x1x1", "amount_msat": "9000msat", "base_fee_millisatoshi": 5, "delay": 6}
    ends = [("a", "b"), ("b", "a")]
    read = import_graph({"channels": [{**half, "source": a, "destination": b} for a, b in ends]})
    assert (read.graph.base_msat.tolist(), read.graph.cltv_delta.tolist(), read.dropped) == ([5, 5], [6, 6], {})
    with pytest.raises(GraphError, match="describegraph"):
        import_graph({})


# Payments


@given(
    capacities=st.lists(st.integers(2_000, 200_000), min_size=3, max_size=5),
    more=st.integers(0, 100_000),
    which=st.integers(0, 4),
    amount=st.integers(1_000, 150_000),
)
@examples(60)
def test_more_capacity_on_a_path_never_lowers_success(capacities, more, which, amount):
    def succeeds(sizes: list[int]) -> bool:
        engine = Engine(from_edges([(f"n{i}", f"n{i + 1}", size) for i, size in enumerate(sizes)]), 0, secret)
        order = sessions(engine).start(PaymentSession(0, 0, len(sizes), amount * 1_000))
        finish(engine)
        return order.outcome == "SUCCEEDED"

    larger = [size + more * (place == which % len(capacities)) for place, size in enumerate(capacities)]
    assert succeeds(capacities) <= succeeds(larger)


def test_an_amount_too_large_for_one_channel_is_split():
    edges = [(end, middle, 40_000) for middle in ("x", "y", "z") for end in ("a", "b")]
    engine = Engine(from_edges(edges, shop="b"), 0, secret)
    payers, graph = sessions(engine), engine.graph
    order = payers.start(PaymentSession(0, graph.names.index("a"), graph.names.index("b"), 30_000_000))
    finish(engine)
    assert (order.outcome, order.received_msat) == ("SUCCEEDED", 30_000_000)
    assert order.attempt_count > 1


class PaymentsInTheNetwork(RuleBasedStateMachine):
    """Payments, holds, drains, rollbacks and time in any order: every channel adds up after every step."""

    @initialize(seed=st.integers(0, 5))
    def begin(self, seed: int) -> None:
        # Much that goes wrong: half the nodes slow, one HTLC in twenty stuck, half of these for longer than they live,
        # nodes away a fifth of the time.
        conditions = NetworkConditions(slow_share=0.5, stuck_share=0.05, mean_stuck_ms=72_000_000, up_share=0.8)
        graph = generate("scale-free:30", seed, parallel_share=0.3 if seed % 2 else 0.0)
        self.engine = Engine(graph, 0, secret, conditions=conditions)
        self.payers = sessions(self.engine)
        self.orders: list[PaymentSession] = []
        self.ended: list[int] = []
        self.payers.on_end = lambda order: self.ended.append(order.id)

    @rule(
        payer=st.integers(0, 29),
        payee=st.integers(0, 29),
        amount=st.sampled_from([1, 1_000, 10**6, 10**8, 10**9]),
        shares=st.integers(1, 4),
    )
    def pay(self, payer: int, payee: int, amount: int, shares: int) -> None:
        if payer != payee:
            order = PaymentSession(len(self.orders), payer, payee, amount)
            order.gives_up_at = self.engine.now + 60_000
            self.orders.append(order)
            parts = [amount // shares + (place < amount % shares) for place in range(shares)]
            self.payers.start(order, [part for part in parts if part])

    @rule(edge=st.integers(0, 10_000), share=st.sampled_from([0.1, 0.98, 1.0]))
    def drain(self, edge: int, share: float) -> None:
        edge %= len(self.engine.balance)
        self.engine.move_balance(edge, int(self.engine.balance[edge] * share))

    @rule(span=st.sampled_from([0, 1, 100, 5_000, 200_000, 40_000_000]))
    def wait(self, span: int) -> None:
        self.engine.run(self.engine.now + span)
        if self.engine.next_event_ms() is None:
            fail_incomplete_sets(self.engine)

    @rule(span=st.sampled_from([100, 5_000]), amount=st.sampled_from([10**6, 10**8]))
    def roll_back(self, span: int, amount: int) -> None:
        engine = self.engine
        before = (
            engine.balance[:],
            engine.in_flight.copy(),
            engine.next_event_ms(),
            engine.now,
            len(engine.shards),
        )
        marks = [order.saved_fields() for order in self.orders]
        ended = len(self.ended)
        engine.begin()
        self.payers.start(PaymentSession(-1, 0, 1, amount))
        engine.run(engine.now + span)
        engine.rollback()
        del self.ended[ended:]
        assert before == (
            engine.balance, engine.in_flight, engine.next_event_ms(), engine.now, len(engine.shards)
        )  # fmt: skip
        assert marks == [order.saved_fields() for order in self.orders]

    @invariant()
    def channels_add_up(self) -> None:
        audit(self.engine)
        assert len(self.ended) == len(set(self.ended))  # nothing ends twice
        for order in self.orders:
            assert (order.outcome is None) == (order.id not in self.ended)
            if order.outcome is not None:
                assert order.received_msat == (order.amount_msat if order.outcome == "SUCCEEDED" else 0)

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            finish(self.engine)
            self.channels_add_up()
            assert len(self.ended) == len(self.orders)
            assert not any(self.engine.in_flight)


TestPaymentsInTheNetwork = PaymentsInTheNetwork.TestCase
TestPaymentsInTheNetwork.settings = examples(40, bounded=12, stateful_step_count=25)


# In the sandbox


def shop(**more: object) -> Sandbox:
    return Sandbox(seed=7, start="2030-01-01T09:00:00Z", network="scale-free:60", **more)


def test_a_payment_travels_to_the_shop_and_completes_the_charge():
    with shop() as sandbox:
        charge = sandbox.charges.create(amount="250000", description="Coffee", expiresIn=300)
        payment = sandbox.wallet("ana").pay(charge)
        sandbox.run("5s")
        [attempt] = payment.row["attempts"][-1:]
        assert (charge.status, payment.outcome, attempt["learned"]) == ("completed", "SUCCEEDED", "route was good")
        assert attempt["route"][-1] == sandbox.network["shop"].name
        audit(sandbox.world.engine)


def test_a_shop_without_inbound_liquidity_fails_every_payer_and_its_invoice_stays_open():
    with shop() as sandbox:
        sandbox.network["shop"].drain(inbound=1.0)
        charge = sandbox.charges.create(amount="90000000", description="TV", expiresIn=3_600)
        payment = sandbox.wallet("bob").pay(charge)
        sandbox.run("5m")
        assert (payment.outcome, charge.status) == ("NO_ROUTE", "pending")
        last = [attempt for attempt in payment.row["attempts"] if attempt["code"] == 0x1007]
        assert last
        assert "had 0 msat" in str(payment.reason) or "offline" in str(payment.reason)


def test_a_held_payment_waits_for_its_settlement_and_a_wrong_secret_has_the_common_code():
    with shop() as sandbox:
        held, wrong = (sandbox.charges.create(amount="250000", description="x", expiresIn=900) for _ in range(2))
        one, two = (
            sandbox.wallet("ana").pay(held, outcome="hold"),
            sandbox.wallet("ana").pay(wrong, outcome="wrong_secret"),
        )
        sandbox.run("20s")
        assert (one.status, held.status, two.outcome) == ("held", "pending", "INCORRECT_PAYMENT_DETAILS")
        assert "secret" in str(two.reason)
        assert two.row["attempts"][-1]["code"] == 0x400F
        one.settle()
        sandbox.run("20s")
        assert (one.outcome, held.status) == ("SUCCEEDED", "completed")


def test_the_same_lines_give_the_same_journal_with_a_network():
    def run() -> str:
        with shop() as sandbox:
            for name in ("ana", "bob", "cyd"):
                sandbox.wallet(name).pay(sandbox.charges.create(amount="5000000", description="x", expiresIn=60))
            sandbox.run("2m")
            return sandbox.world.journal.hash

    assert run() == run()


def test_a_world_of_direct_payments_has_no_network():
    with Sandbox(seed=1) as direct, pytest.raises(ValueError, match="direct"):
        _ = direct.network
