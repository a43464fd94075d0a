"""The panels Event journal and Search."""

from __future__ import annotations

from leyden import Sandbox
from tests.support.console_page import DETAIL, TABLE, ConsolePage
from tests.support.deep import deep


def test_entries_are_listed_newest_first_searched_and_shown(console: ConsolePage, sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="1000", description="Tea")
    sandbox.ask("POST", "/sandbox/v1/payments", {"request": charge.request, "outcome": "fail"})
    console.open("journal")
    console.until(f"Number({TABLE}?.querySelector('td.number')?.textContent) > 3")
    console.open("journal?text=payment+started")
    console.until(f"{TABLE}?.querySelectorAll('tbody tr:not(.gap)').length === 1")
    console.click("payment started", TABLE)
    console.shows('"amount_msat": 1000', DETAIL)
    console.click(sandbox.journal[sandbox.journal.kind == "payment_started"].subject.iloc[0], DETAIL)
    console.shows("found", "document.querySelector('main')")


@deep("test_entries_are_listed_newest_first_searched_and_shown")
def test_an_entry_appears_while_the_page_is_open(console: ConsolePage, sandbox: Sandbox) -> None:
    console.open("journal")
    console.until("document.querySelector('.dot')?.classList.contains('stream')")
    sandbox.ask("POST", "/v0/charges", {"amount": "1000", "description": "Tea"})
    console.until(f"[...{TABLE}.querySelectorAll('td.main')].some((one) => one.textContent === 'created')")


@deep("test_entries_are_listed_newest_first_searched_and_shown")
def test_a_search_finds_every_kind(console: ConsolePage, sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(
        amount="1000", description="Blue <i>teapot</i>", callbackUrl="http://teapot.localhost/x"
    )
    sandbox.ask("POST", "/sandbox/v1/payments", {"request": charge.request})
    console.open("search?text=TEAPOT")
    console.shows("Blue <i>teapot</i>", "document.querySelector('.results')")
    headings = "[...document.querySelectorAll('main h3')].map((one) => one.textContent).join()"
    console.until(f"{headings}.includes('Charges') && {headings}.includes('Callbacks')")
    console.choose("document.getElementById('search')", "nothing has this")
    console.shows("Nothing has this text.")
    console.open(f"search?text={charge.id}")
    console.click("Blue <i>teapot</i>", "document.querySelector('main')")
    console.until(f"location.pathname.endsWith('/charges/{charge.id}')")
