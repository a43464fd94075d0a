"""The rules that may still apply, by what they match, so that a request reads those that may match it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush, merge

from leyden.condition_index import ConditionIndex, RowIndex
from leyden.server.contract.types import Operation
from leyden.server.store.typed_table import TypedTable
from leyden.service_faults.kinds import STALE_READ, ServiceFaultRow, fits, is_spent


class ServiceFaultIndex(RowIndex):
    """An index of the rules that are not spent at `now`."""

    def __init__(self, rules: TypedTable[ServiceFaultRow], now: Callable[[], int]) -> None:
        super().__init__()
        self._rules = rules
        self._now = now
        self._index: ConditionIndex | None = None
        self._left: set[str] = set()
        self._stale_reads: set[str] = set()  # those of the kind `stale_read` among them
        self._ends: list[tuple[int, str]] = []  # until when (ms), and which rule

    def add(self, rule: ServiceFaultRow) -> None:
        """Add a rule, of which there is a row."""
        index = self._current()
        if not is_spent(rule, self._now()):
            self._changed = True
            self._left.add(rule["id"])
            if rule["kind"] == STALE_READ:
                self._stale_reads.add(rule["id"])
            index.add(_conditions(rule), self._item(rule))
            if rule["until"] is not None:
                heappush(self._ends, (rule["until"], rule["id"]))

    def clear(self) -> None:
        """Remove all rules, whose rows are deleted."""
        self._index, self._changed = ConditionIndex(), True
        self._left, self._stale_reads, self._ends = set(), set(), []

    def remove(self, rule: ServiceFaultRow) -> None:
        """Remove a rule that is spent, or whose row is about to be deleted."""
        if self._index is not None and rule["id"] in self._left:
            self._changed = True
            self._left.discard(rule["id"])
            self._stale_reads.discard(rule["id"])
            self._index.remove(_conditions(rule), self._item(rule))

    def matching(
        self, operation: Operation, method: str, path: str, *, is_stale_read: bool = False
    ) -> Iterator[ServiceFaultRow]:
        """The rules that match a request, the oldest first: those of the kind `stale_read`, or all others. None may be
        added or removed before the caller has read what it wants."""
        lists = self._current().matching((is_stale_read,), (operation.operation_id,), (method,), (path,))
        rows = (self._rules.existing(rule_id) for _, rule_id in merge(*lists))
        return (row for row in rows if fits(row, operation, method, path))

    def has_stale_read(self) -> bool:
        """Whether a rule of the kind `stale_read` may still apply."""
        self._current()
        return len(self._stale_reads) > 0

    def __len__(self) -> int:
        """The number of rules that may still apply."""
        if len(self._rules):
            self._current()
        return len(self._left)

    # Inside

    def _forget(self) -> None:
        self._index, self._left, self._stale_reads, self._ends = None, set(), set(), []

    def _current(self) -> ConditionIndex:
        """The index, without the rules whose time is over."""
        if self._index is None:
            self._index, self._changed = ConditionIndex(), True
            for rule in self._rules:
                self.add(rule)
        while self._ends and self._ends[0][0] <= self._now():
            ended = self._rules.row(heappop(self._ends)[1])
            if ended is not None:
                self.remove(ended)
        return self._index

    def _item(self, rule: ServiceFaultRow) -> tuple[int, str]:
        return self._rules.id_of(rule["id"]) or 0, rule["id"]


def _conditions(rule: ServiceFaultRow) -> tuple[bool, str | None, str | None, str | None]:
    """What a rule matches. A path with `*` matches any here, and is compared with that of the request."""
    path = rule["path"]
    is_pattern = path is not None and "*" in path
    return rule["kind"] == STALE_READ, rule["operation"], rule["method"], None if is_pattern else path
