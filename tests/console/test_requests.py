"""The panel Requests: what clients sent, and what each of them got."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import httpx2
import pytest

from leyden import Sandbox
from tests.support.console_page import DETAIL, TABLE, ConsolePage
from tests.support.deep import deep

REQUESTS = f"[...{TABLE}.querySelectorAll('td.main')].map((one) => one.textContent)"


@pytest.fixture
def client(sandbox: Sandbox) -> Iterator[httpx2.Client]:
    headers = {"apikey": sandbox.api_key, "user-agent": "shop/1.0"}
    with httpx2.Client(base_url=sandbox.serve(), headers=headers) as client:
        yield client


def rows(console: ConsolePage, *expected: str) -> None:
    """Wait until the list has these requests, from the top."""
    names = json.dumps(json.dumps(expected, separators=(",", ":"), ensure_ascii=False))
    console.until(f"{TABLE} && JSON.stringify({REQUESTS}) === {names}")


def test_requests_of_clients_are_listed_and_those_of_the_page_are_not(
    console: ConsolePage, client: httpx2.Client
) -> None:
    client.post("/v0/charges", json={"amount": "1000", "description": "Tea"})
    client.get("/v0/charges?limit=2")
    console.open("requests")
    rows(console, "GET /v0/charges?limit=2", "POST /v0/charges")


def test_a_request_is_shown_with_both_bodies_and_a_masked_key(console: ConsolePage, client: httpx2.Client) -> None:
    client.post("/v0/charges", json={"amount": "1000", "description": "<b>Tea</b>"})
    console.open("requests")
    console.click("POST /v0/charges")
    console.shows('"description": "<b>Tea</b>"', DETAIL)
    console.shows('"success": true', DETAIL)
    console(f"{DETAIL}.querySelectorAll('details').forEach((one) => {{ one.open = true; }})")
    console.shows("shop/1.0", DETAIL)
    assert console(f"{DETAIL}.querySelectorAll('.headers')[0].innerText.includes('leyden\\n')") is False
    assert console("document.querySelector('.detail b')") is None


@deep("test_a_request_is_shown_with_both_bodies_and_a_masked_key")
def test_filters_are_part_of_the_address(console: ConsolePage, client: httpx2.Client) -> None:
    client.post("/v0/charges", json={"amount": "1000", "description": "Tea"})
    client.get("/v0/charges/unknown")
    console.open("requests")
    console.click("4xx")
    rows(console, "GET /v0/charges/unknown")
    assert console("location.search") == "?status=4xx"
    console.open("requests?method=POST&text=tea")
    rows(console, "POST /v0/charges")
    console.open("requests?operation=getChargeDetails")
    rows(console, "GET /v0/charges/unknown")
    console.click("operation getChargeDetails ×")
    rows(console, "GET /v0/charges/unknown", "POST /v0/charges")


@deep("test_a_request_is_shown_with_both_bodies_and_a_masked_key")
def test_a_request_is_sent_again(console: ConsolePage, sandbox: Sandbox, client: httpx2.Client) -> None:
    client.post("/v0/charges", json={"amount": "1000", "description": "Tea"})
    console.open("requests")
    console.click("POST /v0/charges")
    console.shows("Send again", DETAIL)
    console.click("Send again")
    console.says("Sent again.")
    rows(console, "POST /v0/charges", "POST /v0/charges")
    assert [charge["description"] for charge in sandbox.ask("GET", "/v0/charges")["data"]] == ["Tea", "Tea"]


@deep("test_a_request_is_shown_with_both_bodies_and_a_masked_key")
def test_a_request_with_an_idempotency_key_is_sent_again_with_it(
    console: ConsolePage, sandbox: Sandbox, client: httpx2.Client
) -> None:
    client.post("/v0/charges", json={"amount": "1000", "description": "Tea"}, headers={"idempotency-key": "order-7"})
    console.open("requests")
    console.click("POST /v0/charges")
    console.shows("Send again", DETAIL)
    console.click("Send again")
    console.says("Sent again.")
    assert len(sandbox.charges) == 1


@deep("test_a_request_is_shown_with_both_bodies_and_a_masked_key")
def test_the_command_and_the_test_of_a_request_do_the_same(
    console: ConsolePage, sandbox: Sandbox, client: httpx2.Client
) -> None:
    client.post(
        "/v0/charges",
        content='{"amount": "1000", "description": "O\'Hara\\n\\"tea\\""}',
        headers={"content-type": "application/json"},
    )
    console.open("requests")
    console.click("POST /v0/charges")
    console.shows("Send again", DETAIL)
    console.shows("as pytest", DETAIL)
    commands = f"[...{DETAIL}.querySelectorAll('pre')].filter((one) => /with curl|as a test/.test(one.ariaLabel))"
    command, test = console(f"{commands}.map((one) => one.textContent)")
    words = shlex.split(command)
    assert words[:3] == ["curl", "-s", f"{sandbox.serve()}/v0/charges"]
    assert words[words.index("--data-raw") + 1] == '{"amount": "1000", "description": "O\'Hara\\n\\"tea\\""}'
    assert "apikey: leyden" in words
    names: dict[str, object] = {}
    exec(compile(test, "exported", "exec"), names)
    run = names["test_create_charge"]
    assert callable(run)

    class Server(str):
        api_key = sandbox.api_key

    run(Server(sandbox.serve()))
    assert [charge["description"] for charge in sandbox.ask("GET", "/v0/charges")["data"]] == [
        'O\'Hara\n"tea"',
        'O\'Hara\n"tea"',
    ]


@deep("test_a_request_is_shown_with_both_bodies_and_a_masked_key")
def test_a_lost_answer_is_shown_as_none(console: ConsolePage, sandbox: Sandbox, client: httpx2.Client) -> None:
    sandbox.service_faults.add("connection_reset", after_commit=True)
    with pytest.raises(httpx2.TransportError):
        client.post("/v0/charges", json={"amount": "1000", "description": "Tea"})
    console.open("requests")
    console.click("POST /v0/charges")
    console.shows("Send again", DETAIL)
    console.shows("The client got no response.", DETAIL)
    console.shows("fault connection reset", DETAIL)


@deep("test_a_request_is_shown_with_both_bodies_and_a_masked_key")
def test_looking_leaves_the_journal_as_it_is(console: ConsolePage, sandbox: Sandbox, client: httpx2.Client) -> None:
    client.post("/v0/charges", json={"amount": "1000", "description": "Tea"})
    console.open("requests")
    rows(console, "POST /v0/charges")
    before = sandbox.journal_hash
    for view in (
        "requests",
        "requests/1",
        "callbacks",
        "callbacks/inboxes",
        "callbacks/secrets",
        "faults",
        "time",
        "sandboxes",
    ):
        console.open(view)
        console.until("!!document.querySelector('main h2') && !document.body.innerText.includes('Loading')")
    assert sandbox.journal_hash == before
