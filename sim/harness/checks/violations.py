"""Violations: what was expected and by which rule, and what was observed instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from leyden.server.errors import LeydenError

# The checks, and what each requires.
CHECKS = {
    "callback_contract": "callbacks are sent when and as the contract says",
    "lifecycle": "states change as the lifecycle tables say, and in no other way",
    "echo": "a resource shows the values that were submitted",
    "isolation": "a project does not see another project's resources",
    "invoice_agrees": "an invoice agrees with its Charge",
    "answers_are_declared": "a success has the status, the media type and the envelope of the contract",
    "errors_are_problems": "errors are those that the contract declares, as problem documents",
}


class ContractViolation(LeydenError):
    """The service did something else than its contract says.

    `check` is one of `CHECKS`; `rule` is the name of an entry of DECISIONS.md, a place of the document
    (`charges.openapi.yaml#/...`), or other words, such as a row of a lifecycle table; `where` says what was checked: a
    request, a resource, a delivery.
    """

    def __init__(self, check: str, rule: str, where: str, expected: Any, observed: Any) -> None:
        self.check = check
        self.rule_id = rule_id = rule if " " in rule or "#" in rule else f"DECISIONS {rule}"
        self.where = where
        self.expected = expected
        self.observed = observed
        super().__init__(f"{where}: expected {one_line(expected)}, observed {one_line(observed)} ({rule_id})")

    def without(self, hide: Callable[[str], str]) -> ContractViolation:
        """The violation with texts that `hide` makes of those about the service."""
        values = (self.where, self.expected, self.observed)
        where, *texts = (hide(value if isinstance(value, str) else repr(value)) for value in values)
        return ContractViolation(self.check, self.rule_id, where, *texts)

    def as_dict(self, limit: int = 300) -> dict[str, str]:
        """The violation as texts of at most `limit` characters, for the `expectation` of a case."""
        return {
            "check": self.check,
            "ruleId": self.rule_id,
            "where": self.where,
            "expected": one_line(self.expected, limit),
            "observed": one_line(self.observed, limit),
        }


def one_line(value: Any, limit: int = 300) -> str:
    """A value as text of at most `limit` characters."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def difference(expected: Mapping[str, Any], observed: Any) -> tuple[Any, Any]:
    """Only those members of two objects that differ, as (expected, observed), each at its place: an object within an
    object has only its own members that differ."""
    if not isinstance(observed, Mapping):
        return expected, observed
    absent = "(absent)"
    wanted, found = dict[str, Any](), dict[str, Any]()
    for name in {**expected, **observed}:
        one, other = expected.get(name, absent), observed.get(name, absent)
        if not same_json(one, other):
            both = isinstance(one, Mapping) and isinstance(other, Mapping)
            wanted[name], found[name] = difference(one, other) if both else (one, other)
    return wanted, found


def same_json(expected: Any, observed: Any) -> bool:
    """Whether two JSON values are equal, including the types of numbers."""
    if expected != observed:
        return False
    text = _dumped(expected)  # equal texts are the quick way to know it
    return (text is not None and text == _dumped(observed)) or bool(_types(expected) == _types(observed))


def _dumped(value: Any) -> bytes | None:
    """A value as JSON, in which 1, 1.0 and true differ. None for one that orjson does not write."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # a large integer, half of a surrogate pair
        return None


def _types(value: Any) -> Any:
    # In Python 1, 1.0 and True are equal; in JSON they differ.
    if isinstance(value, dict):
        return {name: _types(item) for name, item in value.items() if not isinstance(item, str)}
    return [_types(item) for item in value] if isinstance(value, list) else type(value)
