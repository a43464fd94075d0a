"""A response of Schemathesis as the harness's request and response."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from leyden.harness.session.exchanges import Request
from leyden.harness.targets.target import Response


def exchange_of(response: Any) -> tuple[Request, Response]:
    """The request that a response of Schemathesis belongs to, and the response."""
    prepared = response.request
    raw = prepared.body or b""
    sent = raw.encode() if isinstance(raw, str) else bytes(raw)
    url = urlsplit(prepared.url)
    sent_headers = tuple((str(name), str(value)) for name, value in prepared.headers.items())
    request = Request(str(prepared.method), f"{url.path}{'?' * bool(url.query)}{url.query}", sent_headers, sent)
    headers = {name.lower(): values[0] for name, values in response.headers.items()}
    return request, Response(response.status_code, headers, response.content)
