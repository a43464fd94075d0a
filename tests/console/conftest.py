"""The console in a browser. A test without a browser is skipped, except in CI."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from leyden import Sandbox
from tests.support import browser
from tests.support.browser import Tab
from tests.support.console_page import ConsolePage


@pytest.fixture(scope="session")
def anywhere() -> Iterator[Tab]:
    """A browser with an empty page, for all tests of a process."""
    if browser.find_browser() is None and not os.environ.get("CI"):
        pytest.skip("no browser here: install chromium")
    with browser.tab("about:blank") as tab:
        yield tab


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(seed=7, start="2030-01-01T09:00:00.000Z") as sandbox:
        sandbox.serve()
        yield sandbox


@pytest.fixture
def console(anywhere: Tab, sandbox: Sandbox) -> Iterator[ConsolePage]:
    """The console of `sandbox`, which shows its charges. At the end: nothing was requested from another host, the page
    never scrolled sideways, and no exception was left."""
    assert sandbox.api_key == "leyden"
    page = ConsolePage(anywhere, sandbox.serve())
    page.load("charges")
    page.until("document.getElementById('now')?.textContent === '2030-01-01 09:00:00'")
    yield page
    page.check()


@pytest.fixture
def phone(console: ConsolePage) -> Iterator[ConsolePage]:
    """The console in a window of 390 by 844 pixels."""
    console.resize(390, 844)
    yield console
    console.resize(1280, 800)
