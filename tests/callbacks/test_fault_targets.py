"""A fault of a Charge or a Static Charge that has ended is accepted if an attempt of its deliveries can meet it."""

from __future__ import annotations

import pytest

from leyden import Sandbox
from leyden.errors import ApiError

HOOK = "http://shop.localhost/hook"


def charge(sandbox: Sandbox) -> str:
    return str(sandbox.charges.create(amount="21000", description="tea", callbackUrl=HOOK, expiresIn=60).id)


def ended_charge(sandbox: Sandbox, event: str) -> str:
    charge_id = charge(sandbox)
    if event == "charge.completed":
        sandbox.wallet("ana").pay(sandbox.charges[charge_id])
    elif event == "charge.error":
        sandbox.ask("POST", f"/sandbox/v1/charges/{charge_id}/fail")
    sandbox.advance("61s")
    return charge_id


def tips(sandbox: Sandbox, *, paid: bool) -> str:
    static = sandbox.static_charges.create(
        minAmount="1000", maxAmount="1000", description="tips", callbackUrl=HOOK, expiresIn=60
    )
    if paid:
        sandbox.wallet("ana").scan(static)
        sandbox.advance("1s")
    return str(static.id)


def drop(sandbox: Sandbox, charge_id: str, **conditions: object) -> str:
    sandbox.ask("POST", "/sandbox/v1/faults", {"kind": "drop", "chargeId": charge_id, **conditions})
    return charge_id


def refusal(sandbox: Sandbox, charge_id: str, **conditions: object) -> str:
    with pytest.raises(ApiError, match=r"^409 ") as refused:
        drop(sandbox, charge_id, **conditions)
    return str(refused.value)


EVENTS = ["charge.completed", "charge.expired", "charge.error"]


@pytest.mark.parametrize("event", EVENTS)
def test_a_fault_of_a_charge_that_has_ended_fits_its_deliveries(sandbox: Sandbox, event: str) -> None:
    charge_id = ended_charge(sandbox, event)
    for other in EVENTS:
        if other != event:
            expected = f"sends no callback with the event {other} any more: give {event}, or leave out event"
            assert expected in refusal(sandbox, charge_id, event=other)
    assert "give an attempt of 2 or more, or leave it out" in refusal(sandbox, charge_id, attempt=1)
    assert sandbox.ask("GET", "/sandbox/v1/faults")["data"] == []
    drop(sandbox, charge_id, event=event, attempt=2)
    [row] = sandbox.ask("GET", f"/sandbox/v1/deliveries?chargeId={charge_id}")["data"]
    sandbox.ask("POST", f"/sandbox/v1/deliveries/{row['id']}/replay")
    sandbox.advance("0s")
    [fault] = sandbox.ask("GET", "/sandbox/v1/faults")["data"]
    assert fault["hits"] == 1, "a replay meets what was accepted"


def test_a_fault_of_an_ended_static_charge_needs_a_delivery_that_is_there(sandbox: Sandbox) -> None:
    never_paid, paid = tips(sandbox, paid=False), tips(sandbox, paid=True)
    for charge_id in (never_paid, paid):
        drop(sandbox, charge_id, attempt=1)
    sandbox.advance("61s")
    assert "is expired and sends no more callbacks: give another chargeId, or leave it out" in refusal(
        sandbox, never_paid
    )
    assert "give an attempt of 2 or more" in refusal(sandbox, paid, attempt=1)
    drop(sandbox, paid)


def test_a_fault_of_what_has_not_ended_is_accepted(sandbox: Sandbox) -> None:
    charge_id = charge(sandbox)
    for event in EVENTS:
        drop(sandbox, charge_id, event=event, attempt=1)
    static = sandbox.static_charges[tips(sandbox, paid=True)]
    drop(sandbox, static.id, attempt=1)
    static.update(allowedSlots=1)
    assert static.status == "disabled"
    drop(sandbox, static.id, attempt=1)
    sandbox.receiver("shop").always(500)
    sandbox.wallet("ana").pay(sandbox.charges[charge_id])
    sandbox.advance("1s")
    assert "of 2 or more" in refusal(sandbox, charge_id, attempt=1)
    drop(sandbox, charge_id, attempt=2)
