"""Files with hundreds of thousands of members in one object: refused before they are validated, in one line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import ForkError
from leyden.server.contract.types import Rule
from leyden.server.http import validation
from leyden.world.snapshots.snapshot_schema import MAX_MEMBERS
from tests.support.deep import deep, deep_except
from tests.support.served import Client

MANY = 2 * MAX_MEMBERS


def members(count: int) -> dict[str, Any]:
    return {f"x{number}": "x" for number in range(count)}


@deep("test_a_snapshot_with_many_members_is_refused_before_it_is_validated")
def test_an_import_with_many_unknown_members_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = 0
    former = validation._field_errors

    def spied(rule: Rule, value: Any, error: Any, root: str) -> Any:
        nonlocal longest
        longest = max(longest, len(error.message))
        return former(rule, value, error, root)

    monkeypatch.setattr(validation, "_field_errors", spied)
    with Sandbox(seed=1) as sandbox, Sandbox(seed=2) as server:
        client = Client(server.serve())
        saved = json.loads(json.dumps(sandbox.snapshot()))
        status, problem = client("POST", "/sandbox/v1/sandboxes/import", {**saved, **members(MANY)})[:2]
        assert status == 400
        assert "x0 is not a field of this object: leave it out (and 19 more)" in problem["detail"]
        assert "\n" not in problem["detail"]
        assert 0 < longest < 1_000  # of the validator's text, which names every member
        for at in ("tables", "streams"):
            status, problem = client(
                "POST", "/sandbox/v1/sandboxes/import", {**saved, at: {**saved[at], **members(MANY)}}
            )[:2]
            assert status == 409
            assert "members, and at most 200000 are read" in problem["detail"]


PLACES = {"attempts": ("outbox", "attempts"), "tables": ("tables",), "config": ("config",), "journal": ("journal",)}


@pytest.mark.parametrize("place", deep_except(PLACES, "attempts", "journal"))
def test_a_snapshot_with_many_members_is_refused_before_it_is_validated(place: tuple[str, ...]) -> None:
    with Sandbox(seed=1) as sandbox:
        saved = json.loads(json.dumps(sandbox.snapshot()))
    holder = saved
    for name in place:
        holder = holder[name]
    holder.update(members(MANY))
    with pytest.raises(ForkError) as refused:
        Sandbox.from_snapshot(saved)
    assert f"members, and at most {MAX_MEMBERS} are read" in str(refused.value)
    assert len(str(refused.value)) < 300
