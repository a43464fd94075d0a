"""The panel Callbacks: deliveries, inboxes and secrets."""

from __future__ import annotations

from leyden import Sandbox
from leyden.callbacks.replies import Reply
from tests.support.console_page import DETAIL, TABLE, ConsolePage
from tests.support.deep import deep

INBOXES = "document.getElementById('inboxes')"


def test_an_inbox_is_scripted_to_fail_and_the_message_is_sent_again(console: ConsolePage, sandbox: Sandbox) -> None:
    sandbox.charges.create(amount="250000", description="Before", callbackUrl="http://inbox.localhost/x", expiresIn=1)
    sandbox.advance("1s")
    console.open("callbacks/inboxes")
    console.until(f"{INBOXES}?.querySelector('td.number').textContent === '1'")
    console.choose(f"{INBOXES}.querySelector('select')", "1")
    console.says("inbox answers 500 from now on.")
    console.open("charges")
    console.create_charge()
    charge = console("location.pathname.split('/').at(-1)")
    console.click("Pay", "document.getElementById('pay')")
    console.shows("attempt 1: 500", DETAIL)
    console.shows("next attempt at 2030-01-01 09:00:0", DETAIL)
    console.click("Callbacks", "document.querySelector('nav')")
    console.click("Inboxes")
    console.choose(f"{INBOXES}?.querySelector('select')", "0")
    console.says("inbox answers 200 from now on.")
    console.open(f"charges/{charge}")
    console.shows("attempt 1: 500", DETAIL)
    console.click("next instant")
    console.shows("attempt 2: 200", DETAIL)
    console.click("Send again", DETAIL)
    console.shows("attempt 3: 200", DETAIL)


def test_without_inboxes_the_panel_says_so(console: ConsolePage) -> None:
    console.open("callbacks/inboxes")
    console.shows("No inbox has received anything yet.")


def pay(sandbox: Sandbox, description: str = "Tea") -> str:
    charge = sandbox.charges.create(amount="1000", description=description, callbackUrl="http://shop.localhost/paid")
    sandbox.ask("POST", "/sandbox/v1/payments", {"request": charge.request})
    return charge.id


@deep("test_an_inbox_is_scripted_to_fail_and_the_message_is_sent_again")
def test_deliveries_of_all_charges_are_listed_and_filtered(console: ConsolePage, sandbox: Sandbox) -> None:
    sandbox.faults.add("drop")
    pay(sandbox)
    pay(sandbox)
    console.open("callbacks")
    console.statuses("delivered,pending")
    console.click("pending", "document.querySelector('.tools')")
    console.statuses("pending")
    console.until("location.search === '?status=pending'")


@deep("test_an_inbox_is_scripted_to_fail_and_the_message_is_sent_again")
def test_a_delivery_that_an_earlier_410_stopped_says_so(console: ConsolePage, sandbox: Sandbox) -> None:
    sandbox.receiver("shop").answers([410])
    static = sandbox.static_charges.create(
        minAmount="1000", maxAmount="9000", description="Tips", callbackUrl="http://shop.localhost/paid"
    )
    for _ in range(2):
        sandbox.wallet("ana").pay(static, amount="5000")
        sandbox.run()
    console.open("callbacks")
    console.statuses("stopped,stopped")
    console.click("charge.completed", TABLE)  # the newest is the first row
    console.shows("another callback to this URL was answered 410", DETAIL)


def test_a_delivery_shows_what_was_sent_and_verifies_its_signature(console: ConsolePage, sandbox: Sandbox) -> None:
    pay(sandbox)
    console.open("callbacks")
    console.click("charge.completed", TABLE)
    console.click("headers and answer", DETAIL)
    console.shows("webhook-signature", DETAIL)
    console.shows("the signature is that of the current secret", DETAIL)
    sandbox.ask("POST", "/sandbox/v1/webhook-secret/rotate")
    console.refresh()
    console.shows("the signature is that of a former secret, which signs too", DETAIL)
    sandbox.advance("25h")
    console.refresh()
    console.shows("the signature is that of a former secret, which signed at that time", DETAIL)


def test_a_forged_signature_is_told(console: ConsolePage, sandbox: Sandbox) -> None:
    sandbox.faults.add("bad_signature")
    pay(sandbox)
    console.open("callbacks")
    console.click("charge.completed", TABLE)
    console.click("headers and answer", DETAIL)
    console.shows("the signature is of no secret that signed at that time", DETAIL)
    console.shows("fault bad signature", DETAIL)


@deep("test_an_inbox_is_scripted_to_fail_and_the_message_is_sent_again")
def test_an_answer_is_shown_with_its_headers(console: ConsolePage, sandbox: Sandbox) -> None:
    headers = {f"x-{number}": "<b>1</b>" for number in range(53)}
    sandbox.receiver("shop").answers([Reply(500, body="down", headers=headers)])
    pay(sandbox)
    console.open("callbacks")
    console.click("charge.completed", TABLE)
    console.click("headers and answer", DETAIL)
    console.shows("x-49", DETAIL)
    console.shows("<b>1</b>", DETAIL)
    console.shows("3 more headers were not kept.", DETAIL)
    console.shows("down", DETAIL)


@deep("test_an_inbox_is_scripted_to_fail_and_the_message_is_sent_again")
def test_many_are_sent_again_at_once(console: ConsolePage, sandbox: Sandbox) -> None:
    pay(sandbox)
    pay(sandbox)
    console.open("callbacks?status=delivered")
    console.click("Send all again")
    console.click("Send", "document.querySelector('dialog[open]')")
    console.says("2 callbacks are sent again.")
    console.until(f"[...{TABLE}.querySelectorAll('td.few')].map((one) => one.textContent).join() === '2,2'")


@deep("test_an_inbox_is_scripted_to_fail_and_the_message_is_sent_again")
def test_chosen_ones_are_sent_again(console: ConsolePage, sandbox: Sandbox) -> None:
    for _ in range(3):
        pay(sandbox)
    console.open("callbacks")
    console.statuses("delivered,delivered,delivered")
    for row in (0, 2):
        console(f"{TABLE}.querySelectorAll('td.box input')[{row}].click()")
    console.shows("2 chosen")
    console.click("Send these again")
    console.says("2 callbacks are sent again.")
    console.until(f"[...{TABLE}.querySelectorAll('td.few')].map((one) => one.textContent).join() === '2,1,2'")
    console.until("!document.getElementById('chosen')")


@deep("test_an_inbox_is_scripted_to_fail_and_the_message_is_sent_again")
def test_a_callback_is_scheduled_ahead(console: ConsolePage, sandbox: Sandbox) -> None:
    pay(sandbox)
    console.open("callbacks")
    console.click("charge.completed", TABLE)
    console.until(f"!!{DETAIL}?.querySelector('form.again')")
    console(f"{DETAIL}.querySelector('form.again input').value = '2031-02-03 04:05'")
    console.click("Send again", DETAIL)
    console.says("The callback is sent again at 2031-02-03 04:05:00.")
    console.shows("next attempt at 2031-02-03 04:05:00", DETAIL)
    console(f"{DETAIL}.querySelector('form.again input').value = 'soon'")
    console.click("Send again", DETAIL)
    console.shows("/delay", DETAIL)
    console.open("time")
    console.shows("2031-02-03 04:05:00", "document.getElementById('due')")


@deep("test_an_inbox_is_scripted_to_fail_and_the_message_is_sent_again")
def test_an_inbox_shows_its_posts_with_the_objections(console: ConsolePage, sandbox: Sandbox) -> None:
    sandbox.faults.add("bad_signature")
    pay(sandbox)
    pay(sandbox, "Cake")
    console.open("callbacks/inboxes")
    console.click("shop")
    console.until("document.querySelectorAll('#posts > li').length === 2")
    assert console("document.querySelectorAll('#posts > li')[0].querySelectorAll('.refused').length") == 0
    assert console("document.querySelectorAll('#posts > li')[1].querySelectorAll('.refused').length") == 1


def test_the_secret_is_rotated(console: ConsolePage, sandbox: Sandbox) -> None:
    former = sandbox.ask("GET", "/sandbox/v1/webhook-secret")["current"]
    console.open("callbacks/secrets")
    console.shows(former)
    console.click("Rotate", "document.querySelector('main')")
    console.click("Rotate", "document.querySelector('dialog[open]')")
    console.until("document.querySelectorAll('#secrets tbody tr').length === 2")
    assert sandbox.ask("GET", "/sandbox/v1/webhook-secret")["current"] != former
