"""The amounts that an edited document's requests allow, as schemas of what is sent.

An amount is sent as a text of digits or as an integer. A payer chooses an amount between the bounds of a Static Charge:
what its payments show is any whole number between the least and the greatest one that a request allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import ceil, floor
from typing import Any, NamedTuple

from leyden.server.contract.json_schema.schemas import LateValidator
from leyden.server.contract.value_checks.pattern_inclusion import UnreadPattern, numbers_of, pattern_of_numbers
from leyden.server.contract.value_checks.schema_inclusion import Case, TooManyCases, cases, types_of, values_of

Schema = Mapping[str, Any]
MOST_DIGITS = 18  # of an amount that code reads
READ_AMOUNT = f"^[1-9][0-9]{{0,{MOST_DIGITS - 1}}}$"
_MOST = 10**MOST_DIGITS - 1
_NUMBERS = {"type": "integer", "minimum": 1, "maximum": _MOST}


class Bounds(NamedTuple):
    """The least and the greatest of some amounts, in millisatoshis."""

    least: int
    most: int

    def to_schema(self, *, as_text: bool) -> Schema:
        """All whole numbers between the bounds, as texts or as integers."""
        if as_text:
            return {"type": "string", "pattern": pattern_of_numbers(self.least, self.most)}
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


def amount_texts(request: Schema) -> Schema:
    """The texts of the amounts that the written-out schema of a request field allows."""
    try:
        return {"anyOf": [*_texts(request)]}
    except TooManyCases:
        return {"type": "string", "pattern": READ_AMOUNT}


def amount_bounds(requests: Iterable[Schema]) -> Bounds | None:
    """The bounds of the amounts that written-out schemas of request fields allow; None if they allow none."""
    try:
        found = [number for request in requests for case in cases([request]) for number in _ends(case)]
    except TooManyCases:
        found = [1, _MOST]
    return Bounds(min(found), max(found)) if found else None


def _texts(request: Schema) -> Iterator[Schema]:
    for case in cases([request]):
        values, types = values_of(case), types_of(case)
        if values is not None:
            yield {"enum": [str(int(one)) for one in _amounts(values, case)]}
            continue
        if "string" in types:
            form: list[Schema] = [{"type": "string"}, *case]
            yield {"allOf": [*form, *([] if any("pattern" in one for one in case) else [{"pattern": READ_AMOUNT}])]}
        if "integer" in types:
            bounds = _integers(case)
            yield {"enum": []} if bounds is None else bounds.to_schema(as_text=True)


def _ends(case: Case) -> Iterator[int]:
    """The least and the greatest amounts of a case, among others."""
    values, types = values_of(case), types_of(case)
    if values is not None:
        yield from (int(one) for one in _amounts(values, case))
        return
    if "string" in types:
        patterns = [one["pattern"] for one in case if "pattern" in one] or [READ_AMOUNT]
        validator = LateValidator({"allOf": [{"type": "string"}, *case]})
        numbers: set[int] = set()
        for pattern in patterns:
            try:
                numbers.update(numbers_of(pattern, MOST_DIGITS))
            except UnreadPattern:
                numbers.update((1, _MOST))
        yield from (one for one in numbers if len(patterns) > 1 or validator.is_valid(str(one)))
    bounds = _integers(case) if "integer" in types else None
    yield from bounds or ()


def _integers(case: Case) -> Bounds | None:
    limits = [_NUMBERS, *case]
    least = max(
        [
            *(ceil(one["minimum"]) for one in limits if "minimum" in one),
            *(floor(one["exclusiveMinimum"]) + 1 for one in limits if "exclusiveMinimum" in one),
        ]
    )
    most = min(
        [
            *(floor(one["maximum"]) for one in limits if "maximum" in one),
            *(ceil(one["exclusiveMaximum"]) - 1 for one in limits if "exclusiveMaximum" in one),
        ]
    )
    return Bounds(least, most) if least <= most else None


def _amounts(values: Iterable[Any], case: Case) -> list[Any]:
    """Those of the values that the case allows, and that code reads."""
    validator = LateValidator({"allOf": case})
    return [
        one
        for one in values
        if validator.is_valid(one)
        and (type(one) in (int, float) or (type(one) is str and one.isascii() and one.isdigit()))
        and 1 <= int(one) <= _MOST
    ]
