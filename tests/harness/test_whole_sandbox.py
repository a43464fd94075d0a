"""Obligations of copies and of bounds on what is kept: each class finds a defect, and there is one for each kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from leyden.devserver.control import copies
from leyden.devserver.sandboxes.copies import CopyOperations
from leyden.harness.checks.violations import ContractViolation
from leyden.harness.control.whole.apart_checks import APART_WAYS
from leyden.harness.obligations.control.kept import EXERCISES
from leyden.harness.obligations.derive import all_obligations, obligation_cases
from leyden.harness.obligations.machine.pending import pending_table
from leyden.harness.runs.cases import play, read_case
from leyden.harness.runs.describe import describe_step
from leyden.server.callbacks.in_flight import InFlight
from leyden.world.removal import retention
from leyden.world.removal.removed_rows import RemovedRows
from leyden.world.world import World

OBLIGATIONS = tuple(one for one in all_obligations() if one.kind in {"apart", "aged", "pending"})


def violation_of(kind: str, case: str) -> ContractViolation | None:
    chosen = [one for one in OBLIGATIONS if (one.kind, one.case) == (kind, case)]
    assert len(chosen) == 1
    return play(obligation_cases(chosen)[0]).violation


def test_each_kind_of_state_has_each_way() -> None:
    asked = {(one.place, one.kind, one.steps[0].get("how")) for one in OBLIGATIONS}
    for place in (*EXERCISES, *pending_table()):
        assert {(place, "apart", how) for how in APART_WAYS} <= asked
        assert (place, "aged", None) in asked
    for place in pending_table():
        assert {(place, "pending", how) for how in ("restore", "fork", "import")} <= asked


@pytest.mark.parametrize("kind", ["apart", "aged"])
def test_a_step_is_a_part_of_a_case_and_has_a_sentence(kind: str) -> None:
    one = next(one for one in OBLIGATIONS if one.kind == kind)
    case = obligation_cases([one])[0]
    assert read_case(case.document()).steps == case.steps
    assert "reset" in describe_step(case.steps[-1])


@pytest.mark.parametrize("case", ["retry 3 of a delivery, import", "held payment, fork of a snapshot"])
def test_a_service_without_a_defect_has_no_violation(case: str) -> None:
    assert violation_of("apart", case) is None


def test_a_key_that_was_used_since_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    original = copies.return_to

    def return_to(world: World, snapshot: Mapping[str, Any], rate: float) -> None:
        rows = [dict(row) for row in world.store.table("idempotency")]
        original(world, snapshot, rate)
        with world.exclusive():
            for row in rows:
                world.store.table("idempotency").put(row)

    monkeypatch.setattr(copies, "return_to", return_to)
    assert violation_of("apart", "clearPayers, restore") is not None


def test_a_fork_that_shares_the_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    original = CopyOperations.fork

    async def fork(self: CopyOperations, world: World, *more: Any) -> dict[str, Any]:
        found = await original(self, world, *more)
        copy = self._operations.of_id(found["id"])
        assert copy is not None
        copy.world.snapshots = world.snapshots
        return found

    monkeypatch.setattr(CopyOperations, "fork", fork)
    assert violation_of("apart", "createSnapshot, fork") is not None


def test_a_copy_that_forgets_which_messages_are_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    assert violation_of("pending", "messages in flight, fork") is None
    monkeypatch.setattr(InFlight, "restore", lambda self, state: None)
    assert violation_of("pending", "messages in flight, fork") is not None


def test_an_endpoint_that_is_enabled_again_when_its_delivery_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = "end of an endpoint of a Static Charge, 1, kill"
    assert violation_of("aged", case) is None
    monkeypatch.setattr(retention, "_delivery_ended", lambda row: row["status"] != "pending")
    assert violation_of("aged", case) is not None


def test_a_number_of_removed_rows_that_a_restart_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    original = RemovedRows.__init__

    def forgets(self: RemovedRows, *given: Any, **named: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RemovedRows, "_last_ids", lambda self: [])
            original(self, *given, **named)

    monkeypatch.setattr(RemovedRows, "__init__", forgets)
    assert violation_of("aged", "advanceClock, 1, torn") is not None


def test_a_balance_that_loses_what_a_removed_charge_received(monkeypatch: pytest.MonkeyPatch) -> None:
    original = retention.Retention._remove_charge

    def remove(self: Any, row: Any) -> bool:
        for wallet in list(self._store.table("wallets", key="id")):
            self._store.table("wallets", key="id").put({**wallet, "balance_msat": 0})
        return original(self, row)

    monkeypatch.setattr(retention.Retention, "_remove_charge", remove)
    assert violation_of("aged", "expiry of a Charge, 5") is not None
