"""For tests of the documentation page: the page in a browser, with the words of its parts."""

from __future__ import annotations

import json

from tests.support.console_page import ConsolePage

TRY = "document.querySelector('dialog.try[open]')"
RESULT = f"{TRY}?.querySelector('.result')"
SEARCH = "document.querySelector('dialog.searching[open]')"


class DocsPage(ConsolePage):
    """A documentation page of one server in a tab."""

    def open(self, path: str) -> None:
        """Load a page such as `docs`, and wait until it is active."""
        self.tab.open(f"{self.url}/{path}")
        self.until("[...document.styleSheets].some((one) => one.href?.endsWith('/docs/docs.css'))")

    def try_it(self, operation: str) -> None:
        """Open the form for an operation."""
        self.click("Try it", f"document.getElementById('operation-{operation}')")
        self.until(f"!!{TRY}?.querySelector('form')")

    def enter(self, label: str, value: str) -> None:
        """Enter a value into the field of the form with this label, or choose it."""
        self.choose(self.control(label), value)

    def control(self, label: str) -> str:
        """The control with this label."""
        named = f"(one) => one.labels?.[0]?.textContent === {json.dumps(label)}"
        return f"[...({TRY}?.querySelectorAll('input, select, textarea') ?? [])].find({named})"

    def send(self, status: str) -> str:
        """Send the request, and wait for a response with this status, such as `200 OK`; returns its body."""
        self(f"{TRY}.querySelector('.result .pill')?.replaceChildren()")
        self.click("Send", TRY)
        shown = f"{RESULT}?.querySelector('.pill')?.textContent"
        self.until(f"{shown} === {json.dumps(status)} && !{TRY}.querySelector('[aria-disabled]')")
        return str(self(f"{RESULT}.querySelector('.json pre')?.textContent ?? ''"))

    def search(self, text: str) -> list[str]:
        """Search with the key `/`; returns the titles of the results with their kinds."""
        self.tab.press("/")
        self.until(f"!!{SEARCH}")
        self.choose("document.getElementById('search-text')", text)
        parts = "[one.querySelector('b'), one.lastElementChild].map((part) => part.textContent).join()"
        found: list[str] = self.until(f"[...{SEARCH}.querySelectorAll('li')].map((one) => {parts})")
        return found
