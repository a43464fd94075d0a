"""The events of a Charge are in the order in which they happened, and none of them disappears."""

from __future__ import annotations

from pathlib import Path

import pytest

from leyden import Sandbox
from leyden.lab.drawings import timeline
from leyden.lab.drawings.charge_events import charge_events

START = "2030-01-01T09:00:00Z"
URL = "http://shop.localhost/paid"


def texts(sandbox: Sandbox, charge_id: str) -> list[str]:
    return [event.text for event in charge_events(sandbox.world, charge_id).events]


@pytest.mark.parametrize("end", ["settle", "return", "cancel", "expiry"])
@pytest.mark.parametrize("gap", ["0s", "5s"])
def test_a_hold_stays_in_the_timeline_after_its_end(tmp_path: Path, end: str, gap: str) -> None:
    with Sandbox(seed=7, start=START, data=tmp_path) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="x", expiresIn=604_800)
        payment = sandbox.wallet("ana").pay(charge, outcome="hold")
        sandbox.advance(gap)
        match end:
            case "settle":
                payment.settle()
            case "cancel":
                payment.cancel()
            case "return":
                sandbox.advance("3d")
            case _:
                sandbox.advance("8d")
        assert sandbox.payments.status.tolist() == ["succeeded" if end == "settle" else "failed"]
        shown = texts(sandbox, charge.id)
        assert shown.count("holds the payment") == 1
        ends = [place for place, text in enumerate(shown) if "preimage" in text or "the node says" in text]
        assert shown.index("ana's HTLC arrives") < shown.index("holds the payment") < min(ends)
    with Sandbox(data=tmp_path) as again:
        assert texts(again, charge.id) == shown


@pytest.mark.parametrize(("span_s", "until"), [(600, "09:10:00.000"), (86_400, "2030-01-02 09:00:00.000")])
def test_the_end_of_an_invoice_on_another_day_has_its_date(span_s: int, until: str) -> None:
    sandbox = Sandbox(seed=7, start=START)
    charge = sandbox.charges.create(amount="1000", description="x", expiresIn=span_s)
    assert f"payable until {until} ·" in timeline(sandbox.world, charge.id).text


def test_a_replay_for_later_is_an_order_and_says_which_one_it_replaces(tmp_path: Path) -> None:
    with Sandbox(seed=7, start=START, data=tmp_path) as sandbox:
        charge = sandbox.charges.create(amount="1000", description="x", callbackUrl=URL)
        sandbox.wallet("ana").pay(charge)
        sandbox.advance("1s")
        [delivery] = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"]
        for delay in ("10m", "5m", "2d"):
            sandbox.replay_delivery(delivery["id"], delay=delay)
            if delay == "5m":
                sandbox.advance("15m")
        sandbox.replay_delivery(delivery["id"])
        sandbox.advance("1s")
        sandbox.replay_delivery(delivery["id"])
        sandbox.advance("1s")
        happened = charge_events(sandbox.world, charge.id).events
        shown = [f"{event.text} | {event.detail}" for event in happened if event.at > happened[0].at]
        noted = [
            entry.facts["due_at"] - entry.at_ms for entry in sandbox.world.journal.entries(kind="callback_replayed")
        ]
    assert [line for line in shown if "callback" not in line] == [
        "replay is ordered | the message is to be sent again at 09:10:01.000",
        "replay is ordered | the message is to be sent again at 09:05:01.000, instead of at 09:10:01.000",
        "replay is ordered | the message is to be sent again at 2030-01-03 09:15:01.000",
        "replay | the message is sent again, instead of at 2030-01-03 09:15:01.000",
        "replay | the message is sent again",
    ]
    assert [line.split(" ")[0] for line in shown] == [
        "replay", "replay", "callback", "replay", "replay", "callback", "replay", "callback",
    ]  # fmt: skip
    assert noted == [600_000, 300_000, 172_800_000, 0, 0]
    with Sandbox(data=tmp_path) as again:
        assert charge_events(again.world, charge.id).events == happened
