"""Static Charges through the API: bounds that depend on each other, slots, and partial updates."""

from __future__ import annotations

import re
from typing import Any

import pytest

from leyden import Sandbox
from leyden.errors import ApiError
from leyden.lightning.engine.htlc import NEW_INVOICE
from leyden.sandbox.resources import StaticCharge

TIPS: dict[str, Any] = {"minAmount": "1000", "maxAmount": "9000", "description": "Tips"}


def pay(sandbox: Sandbox, static: StaticCharge, times: int = 1) -> None:
    for _ in range(times):
        sandbox.wallet("ana").scan(static, amount=1_000)
    sandbox.advance("1s")


def test_a_new_static_charge_as_the_specification_shows_it(sandbox: Sandbox) -> None:
    data = sandbox.static_charges.create(**TIPS).data
    assert {
        name: data[name] for name in ("unit", "slots", "status", "allowedSlots", "expiresAt", "successMessage")
    } == {
        "unit": "msats",
        "slots": 0,
        "status": "active",
        "allowedSlots": None,
        "expiresAt": None,
        "successMessage": None,
    }


@pytest.mark.parametrize("slots", [0, None, ""])
def test_without_slots_the_number_is_unlimited(sandbox: Sandbox, slots: Any) -> None:
    static = sandbox.static_charges.create(**TIPS, allowedSlots=slots)
    assert static.data["allowedSlots"] is None
    pay(sandbox, static, 3)
    assert (static.slots, static.status) == (3, "active")


@pytest.mark.parametrize(
    ("least", "most", "status"), [("1000", "1000", 200), ("1001", "1000", 409), ("999", "1000", 400)]
)
def test_the_minimum_is_at_most_the_maximum(sandbox: Sandbox, least: str, most: str, status: int) -> None:
    body = {**TIPS, "minAmount": least, "maxAmount": most}
    assert sandbox.http.post("/v0/static-charges", json=body).status_code == status


@pytest.mark.parametrize(("length", "status"), [(144, 200), (145, 400)])
def test_the_success_message_has_its_limit(sandbox: Sandbox, length: int, status: int) -> None:
    body = {**TIPS, "successMessage": "x" * length}
    assert sandbox.http.post("/v0/static-charges", json=body).status_code == status


@pytest.mark.parametrize(
    ("slots", "status"), [(1, 200), (2_147_483_647, 200), (2_147_483_648, 400), (-1, 400), (1.5, 400)]
)
def test_the_slots_have_their_bounds(sandbox: Sandbox, slots: Any, status: int) -> None:
    assert sandbox.http.post("/v0/static-charges", json={**TIPS, "allowedSlots": slots}).status_code == status


def test_an_absent_field_is_kept_and_null_clears_it(sandbox: Sandbox) -> None:
    static = sandbox.static_charges.create(
        **TIPS, allowedSlots=5, internalId="a", successMessage="b", callbackUrl="http://shop.localhost/x"
    )
    before = static.data
    assert static.update().data == before
    static.update(internalId=None, successMessage=None, callbackUrl=None, allowedSlots=None)
    cleared = {"internalId", "successMessage", "callbackUrl", "allowedSlots"}
    assert static.data == {**before, **dict.fromkeys(cleared)}


@pytest.mark.parametrize("name", ["minAmount", "maxAmount", "description"])
def test_a_required_field_cannot_be_cleared(sandbox: Sandbox, name: str) -> None:
    static = sandbox.static_charges.create(**TIPS)
    with pytest.raises(ApiError, match=name):
        static.update(**{name: None})


@pytest.mark.parametrize(
    ("changes", "status"), [({"minAmount": "9000"}, 200), ({"minAmount": "9001"}, 409), ({"maxAmount": "999"}, 400)]
)
def test_a_change_is_checked_together_with_the_unchanged_fields(
    sandbox: Sandbox, changes: dict[str, str], status: int
) -> None:
    static = sandbox.static_charges.create(**TIPS)
    before = static.data
    assert sandbox.http.patch(f"/v0/static-charges/{static.id}", json=changes).status_code == status
    assert static.data == ({**before, **changes} if status == 200 else before)


@pytest.mark.parametrize(
    ("allowed", "answer", "status"), [(1, 409, "active"), (2, 200, "disabled"), (3, 200, "active")]
)
def test_fewer_slots_than_were_used_are_refused(sandbox: Sandbox, allowed: int, answer: int, status: str) -> None:
    static = sandbox.static_charges.create(**TIPS)
    pay(sandbox, static, 2)
    assert sandbox.http.patch(f"/v0/static-charges/{static.id}", json={"allowedSlots": allowed}).status_code == answer
    assert (static.slots, static.status) == (2, status)


@pytest.mark.parametrize(
    ("changes", "places", "detail"),
    [
        ({"minAmount": "9001"}, ["/minAmount", "/maxAmount"], r"minAmount \(9001\) is above maxAmount \(9000\)"),
        ({"allowedSlots": 1}, ["/allowedSlots"], "at least 2, the slots already used"),
    ],
)
def test_a_contradictory_change_names_the_fields_to_correct(
    sandbox: Sandbox, changes: dict[str, Any], places: list[str], detail: str
) -> None:
    static = sandbox.static_charges.create(**TIPS)
    pay(sandbox, static, 2)
    problem = sandbox.http.patch(f"/v0/static-charges/{static.id}", json=changes).json()
    assert re.search(detail, problem["detail"])
    assert problem["errors"] == [{"pointer": place, "detail": problem["detail"]} for place in places]


def test_a_lightning_address_in_use_is_reported_at_its_field(sandbox: Sandbox) -> None:
    sandbox.static_charges.create(**TIPS, identifier="ana@shop.example")
    problem = sandbox.http.post("/v0/static-charges", json={**TIPS, "identifier": "ana@other.example"}).json()
    assert "the user name ana is in use below this URL" in problem["detail"]
    assert problem["errors"] == [{"pointer": "/identifier", "detail": problem["detail"]}]


def test_an_expired_static_charge_cannot_be_changed(sandbox: Sandbox) -> None:
    static = sandbox.static_charges.create(**TIPS, expiresIn=60)
    sandbox.advance("60s")
    assert static.status == "expired"
    with pytest.raises(ApiError, match="409"):
        static.update(description="too late")


def test_a_disabled_static_charge_expires_too(sandbox: Sandbox) -> None:
    static = sandbox.static_charges.create(**TIPS, expiresIn=60, allowedSlots=1)
    pay(sandbox, static)
    assert static.status == "disabled"
    sandbox.run()
    assert static.status == "expired"


def test_an_absent_identifier_is_returned_as_it_was_sent() -> None:
    with Sandbox() as sandbox:
        for given in (None, ""):
            tips = sandbox.static_charges.create(
                minAmount="1000", maxAmount="9000", description="Tips", identifier=given
            )
            assert tips.data["identifier"] == given


def test_charges_whose_invoices_the_last_slot_closed_stay_pending_and_expire(sandbox: Sandbox) -> None:
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips", allowedSlots=1)
    invoices = [sandbox.ask("GET", f"/lnurlp/{tips.id}/invoice?amount=1000")["pr"] for _ in range(3)]
    paid, *closed = [sandbox.ask("POST", "/sandbox/v1/payments", {"request": invoice}) for invoice in invoices]
    assert [paid["status"], *(payment["status"] for payment in closed)] == ["succeeded", "failed", "failed"]
    assert sorted(charge.status for charge in tips.charges) == ["completed", "pending", "pending"]
    sandbox.run()
    assert sorted(charge.status for charge in tips.charges) == ["completed", "expired", "expired"]


def test_the_payer_of_a_closed_invoice_reads_what_closed_it(sandbox: Sandbox) -> None:
    def tips(**fields: Any) -> StaticCharge:
        return sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips", **fields)

    def pay(invoice: str) -> dict[str, Any]:
        return sandbox.ask("POST", "/sandbox/v1/payments", {"request": invoice})

    raced, lowered = tips(allowedSlots=1), tips(allowedSlots=3)
    won, lost, two, too_late = (
        sandbox.ask("GET", f"/lnurlp/{one.id}/invoice?amount=1000")["pr"] for one in (raced, raced, lowered, lowered)
    )
    assert (pay(won)["status"], pay(two)["status"]) == ("succeeded", "succeeded")
    reason = pay(lost)["reason"]
    assert "another payment took the one slot that its Static Charge allowed then" in reason, reason
    mend = ": ask for a new one when its Static Charge is active, which a higher allowedSlots can make it"
    assert reason.endswith(mend), reason
    assert sandbox.ask("GET", f"/lnurlp/{raced.id}/invoice?amount=1000")["status"] == "ERROR"
    raced.update(allowedSlots=2)
    assert pay(sandbox.ask("GET", f"/lnurlp/{raced.id}/invoice?amount=1000")["pr"])["status"] == "succeeded"
    more = sandbox.ask("GET", f"/lnurlp/{lowered.id}/invoice?amount=1000")["pr"]
    assert pay(more)["status"] == "succeeded"
    lowered.update(allowedSlots=2)
    reason = pay(too_late)["reason"]
    assert "allowedSlots of its Static Charge was changed to 2, and 2 were used" in reason, reason


def test_a_reason_says_what_was_so_then_after_the_slots_were_raised(sandbox: Sandbox) -> None:
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips", allowedSlots=2)
    first, second, third = (sandbox.ask("GET", f"/lnurlp/{tips.id}/invoice?amount=1000")["pr"] for _ in range(3))
    for invoice in (first, second):
        sandbox.ask("POST", "/sandbox/v1/payments", {"request": invoice})
    tips.update(allowedSlots=9)
    assert tips.status == "active"
    reason = sandbox.ask("POST", "/sandbox/v1/payments", {"request": third})["reason"]
    assert "another payment took the last of the 2 slots that its Static Charge allowed then" in reason, reason


def test_a_payment_that_comes_too_late_is_told_to_ask_for_a_new_invoice(sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="1000", description="tea", expiresIn=60)
    sandbox.advance("62s")
    order = {"request": charge.request, "late": True}
    reason = sandbox.ask("POST", "/sandbox/v1/payments", order)["reason"]
    assert reason == f"the invoice expired at 2030-01-01T09:01:00.000Z and this came 2 s later: {NEW_INVOICE}"


@pytest.mark.parametrize("late", [True, False])
def test_the_payer_of_an_expired_static_charge_is_not_told_to_ask_it_for_another_invoice(
    sandbox: Sandbox, late: bool
) -> None:
    tips = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips", expiresIn=60)
    invoice, open_end = (sandbox.ask("GET", f"/lnurlp/{tips.id}/invoice?amount={msat}")["pr"] for msat in (1000, 2000))
    sandbox.ask("POST", "/sandbox/v1/payments", {"request": open_end})
    sandbox.advance("60s")
    order = {"request": invoice, "late": late}
    assert "a Static Charge that is active" in sandbox.ask("POST", "/sandbox/v1/payments", order)["reason"]
    assert sandbox.ask("GET", f"/lnurlp/{tips.id}/invoice?amount=1000")["status"] == "ERROR"
    paid_again = sandbox.ask("POST", "/sandbox/v1/payments", {"request": open_end})
    assert "a Static Charge that is active" in paid_again["reason"]


def test_a_payment_after_the_expiry_at_the_last_payable_instant_reads_what_happened() -> None:
    with Sandbox(seed=3, start="2030-01-01T09:00:00Z", overlays=["payable-at-expiry"]) as sandbox:
        in_time, charge = (sandbox.charges.create(amount="1000", description="tea", expiresIn=60) for _ in range(2))
        sandbox.wallet("ana").pay(in_time, delay="60s")
        sandbox.advance("60s")
        assert (in_time.status, charge.status) == ("completed", "expired")
        reason = sandbox.ask("POST", "/sandbox/v1/payments", {"request": charge.request})["reason"]
    assert reason == (
        "the invoice expired at 2030-01-01T09:01:00.000Z, after the payments that had arrived by then, and this came "
        f"after that: {NEW_INVOICE}"
    )


def test_a_held_payment_that_is_cancelled_fails_its_charge(sandbox: Sandbox) -> None:
    url = "http://shop.localhost/paid"
    charge = sandbox.charges.create(amount="1000", description="tea", callbackUrl=url)
    held = sandbox.ask("POST", "/sandbox/v1/payments", {"request": charge.request, "outcome": "hold"})
    assert (held["status"], charge.status) == ("held", "pending")
    sandbox.ask("POST", f"/sandbox/v1/payments/{held['id']}/cancel")
    sandbox.run("1s")
    assert charge.status == "error"
    [event] = [post.headers["leyden-event"] for post in sandbox.receiver("shop").inbox]
    assert event == "charge.error"
