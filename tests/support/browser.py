"""For tests of pages: a browser without a window, controlled over the Chrome DevTools Protocol."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp

LONGEST_S = 20.0
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_browser() -> str | None:
    """A browser's program, if this machine has one."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


class Tab:
    """One page. Everything that a test does on it is an expression that the page evaluates."""

    def __init__(self, debugger: str) -> None:
        self._debugger = debugger
        self._size: dict[str, Any] | None = None

    def resize(self, width: int, height: int) -> None:
        """From now on show the page in a window of this size, in pixels."""
        self._size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}

    def open(self, url: str) -> None:
        """Go to a page, and wait until it is there."""
        self._say("Page.navigate", url=url)
        self.until(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    def __call__(self, expression: str) -> Any:
        """Its value; a JavaScript `Promise` is awaited. Raises `AssertionError` if the page throws."""
        return self._say("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)

    def until(self, expression: str) -> Any:
        """Wait until the expression is true of the page."""
        watch = f"""new Promise((done, fail) => {{
            const last = Date.now() + {LONGEST_S * 1000};
            const look = () => {{
                const value = {expression};
                if (value) done(value);
                else if (Date.now() > last) fail(new Error("it never came: " + document.body.innerText));
                else setTimeout(look, 20);
            }};
            look();
        }})"""
        return self(watch)

    def click(self, text: str, within: str = "document") -> None:
        """Press the button that says `text`, once it is there."""
        pick = f"[...{within}.querySelectorAll('button')].find((one) => one.textContent === {json.dumps(text)})"
        self.until(f"!!({pick})")
        self(f"{pick}.click()")

    def _say(self, method: str, **parameters: Any) -> Any:
        return asyncio.run(self._exchange(method, parameters))

    async def _exchange(self, method: str, parameters: dict[str, Any]) -> Any:
        async with aiohttp.ClientSession() as session, session.ws_connect(self._debugger, max_msg_size=0) as socket:
            if self._size is not None:  # the size ends with the connection
                await socket.send_json({"id": 0, "method": "Emulation.setDeviceMetricsOverride", "params": self._size})
            await socket.send_json({"id": 1, "method": method, "params": parameters})
            async with asyncio.timeout(LONGEST_S + 10):
                while True:
                    answer = await socket.receive_json()
                    if answer.get("id") == 1:
                        break
        assert "error" not in answer, answer
        result = answer["result"]
        assert "exceptionDetails" not in result, result["exceptionDetails"]["exception"].get("description", result)
        return result.get("result", {}).get("value")


@contextmanager
def tab(url: str, *switches: str) -> Iterator[Tab]:
    """A browser that shows `url`, until the block ends. `switches` are further ones of the command line."""
    program = find_browser()
    assert program is not None, "no browser: install chromium"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        options = [
            "--headless=new",
            "--window-size=1280,900",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--remote-debugging-port=0",
        ]
        process = subprocess.Popen(
            [program, *options, *switches, f"--user-data-dir={name}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            line = next((line for line in process.stderr if "DevTools listening on" in line), "")
            assert line, "the browser did not start"
            address = line.split("//")[1].split("/")[0]
            with urllib.request.urlopen(f"http://{address}/json/list", timeout=LONGEST_S) as listed:
                pages = [page for page in json.load(listed) if page["type"] == "page"]
            shown = Tab(pages[0]["webSocketDebuggerUrl"])
            shown.open(url)
            yield shown
        finally:
            process.terminate()
            process.communicate(timeout=LONGEST_S)
