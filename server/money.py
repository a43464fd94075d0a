"""Money: whole millisatoshis, read from text once at the door and written as text once on the way out."""

from __future__ import annotations

import re
from typing import NewType

from leyden.server.errors import InvalidAmount

Msat = NewType("Msat", int)

_WIRE_AMOUNT = re.compile(r"[1-9][0-9]{0,17}")


def parse_msat(text: str | int) -> Msat:
    """Read a wire amount in millisatoshis: decimal ASCII digits, no sign, no space, no leading zero.

    An `int` is taken as it is: whether a JSON number may stand here at all is the contract's decision (the
    `lenient` overlay), made before this is called. Bounds are the contract's too.

    Raises `InvalidAmount` for anything else, zero included.
    """
    if isinstance(text, int) and not isinstance(text, bool) and text > 0:
        return Msat(text)
    if isinstance(text, str) and _WIRE_AMOUNT.fullmatch(text):
        return Msat(int(text))
    raise InvalidAmount(f'{text!r} is not an amount: write whole millisatoshis as digits, for example "50000"')


def to_wire(amount: int) -> str:
    """Write millisatoshis as the specification shows them: a string of decimal digits."""
    return str(amount)
