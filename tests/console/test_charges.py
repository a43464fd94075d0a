"""The panel Charges: what a user creates, pays and sees."""

from __future__ import annotations

import json
import re
import shlex

import httpx2
import pytest

from leyden import Sandbox
from leyden.lightning.bolt11.codec import decode
from tests.support.console_page import DETAIL, LIST, SAID, TABLE, ConsolePage
from tests.support.deep import deep, deep_except

TIMELINE = f"[...{DETAIL}.querySelectorAll('.timeline li strong')].map((one) => one.textContent).join(' / ')"
PAYMENTS = "[...document.querySelectorAll('#payments .pill')].map((one) => one.textContent).join()"


def test_a_charge_is_created_and_paid_and_its_callback_is_shown(console: ConsolePage, sandbox: Sandbox) -> None:
    console.create_charge(amount="1250000", description="Cake for six", expiresIn="90", internalId="order 17")
    console.statuses("pending")
    console.shows("Cake for six", DETAIL)
    console.click("Pay", "document.getElementById('pay')")
    console.says("Payment succeeded: 1\u202f250\u202f000 msat")
    console.statuses("completed")
    console.shows("attempt 1: 200", DETAIL)
    shown = console("document.body.innerText")
    assert "received 1\u202f250\u202f000 msat" in shown
    assert "1\u202f250 sat" in shown
    assert "order 17" in shown
    assert "http://inbox.localhost/paid" in shown
    (charge,) = sandbox.ask("GET", "/v0/charges")["data"]
    assert (charge["status"], charge["description"]) == ("completed", "Cake for six")
    texts = [event["text"] for event in sandbox.ask("GET", f"/sandbox/v1/charges/{charge['id']}")["timeline"]]
    assert texts[0] == "creates the Charge"
    assert "completed" in texts
    console.until(f"{TIMELINE} === {json.dumps(' / '.join(texts))}")


@deep("test_a_charge_is_created_and_paid_and_its_callback_is_shown")
def test_each_action_is_shown_as_the_command_that_does_it(console: ConsolePage, sandbox: Sandbox) -> None:
    console.create_charge(description="Jo's tea", idempotencyKey="the-key")
    console.says("Charge created.")
    words = shlex.split(console("document.querySelector('.curl').textContent"))
    assert words[:3] == ["curl", "-s", f"{sandbox.serve()}/v0/charges"]
    headers = dict(words[at + 1].split(": ") for at, word in enumerate(words) if word == "-H")
    again = httpx2.post(words[2], headers=headers, content=words[words.index("--data-raw") + 1])
    assert again.json()["data"]["description"] == "Jo's tea"
    assert len(list(sandbox.charges)) == 1  # the header Idempotency-Key is a part of the command


def test_a_charge_is_paid_in_the_list(console: ConsolePage, sandbox: Sandbox) -> None:
    sandbox.charges.create(amount="1000", description="Tea")
    console.refresh()
    console.click("Pay", TABLE)
    console.statuses("completed")
    console.says("Payment succeeded: 1\u202f000 msat")


@deep("test_a_charge_is_paid_in_the_list")
def test_a_held_payment_is_settled_and_another_is_cancelled(console: ConsolePage) -> None:
    console.create_charge()
    console.fill("pay", outcome="hold")
    console.click("Pay", "document.getElementById('pay')")
    console.click("Settle", DETAIL)
    console.statuses("completed")
    console.create_charge()
    console.statuses("pending,completed")
    console.fill("pay", outcome="hold")
    console.click("Pay", "document.getElementById('pay')")
    console.click("Cancel", DETAIL)
    console.until(f"{PAYMENTS} === 'failed'")
    console.statuses("error,completed")


@deep("test_a_charge_is_created_and_paid_and_its_callback_is_shown")
def test_amount_and_delay_of_a_payment_are_chosen(console: ConsolePage, sandbox: Sandbox) -> None:
    console.create_charge(amount="2000")
    console.fill("pay", amount="3000", delay="30")
    console.click("Pay", "document.getElementById('pay')")
    console.says("Payment in flight: 3\u202f000 msat")
    console.click("+1 min")
    console.statuses("completed")
    assert sandbox.ask("GET", "/v0/wallet")["data"]["balance"] == "3000"
    console.shows("received 3\u202f000 msat", LIST)


def test_a_mistake_is_shown_at_its_field_and_changes_nothing(console: ConsolePage, sandbox: Sandbox) -> None:
    console.click("New charge")
    console.fill("charge", amount="12.5")
    console.click("Create")
    console.says("/amount expected whole millisatoshis")
    amount = "document.getElementById('charge').elements.amount"
    assert console(f"{amount}.getAttribute('aria-invalid')") == "true"
    described = console(f"document.getElementById({amount}.getAttribute('aria-describedby').split(' ')[0]).innerText")
    assert described.startswith("expected whole millisatoshis")
    assert list(sandbox.charges) == []


@deep("test_a_charge_is_created_and_paid_and_its_callback_is_shown")
def test_the_node_fails_an_invoice_after_a_confirmation(console: ConsolePage, sandbox: Sandbox) -> None:
    console.create_charge()
    console.click("Fail the charge", DETAIL)
    console.click("Keep", "document.querySelector('dialog[open]')")
    assert [charge.status for charge in sandbox.charges] == ["pending"]
    console.click("Fail the charge", DETAIL)
    console.click("Fail", "document.querySelector('dialog[open]')")
    console.statuses("error")
    console.shows("charge.error", DETAIL)
    assert [charge.status for charge in sandbox.charges] == ["error"]


def test_a_clients_text_is_shown_unchanged(console: ConsolePage, sandbox: Sandbox) -> None:
    text = "<img src=x onerror='document.title=\"taken\"'>"
    sandbox.charges.create(amount="1000", description=text, internalId="<b>")
    console.refresh()
    console.click(text, TABLE)
    console.shows("<b>", DETAIL)
    assert console("document.title") == "Charges · Leyden console"
    assert console("document.querySelectorAll('img, b').length") == 0


@deep("test_a_charge_is_created_and_paid_and_its_callback_is_shown")
def test_the_outcomes_are_those_of_the_control_api(console: ConsolePage, sandbox: Sandbox) -> None:
    console.create_charge()
    document = sandbox.ask("GET", "/sandbox/v1/openapi.json")
    offered = document["components"]["schemas"]["PaymentOrder"]["properties"]["outcome"]["enum"]
    options = "[...document.getElementById('pay').elements.outcome.options].map((one) => one.value).join()"
    console.until(f"{options} === {','.join(offered)!r}")


@deep("test_a_charge_is_created_and_paid_and_its_callback_is_shown")
def test_payments_from_before_a_reload_are_shown(console: ConsolePage, sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="1000", description="Tea")
    sandbox.ask("POST", "/sandbox/v1/payments", {"request": charge.request, "outcome": "fail"})
    sandbox.ask("POST", "/sandbox/v1/payments", {"request": charge.request, "outcome": "hold"})
    other = sandbox.charges.create(amount="1000", description="Cake")
    sandbox.ask("POST", "/sandbox/v1/payments", {"request": other.request})
    console.load(f"charges/{charge.id}")
    console.until(f"{PAYMENTS} === 'failed,held'")
    console.click("Settle", DETAIL)
    console.until(f"{PAYMENTS} === 'failed,succeeded'")


@pytest.mark.parametrize("kind", deep_except(["invoice", "LNURL", "Lightning address"], "LNURL"))
def test_a_payment_request_from_elsewhere_is_paid(console: ConsolePage, sandbox: Sandbox, kind: str) -> None:
    tips = sandbox.static_charges.create(
        minAmount="1000", maxAmount="9000", description="Tips", identifier="band@shop.example"
    )
    invoice = sandbox.charges.create(amount="3000", description="Tea").request
    request = {"invoice": invoice, "LNURL": tips.request, "Lightning address": "band@shop.example"}[kind]
    console.click("Pay a request")
    console.fill("pay-request", request=request, **({} if kind == "invoice" else {"amount": "3000"}))
    console.click("Pay", "document.getElementById('pay-request')")
    console.says("Payment succeeded: 3\u202f000 msat")
    assert sandbox.ask("GET", "/v0/wallet")["data"]["balance"] == "3000"


def test_a_refused_payment_shows_its_reason(console: ConsolePage) -> None:
    console.click("Pay a request")
    console.fill("pay-request", request="bend@shop.example")
    console.click("Pay", "document.getElementById('pay-request')")
    console.says("Payment failed: no static charge of this project has this lightning address")


@deep("test_a_charge_is_created_and_paid_and_its_callback_is_shown")
def test_the_invoice_is_decoded_as_the_sandbox_decodes_it(console: ConsolePage, sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="123456", description="Tee für zwei ☕", expiresIn=77)
    console.open(f"charges/{charge.id}")
    console.until("!!document.getElementById('decoded')")
    rows = "[...document.querySelectorAll('#decoded .facts > div')]"
    shown = dict(console(f"{rows}.map((one) => [...one.children].map((part) => part.textContent))"))
    invoice = decode(charge.request)
    assert shown["amount"] == "123\u202f456 msat"
    assert shown["description"] == "Tee für zwei ☕"
    assert shown["expires"] == "2030-01-01 09:01:17"
    assert shown["payment hash"] == invoice.payment_hash.hex()
    assert shown["created"] == "2030-01-01 09:00:00"


@deep("test_a_charge_is_created_and_paid_and_its_callback_is_shown")
def test_the_qr_code_has_the_invoice(console: ConsolePage, sandbox: Sandbox) -> None:
    segno = pytest.importorskip("segno", reason="segno (leyden[lab]) draws the expected code")
    charge = sandbox.charges.create(amount="1000", description="Tea")
    console.open(f"charges/{charge.id}")
    console.until("!!document.querySelector('svg.qr')")
    size = int(console("document.querySelector('svg.qr').viewBox.baseVal.width")) - 8
    path = console("document.querySelector('svg.qr path').getAttribute('d')")
    dark = {(int(x) - 4, int(y) - 4) for x, y in re.findall(r"M(\d+) (\d+)", path)}
    codes = [
        segno.make_qr(charge.request.upper(), error=level, boost_error=False, mask=mask).matrix
        for level in "LMQH"
        for mask in range(8)
    ]
    modules = [{(x, y) for y, row in enumerate(code) for x, on in enumerate(row) if on} for code in codes]
    assert dark in modules
    assert {len(code) for code in codes} >= {size}


@deep("test_a_charge_is_created_and_paid_and_its_callback_is_shown")
def test_the_countdown_follows_a_running_clock(console: ConsolePage, sandbox: Sandbox) -> None:
    console.create_charge(expiresIn="3600")
    console.shows("expires in 1:00:00", DETAIL)
    console.click("+1 min")
    console.shows("expires in 59:00", DETAIL)


# The list


def test_the_list_is_filtered_by_status_and_text(console: ConsolePage, sandbox: Sandbox) -> None:
    paid = sandbox.charges.create(amount="1000", description="Green tea", internalId="order-1")
    sandbox.ask("POST", "/sandbox/v1/payments", {"request": paid.request})
    sandbox.charges.create(amount="1000", description="Coffee", internalId="order-2")
    sandbox.charges.create(amount="1000", description="Black TEA")
    console.refresh()
    console.statuses("pending,pending,completed")
    console.click("completed 1", LIST)
    console.statuses("completed")
    console.click("all 3", LIST)
    console.choose("document.getElementById('search')", "tea")
    console.statuses("pending,completed")
    console.until("location.search === '?text=tea'")
    console.choose("document.getElementById('search')", "order-2")
    console.statuses("pending")
    console.shows("Coffee", TABLE)
    console.choose("document.getElementById('search')", "nothing like it")
    console.shows("No charge matches the filters.", LIST)


@deep("test_a_charge_is_created_and_paid_and_its_callback_is_shown")
@pytest.mark.parametrize(("view", "shown"), [("charges", TABLE), ("search", "document.body")])
def test_a_search_that_takes_long_rests_between_changes(
    console: ConsolePage, sandbox: Sandbox, view: str, shown: str
) -> None:
    """Changes in the rest are shown by what is no search, and by the search at its end."""
    console(
        "globalThis.searches = 0, globalThis.others = 0, globalThis.plain ??= fetch,"
        "globalThis.fetch = async (url, options) => {"
        "  if (!String(url).includes('text=')) { others += 1; return plain(url, options); }"
        "  searches += 1; await new Promise((done) => setTimeout(done, 400)); return plain(url, options); }"
    )
    try:
        console.open(f"{view}?text=tea")
        console.until("searches === 1")
        for number in range(8):
            sandbox.charges.create(amount="1000", description=f"Tea {number}")
            others = console("others")
            console.refresh()
            console.until(f"others > {others}")
        console.shows("Tea 7", shown)
        assert console("searches") < 4
    finally:
        console("globalThis.fetch = plain")


@deep("test_a_charge_is_created_and_paid_and_its_callback_is_shown")
def test_a_long_list_has_only_the_rows_in_view_and_loads_the_older_ones(console: ConsolePage, sandbox: Sandbox) -> None:
    for number in range(450):
        sandbox.charges.create(amount="1000", description=f"Tea {number}")
    console.refresh()
    console.shows("Tea 449", TABLE)
    rows = f"{TABLE}.querySelectorAll('tbody tr:not(.gap)').length"
    assert console(rows) < 60
    box = "document.querySelector('.table')"
    console.until(f"({box}.scrollTop = {box}.scrollHeight, {TABLE}.innerText.includes('Tea 0\\t'))")
    assert console(rows) < 60
    assert console(f"{TABLE}.getAttribute('aria-rowcount')") == "451"
    sandbox.charges.create(amount="1000", description="The newest")
    console(f"{box}.scrollTop = 0")
    console.refresh()
    console.shows("The newest", TABLE)
    console.until(f"({box}.scrollTop = {box}.scrollHeight, {TABLE}.innerText.includes('Tea 0\\t'))")
    console.until(f"{TABLE}.getAttribute('aria-rowcount') === '452'")


@deep("test_the_list_is_filtered_by_status_and_text")
def test_a_charge_opens_beside_the_list_and_in_its_place_on_a_phone(console: ConsolePage, sandbox: Sandbox) -> None:
    for number in range(20):
        sandbox.charges.create(amount="1000", description=f"Tea {number}")
    console.refresh()
    console.click("Tea 3", TABLE)
    console.shows("Tea 3", DETAIL)
    box = f"{DETAIL}.getBoundingClientRect()"
    visible = f"{box}.top >= 0 && {box}.top < innerHeight && {box}.width > 300"
    assert console(visible)
    assert console(f"{LIST}.getBoundingClientRect().width") > 300
    console.resize(390, 844)
    console.until(f"{LIST}.getBoundingClientRect().width === 0")
    assert console(visible)
    console.resize(1280, 800)


@deep("test_a_charge_is_created_and_paid_and_its_callback_is_shown")
def test_on_a_phone_every_part_of_a_charge_is_inside_the_window(phone: ConsolePage, sandbox: Sandbox) -> None:
    sandbox.charges.create(amount="500000000", description="Flat white and a very long description, table 17")
    phone.refresh()
    phone.statuses("pending")
    edges = phone(f"[...{TABLE}.querySelectorAll('tbody *')].map((one) => one.getBoundingClientRect().right)")
    assert max(edges) <= 390
    phone.click("Flat white and a very long description, table 17", TABLE)
    phone.click("Pay", "document.getElementById('pay')")
    phone.shows("completed", DETAIL)
    edges = phone(f"[...{DETAIL}.querySelectorAll('*')].map((one) => one.getBoundingClientRect().right)")
    assert max(edges) <= 390


def test_an_unknown_charge_is_named(console: ConsolePage) -> None:
    console.open("charges/6daa6bad-65eb-4d29-8fc5-3720a86e3c35")
    console.until(f"!!{DETAIL}.querySelector('[role=alert]')")
    assert console(SAID) == ""
