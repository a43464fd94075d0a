"""The panel Faults: what is injected, the forms that add one, and the ways to end one."""

from __future__ import annotations

import httpx2

from leyden import Sandbox
from tests.support.browser import Tab
from tests.support.console_page import ConsolePage
from tests.support.deep import deep

FAULTS = "document.getElementById('faults')"


def create(sandbox: Sandbox) -> int:
    body = {"amount": "1000", "description": "Tea"}
    return httpx2.post(f"{sandbox.serve()}/v0/charges", json=body, headers={"apikey": sandbox.api_key}).status_code


def test_a_service_fault_is_added_applies_once_and_is_removed(console: ConsolePage, sandbox: Sandbox) -> None:
    console.open("faults")
    console.shows("None.")
    console.fill("fault", kind="error", operation="createCharge", status="503")
    console.click("Add", "document.getElementById('fault')")
    console.says("Added: error, 503, createCharge.")
    console.shows("active", FAULTS)
    console.shows("1 fault", "document.querySelector('header')")
    assert [create(sandbox), create(sandbox)] == [503, 200]
    console.refresh()
    console.shows("used up", FAULTS)
    console.shows("1 of 1", FAULTS)
    console.shows("no faults", "document.querySelector('header')")
    console.click("Remove", FAULTS)
    console.shows("None.")


@deep("test_a_service_fault_is_added_applies_once_and_is_removed")
def test_a_wrong_field_is_shown_where_it_is(console: ConsolePage) -> None:
    console.open("faults")
    console.fill("fault", kind="error", count="never")
    console.click("Add", "document.getElementById('fault')")
    console.until("document.querySelector('#fault [name=count]')?.getAttribute('aria-invalid') === 'true'")


def test_a_fault_of_callbacks_applies_until_it_is_ended(console: ConsolePage, sandbox: Sandbox) -> None:
    console.open("faults/callbacks")
    console.fill("fault", kind="drop", event="charge.completed", count="null")
    console.click("Add", "document.getElementById('fault')")
    console.shows("0 of ∞", FAULTS)
    assert [fault["kind"] for fault in sandbox.faults] == ["drop"]
    console.click("End", FAULTS)
    console.says("Ended: drop, charge.completed.")
    assert list(sandbox.faults) == []


@deep("test_a_service_fault_is_added_applies_once_and_is_removed")
def test_all_faults_of_a_kind_end_together(console: ConsolePage, sandbox: Sandbox) -> None:
    sandbox.faults.add("drop")
    sandbox.faults.add("duplicate")
    console.open("faults/callbacks")
    console.click("End all", "document.querySelector('main')")
    console.click("End all", "document.querySelector('dialog[open]')")
    console.shows("None.")
    assert list(sandbox.faults) == []


@deep("test_a_service_fault_is_added_applies_once_and_is_removed")
def test_faults_of_the_network_are_offered_where_there_is_one(console: ConsolePage) -> None:
    console.open("faults")
    console.shows("Faults of the network need a sandbox with a network.")


@deep("test_a_service_fault_is_added_applies_once_and_is_removed")
def test_payments_are_delayed_at_a_hop(anywhere: Tab) -> None:
    with Sandbox(seed=7, start="2030-01-01T09:00:00Z", network="line:3") as sandbox:
        page = ConsolePage(anywhere, sandbox.serve())
        page.open("faults/network")
        page.fill("fault", kind="delay", hop="1", delay="5s", times="2")
        page.click("Add", "document.getElementById('fault')")
        page.shows("0 of 2", FAULTS)
        page.shows("1 fault", "document.querySelector('header')")
        page.check()
