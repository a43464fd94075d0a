"""The rules: limits and formats of requests, for each interpretation of the open questions.

Written from the charge service specification and specs/DECISIONS.md (the names in brackets are its entries), and never
from the server, because the model must be independent of the service that it checks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from typing import Any, Self

MIN_MSAT, MAX_MSAT = 1_000, 500_000_000  # [amounts]
MAX_DESCRIPTION, MAX_INTERNAL_ID, MAX_SUCCESS_MESSAGE = 639, 255, 144  # [description], [text-lengths]
MAX_URL = 2_048  # [callback-url]
MAX_EXPIRY_S, DEFAULT_EXPIRY_S = 2_592_000, 600  # [expires-in]
MAX_SLOTS = 2_147_483_647  # [allowed-slots]
MAX_COMMENT, LINK_EXPIRY_S = 150, 300  # [lnurl-pay]
MAX_SIGNING = 3  # secrets that sign at once [callback-signature]
RETENTION_MS = 24 * 3_600_000  # of responses [idempotency] and of a rotated secret [callback-signature]
BODY_LIMIT, DEPTH_LIMIT = 65_536, 32
BACKOFF_MS = tuple(
    round(1_000 * s) for s in (0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
)  # [callback-delivery]
JITTER, RETRY_AFTER_FACTOR, ATTEMPT_TIMEOUT_MS, MAX_IN_FLIGHT = 0.2, 2, 15_000, 8
KEPT_BYTES, KEPT_HEADER_BYTES = 4_096, 8_192  # of a reply, as the control plane's document says

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AMOUNT = re.compile(r"[1-9][0-9]*")
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?(?:\.[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?")
_URL = re.compile(r"https?://([^/?#]*)([^#]*)", re.ASCII | re.IGNORECASE)
_URL_CHARACTERS = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")
_ADDRESS = re.compile(r"[a-z0-9._-]{1,64}@[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?(?::[1-9][0-9]{0,4})?")
_KEY = re.compile(r"[!-~]{1,255}")


@dataclass(frozen=True, slots=True)
class Interpretation:
    """The interpretation of the specification's open questions: one switch for each overlay."""

    strict: bool = False
    lenient: bool = False
    payable_at_expiry: bool = False
    no_retries: bool = False
    callback_envelope: bool = False
    reserve_on_issue: bool = False
    count_on_settle: bool = False

    @classmethod
    def of(cls, overlays: tuple[str, ...] | list[str]) -> Self:
        """The interpretation with these overlays. Raises `ValueError` for an overlay without rules in the model."""
        known = [field.name for field in fields(cls)]
        for name in overlays:
            if name.replace("-", "_") not in known:
                raise ValueError(f"the reference model has no rules for the overlay {name!r}: choose among {known}")
        return cls(**{name.replace("-", "_"): True for name in overlays})


OVERLAYS = tuple(switch.name.replace("_", "-") for switch in fields(Interpretation))


@lru_cache(maxsize=1_024)
def iso(instant_ms: int) -> str:
    """A time as the service writes it: UTC, three decimals, `Z` [timestamps]."""
    text = (_EPOCH + timedelta(milliseconds=instant_ms)).isoformat(timespec="milliseconds")
    return f"{text[:-6]}Z"


def instant(text: str) -> int:
    """The time of an ISO 8601 text with an offset, in whole ms since 1970. Raises `ValueError` for another text."""
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no offset")
    return (time - _EPOCH) // timedelta(milliseconds=1)


# Request bodies


def _amount(value: Any, interpretation: Interpretation) -> bool:
    if interpretation.lenient and type(value) in (int, float) and value == int(value):
        return bool(MIN_MSAT <= value <= MAX_MSAT)
    return isinstance(value, str) and bool(_AMOUNT.fullmatch(value)) and MIN_MSAT <= int(value[:12]) <= MAX_MSAT


def _text(value: Any, most: int) -> bool:
    return isinstance(value, str) and len(value) <= most


def _optional_text(value: Any, most: int, strict: bool) -> bool:
    if strict:
        return _text(value, most) and value != ""
    return value is None or _text(value, most)


def _number(value: Any, least: int, most: int) -> bool:
    # 600.0 is an integer for JSON Schema; the service refuses it with 409 [statuses].
    if type(value) is float:
        return value.is_integer() and least <= value <= most
    return type(value) is int and least <= value <= most


def _optional_number(value: Any, most: int, interpretation: Interpretation) -> bool:
    if interpretation.lenient and isinstance(value, str) and _AMOUNT.fullmatch(value) and int(value[:12]) <= most:
        return True
    if interpretation.strict:
        return _number(value, 1, most)
    return value is None or value == "" or _number(value, 0, most)


def _url(value: Any, strict: bool) -> bool:
    if value is None or value == "":
        return not strict
    return isinstance(value, str) and len(value) <= MAX_URL and is_callback_url(value)


def is_callback_url(text: str) -> bool:
    """An absolute http or https URL without user information or fragment, in RFC 3986's characters [callback-url]."""
    found = _URL.fullmatch(text)
    if found is None or "@" in found[1]:
        return False
    if not _URL_CHARACTERS.fullmatch(found[2]):
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


# The known fields of each body; those of REQUIRED must be there.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "charge": ("amount", "description", "internalId", "callbackUrl", "expiresIn"),
    "static": ("minAmount", "maxAmount", "description", "successMessage", "allowedSlots", "internalId", "callbackUrl",
               "expiresIn", "identifier"),
    "changes": ("minAmount", "maxAmount", "description", "successMessage", "allowedSlots", "internalId", "callbackUrl"),
}  # fmt: skip
_REQUIRED = {"charge": ("amount", "description"), "static": ("minAmount", "maxAmount", "description"), "changes": ()}
_CLEARABLE = frozenset({"successMessage", "allowedSlots", "internalId", "callbackUrl"})


def body_errors(kind: str, body: Mapping[str, Any], interpretation: Interpretation) -> dict[str, str]:
    """The errors for the status 400 in the body of a new Charge (`kind` charge), of a new Static Charge (static), or of
    changes to one (changes): for each place, as a JSON pointer (RFC 6901), the rule that says so."""
    if has_lone_surrogate(body):
        return {"": "statuses"}
    found = {pointer(name): "request-bodies" for name in _REQUIRED[kind] if name not in body}
    for name, value in body.items():
        if name in FIELDS[kind]:
            rule = _field_error(kind, name, value, interpretation)
        else:
            rule = "request-bodies" if interpretation.strict else None
        if rule is not None:
            found[pointer(name)] = rule
    return found


def pointer(name: str) -> str:
    """The JSON pointer of a member of the body."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _field_error(kind: str, name: str, value: Any, interpretation: Interpretation) -> str | None:
    strict, change = interpretation.strict, kind == "changes"
    # In a change null clears a field, also with `strict`.
    if change and value is None and name in _CLEARABLE:
        return None
    match name:
        case "amount" | "minAmount" | "maxAmount":
            valid, rule = _amount(value, interpretation), "amounts"
        case "description":
            valid, rule = _text(value, MAX_DESCRIPTION), "description"
        case "internalId":
            valid, rule = _optional_text(value, MAX_INTERNAL_ID, strict), "text-lengths"
        case "successMessage":
            valid, rule = _optional_text(value, MAX_SUCCESS_MESSAGE, strict), "text-lengths"
        case "callbackUrl":
            valid, rule = _url(value, strict), "callback-url"
        case "expiresIn":
            valid, rule = _optional_number(value, MAX_EXPIRY_S, interpretation), "expires-in"
        case "allowedSlots" if change:
            digits = isinstance(value, str) and value != "" and _optional_number(value, MAX_SLOTS, interpretation)
            valid, rule = _number(value, 1 if strict else 0, MAX_SLOTS) or digits, "allowed-slots"
        case "allowedSlots":
            valid, rule = _optional_number(value, MAX_SLOTS, interpretation), "allowed-slots"
        case _:
            valid, rule = _address(value, strict), "identifier"
    return None if valid else rule


def decimal_points(kind: str, body: Mapping[str, Any]) -> list[str]:
    """The places of the numbers with a decimal point in a body without errors, which is a 409 [statuses]."""
    return [pointer(name) for name in FIELDS[kind] if type(body.get(name)) is float]


def number_or_none(value: Any) -> int | None:
    """The number; None for 0, null and "", which mean not given [not-given]."""
    return int(value) if value not in (None, "", 0) else None


def is_idempotency_key(text: str) -> bool:
    """Whether an Idempotency-Key is valid [idempotency]."""
    return bool(_KEY.fullmatch(text))


def has_lone_surrogate(value: Any) -> bool:
    """Whether a JSON value contains a lone surrogate."""
    if isinstance(value, str):
        return any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, Mapping):
        return any(has_lone_surrogate(name) or has_lone_surrogate(item) for name, item in value.items())
    return isinstance(value, list) and any(map(has_lone_surrogate, value))
