"""The page of the console: its files and policy, key, clock, faults, navigation, keyboard and accessibility."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2

from leyden import Sandbox
from tests.support.browser import Tab
from tests.support.console_page import DETAIL, LIST, TABLE, ConsolePage
from tests.support.deep import deep, deep_or
from tests.support.served import served_leyden

ASSETS = Path(__file__).parents[2] / "sim/devserver/console/assets"

# The files


def test_the_page_needs_no_key_and_may_run_only_scripts_of_its_server(sandbox: Sandbox) -> None:
    url = f"{sandbox.serve()}/console"
    answer = httpx2.get(url)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = answer.headers["content-security-policy"]
    for directive in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"):
        assert directive in policy
    assert "unsafe" not in policy
    assert not re.search(r"<style|<script>|\son\w+=|\sstyle=", answer.text)
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", answer.text)
    assert httpx2.head(url).status_code == 200
    refused = httpx2.post(url)
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


def test_every_view_is_the_same_page(sandbox: Sandbox) -> None:
    page = httpx2.get(f"{sandbox.serve()}/console").text
    for path in ("/console/", "/console/charges", "/console/charges/abc?status=pending", "/console/nowhere"):
        assert httpx2.get(sandbox.serve() + path).text == page


def test_every_file_is_served_with_its_type_and_nothing_else_is(sandbox: Sandbox) -> None:
    types = {".js": "text/javascript", ".css": "text/css", ".txt": "text/plain"}
    files = [file for file in ASSETS.rglob("*") if file.suffix in types]
    assert {"app.js", "console.css", "preact.js"} <= {file.name for file in files}
    for file in files:
        answer = httpx2.get(f"{sandbox.serve()}/console/assets/{file.relative_to(ASSETS).as_posix()}")
        assert (answer.status_code, answer.content) == (200, file.read_bytes())
        assert answer.headers["content-type"] == f"{types[file.suffix]}; charset=utf-8"
    for path in ("nothing.js", "..%2fconsole.py", "vendor/README.md", ""):
        assert httpx2.get(f"{sandbox.serve()}/console/assets/{path}").status_code == 404, path


def test_each_library_has_its_licence_beside_it() -> None:
    vendor = ASSETS / "vendor"
    listed = (vendor / "README.md").read_text()
    for file in vendor.glob("*.js"):
        assert f"`{file.name}`" in listed
        assert (vendor / f"{file.stem.partition('-')[0]}.LICENSE.txt").exists()


def test_without_a_control_api_there_is_no_console() -> None:
    with served_leyden("--no-control") as client:
        assert client("GET", "/console")[0] == 404
        assert client("GET", "/console/assets/app.js")[0] == 404


def test_serve_prints_the_consoles_url() -> None:
    with served_leyden() as client:
        assert httpx2.get(f"{client.url}/console").status_code == 200


# The key


def test_an_unknown_key_is_asked_for_again_and_sees_nothing_of_another_project(
    console: ConsolePage, sandbox: Sandbox
) -> None:
    sandbox.request("POST", "/v0/charges", {"amount": "1000", "description": "Tea", "memo": "x"})
    console.create_charge(description="Coffee")
    console.click("Pay", DETAIL)
    console.shows("attempt 1: 200", DETAIL)
    console.choose("document.getElementById('other-key')", "nobody")
    console.click("Use")
    console.shows("the key (6 characters) is unknown")
    shown = console("document.body.innerText")
    assert console(f"!{DETAIL} && !{TABLE}")
    assert not [word for word in ("Tea", "Coffee", "completed", "250 000", "memo", "2030") if word in shown]
    console.choose("document.getElementById('key')", "leyden")
    console.click("Open")
    console.statuses("completed,pending")
    console("sessionStorage.clear()")


def test_with_a_configured_key_the_console_asks_for_it(anywhere: Tab) -> None:
    with served_leyden("--api-key", "key_of_the_shop") as client:
        assert "key_of_the_shop" not in httpx2.get(f"{client.url}/console").text
        page = ConsolePage(anywhere, client.url)
        page.open("charges")
        page.shows("Enter the API key of your project.")
        assert page("document.getElementById('key').value") == ""
        page.choose("document.getElementById('key')", "key_of_the_shop")
        page.click("Open")
        page.until("document.getElementById('now')?.textContent.startsWith('20')")
        page.shows("No charge yet")
        page("sessionStorage.clear()")
        page.check()


@deep("test_time_advances_by_the_duration_chosen")
def test_a_created_sandbox_has_a_console_at_its_own_url(anywhere: Tab) -> None:
    with served_leyden() as client:
        created = client.ok("POST", "/sandbox/v1/sandboxes", {"start": "2031-05-05T00:00:00Z", "rate": 0})
        page = ConsolePage(anywhere, created["url"])
        page.open("charges")
        page.shows("Enter the API key of your project.")
        page.choose("document.getElementById('key')", created["apiKey"])
        page.click("Open")
        page.until("document.getElementById('now')?.textContent === '2031-05-05 00:00:00'")
        page.create_charge(description="Only here")
        page.shows("Only here", DETAIL)
        assert client.ok("GET", "/v0/charges")["data"] == []
        page("sessionStorage.clear()")


# The clock


def test_time_advances_by_the_duration_chosen(console: ConsolePage) -> None:
    console.create_charge(expiresIn="5400")
    console.shows("expires in 1:30:00", DETAIL)
    console.click("+1 h")
    console.shows("expires in 30:00", DETAIL)
    console.says("Time moved: +1 h. It is 2030-01-01 10:00:00.")
    console.click("next instant")
    console.statuses("expired")
    console.until("document.getElementById('now').textContent === '2030-01-01 10:30:00'")


@deep("test_time_advances_by_the_duration_chosen")
def test_the_clock_is_made_live_and_a_rate_set_elsewhere_is_shown(anywhere: Tab) -> None:
    with served_leyden("--rate", "0") as client:
        page = ConsolePage(anywhere, client.url)
        page.open("charges")
        page.until("document.getElementById('rate')?.value === '0'")
        page.choose("document.getElementById('rate')", "60")
        page.says("The clock's rate is set.")
        assert client.ok("GET", "/sandbox/v1/clock")["rate"] == 60
        client.ok("PATCH", "/sandbox/v1/clock", {"rate": 2.5})
        page.refresh()
        page.until("document.getElementById('rate').selectedOptions[0].textContent === '2.5 times real time'")
        before = page("document.getElementById('now').textContent")
        page.until(f"document.getElementById('now').textContent > {before!r}")


@deep("test_time_advances_by_the_duration_chosen")
def test_a_clock_that_cannot_run_is_shown_as_paused(console: ConsolePage) -> None:
    console.choose("document.getElementById('rate')", "60")
    console.says("/rate the clock of a sandbox in Python moves only when it is advanced")
    console.until("document.getElementById('rate').value === '0'")


@deep("test_time_advances_by_the_duration_chosen")
def test_a_reset_sandbox_is_shown_again(console: ConsolePage, sandbox: Sandbox) -> None:
    console.create_charge()
    order = {"seed": 8, "start": "2030-01-01T09:00:00.000Z"}
    reset = httpx2.post(f"{sandbox.serve()}/sandbox/v1/reset", json=order, headers={"apikey": sandbox.api_key})
    assert reset.status_code == 200
    console.shows("No charge yet", LIST)
    console.until(f"!document.getElementById('charge-title') && !!{DETAIL}.querySelector('[role=alert]')")


# Faults and notes


@deep("test_time_advances_by_the_duration_chosen")
def test_active_faults_are_shown_and_ended_at_the_top(console: ConsolePage, sandbox: Sandbox) -> None:
    console.shows("no faults")
    sandbox.faults.add("changed_body", event="charge.completed")
    sandbox.service_faults.add("error", status=503, operation="getWallet", count=2)
    console.refresh()
    console.click("2 faults")
    console.shows("error, 503, getWallet")
    rows = "[...document.querySelectorAll('header li')]"
    console.click("End", f"{rows}.find((one) => one.innerText.includes('changed body'))")
    console.says("Ended: changed body, charge.completed.")
    console.click("1 fault")
    assert sandbox.ask("GET", "/sandbox/v1/faults")["data"] == []
    sandbox.faults.add("drop")
    console.refresh()
    console.click("End all")
    console.shows("no faults")
    assert sandbox.ask("GET", "/sandbox/v1/service-faults")["data"] == []


@deep("test_time_advances_by_the_duration_chosen")
def test_faults_of_the_network_are_shown_where_there_is_one(anywhere: Tab) -> None:
    with served_leyden("--network", "line:3") as client:
        client.ok("POST", "/sandbox/v1/network/interceptors", {"kind": "fail", "code": 4103})
        page = ConsolePage(anywhere, client.url)
        page.open("charges")
        page.click("1 fault")
        page.click("End")
        page.shows("no faults")
        assert client.ok("GET", "/sandbox/v1/network/interceptors")["data"] == []
        page.check()


@deep("test_time_advances_by_the_duration_chosen")
def test_ignored_fields_are_listed(console: ConsolePage, sandbox: Sandbox) -> None:
    assert console("document.getElementById('ignored')") is None
    body = {"amount": "1000", "description": "Tea", "callback_url": "x", "unit": "sats"}
    sandbox.request("POST", "/v0/charges", body)
    console.refresh()
    console.click("2 notes")
    console.shows('"callback_url" is ignored; did you mean "callbackUrl"?', "document.getElementById('ignored')")
    assert '"unit" is ignored; it is always "msats"' in console("document.getElementById('ignored').innerText")


# Following


@deep("test_time_advances_by_the_duration_chosen")
def test_automatic_refresh_shows_the_changes_of_another_client(console: ConsolePage, sandbox: Sandbox) -> None:
    console("document.getElementById('follow')?.click()")
    httpx2.post(
        f"{sandbox.serve()}/v0/charges",
        headers={"apikey": sandbox.api_key},
        json={"amount": "1000", "description": "From elsewhere"},
    ).raise_for_status()
    console.shows("From elsewhere", TABLE)


@deep("test_time_advances_by_the_duration_chosen")
def test_every_request_of_the_page_names_the_console(console: ConsolePage) -> None:
    console.create_charge()
    events = [event["params"]["request"] for event in console.tab.events("Network.requestWillBeSent")]
    asked = [request for request in events if "/v0/" in request["url"] or "/sandbox/v1" in request["url"]]
    assert asked
    assert {request["headers"].get("leyden-client") for request in asked} == {"console"}


@deep("test_time_advances_by_the_duration_chosen")
def test_a_server_that_stopped_is_named(anywhere: Tab) -> None:
    with served_leyden() as client:
        page = ConsolePage(anywhere, client.url)
        page.open("charges")
        page.shows("No charge yet")
    page.refresh()
    page.shows("The server does not answer. Check that it runs.")


# Navigation and keys


@deep("test_time_advances_by_the_duration_chosen")
def test_links_open_the_same_view(console: ConsolePage, sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="1000", description="Tea")
    console.load(f"charges/{charge.id}?status=pending")
    console.shows("Tea", DETAIL)
    assert console("document.querySelector('.choices [aria-pressed=true]').textContent.startsWith('pending')")
    console.click("← Charges")
    console.until("location.pathname === '/console/charges' && location.search === '?status=pending'")
    console("history.back()")
    console.shows("Tea", DETAIL)
    console.load("nowhere")
    console.shows("No such page")
    console.load("")
    console.until("location.pathname === '/console/charges'")


def test_keys_go_through_the_list(console: ConsolePage, sandbox: Sandbox) -> None:
    for number in range(3):
        sandbox.charges.create(amount="1000", description=f"Tea {number}")
    console.refresh()
    console.shows("Tea 2", TABLE)  # with the newest the list is complete
    console.tab.press("j")
    console.shows("Tea 2", DETAIL)
    console.tab.press("j")
    console.shows("Tea 1", DETAIL)
    console.tab.press("k")
    console.shows("Tea 2", DETAIL)
    console.tab.press("Escape")
    console.until(f"!{DETAIL}")
    console.tab.press("/")
    console.until("document.activeElement.id === 'search'")
    console.tab.press("j")
    assert console("document.activeElement.value") == "j"
    console.tab.press("Escape")
    console.tab.press("g")
    console.tab.press("s")
    console.until("location.pathname === '/console/static-charges'")
    console.tab.press("?")
    console.until("document.querySelector('dialog[open] h2').textContent === 'Keys'")


@deep("test_time_advances_by_the_duration_chosen")
def test_the_theme_follows_the_system_or_the_switch(console: ConsolePage) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    switch = "document.querySelector('.theme select')"
    try:
        console.tab.prefer("light")
        light = console(background)
        console.tab.prefer("dark")
        dark = console(background)
        assert light != dark
        console.choose(switch, "light")
        console.until(f"{background} === {light!r}")
        console.load("charges")
        console.until(f"{switch}?.value === 'light' && {background} === {light!r}")
    finally:
        console("localStorage.clear()")
        console.tab.prefer("light")


def test_no_view_scrolls_sideways_with_hostile_texts(console: ConsolePage, sandbox: Sandbox) -> None:
    text = "<img src=x onerror='document.title=\"taken\"'>" + "W" * 400 + "\u202egnp.exe"
    charge = sandbox.charges.create(
        amount="500000000", description=text, internalId="x" * 255, callbackUrl="http://inbox.localhost/" + "y" * 300
    )
    sandbox.ask("POST", "/sandbox/v1/payments", {"request": charge.request})
    link = sandbox.static_charges.create(
        minAmount="1000", maxAmount="500000000", description=text, successMessage="M" * 144, internalId="<b>" * 40
    )
    sandbox.advance("1s")
    delivery = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"][0]["id"]
    views = ("charges", f"charges/{charge.id}", "charges/new", "charges/pay", "static-charges",
             f"static-charges/{link.id}", "static-charges/new", "callbacks", "callbacks/inboxes",
             "callbacks/inboxes/inbox", f"callbacks/{delivery}", "requests", "requests/1", "journal",
             "journal/1", "search?text=onerror", "faults", "time", "sandboxes")  # fmt: skip
    views = views[:: deep_or(bounded=4, full=1)]
    parts = "[...document.querySelectorAll('main, .list, .detail, .padded')]"
    wide = f"{parts}.filter((one) => one.scrollWidth > one.clientWidth)"
    try:
        for number, view in enumerate(views):
            for width in console.open_at_widths(view, number):
                assert console("document.documentElement.scrollWidth <= innerWidth"), (view, width)
                assert console(f"{wide}.map((one) => one.className)") == [], (view, width)
            assert console("document.title").endswith("Leyden console"), view
            assert console("document.querySelectorAll('img, b').length") == 0, view
    finally:
        console.resize(1280, 800)


@deep("test_time_advances_by_the_duration_chosen")
def test_many_tabs_of_one_server_load(anywhere: Tab, sandbox: Sandbox) -> None:
    """A browser opens six connections to a server: a page that is left must give back that of its event stream."""
    page = ConsolePage(anywhere, sandbox.serve())
    for _ in range(9):
        page.load("charges")
        page.until("document.querySelector('.dot')?.classList.contains('stream')")
    page.check()
