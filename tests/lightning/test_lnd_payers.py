"""Payers as in LND: the numbers are those of LND's own tests.

Read from lightningnetwork/lnd at commit 90ea05d5a7f9239ede8eb4e2f36d9a66c39e67d5: routing/probability_apriori_test.go,
probability_bimodal_test.go, missioncontrol_test.go, missioncontrol_state_test.go, result_interpretation_test.go and
pathfind_test.go.
"""

from __future__ import annotations

from hashlib import sha256
from math import e
from types import SimpleNamespace

import pytest

from leyden.lightning.engine.engine import Engine
from leyden.lightning.failure_codes import FailureCode
from leyden.lightning.payer.payment_session import PaymentSession
from leyden.lightning.payer_models.lnd import LndPayer, PathCosts, interpret
from leyden.lightning.payer_models.lnd_estimators import (
    NEVER,
    AprioriEstimator,
    BimodalEstimator,
    PairResult,
    capacity_factor,
)
from leyden.lightning.topology.graph import from_edges

HOUR_MS = 3_600_000
NOW = 1_000 * HOUR_MS
UNTRIED = 255


def secret(name: str) -> bytes:
    return sha256(name.encode()).digest()


# The a priori estimator

APRIORI = AprioriEstimator(weight=0.75)
CAPACITY, AMOUNT, CAP_FACTOR = 100_000_000, 90_000_000, 0.9909715
ONE_FAILURE = {1: PairResult(0, 50, NEVER, NOW - HOUR_MS)}
MIX = {
    1: PairResult(success_msat=1_000, success_at=NOW),
    2: PairResult(0, 50, NEVER, NOW - 2 * HOUR_MS),
    3: PairResult(0, 50, NEVER, NOW - 3 * HOUR_MS),
}
MIX_NODE = (3 * 0.6 + 0.95) / (3 + 1 + 0.25 + 0.125)
SUCCESS = {1: PairResult(success_msat=AMOUNT, success_at=NOW)}


@pytest.mark.parametrize(
    ("results", "to_node", "amount", "expected"),
    [
        ({}, 0, 0, 0.6),
        ({}, 0, AMOUNT, 0.6 * CAP_FACTOR),
        (SUCCESS, 1, 100, 0.95),
        (SUCCESS, 1, AMOUNT, 0.95),
        (SUCCESS, UNTRIED, 100, (3 * 0.6 + 0.95) / 4),
        (SUCCESS, UNTRIED, AMOUNT, (3 * 0.6 * CAP_FACTOR + 0.95) / 4),
        (ONE_FAILURE, UNTRIED, 100, 3 * 0.6 / 3.5),
        (ONE_FAILURE, 1, 100, 3 * 0.6 / 3.5 / 2),
        (MIX, 1, 100, 0.95),
        (MIX, UNTRIED, 100, MIX_NODE),
        (MIX, 2, 100, MIX_NODE * 0.75),
    ],
)
def test_the_a_priori_probabilities_are_lnds(results, to_node, amount, expected):
    assert APRIORI.pair(NOW, results, to_node, amount, CAPACITY) == pytest.approx(expected, abs=0.001)


@pytest.mark.parametrize(
    ("fraction", "share", "expected"),
    [
        (0.75, 0, 1), (0.75, 0.1, 1), (0.75, 0.5, 1), (0.75, 0.75, 0.75), (0.75, 0.8, 0.560), (0.75, 1, 0.5),
        (0.75, 1 + 1e-9, 0), (0.9999, 0, 1), (0.9999, 0.9, 0.990), (0.9999, 1, 0.75), (1, 1, 1),
    ],
)  # fmt: skip
def test_the_capacity_factor_is_lnds(fraction, share, expected):
    assert capacity_factor(round(share * 10**9), 10**9, fraction) == pytest.approx(expected, abs=0.001)


# The bimodal estimator

SMALL, LARGE, CHANNEL, SCALE = 400_000_000, 5_000_000_000, 10_000_000_000, 400_000_000


@pytest.mark.parametrize(
    ("can", "cannot", "amount", "expected"),
    [
        (0, CHANNEL, CHANNEL + 1, 0), (0, CHANNEL, LARGE, 0.5), (0, CHANNEL, 0, 1), (0, CHANNEL, CHANNEL, 0),
        (0, CHANNEL, SMALL, 0.684), (LARGE, CHANNEL, SMALL, 1), (LARGE, CHANNEL, LARGE, 1),
        (SMALL // 2, CHANNEL, SMALL, 0.851), (LARGE // 2, CHANNEL, LARGE, 0.998), (0, LARGE, LARGE, 0),
        (0, LARGE, LARGE + SMALL, 0), (0, LARGE, SMALL, 0.368), (SMALL, LARGE, 0, 1), (SMALL, LARGE, SMALL, 1),
        (SMALL, LARGE, SMALL + LARGE // 10, 0.287), (SMALL, LARGE, LARGE, 0), (LARGE, LARGE, LARGE, 0.5),
        (LARGE, SMALL, LARGE, 0.5), (2 * CHANNEL, 2 * CHANNEL + 1, LARGE, 1), (SMALL // 2, 2 * CHANNEL, SMALL, 0.851),
    ],
)  # fmt: skip
def test_the_bimodal_probabilities_are_lnds(can, cannot, amount, expected):
    assert BimodalEstimator(SCALE).direct(CHANNEL, can, cannot, amount) == pytest.approx(expected, abs=0.001)


@pytest.mark.parametrize(("amount", "expected"), [(10**9 + 1, 1), (4 * 10**9 - 1, 0), (10**9 + 750_000_000, 0.75)])
def test_a_scale_that_is_too_small_gives_uniform_probabilities(amount, expected):
    found = BimodalEstimator(1).direct(7 * 10**9, 10**9, 4 * 10**9, amount)
    assert found == pytest.approx(expected, abs=0.001)


def test_the_seed_of_lnds_fuzz_test_is_a_probability():
    assert 0 <= BimodalEstimator(400_000).direct(10**9, 300_000_000, 400_000_000, 300_000_001) <= 1


def test_the_density_has_the_integral_one():
    assert BimodalEstimator().integral(21e17, 0, 21e17) == pytest.approx(1)
    assert BimodalEstimator().integral(1, 1, 1) == 0


def test_amounts_decay_as_in_lnd():
    model = BimodalEstimator(decay_ms=1_000_000)
    assert [model.can_send(1_000_000, age) for age in (0, 1_000_000, 10**13)] == [1_000_000, int(1_000_000 / e), 0]
    shown = [model.cannot_send(1_000_000, 3_000_000, age) for age in (0, 1_000_000, 10**13)]
    assert shown == [1_000_000, 3_000_000 - int(2_000_000 / e), 3_000_000]


DAY_MS = 24 * HOUR_MS


@pytest.mark.parametrize(
    ("direct", "others", "age_ms", "expected"),
    [
        (0.5, "", 0, 0.5), (0.5, "+", 0, 0.583), (0.5, "+++++", 0, 0.75), (0.5, "-", 0, 0.416), (0.5, "-----", 0, 0.25),
        (0.5, "+-", 0, 0.5), (0.5, "++---", 0, 0.45), (1, "+++++", 0, 1), (1, "-----", 0, 0.5), (1, "-", 0, 0.8333),
        (1, "-------", 0, 0.416), (0, "---", 0, 0), (0, "+++++", 0, 0.5), (1, "+", DAY_MS, 1), (1, "-", DAY_MS, 0.9314),
        (1, "-", 10 * DAY_MS, 1), (0, "+++++", DAY_MS, 0.269), (0.5, "+++++", DAY_MS // 10, 0.741),
    ],
)  # fmt: skip
def test_other_pairs_of_a_node_count_as_in_lnd(direct, others, age_ms, expected):
    at = NOW - age_ms
    results = {
        peer: PairResult(1, 0, at, NEVER) if sign == "+" else PairResult(0, 1, NEVER, at)
        for peer, sign in enumerate(others)
    }
    model = BimodalEstimator(SCALE, 0.2, DAY_MS)
    long_ago = results | {10: PairResult(1, 0, NOW - 2 * DAY_MS, NEVER)}
    assert model.with_node(direct, NOW, long_ago, 10) == pytest.approx(expected, abs=0.01)  # LND's tolerance
    recent = results | {10: PairResult(1, 0, NOW - DAY_MS // 2, NEVER)}
    assert model.with_node(direct, NOW, recent, 10) == direct


@pytest.mark.parametrize(("age_ms", "expected"), [(None, 1), (0, 0), (HOUR_MS, 1 - 1 / e), (10 * HOUR_MS, 1)])
def test_a_local_pair_that_failed_recovers_as_in_lnd(age_ms, expected):
    results = {} if age_ms is None else {1: PairResult(failure_at=NOW - age_ms)}
    assert BimodalEstimator(decay_ms=HOUR_MS).local_pair(NOW, results, 1) == pytest.approx(expected, abs=0.001)


# Mission control


def line() -> Engine:
    channels = [(f"n{number}", f"n{number + 1}", 100_000) for number in range(4)]
    return Engine(from_edges(channels), NOW, secret)


def test_results_of_a_pair_change_it_as_in_lnd():
    known = LndPayer(line())
    for amount, after_ms, expected in ((1_000, 0, 1_000), (1_100, HOUR_MS, 1_100), (1_200, HOUR_MS + 1_000, 1_100)):
        known.report(0, (1, 2), amount, False, NOW + after_ms)
        assert known.result_of(0, (1, 2)).failure_msat == expected
    known.report(0, (1, 2), 1_500, True, NOW + HOUR_MS + 2_000)
    assert known.result_of(0, (1, 2)) == PairResult(1_500, 1_501, NOW + HOUR_MS + 2_000, NOW + HOUR_MS)


def failure(code: int, hop: int, edges: list[int], amounts: list[int]) -> SimpleNamespace:
    return SimpleNamespace(code=code, reporter_hop=hop, edges=edges, amounts=amounts)


def test_probabilities_follow_failures_as_in_lnds_test_of_mission_control():
    known = LndPayer(line(), AprioriEstimator(0.9, 0.5, HOUR_MS // 2))

    def probability(amount: int, at: int) -> float:
        return known.estimator.pair(at, known.results_by_node(0).get(1, {}), 2, amount, 100_000_000)

    def fail(code: int, amount: int, at: int) -> None:
        pairs = [(0, 1), (1, 2)]
        known.apply(0, interpret(pairs, failure(code, 1, [0, 2], [amount, amount])), at)

    assert known.estimator.local_pair(NOW, {}, 1) == 0.95
    assert probability(1_000, NOW) == pytest.approx(0.9)
    fail(FailureCode.TEMPORARY_CHANNEL_FAILURE, 1_000, NOW)
    assert [probability(amount, NOW) for amount in (1_000, 500)] == pytest.approx([0, 0.9])
    later = NOW + HOUR_MS // 2
    assert probability(1_000, later) == pytest.approx(0.3)
    fail(FailureCode.TEMPORARY_CHANNEL_FAILURE, 0, later)
    assert [probability(amount, later) for amount in (1_000, 500)] == [0, 0]
    assert probability(1_000, NOW + HOUR_MS) == pytest.approx(0.3)
    fail(FailureCode.EXPIRY_TOO_SOON, 0, NOW + HOUR_MS)
    assert probability(1_000, NOW + HOUR_MS) == 0
    assert len(known.facts(0)) == 4


def test_a_pair_gets_a_second_chance_after_a_policy_failure_once_a_minute():
    found = interpret([(0, 1), (1, 2)], failure(FailureCode.FEE_INSUFFICIENT, 1, [0, 2], [100, 100]))
    fresh = LndPayer(line())
    assert not fresh.apply(0, found, NOW)
    assert fresh.result_of(0, (1, 2)) == PairResult()
    assert fresh.apply(0, found, NOW + 60_000)
    assert fresh.result_of(0, (1, 2)) == PairResult(failure_at=NOW + 60_000)
    assert not fresh.apply(0, found, NOW + 60_001)  # of the first one


TWO, FOUR = (2, [100, 99]), (4, [100, 99, 97, 94])


@pytest.mark.parametrize(
    ("route", "hop", "code", "expected", "node", "policy", "retried"),
    [
        (TWO, 1, FailureCode.TEMPORARY_CHANNEL_FAILURE, {(0, 1): (100, True), (1, 2): (99, False)}, None, None, True),
        (FOUR, 3, FailureCode.EXPIRY_TOO_SOON, "01 12 23", None, None, True),
        (TWO, 2, FailureCode.INCORRECT_OR_UNKNOWN_PAYMENT_DETAILS, {(0, 1): (100, True), (1, 2): (99, True)},
         None, None, False),
        (FOUR, 2, FailureCode.FEE_INSUFFICIENT, {(0, 1): (100, True), (1, 2): (0, False), (2, 1): (0, False)},
         None, (2, 3), True),
        (FOUR, 4, FailureCode.PERMANENT_NODE_FAILURE,
         {(0, 1): (100, True), (1, 2): (99, True), (2, 3): (97, True), (3, 4): (0, False), (4, 3): (0, False)},
         4, None, False),
        (TWO, 1, FailureCode.UNKNOWN_NEXT_PEER, "12", None, None, True),
        (TWO, 1, FailureCode.CHANNEL_DISABLED, {(0, 1): (100, True), (1, 2): (0, False), (2, 1): (0, False)},
         None, (1, 2), True),
        (TWO, 1, FailureCode.TEMPORARY_NODE_FAILURE, "01 12", 1, None, True),
        (TWO, 0, FailureCode.UNKNOWN_NEXT_PEER, {}, None, None, True),
        (TWO, 0, FailureCode.TEMPORARY_CHANNEL_FAILURE, {}, None, None, True),
    ],
)  # fmt: skip
def test_failure_codes_are_interpreted_as_in_lnd(route, hop, code, expected, node, policy, retried):
    hops, amounts = route
    if isinstance(expected, str):  # pairs that fail in both directions at any amount
        pairs = [(int(a), int(b)) for a, b in expected.split()]
        expected = {pair: (0, False) for a, b in pairs for pair in ((a, b), (b, a))}
    found = interpret(
        [(number, number + 1) for number in range(hops)], failure(code, hop, list(range(0, 2 * hops, 2)), amounts)
    )
    assert found[:4] == (expected, node, policy, retried)


# Paths


class Given:
    """An estimator that has the probabilities of LND's test of path finding."""

    def __init__(self, chances: dict[tuple[int, int], float], engine: Engine) -> None:
        self.chances, self.engine = chances, engine

    def pair(self, now_ms, results, to_node, amount_msat, capacity_msat):
        return self.chances[capacity_msat, to_node]

    def local_pair(self, now_ms, results, to_node):
        return 1.0


@pytest.mark.parametrize(
    ("p10", "p11", "p20", "least", "amount_sat", "middle"),
    [
        (0.8, 0.5, 0.7, 0.1, 100, ["a1", "a2"]),
        (0.5, 0.8, 0.7, 0.1, 100, ["a1", "a2"]),
        (0.8, 0.5, 0.7, 0.1, 300, ["b"]),
        (0.5, 0.8, 0.85, 0.1, 100, ["b"]),
        (0.8, 0.5, 0.7, 0.5, 100, ["b"]),
        (0.8, 0.5, 0.7, 0.8, 100, None),
    ],
)
def test_the_path_is_the_one_of_lnds_test_of_probability_routing(p10, p11, p20, least, amount_sat, middle):
    def channel(a, b, capacity, blocks=0, base_sat=0):
        return {
            "a": a, "b": b, "capacity_sat": capacity, "a_balance_sat": capacity - 1_000, "cltv_delta": blocks,
            "base_msat": base_sat * 1_000, "ppm": 0,
        }  # fmt: skip

    graph = from_edges(
        [
            channel("me", "a1", 100_000), channel("me", "b", 100_000), channel("a1", "a2", 100_001, 144, 5),
            channel("a2", "shop", 100_002, 144, 8), channel("b", "shop", 100_003, 100, 25),
        ],
        shop="shop",
    )  # fmt: skip
    engine = Engine(graph, NOW, secret)
    number = graph.names.index
    chances = {
        (100_001_000, number("a2")): p10, (100_002_000, number("shop")): p11, (100_003_000, number("shop")): p20,
    }  # fmt: skip
    for back in ((100_001_000, "a1"), (100_000_000, "me"), (100_002_000, "a2"), (100_003_000, "b")):
        chances[back[0], number(back[1])] = 1.0
    model = LndPayer(engine, Given(chances, engine), PathCosts(9_000, 10_000, least))
    session = PaymentSession("p", number("me"), number("shop"), amount_sat * 1_000)
    found = model.search(session, amount_sat * 1_000).path()
    if middle is None:
        assert found is None
    else:
        assert found is not None
        assert [graph.names[engine.policies.target[edge]] for edge in found] == [*middle, "shop"]
