"""The errors of a JSON Schema in a value from outside, at a cost that does not grow with their number.

`iter_errors` of jsonschema-rs builds every error before it returns the first one, at about two kilobytes each.
`validate` builds the first one alone, and it is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import is_
from typing import Any

from jsonschema_rs import ValidationError

from leyden.server.contract.types import Validator

# In a value of which several errors are listed.
_MOST_ITEMS, _MOST_MEMBERS = 250, 5_000


def first_error(validator: Validator, value: Any) -> ValidationError | None:
    """The first error of a value; None if it is valid."""
    try:
        validator.validate(value)
    except ValidationError as error:
        return error
    return None


def several_errors(validator: Validator, value: Any) -> Iterable[ValidationError]:
    """The errors of a value: all of them, or those within the first `_MOST_ITEMS` items of its arrays; the first one
    alone if these are valid, or if its objects have more than `_MOST_MEMBERS` members."""
    first = first_error(validator, value)
    if first is None:
        return ()
    budget = _Budget()
    cut = _with_fewer_items(value, budget)
    if budget.members < 0:
        return (first,)
    errors = list(validator.iter_errors(cut))
    if cut is value or (errors and _place(errors[0]) == _place(first)):
        return errors
    return (first,)


def with_short_alternatives(schema: Any) -> Any:
    """The schema with its alternatives (`anyOf`, `oneOf`) as double negations. It permits the same values with the same
    errors, except that the error of an alternative is one, however many places are wrong in it."""
    if isinstance(schema, list):
        return [with_short_alternatives(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {name: with_short_alternatives(part) for name, part in schema.items()}
    for name in ("anyOf", "oneOf"):
        if isinstance(found.get(name), list):
            found[name] = [{"not": {"not": alternative}} for alternative in found[name]]
    return found


class _Budget:
    """The items of arrays and the members of objects that one value may still have."""

    def __init__(self) -> None:
        self.items, self.members = _MOST_ITEMS, _MOST_MEMBERS

    def take(self, items: list[Any]) -> list[Any]:
        taken = items[: self.items]
        self.items -= len(taken)
        return taken


def _with_fewer_items(value: Any, budget: _Budget) -> Any:
    """The value without the items beyond the budget; the same object if it has no more."""
    if isinstance(value, list):
        taken = budget.take(value)
        changed: Any = [_with_fewer_items(item, budget) for item in taken]
        is_same = len(taken) == len(value) and all(map(is_, changed, value))
    elif isinstance(value, dict):
        budget.members -= len(value)
        if budget.members < 0:
            return value
        changed = {name: _with_fewer_items(member, budget) for name, member in value.items()}
        is_same = all(map(is_, changed.values(), value.values()))
    else:
        return value
    return value if is_same else changed


def _place(error: ValidationError) -> tuple[list[Any], list[Any]]:
    return list(error.instance_path), list(error.schema_path)
