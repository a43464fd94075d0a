"""The requirements of the service as short scenarios, each from the first request to the last."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from leyden import Sandbox
from leyden.server.ports import FailedInvoice, SettledInvoice
from tests.support.deep import deep

HOOK = "http://shop.localhost/paid"


def bodies(sandbox: Sandbox) -> list[dict]:
    return [got.json for got in sandbox.receiver("shop").inbox]


def test_a_charge_is_created_and_paid_with_a_callback(sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="250000", description="Coffee", expiresIn=300, callbackUrl=HOOK)
    assert charge.status == "pending"
    payment = sandbox.wallet("ana").pay(charge)
    assert (charge.status, payment.outcome) == ("pending", None), "nothing runs until time advances"
    sandbox.run()
    assert (charge.status, payment.outcome) == ("completed", "SUCCEEDED")
    [update] = bodies(sandbox)
    assert update["status"] == "completed"
    assert update["amount"] == "250000"
    assert update["confirmedAt"] == charge.data["confirmedAt"]


def test_an_unpaid_charge_expires_with_a_callback(sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60, callbackUrl=HOOK)
    sandbox.advance("59.999s")
    assert charge.status == "pending"
    sandbox.advance("1ms")
    assert charge.status == "expired"
    [update] = bodies(sandbox)
    assert update["status"] == "expired"
    assert "confirmedAt" not in update


def test_a_charge_whose_invoice_is_lost_ends_in_error_with_a_callback(sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=HOOK)
    charge.fail("the node lost its database")
    sandbox.run()
    assert charge.status == "error"
    assert [update["status"] for update in bodies(sandbox)] == ["error"]


@pytest.mark.parametrize(
    ("paid_at", "status", "outcome"),
    [
        ("59.999s", "completed", "SUCCEEDED"),
        ("60s", "expired", "INCORRECT_PAYMENT_DETAILS"),
        ("60.001s", "expired", "INCORRECT_PAYMENT_DETAILS"),
    ],
)
def test_payable_strictly_before_the_expiry(sandbox: Sandbox, paid_at: str, status: str, outcome: str) -> None:
    charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
    payment = sandbox.wallet("ana").pay(charge, delay=paid_at)
    sandbox.run()
    assert (charge.status, payment.outcome) == (status, outcome)


def test_a_payment_held_at_expiry_is_returned_to_the_payer(sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
    payment = sandbox.wallet("ana").pay(charge, outcome="hold")
    sandbox.advance("1s")
    assert (charge.status, payment.status) == ("pending", "held")
    sandbox.run()
    assert (charge.status, payment.status) == ("expired", "failed")


def test_a_held_payment_that_is_settled_completes_the_charge(sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="1000", description="tea")
    payment = sandbox.wallet("ana").pay(charge, outcome="hold")
    sandbox.advance("1s")
    payment.settle()
    assert (charge.status, payment.status) == ("completed", "succeeded")


def test_a_held_payment_that_the_node_fails_ends_the_charge_in_error(sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="1000", description="tea")
    payment = sandbox.wallet("ana").pay(charge, outcome="hold")
    sandbox.advance("1s")
    payment.cancel()
    assert (charge.status, payment.status) == ("error", "failed")


@pytest.mark.parametrize("outcome", ["wrong_secret", "underpay", "overpay_double", "fail"])
def test_a_refused_payment_leaves_the_charge_payable(sandbox: Sandbox, outcome: str) -> None:
    charge = sandbox.charges.create(amount="100000", description="tea")
    refused = sandbox.wallet("ana").pay(charge, outcome=outcome)
    sandbox.advance("1s")
    assert (charge.status, refused.status) == ("pending", "failed")
    assert refused.reason
    sandbox.wallet("ana").pay(charge)
    sandbox.advance("1s")
    assert charge.status == "completed"


def test_a_second_payment_is_refused_without_a_callback(sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=HOOK)
    first, second = sandbox.wallet("ana").pay(charge), sandbox.wallet("bob").pay(charge)
    sandbox.run()
    assert (first.outcome, second.outcome) == ("SUCCEEDED", "INCORRECT_PAYMENT_DETAILS")
    assert len(bodies(sandbox)) == 1
    assert sandbox.ask("GET", "/v0/wallet")["data"]["balance"] == "1000"


def test_a_node_event_for_an_ended_charge_changes_nothing_and_is_journaled(sandbox: Sandbox) -> None:
    """An external node may report an event after the charge has ended, or report it twice."""
    charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=HOOK)
    sandbox.wallet("ana").pay(charge)
    sandbox.run()
    before, service = charge.data, sandbox.world.service.charges
    paid = service.charges.existing(charge.id)["payment_hash"]
    with sandbox.world.exclusive():
        service.invoice_settled(SettledInvoice(paid, 1_000, sandbox.world.clock.now(), "00" * 32))
        service.invoice_failed(FailedInvoice(paid, "lost", sandbox.world.clock.now()))
        service.expire(charge.id)
    sandbox.run()
    assert charge.data == before
    assert len(bodies(sandbox)) == 1
    assert sandbox.ask("GET", "/v0/wallet")["data"]["balance"] == "1000"
    noted = sandbox.world.journal.entries(kind="refused", subject=charge.id)
    assert [entry.facts for entry in noted] == [
        {"trigger": trigger, "refuse": "already_completed"}
        for trigger in ("payment_settled", "invoice_failed", "expiry_reached")
    ]


def test_an_event_for_an_unknown_invoice_names_it(sandbox: Sandbox) -> None:
    with pytest.raises(LookupError, match="ab" * 32):
        sandbox.world.service.charges.invoice_failed(FailedInvoice("ab" * 32, "lost", 0))


def test_a_static_charge_with_two_slots_is_disabled_and_active_again(sandbox: Sandbox) -> None:
    tips = sandbox.static_charges.create(
        minAmount="1000", maxAmount="5000000", description="Tips", allowedSlots=2, callbackUrl=HOOK
    )
    sandbox.wallet("ana").scan(tips, amount=2_000)
    sandbox.wallet("bob").scan(tips, amount=3_000)
    sandbox.advance("1s")
    assert (tips.slots, tips.status) == (2, "disabled")
    assert [(update["slots"], update["amount"]) for update in bodies(sandbox)] == [(1, "2000"), (2, "3000")]
    with pytest.raises(ValueError, match="slot"):
        sandbox.wallet("cy").scan(tips, amount=4_000)
    tips.update(allowedSlots=3)
    assert tips.status == "active"
    sandbox.wallet("cy").scan(tips, amount=4_000)
    sandbox.advance("1s")
    assert (tips.slots, tips.status) == (3, "disabled")


def test_two_payers_race_for_the_last_slot_and_one_wins(sandbox: Sandbox) -> None:
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="5000000", description="Tips", allowedSlots=1)
    first, second = sandbox.wallet("ana").scan(tips, amount=2_000), sandbox.wallet("bob").scan(tips, amount=2_000)
    sandbox.run()
    assert (first.outcome, second.outcome) == ("SUCCEEDED", "INCORRECT_PAYMENT_DETAILS")
    assert tips.slots == 1
    assert sorted(charge.status for charge in tips.charges) == ["completed", "expired"]


def test_a_static_charge_with_an_expiry_expires(sandbox: Sandbox) -> None:
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="1000", description="Tips", expiresIn=60)
    late = sandbox.wallet("ana").scan(tips, delay="60s")
    sandbox.run()
    assert (tips.status, late.outcome) == ("expired", "INCORRECT_PAYMENT_DETAILS")
    with pytest.raises(ValueError, match="expired"):
        sandbox.wallet("ana").scan(tips)


def scenario() -> tuple[str, str]:
    with Sandbox(seed=3) as sandbox:
        charge = sandbox.charges.create(amount="21000", description="tea", callbackUrl=HOOK)
        sandbox.wallet("ana").pay(charge)
        sandbox.run()
        return charge.status, sandbox.world.journal.hash


def test_the_same_scenario_inside_a_running_event_loop() -> None:
    async def inside() -> tuple[str, str]:
        return scenario()

    assert asyncio.run(inside()) == scenario()


@deep("test_a_charge_is_created_and_paid_with_a_callback")
def test_the_same_scenario_in_a_plain_script_under_any_hash_seed() -> None:
    script = "from tests.integration.test_stories import scenario; print(*scenario())"
    printed = {
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert printed == {" ".join(scenario()) + "\n"}


def test_the_client_is_a_real_one(sandbox: Sandbox) -> None:
    answer = sandbox.http.post("/v0/charges", json={"amount": "1000", "description": "tea"})
    assert answer.status_code == 200
    assert answer.json()["data"]["status"] == "pending"
    assert sandbox.http.get("/v0/charges/none").status_code == 404
