"""The console: a page on which a person does what a client and its customers do, and sees what comes of it.

It is a client like any other. Everything on it is asked of the service and of the control plane with the project's key,
and each thing done there is shown as the command that does the same.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path

from starlette.responses import HTMLResponse, Response

CONSOLE_PATH = "/console"


def console() -> Response:
    """The page. It may run its own script and ask its own server, and nothing else; nobody may show it in a frame."""
    page, policy = _page()
    return HTMLResponse(page, headers={"content-security-policy": policy, "referrer-policy": "no-referrer"})


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
