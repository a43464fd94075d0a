"""The panel Time: the clock, snapshots, forks and new runs."""

from __future__ import annotations

from leyden import Sandbox
from tests.support.browser import Tab
from tests.support.console_page import ConsolePage
from tests.support.deep import deep
from tests.support.served import served_leyden

NOW = "document.getElementById('now').textContent"


def test_the_clock_is_advanced(console: ConsolePage, sandbox: Sandbox) -> None:
    sandbox.charges.create(amount="1000", description="Tea", expiresIn=60)
    console.open("time")
    console.fill("advance-by", by="30s")
    console.click("Advance", "document.getElementById('advance-by')")
    console.says("It is 2030-01-01 09:00:30. 0 events were processed.")
    console.click("Through the next instant")
    console.says("It is 2030-01-01 09:01:00. One event was processed.")
    console.fill("advance-to", to="tomorrow")
    console.click("Advance", "document.getElementById('advance-to')")
    console.until("document.querySelector('#advance-to [name=to]').getAttribute('aria-invalid') === 'true'")
    console.fill("rate-of", rate="60")
    console.click("Set", "document.getElementById('rate-of')")
    console.shows(
        "the clock of a sandbox in Python moves only when it is advanced", "document.getElementById('rate-of')"
    )


@deep("test_the_clock_is_advanced")
def test_the_sandbox_returns_to_a_snapshot(console: ConsolePage, sandbox: Sandbox) -> None:
    sandbox.charges.create(amount="1000", description="Tea", expiresIn=60)
    console.open("time")
    console.fill("snapshot", name="before it expires")
    console.click("Keep this state")
    console.shows("before it expires", "document.getElementById('snapshots')")
    console.click("+1 h")
    console.until(f"{NOW} === '2030-01-01 10:00:00'")
    console.click("Return", "document.getElementById('snapshots')")
    console.click("Return", "document.querySelector('dialog[open]')")
    console.says("Back at 2030-01-01 09:00:00.")
    console.until(f"{NOW} === '2030-01-01 09:00:00'")
    assert [charge.status for charge in sandbox.charges] == ["pending"]
    console.click("Forget", "document.getElementById('snapshots')")
    console.shows("None. A snapshot keeps the whole state in memory")


@deep("test_the_clock_is_advanced")
def test_a_fork_opens_in_another_tab_with_its_own_key(anywhere: Tab) -> None:
    with served_leyden("--rate", "0", "--start", "2030-01-01T09:00:00Z") as client:
        client.ok("POST", "/v0/charges", {"amount": "1000", "description": "In both"})
        page = ConsolePage(anywhere, client.url)
        page.open("time")
        page.click("Fork", "document.querySelector('main')")
        link = "document.querySelector('.made a')"
        page.until(f"!!{link}")
        assert page(f"{link}.target + ' ' + {link}.rel") == "_blank opener"
        page.tab.open(page(f"{link}.href"))
        page.shows("In both")
        assert client.ok("GET", "/sandbox/v1")["charges"] == {"pending": 1}
        page.check()


@deep("test_the_clock_is_advanced")
def test_a_new_run_has_other_ids_and_a_repeated_one_the_same(console: ConsolePage, sandbox: Sandbox) -> None:
    sandbox.charges.create(amount="1000", description="Tea")
    console.open("time")
    for button, seed in (("Repeat seed 7", "with seed 7."), ("New run", "with seed ")):
        console.click(button)
        console.click("Start again", "document.querySelector('dialog[open]')")
        console.shows(seed)
        console.says("A new run began")
        assert len(sandbox.charges) == 0
