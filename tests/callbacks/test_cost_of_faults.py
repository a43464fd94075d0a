"""An attempt reads a few rows, however many faults there are and however many attempts they hold."""

from __future__ import annotations

from typing import Any

import pytest

from leyden import Sandbox

START, SHOP = "2030-01-01T00:00:00Z", "http://shop.localhost/paid"


def charges(sandbox: Sandbox, count: int, **fields: Any) -> list[str]:
    body = {"amount": "1000", "description": "tea", "callbackUrl": SHOP, "expiresIn": 600, **fields}
    return [str(sandbox.charges.create(**body).id) for _ in range(count)]


@pytest.mark.parametrize(
    ("kind", "count"), [("delay", None), ("reorder", None), ("burst", None), ("burst", 10_000), ("redeliver", None)]
)
def test_what_a_fault_holds_does_not_make_an_attempt_slower(row_reads: list[int], kind: str, count: int | None) -> None:
    costs = []
    for many in (300, 900):
        sandbox = Sandbox(seed=7, start=START)
        sandbox.faults.add(kind, count=count)
        charges(sandbox, many)
        row_reads[0] = 0
        sandbox.advance("10m")
        sandbox.advance("2d")
        costs.append(row_reads[0] / many)
        assert len(sandbox.deliveries) == many
        assert (sandbox.deliveries["status"] != "pending").all()
    assert costs[1] <= 1.2 * costs[0], costs


@pytest.mark.parametrize("what", ["other charges", "spent", "another event", "another attempt", "rate_limit"])
def test_faults_that_do_not_match_are_not_read(row_reads: list[int], what: str) -> None:
    costs = []
    for many in (10, 500):
        sandbox = Sandbox(seed=7, start=START)
        others = charges(sandbox, many, expiresIn=86_400) if what == "other charges" else [""] * many
        for other in others:
            where: dict[str, dict[str, Any]] = {
                "other charges": {"charge": other}, "another event": {"event": "charge.completed"},
                "another attempt": {"attempt": 7}, "rate_limit": {"operation": "getWallet"},
            }  # fmt: skip
            sandbox.faults.add("rate_limit" if what == "rate_limit" else "drop", **where.get(what, {}))
        charges(sandbox, many if what == "spent" else 5)
        sandbox.advance("3d" if what == "spent" else "10m")
        charges(sandbox, 20)
        row_reads[0] = 0
        sandbox.advance("10m")
        costs.append(row_reads[0])
    assert costs[1] <= costs[0] + 20, costs


def test_messages_that_are_never_sent_do_not_read_the_copies_of_others(row_reads: list[int]) -> None:
    costs = []
    for many in (50, 400):
        sandbox = Sandbox(seed=7, start=START)
        sandbox.faults.add("redeliver", count=None)
        charges(sandbox, many)
        sandbox.advance("10m")
        charges(sandbox, 20, callbackUrl="http://127.0.0.1:9/paid")
        row_reads[0] = 0
        sandbox.advance("10m")
        costs.append(row_reads[0])
    assert costs[1] <= costs[0] + 20, costs


@pytest.mark.parametrize(("kind", "count"), [("reorder", None), ("burst", None), ("burst", 2)])
def test_an_attempt_does_not_read_the_faults_that_hold_no_more(
    row_reads: list[int], kind: str, count: int | None
) -> None:
    """The first of them holds all that its kind holds at a time, or each of them one attempt alone."""
    costs = []
    for many in (10, 300):
        sandbox = Sandbox(seed=7, start=START)
        for _ in range(many):
            sandbox.faults.add(kind, count=count, delay="1h")
            if count is not None:
                charges(sandbox, 1)
                sandbox.advance("2h")
        if count is not None:
            charges(sandbox, 2)
            sandbox.advance("10m")
        charges(sandbox, 220)
        row_reads[0] = 0
        sandbox.advance("2h")
        costs.append(row_reads[0])
    assert costs[1] <= 1.1 * costs[0], costs
