"""Obligations of the optional parts of requests to the control plane: each class finds a defect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from leyden.devserver.control import copies
from leyden.devserver.control.callbacks import deliveries
from leyden.devserver.sandboxes import copies as sandbox_copies
from leyden.harness.control.documents import control_operations
from leyden.harness.control.field_checks import field_values, is_allowed
from leyden.harness.obligations.control.options import option_obligations
from leyden.harness.obligations.derive import all_obligations, obligation_cases
from leyden.harness.runs.cases import play
from leyden.server.http.idempotency import Idempotency
from leyden.server.store import storage
from leyden.server.system.group_commit import GroupCommit
from leyden.world import components
from leyden.world.stored_snapshots import StoredSnapshots
from tests.support.deep import deep_or
from tests.support.obligations import violation_of


def test_the_control_plane_is_as_the_document_says() -> None:
    fields = [one for one in option_obligations() if one.kind.startswith("control-field")]
    others = [one for one in option_obligations() if one not in fields]
    for case in obligation_cases([*fields[:: deep_or(bounded=3, full=1)], *others[:: deep_or(bounded=5, full=1)]]):
        found = play(case)
        assert (found.violation, found.skipped) == (None, 0), case.name


def test_every_field_of_every_body_has_a_value_that_is_refused() -> None:
    asked = {one.place for one in option_obligations() if one.kind == "control-field-refused"}
    declared = {f"{one.name} body.{name}" for one in control_operations() for name in one.fields}
    assert declared
    assert asked == declared


def test_values_are_about_the_bounds_of_a_field() -> None:
    schema = {"type": ["integer", "null"], "minimum": 3, "maximum": 7}
    found = [value for value in field_values(schema) if type(value) is int]
    assert {2, 3, 7, 8} <= {*found}
    assert not is_allowed(schema, 8)
    assert is_allowed(schema, None)
    assert ["x"] * 3 in [*field_values({"type": "array", "maxItems": 2, "items": {"enum": ["x"]}})]


def _without_name(original: Any) -> Any:
    return lambda self, name, *rest: original(self, None, *rest)


@pytest.mark.parametrize(
    ("owner", "name", "spoilt", "case"),
    [
        (StoredSnapshots, "add", _without_name, "names"),
        (StoredSnapshots, "is_full", lambda original: property(lambda self: len(self._by_id) > 20), "most"),
        (copies, "_resources", lambda original: lambda found: (
            {**one, "here": one["there"], "there": one["here"]} for one in original(found)), "diff"),
        (copies, "MAX_DIFFERENCES", lambda original: 999, "diff"),
        (sandbox_copies, "reseed_world", lambda original: lambda world, seed: seed and original(world, seed),
         "reseed 0"),
        (sandbox_copies, "reseed_world", lambda original: lambda world, seed: original(world, 7), "reseed 1"),
    ],
)  # fmt: skip
def test_snapshots_and_forks(
    owner: Any, name: str, spoilt: Callable[[Any], Any], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, spoilt(getattr(owner, name)))
    assert violation_of("copies", case) is not None


def test_a_list_with_the_members_that_nobody_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = deliveries._delivery_steps
    monkeypatch.setattr(deliveries, "_delivery_steps", lambda row, world, bodies=True: steps(row, world, bodies=True))
    assert violation_of("list-members") is not None


def test_counts_of_removed_rows_without_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components.RemovedHeader, "__call__", _passed_on)
    assert "Leyden-Removed" in str(violation_of("removed", "Charges, kill"))


async def _passed_on(self: Any, scope: Any, receive: Any, send: Any) -> None:
    await self._app(scope, receive, send)


def test_a_half_written_line_that_no_note_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(*given: Any) -> Any:
        return replace(found, note="") if (found := original(*given)).note else found

    original = storage.load
    monkeypatch.setattr(storage, "load", loaded)
    chosen = [one for one in all_obligations() if one.kind == "kept" and one.case == "torn"][:1]
    assert "last line" in str(play(obligation_cases(chosen)[0]).violation)


def test_a_refused_sync_that_is_answered_as_if_there_was_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def confirmed(self: Any) -> None:
        return

    assert violation_of("full-disk", "createCharge, sync", "createCharge") is None
    monkeypatch.setattr(GroupCommit, "wait_durable", confirmed)
    assert violation_of("full-disk", "createCharge, sync", "createCharge") is not None


def test_a_reset_that_keeps_the_stored_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[Any, Any] = {}

    def remember(self: Idempotency, *given: Any) -> None:
        original(self, *given)
        kept[given[:3]] = recall(self, *given[:3])

    original, recall = Idempotency.remember, Idempotency.recall
    assert violation_of("repeated-after", "reset", "createCharge") is None
    monkeypatch.setattr(Idempotency, "remember", remember)
    monkeypatch.setattr(Idempotency, "recall", lambda self, *name: recall(self, *name) or kept.get(name[:3]))
    assert violation_of("repeated-after", "reset", "createCharge") is not None
