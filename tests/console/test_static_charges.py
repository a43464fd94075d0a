"""The panel Static Charges: links that are created, changed and paid."""

from __future__ import annotations

from leyden import Sandbox
from tests.support.console_page import DETAIL, LIST, SAID, ConsolePage
from tests.support.deep import deep


def test_a_static_charge_is_created_with_all_its_fields(console: ConsolePage, sandbox: Sandbox) -> None:
    console.click("Static Charges", "document.querySelector('nav')")
    console.click("New static charge")
    console.fill(
        "static-charge", minAmount="2000", maxAmount="9000", description="Tips", identifier="band@shop.example",
        allowedSlots="2", expiresIn="3600", internalId="stage", successMessage="Thanks", callbackUrl="http://t.localhost/t",
    )  # fmt: skip
    console.click("Create")
    console.shows("band@shop.example", DETAIL)
    console.says("Static charge created.")
    (link,) = sandbox.ask("GET", "/v0/static-charges")["data"]
    expected = {
        "minAmount": "2000", "maxAmount": "9000", "description": "Tips", "identifier": "band@shop.example",
        "allowedSlots": 2, "expiresAt": "2030-01-01T10:00:00.000Z", "internalId": "stage", "successMessage": "Thanks",
        "callbackUrl": "http://t.localhost/t", "status": "active",
    }  # fmt: skip
    assert {name: link[name] for name in expected} == expected
    assert console("document.querySelector('svg.qr').getAttribute('aria-label')") == "QR code of the LNURL"


def test_its_charges_and_slots_follow_the_payments(console: ConsolePage, sandbox: Sandbox) -> None:
    link = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips", allowedSlots=2)
    console.open(f"static-charges/{link.id}")
    console.shows("0 of 2 slots used", DETAIL)
    console.fill("pay", amount="5000", comment="Encore")
    console.click("Pay", "document.getElementById('pay')")
    console.says("Payment succeeded: 5\u202f000 msat")
    console.shows("1 of 2 slots used", DETAIL)
    console.fill("pay", amount="500")
    console.click("Pay", "document.getElementById('pay')")
    console.until(f"({SAID}).includes('Payment failed')")
    console.fill("pay", amount="1000")
    console.click("Pay", "document.getElementById('pay')")
    console.shows("2 of 2 slots used", DETAIL)
    states = f"[...{DETAIL}.querySelectorAll('.nested td.status')].map((one) => one.textContent).join()"
    console.until(f"{states} === 'completed,completed'")
    console.statuses("disabled")
    console.click("Tips", f"{DETAIL}.querySelector('.nested')")
    console.until("location.pathname.startsWith('/console/charges/')")
    console.click(link.id, DETAIL)
    console.until(f"location.pathname === '/console/static-charges/{link.id}'")


@deep("test_a_static_charge_is_created_with_all_its_fields")
def test_only_the_fields_that_differ_are_changed(console: ConsolePage, sandbox: Sandbox) -> None:
    link = sandbox.static_charges.create(
        minAmount="1000", maxAmount="9000", description="Tips", allowedSlots=2, successMessage="Thanks"
    )
    console.open(f"static-charges/{link.id}")
    console.fill("changes", maxAmount="20000", allowedSlots="", successMessage="")
    console.click("Save", DETAIL)
    console.says("Changed: maxAmount, successMessage, allowedSlots.")
    row = sandbox.ask("GET", f"/v0/static-charges/{link.id}")["data"]
    assert (row["maxAmount"], row["allowedSlots"], row["successMessage"]) == ("20000", None, None)
    assert (row["minAmount"], row["description"]) == ("1000", "Tips")
    console.shows("1\u202f000 – 20\u202f000 msat", DETAIL)
    console.fill("changes", minAmount="90000")
    console.click("Save", DETAIL)
    console.until(f"({SAID}).includes('minAmount')")
    console.until("document.getElementById('changes').elements.minAmount.value === '90000'")


@deep("test_a_static_charge_is_created_with_all_its_fields")
def test_the_list_is_filtered(console: ConsolePage, sandbox: Sandbox) -> None:
    for name in ("Tips", "Stickers"):
        sandbox.static_charges.create(
            minAmount="1000", maxAmount="9000", description=name, identifier=f"{name.lower()}@shop.example"
        )
    sandbox.static_charges.create(minAmount="1000", maxAmount="1000", description="Old", expiresIn=1)
    sandbox.advance("2s")
    console.open("static-charges")
    console.statuses("expired,active,active")
    console.click("expired", LIST)
    console.statuses("expired")
    console.click("all", LIST)
    console.choose("document.getElementById('search')", "stickers@")
    console.statuses("active")
    console.shows("Stickers", LIST)
