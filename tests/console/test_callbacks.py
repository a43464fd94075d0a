"""The panel Callbacks: the inboxes, and the callbacks of a charge."""

from __future__ import annotations

from leyden import Sandbox
from tests.support.console_page import DETAIL, ConsolePage

INBOXES = "document.getElementById('inboxes')"


def test_an_inbox_is_scripted_to_fail_and_the_message_is_sent_again(console: ConsolePage, sandbox: Sandbox) -> None:
    sandbox.charges.create(amount="250000", description="Before", callbackUrl="http://inbox.localhost/x", expiresIn=1)
    sandbox.advance("1s")
    console.open("callbacks")
    console.until(f"{INBOXES}?.querySelector('td.number').textContent === '1'")
    console.choose(f"{INBOXES}.querySelector('select')", "1")
    console.says("inbox answers 500 from now on.")
    console.open("charges")
    console.create_charge()
    console.click("Pay", "document.getElementById('pay')")
    console.shows("attempt 1: 500", DETAIL)
    console.shows("next attempt at 2030-01-01 09:00:0", DETAIL)
    console.click("Callbacks", "document.querySelector('nav')")
    console.choose(f"{INBOXES}?.querySelector('select')", "0")
    console.says("inbox answers 200 from now on.")
    console("history.back()")
    console.shows("attempt 1: 500", DETAIL)
    console.click("next event")
    console.shows("attempt 2: 200", DETAIL)
    console.click("Send again", DETAIL)
    console.shows("attempt 3: 200", DETAIL)


def test_without_inboxes_the_panel_says_so(console: ConsolePage) -> None:
    console.open("callbacks")
    console.shows("No inbox has received anything yet.")
