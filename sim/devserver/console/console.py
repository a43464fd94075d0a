"""The console: a web page to create charges, pay them, move the clock and see the callbacks.

It uses the public API and the control plane with the project's key, as any client does, and shows each request that it
makes as a curl command.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path

from starlette.responses import HTMLResponse, Response

CONSOLE_PATH = "/console"
DEFAULT_KEY = "leyden"


def console(key: str) -> Response:
    """The page, which opens with this API key; with an empty one it asks for the key.

    Its policy allows its own script and style and requests to its own server, and forbids frames.
    """
    page, policy = _page()
    return HTMLResponse(
        page.replace("{key}", escape(key)),
        headers={"content-security-policy": policy, "referrer-policy": "no-referrer"},
    )


@cache
def _page() -> tuple[str, str]:
    here = Path(__file__)
    page, style, script = (here.with_suffix(suffix).read_text(encoding="utf-8") for suffix in (".html", ".css", ".js"))
    policy = (
        f"default-src 'none'; connect-src 'self'; img-src data:; style-src {_digest(style)}; script-src"
        f" {_digest(script)}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page.replace("{style}", style).replace("{script}", script), policy


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
