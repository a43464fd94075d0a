"""Violations: what was expected and by which rule, and what was observed instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leyden.server.errors import LeydenError

# The checks, and what each requires.
CHECKS = {
    "callback_contract": "callbacks are sent when and as the contract says",
    "lifecycle": "states change as the lifecycle tables say, and in no other way",
    "echo": "a resource shows the values that were submitted",
    "isolation": "a project does not see another project's resources",
    "invoice_agrees": "an invoice agrees with its Charge",
    "errors_are_problems": "errors are those that the contract declares, as problem documents",
}


class ContractViolation(LeydenError):
    """The service did something else than its contract says.

    `check` is one of `CHECKS`; `rule` is the name of an entry of DECISIONS.md, or other words, such as a row of a
    lifecycle table; `where` says what was checked: a request, a resource, a delivery.
    """

    def __init__(self, check: str, rule: str, where: str, expected: Any, observed: Any) -> None:
        self.check = check
        self.rule_id = rule_id = rule if " " in rule else f"DECISIONS {rule}"
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
    """Only those members of two objects that differ, as (expected, observed)."""
    if not isinstance(observed, Mapping):
        return expected, observed
    absent = "(absent)"
    names = [name for name in {**expected, **observed} if expected.get(name, absent) != observed.get(name, absent)]
    if len(names) == 1:
        inner, other = expected.get(names[0]), observed.get(names[0])
        if isinstance(inner, Mapping) and isinstance(other, Mapping):
            return difference(inner, other)
    return {name: expected.get(name, absent) for name in names}, {name: observed.get(name, absent) for name in names}
