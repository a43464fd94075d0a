"""Payment requests: a wallet's reading of BOLT11 and LNURL texts, and its checks of LNURL-pay (LUD-06)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from leyden.errors import PayerError
from leyden.lightning.bolt11.codec import Bolt11, decode
from leyden.server.charges.lnurl import decode_lnurl

Fetch = Callable[[str], Mapping[str, Any]]


def request_kind(text: str) -> str:
    """The kind of a payment request, `bolt11` or `lnurl`; it may have the scheme `lightning:`.

    Raises `PayerError` for anything else.
    """
    bare = strip_scheme(text).lower()
    if bare.startswith("lnurl1"):
        return "lnurl"
    if bare.startswith("ln"):
        return "bolt11"
    raise PayerError(
        f"{text[:40]!r} is neither a BOLT11 invoice nor an LNURL: give one that begins with lnbcrt or lnurl1"
    )


def strip_scheme(text: str) -> str:
    """The payment request without spaces around it and without the `lightning:` scheme."""
    text = text.strip()
    return text[10:] if text[:10].lower() == "lightning:" else text


def fetch_lnurl_invoice(
    lnurl: str, amount_msat: int | None, comment: str, fetch: Fetch, *, default_to_minimum: bool = False
) -> str:
    """Run LNURL-pay (LUD-06) and return the invoice, after the checks that the standard requires of a wallet.

    `amount_msat` may be None if minimum and maximum are equal, or with `default_to_minimum`. `fetch` gets the JSON of a
    URL. Raises `PayerError` with the service's reason, or with the check that failed.
    """
    pay_request = _fetch(fetch, decode_lnurl(strip_scheme(lnurl)))
    if pay_request.get("tag") != "payRequest":
        raise PayerError(f"this LNURL is a {pay_request.get('tag')!r}, not a payRequest: only payRequest is supported")
    least, most = pay_request["minSendable"], pay_request["maxSendable"]
    if amount_msat is None:
        if least != most and not default_to_minimum:
            raise PayerError(f"give an amount from {least} to {most} msat")
        amount_msat = least
    # The wallet does not check the range: the service answers an amount out of range with its reason.
    url = pay_request["callback"]
    url += ("&" if urlsplit(url).query else "?") + f"amount={amount_msat}"
    if comment:
        url += f"&comment={quote(comment, safe='')}"
    response = _fetch(fetch, url)
    invoice = decode(response["pr"])
    _check_invoice(invoice, pay_request, amount_msat)
    return str(response["pr"])


def _fetch(fetch: Fetch, url: str) -> Mapping[str, Any]:
    response = fetch(url)
    # LUD-06: ERROR and a reason. A service that fails may answer a problem document (RFC 9457) instead.
    if response.get("status") not in (None, "OK"):
        raise PayerError(str(response.get("reason") or response.get("detail") or "refused without a reason"))
    return response


def _check_invoice(invoice: Bolt11, pay_request: Mapping[str, Any], amount_msat: int) -> None:
    # LUD-06, wallet's steps 7 and 8: the invoice commits to the metadata shown and has the amount requested.
    metadata = str(pay_request["metadata"])
    kinds = [entry[0] for entry in json.loads(metadata)]
    if kinds.count("text/plain") != 1:
        raise PayerError("the payRequest's metadata must have exactly one text/plain entry")
    if invoice.description_hash != hashlib.sha256(metadata.encode()).digest():
        raise PayerError("the invoice does not commit to the metadata shown: its h field is another hash")
    if invoice.amount_msat != amount_msat:
        raise PayerError(f"the invoice is for {invoice.amount_msat} msat, not the requested {amount_msat}")
