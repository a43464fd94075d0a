"""Obligations of the rules of an inbox: each pair of conditions in both orders, and how often a rule answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from leyden.harness.obligations.obligation import Obligation

_CONDITIONS: tuple[Mapping[str, Any], ...] = (
    {}, {"event": "charge.completed"}, {"event": "charge.error"}, {"attempt": 1}, {"attempt": 2}, {"charge": 0},
    {"charge": 1}, {"event": "charge.completed", "attempt": 2},
)  # fmt: skip
_COUNTS = ((1, 1), (2, None), (None, 1))


def inbox_rule_obligations() -> Iterator[Obligation]:
    """Two rules with different answers: which one answers shows which one is the oldest that matches."""
    source = "sandbox.openapi.yaml#/paths/~1sandbox~1v1~1inboxes~1{name}~1script/put"
    for (first, second), counts in product(product(_CONDITIONS, repeat=2), _COUNTS):
        rules = [{"say": 500, **first, "count": counts[0]}, {"say": 502, **second, "count": counts[1]}]
        step: Any = {"do": "control_inbox", "rules": rules}
        case = f"{_text(first)} {counts[0]} times, then {_text(second)} {counts[1]} times"
        yield Obligation("scriptInbox", "inbox-rules", case, source, (step,), setup="control-empty")


def _text(condition: Mapping[str, Any]) -> str:
    return " and ".join(f"{name} {value}" for name, value in condition.items()) or "any"
