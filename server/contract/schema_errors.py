"""The errors of a JSON Schema in a value from outside, at a cost that does not grow with their number.

`iter_errors` of jsonschema-rs builds every error before it returns the first one, at about two kilobytes each.
`validate` builds the first one alone, and it is the same. An error has copies of the value at its place, which take
seconds for one of megabytes: the errors of a large value are those of its first parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import is_
from typing import Any

from jsonschema_rs import ValidationError

from leyden.server.contract.types import Validator

# In a value of which several errors are listed.
_MOST_ITEMS, _MOST_MEMBERS = 250, 5_000
_SHORT = 8  # items
# The keywords that a value can violate because items of its arrays were left out.
_OF_MISSING_ITEMS = frozenset({"anyOf", "const", "contains", "enum", "minItems", "not", "oneOf"})


def first_error(validator: Validator, value: Any) -> ValidationError | None:
    """An error of a value: the first one, or of a large value the first one in its first parts; None if it is valid."""
    cut = _cut(value)
    if cut is None or cut is value:
        return _error_of(validator, value)
    return next(iter(_errors_of_large(validator, value, cut)), None)


def several_errors(validator: Validator, value: Any) -> Iterable[ValidationError]:
    """The errors of a value: all of them, or those within the first `_MOST_ITEMS` items of its arrays; the first one
    alone if these are valid, or if its objects have more than `_MOST_MEMBERS` members."""
    cut = _cut(value)
    if cut is None:
        error = _error_of(validator, value)
        return () if error is None else (error,)
    return list(validator.iter_errors(value)) if cut is value else _errors_of_large(validator, value, cut)


def _errors_of_large(validator: Validator, value: Any, cut: Any) -> Sequence[ValidationError]:
    """The errors of the `cut` value that the whole one has, too; the first one of the whole value if there is none."""
    if validator.is_valid(value):
        return ()
    errors = list(validator.iter_errors(cut))
    found = [error for error in errors if error.kind.name not in _OF_MISSING_ITEMS]
    if not found and len({tuple(error.instance_path) for error in errors}) == 1:
        place = list(errors[0].instance_path)
        if not validator.is_valid(_with_node(cut, place, _node(value, place))):
            found = errors
    first = None if found else _error_of(validator, value)
    return found if first is None else [first]


def _error_of(validator: Validator, value: Any) -> ValidationError | None:
    """The first error of a value, or None."""
    try:
        validator.validate(value)
    except ValidationError as error:
        return error
    return None


def _node(value: Any, place: Sequence[Any]) -> Any:
    for step in place:
        value = value[step]
    return value


def _with_node(cut: Any, place: Sequence[Any], node: Any) -> Any:
    """The cut value with the whole node at a place."""
    if not place:
        return node
    changed = cut.copy()
    changed[place[0]] = _with_node(cut[place[0]], place[1:], node)
    return changed


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

    def cut(self, items: list[Any]) -> list[Any]:
        """The first items, each of them cut, too. The budget may be exceeded so that a short array, which may have a
        least length, is complete, and by far so that no array looks like an empty one."""
        taken: list[Any] = []
        for item in items:
            if self.items <= 0 and len(taken) >= (_SHORT if self.items > -_MOST_MEMBERS else 1):
                break
            self.items -= 1
            taken.append(_with_fewer_items(item, self))
        return taken


def _cut(value: Any) -> Any:
    """The value within the budget: the same object if it is small; None if its objects have too many members."""
    budget = _Budget()
    cut = _with_fewer_items(value, budget)
    return None if budget.members < 0 else cut


def _with_fewer_items(value: Any, budget: _Budget) -> Any:
    """The value without the items beyond the budget; the same object if it has no more."""
    if isinstance(value, list):
        changed: Any = budget.cut(value)
        is_same = len(changed) == len(value) and all(map(is_, changed, value))
    elif isinstance(value, dict):
        budget.members -= len(value)
        if budget.members < 0:
            return value
        changed = {name: _with_fewer_items(member, budget) for name, member in value.items()}
        is_same = all(map(is_, changed.values(), value.values()))
    else:
        return value
    return value if is_same else changed
