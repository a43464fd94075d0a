"""The note of a wait for deliveries, about payments that are scheduled together: for one slot, or one amount."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from leyden import Sandbox
from leyden.sandbox.resources import Charge, StaticCharge

HOOK = "http://shop.localhost/hook"


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(seed=1, start="2030-01-01T00:00Z") as sandbox:
        yield sandbox


def tea(sandbox: Sandbox) -> Charge:
    return sandbox.charges.create(amount="250000", description="tea", callbackUrl=HOOK)


def tips(sandbox: Sandbox) -> StaticCharge:
    fields = {"minAmount": "1000", "maxAmount": "9000", "description": "tips", "callbackUrl": HOOK}
    return sandbox.static_charges.create(**fields, allowedSlots=1)


def noted(sandbox: Sandbox, wanted: dict[str, object]) -> str:
    return str(sandbox.ask("POST", "/sandbox/v1/deliveries/wait", {"timeout": 0, **wanted})["note"])


# Two payments of one slot in the same instant, in the order in which they run, and what becomes of the second one.
@pytest.mark.parametrize("second", ["settle", "hold"])
@pytest.mark.parametrize("first", ["settle", "hold", "fail", "incomplete"])
def test_the_order_of_an_instant_says_which_payment_takes_the_last_slot(
    sandbox: Sandbox, first: str, second: str
) -> None:
    static = tips(sandbox)
    sandbox.wallet("a").scan(static, amount=1_000, delay="1m", outcome=first)
    later = sandbox.wallet("b").scan(static, amount=1_000, delay="1m", outcome=second)
    charge = static.charges[1]
    note = noted(sandbox, {"chargeId": charge.id})
    words = f"when payment {later.id} completes it" if second == "settle" else f"when payment {later.id} of it is held"
    assert (words in note) == (first != "settle"), note
    assert ("/settle)" in note) == (first != "settle" and second == "hold"), note
    sandbox.advance("1m")
    if second == "hold" and first != "settle":
        sandbox.ask("POST", f"/sandbox/v1/payments/{later.id}/settle")
    assert (charge.status == "completed") == (first != "settle")


def test_with_invoices_that_outlive_the_last_slot_each_payment_completes_its_charge() -> None:
    with Sandbox(seed=1, overlays=["count-on-settle"]) as sb:
        static = tips(sb)
        for payer in ("a", "b"):
            sb.wallet(payer).scan(static, amount=1_000, delay="1m")
        for charge in static.charges:
            note = sb.ask("POST", "/sandbox/v1/deliveries/wait", {"chargeId": charge.data["id"]})["note"]
            assert " completes it" in note
        sb.advance("1m")
        assert [charge.status for charge in static.charges] == ["completed", "completed"]


@pytest.mark.parametrize(
    ("payments", "completed_s"),
    [
        ([{}, {"delay": 30}], 30),
        ([{"delay": 10}, {"delay": 40}], 40),
        ([{"delay": 40}, {"delay": 10}], 40),
        ([{"delay": 0.001}, {"delay": 120}], 120),  # the node waits for 120 s
        ([{}, {"delay": 120}], 120),
        ([{}, {"delay": 121}], None),
        ([{}, {"delay": 121}, {"delay": 180}], 180),
        ([{}, {"delay": 30, "amount": 400_000}, {"delay": 60}], None),  # another total fails the set
        ([{"amount": 400_000}, {"delay": 30, "amount": 400_000}], 30),
    ],
    ids=str,
)
def test_incomplete_payments_that_make_up_the_amount_complete_the_charge(
    sandbox: Sandbox, payments: list[dict], completed_s: int | None
) -> None:
    made = tea(sandbox).id
    made_ids = [
        sandbox.wallet("ana").pay(sandbox.charges[made], outcome="incomplete", **payment).id for payment in payments
    ]
    sandbox.advance("0s")
    wanted = {"chargeId": made}
    note = noted(sandbox, wanted)
    of_expiry = noted(sandbox, {**wanted, "event": "charge.expired"})
    fork = sandbox.fork()
    fork.advance("599s")
    assert fork.charges[made].status == ("pending" if completed_s is None else "completed")
    if completed_s is None:
        expire = "advance the clock to 2030-01-01T00:10:00.000Z, when it expires"
        assert expire in note
        assert expire in of_expiry
        return
    at = f"2030-01-01T00:{completed_s // 60:02}:{completed_s % 60:02}.000Z"
    assert re.search(rf"advance the clock to {at}, when payment ({'|'.join(made_ids)}) completes it$", note), note
    assert f"completes it at {at}, before it expires at" in of_expiry
    assert of_expiry.endswith("wait for charge.completed or charge.error")


def test_parts_that_wait_are_completed_only_by_a_payment_of_their_total(sandbox: Sandbox) -> None:
    made = tea(sandbox).id
    waiting = sandbox.wallet("ana").pay(sandbox.charges[made], outcome="incomplete", amount=400_000)
    sandbox.advance("0s")
    for wanted, name in (({"chargeId": made}, "it"), ({}, f"Charge {made}")):
        note = noted(sandbox, wanted)
        way = f"pay {name} (POST /sandbox/v1/payments) with the amount 400000"
        assert f"{way} (a part of payment {waiting.id} waits for that total), or advance the clock" in note
    sandbox.wallet("bob").pay(sandbox.charges[made], amount=400_000)
    sandbox.advance("0s")
    assert sandbox.charges[made].status == "completed"


def test_an_open_payment_whose_callback_cannot_be_as_awaited_does_not_hide_another() -> None:
    with Sandbox(seed=1, network="line:3,ideal") as sandbox:
        static = sandbox.static_charges.create(minAmount="1000", maxAmount="1000", description="tips", callbackUrl=HOOK)
        sandbox.wallet("ana").scan(static, delay="1m")
        static.update(callbackUrl="http://127.0.0.1:1/hook")
        wanted: dict[str, object] = {"chargeId": static.id, "status": "blocked"}
        assert noted(sandbox, wanted).startswith(
            "the open payment of the Static Charge sends no callback that is waited for: pay the S"
        )
        sandbox.wallet("bob").scan(static, delay="1m")
        assert noted(sandbox, wanted).startswith(f"Charge {static.charges[1].id} is pending and has sent no callback")


def test_only_callbacks_of_the_awaited_payment_are_to_be_replayed(sandbox: Sandbox) -> None:
    static = sandbox.static_charges.create(minAmount="1000", maxAmount="1000", description="tips", callbackUrl=HOOK)
    sandbox.receiver("shop").always(410)
    sandbox.wallet("ana").scan(static)
    sandbox.advance("0s")
    sandbox.wallet("bob").scan(static, delay="1m")
    assert noted(sandbox, {"chargeId": static.id}).endswith(", or replay those that were stopped")
    note = noted(sandbox, {"chargeId": static.charges[1].id})
    assert "has answered 410" in note
    assert "replay those" not in note


@pytest.mark.parametrize("first", [{"delay": "60s"}, {"delay": "400s"}, {"outcome": "incomplete", "delay": "60s"}])
def test_of_several_open_payments_of_a_static_charge_the_first_that_completes_is_named(
    sandbox: Sandbox, first: dict[str, str]
) -> None:
    static = sandbox.static_charges.create(minAmount="1000", maxAmount="1000", description="tips", callbackUrl=HOOK)
    sandbox.wallet("ana").scan(static, **first)
    later = sandbox.wallet("bob").scan(static, delay="3s")
    note = noted(sandbox, {"chargeId": static.id})
    assert note.startswith(f"Charge {static.charges[1].id} is pending")
    assert note.endswith(f":03.000Z, when payment {later.id} completes it")
