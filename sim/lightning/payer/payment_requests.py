"""Payment requests: a wallet's reading of BOLT11 invoices, LNURLs and Lightning addresses (LUD-16), and its checks of
LNURL-pay (LUD-06)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from leyden.errors import PayerError
from leyden.lightning.bolt11.codec import CURRENCIES, Bolt11, decode
from leyden.server.charges.lnurl import Bech32Error, LnurlError, bech32_decode, decode_lnurl
from leyden.server.printable import cut, quoted

Fetch = Callable[[str], Mapping[str, Any]]
IdentifierOf = Callable[[str], str | None]

_LOOPBACK = ("localhost", "127.0.0.1")
_ADDRESS = re.compile(r"([a-z0-9._+-]+)@([a-z0-9.-]+(?::[0-9]+)?)", re.IGNORECASE)
# An amount, or the separator of bech32, follows the currency of an invoice; it may be cut before.
_INVOICE = re.compile(f"ln(?:{'|'.join(CURRENCIES)})(?:[0-9]|$)")


def request_kind(text: str) -> str:
    """The kind of a payment request, `bolt11`, `lnurl` or `address`; it may have the scheme `lightning:`.

    Raises `PayerError` for anything else.
    """
    bare = strip_scheme(text).lower()
    if _ADDRESS.fullmatch(bare):
        return "address"
    if bare.startswith("lnurl1"):
        return "lnurl"
    if _INVOICE.match(bare) or _is_foreign_invoice(bare):
        return "bolt11"
    raise PayerError(
        f"{quoted(cut(text, 60))} is neither a BOLT11 invoice nor an LNURL nor a Lightning address: give a text that "
        "begins with lnbcrt or lnurl1, or name@host"
    )


def _is_foreign_invoice(text: str) -> bool:
    """Whether an undamaged text of bech32 may be an invoice of a currency that is not known here."""
    try:
        return text.startswith("ln") and bech32_decode(text).hrp != "lnurl"
    except Bech32Error:
        return False


def strip_scheme(text: str) -> str:
    """The payment request without spaces around it and without the `lightning:` scheme."""
    text = text.strip()
    return text[10:] if text[:10].lower() == "lightning:" else text


def fetch_lnurl_invoice(
    text: str,
    amount_msat: int | None,
    comment: str,
    fetch: Fetch,
    *,
    base_url: str,
    identifier_of: IdentifierOf | None = None,
    default_to_minimum: bool = False,
) -> str:
    """Run LNURL-pay (LUD-06) for an LNURL or a Lightning address and return the invoice, after the checks that the
    standard requires of a wallet.

    `amount_msat` may be None if minimum and maximum are equal, or with `default_to_minimum`. `fetch` gets the JSON of a
    URL. `base_url` is the URL of the sandbox, where every Lightning address is looked up, because no other host can be
    reached; `identifier_of` gives the identifier of the Static Charge with a user part. Raises `PayerError` with the
    service's reason, or with the check that failed.
    """
    pay_request = fetch_pay_request(text, fetch, base_url=base_url, identifier_of=identifier_of)
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


def fetch_pay_request(
    text: str, fetch: Fetch, *, base_url: str, identifier_of: IdentifierOf | None = None
) -> Mapping[str, Any]:
    """The first step of LNURL-pay for an LNURL or a Lightning address: the payRequest, with the bounds of the amount.

    Raises `PayerError` as `fetch_lnurl_invoice`.
    """
    text = strip_scheme(text)
    request_kind(text)  # raises for what is no request at all
    address = _ADDRESS.fullmatch(text.lower())
    if address is None:
        try:
            url = decode_lnurl(text)
        except LnurlError as error:
            raise PayerError(str(error)) from None
        pay_request = _fetch(fetch, url)
    else:
        # LUD-16: the user part in the path of a well-known URL.
        try:
            pay_request = _fetch(fetch, f"{base_url}/.well-known/lnurlp/{quote(address[1], safe='')}")
        except PayerError:
            # A reason of the Static Charge, that it is full for example, is none about the address of another host.
            identifier = None if identifier_of is None else identifier_of(address[1])
            if identifier not in (None, address[0]) and not _is_here(address[2], base_url):
                raise _unknown_address(address[0], [str(identifier)]) from None
            raise
    if pay_request.get("tag") != "payRequest":
        raise PayerError(
            f"this LNURL is a {quoted(pay_request.get('tag'))}, not a payRequest: only payRequest is supported"
        )
    if address is not None and not _is_here(address[2], base_url):
        _check_identifier(pay_request, address[0])
    return pay_request


def _fetch(fetch: Fetch, url: str) -> Mapping[str, Any]:
    response = fetch(url)
    # LUD-06: ERROR and a reason. A service that fails may answer a problem document (RFC 9457) instead.
    if response.get("status") not in (None, "OK"):
        raise PayerError(str(response.get("reason") or response.get("detail") or "refused without a reason"))
    return response


def _is_here(host: str, base_url: str) -> bool:
    """Whether the host of a Lightning address is the sandbox at `base_url`, by the same name or as this machine. In
    process a sandbox has no port, and any port is its own."""
    base, (name, _, port) = urlsplit(base_url), host.partition(":")
    on_this_machine = name in _LOOPBACK and base.hostname in _LOOPBACK
    return host == base.netloc or (on_this_machine and (base.port is None or port == str(base.port)))


def _check_identifier(pay_request: Mapping[str, Any], address: str) -> None:
    """A Lightning address of another host belongs to this sandbox if a Static Charge has it as its identifier."""
    identifiers = [entry[1] for entry in json.loads(pay_request["metadata"]) if entry[0] == "text/identifier"]
    if identifiers != [address]:
        raise _unknown_address(address, identifiers)


def _unknown_address(address: str, identifiers: Sequence[str]) -> PayerError:
    here = f": did you mean {identifiers[0]}?" if identifiers else ": check its spelling"
    return PayerError(f"no static charge has the Lightning address {address}{here}")


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
