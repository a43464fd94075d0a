"""For tests of the console: the page in a browser, with the words of its parts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.support.browser import Tab

WIDTHS = (390, 768, 1280)  # in pixels
LIST = "document.querySelector('.list')"
TABLE = "document.querySelector('.list table')"
DETAIL = "document.querySelector('.detail')"
STATUSES = f"[...{TABLE}.querySelectorAll('td.status')].map((one) => one.textContent).join()"
SAID = "[...document.querySelectorAll('.outcome > p')].map((one) => one.textContent.trim()).join(' | ')"


class ConsolePage:
    """The console of one server in a tab."""

    def __init__(self, tab: Tab, url: str) -> None:
        self.tab = tab
        self.url = url
        tab.open("about:blank")  # the former page requests nothing more
        tab.forget()

    def __call__(self, expression: str) -> Any:
        """The value of an expression in the page."""
        return self.tab(expression)

    def load(self, path: str) -> None:
        """Load the page at a view, such as `charges/ID`."""
        self.tab.open(f"{self.url}/console/{path}")

    def open(self, path: str) -> None:
        """Show a view: where the console is open already, as one of its links does. A load costs four times as much."""
        view = json.dumps(f"{self.url}/console/{path}")
        if self(f"location.href.startsWith({json.dumps(self.url)} + '/console')"):
            self(f"history.pushState(null, '', {view}); dispatchEvent(new PopStateEvent('popstate'))")
            self._drawn()
        else:
            self.load(path)

    def until(self, expression: str) -> Any:
        """Wait until the expression is true of the page."""
        return self.tab.until(expression)

    def shows(self, text: str, within: str = "document.body") -> None:
        """Wait until a part shows the text."""
        self.until(f"({within})?.innerText.includes({json.dumps(text)})")

    def says(self, text: str) -> None:
        """Wait until the outcome of an action begins with the text."""
        self.until(f"({SAID}).split(' | ').some((one) => one.startsWith({json.dumps(text)}))")

    def statuses(self, expected: str) -> None:
        """Wait until the rows of the list have these states, from the top."""
        self.until(f"{TABLE} && {STATUSES} === {json.dumps(expected)}")

    def click(self, text: str, within: str = "document") -> None:
        """Press the button or follow the link that says `text`, once it is there and can be used."""
        named = f"(one) => one.textContent.trim() === {json.dumps(text)} && !one.disabled"
        pick = f"[...({within})?.querySelectorAll('button, a, summary') ?? []].find({named})"
        self.until(f"!!({pick})")
        self(f"{pick}.click()")

    def fill(self, form: str, **fields: str) -> None:
        """Enter values into the fields of the form with this id, or choose them."""
        self.until(f"!!document.getElementById({form!r})")
        for name, value in fields.items():
            self.choose(f"document.getElementById({form!r}).elements[{name!r}]", value)

    def choose(self, control: str, value: str) -> None:
        """Enter a value into a control as a user does."""
        self.until(f"!!({control})")
        text = json.dumps(value)
        self(
            f"(() => {{ const one = {control}; one.value = {text};"
            " one.dispatchEvent(new Event('input', {bubbles: true}));"
            " one.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    def refresh(self) -> None:
        """Give the page the focus: it loads its data again."""
        self("dispatchEvent(new Event('focus'))")

    def resize(self, width: int, height: int) -> None:
        """From now on show the page in a window of this size, in pixels, and wait until it is drawn so."""
        self.tab.resize(width, height)
        self._drawn()

    def open_at_widths(self, path: str, number: int) -> Iterator[int]:
        """Show a view at each width of `WIDTHS`. `number` chooses the first one."""
        first = number % len(WIDTHS)
        for width in (*WIDTHS[first:], *WIDTHS[:first]):
            self.resize(width, 900)
            if width == WIDTHS[first]:
                self.open(path)
                self.until("!!document.querySelector('main h2') && !document.body.innerText.includes('Loading')")
            yield width

    def create_charge(self, **fields: str) -> None:
        """Create a charge with the form, and wait until the page shows it."""
        self.click("New charge")
        self.fill("charge", **fields)
        self.click("Create")
        self.until("location.pathname.length > 50 && !!document.getElementById('charge-title')")

    def check(self) -> None:
        """Nothing was requested from another host, no script failed, and the page does not scroll sideways."""
        foreign = [url for url in self.tab.requested if not url.startswith((self.url, "data:", "about:"))]
        assert foreign == []
        assert [text for text in self.tab.errors if "Failed to load resource" not in text] == []
        assert self.tab("document.documentElement.scrollWidth <= innerWidth")

    def _drawn(self) -> None:
        """Wait until the page is drawn as it is now."""
        self("new Promise((done) => { requestAnimationFrame(() => { requestAnimationFrame(done); }); })")
