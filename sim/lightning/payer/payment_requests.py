"""Payers: wallets that read what a shop shows them, BOLT11 or LNURL, and pay it as a careful wallet would."""

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
    """Tell `bolt11` from `lnurl` by the text a code holds, with or without `lightning:`.

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
    """Walk LNURL-pay (LUD-06) and return the invoice, after every check that the standard asks of a wallet.

    `amount_msat` may be left out when minimum and maximum are the same, or when the least will do. `fetch` answers GET
    on a URL with JSON.
    Raises `PayerError` with the service's reason, or with the promise that the service did not keep.
    """
    offer = _fetch(fetch, decode_lnurl(strip_scheme(lnurl)))
    if offer.get("tag") != "payRequest":
        raise PayerError(f"this LNURL is a {offer.get('tag')!r}, not a payRequest: only payments are known here")
    least, most = offer["minSendable"], offer["maxSendable"]
    if amount_msat is None:
        if least != most and not default_to_minimum:
            raise PayerError(f"say how much to pay: amount from {least} to {most} msat")
        amount_msat = least
    # LUD-06: the range is not the wallet's to enforce on the service's behalf; out of range the service answers.
    url = offer["callback"]
    url += ("&" if urlsplit(url).query else "?") + f"amount={amount_msat}"
    if comment:
        url += f"&comment={quote(comment, safe='')}"
    answer = _fetch(fetch, url)
    invoice = decode(answer["pr"])
    _check_invoice(invoice, offer, amount_msat)
    return str(answer["pr"])


def _fetch(fetch: Fetch, url: str) -> Mapping[str, Any]:
    answer = fetch(url)
    # LUD-06 says ERROR and a reason; a service in trouble may answer a problem document (RFC 9457) instead.
    if answer.get("status") not in (None, "OK"):
        raise PayerError(str(answer.get("reason") or answer.get("detail") or "refused without a reason"))
    return answer


def _check_invoice(invoice: Bolt11, offer: Mapping[str, Any], amount_msat: int) -> None:
    # LUD-06, wallet's steps 7 and 8: the invoice commits to the metadata shown and asks for the amount agreed.
    metadata = str(offer["metadata"])
    kinds = [entry[0] for entry in json.loads(metadata)]
    if kinds.count("text/plain") != 1:
        raise PayerError("the offer's metadata must have exactly one text/plain entry")
    if invoice.description_hash != hashlib.sha256(metadata.encode()).digest():
        raise PayerError("the invoice does not commit to the metadata that was shown: its h field is another hash")
    if invoice.amount_msat != amount_msat:
        raise PayerError(f"the invoice asks for {invoice.amount_msat} msat, agreed were {amount_msat}")
