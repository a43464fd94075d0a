"""Obligations of restarts, of copies and of a disk that is full: each finds a mistake of its kind."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from leyden.callbacks.faults.faults import Faults
from leyden.callbacks.transport import TransportRouter
from leyden.devserver import serve
from leyden.devserver.sandboxes.registry import SandboxRegistry
from leyden.harness.control.state_checks import COPIES
from leyden.harness.control.whole.late_checks import LATE_WAYS
from leyden.harness.model.faults import FAULTS
from leyden.harness.obligations.derive import all_obligations, obligation_cases
from leyden.harness.obligations.machine.pending import pending_table
from leyden.harness.obligations.machine.together import GROUPS, pending_groups
from leyden.harness.runs.cases import Case, play
from leyden.rng import RandomStreams
from leyden.server.http.idempotency import Idempotency
from leyden.world.removal import removed_rows
from leyden.world.removal.removed_rows import RemovedRows
from leyden.world.snapshots import snapshots
from leyden.world.time.clock import VirtualClock
from leyden.world.transaction import Transaction
from tests.support.deep import deep_except, deep_or
from tests.support.obligations import violation_of

# Many things that are pending at once


@pytest.mark.parametrize("group", deep_except(GROUPS, GROUPS[0]))
def test_a_server_with_many_pending_things_continues_after_a_kill(group: str) -> None:
    chosen = [one for one in all_obligations() if (one.kind, one.place) == ("pending-together", group)]
    for case in obligation_cases(chosen[:1]):
        found = play(case)
        assert (found.violation, found.skipped) == (None, 0), case.name


def test_each_fault_of_callbacks_is_pending_with_the_others() -> None:
    faults = {kind for kind in pending_table() if "with the fault" in kind}
    assert len(faults) > 15
    assert faults == set(pending_groups()[GROUPS[0]])


def test_copies_that_are_not_sent_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Faults.resume

    def resume(self: Faults) -> None:
        waiting: Any = self._waiting
        self._waiting = [row for row in waiting if not row["is_copy"]]  # type: ignore[assignment]
        original(self)
        self._waiting = waiting

    monkeypatch.setattr(Faults, "resume", resume)
    assert violation_of("pending-together", "kill", "faults") is not None
    for kind in ("duplicate", "duplicate_new_id", "redeliver"):
        assert violation_of("pending", f"fault {kind}, kill") is not None


# Another rate at the start


def test_a_server_that_is_started_with_another_rate_has_the_right_time() -> None:
    for case in obligation_cases(
        [one for one in all_obligations() if one.kind == "rate-at-start"][:: deep_or(bounded=9, full=1)]
    ):
        found = play(case)
        assert (found.violation, found.skipped) == (None, 0), case.name


def test_time_that_is_counted_at_the_rate_of_the_new_start(monkeypatch: pytest.MonkeyPatch) -> None:
    original = VirtualClock.resume_from
    monkeypatch.setattr(VirtualClock, "resume_from", lambda self, rate, *base: original(self, self._rate, *base))
    assert violation_of("rate-at-start", "rate 0, restarted with 1 ") is not None
    assert violation_of("rate-at-start", "rate 60, restarted with 1 ") is not None


def test_a_pause_that_an_option_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    original = serve.world_config
    starts = count()

    def config(**given: Any) -> Any:
        return original(**{**given, "rate": given["rate"] or (60.0 if next(starts) else 0.0)})

    monkeypatch.setattr(serve, "world_config", config)
    assert violation_of("rate-at-start", "rate 60, restarted with 0 ") is not None


# A disk that is full


def test_a_request_that_the_disk_refused_can_be_repeated() -> None:
    chosen = [one for one in all_obligations() if one.kind == "full-disk"]
    for case in obligation_cases(chosen[:: deep_or(bounded=20, full=4)]):
        found = play(case)
        assert (found.violation, found.skipped) == (None, 0), case.name


def test_random_numbers_that_a_refused_commit_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RandomStreams, "rollback", lambda self, error: None)
    assert violation_of("full-disk", "refused", "createCharge") is not None


def test_a_stored_response_that_a_refused_commit_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    recall, remember = Idempotency.recall, Idempotency.remember
    kept: dict[Any, Any] = {}

    def remembered(
        self: Idempotency, project: str, operation: str, key: str, raw: Any, status: int, body: bytes
    ) -> None:
        remember(self, project, operation, key, raw, status, body)
        kept[id(self), project, operation, key] = recall(self, project, operation, key, raw)

    monkeypatch.setattr(Idempotency, "remember", remembered)
    monkeypatch.setattr(
        Idempotency,
        "recall",
        lambda self, *names: kept.get((id(self), *names[:3])) or recall(self, *names),
    )
    assert violation_of("full-disk", "key, refused", "createCharge with a key") is not None
    assert violation_of("full-disk", "partial", "createStaticCharge with a key") is not None


def test_a_key_that_a_refused_commit_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    assert violation_of("full-disk", "ApiKey") is None
    taken = SandboxRegistry.key_taken
    monkeypatch.setattr(
        SandboxRegistry,
        "key_taken",
        lambda self, key: self.world_of_key(key.encode()) is not None or taken(self, key),
    )
    assert violation_of("full-disk", "createApiKey") is not None


# Copies of sandboxes with other random numbers


@pytest.mark.parametrize("how", deep_except(COPIES, "fork"))
def test_a_copy_of_a_reseeded_fork_has_its_random_numbers(how: str) -> None:
    chosen = [one for one in all_obligations() if one.kind == "reseeded" and f"2 times, {how}" in one.case]
    for case in obligation_cases(chosen[: deep_or(bounded=1, full=2)]):
        found = play(case)
        assert (found.violation, found.skipped) == (None, 0), case.name


@pytest.mark.parametrize("lost", [slice(-1, None), slice(0, 1)])
def test_a_copy_without_one_of_the_seeds(lost: slice, monkeypatch: pytest.MonkeyPatch) -> None:
    original = snapshots._state

    def state(*given: Any) -> Any:
        found = original(*given)
        return {**found, "reseeds": found["reseeds"][lost]}

    monkeypatch.setattr(snapshots, "_state", state)
    assert violation_of("reseeded", "2 times, fork") is not None


# Numbers of removed rows


@pytest.mark.parametrize("kind", deep_except(("Charges", "Static Charges", "payments", "callbacks"), "payments"))
def test_the_numbers_of_removed_rows_after_a_kill(kind: str) -> None:
    chosen = [one for one in all_obligations() if one.kind == "removed" and one.case == f"{kind}, kill"]
    [case] = obligation_cases(chosen)
    found = play(case)
    assert (found.violation, found.skipped) == (None, 0)


_TABLES = {"Charges": "charges", "Static Charges": "static_charges", "payments": "payments", "callbacks": "deliveries"}


@pytest.mark.parametrize("kind", deep_except(list(_TABLES), "payments"))
def test_a_number_of_removed_rows_that_ends_with_the_process(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = RemovedRows.note

    def note(self: RemovedRows) -> None:
        names = {name: shown for name, shown in removed_rows._SHOWN.items() if name != _TABLES[kind]}
        with monkeypatch.context() as patched:
            patched.setattr(removed_rows, "_SHOWN", names)
            original(self)

    monkeypatch.setattr(RemovedRows, "note", note)
    assert violation_of("removed", f"{kind}, kill") is not None


# Answers of receivers that come late


def test_late_answers_of_receivers_change_nothing() -> None:
    chosen = [one for one in all_obligations() if one.kind == "late" and one.place.startswith("late answer")]
    for case in obligation_cases(chosen[:: deep_or(bounded=11, full=1)]):
        found = play(case)
        assert (found.violation, found.skipped) == (None, 0), case.name


@pytest.mark.parametrize("how", LATE_WAYS)
def test_answers_that_a_new_run_records(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransportRouter, "discard", lambda self: None)
    monkeypatch.setattr(Transaction, "end", lambda self: None)
    assert violation_of("late", f"{how}, the same callbacks, 200") is not None


# Callbacks of one instant


@pytest.mark.parametrize("kind", [kind for kind in FAULTS if kind not in ("old_secret", "burst")])
def test_callbacks_of_one_instant_after_a_restart_have_any_order(kind: str) -> None:
    body = {"amount": "1000", "description": "tea", "expiresIn": 1, "callbackUrl": "http://r1.inbox.localhost/hook"}
    for seed in range(deep_or(bounded=6, full=40)):  # their ids have another order with each
        charges = tuple({"do": "create_charge", "as": f"c{number}", "body": body} for number in range(3))
        fault = {"do": "fault", "kind": kind}
        steps = ({"do": "restart"}, *charges[:1], fault, *charges[1:], {"do": "advance", "by": 86_399_999})
        found = play(Case(steps, seed=seed, disk=True))
        assert (found.violation, found.skipped) == (None, 0), seed
