"""The rules in numbers and shapes: what a request must look like, and by which reading of the open questions.

Written from the charge service specification and specs/DECISIONS.md (the names in brackets are its entries), never from
the server: whoever checks a service must not ask that service what is right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from typing import Any, Self

LEAST_MSAT, MOST_MSAT = 1_000, 500_000_000  # [amounts]
LONGEST_DESCRIPTION, LONGEST_INTERNAL_ID, LONGEST_SUCCESS = 639, 255, 144  # [description], [text-lengths]
LONGEST_URL = 2_048  # [callback-url]
LONGEST_EXPIRY_S, USUAL_EXPIRY_S = 2_592_000, 600  # [expires-in]
MOST_SLOTS = 2_147_483_647  # [allowed-slots]
LONGEST_COMMENT, LINK_EXPIRY_S = 150, 300  # [lnurl-pay]
KEPT_MS = 24 * 3_600_000  # [idempotency], and how long a replaced secret goes on signing [callback-signature]
BODY_LIMIT, DEPTH_LIMIT = 65_536, 32
PAUSES_MS = tuple(
    round(1_000 * s) for s in (0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
)  # [callback-delivery]
JITTER, RETRY_AFTER_TIMES, ATTEMPT_MS, IN_FLIGHT = 0.2, 2, 15_000, 8

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AMOUNT = re.compile(r"[1-9][0-9]*", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?(?:\.[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?")
_URL = re.compile(r"https?://([^/?#]*)([^?#]*)(?:\?([^#]*))?", re.ASCII | re.IGNORECASE)
_URL_CHARACTERS = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*", re.ASCII)
_ADDRESS = re.compile(r"[a-z0-9._-]{1,64}@[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?(?::[1-9][0-9]{0,4})?", re.ASCII)
_KEY = re.compile(r"[!-~]{1,255}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Reading:
    """How the open questions are read: one switch for each overlay."""

    strict: bool = False
    lenient: bool = False
    payable_at_expiry: bool = False
    no_retries: bool = False
    callback_envelope: bool = False
    reserve_on_issue: bool = False
    count_on_settle: bool = False

    @classmethod
    def of(cls, overlays: tuple[str, ...] | list[str]) -> Self:
        """The reading that these overlays choose. Raises `ValueError` for one that this model has no rules for."""
        known = {field.name for field in fields(cls)}
        names = {name: name.replace("-", "_") for name in overlays}
        for name, switch in names.items():
            if switch not in known:
                raise ValueError(f"the reference model has no rules for the overlay {name!r}: choose among {known}")
        return cls(**dict.fromkeys(names.values(), True))


@lru_cache(maxsize=1_024)
def iso(instant_ms: int) -> str:
    """An instant as the service writes it: UTC, three decimals, `Z` [timestamps]."""
    text = (_EPOCH + timedelta(milliseconds=instant_ms)).isoformat(timespec="milliseconds")
    return f"{text[:-6]}Z"


def instant(text: str) -> int:
    """The instant of an ISO 8601 text, in ms since 1970. Raises `ValueError` for another text."""
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)


# What a body must be. Each judgement names the first field that is wrong and the entry that says so, or nothing.

Wrong = tuple[str, str] | None


def _amount(value: Any, reading: Reading) -> bool:
    if reading.lenient and type(value) in (int, float) and value == int(value):
        return bool(LEAST_MSAT <= value <= MOST_MSAT)
    return isinstance(value, str) and bool(_AMOUNT.fullmatch(value)) and LEAST_MSAT <= int(value[:12]) <= MOST_MSAT


def _text(value: Any, most: int) -> bool:
    return isinstance(value, str) and len(value) <= most


def _optional_text(value: Any, most: int, strict: bool) -> bool:
    if strict:
        return _text(value, most) and value != ""
    return value is None or _text(value, most)


def _number(value: Any, least: int, most: int) -> bool:
    # A whole number may be written 600.0: JSON Schema cannot tell, and the service refuses that with 409 [statuses].
    if type(value) is float:
        return value.is_integer() and least <= value <= most
    return type(value) is int and least <= value <= most


def _optional_number(value: Any, most: int, reading: Reading) -> bool:
    if reading.lenient and isinstance(value, str) and _AMOUNT.fullmatch(value) and int(value[:12]) <= most:
        return True
    if reading.strict:
        return _number(value, 1, most)
    return value is None or value == "" or _number(value, 0, most)


def _url(value: Any, strict: bool) -> bool:
    if value is None or value == "":
        return not strict
    return isinstance(value, str) and len(value) <= LONGEST_URL and is_callback_url(value)


def is_callback_url(text: str) -> bool:
    """An absolute http or https URL without user information or fragment, in RFC 3986's characters [callback-url]."""
    found = _URL.fullmatch(text)
    if found is None or "@" in found[1]:
        return False
    if not _URL_CHARACTERS.fullmatch((found[2] or "") + (found[3] or "")):
        return False
    host, colon, port = found[1].rpartition(":") if not found[1].endswith("]") else (found[1], "", "")
    if colon and not (_AMOUNT.fullmatch(port) and int(port[:6]) <= 65_535):
        return False
    host = host if colon else found[1]
    if host.startswith("["):
        try:
            return host.endswith("]") and "%" not in host and bool(IPv6Address(host[1:-1]))
        except AddressValueError:
            return False
    return bool(_HOST.fullmatch(host))


def _address(value: Any, strict: bool) -> bool:
    if value is None or value == "":
        return not strict
    return isinstance(value, str) and bool(_ADDRESS.fullmatch(value))


def wrong_in_charge(body: Mapping[str, Any], reading: Reading) -> Wrong:
    """What is wrong with the body of a new Charge, for the status 400."""
    known = ("amount", "description", "internalId", "callbackUrl", "expiresIn")
    if reading.strict and (extra := next((name for name in body if name not in known), None)) is not None:
        return extra, "request-bodies"
    for name in ("amount", "description"):
        if name not in body:
            return name, "request-bodies"
    return _wrong_field(body, reading, static=False, change=False)


def wrong_in_static(body: Mapping[str, Any], reading: Reading) -> Wrong:
    """What is wrong with the body of a new Static Charge, for the status 400."""
    known = (*_CHANGEABLE, "expiresIn", "identifier")
    if reading.strict and (extra := next((name for name in body if name not in known), None)) is not None:
        return extra, "request-bodies"
    for name in ("minAmount", "maxAmount", "description"):
        if name not in body:
            return name, "request-bodies"
    return _wrong_field(body, reading, static=True, change=False)


_CLEARABLE = frozenset({"successMessage", "allowedSlots", "internalId", "callbackUrl"})
_CHANGEABLE = ("minAmount", "maxAmount", "description", "successMessage", "allowedSlots", "internalId", "callbackUrl")


def wrong_in_changes(body: Mapping[str, Any], reading: Reading) -> Wrong:
    """What is wrong with changes to a Static Charge, for the status 400."""
    if reading.strict and (extra := next((name for name in body if name not in _CHANGEABLE), None)) is not None:
        return extra, "request-bodies"
    return _wrong_field({name: body[name] for name in _CHANGEABLE if name in body}, reading, static=True, change=True)


def _wrong_field(body: Mapping[str, Any], reading: Reading, *, static: bool, change: bool) -> Wrong:
    strict = reading.strict
    for name, value in body.items():
        # Read strictly there is one way not to give a field, and in a change one way to clear it, which is null.
        if change and value is None and name in _CLEARABLE:
            continue
        match name:
            case "amount" if not static:
                good, entry = _amount(value, reading), "amounts"
            case "minAmount" | "maxAmount" if static:
                good, entry = _amount(value, reading), "amounts"
            case "description":
                good, entry = _text(value, LONGEST_DESCRIPTION), "description"
            case "internalId":
                good, entry = _optional_text(value, LONGEST_INTERNAL_ID, strict), "text-lengths"
            case "successMessage" if static:
                good, entry = _optional_text(value, LONGEST_SUCCESS, strict), "text-lengths"
            case "callbackUrl":
                good, entry = _url(value, strict), "callback-url"
            case "expiresIn":
                good, entry = _optional_number(value, LONGEST_EXPIRY_S, reading), "expires-in"
            case "allowedSlots" if static and change:
                digits = isinstance(value, str) and value != "" and _optional_number(value, MOST_SLOTS, reading)
                good, entry = _number(value, 1 if strict else 0, MOST_SLOTS) or digits, "allowed-slots"
            case "allowedSlots" if static:
                good, entry = _optional_number(value, MOST_SLOTS, reading), "allowed-slots"
            case "identifier" if static:
                good, entry = _address(value, strict), "identifier"
            case _:
                continue
        if not good:
            return name, entry
    return None


def pointed(body: Mapping[str, Any], names: tuple[str, ...]) -> bool:
    """Whether a whole number stands there with a decimal point, which is a 409 [statuses]."""
    return any(type(body.get(name)) is float for name in names)


def given(value: Any) -> int | None:
    """A number that may be spelt as not given: 0, null and "" are all that [not-given]."""
    return int(value) if value not in (None, "", 0) else None


def is_key(text: str) -> bool:
    """Whether an Idempotency-Key is well formed [idempotency]."""
    return bool(_KEY.fullmatch(text))


def has_half_character(value: Any) -> bool:
    """Whether a surrogate without its partner stands anywhere in a JSON value."""
    if isinstance(value, str):
        return any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, Mapping):
        return any(has_half_character(name) or has_half_character(item) for name, item in value.items())
    return isinstance(value, list) and any(map(has_half_character, value))
