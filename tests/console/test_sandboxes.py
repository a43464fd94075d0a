"""The panel Sandboxes: those of a server are created, listed, opened, reset and ended."""

from __future__ import annotations

from tests.support.browser import Tab
from tests.support.console_page import ConsolePage
from tests.support.deep import deep
from tests.support.served import served_leyden

TABLE = "document.getElementById('sandboxes')"


def test_a_sandbox_is_created_opened_reset_and_ended(anywhere: Tab) -> None:
    with served_leyden("--rate", "0") as client:
        page = ConsolePage(anywhere, client.url)
        page.open("sandboxes")
        page.shows("None was created.")
        page.fill("sandbox", name="test_checkout", seed="11", rate="0")
        page.click("Create", "document.getElementById('sandbox')")
        page.shows("test_checkout", TABLE)
        page.shows("API key", "document.querySelector('.made')")
        page.tab.open(page("document.querySelector('.made a').href"))
        page.shows("No charge yet.")
        page("document.querySelector('nav a[href$=sandboxes]').click()")
        page.shows("test_checkout", TABLE)
        page.click("Reset", TABLE)
        page.click("Reset", "document.querySelector('dialog[open]')")
        page.says("test_checkout began a new run.")
        page.open("sandboxes")
        page.click("End", TABLE)
        page.click("End", "document.querySelector('dialog[open]')")
        page.shows("None was created.")
        page.check()


@deep("test_a_sandbox_is_created_opened_reset_and_ended")
def test_a_server_with_an_admin_token_asks_for_it(anywhere: Tab) -> None:
    with served_leyden("--rate", "0", "--admin-token", "a-token-of-24-characters") as client:
        page = ConsolePage(anywhere, client.url)
        page.open("sandboxes")
        page.fill("admin-token", token="wrong")
        page.click("Use", "document.getElementById('admin-token')")
        page.until("!!document.querySelector('#admin-token .hint')")
        page.fill("admin-token", token="a-token-of-24-characters")
        page.click("Use", "document.getElementById('admin-token')")
        page.shows("None was created.")
        page("sessionStorage.clear()")
        page.check()
