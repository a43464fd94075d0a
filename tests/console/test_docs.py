"""The documentation page of a served sandbox: copy buttons, search, "Try it" and "Open in console"."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from leyden import Sandbox
from leyden.server.contract.load import default_spec, load_contract
from tests.support.browser import Tab
from tests.support.console_page import ConsolePage
from tests.support.deep import deep
from tests.support.docs_page import RESULT, SEARCH, TRY, DocsPage
from tests.support.served import served_leyden

VIEWS = Path(__file__).parents[2] / "sim/devserver/console/assets/docs/views.js"
PAGES = {"charges": "docs", "sandbox": "sandbox/v1/docs", "server": "sandbox/v1/server/docs"}
HOSTILE = "<img src=x onerror='window.ran=1'><script>window.ran=1</script>"


@pytest.fixture
def docs(anywhere: Tab, sandbox: Sandbox) -> Iterator[DocsPage]:
    """The documentation page of the charge service. At the end: nothing was requested from another host, the page never
    scrolled sideways, and no exception was left."""
    page = DocsPage(anywhere, sandbox.serve())
    page.open("docs")
    yield page
    page.check()
    page("sessionStorage.clear()")


@deep("test_an_operation_is_tried_with_the_documents_example_and_its_link_is_followed")
def test_every_code_block_has_a_button_that_copies_it(docs: DocsPage, sandbox: Sandbox) -> None:
    blocks = docs("document.querySelectorAll('main pre').length")
    assert blocks == docs("document.querySelectorAll('main .copy button').length") > 40
    beside = "one.parentElement.querySelector(':scope > .copy, :scope > figcaption > .copy')"
    assert docs(f"[...document.querySelectorAll('main pre')].every((one) => {beside} !== null)")
    labels = docs("[...document.querySelectorAll('main .copy button')].map((one) => one.ariaLabel)")
    assert "Copy: Create a Charge, Request A coffee, to be paid within five minutes" in labels
    commands = docs("document.querySelector('#connecting pre').textContent")
    assert f"export BASE_URL={sandbox.serve()}\n" in commands
    assert "export API_KEY=leyden" in commands
    button = "document.querySelector('#operation-createCharge figcaption button')"
    text = docs("document.querySelector('#operation-createCharge pre').textContent")
    docs("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    docs(f"{button}.click()")
    docs.until(f"{button}.textContent === 'Copied'")
    assert docs("window.copied") == text
    # A page over HTTP of another machine has no clipboard: what is selected is copied.
    docs("navigator.clipboard.writeText = () => Promise.reject(new Error('not allowed'))")
    docs("document.addEventListener('copy', () => { window.copied = `selected ${document.activeElement.value}`; })")
    other = "document.querySelector('#connecting figcaption button')"
    docs.tab.press("x")  # browsers copy only after the reader did something
    docs(f"{other}.click()")
    docs.until(f"{other}.textContent === 'Copied'")
    assert docs("window.copied") == f"selected {commands}"
    assert docs(f"document.activeElement === {other}")


@deep("test_an_operation_is_tried_with_the_documents_example_and_its_link_is_followed")
def test_search_finds_operations_objects_and_fields_with_the_keyboard(docs: DocsPage) -> None:
    assert docs.search("expiresat")[0] == "expiresAt,Field"
    docs.search("lnurlp verify")
    docs.shows("/lnurlp/{id}/verify", SEARCH)
    assert docs.search("getchargedetails")[0] == "Get a Charge,Operation"
    assert docs.search("ChargeInvoice")[0] == "ChargeInvoice,Object"
    assert docs.search("idempotency-key")[0].endswith(",Field")
    assert docs.search("nosuchthing") == []
    docs.shows("Nothing has this text.", SEARCH)
    found = docs.search("minAmount")
    assert len(found) > 1
    docs.tab.press("ArrowDown")
    active = "document.activeElement.getAttribute('aria-activedescendant')"
    docs.until(f"{SEARCH}.querySelector('[aria-selected=true]').id === {active}")
    assert docs(f"[...{SEARCH}.querySelectorAll('li')].findIndex((one) => one.ariaSelected === 'true')") == 1
    docs.tab.press("Enter")
    docs.until(f"!{SEARCH}")
    assert docs("document.activeElement.querySelector('th code').textContent") == "minAmount"
    assert docs("location.hash.slice(1)") == docs("document.activeElement.closest('section').id")
    top = docs("document.activeElement.getBoundingClientRect().top")
    assert 0 < top < docs("innerHeight")
    docs.search("")
    docs.tab.press("Escape")
    docs.until(f"!{SEARCH}")
    docs.tab.press("x")
    assert docs(f"!{SEARCH}")


def test_an_operation_is_tried_with_the_documents_example_and_its_link_is_followed(
    docs: DocsPage, sandbox: Sandbox, anywhere: Tab
) -> None:
    docs.try_it("createCharge")
    created = json.loads(docs.send("200 OK"))["data"]
    assert (sandbox.charges[created["id"]].status, created["description"]) == ("pending", "Flat white, table 7")
    docs.click("2 headers", RESULT)
    docs.shows("application/json", RESULT)
    command = docs(f"[...{RESULT}.querySelectorAll('pre')].at(-1).textContent")
    assert command.startswith(f"curl -s '{sandbox.serve()}/v0/charges' \\\n  -H 'apikey: leyden'")
    assert "-H 'content-type: application/json'" in command

    docs.until(f"!!{RESULT}.querySelector('a')")
    logged = docs(f"{RESULT}.querySelector('a').href")
    answer = sandbox.ask("GET", f"/sandbox/v1/requests/{logged.rpartition('/')[2]}")
    assert (answer["method"], answer["path"], answer["status"]) == ("POST", "/v0/charges", 200)
    assert answer["client"].startswith("docs-")

    docs.click("Get a Charge", RESULT)
    docs.until(f"{docs.control('id (required)')}?.value === {json.dumps(created['id'])}")
    assert json.loads(docs.send("200 OK"))["data"]["id"] == created["id"]
    docs.enter("id (required)", "a/b?")
    assert "request_id" in docs.send("404 Not Found")

    docs.click("Close", TRY)
    docs.try_it("createCharge")
    docs.enter("Example", "1")
    docs.until(f"!{docs.control('Body')}.value.includes('callbackUrl')")
    docs.enter("Body", '{"amount": 5')
    docs.shows("This is not JSON", TRY)
    docs.send("400 Bad Request")
    docs.enter("Body", json.dumps({"amount": "1000", "description": HOSTILE}))
    docs.send("200 OK")
    docs.shows(HOSTILE, RESULT)
    docs.enter("API key", "nobody")
    docs.send("401 Unauthorized")
    docs.enter("API key", "leyden")
    sandbox.service_faults.add("connection_reset", operation="createCharge", count=9)  # a browser tries again
    docs.click("Send", TRY)
    docs.shows("The server does not answer", RESULT)

    docs.click("Close", TRY)
    docs.try_it("listCharges")
    docs.enter("status", "pending")
    docs.enter("limit", "1")
    assert len(json.loads(docs.send("200 OK"))["data"]) == 1
    assert docs("window.ran === undefined && !document.querySelector('main img, dialog img')")
    anywhere.open(logged)
    ConsolePage.shows(docs, "POST /v0/charges")


@deep("test_an_operation_is_tried_with_the_documents_example_and_its_link_is_followed")
def test_texts_of_a_document_are_shown_as_text_and_a_stream_can_be_stopped(docs: DocsPage) -> None:
    docs.open("sandbox/v1/docs")
    docs.try_it("getEvents")
    docs.click("Send", TRY)
    docs.shows("event: changed", RESULT)
    docs.click("Stop", TRY)
    docs.shows("stopped", RESULT)
    docs.open("docs")
    docs(f"""(() => {{
        const own = fetch;
        window.fetch = async (...options) => new Response(JSON.stringify(await (await own(...options)).json(),
            (name, value) => (['summary', 'description'].includes(name) ? {json.dumps(HOSTILE)} : value)));
    }})()""")
    docs.try_it("listCharges")
    docs.shows(HOSTILE, TRY)
    assert docs("window.ran === undefined && !document.querySelector('main img, dialog img')")


@deep("test_an_operation_is_tried_with_the_documents_example_and_its_link_is_followed")
def test_each_operation_opens_the_view_of_the_console_that_does_it(docs: DocsPage, sandbox: Sandbox) -> None:
    operations = {name: set(load_contract(default_spec(name)).operations) for name in PAGES}
    named = set(re.findall(r'"([A-Za-z]+)"[,\]]', VIEWS.read_text().split("};")[0]))
    assert named <= operations["charges"] | operations["sandbox"]
    views = set()
    for name in ("charges", "sandbox"):
        docs.open(PAGES[name])
        links = docs(
            "Object.fromEntries([...document.querySelectorAll('.doing')].map((one) =>"
            " [one.closest('section').id.slice('operation-'.length), one.querySelector('a').href]))"
        )
        assert set(links) == operations[name]
        for operation, href in links.items():
            view = href.removeprefix(f"{sandbox.serve()}/console/")
            assert view != href
            assert (view == f"requests?operation={operation}") == (operation not in named)
            views.add(view.partition("operation=")[0])
    assert {"charges/new", "static-charges/new", "charges/pay", "faults/service", "time"} <= views
    for view in sorted(views):
        ConsolePage.open(docs, view)
        docs.until("!!document.querySelector('main h2') && !document.body.innerText.includes('Loading')")
        assert not docs("document.body.innerText.includes('No such page')"), view
        docs.check()


@deep("test_an_operation_is_tried_with_the_documents_example_and_its_link_is_followed")
def test_the_page_of_a_created_sandbox_and_the_servers_page_use_their_own_key(anywhere: Tab) -> None:
    with served_leyden("--rate", "0", "--admin-token", "a-token-of-24-characters") as client:
        server = DocsPage(anywhere, client.url)
        server.open(PAGES["server"])
        assert server(
            "[...document.querySelectorAll('.doing a')].every((one) => one.pathname === '/console/sandboxes')"
        )
        server.try_it("createSandbox")
        server.enter("Admin token", "a-token-of-24-characters")
        server.enter("Body", "{}")
        created = json.loads(server.send("201 Created"))
        server.check()
        for start in (created["url"], f"{created['url']}/"):
            assert httpx2.get(start).headers["location"] in (
                f"{created['url']}/docs",
                f"/sandboxes/{created['id']}/docs",
            )
        page = DocsPage(anywhere, created["url"])
        page.open("docs")
        page.try_it("createCharge")
        page.send("401 Unauthorized")
        page.enter("API key", created["apiKey"])
        charge = json.loads(page.send("200 OK"))["data"]
        page.until(f"!!{RESULT}.querySelector('a')")
        assert page(f"{RESULT}.querySelector('a').href").startswith(f"{created['url']}/console/requests/")
        own = {"apikey": created["apiKey"]}
        assert httpx2.get(f"{created['url']}/v0/charges/{charge['id']}", headers=own).status_code == 200
        assert client("GET", f"/v0/charges/{charge['id']}")[0] == 404
        page.open("sandbox/v1/docs")
        page.try_it("getClock")
        assert "now" in page.send("200 OK")
        page("sessionStorage.clear()")
        assert [url for url in anywhere.requested if not url.startswith((client.url, "data:", "about:"))] == []


def test_a_page_shows_no_configured_key_and_has_no_script_without_a_console() -> None:
    with served_leyden("--api-key", "key_of_the_shop") as client:
        for path in PAGES.values():
            page = httpx2.get(f"{client.url}/{path}").text
            assert '<script type="module" src="/console/assets/docs/docs.js">' in page
            assert "key_of_the_shop" not in page
    with served_leyden("--no-control") as client:
        assert "<script" not in httpx2.get(f"{client.url}/docs").text
