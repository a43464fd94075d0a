"""The console: in each test a browser presses its buttons and reads what it shows."""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from collections.abc import Iterator

import httpx2
import pytest

from leyden import Sandbox
from tests.support import browser
from tests.support.browser import Tab
from tests.support.served import served_leyden

needs_browser = pytest.mark.skipif(browser.find_browser() is None, reason="no browser here: install chromium")
START = "2030-01-01T09:00:00.000Z"
CHARGES = "document.getElementById('charges')"
DETAIL = "document.getElementById('detail')"
STATUSES = f"[...{CHARGES}.querySelectorAll('.pill')].map((one) => one.textContent).join()"
VERDICT = "document.getElementById('verdict').textContent"


@pytest.fixture(scope="module")
def anywhere() -> Iterator[Tab]:
    with browser.tab("about:blank") as tab:
        yield tab


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(seed=7, start=START) as sandbox:
        sandbox.serve()
        yield sandbox


@pytest.fixture
def console(anywhere: Tab, sandbox: Sandbox) -> Tab:
    assert sandbox.api_key == "leyden"
    anywhere.open(f"{sandbox.serve()}/console")
    anywhere.until("document.getElementById('now').textContent === '2030-01-01 09:00:00'")
    return anywhere


@pytest.fixture
def phone(console: Tab) -> Iterator[Tab]:
    """The console in a window of 390 by 844 pixels."""
    console.resize(390, 844)
    yield console
    console.resize(1280, 757)


def set_key(tab: Tab, key: str) -> None:
    tab(
        f"(() => {{ const key = document.getElementById('key'); key.value = {key!r};"
        " key.dispatchEvent(new Event('change')); })()"
    )


def fill(tab: Tab, **fields: str) -> None:
    for name, value in fields.items():
        tab(f"document.querySelector('#charge [name={name}]').value = {value!r}")


def choose(tab: Tab, place: str, value: str) -> None:
    tab.until(f"!!{place}.querySelector('select')")
    tab(
        f"(() => {{ const one = {place}.querySelector('select');"
        f" one.value = {value!r}; one.dispatchEvent(new Event('change')); }})()"
    )


# The page itself


def test_the_page_needs_no_key_and_may_run_only_its_own_script(sandbox: Sandbox) -> None:
    url = f"{sandbox.serve()}/console"
    answer = httpx2.get(url)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = answer.headers["content-security-policy"]
    for kind in ("style", "script"):
        (written,) = re.findall(rf"<{kind}>(.*?)</{kind}>", answer.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(written.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", answer.text)
    assert httpx2.head(url).status_code == 200
    refused = httpx2.post(url)
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


def test_without_a_control_api_there_is_no_console() -> None:
    with served_leyden("--no-control") as client:
        assert client("GET", "/console")[0] == 404


def test_serve_prints_the_consoles_url() -> None:
    with served_leyden() as client:
        assert httpx2.get(f"{client.url}/console").status_code == 200


# Actions


@needs_browser
def test_a_charge_is_created_and_paid_and_its_callback_is_shown(console: Tab, sandbox: Sandbox) -> None:
    fill(console, amount="1250000", description="Cake for six", expiresIn="90")
    console.click("Create")
    console.until(f"{STATUSES} === 'pending'")
    console.until(f"{DETAIL}.innerText.includes('Cake for six')")
    console.click("Pay", CHARGES)
    console.until(f"{STATUSES} === 'completed'")
    console.until(f"{DETAIL}.innerText.includes('attempt 1: 200')")
    shown = console("document.body.innerText")
    assert "1 250 000 msat" in shown
    assert "charge.completed" in shown
    assert "inbox\n1 received" in shown.replace("\xa0", " ")
    assert [charge.status for charge in sandbox.charges] == ["completed"]
    assert sandbox.ask("GET", "/v0/wallet")["data"]["balance"] == "1250000"


@needs_browser
def test_each_action_is_shown_as_the_command_that_does_it(console: Tab, sandbox: Sandbox) -> None:
    fill(console, description="Jo's tea")
    console.click("Create")
    console.until(f"{STATUSES} === 'pending'")
    words = shlex.split(console("document.getElementById('curl').textContent"))
    assert words[:3] == ["curl", "-s", f"{sandbox.serve()}/v0/charges"]
    headers = dict(words[at + 1].split(": ") for at, word in enumerate(words) if word == "-H")
    again = httpx2.post(words[2], headers=headers, content=words[words.index("-d") + 1])
    assert again.json()["data"]["description"] == "Jo's tea"


@needs_browser
def test_time_advances_by_the_duration_entered(console: Tab) -> None:
    fill(console, expiresIn="5400")
    console.click("Create")
    console.until(f"{CHARGES}.innerText.includes('in 90 min')")
    console.click("+1 h")
    console.until(f"{CHARGES}.innerText.includes('in 30 min')")
    console.click("to the next event")
    console.until(f"{STATUSES} === 'expired'")
    assert console("document.getElementById('now').textContent") == "2030-01-01 10:30:00"


@needs_browser
def test_a_held_payment_is_settled_and_another_is_cancelled(console: Tab, sandbox: Sandbox) -> None:
    console.click("Create")
    console.until(f"{STATUSES} === 'pending'")
    choose(console, DETAIL, "hold")
    console.click("Pay", DETAIL)
    console.click("Settle", DETAIL)
    console.until(f"{STATUSES} === 'completed'")
    console.click("Create")
    console.until(f"{STATUSES} === 'pending,completed'")
    console.until(f"!{DETAIL}.querySelector('.succeeded')")
    choose(console, DETAIL, "hold")
    console.click("Pay", DETAIL)
    console.click("Cancel", DETAIL)
    console.until(f"!!{DETAIL}.querySelector('.failed')")
    console.until(f"{STATUSES} === 'error,completed'")


@needs_browser
def test_a_node_loses_an_invoice(console: Tab, sandbox: Sandbox) -> None:
    console.click("Create")
    console.click("Lose the invoice", DETAIL)
    console.until(f"{STATUSES} === 'error'")
    console.until(f"{DETAIL}.innerText.includes('charge.error')")
    (charge,) = sandbox.charges
    assert charge.status == "error"


@needs_browser
def test_an_inbox_is_scripted_to_fail_and_the_message_is_sent_again(console: Tab, sandbox: Sandbox) -> None:
    sandbox.charges.create(amount="250000", description="Before", callbackUrl="http://inbox.localhost/x", expiresIn=1)
    sandbox.advance("1s")
    console("dispatchEvent(new Event('focus'))")
    inboxes = "document.getElementById('inboxes')"
    console.until(f"{inboxes}.innerText.includes('1 received')")
    choose(console, inboxes, "1")
    console.until(f"{VERDICT} === 'inbox answers 500 from now on.'")
    console.click("Create")
    console.until(f"{STATUSES} === 'pending,expired'")
    console.click("Pay", CHARGES)
    console.until(f"{DETAIL}.innerText.includes('attempt 1: 500')")
    assert "next attempt at 2030-01-01 09:00:0" in console(f"{DETAIL}.innerText")
    choose(console, inboxes, "0")
    console.until(f"{VERDICT} === 'inbox answers 200 from now on.'")
    console.click("to the next event")
    console.until(f"{DETAIL}.innerText.includes('attempt 2: 200')")
    console.click("Send again", DETAIL)
    console.until(f"{DETAIL}.innerText.includes('attempt 3: 200')")


@needs_browser
def test_a_clients_text_is_shown_unchanged(console: Tab, sandbox: Sandbox) -> None:
    sandbox.charges.create(
        amount="1000", description="<img src=x onerror='document.title=\"taken\"'>", internalId="<b>"
    )
    console("dispatchEvent(new Event('focus'))")
    console.until(f"{CHARGES}.innerText.includes('<img src=x')")
    console(f"{CHARGES}.querySelector('button.link').click()")
    console.until(f"{DETAIL}.innerText.includes('<b>')")
    assert console("document.title") == "Leyden console"
    assert console("document.querySelectorAll('img, b').length") == 0


@needs_browser
def test_a_refusal_names_the_error_and_changes_nothing(console: Tab, sandbox: Sandbox) -> None:
    fill(console, amount="12.5")
    console.click("Create")
    console.until(f"{VERDICT}.startsWith('/amount expected whole millisatoshis')")
    assert console("document.getElementById('verdict').className") == "refused"
    assert list(sandbox.charges) == []


@needs_browser
def test_an_unknown_key_is_asked_for_again_and_sees_nothing_of_another_project(console: Tab, sandbox: Sandbox) -> None:
    sandbox.ask("PUT", "/sandbox/v1/inboxes/kiosk/script", {"always": 200})
    sandbox.request("POST", "/v0/charges", {"amount": "1000", "description": "Tea", "memo": "x"})
    console.click("Create")
    console.click("Pay", CHARGES)
    console.until(f"{DETAIL}.innerText.includes('attempt 1: 200')")
    set_key(console, "nobody")
    console.until(f"{VERDICT}.includes('key')")
    shown = console("document.querySelector('main').innerText")
    assert console(f"{DETAIL}.hidden && {CHARGES}.tBodies[0].rows.length === 0")
    assert not [word for word in ("Tea", "completed", "250 000", "memo", "received\n", "kiosk") if word in shown]
    set_key(console, "leyden")
    console.until(f"{STATUSES} === 'completed,pending'")
    console("sessionStorage.clear()")


@needs_browser
def test_with_a_configured_key_the_console_asks_for_it(anywhere: Tab) -> None:
    with served_leyden("--api-key", "key_of_the_shop") as client:
        assert "key_of_the_shop" not in httpx2.get(f"{client.url}/console").text
        anywhere.open(f"{client.url}/console")
        anywhere.until(f"{VERDICT} === 'Enter the API key of your project.'")
        assert anywhere("document.getElementById('key').value") == ""
        set_key(anywhere, "key_of_the_shop")
        anywhere.until("document.getElementById('now').textContent.startsWith('20')")
        assert client.ok("GET", "/v0/charges")["data"] == []
        anywhere("sessionStorage.clear()")


@needs_browser
def test_the_outcomes_are_those_of_the_control_api(console: Tab, sandbox: Sandbox) -> None:
    console.click("Create")
    console.until(f"!!{DETAIL}.querySelector('select')")
    offered = console(f"[...{DETAIL}.querySelector('select').options].map((one) => one.value)")
    document = sandbox.ask("GET", "/sandbox/v1/openapi.json")
    assert offered == document["components"]["schemas"]["PaymentOrder"]["properties"]["outcome"]["enum"]


@needs_browser
def test_a_click_on_a_charge_scrolls_to_its_detail(console: Tab, sandbox: Sandbox) -> None:
    for number in range(20):
        sandbox.charges.create(amount="1000", description=f"Tea {number}")
    console("dispatchEvent(new Event('focus'))")
    console.until(f"{CHARGES}.tBodies[0].rows.length === 20")
    console("scrollTo(0, 0)")
    console.click("Tea 19", CHARGES)
    visible = (
        f"(() => {{ const box = {DETAIL}.getBoundingClientRect(); return box.top >= 0 && box.top < innerHeight; }})()"
    )
    console.until(f"{DETAIL}.innerText.includes('Tea 19') && {visible}")


@needs_browser
def test_on_a_phone_every_part_of_a_charge_is_inside_the_window(phone: Tab, sandbox: Sandbox) -> None:
    sandbox.charges.create(amount="500000000", description="Flat white and a very long description, table 17")
    phone("dispatchEvent(new Event('focus'))")
    phone.until(f"{CHARGES}.tBodies[0].rows.length === 1")
    assert phone("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    edges = phone(f"[...{CHARGES}.querySelectorAll('tbody *')].map((one) => one.getBoundingClientRect().right)")
    assert max(edges) <= 390
    phone.click("Pay", CHARGES)
    phone.until(f"{STATUSES} === 'completed'")


@needs_browser
def test_payments_from_before_a_reload_are_shown(console: Tab, sandbox: Sandbox) -> None:
    charge = sandbox.charges.create(amount="1000", description="Tea")
    sandbox.ask("POST", "/sandbox/v1/payments", {"request": charge.request, "outcome": "fail"})
    sandbox.ask("POST", "/sandbox/v1/payments", {"request": charge.request, "outcome": "hold"})
    other = sandbox.charges.create(amount="1000", description="Cake")
    sandbox.ask("POST", "/sandbox/v1/payments", {"request": other.request})
    console("dispatchEvent(new Event('focus'))")
    console.click("Tea", CHARGES)
    pills = f"[...{DETAIL}.querySelectorAll('.pill')].slice(1).map((one) => one.textContent).join()"
    console.until(f"{pills} === 'failed,held'")
    console.click("Settle", DETAIL)
    console.until(f"{pills} === 'failed,succeeded'")


@needs_browser
@pytest.mark.parametrize("kind", ["invoice", "LNURL", "Lightning address"])
def test_a_payment_request_from_elsewhere_is_paid(console: Tab, sandbox: Sandbox, kind: str) -> None:
    tips = sandbox.static_charges.create(
        minAmount="1000", maxAmount="9000", description="Tips", identifier="band@shop.example"
    )
    invoice = sandbox.charges.create(amount="3000", description="Tea").request
    request = {"invoice": invoice, "LNURL": tips.request, "Lightning address": "band@shop.example"}[kind]
    console(f"document.querySelector('#pay [name=request]').value = {request!r}")
    if kind != "invoice":
        console("document.querySelector('#pay [name=amount]').value = '3000'")
    console.click("Pay", "document.getElementById('pay')")
    console.until(f"{VERDICT} === 'Payment succeeded: 3 000 msat'")
    assert sandbox.ask("GET", "/v0/wallet")["data"]["balance"] == "3000"


@needs_browser
def test_a_refused_payment_shows_its_reason(console: Tab) -> None:
    console("document.querySelector('#pay [name=request]').value = 'bend@shop.example'")
    console.click("Pay", "document.getElementById('pay')")
    console.until(f"{VERDICT}.startsWith('Payment failed: no static charge has this lightning address')")


@needs_browser
def test_ignored_fields_are_listed(console: Tab, sandbox: Sandbox) -> None:
    assert console("document.getElementById('ignored').hidden")
    sandbox.request(
        "POST", "/v0/charges", {"amount": "1000", "description": "Tea", "callback_url": "x", "unit": "sats"}
    )
    console("dispatchEvent(new Event('focus'))")
    ignored = "document.getElementById('ignored')"
    console.until(f'{ignored}.innerText.includes(\'"callback_url" is ignored; did you mean "callbackUrl"?\')')
    assert '"unit" is ignored; it is always "msats"' in console(f"{ignored}.innerText")


@needs_browser
def test_older_charges_are_loaded_in_pages(console: Tab, sandbox: Sandbox) -> None:
    for number in range(27):
        sandbox.charges.create(amount="1000", description=f"Tea {number}")
    console("dispatchEvent(new Event('focus'))")
    console.until(f"{CHARGES}.tBodies[0].rows.length === 25")
    console.click("Older charges")
    console.until(f"{CHARGES}.tBodies[0].rows.length === 27")
    assert console("document.getElementById('more').hidden")


@needs_browser
def test_automatic_refresh_shows_the_changes_of_another_client(console: Tab, sandbox: Sandbox) -> None:
    console("document.getElementById('follow').click()")
    httpx2.post(
        f"{sandbox.serve()}/v0/charges",
        headers={"apikey": sandbox.api_key},
        json={"amount": "1000", "description": "From elsewhere"},
    ).raise_for_status()
    console.until(f"{CHARGES}.innerText.includes('From elsewhere')")


@needs_browser
def test_the_clock_is_made_live_and_a_rate_set_elsewhere_is_shown(anywhere: Tab) -> None:
    clock = "document.querySelector('.clock')"
    with served_leyden("--rate", "0") as client:
        anywhere.open(f"{client.url}/console")
        choose(anywhere, clock, "60")
        anywhere.until(f'{VERDICT} === "The clock\'s rate is set."')
        assert client.ok("GET", "/sandbox/v1/clock")["rate"] == 60
        client.ok("PATCH", "/sandbox/v1/clock", {"rate": 2.5})
        anywhere("dispatchEvent(new Event('focus'))")
        anywhere.until(f"{clock}.querySelector('select').selectedOptions[0].textContent === '2.5 times real time'")


@needs_browser
def test_a_clock_that_cannot_run_is_shown_as_paused(console: Tab) -> None:
    clock = "document.querySelector('.clock')"
    choose(console, clock, "60")
    console.until(f"{VERDICT}.startsWith('/rate the clock of a sandbox in Python moves only when it is advanced')")
    console.until(f"{clock}.querySelector('select').value === '0'")


@needs_browser
def test_a_reset_world_is_shown_again(console: Tab, sandbox: Sandbox) -> None:
    console.click("Create")
    console.until(f"{DETAIL}.innerText.includes('Coffee')")
    sandbox.ask("POST", "/sandbox/v1/reset", {"seed": 8, "start": START})
    console("dispatchEvent(new Event('focus'))")
    console.until(f"{DETAIL}.hidden && {CHARGES}.tBodies[0].rows.length === 0")
