"""Broken promises: what was promised and by whom, what was seen instead, told so that a person sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leyden.server.errors import LeydenError

# The checks by name, and what each looks after.
CHECKS = {
    "callback_contract": "callbacks are sent when and as promised",
    "lifecycle": "states change as the lifecycle tables say, and in no other way",
    "echo": "what was submitted comes back as it was",
    "isolation": "nobody sees another project's things",
    "invoice_agrees": "an invoice says what its Charge says",
    "errors_are_problems": "refusals are those declared, in the form declared",
}


class Broken(LeydenError):
    """The service did not do what was promised.

    `check` is one of `CHECKS`; `clause` the row or the entry of DECISIONS.md that promised otherwise; `where` the part
    of the world that was looked at. `story` is filled in by whoever knows the steps.
    """

    def __init__(self, check: str, clause: str, where: str, promised: Any, seen: Any) -> None:
        self.check = check
        self.clause = clause
        self.where = where
        self.promised = promised
        self.seen = seen
        super().__init__(f"{where}: promised {shown(promised)}, seen {shown(seen)} ({clause})")

    def fact(self) -> dict[str, str]:
        """The finding as plain texts, for a case."""
        return {
            "check": self.check,
            "clause": self.clause,
            "where": self.where,
            "promised": shown(self.promised),
            "seen": shown(self.seen),
        }


def shown(value: Any, most: int = 300) -> str:
    """A value in a line."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def difference(promised: Mapping[str, Any], seen: Any) -> tuple[Any, Any]:
    """The parts of two objects that differ, so that nobody has to look for them."""
    if not isinstance(seen, Mapping):
        return promised, seen
    absent = "(absent)"
    names = [name for name in {**promised, **seen} if promised.get(name, absent) != seen.get(name, absent)]
    if len(names) == 1 and isinstance(promised.get(names[0]), Mapping) and isinstance(seen.get(names[0]), Mapping):
        return difference(promised[names[0]], seen[names[0]])
    return {name: promised.get(name, absent) for name in names}, {name: seen.get(name, absent) for name in names}
