"""The lifecycle of a resource: the spec's state table decides, and only this module changes a status.

stored row --- trigger ---> the table's rows for (status, trigger), the first whose guard holds
                              |-- a transition: new status, effects, one stored row
                              `-- a refusal: nothing changes, and the table gives the reason
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from leyden.server.contract.lifecycle_rows import CREATION, EXPIRY_REACHED, check_functions, check_triggers
from leyden.server.contract.types import LifecycleRow, LifecycleTable
from leyden.server.ports import EventJournal

R = TypeVar("R")
Guard = Callable[[Any, int], bool]
Effect = Callable[[Any, int], None]


def states_after_expiry(table: LifecycleTable) -> frozenset[str]:
    """The states in which a resource can be after its expiry was reached, which is reported once."""
    found: set[str] = set()
    for state in table.states:
        if state not in table.terminal:
            rows = [row for row in table.rows if (row.source, row.trigger) == (state, EXPIRY_REACHED)]
            found.update(state if row.to is None else row.to for row in rows)
    while more := {row.to for row in table.rows if row.source in found and row.to is not None} - found:
        found |= more
    return frozenset(found)


class TransitionResult(NamedTuple, Generic[R]):
    """The resource's row after a trigger, and the row of the lifecycle table that decided."""

    resource: R
    rule: LifecycleRow

    @property
    def refused(self) -> bool:
        """Whether the table refused the trigger; `rule.refuse` and `rule.because` give the reason."""
        return self.rule.to is None


class Lifecycle(Generic[R]):
    """The state machine of one resource, whose rows have the type `R`.

    `triggers` are those that the code applies; a table without states is that of a resource that is never created.
    A guard gets (row, instant). An effect gets (draft, instant) and may add fields to the draft of the new row; the
    effects run in the table's order before `put` stores the draft. All writes belong to the caller's commit.
    """

    def __init__(
        self,
        table: LifecycleTable,
        *,
        triggers: Collection[str],
        guards: Mapping[str, Guard],
        effects: Mapping[str, Effect],
        put: Callable[[R], Any],
        journal: EventJournal,
    ) -> None:
        check_functions(table, guards, effects)
        if table.states:
            check_triggers(table, triggers)
        self.table = table
        self._put = put
        self._journal = journal
        self._rules: dict[tuple[str, str], list[tuple[Guard | None, LifecycleRow]]] = {}
        self._effects = effects
        self._final = frozenset(table.terminal)
        self._after_expiry = states_after_expiry(table)
        for row in table.rows:
            guard = None if row.when is None else guards[row.when]
            self._rules.setdefault((row.source, row.trigger), []).append((guard, row))

    def awaits_expiry(self, row: Mapping[str, Any], now: int) -> bool:
        """Whether the expiry of a stored row, in milliseconds, is still to be reported at the instant `now`."""
        status, expires_at = row["status"], row["expires_at"]
        if expires_at is None or status in self._final:
            return False
        return status not in self._after_expiry or expires_at > now

    def decide(self, row: Mapping[str, Any], trigger: str, at: int) -> LifecycleRow:
        """The row of the table that applies to `trigger` at instant `at`. Changes nothing."""
        for guard, rule in self._rules[row.get("status") or CREATION, trigger]:
            if guard is None or guard(row, at):
                return rule
        # The loader checks that the last row of every (state, trigger) has no guard.
        raise AssertionError(f"{self.table.resource}: no row applies to {trigger}")

    def apply(self, row: Mapping[str, Any], trigger: str, at: int, **changes: Any) -> TransitionResult[R]:
        """Apply `trigger` at instant `at`, with further `changes` of the row. Only this method changes a status."""
        rule = self.decide(row, trigger, at)
        draft: Any
        if rule.to is None:
            draft = dict(row)
            self._journal.note("refused", draft["id"], trigger=trigger, refuse=rule.refuse)
            return TransitionResult(draft, rule)
        draft = {**row, **changes, "status": rule.to}
        for effect in rule.effects:
            self._effects[effect](draft, at)
        self._put(draft)
        self._journal.note(trigger, draft["id"], resource=self.table.resource, status=rule.to)
        return TransitionResult(draft, rule)
