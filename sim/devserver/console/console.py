"""The console: a page on which a developer creates charges, pays them, moves the clock and sees the callbacks.

The page is a client of the public API and of the control plane, with the project's key. It consists of ES modules below
`assets/`, which the browser loads as they are.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path

from starlette.responses import HTMLResponse, Response

CONSOLE_PATH = "/console"
DOCS_SUFFIX, DOCS_MODULE = "/docs", f"{CONSOLE_PATH}/assets/docs/docs.js"  # of documentation pages
DEFAULT_KEY = "leyden"

_ASSETS_PATH = f"{CONSOLE_PATH}/assets/"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {"content-security-policy": _POLICY, "referrer-policy": "no-referrer", "x-content-type-options": "nosniff"}


def is_console_path(path: str) -> bool:
    """Whether the path is one of the console's: the page itself, a view of it, or one of its files."""
    return path == CONSOLE_PATH or path.startswith(f"{CONSOLE_PATH}/")


def console(path: str, key: str, header: str) -> Response | None:
    """The response for a path of the console; None if it has no such file.

    The page opens with this API key; with an empty one it asks for the key. `header` is the one of the key in requests
    to the service. Every path outside of the assets is the
    page: its script shows the view that the path names. The policy allows the page the scripts and styles of its own
    server and requests to it, and forbids frames.
    """
    if not path.startswith(_ASSETS_PATH):
        return HTMLResponse(_page().replace("{header}", escape(header)).replace("{key}", escape(key)), headers=_HEADERS)
    asset = _assets().get(path.removeprefix(_ASSETS_PATH))
    if asset is None:
        return None
    content, media_type, tag = asset
    # The browser asks each time: the files of another version have the same names.
    return Response(content, media_type=media_type, headers={**_HEADERS, "cache-control": "no-cache", "etag": tag})


@cache
def _page() -> str:
    return Path(__file__).with_name("console.html").read_text(encoding="utf-8")


@cache
def _assets() -> dict[str, tuple[bytes, str, str]]:
    """The files by their paths below `assets/`: content, media type and entity tag."""
    folder = Path(__file__).with_name("assets")
    found = {}
    for file in folder.rglob("*"):
        if file.suffix in {".js", ".css", ".txt"}:
            content = file.read_bytes()
            tag = f'"{sha256(content).hexdigest()[:20]}"'
            found[file.relative_to(folder).as_posix()] = (content, _MEDIA_TYPES[file.suffix], tag)
    return found


_MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".txt": "text/plain"}
