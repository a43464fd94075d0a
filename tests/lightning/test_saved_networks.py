"""A network can be saved and opened at any time: no state that it reaches is refused, and its future is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leyden import Sandbox
from leyden.lightning.failure_codes import FailureCode
from leyden.lightning.routing.pathfinding import Router
from tests.support.deep import deep_or, sampled
from tests.support.network_walk import NetworkWalk

WALKS, ACTIONS = deep_or(bounded=(2, 30), full=(5, 30), random=(1_000, 60))


@pytest.mark.parametrize("seed", sampled(range(WALKS), 3))
def test_a_network_that_is_saved_or_kept_at_any_time_opens_and_continues(seed: int, tmp_path: Path) -> None:
    walk = NetworkWalk(seed, tmp_path if seed % 2 else None)
    try:
        for number in range(ACTIONS):
            walk.act()
            and_future = number % 6 == 5
            walk.check_saved(and_future=and_future)
            if walk.folder is not None:
                walk.check_directory(and_future=and_future)
    except BaseException:
        print(f"seed {seed}:", *walk.actions, sep="\n  ")
        raise
    finally:
        walk.close()


@pytest.mark.parametrize(
    ("hop", "code", "is_retried"),
    [
        (-1, FailureCode.MPP_TIMEOUT, False),
        (1, FailureCode.TEMPORARY_CHANNEL_FAILURE, False),
        (1, FailureCode.FEE_INSUFFICIENT, True),
        (0, FailureCode.FEE_INSUFFICIENT, True),
    ],
)
def test_only_the_edge_of_a_policy_failure_has_had_its_retry(hop: int, code: int, is_retried: bool) -> None:
    with Sandbox(seed=3, network="line:4") as sandbox:
        charge = sandbox.charges.create(amount="90000000", description="x")
        sandbox.network.intercept("fail", hop=hop, code=code, times=1)
        with sandbox.world.exclusive():
            sandbox.world.payments.pay(charge.request, payer="n1", parts=2, gap_ms=0, outcome="hold")
        sandbox.advance("20s")
        saved = sandbox.snapshot()
        [session] = saved["network"]["sessions"]
        [failed] = [row for row in sandbox.world.payments.rows.existing(session["id"])["attempts"] if row["code"]]
        assert failed["code"] == code
        assert bool(session["policy_retries"]) is is_retried
        with Sandbox.from_snapshot(saved) as copy:
            assert copy.snapshot()["network"] == saved["network"]


def test_channels_that_were_opened_are_restored_for_the_cost_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Router] = []

    class Counted(Router):
        def __init__(self, *given: Any) -> None:
            built.append(self)
            super().__init__(*given)

    with Sandbox(seed=3, network="scale-free:30") as sandbox:
        names = sandbox.network.engine.graph.names
        for number in range(12):
            sandbox.network[names[number]].open_channel(names[number + 9], 10_000_000 * (number + 1), local=number)
        sandbox.network.close_channel(3)
        sandbox.save(tmp_path / "saved.json")
        monkeypatch.setattr("leyden.lightning.engine.channels.Router", Counted)
        with Sandbox.load(tmp_path / "saved.json") as again:
            assert len(built) == 3  # of the graph, with what was opened, and without what was closed
            assert again.balances.equals(sandbox.balances)
            assert again.network.engine.policies.disabled == sandbox.network.engine.policies.disabled
            sandbox.network["shop"].open_channel(names[1], 7_000_000)
            again.network["shop"].open_channel(names[1], 7_000_000)
            assert again.balances.equals(sandbox.balances)


def test_messages_that_arrive_at_one_instant_are_events_of_their_own(tmp_path: Path) -> None:
    """Time can stop between any two of them, and a sandbox that is saved there continues to the same end."""
    messages: list[int] = []
    with Sandbox(seed=3, network="star:6", conditions="ideal,latency=20ms,latency_sigma=0") as sandbox:
        for number in range(8):
            charge = sandbox.charges.create(amount="250000", description="tea")
            sandbox.wallet(f"w{number}").pay(charge)
        engine = sandbox.network.engine
        saved = []
        before, at_one_instant = engine.event_count, 0
        while sandbox.step() is not None:
            messages.append(engine.event_count - before)
            before = engine.event_count
            if engine.next_event_ms() == engine.now:
                at_one_instant += 1
                if at_one_instant % 3 == 1:
                    saved.append(tmp_path / f"{at_one_instant}.json")
                    sandbox.save(saved[-1])
        assert max(messages) == 1
        assert len(saved) > 3
        for path in saved:
            with Sandbox.load(path) as continued:
                continued.run()
                assert continued.journal_hash == sandbox.journal_hash
