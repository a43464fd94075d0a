"""Request bodies: valid and invalid values for each field, especially at both sides of its bounds."""

from __future__ import annotations

from typing import Any

from leyden.harness.generators.choices import Choices, one_in, pick
from leyden.harness.model.rules import (
    FIELDS,
    MAX_DESCRIPTION,
    MAX_EXPIRY_S,
    MAX_INTERNAL_ID,
    MAX_SLOTS,
    MAX_SUCCESS_MESSAGE,
    MAX_URL,
)

Json = dict[str, Any]

AMOUNTS = ("1000", "1001", "1999", "2000", "50000", "499999999", "500000000", "250000", "123456789", "1000000")
INVALID_AMOUNTS: tuple[Any, ...] = (
    "999", "500000001", "0", "01000", "0025000", "1_000", "-1000", "+1000", " 1000", "1000 ", "1000.0", "1e3", "",
    "1,000", "0x3e8", "١٠٠٠", "1000\n", "１０００", "9007199254740993", "1" + "0" * 30, 1000, 1000.5, True, None,
    [], {}, ["1000"],
)  # fmt: skip
INVALID_QUERY_AMOUNTS = ("0", "1e3", "tip", "-1000", "1000.0", "", "01000", "+1000")
TEXTS = ("", "tea", "Flat white, table 7", "é", "☕️ für zwei", 'a\nb\t"c\\', "<b>&amp;</b>", " spaces ", "\u0000", "0",
         "cafe\u0301 \ufb01n")  # fmt: skip
EDGE_TEXTS = {
    MAX_DESCRIPTION: ("x" * 639, "x" * 638, "é" * 319 + "x", "é" * 320, "é" * 639, "😀" * 639, "x" * 637 + "é"),
    MAX_INTERNAL_ID: ("x" * 255, "x" * 254, "é" * 255, "😀" * 255),
    MAX_SUCCESS_MESSAGE: ("x" * 144, "x" * 143, "é" * 144, "😀" * 144),
}
INVALID_TEXTS: tuple[Any, ...] = (17, True, [], {}, 0.5)
URL = "http://r{n}.inbox.localhost/hook"
VALID_URLS = (
    "https://r1.inbox.localhost/a?b=c%20d&e=f",
    "HTTP://r2.inbox.localhost:8080",
    "http://r1.inbox.localhost/" + "p" * (MAX_URL - len("http://r1.inbox.localhost/")),
    "http://r3.inbox.localhost:65535/",
)
INVALID_URLS: tuple[Any, ...] = (
    "ftp://shop.example/x", "shop.example/x", "//shop.example/x", "http://", "http:///x", "http://user:pw@shop.example/",
    "http://user@shop.example/", "http://shop.example/#part", "http://shop.example/ x", "http://shop.example:0/",
    "http://shop.example:65536/", "http://[::1/", "javascript:alert(1)", "http://shop.example/\n", 17, True, [],
    "http://r1.inbox.localhost/" + "p" * (MAX_URL + 1 - len("http://r1.inbox.localhost/")), "http://é.example/",
    "httpſ://r1.inbox.localhost/",
)  # fmt: skip
SECONDS = (1, 2, 59, 60, 300, 600, 3_600, MAX_EXPIRY_S - 1, MAX_EXPIRY_S)
NOT_GIVEN: tuple[Any, ...] = (0, None, "")
INVALID_SECONDS: tuple[Any, ...] = (-1, MAX_EXPIRY_S + 1, 0.5, "60", True, False, [], "ten", 2**53 + 1, 1e300)
SLOTS = (1, 1, 1, 2, 2, 3, MAX_SLOTS)
INVALID_SLOTS: tuple[Any, ...] = (-1, MAX_SLOTS + 1, 1.5, "3", True, [], 2**53 - 1, 2**63)
ADDRESSES = ("ana@shop.example", "ben@shop.example", "a.b-c_d@x.y:8080", "z" * 64 + "@shop.example")
INVALID_ADDRESSES: tuple[Any, ...] = ("Ana@shop.example", "ana", "@shop.example", "ana@", "a b@shop.example",
    "z" * 65 + "@shop.example", 17, "ana@shop.example\n", "ana@Shop.example")  # fmt: skip
COMMENTS = ("", "thanks", "x" * 150, "é" * 150, "x" * 151)
LONE_SURROGATES = ("\ud800", "tea\udfff")


def _text(choices: Choices, most: int) -> str:
    return pick(choices, EDGE_TEXTS[most]) if one_in(choices, 4) else pick(choices, TEXTS)


def _invalid_text(choices: Choices, most: int) -> Any:
    return pick(choices, ("x" * (most + 1), "é" * (most + 1), *LONE_SURROGATES, *INVALID_TEXTS))


def _url(choices: Choices) -> Any:
    if one_in(choices, 6):
        return pick(choices, (*VALID_URLS, "", None))
    return URL.format(n=1 + choices.below(3))


def charge_body(choices: Choices) -> Json:
    """A valid body for a new Charge, mostly with a callback."""
    body: Json = {"amount": pick(choices, AMOUNTS), "description": _text(choices, MAX_DESCRIPTION)}
    if not one_in(choices, 4):
        body["callbackUrl"] = _url(choices)
    if choices.below(2):
        body["expiresIn"] = pick(choices, SECONDS if not one_in(choices, 5) else NOT_GIVEN)
    if choices.below(2):
        body["internalId"] = pick(choices, (None, "", "order-1", _text(choices, MAX_INTERNAL_ID)))
    if one_in(choices, 12):
        body[pick(choices, ("id", "status", "colour", "createdAt"))] = "completed"
    return body


def static_body(choices: Choices) -> Json:
    """A valid body for a new Static Charge."""
    low, high = sorted((pick(choices, AMOUNTS), pick(choices, AMOUNTS)), key=int)
    body: Json = {"minAmount": low, "maxAmount": high, "description": _text(choices, MAX_DESCRIPTION)}
    if not one_in(choices, 4):
        body["callbackUrl"] = _url(choices)
    if choices.below(3):
        body["allowedSlots"] = pick(choices, SLOTS if not one_in(choices, 5) else NOT_GIVEN)
    if one_in(choices, 3):
        body["expiresIn"] = pick(choices, SECONDS if not one_in(choices, 5) else NOT_GIVEN)
    if one_in(choices, 3):
        body["successMessage"] = pick(choices, (None, "", "thank you", _text(choices, MAX_SUCCESS_MESSAGE)))
    if one_in(choices, 3):
        body["internalId"] = pick(choices, (None, "", "stage-2", _text(choices, MAX_INTERNAL_ID)))
    if one_in(choices, 4):
        body["identifier"] = pick(choices, (*ADDRESSES, "", None))
    return body


def changes(choices: Choices) -> Json:
    """Valid changes to a Static Charge; some of them conflict with its state."""
    body: Json = {}
    match choices.below(8):
        case 0 | 1 | 2:
            body["allowedSlots"] = pick(choices, (1, 2, 3, None, 0, MAX_SLOTS))
        case 3:
            body["minAmount"] = pick(choices, AMOUNTS)
        case 4:
            body["maxAmount"] = pick(choices, AMOUNTS)
        case 5:
            body["description"] = _text(choices, MAX_DESCRIPTION)
            body["internalId"] = pick(choices, (None, "", "order-2"))
        case 6:
            body["callbackUrl"] = _url(choices)
            body["successMessage"] = pick(choices, (None, "", "come again", "x" * MAX_SUCCESS_MESSAGE))
        case _:
            body["colour"] = "blue"
    return body


_INVALID: dict[str, tuple[Any, ...]] = {
    "amount": INVALID_AMOUNTS,
    "minAmount": INVALID_AMOUNTS,
    "maxAmount": INVALID_AMOUNTS,
    "callbackUrl": INVALID_URLS,
    "expiresIn": (*INVALID_SECONDS, 600.0),
    "allowedSlots": (*INVALID_SLOTS, 3.0),
    "identifier": INVALID_ADDRESSES,
}
_VALID: dict[str, list[Any]] = {
    "expiresIn": [*SECONDS, 0],
    "allowedSlots": [*SLOTS, 0],
    "callbackUrl": list(VALID_URLS),
}
_LENGTHS = {"description": MAX_DESCRIPTION, "internalId": MAX_INTERNAL_ID, "successMessage": MAX_SUCCESS_MESSAGE}


def with_one_error(choices: Choices, body: Json, kind: str) -> Json:
    """The body with one field changed or removed. It may still be valid; the model decides."""
    name = pick(choices, FIELDS[kind])
    if one_in(choices, 5):
        return {one: value for one, value in body.items() if one != name}
    if one_in(choices, 8) and name in body:
        return {**body, name: None}
    value = pick(choices, _INVALID[name]) if name in _INVALID else _invalid_text(choices, _LENGTHS[name])
    return {**body, name: value}


def invalid_bodies(kind: str) -> list[tuple[str, Json]]:
    """Bodies with each invalid value of each field, and with the valid values at the bounds."""
    valid: dict[str, Json] = {
        "charge": {"amount": "1000", "description": "tea"},
        "static": {"minAmount": "1000", "maxAmount": "2000", "description": "tips"},
        "changes": {},
    }
    found: list[tuple[str, Json]] = []
    for name in FIELDS[kind]:
        values: list[Any] = [*_INVALID.get(name, ()), None, ""]
        if name in _LENGTHS:
            most = _LENGTHS[name]
            values += [*EDGE_TEXTS[most], "x" * (most + 1), "é" * (most + 1), *LONE_SURROGATES, *INVALID_TEXTS, *TEXTS]
        values += _VALID.get(name, [])
        values += list(ADDRESSES) if name == "identifier" else []
        values += list(AMOUNTS) if name in {"amount", "minAmount", "maxAmount"} else []
        found += [(name, {**valid[kind], name: value}) for value in values]
        if name in valid[kind]:
            found.append((name, {one: value for one, value in valid[kind].items() if one != name}))
    return found
