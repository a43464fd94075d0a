"""Amounts: whole millisatoshis, parsed from text once in a request and formatted once in a response."""

from __future__ import annotations

import re
from typing import NewType

from leyden.server.errors import InvalidAmount

Msat = NewType("Msat", int)

_WIRE_AMOUNT = re.compile(r"[1-9][0-9]{0,17}")


def parse_msat(text: str | int) -> Msat:
    """Parse an amount in millisatoshis: decimal ASCII digits, no sign, no space, no leading zero.

    A positive `int` is returned as it is: whether a request may contain a JSON number (the `lenient` overlay) and the
    bounds of an amount are checked before, against the spec.

    Raises `InvalidAmount` for anything else, including zero.
    """
    if isinstance(text, int) and not isinstance(text, bool) and text > 0:
        return Msat(text)
    if isinstance(text, str) and _WIRE_AMOUNT.fullmatch(text):
        return Msat(int(text))
    raise InvalidAmount(f'{text!r} is not an amount: write whole millisatoshis as digits, for example "50000"')


def to_wire(amount: int) -> str:
    """Format millisatoshis as the specification does: a string of decimal digits."""
    return str(amount)
