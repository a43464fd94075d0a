"""Payers as in LDK: the numbers are those of LDK's own tests.

Read from lightningdevkit/rust-lightning at commit cfee4b75593b5f676b998713fa60847311cfb270:
lightning/src/routing/scoring.rs. Its test graph announces no capacities: a result is learned with `LEARNED` msat, the
largest HTLC, while an amount is scored with the capacity of the test.
"""

from __future__ import annotations

from hashlib import sha256
from types import SimpleNamespace

import pytest

from leyden.lightning.engine.engine import Engine
from leyden.lightning.failure_codes import FailureCode
from leyden.lightning.payer.payment_session import PaymentSession
from leyden.lightning.payer_models.ldk import LdkPayer
from leyden.lightning.payer_models.ldk_failures import Failure, interpret
from leyden.lightning.payer_models.ldk_scoring import (
    EMPTY,
    UNKNOWN,
    Decay,
    Liquidity,
    Penalties,
    channel_penalty,
    decayed,
    failed_here,
    historical_share,
    passed_here,
    settled_here,
)
from leyden.lightning.topology.graph import from_edges

LEARNED = 1_000
ZERO = {"base": 0, "base_amount": 0, "history": 0, "history_amount": 0, "anti_probing": 0, "is_linear": True}
IMPOSSIBLE = 1 << 60
LIQUIDITY = Penalties(**{**ZERO, "liquidity": 1_000, "impossible": IMPOSSIBLE})
START = Liquidity(bounds_at=0, history_at=0)


def penalty(known: Liquidity, amount: int, capacity: int, costs: Penalties = LIQUIDITY, in_flight: int = 0) -> int:
    found = channel_penalty(known, amount, in_flight, capacity, LEARNED, costs)
    return IMPOSSIBLE if found >= IMPOSSIBLE else found


@pytest.mark.parametrize(
    ("amount", "capacity", "expected"),
    [
        (1_024, 1_024_000, 0), (10_240, 1_024_000, 0), (102_400, 1_024_000, 47), (1_023_999, 1_024_000, 2_000),
        (128, 1_024, 58), (256, 1_024, 125), (374, 1_024, 198), (512, 1_024, 300), (640, 1_024, 425), (768, 1_024, 602),
        (896, 1_024, 902),
    ],
)  # fmt: skip
def test_the_penalty_grows_towards_the_upper_bound_as_in_ldk(amount, capacity, expected):
    assert penalty(UNKNOWN, amount, capacity) == expected


@pytest.mark.parametrize(
    ("capacity_sat", "expected"),
    [
        (950_000, 211_262), (1_950_000, 180_032), (2_950_000, 164_259), (3_950_000, 154_165), (4_950_000, 149_434),
        (5_950_000, 144_702), (6_950_000, 142_178), (7_450_000, 139_969), (7_950_000, 139_969), (8_950_000, 137_446),
        (9_950_000, 135_238),
    ],
)  # fmt: skip
def test_realistic_payments_have_ldks_penalties(capacity_sat, expected):
    """100,000 sat with LDK's default parameters."""
    assert channel_penalty(UNKNOWN, 100_000_000, 0, capacity_sat * 1_000, 1_000, Penalties()) == expected


def test_bounds_that_are_known_limit_the_penalty_as_in_ldk():
    known = Liquidity(40, 40, bounds_at=0, history_at=0)
    assert penalty(known, 39, 100) == 0
    assert penalty(known, 50, 100) not in (0, IMPOSSIBLE)
    assert penalty(known, 61, 100) == IMPOSSIBLE


def test_a_failure_later_on_the_route_raises_the_lower_bound_as_in_ldk():
    assert [penalty(START, amount, 1_000) for amount in (250, 500, 750)] == [128, 301, 602]
    known = passed_here(START, 500, LEARNED, 0)
    assert [penalty(known, amount, 1_000) for amount in (250, 500, 750)] == [0, 0, 300]


def test_a_failure_at_the_channel_lowers_the_upper_bound_as_in_ldk():
    known = failed_here(START, 500, LEARNED, 0)
    assert [penalty(known, amount, 1_000) for amount in (250, 500, 501, 750)] == [300, 2_000, IMPOSSIBLE, IMPOSSIBLE]


def test_both_directions_of_a_channel_have_the_same_bounds():
    known = Liquidity(100, 700, bounds_at=0, history_at=0)
    assert known.reversed()[:2] == (700, 100)
    raised = passed_here(known, 200, 1_000, 0)
    assert (raised[:2], raised.reversed()[:2]) == ((200, 700), (700, 200))
    lowered = failed_here(known.reversed(), 200, 1_000, 0)
    assert (lowered[:2], lowered.reversed()[:2]) == ((0, 800), (800, 0))


def test_bounds_decay_as_in_ldk():
    decay = Decay(10_000, 10**12, 0)
    assert [penalty(START, amount, 1_024) for amount in (0, 1_023)] == [0, 2_000]
    known = passed_here(failed_here(START, 768, LEARNED, 0), 128, LEARNED, 0)
    assert [penalty(known, amount, 1_024) for amount in (128, 256, 768, 896)] == [0, 93, 1_479, IMPOSSIBLE]
    known = decayed(known, 5_000, decay)
    assert [penalty(known, amount, 1_024) for amount in (128, 256, 768, 896)] == [22, 106, 921, IMPOSSIBLE]
    known = decayed(known, 10_000, decay)
    assert [penalty(known, amount, 1_024) for amount in (64, 128, 896, 960)] == [0, 34, 1_970, IMPOSSIBLE]
    known = decayed(known, 80_000, decay)
    assert [penalty(known, amount, 1_024) for amount in (0, 1, 1_024, 1_025)] == [0, 0, 2_000, IMPOSSIBLE]


def test_what_is_learned_after_a_decay_narrows_the_bounds_as_in_ldk():
    decay = Decay(10_000, 10**12, 0)
    shown = [penalty(START, 512, 1_024)]
    known = passed_here(failed_here(START, 768, LEARNED, 0), 256, LEARNED, 0)
    shown.append(penalty(known, 512, 1_024))
    known = decayed(known, 10_000, decay)
    shown.append(penalty(known, 512, 1_024))
    known = settled_here(known, 64, LEARNED, 10_000)
    shown.append(penalty(known, 512, 1_024))
    known = passed_here(known, 256, LEARNED, 10_000)
    shown.append(penalty(known, 512, 1_024))
    shown.append(penalty(decayed(known, 20_000, decay), 512, 1_024))
    assert shown == [300, 281, 291, 331, 245, 280]


@pytest.mark.parametrize(
    ("costs", "amount", "capacity", "expected"),
    [
        ({"liquidity": 1_000}, 128, 1_024, 58),
        ({"liquidity": 1_000, "base": 500}, 128, 1_024, 558),
        ({"liquidity": 1_000, "base": 500, "base_amount": 1 << 30}, 128, 1_024, 686),
        ({"liquidity": 1_000}, 512_000, 1_024_000, 300),
        ({"liquidity": 1_000, "liquidity_amount": 256}, 512_000, 1_024_000, 337),
    ],
)
def test_penalties_of_the_base_and_of_amounts_are_ldks(costs, amount, capacity, expected):
    assert penalty(UNKNOWN, amount, capacity, Penalties(**{**ZERO, **costs})) == expected


@pytest.mark.parametrize(("htlc_max", "expected"), [(1_000, 0), (1_024_000, 1_250), (512_000, 1_250), (511_999, 0)])
def test_a_large_htlc_maximum_costs_what_it_does_in_ldk(htlc_max, expected):
    costs = Penalties(**{**ZERO, "anti_probing": 1_250})
    assert channel_penalty(UNKNOWN, 512_000, 0, 1_024_000, htlc_max, costs) == expected


def test_what_is_in_flight_counts_as_in_ldk():
    costs = Penalties(**{**ZERO, "impossible": IMPOSSIBLE})
    assert penalty(UNKNOWN, 750, 1_000, costs) != IMPOSSIBLE
    assert penalty(UNKNOWN, 750, 1_000, costs, in_flight=251) == IMPOSSIBLE


def test_the_history_of_failures_is_remembered_as_in_ldk():
    costs = Penalties(**{**ZERO, "history": 1_024, "history_amount": 1_024, "impossible": 0})
    decay = Decay(3_600_000, 10_000, 0)
    assert penalty(UNKNOWN, 100, 1_024, costs) == 135
    assert historical_share(UNKNOWN, 42, LEARNED, True) is None
    known = failed_here(START, 1, LEARNED, 0)
    assert [penalty(known, amount, 1_024, costs) for amount in (100, 1)] == [2_048, 220]
    assert known.lows == (32, *EMPTY[1:])
    assert known.belows == (*EMPTY[:25], 32, *EMPTY[26:])
    share = historical_share(known, 1, LEARNED, True)
    assert share is not None
    assert share > 0.35
    known = passed_here(known, 1_000, LEARNED, 0)
    assert penalty(known, 100, 1_024, costs) == 83
    assert known.lows == (31, *EMPTY[1:26], 32, *EMPTY[27:])
    assert known.belows == (32, *EMPTY[1:25], 31, *EMPTY[26:])
    shares = [historical_share(known, amount, LEARNED, True) for amount in (500, 1)]
    assert 0.61 < (shares[0] or 0) < 0.62
    assert 0.88 < (shares[1] or 0) < 0.89
    known = decayed(known, 160_000, decay)
    assert known.lows == known.belows == EMPTY
    assert penalty(known, 100, 1_024, costs) == 135


# Failures


CODES = FailureCode


@pytest.mark.parametrize(
    ("code", "hop", "expected"),
    [
        (CODES.TEMPORARY_CHANNEL_FAILURE, 1, Failure(1, False)),
        (CODES.FEE_INSUFFICIENT, 1, Failure(1, False)),
        (CODES.UNKNOWN_NEXT_PEER, 1, Failure(1, False, removes_channel=1)),
        (CODES.PERMANENT_CHANNEL_FAILURE, 2, Failure(2, False, removes_channel=2)),
        (CODES.TEMPORARY_NODE_FAILURE, 1, Failure(0, False)),
        (CODES.PERMANENT_NODE_FAILURE, 1, Failure(0, False, removes_node=True)),
        (CODES.EXPIRY_TOO_FAR, 1, Failure(0, False, removes_node=True)),
        (CODES.INCORRECT_OR_UNKNOWN_PAYMENT_DETAILS, 3, Failure(None, True)),
        (CODES.MPP_TIMEOUT, 3, Failure(None, False)),
        (CODES.FINAL_INCORRECT_HTLC_AMOUNT, 3, Failure(2, False)),
    ],
)
def test_failure_codes_blame_the_channel_that_ldk_blames(code, hop, expected):
    """LDK: `process_onion_failure_inner` (lightning/src/ln/onion_utils.rs)."""
    assert interpret(SimpleNamespace(code=code, reporter_hop=hop, edges=[0, 2, 4], amounts=[1, 1, 1])) == expected


# Paths


def engine_of(*channels: tuple[str, str, int]) -> Engine:
    return Engine(from_edges(list(channels), shop="shop"), 0, lambda name: sha256(name.encode()).digest())


def session_of(engine: Engine, amount_sat: int) -> PaymentSession:
    names = engine.graph.names
    return PaymentSession("p", names.index("me"), names.index("shop"), amount_sat * 1_000)


def test_a_path_takes_at_most_a_quarter_of_a_channel_while_there_are_others():
    """LDK: `max_channel_saturation_power_of_half` is 2 by default (lightning/src/routing/router.rs)."""
    engine = engine_of(
        ("me", "a", 1_000_000), ("a", "shop", 100_000), ("me", "b", 1_000_000), ("b", "shop", 100_000),
        ("me", "c", 1_000_000), ("c", "shop", 100_000),
    )  # fmt: skip
    model = LdkPayer(engine)
    for amount_sat, parts in ((20_000, 1), (60_000, 3)):
        session = session_of(engine, amount_sat)
        model.begin(session)
        routes = model.routes(session, amount_sat * 1_000)
        assert len(routes) == parts
        assert sum(route.amounts[-1] for route in routes) == amount_sat * 1_000
        assert max(route.amounts[-1] for route in routes) <= 25_000_000
    alone = engine_of(("me", "a", 1_000_000), ("a", "shop", 100_000))
    session = session_of(alone, 40_000)
    model = LdkPayer(alone)
    model.begin(session)
    assert [route.amounts[-1] for route in model.routes(session, 40_000_000)] == [40_000_000]


@pytest.mark.parametrize("limits", [{}, {0: 500_000}, {1: 500_000}, {0: 500_000, 1: 700_000}])
def test_a_part_below_the_minimum_of_a_channel_pays_the_difference_as_fees(limits):
    """LDK: `update_value_and_recompute_fees`, after the value of a path was reduced (lightning/src/routing/router.rs).

    The paths can carry about 29,400 and 48,804 sat of 49,000: the first one is reduced to about 200 sat.
    """
    engine = engine_of(
        ("me", "b", 60_000), ("b", "c", 400_000), ("c", "shop", 400_000), ("me", "a", 99_600), ("a", "shop", 900_000)
    )  # fmt: skip
    policies = engine.policies
    policies.base_msat, policies.ppm = (7,) * 10, (0,) * 7 + (100,) * 3
    policies.htlc_min_msat = tuple(limits.get(edge // 2, 1) for edge in range(10))
    model, session = LdkPayer(engine), session_of(engine, 49_000)
    model.begin(session)
    small, large = sorted(model.routes(session, 49_000_000), key=lambda route: route.amounts[-1])
    assert (small.edges, large.edges) == ([0, 2, 4], [6, 8])
    last = small.amounts[-1]
    assert last < 1_000_000
    assert last + large.amounts[-1] == 49_000_000
    second = max(last + 7, limits.get(1, 1))
    assert small.amounts == [max(second + 7, limits.get(0, 1)), second, last]


def test_a_value_is_not_reduced_below_the_minimum_of_the_receivers_channel():
    engine = engine_of(("me", "b", 60_000), ("b", "shop", 400_000), ("me", "a", 99_600), ("a", "shop", 900_000))
    policies = engine.policies
    policies.ppm = (0,) * 5 + (100,) * 3
    policies.htlc_min_msat = (*policies.htlc_min_msat[:2], 1_000_000, *policies.htlc_min_msat[3:])
    model, session = LdkPayer(engine), session_of(engine, 49_000)
    model.begin(session)
    routes = model.routes(session, 49_000_000)
    assert sum(route.amounts[-1] for route in routes) == 49_000_000
    assert [0, 2] in [route.edges for route in routes]
    assert all(route.amounts[-1] >= 1_000_000 for route in routes)


def test_a_channel_that_failed_is_not_tried_again_in_the_payment_and_a_removed_one_for_a_week():
    engine = engine_of(
        ("me", "a", 1_000_000), ("a", "shop", 1_000_000), ("me", "b", 1_000_000), ("b", "shop", 900_000),
    )  # fmt: skip
    model = LdkPayer(engine)

    def first_route(session: PaymentSession) -> list[int]:
        model.begin(session)
        return model.routes(session, 10_000_000)[0].edges

    session = session_of(engine, 10_000)
    edges = first_route(session)
    model.failed(session, SimpleNamespace(code=CODES.UNKNOWN_NEXT_PEER, reporter_hop=1, edges=edges, amounts=[1, 1]))
    other = first_route(session)
    assert other != edges
    assert first_route(session_of(engine, 10_000)) == other
    engine.now += 7 * 24 * 3_600_000
    assert model.removed(session.payer) == frozenset()
    assert first_route(session) == other
