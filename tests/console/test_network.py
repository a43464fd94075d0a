"""The panel Network: nodes, their channels, and the ways to change liquidity."""

from __future__ import annotations

from leyden import Sandbox
from tests.support.browser import Tab
from tests.support.console_page import DETAIL, ConsolePage

CHANNELS = "document.getElementById('channels')"


def test_without_a_network_the_panel_says_how_to_get_one(console: ConsolePage) -> None:
    console.open("network")
    console.shows("Payments of this sandbox are direct")


def test_a_node_is_drained_and_a_channel_closed(anywhere: Tab) -> None:
    with Sandbox(seed=7, start="2030-01-01T09:00:00Z", network="star:4") as sandbox:
        page = ConsolePage(anywhere, sandbox.serve())
        page.open("network")
        shop = next(node for node in sandbox.ask("GET", "/sandbox/v1/network/nodes")["data"] if node["shop"])
        page.click(f"{shop['name']} (this service)")
        page.fill("drain", inbound="1")
        page.click("Drain", DETAIL)
        page.says("Drain: done.")
        page.shows("can receive\n0 msat", DETAIL)
        page.fill("rebalance", amount="much")
        page.click("Rebalance", DETAIL)
        page.until("document.querySelector('#rebalance [name=amount]').getAttribute('aria-invalid') === 'true'")
        page.click("Close", CHANNELS)
        page.click("Close", "document.querySelector('dialog[open]')")
        page.shows("closed", CHANNELS)
        page.check()
