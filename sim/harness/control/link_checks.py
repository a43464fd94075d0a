"""Checks of the links of Static Charges: an LNURL is the URL of its pay request, whatever its length, and a wallet pays
it in each of its forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leyden.harness.checks.responses import bech32_text
from leyden.harness.control.host import Host, violation

_ADDRESS = "tips@shop.example"
_LEAST, _MOST = 1_000, 2_000
# The texts that a wallet reads, by what they are made from: the link of a Static Charge with the address above.
LINK_FORMS: Mapping[str, Callable[[str], str]] = {
    "link": str,
    "link in capitals": str.upper,
    "link with a scheme": lambda link: f"lightning:{link}",
    "link with a scheme in capitals": lambda link: f"LIGHTNING:{link.upper()}",
    "address": lambda _: _ADDRESS,
    "address in capitals": lambda _: _ADDRESS.upper(),
    "address with a scheme": lambda _: f"lightning:{_ADDRESS}",
}
# Texts that are no link of this server.
WRONG_LINKS: Mapping[str, Callable[[str], str]] = {
    "link in both cases": lambda link: link[:9].upper() + link[9:],
    "link that is cut": lambda link: link[:-1],
    "link with another character": lambda link: f"{link[:-1]}{'p' if link[-1] == 'q' else 'q'}",
    "link of nothing": lambda _: "lnurl1qqqqqqqq",
    "address of nobody": lambda _: "nobody@shop.example",
    "address of another shop": lambda _: "tips@other.example",
}


def check_links(host: Host, step: Mapping[str, Any]) -> None:
    """{"do": "control_links", "options": [..., "--public-url", URL], "kind"?, "amount"?: msat}: create a Static Charge
    at a server with this public URL, and decode its LNURL. With a `kind` a wallet pays this form of the link, by
    default the least amount."""
    url = step["options"][step["options"].index("--public-url") + 1]
    body = {"minAmount": f"{_LEAST}", "maxAmount": f"{_MOST}", "description": "tips", "identifier": _ADDRESS}
    static = host.accepted("POST", "/v0/static-charges", body)["data"]
    link = static["invoice"]["request"]
    observed, expected = bech32_text(link), f"{url}/lnurlp/{static['id']}"
    if observed != expected:
        raise violation("the LNURL of a Static Charge", expected, observed)
    if "kind" in step:
        _check_payment(host, static["id"], link, step)


def _check_payment(host: Host, static_id: str, link: str, step: Mapping[str, Any]) -> None:
    """The payment succeeds, takes a slot and completes a Charge of its amount; one of a wrong text does neither."""
    kind, amount = step["kind"], step.get("amount")
    text = (LINK_FORMS.get(kind) or WRONG_LINKS[kind])(link)
    is_paid = kind in LINK_FORMS and (amount is None or _LEAST <= int(amount) <= _MOST)
    order = {"request": text, "comment": "thanks"} | ({} if amount is None else {"amount": amount})
    payment = host.accepted("POST", "/sandbox/v1/payments", order)
    charges = host.read(f"/v0/static-charges/{static_id}/charges")["data"]
    observed = {
        "payment": payment["status"],
        "reason": payment["reason"] is not None,
        "slots": host.read(f"/v0/static-charges/{static_id}")["data"]["slots"],
        "charges": [(one["status"], one["amount"]) for one in charges],
    }
    expected = {
        "payment": "succeeded" if is_paid else "failed",
        "reason": not is_paid,
        "slots": int(is_paid),
        "charges": [("completed", amount or f"{_LEAST}")] if is_paid else [],
    }
    if observed != expected:
        raise violation(f"payment of a Static Charge by {text}", expected, observed)
