"""Amounts: whole millisatoshis, parsed from text once in a request and formatted once in a response."""

from __future__ import annotations

import re
from typing import NewType

from leyden.server.errors import InvalidAmount
from leyden.server.printable import quoted

Msat = NewType("Msat", int)

_DIGITS = re.compile(r"0|[1-9][0-9]*")
_MAX_DIGITS, _SHOWN_DIGITS = 18, 40


class AmountOutOfRange(InvalidAmount):
    """Digits that mean less or more than an amount can be."""

    def __init__(self, digits: str, least: str, most: str) -> None:
        super().__init__(f"amount {digits} is out of range: give {least} to {most} millisatoshis")
        self.digits = digits


def parse_msat(text: str | int) -> Msat:
    """Parse an amount in millisatoshis: decimal ASCII digits, no sign, no space, no leading zero.

    A positive `int` is returned as it is: whether a request may contain a JSON number (the `lenient` overlay) and the
    bounds of an amount are checked before, against the spec.

    Raises `InvalidAmount` for anything else, including zero, and `AmountOutOfRange` for digits that mean too little or
    too much.
    """
    if isinstance(text, int) and not isinstance(text, bool) and text > 0:
        return Msat(text)
    if not isinstance(text, str) or not _DIGITS.fullmatch(text):
        raise InvalidAmount(
            f'{quoted(text)} is not an amount: write whole millisatoshis as digits, for example "50000"'
        )
    if text == "0" or len(text) > _MAX_DIGITS:
        digits = text if len(text) <= _SHOWN_DIGITS else f"of {len(text)} digits"
        raise AmountOutOfRange(digits, "1", "9" * _MAX_DIGITS)
    return Msat(int(text))


def to_wire(amount: int) -> str:
    """Format millisatoshis as the specification does: a string of decimal digits."""
    return str(amount)
