"""A `reorder` has an effect on an attempt that another one, due after it, has overtaken: the order in which the
receiver got the callbacks says of which attempts that is so, and everything that counts hits agrees with it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from leyden import Sandbox
from leyden.callbacks.replies import Reply
from tests.support.due_callbacks import START, pay
from tests.support.lists import listed

UNMET = "held by the fault reorder: nothing has overtaken it"

Attempt = tuple[str, int]  # the Charge, and the number of the attempt


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox(seed=7, start=START)


def attempts(sandbox: Sandbox) -> dict[Attempt, dict[str, Any]]:
    """All attempts."""
    rows = listed(sandbox.ask, "/sandbox/v1/deliveries")
    return {(row["chargeId"], one["number"]): one for row in rows for one in row["attempts"]}


def overtaken(received: list[Attempt], due: dict[Attempt, tuple[str, int]]) -> set[Attempt]:
    """Those that came after one that was due later."""
    found, latest = set(), due[received[0]]
    for attempt in received:
        if due[attempt] < latest:
            found.add(attempt)
        latest = max(latest, due[attempt])
    return found


def check(sandbox: Sandbox, first_due: dict[str, tuple[str, int]], count: int | None) -> int:
    """Compare what is reported of hits with the order of the receiver. Retries are not held. Returns the hits."""
    all_attempts = attempts(sandbox)
    due = {key: (one["dueAt"], -1) for key, one in all_attempts.items()}
    due |= {(charge, 1): instant for charge, instant in first_due.items()}
    received = [(str(got.json["id"]), got.attempt) for got in sandbox.receiver("shop").inbox]
    held = {key for key, one in all_attempts.items() if one["fault"] == "reorder"}
    hits = overtaken(received, due) & held
    assert len(held) == min(len(first_due), count or len(first_due))
    assert {key: one["note"] for key, one in all_attempts.items() if key in held} == {
        key: "" if key in hits else UNMET for key in held
    }
    fault = next(one for one in sandbox.faults if one["kind"] == "reorder")
    assert (fault["hits"], fault["used"]) == (len(hits), len(held))
    assert ("nothing has overtaken" in fault["note"]) == (len(hits) < len(held))
    charges = {row["id"]: row["chargeId"] for row in listed(sandbox.ask, "/sandbox/v1/deliveries")}
    for kind, expected in (("fault_hit", hits), ("fault_without_effect", held - hits), ("fault_held", held)):
        facts = [one.facts for one in sandbox.world.journal.entries(kind=kind) if one.facts["fault"] == "reorder"]
        named = [(charges[one["delivery"]], one["attempt"]) for one in facts]
        assert (len(named), set(named)) == (len(expected), expected)
    assert [one.facts["hit"] for one in sandbox.faults.hits if one.facts["fault"] == "reorder"] == [
        *range(1, len(hits) + 1)
    ]
    return len(hits)


@pytest.mark.parametrize("count", [1, 2, 3, 5, None])
@pytest.mark.parametrize("seed", range(8))
def test_a_hit_is_an_attempt_that_a_later_one_has_overtaken(sandbox: Sandbox, count: int | None, seed: int) -> None:
    choices = random.Random(f"{seed} {count}")
    answers = [choices.choice((200, 200, 200, 500, Reply(delay="2s"), Reply(500, delay="4s"))) for _ in range(9)]
    sandbox.receiver("shop").answers(answers)
    sandbox.faults.add("drop", attempt=2, count=1)
    sandbox.faults.add("reorder", attempt=1, count=count, delay=choices.choice(("3s", "20s", "1h")))
    first_due: dict[str, tuple[str, int]] = {}
    for number in range(8):
        sandbox.advance(choices.choice((0, 0, 1, 2, 5, 30, 4_000)))
        now = sandbox.now
        first_due[pay(sandbox)] = (now, number)
    sandbox.run()
    check(sandbox, first_due, count)


@pytest.mark.parametrize(
    ("count", "pauses", "hits"),
    [
        (2, (1, 1), 0),  # the first is released by its delay, and the second by it
        (None, (1, 1, 1), 0),
        (None, (0, 0, 0), 0),
        (2, (1, 1, 1), 2),
        (2, (0, 0, 0), 2),
        (3, (1, 1, 1, 1), 3),
        (2, (1, 1, 7_200), 0),
        (1, (1, 1, 1), 1),
    ],
)
def test_what_was_due_before_and_held_too_has_overtaken_nothing(
    sandbox: Sandbox, count: int | None, pauses: tuple[int, ...], hits: int
) -> None:
    sandbox.faults.add("reorder", attempt=1, count=count)
    first_due: dict[str, tuple[str, int]] = {}
    for number, pause in enumerate(pauses):
        sandbox.advance(pause)
        now = sandbox.now
        first_due[pay(sandbox)] = (now, number)
    sandbox.run()
    assert check(sandbox, first_due, count) == hits


@pytest.mark.parametrize(("kind", "other"), [("delay", {"delay": "10s"}), ("burst", {"count": None, "delay": "10s"})])
def test_what_another_fault_has_held_overtakes_what_was_due_after_it_only(
    sandbox: Sandbox, kind: str, other: dict[str, Any]
) -> None:
    """The second message is held for ten seconds; the first and the third are reordered, and the second meets both."""
    sandbox.faults.add("reorder", count=1)
    first_due = {pay(sandbox): (sandbox.now, 0)}
    sandbox.advance("1s")
    fault = sandbox.ask("POST", "/sandbox/v1/faults", {"kind": kind, **other})
    first_due[pay(sandbox)] = (sandbox.now, 1)
    sandbox.ask("DELETE", f"/sandbox/v1/faults/{fault['id']}")
    sandbox.faults.add("reorder", count=1)
    sandbox.advance("1s")
    first_due[pay(sandbox)] = (sandbox.now, 2)
    sandbox.run()
    assert [fault["hits"] for fault in sandbox.faults] == [1, 0]
    received = [str(got.json["id"]) for got in sandbox.receiver("shop").inbox]
    first, second, third = first_due
    assert received == [second, first, third]


def test_of_two_that_are_held_the_later_one_can_overtake_the_earlier_one(sandbox: Sandbox) -> None:
    """The second one is held for a shorter time."""
    sandbox.faults.add("reorder", count=1)
    first = pay(sandbox)
    sandbox.faults.add("reorder", count=1, delay="1s")
    second = pay(sandbox)
    sandbox.run()
    assert [str(got.json["id"]) for got in sandbox.receiver("shop").inbox] == [second, first]
    assert [fault["hits"] for fault in sandbox.faults] == [1, 0]


def test_a_copy_of_the_sandbox_knows_which_attempt_was_due_before(sandbox: Sandbox) -> None:
    sandbox.faults.add("reorder", count=3)
    for _ in range(3):
        pay(sandbox)
    with Sandbox.from_snapshot(sandbox.snapshot()) as copy:
        for one in (sandbox, copy):
            one.run()
            assert [fault["hits"] for fault in one.faults] == [0]
