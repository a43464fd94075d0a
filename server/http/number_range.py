"""The numbers that the service keeps and sends as they are: whole numbers of 64 bits, and others in the range of a
double. JSON has greater ones, which a schema without bounds allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isinf
from typing import Any

from leyden.server.contract.json_pointer import child
from leyden.server.errors import FieldError

# A whole number with a sign or without one, as the encoder of the answers writes it.
LEAST, GREATEST = -(2**63), 2**64 - 1
WHOLE = f"this whole number does not fit into 64 bits: send one from {LEAST} to {GREATEST}"
_GREATEST_DOUBLE = "1.7976931348623157e308"
DOUBLE = f"this number is out of range: send one from -{_GREATEST_DOUBLE} to {_GREATEST_DOUBLE}"
_MAX_POINTER, _MAX_ERRORS = 300, 20
_EXPECTED = "expected "  # the start of a detail that says what a good value is


def with_range_errors(errors: Sequence[FieldError], value: Any) -> list[FieldError]:
    """The `errors` of a JSON value, with one for each number in it that the service cannot keep, at most twenty.

    A detail that says what is expected is kept. Another one at such a number, or at what contains it, describes the
    number as the validator has read it, and is left out.
    """
    if not _has_great_number(value):
        return [*errors]
    found = list(_range_errors(value, ""))
    expected = {error.pointer for error in errors if error.detail.startswith(_EXPECTED)}
    places = [error.pointer for error in found]
    kept = [
        error
        for error in errors
        if error.pointer in expected or not any(f"{place}/".startswith(f"{error.pointer}/") for place in places)
    ]
    return [*kept, *(error for error in found if error.pointer not in expected)][:_MAX_ERRORS]


def _has_great_number(value: Any) -> bool:
    """Whether the value has a number out of range, found without recursion."""
    rest = [value]
    while rest:
        one = rest.pop()
        kind = type(one)
        if kind is dict:
            rest.extend(one.values())
        elif kind is list:
            rest.extend(one)
        elif (kind is int and not LEAST <= one <= GREATEST) or (kind is float and isinf(one)):
            return True
    return False


def _range_errors(value: Any, pointer: str) -> Iterator[FieldError]:
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _range_errors(item, child(pointer, key))
    elif _has_great_number(value):
        yield FieldError(pointer[:_MAX_POINTER], WHOLE if isinstance(value, int) else DOUBLE)
