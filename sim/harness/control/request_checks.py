"""Checks of the texts that a payer pays at a hosted server: which of them are an invoice, an LNURL or an address."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leyden.harness.checks.responses import bech32, bech32_data, five_bits
from leyden.harness.control.host import Host, violation

INVOICE, LNURL, ADDRESS = "invoice", "lnurl", "address"
LEAST, MOST = 2_000, 9_000  # millisatoshis, of the Static Charge
_USER = "ana"


def _changed(text: str, place: int) -> str:
    other = "q" if text[place] != "q" else "p"
    return f"{text[:place]}{other}{text[place:][1:]}"


def _mixed(text: str) -> str:
    half = len(text) // 2
    return text[:half].lower() + text[half:].upper()


def _other_data(places: Sequence[int]) -> Callable[[str], str]:
    return lambda text: bech32("lnurl", places)


def _with_bits(bits: Sequence[int]) -> Callable[[str], str]:
    """The same data with these groups of five bits at its end, below the padding of the last one."""

    def text_of(text: str) -> str:
        *places, last = bech32_data(text) or [0]
        return bech32("lnurl", [*places, last | bits[0], *bits[1:]])

    return text_of


_ANY: Mapping[str, tuple[Callable[[str], str], bool]] = {
    "as it is": (str, True),
    "capitals": (str.upper, True),
    "lightning:": (lambda text: f"lightning:{text}", True),
    "lightning: and capitals": (lambda text: f"lightning:{text.upper()}", True),
    "LIGHTNING:": (lambda text: f"LIGHTNING:{text.upper()}", True),
}
_BECH32: Mapping[str, tuple[Callable[[str], str], bool]] = {
    "both cases": (_mixed, False),
    "lightning: and both cases": (lambda text: f"lightning:{_mixed(text)}", False),
    "another last character": (lambda text: _changed(text, len(text) - 1), False),
    "another first character of the checksum": (lambda text: _changed(text, len(text) - 6), False),
    "another first character of the data": (lambda text: _changed(text, text.rindex("1") + 1), False),
    "without the last character": (lambda text: text[:-1], False),
    "with another character": (lambda text: f"{text}q", False),
    "without the separator": (lambda text: "".join(text.rsplit("1", 1)), False),
    "without data": (lambda text: text.rpartition("1")[0] + "1", False),
    "a letter that bech32 has not": (lambda text: f"{text[:-8]}b{text[-7:]}", False),
}
# What a request may be, and which texts made of it are paid.
FORMS: Mapping[str, Mapping[str, tuple[Callable[[str], str], bool]]] = {
    INVOICE: {**_ANY, **_BECH32},
    LNURL: {
        **_ANY,
        **_BECH32,
        "another prefix": (lambda text: bech32("lnurk", bech32_data(text) or ()), False),
        "no web address": (_other_data(five_bits(b"ftp://localhost/lnurlp/x")), False),
        "no URL": (_other_data(five_bits(b"hello")), False),
        "the URL of nothing": (_other_data(five_bits(b"http://localhost/lnurlp/x")), False),
        "no UTF-8": (_other_data(five_bits(b"http://localhost/\xff\xfe")), False),
        "empty": (_other_data(()), False),
        "padding that is not zero": (_with_bits([1]), False),
        "more padding than a character": (_with_bits([0, 0]), False),
    },
    ADDRESS: {
        **_ANY,
        "both cases": (_mixed, True),
        "another user": (lambda text: f"x{text}", False),
        "another host": (lambda text: f"{_USER}@example.com", False),
        "no host": (lambda text: f"{_USER}@", False),
        "no user": (lambda text: text.removeprefix(_USER), False),
        "two hosts": (lambda text: f"{text}@localhost", False),
    },
}
AMOUNTS = {None: True, LEAST - 1: False, LEAST: True, LEAST + 1: True, MOST - 1: True, MOST: True, MOST + 1: False}


def check_payment_request(host: Host, step: Mapping[str, Any]) -> None:
    """{"do": "control_payment_request", "kind": "lnurl", "form": "capitals", "amount"?: msat}: pay this form of a
    request. It is paid once, with its amount or the given one, or the payment fails and nothing is paid."""
    kind, given = step["kind"], step.get("amount")
    fields = {"minAmount": str(LEAST), "maxAmount": str(MOST), "description": "tips"}
    static = host.accepted("POST", "/v0/static-charges", {**fields, "identifier": f"{_USER}@localhost"})["data"]
    charge = host.accepted("POST", "/v0/charges", {"amount": str(LEAST), "description": "tea"})["data"]
    texts = {
        INVOICE: charge["invoice"]["request"],
        LNURL: static["invoice"]["request"],
        ADDRESS: static["identifier"],
    }
    change, is_paid = FORMS[kind][step["form"]]
    order = {"request": change(texts[kind])} | ({} if given is None else {"amount": str(given)})
    is_paid = is_paid and AMOUNTS[given]
    made = host.accepted("POST", "/sandbox/v1/payments", order)
    host.accepted("POST", "/sandbox/v1/clock/advance", {"by": "1m"})
    payment = host.read(f"/sandbox/v1/payments/{made['id']}")
    where = f"a payment of {order['request'][:80]!r}"
    wanted = ["succeeded", str(given or LEAST), False] if is_paid else ["failed", payment["amount"], True]
    found = [payment["status"], payment["amount"], bool(payment["reason"])]
    if found != wanted:
        raise violation(f"{where}: status, amount, whether it has a reason", wanted, found)
    if kind == INVOICE:
        paid = [host.read(f"/v0/charges/{charge['id']}")["data"]]
    else:
        paid = host.read(f"/v0/static-charges/{static['id']}/charges")["data"]
    slots = host.read(f"/v0/static-charges/{static['id']}")["data"]["slots"]
    observed = [slots, *(one["amount"] for one in paid if one["status"] == "completed")]
    expected = [int(is_paid and kind != INVOICE), *([str(given or LEAST)] if is_paid else [])]
    if observed != expected:
        raise violation(f"{where}: the slots that are used, and what was paid", expected, observed)
