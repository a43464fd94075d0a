"""A burst holds messages until one instant, and the next message after that begins another gathering; every other kind
applies to as many messages as its count says."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest

from leyden import Sandbox
from leyden.callbacks.faults.kinds import KINDS, RATE_LIMIT, UNUSED
from leyden.callbacks.replies import Reply
from leyden.errors import ApiError
from leyden.server.timestamps import parse_iso
from tests.support.due_callbacks import START, pay
from tests.support.lists import listed

DELAY_S = 60


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox(seed=7, start=START)


def first_attempts(sandbox: Sandbox, charges: list[str]) -> list[dict[str, Any]]:
    """The first attempt of the callback about each of these Charges."""
    by_charge = {row["chargeId"]: row["attempts"] for row in listed(sandbox.ask, "/sandbox/v1/deliveries")}
    return [by_charge[charge][0] for charge in charges]


def seconds(attempt: dict[str, Any]) -> float:
    """When the attempt was sent, in seconds since the start."""
    return (parse_iso(attempt["at"]) - parse_iso(START)) / 1_000


@dataclass
class Gathering:
    """The numbers of the messages that a burst held, and the second at which it sent all of them."""

    messages: list[int]
    sent: int


def gatherings(due: list[int], count: int | None) -> list[Gathering]:
    """The gatherings of a burst of messages that are due at these seconds; it does not hold those in none of them."""
    found: list[Gathering] = []
    left = len(due) if count is None else count
    for number, at in enumerate(due):
        joins = bool(found) and at < found[-1].sent
        if left == 0 or (left == 1 and count is not None and not joins):
            continue
        left -= 1
        if joins:
            found[-1].messages.append(number)
        else:
            found.append(Gathering([number], at + DELAY_S))
        if left == 0 and count is not None:
            found[-1].sent = at
    return found


@pytest.mark.parametrize("count", [None, 2, 3, 4, 5, 7, 12])
@pytest.mark.parametrize("seed", range(4))
def test_every_gathering_of_a_burst_begins_with_the_first_message_after_the_last_one(
    sandbox: Sandbox, count: int | None, seed: int
) -> None:
    choices = random.Random(f"{seed} {count}")
    due = [0]
    while len(due) < 9:
        due.append(due[-1] + choices.choice((0, 1, 10, 29, 30, 59, 60, 61, 200)))
    sandbox.faults.add("burst", count=count, delay=DELAY_S)
    charges = []
    for before, at in zip([0, *due], due, strict=False):
        sandbox.advance(at - before)
        charges.append(pay(sandbox))
    sandbox.run()

    expected = gatherings(due, count)
    wanted: list[tuple[float, str | None, bool]] = [(at, None, False) for at in due]
    for one in expected:
        for number in one.messages:
            wanted[number] = (one.sent, "burst", len(one.messages) == 1)
    held = sum(len(one.messages) for one in expected)
    alone = sum(len(one.messages) == 1 for one in expected)
    found = []
    for attempt in first_attempts(sandbox, charges):
        is_alone = attempt["note"] == "held by the fault burst: nothing was sent together with it"
        assert is_alone or not attempt["note"]
        found.append((seconds(attempt), attempt["fault"], is_alone))
    assert found == wanted
    [fault] = sandbox.faults
    assert (fault["hits"], fault["used"]) == (held - alone, held)
    without = f"it held {held} attempts, and nothing was sent together with {alone} of them"
    assert ("nothing was sent together" in fault["note"]) == (alone > 0)
    assert not alone or held == 1 or fault["note"].startswith(without)
    assert fault["note"].endswith(UNUSED) == (count is not None and held == count - 1)
    entries = {kind: sandbox.world.journal.entries(kind=kind) for kind in ("fault_held", "fault_without_effect")}
    assert [len(one) for one in entries.values()] == [held, alone]
    assert len(sandbox.faults.hits) == held - alone


def test_what_waits_for_other_attempts_belongs_to_its_own_gathering(sandbox: Sandbox) -> None:
    """Eight attempts are in flight at most: two of the first gathering are sent when others have ended."""
    sandbox.faults.add("burst", count=None, delay=DELAY_S)
    sandbox.receiver("shop").always(Reply(delay="10s"))
    charges = [pay(sandbox) for _ in range(10)]
    sandbox.advance("65s")
    charges.append(pay(sandbox))
    sandbox.run()
    attempts = first_attempts(sandbox, charges)
    assert [seconds(one) for one in attempts] == [60] * 8 + [70] * 2 + [130]
    assert ["nothing was sent together" in one["note"] for one in attempts] == [False] * 10 + [True]


def test_an_attempt_that_is_replayed_at_another_instant_leaves_its_gathering(sandbox: Sandbox) -> None:
    sandbox.faults.add("burst", count=None, delay=DELAY_S)
    charges = [pay(sandbox)]
    [delivery] = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]
    sandbox.ask("POST", f"/sandbox/v1/deliveries/{delivery['id']}/replay", {"delay": "500s"})
    for step in ("30s", "10s"):
        sandbox.advance(step)
        charges.append(pay(sandbox))
    sandbox.run()
    attempts = first_attempts(sandbox, charges)
    assert [seconds(one) for one in attempts] == [500, 90, 90]
    assert ["nothing was sent together" in one["note"] for one in attempts] == [True, False, False]


def test_a_burst_whose_last_one_would_be_alone_leaves_it_to_the_next_fault(sandbox: Sandbox) -> None:
    sandbox.faults.add("burst", count=2, delay=DELAY_S)
    sandbox.faults.add("delay", delay="5s")
    charges = [pay(sandbox)]
    sandbox.advance("2m")
    charges.append(pay(sandbox))
    sandbox.run()
    attempts = first_attempts(sandbox, charges)
    assert [(seconds(one), one["fault"]) for one in attempts] == [(60, "burst"), (125, "delay")]


@pytest.mark.parametrize("count", [1, 3, 4, None])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("burst", RATE_LIMIT)])
def test_every_kind_applies_to_as_many_messages_as_its_count(sandbox: Sandbox, kind: str, count: int | None) -> None:
    if kind == "old_secret":
        sandbox.ask("POST", "/sandbox/v1/webhook-secret/rotate")
    sandbox.faults.add(kind, count=count, attempt=1)
    charges = []
    for step in ("0s", "1s", "3h", "1s", "3h"):
        sandbox.advance(step)
        charges.append(pay(sandbox))
    sandbox.run()
    applied = len(charges) if count is None else count
    faults = [attempt["fault"] for attempt in first_attempts(sandbox, charges)]
    assert faults == [kind] * applied + [None] * (len(charges) - applied)
    [fault] = sandbox.faults
    assert fault["used"] == applied
    held_alone = len(sandbox.world.journal.entries(kind="fault_without_effect"))
    assert fault["hits"] == len(sandbox.faults.hits) == applied - held_alone
    assert not held_alone or kind == "reorder"


@pytest.mark.parametrize("count", [1, 3, None])
def test_rate_limit_refuses_as_many_requests_as_its_count(sandbox: Sandbox, count: int | None) -> None:
    sandbox.faults.add(RATE_LIMIT, count=count)
    refused = []
    for _ in range(5):
        sandbox.advance("1h")
        try:
            sandbox.charges.create(amount="1000", description="tea")
        except ApiError as error:
            refused.append(error.status)
    assert refused == [429] * (5 if count is None else count)
    assert next(iter(sandbox.faults))["used"] == len(refused)
