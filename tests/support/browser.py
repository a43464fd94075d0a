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
_KEY_CODES = {"Tab": 9, "Escape": 27}  # keys to which the browser itself reacts, as to close a dialog
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_browser() -> str | None:
    """A browser's program, if this machine has one."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


class Tab:
    """One page. Everything that a test does on it is an expression that the page evaluates."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    @property
    def errors(self) -> list[str]:
        """What the page wrote to its console as errors, and exceptions that it did not catch."""
        self("0")  # all that was reported before is read
        return [text for event in self._connection.events if (text := _error(event)) is not None]

    @property
    def requested(self) -> list[str]:
        """The URLs that the page requested."""
        return [event["params"]["request"]["url"] for event in self.events("Network.requestWillBeSent")]

    def events(self, method: str) -> list[dict[str, Any]]:
        """The events of the protocol with this method since the page was opened or `forget` was called."""
        self("0")
        return [event for event in self._connection.events if event["method"] == method]

    def forget(self) -> None:
        """Begin `errors` and `requested` again."""
        self._connection.events.clear()

    def resize(self, width: int, height: int) -> None:
        """From now on show the page in a window of this size, in pixels."""
        self._say("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme: str) -> None:
        """From now on the reader prefers the colour scheme `light` or `dark`."""
        self._say("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press(self, key: str) -> None:
        """Press and release a key, where the focus is."""
        text = {"text": key} if len(key) == 1 else {}
        code = {"windowsVirtualKeyCode": _KEY_CODES[key]} if key in _KEY_CODES else {}
        self._say("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **code)
        self._say("Input.dispatchKeyEvent", type="keyUp", key=key, **code)

    def open(self, url: str) -> None:
        """Go to a page, and wait until it is there."""
        self._say("Page.navigate", url=url)
        self.until(f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'")

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
        answer = self._connection.exchange(method, parameters)
        assert "error" not in answer, answer
        result = answer["result"]
        assert "exceptionDetails" not in result, result["exceptionDetails"]["exception"].get("description", result)
        return result.get("result", {}).get("value")


class _Connection:
    """A session of the protocol, in an event loop of its own. It keeps the events that come meanwhile."""

    def __init__(self, debugger: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._runner = asyncio.Runner()
        self._number = 0
        self._runner.run(self._connect(debugger))
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.exchange(f"{domain}.enable", {})

    def exchange(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        return self._runner.run(self._exchange(method, parameters))

    def close(self) -> None:
        self._runner.run(self._disconnect())
        self._runner.close()

    async def _connect(self, debugger: str) -> None:
        self._session = aiohttp.ClientSession()
        self._socket = await self._session.ws_connect(debugger, max_msg_size=0)

    async def _disconnect(self) -> None:
        await self._socket.close()
        await self._session.close()

    async def _exchange(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        async with asyncio.timeout(LONGEST_S + 10):
            while True:
                message: dict[str, Any] = await self._socket.receive_json()
                if message.get("id") == self._number:
                    return message
                if message.get("method") in _KEPT:
                    self.events.append(message)


_KEPT = {"Log.entryAdded", "Network.requestWillBeSent", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"}


def _error(event: dict[str, Any]) -> str | None:
    parameters = event["params"]
    match event["method"]:
        case "Log.entryAdded" if parameters["entry"]["level"] == "error":
            return f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}"
        case "Runtime.consoleAPICalled" if parameters["type"] in {"error", "assert"}:
            return str([argument.get("value") for argument in parameters["args"]])
        case "Runtime.exceptionThrown":
            return str(parameters["exceptionDetails"].get("exception", {}).get("description", parameters))
    return None


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
            # A page that is left is not kept, and the next one has its process: a load costs three quarters.
            "--disable-features=BackForwardCache,SpareRendererForSitePerProcess,ProactivelySwapBrowsingInstance",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-extensions",
            "--disable-sync",
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
            connection = _Connection(pages[0]["webSocketDebuggerUrl"])
            try:
                shown = Tab(connection)
                shown.open(url)
                yield shown
            finally:
                connection.close()
        finally:
            process.terminate()
            process.communicate(timeout=LONGEST_S)
