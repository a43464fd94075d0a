"""Checks of the links of Static Charges: an LNURL is the URL of its pay request, whatever its length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.harness.checks.responses import bech32_text
from leyden.harness.control.host import Host, violation


def check_links(host: Host, step: Mapping[str, Any]) -> None:
    """{"do": "control_links", "options": [..., "--public-url", URL]}: create a Static Charge at a server with this
    public URL, and decode its LNURL."""
    url = step["options"][step["options"].index("--public-url") + 1]
    body = {"minAmount": "1000", "maxAmount": "2000", "description": "tips"}
    static = host.accepted("POST", "/v0/static-charges", body)["data"]
    observed, expected = bech32_text(static["invoice"]["request"]), f"{url}/lnurlp/{static['id']}"
    if observed != expected:
        raise violation("the LNURL of a Static Charge", expected, observed)
