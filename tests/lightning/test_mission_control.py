"""Mission control: what a payer learned of channels, and when that expires."""

from __future__ import annotations

import pytest

from leyden import Sandbox
from leyden.lightning.routing.mission_control import FailureInterpretation, MissionControl
from leyden.lightning.topology.graph import from_edges
from leyden.lightning.undo_log import UndoLog

HOUR_MS = 3_600_000
EDGES, CAPACITIES = [0, 2], [50_000, 50_000]
FAILED = FailureInterpretation(True, "that direction fails for this amount", (2,), False, 1)


def test_small_successes_do_not_extend_the_failure_of_a_larger_amount():
    """LND keeps a success and a failure of a pair with a time each (`routerrpc.PairData`: `fail_time`, `fail_amt_msat`,
    `success_time`, `success_amt_msat`), and each decays by its own time."""
    known = MissionControl(UndoLog())
    known.report_failure(0, FAILED, EDGES, [12_000, 12_000], CAPACITIES, 0)
    for minute in (20, 40, 60):
        assert known.penalties(0, minute * 60_000, CAPACITIES)[2][1] == 12_000
        known.report_success(0, EDGES, [1_000, 1_000], CAPACITIES, minute * 60_000)
    assert known.penalties(0, HOUR_MS + 1, CAPACITIES) == {}
    assert known.dump() == [[0, HOUR_MS, [[2, 1_000, 50_001, HOUR_MS, HOUR_MS]]]]


def test_a_success_expires_while_a_later_failure_stays():
    known = MissionControl(UndoLog())
    known.report_success(0, EDGES, [9_000, 9_000], CAPACITIES, 0)
    known.report_failure(0, FAILED, EDGES, [12_000, 12_000], CAPACITIES, 1_800_000)
    assert known.penalties(0, HOUR_MS, CAPACITIES) == {2: (9_000, 12_000, 0, 1_800_000)}
    assert known.penalties(0, HOUR_MS + 1, CAPACITIES) == {2: (0, 12_000, 1_800_000, 1_800_000)}
    assert known.penalties(0, 1_800_000 + HOUR_MS + 1, CAPACITIES) == {}
    assert known.dump() == []


def test_a_smaller_success_keeps_what_a_larger_one_has_shown_until_that_expires():
    known = MissionControl(UndoLog())
    known.report_success(0, EDGES, [9_000, 9_000], CAPACITIES, 0)
    known.report_success(0, EDGES, [1_000, 1_000], CAPACITIES, 60_000)
    assert known.dump()[0][2] == [[2, 9_000, 50_001, 0, 0]]


@pytest.mark.parametrize(("times", "kept"), [([7], (7, 7)), ([5, 7], (5, 7))])
def test_bounds_of_former_versions_with_one_time_are_read(times, kept):
    known = MissionControl.restore(UndoLog(), [[0, 5, [[2, 10, 20, *times]]]], CAPACITIES)
    assert known.penalties(0, 8, CAPACITIES) == {2: (10, 20, *kept)}


def test_liquidity_that_returns_is_found_while_small_payments_succeed():
    edges = [
        ("ana", "hub", 100_000),
        {"a": "hub", "b": "shop", "capacity_sat": 20_000, "a_balance_sat": 8_000},
    ]
    with Sandbox(seed=7, network=from_edges(edges, shop="shop"), conditions="ideal") as sandbox:

        def pay(amount: str) -> str:
            charge = sandbox.charges.create(amount=amount, description="tea", expiresIn=3_600)
            payment = sandbox.wallet("ana").pay(charge)
            sandbox.run("30s")
            return str(payment.outcome)

        assert pay("12000000") == "NO_ROUTE"
        sandbox.network["shop"].drain(outbound=0.9)  # the liquidity returns
        for _ in range(4):
            sandbox.run("20m")
            assert pay("1000000") == "SUCCEEDED"
        assert pay("12000000") == "SUCCEEDED"
