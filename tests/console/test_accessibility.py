"""axe finds nothing serious on the console and the documentation pages, at three widths, light and dark.

The default run checks some views. In a deep run each view is checked once at each width, and in each of both colour
schemes; in the profile `random`, in each scheme at each width.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from leyden import Sandbox
from tests.support.axe import NoAxe, axe_source, violations
from tests.support.browser import Tab
from tests.support.console_page import WIDTHS, ConsolePage
from tests.support.deep import deep, deep_or
from tests.support.docs_page import SEARCH, TRY, DocsPage

EACH_SCHEME = deep_or(bounded=False, full=False, random=True)
SCHEMES = ("dark", "light")


@pytest.fixture(scope="session")
def axe(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core. Skips where npm is missing or reaches no registry, except in CI."""
    cache = getattr(pytestconfig, "cache", None)  # None with `-p no:cacheprovider`
    try:
        return axe_source(tmp_path_factory.mktemp("axe") if cache is None else cache.mkdir("axe-core"))
    except NoAxe as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


def test_axe_finds_nothing_serious(console: ConsolePage, sandbox: Sandbox, axe: str) -> None:
    paid = sandbox.charges.create(amount="1000", description="<b>Tea</b>", callbackUrl="http://inbox.localhost/paid")
    sandbox.ask("POST", "/sandbox/v1/payments", {"request": paid.request})
    open_one = sandbox.charges.create(amount="250000", description="Coffee")
    sandbox.ask("POST", "/sandbox/v1/payments", {"request": open_one.request, "outcome": "fail"})
    link = sandbox.static_charges.create(minAmount="1000", maxAmount="9000", description="Tips")
    sandbox.ask("POST", "/sandbox/v1/payments", {"request": link.request})
    sandbox.advance("1s")
    sandbox.faults.add("drop", event="charge.expired")
    delivery = sandbox.ask("GET", "/sandbox/v1/deliveries")["data"][0]["id"]
    views = f"""
        charges charges/{paid.id} charges/{open_one.id} charges/new charges/pay
        static-charges static-charges/{link.id} static-charges/new
        callbacks callbacks/{delivery} callbacks/inboxes callbacks/inboxes/inbox callbacks/secrets
        requests requests/1 faults faults/callbacks time network journal journal/1 search?text=tea sandboxes
    """.split()[:: deep_or(bounded=8, full=1)]

    def check(what: str, width: int, schemes: Sequence[str]) -> None:
        for scheme in schemes:
            console.tab.prefer(scheme)
            assert violations(console.tab, axe) == [], (what, width, scheme)

    try:
        for number, view in enumerate(views):
            for turn, width in enumerate(console.open_at_widths(view, number)):
                check(view, width, SCHEMES if EACH_SCHEME else [SCHEMES[(number + turn) % 2]])
        console.open("charges/new")
        console.fill("charge", amount="x")
        console.click("Create")
        console.says("/amount")
        console.click("1 fault")
        console("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        for width in WIDTHS[: deep_or(bounded=1, full=None)]:
            console.resize(width, 900)
            check("everything open", width, SCHEMES)
    finally:
        console.resize(1280, 800)
        console.tab.prefer("light")
    console.open("charges")


@deep("test_axe_finds_nothing_serious")
def test_axe_finds_nothing_serious_on_the_documentation_pages(anywhere: Tab, sandbox: Sandbox, axe: str) -> None:
    docs = DocsPage(anywhere, sandbox.serve())
    try:
        for number, width in enumerate(WIDTHS):
            docs.resize(width, 900)
            docs.open("docs")
            for turn, part in enumerate(("document", SEARCH, TRY)):
                if part == SEARCH:
                    docs.search("charge")
                if part == TRY:
                    docs(f"{SEARCH}.close()")
                    docs.try_it("createCharge")
                    docs.send("200 OK")
                    docs(f"{TRY}.querySelectorAll('details').forEach((one) => {{ one.open = true; }})")
                for scheme in SCHEMES if EACH_SCHEME else [SCHEMES[(number + turn) % 2]]:
                    docs.tab.prefer(scheme)
                    # Nothing outside an open dialog can be reached, and all of it was checked before the first one.
                    assert violations(docs.tab, axe, within=part) == [], (width, part, scheme)
                assert docs("document.documentElement.scrollWidth <= innerWidth"), (width, part)
    finally:
        docs.resize(1280, 800)
        docs.tab.prefer("light")
