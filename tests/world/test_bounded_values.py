"""Saved sandboxes with one value replaced by one that no sandbox writes: a huge number, another type, a long text."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from leyden import Sandbox
from leyden.callbacks.replies import Reply
from leyden.errors import ForkError, LeydenError
from tests.support.deep import deep_except, deep_or, sampled
from tests.support.exercise import check_response, rich_snapshot, use_by_every_operation
from tests.support.mutations import refusal

SAVED = rich_snapshot("line:4")
OTHERS: tuple[Any, ...] = (2**63, -1, 10**30, 1.5, 1e300, True, None, "x" * 100_000, [], {})
MOST_EVENTS = 20_000  # that a use of the rich sandbox runs

Path_ = tuple[Any, ...]


def leaves(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    members: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not members or not value:
        yield path
    for key, member in members:
        yield from leaves(member, (*path, key))


def one_of_each_class() -> list[Path_]:
    """The first leaf of each class: the same names around it, in the same kind of action."""
    found: dict[Path_, Path_] = {}
    for path in leaves(SAVED):
        kind = SAVED["action_log"]["actions"][path[2]][0] if path[:2] == ("action_log", "actions") else None
        # Of a row the position has no meaning; in a tuple, which is the end of a path, it has.
        names = tuple(key for at, key in enumerate(path) if isinstance(key, str) or at == len(path) - 1)
        found.setdefault((kind, *names), path)
    return list(found.values())


def replaced(value: Any, path: Path_, other: Any) -> Any:
    """A copy with another value at a path; the parts beside the path are shared."""
    if not path:
        return other
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], other)
    return copy


def value_at(value: Any, path: Path_) -> Any:
    """What is at a path."""
    for step in path:
        value = value[step]
    return value


PATHS = one_of_each_class()
PARTS = [*sorted({path[0] for path in PATHS} - {"tables"}), "tables"]


def opened(path: Path_, other: Any) -> Sandbox | None:
    """The sandbox with another value at a path, or None if it is refused in one line with the place."""
    try:
        return Sandbox.from_snapshot(replaced(SAVED, path, other))
    except ForkError as error:
        text = str(error)
    assert len(text.splitlines()) == 1, text[:300]
    assert len(text) < 1_000, text[:300]
    assert "fit together (" not in text, (path, text)
    return None


@pytest.mark.filterwarnings("ignore::leyden.files.json_files.VersionWarning")
@pytest.mark.parametrize("part", sampled(PARTS, 3))
def test_a_value_that_no_sandbox_writes_is_refused_with_its_place_or_can_be_used(part: str, tmp_path: Path) -> None:
    rng = random.Random(part)
    accepted = []
    for path in PATHS:
        if path[0] != part:
            continue
        for other in rng.sample(OTHERS, deep_or(bounded=1, full=len(OTHERS))):
            sandbox = opened(path, other)
            if sandbox is None:
                continue
            accepted.append((path, other))
            if part == "action_log":
                refusal(sandbox.script)
    for path, other in rng.sample(accepted, min(len(accepted), deep_or(bounded=2, full=6))):
        sandbox = Sandbox.from_snapshot(replaced(SAVED, path, other))
        sandbox.save(tmp_path / "case.json")
        for charge in sandbox.charges:
            charge.timeline()
        check_response(sandbox, "GET", "/sandbox/v1/export")
        if part != "action_log":  # it is used by the script only
            use_by_every_operation(sandbox, quick=True)
        assert sandbox.world.clock.event_count < MOST_EVENTS
        Sandbox.load(tmp_path / "case.json")


@pytest.mark.parametrize("number", deep_except([2**63, -(10**30), 1e300], 2**63))
def test_no_number_of_an_action_log_is_greater_than_64_bits(number: float) -> None:
    """Whatever it is an argument of, at any depth."""
    checked = 0
    paths = [path for path in PATHS if path[0] == "action_log"]
    for path in paths[:: deep_or(bounded=3, full=1)]:
        assert opened(path, number) is None, path
        assert opened(path, [[number]]) is None, path
        checked += 1
    assert len(paths) > 80
    assert checked >= len(paths) // 3


def test_a_distribution_in_a_saved_sandbox_has_the_bounds_of_the_texts() -> None:
    """A larger spread would draw numbers that no float has, long after the sandbox was opened."""
    found = [path for path in leaves(SAVED) if path[-1] == 0 and value_at(SAVED, path) == "lognorm"]
    assert found
    for *path, _ in found:
        for spread in (-1, 50.1, 1e6):
            assert opened((*path, 2), spread) is None, path
        assert opened((*path, 2), 50) is not None, path


@pytest.mark.parametrize(
    ("kind", "place", "other"),
    [
        ("advance", "by_ms", -1),
        ("request", "status", -1),
        ("request", "status", 2**40),
        ("pay", "amount", -1),
        ("pay", "amount", 2**62),
        ("pay", "delay_ms", -1),
        ("pay", "delay_ms", 2**50),
        ("payer", "named/count", 0),
        ("payer", "named/share", "x"),
        ("payer", "named/description", 5),
        ("fault", "named/count", 0),
        ("fault", "named/delay", []),
        ("service_fault", "named/nth", 0),
        ("service_fault", "named/status", -1),
        ("receiver", "named", {"count": 0}),
        ("receiver", "args", [[{"status": 99}]]),
        ("receiver", "args", [[{"size": 2**40}]]),
        ("call", "named/times", 0),
    ],
)
def test_an_argument_that_no_action_takes_is_refused_with_its_place(kind: str, place: str, other: Any) -> None:
    actions = SAVED["action_log"]["actions"]
    *steps, last = place.split("/")

    def holds(facts: Any) -> bool:
        for step in steps:
            facts = facts[step]
        return last in facts and facts.get("method") != "when"

    number = next(n for n, (one, facts, _) in enumerate(actions) if one == kind and holds(facts))
    with pytest.raises(ForkError, match=rf"is no action log of a saved sandbox: /actions/{number}/1/{place}"):
        Sandbox.from_snapshot(replaced(SAVED, ("action_log", "actions", number, 1, *steps, last), other))


@pytest.mark.parametrize(
    ("add", "words"),
    [
        (lambda sandbox: sandbox.payers.add(description=5), "description is 5"),
        (lambda sandbox: sandbox.payers.add(internal_id=["x"]), "internal_id is"),
        (lambda sandbox: sandbox.service_faults.add("error", marked=1), "marked is 1"),
        (lambda sandbox: sandbox.service_faults.add("error", after_commit="no"), "after_commit is 'no'"),
        (lambda sandbox: sandbox.service_faults.add("error", path=5), "path is 5"),
        (lambda sandbox: sandbox.service_faults.add("error", status=429.0), "status 429.0"),
        (lambda sandbox: sandbox.receiver("shop").answers([Reply(commits=cast(Any, 1))]), "commits is 1"),
        (lambda sandbox: sandbox.payers.clear(5), "payer_id=5"),
        (lambda sandbox: sandbox.service_faults.clear(5), "fault_id=5"),
    ],
)
def test_a_rule_that_could_not_be_saved_and_opened_again_is_refused(add: Any, words: str) -> None:
    sandbox = Sandbox(seed=1)
    with pytest.raises((ValueError, TypeError, LeydenError), match=words):
        add(sandbox)
    assert len(Sandbox.from_snapshot(sandbox.snapshot()).action_log) == 0
