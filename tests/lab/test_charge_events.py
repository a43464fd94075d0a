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
