"""The names that a request has and its operation ignores: fields, parameters and headers [request-bodies, idempotency].

Written from the documents and the entries [request-bodies] and [idempotency] of DECISIONS.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import Any
from urllib.parse import parse_qsl

from leyden.harness.model.requests import Operation
from leyden.harness.model.rules import FIELDS

_KEY = "Idempotency-Key"
_LETTERS = _KEY.replace("-", "").lower()
# Its letters with one less, one other, two exchanged, or one more.
_SLIPS = frozenset(
    one
    for at in range(len(_LETTERS) + 1)
    for one in (
        _LETTERS[:at] + _LETTERS[at + 1 :],
        _LETTERS[:at] + _LETTERS[at + 1 : at + 2] + _LETTERS[at : at + 1] + _LETTERS[at + 2 :],
        *(_LETTERS[:at] + letter + _LETTERS[at + len_ :] for letter in ascii_lowercase for len_ in (0, 1)),
    )
)
STATES = {
    "listCharges": ("pending", "completed", "expired", "error"),
    "listStaticCharges": ("active", "disabled", "expired"),
    "listStaticChargeCharges": ("pending", "completed", "expired", "error"),
}
_LIST_QUERY = ("limit", "after", "status", "internalId", "createdAfter", "createdBefore")
QUERY = {**dict.fromkeys(STATES, _LIST_QUERY), "requestInvoice": ("amount", "comment")}
# The field of resources that has one value [request-bodies], and the operations that answer with such a resource.
_FIXED = {"unit": "msats"}
_WITH_UNIT = frozenset({"createCharge", "createStaticCharge", "updateStaticCharge", "getWallet", "getChargeDetails",
                        "getStaticChargeDetails"})  # fmt: skip
# They create or change something. The invoice of a link belongs to a new Charge.
_WITH_EFFECT = frozenset({"createCharge", "createStaticCharge", "updateStaticCharge", "requestInvoice"})
BODIES = {"createCharge": "charge", "createStaticCharge": "static", "updateStaticCharge": "changes"}


def ignored_names(one: Operation, body: Mapping[str, Any], strict: bool, headers: Sequence[str]) -> list[str]:
    """The fields of a body that the operation does not know [request-bodies], which `strict` refuses, and the header
    Idempotency-Key where it has no effect, or under another name [idempotency]."""
    known = known_names(one) if one.has_body else ()
    names = [] if strict else [name for name in body if name not in known]
    if one.name not in _WITH_EFFECT:
        return names
    if one.method != "POST" and any(name.lower() == _KEY.lower() for name in headers):
        names.append(_KEY)
    return [*names, *slips_of(one, headers)]


def slips_of(one: Operation, headers: Sequence[str]) -> tuple[str, ...]:
    """The headers of a request that creates or changes something that are a slip of Idempotency-Key, with capitals."""
    found = [name.title() for name in headers if _is_misspelt_key(name.lower())]
    return tuple(dict.fromkeys(found)) if one.name in _WITH_EFFECT else ()


def fixed_values(one: Operation, body: Mapping[str, Any]) -> dict[str, str]:
    """The ignored fields of a body of which the resource has another value in any case [request-bodies]."""
    return {name: value for name, value in _FIXED.items()
            if one.name in _WITH_UNIT and name in body and body[name] != value}  # fmt: skip


def unused_key(one: Operation, headers: Sequence[str]) -> tuple[str, ...]:
    """The header Idempotency-Key, if the request could have it and has not."""
    return (_KEY,) if one.method == "POST" and all(name.lower() != _KEY.lower() for name in headers) else ()


def _is_misspelt_key(name: str) -> bool:
    """Whether a header has nearly the name of Idempotency-Key: its first word, or one letter less, more or other, or
    two exchanged. The model knows of no other slips than these."""
    letters = re.sub("[-_.]", "", name)
    return name != _KEY.lower() and ("idempoten" in letters or letters in _SLIPS or letters.removeprefix("x") in _SLIPS)


def names_in(
    one: Operation, query: str, body: Mapping[str, Any], headers: Sequence[str], strict: bool
) -> tuple[str, ...]:
    """The names that a request has and its operation ignores: of a wallet's query, of the body, and the headers."""
    known = QUERY.get(one.name, ())
    unknown = [name for name, _ in parse_qsl(query, keep_blank_values=True) if name not in known] if one.wallet else []
    return (*dict.fromkeys(unknown), *ignored_names(one, body, strict and not one.wallet, headers))


def known_names(one: Operation) -> tuple[str, ...]:
    """The names that a request may have: the fields of its body, or the parameters of its query."""
    return FIELDS[BODIES[one.name]] if one.has_body else QUERY.get(one.name, ())
