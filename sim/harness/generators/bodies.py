"""Strategies: bodies as clients send them, and as nobody should, with a liking for the edges of every bound."""

from __future__ import annotations

from typing import Any

from leyden.harness.generators.choices import Dice, chance, pick
from leyden.harness.model.rules import (
    LONGEST_DESCRIPTION,
    LONGEST_EXPIRY_S,
    LONGEST_INTERNAL_ID,
    LONGEST_SUCCESS,
    LONGEST_URL,
    MOST_SLOTS,
)

Json = dict[str, Any]

AMOUNTS = ("1000", "1001", "1999", "2000", "50000", "499999999", "500000000", "250000", "123456789", "1000000")
BAD_AMOUNTS: tuple[Any, ...] = (
    "999", "500000001", "0", "01000", "0025000", "1_000", "-1000", "+1000", " 1000", "1000 ", "1000.0", "1e3", "",
    "1,000", "0x3e8", "١٠٠٠", "1000\n", "１０００", "9007199254740993", "1" + "0" * 30, 1000, 1000.5, True, None,
    [], {}, ["1000"],
)  # fmt: skip
TEXTS = ("", "tea", "Flat white, table 7", "é", "☕️ für zwei", 'a\nb\t"c\\', "<b>&amp;</b>", " spaces ", "\u0000", "0",
         "cafe\u0301 \ufb01n")  # fmt: skip
EDGE_TEXTS = {
    LONGEST_DESCRIPTION: ("x" * 639, "x" * 638, "é" * 319 + "x", "é" * 320, "é" * 639, "😀" * 639, "x" * 637 + "é"),
    LONGEST_INTERNAL_ID: ("x" * 255, "x" * 254, "é" * 255, "😀" * 255),
    LONGEST_SUCCESS: ("x" * 144, "x" * 143, "é" * 144, "😀" * 144),
}
BAD_TEXTS: tuple[Any, ...] = (17, True, [], {}, 0.5)
URL = "http://r{n}.inbox.localhost/hook"
GOOD_URLS = (
    "https://r1.inbox.localhost/a?b=c%20d&e=f",
    "HTTP://r2.inbox.localhost:8080",
    "http://r1.inbox.localhost/" + "p" * (LONGEST_URL - len("http://r1.inbox.localhost/")),
    "http://r3.inbox.localhost:65535/",
)
BAD_URLS: tuple[Any, ...] = (
    "ftp://shop.example/x", "shop.example/x", "//shop.example/x", "http://", "http:///x", "http://user:pw@shop.example/",
    "http://user@shop.example/", "http://shop.example/#part", "http://shop.example/ x", "http://shop.example:0/",
    "http://shop.example:65536/", "http://[::1/", "javascript:alert(1)", "http://shop.example/\n", 17, True, [],
    "http://r1.inbox.localhost/" + "p" * (LONGEST_URL + 1 - len("http://r1.inbox.localhost/")), "http://é.example/",
)  # fmt: skip
SECONDS = (1, 2, 59, 60, 300, 600, 3_600, LONGEST_EXPIRY_S - 1, LONGEST_EXPIRY_S)
NOT_GIVEN: tuple[Any, ...] = (0, None, "")
BAD_SECONDS: tuple[Any, ...] = (-1, LONGEST_EXPIRY_S + 1, 0.5, "60", True, False, [], "ten", 2**53 + 1, 1e300)
SLOTS = (1, 1, 1, 2, 2, 3, MOST_SLOTS)
BAD_SLOTS: tuple[Any, ...] = (-1, MOST_SLOTS + 1, 1.5, "3", True, [], 2**53 - 1, 2**63)
ADDRESSES = ("ana@shop.example", "ben@shop.example", "a.b-c_d@x.y:8080", "z" * 64 + "@shop.example")
BAD_ADDRESSES: tuple[Any, ...] = ("Ana@shop.example", "ana", "@shop.example", "ana@", "a b@shop.example",
    "z" * 65 + "@shop.example", 17, "ana@shop.example\n", "ana@Shop.example")  # fmt: skip
COMMENTS = ("", "thanks", "x" * 150, "é" * 150, "x" * 151)
HALF_CHARACTERS = ("\ud800", "tea\udfff")


def _text(dice: Dice, most: int) -> str:
    return pick(dice, EDGE_TEXTS[most]) if chance(dice, 4) else pick(dice, TEXTS)


def _bad_text(dice: Dice, most: int) -> Any:
    return pick(dice, ("x" * (most + 1), "é" * (most + 1), *HALF_CHARACTERS, *BAD_TEXTS))


def _url(dice: Dice) -> Any:
    if chance(dice, 6):
        return pick(dice, (*GOOD_URLS, "", None))
    return URL.format(n=1 + dice.below(3))


def charge_body(dice: Dice) -> Json:
    """A sound body for a new Charge, mostly with a callback."""
    body: Json = {"amount": pick(dice, AMOUNTS), "description": _text(dice, LONGEST_DESCRIPTION)}
    if not chance(dice, 4):
        body["callbackUrl"] = _url(dice)
    if dice.below(2):
        body["expiresIn"] = pick(dice, SECONDS if not chance(dice, 5) else NOT_GIVEN)
    if dice.below(2):
        body["internalId"] = pick(dice, (None, "", "order-1", _text(dice, LONGEST_INTERNAL_ID)))
    if chance(dice, 12):
        body[pick(dice, ("id", "status", "colour", "createdAt"))] = "completed"
    return body


def static_body(dice: Dice) -> Json:
    """A sound body for a new Static Charge."""
    low, high = sorted((pick(dice, AMOUNTS), pick(dice, AMOUNTS)), key=int)
    body: Json = {"minAmount": low, "maxAmount": high, "description": _text(dice, LONGEST_DESCRIPTION)}
    if not chance(dice, 4):
        body["callbackUrl"] = _url(dice)
    if dice.below(3):
        body["allowedSlots"] = pick(dice, SLOTS if not chance(dice, 5) else NOT_GIVEN)
    if chance(dice, 3):
        body["expiresIn"] = pick(dice, SECONDS if not chance(dice, 5) else NOT_GIVEN)
    if chance(dice, 3):
        body["successMessage"] = pick(dice, (None, "", "thank you", _text(dice, LONGEST_SUCCESS)))
    if chance(dice, 3):
        body["internalId"] = pick(dice, (None, "", "stage-2", _text(dice, LONGEST_INTERNAL_ID)))
    if chance(dice, 4):
        body["identifier"] = pick(dice, (*ADDRESSES, "", None))
    return body


def changes(dice: Dice) -> Json:
    """Sound changes to a Static Charge, if not always ones that can be granted."""
    body: Json = {}
    match dice.below(8):
        case 0 | 1 | 2:
            body["allowedSlots"] = pick(dice, (1, 2, 3, None, 0, MOST_SLOTS))
        case 3:
            body["minAmount"] = pick(dice, AMOUNTS)
        case 4:
            body["maxAmount"] = pick(dice, AMOUNTS)
        case 5:
            body["description"] = _text(dice, LONGEST_DESCRIPTION)
            body["internalId"] = pick(dice, (None, "", "order-2"))
        case 6:
            body["callbackUrl"] = _url(dice)
            body["successMessage"] = pick(dice, (None, "", "come again", "x" * LONGEST_SUCCESS))
        case _:
            body["colour"] = "blue"
    return body


_BAD: dict[str, tuple[Any, ...]] = {
    "amount": BAD_AMOUNTS,
    "minAmount": BAD_AMOUNTS,
    "maxAmount": BAD_AMOUNTS,
    "callbackUrl": BAD_URLS,
    "expiresIn": (*BAD_SECONDS, 600.0),
    "allowedSlots": (*BAD_SLOTS, 3.0),
    "identifier": BAD_ADDRESSES,
}
_GOOD: dict[str, list[Any]] = {
    "expiresIn": [*SECONDS, 0],
    "allowedSlots": [*SLOTS, 0],
    "callbackUrl": list(GOOD_URLS),
}
_LENGTHS = {"description": LONGEST_DESCRIPTION, "internalId": LONGEST_INTERNAL_ID, "successMessage": LONGEST_SUCCESS}
_FIELDS = {
    "charge": ("amount", "description", "internalId", "callbackUrl", "expiresIn"),
    "static": ("minAmount", "maxAmount", "description", "successMessage", "allowedSlots", "internalId", "callbackUrl",
               "expiresIn", "identifier"),
    "changes": ("minAmount", "maxAmount", "description", "successMessage", "allowedSlots", "internalId", "callbackUrl"),
}  # fmt: skip


def spoilt(dice: Dice, body: Json, kind: str) -> Json:
    """The body with one thing wrong; now and then it is still sound, which the model then says."""
    name = pick(dice, _FIELDS[kind])
    if chance(dice, 5):
        return {one: value for one, value in body.items() if one != name}
    if chance(dice, 8) and name in body:
        return {**body, name: None}
    value = pick(dice, _BAD[name]) if name in _BAD else _bad_text(dice, _LENGTHS[name])
    return {**body, name: value}


def wrong_bodies(kind: str) -> list[tuple[str, Json]]:
    """Every way in which a body of this kind is wrong, and the bounds' insides beside them: the tour's list."""
    sound: dict[str, Json] = {
        "charge": {"amount": "1000", "description": "tea"},
        "static": {"minAmount": "1000", "maxAmount": "2000", "description": "tips"},
        "changes": {},
    }
    found: list[tuple[str, Json]] = []
    for name in _FIELDS[kind]:
        values: list[Any] = [*_BAD.get(name, ()), None, ""]
        if name in _LENGTHS:
            most = _LENGTHS[name]
            values += [*EDGE_TEXTS[most], "x" * (most + 1), "é" * (most + 1), *HALF_CHARACTERS, *BAD_TEXTS, *TEXTS]
        values += _GOOD.get(name, [])
        values += list(ADDRESSES) if name == "identifier" else []
        values += list(AMOUNTS) if name in {"amount", "minAmount", "maxAmount"} else []
        found += [(name, {**sound[kind], name: value}) for value in values]
        if name in sound[kind]:
            found.append((name, {one: value for one, value in sound[kind].items() if one != name}))
    return found
