"""The state table: what may become of a resource is written in the spec, and only this module moves it.

stored row --- trigger ---> the table's row for (status, trigger), first whose guard holds
                              |-- a transition: status, effects, one stored row
                              `-- a refusal: nothing changes, and the reason is known
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from leyden.server.contract.types import LifecycleRow, LifecycleTable
from leyden.server.ports import EventJournal

CREATION = "(creation)"

Guard = Callable[[Mapping[str, Any], int], bool]
Effect = Callable[[dict[str, Any], int], None]


class TransitionResult(NamedTuple):
    """What the table said: the resource's row as it now stands, and the table row that decided."""

    resource: dict[str, Any]
    rule: LifecycleRow

    @property
    def refused(self) -> bool:
        """Whether the table refused the trigger; `rule.refuse` and `rule.because` say why."""
        return self.rule.to is None


class Lifecycle:
    """One resource's state machine.

    `guards` answer questions about (row, instant). `effects` receive the draft of the new row and may add to it;
    they run in the table's order before the draft is stored by `put`. `put` and whatever effects store belong to
    the caller's commit.
    """

    def __init__(
        self,
        table: LifecycleTable,
        *,
        guards: Mapping[str, Guard],
        effects: Mapping[str, Effect],
        put: Callable[[dict[str, Any]], Any],
        journal: EventJournal,
    ) -> None:
        self.table = table
        self._put = put
        self._journal = journal
        self._rules: dict[tuple[str, str], list[tuple[Guard | None, LifecycleRow]]] = {}
        self._effects = effects
        for row in table.rows:
            guard = None if row.when is None else guards[row.when]
            self._rules.setdefault((row.source, row.trigger), []).append((guard, row))

    def decide(self, row: Mapping[str, Any], trigger: str, at: int) -> LifecycleRow:
        """The table row that answers `trigger` for a resource in the state it has at instant `at`. Changes nothing."""
        for guard, rule in self._rules[row.get("status") or CREATION, trigger]:
            if guard is None or guard(row, at):
                return rule
        # The loader holds every (state, trigger) to an unguarded last row.
        raise AssertionError(f"{self.table.resource}: no row holds for {trigger}")

    def apply(self, row: Mapping[str, Any], trigger: str, at: int, **changes: Any) -> TransitionResult:
        """Let `trigger` happen at instant `at`. The only place that writes a status."""
        rule = self.decide(row, trigger, at)
        if rule.to is None:
            self._journal.note("refused", row["id"], trigger=trigger, refuse=rule.refuse)
            return TransitionResult(dict(row), rule)
        draft = {**row, **changes, "status": rule.to}
        for effect in rule.effects:
            self._effects[effect](draft, at)
        self._put(draft)
        self._journal.note(trigger, draft["id"], resource=self.table.resource, status=rule.to)
        return TransitionResult(draft, rule)
