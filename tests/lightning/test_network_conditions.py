"""Blocks and outages: the same whatever is asked first, at a cost that does not depend on the time that has passed."""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leyden import Sandbox
from leyden.lightning.engine.network_conditions import (
    FIRST_HEIGHT,
    PERIOD_BLOCKS,
    NetworkConditions,
    SampledConditions,
)
from leyden.server.timestamps import MAX_INSTANT_MS
from tests.support.bounded_calls import bounded_calls
from tests.support.deep import deep, deep_except
from tests.support.examples import examples

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS
PERIOD_MS = PERIOD_BLOCKS * 600_000
NODES = 8
INSTANTS = st.integers(0, 3 * PERIOD_MS) | st.integers(0, MAX_INSTANT_MS)


def sampled(seed: int = 1, *, start_ms: int = 0, parameters: NetworkConditions | None = None) -> SampledConditions:
    def secret(name: str) -> bytes:
        return sha256(f"{seed} {name}".encode()).digest()

    return SampledConditions(NODES, start_ms, secret, parameters or NetworkConditions(up_share=0.9))


def reseeded(conditions: SampledConditions, at_ms: int, seed: int) -> SampledConditions:
    return conditions.reseeded(at_ms, lambda name: sha256(f"{seed} {name}".encode()).digest())


def answers(conditions: SampledConditions, at_ms: int) -> tuple[object, ...]:
    height = conditions.height(at_ms)
    return height, conditions.block_time(height), [conditions.is_up(node, at_ms) for node in range(NODES)]


# Cost


@pytest.mark.parametrize("at_ms", [HOUR_MS, YEAR_MS, 1_000 * YEAR_MS, MAX_INSTANT_MS], ids=str)
@pytest.mark.parametrize("up_share", [0.0, 0.001, 0.5, 0.98, 0.999_999, 1.0])
def test_the_cost_of_an_answer_does_not_depend_on_how_far_it_is(at_ms, up_share):
    conditions = sampled(parameters=NetworkConditions(up_share=up_share))
    with bounded_calls(30_000):
        for each in (conditions, reseeded(conditions, at_ms // 2, 2)):
            answers(each, at_ms)
            each.block_time(each.height(at_ms) + 2_016)


def test_a_payment_after_centuries_costs_what_one_costs_at_once():
    sandbox = Sandbox(seed=1, network="line:4")
    sandbox.advance_to("2999-12-01T00:00:00Z")
    charge = sandbox.charges.create(amount="250000", description="tea")
    with bounded_calls(500_000):
        payment = sandbox.wallet("ana").pay(charge)
        sandbox.advance("1m")
        assert payment.outcome == "SUCCEEDED"


@deep("test_some_nodes_are_offline_at_the_first_instant")
def test_many_seeds_one_after_another_are_no_recursion():
    conditions = sampled()
    for number in range(1_500):
        conditions = reseeded(conditions, number * HOUR_MS, number)
    assert conditions.height(1_500 * HOUR_MS) > FIRST_HEIGHT
    assert conditions.height(0) == FIRST_HEIGHT
    assert [conditions.is_up(node, 1_499 * HOUR_MS) for node in range(NODES)]


# Whatever is asked first


@given(
    seed=st.integers(0, 3),
    start_ms=st.sampled_from([0, 1_792_000_000_123]),
    instants=st.lists(INSTANTS, min_size=1, max_size=12),
    reseed_at=st.none() | INSTANTS,
)
@example(seed=0, start_ms=0, instants=[PERIOD_MS, PERIOD_MS - 1, PERIOD_MS + 1, 0], reseed_at=None)
@examples(50)
def test_an_answer_is_the_same_whatever_was_asked_before(seed, start_ms, instants, reseed_at):
    def fresh() -> SampledConditions:
        conditions = sampled(seed, start_ms=start_ms)
        return conditions if reseed_at is None else reseeded(conditions, start_ms + reseed_at, 9)

    asked = fresh()
    for each in instants:
        assert answers(asked, start_ms + each) == answers(fresh(), start_ms + each)


@given(seed=st.integers(0, 3), at_ms=INSTANTS, reseed_at=INSTANTS)
@examples(50)
def test_the_past_of_a_reseeded_network_is_that_of_the_former_one(seed, at_ms, reseed_at):
    former = sampled(seed)
    assert answers(reseeded(former, reseed_at, 9), min(at_ms, reseed_at)) == answers(former, min(at_ms, reseed_at))


# Blocks


@given(seed=st.integers(0, 3), instants=st.lists(INSTANTS, min_size=2, max_size=20), reseed_at=st.none() | INSTANTS)
@example(seed=0, instants=[PERIOD_MS, PERIOD_MS - 1, PERIOD_MS + 1, 0], reseed_at=PERIOD_MS)
@examples(50)
def test_heights_never_fall_and_a_block_counts_from_its_time_on(seed, instants, reseed_at):
    conditions = sampled(seed)
    if reseed_at is not None:
        conditions = reseeded(conditions, reseed_at, 9)
    heights = [conditions.height(at_ms) for at_ms in sorted(instants)]
    assert heights == sorted(heights)
    assert conditions.height(0) == FIRST_HEIGHT
    for at_ms, height in zip(sorted(instants), heights, strict=True):
        assert conditions.block_time(height) <= at_ms < conditions.block_time(height + 1)


def test_the_blocks_take_ten_minutes_on_average_and_are_close_to_exponential():
    conditions = sampled()
    times = [conditions.block_time(FIRST_HEIGHT + number) for number in range(3 * PERIOD_BLOCKS + 1)]
    gaps = [later - before for before, later in pairwise(times)]
    assert sum(gaps) / len(gaps) == pytest.approx(600_000, rel=0.02)
    assert sum(gap > 600_000 for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.02)
    assert conditions.height(1_000 * YEAR_MS) - FIRST_HEIGHT == pytest.approx(1_000 * YEAR_MS / 600_000, rel=1e-5)


# Outages


@pytest.mark.parametrize("up_share", deep_except([0.3, 0.9, 0.98], 0.98))
def test_nodes_are_up_and_down_for_the_times_that_the_parameters_give(up_share):
    conditions = sampled(parameters=NetworkConditions(up_share=up_share))
    step_ms, steps = 5 * 60_000, 30_000
    down_runs: list[int] = []
    up_steps = 0
    for node in range(NODES):
        down = 0
        for number in range(steps):
            if conditions.is_up(node, number * step_ms):
                up_steps += 1
                if down:
                    down_runs.append(down)
                down = 0
            else:
                down += 1
    assert up_steps / (NODES * steps) == pytest.approx(up_share, abs=0.01)
    # A down time that falls between two steps is not observed: by memorylessness those that are observed have a mean
    # of 1 / (1 - P(still down one step later)) steps, where being up again and down again within a step counts as down.
    rate = 1 / (30 * 60_000 * up_share)
    stays = (1 - up_share) + up_share * 2.718281828 ** (-rate * step_ms)
    assert sum(down_runs) / len(down_runs) == pytest.approx(1 / (1 - stays), rel=0.08)


def test_some_nodes_are_offline_at_the_first_instant():
    ups = [one.is_up(node, 0) for one in map(sampled, range(100)) for node in range(NODES)]
    assert sum(ups) / len(ups) == pytest.approx(0.9, abs=0.04)
