"""The faults that are left, by what they match: an attempt reads those that may apply to it, however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge

from leyden.callbacks.faults.kinds import HOLDING_KINDS, RATE_LIMIT, FaultRow, is_spent
from leyden.condition_index import ConditionIndex, RowIndex
from leyden.server.callbacks.delivery_row import DeliveryRow
from leyden.server.store.typed_table import TypedTable

SENDING = "sending"  # all kinds but those that hold an attempt, and `rate_limit`


class FaultIndex(RowIndex):
    """An index of the faults that are not spent. A spent one is removed when it is found."""

    def __init__(self, faults: TypedTable[FaultRow]) -> None:
        super().__init__()
        self._faults = faults
        self._index: ConditionIndex | None = None

    def add(self, fault: FaultRow) -> None:
        """Add a fault, of which there is a row, or one that is no longer spent. No effect on one that is here."""
        self._add(self._built(), fault)

    def clear(self) -> None:
        """Remove all faults, whose rows are deleted."""
        self._index, self._changed = ConditionIndex(), True

    def remove(self, fault: FaultRow) -> None:
        """Remove a fault that will not apply any more, although it is not spent."""
        if self._index is not None:
            self._index.remove(_conditions(fault), self._item(fault))
            self._changed = True

    def of_attempt(self, groups: tuple[str, ...], delivery: DeliveryRow, number: int) -> Iterator[FaultRow]:
        """The faults of these groups, `SENDING` or kinds that hold an attempt, that match attempt `number` of a
        delivery, the oldest first. None may be added or removed before the caller has read what it wants."""
        rules, events = (delivery["rule"],), (delivery["event"],)
        charges = (delivery["resource_id"], delivery.get("endpoint_id"))
        return self._left(self._built().matching(groups, rules, events, charges, (number,)))

    def of_request(self, operation_id: str) -> Iterator[FaultRow]:
        """The faults `rate_limit` that match a request of an operation, the oldest first."""
        return self._left(self._built().matching((RATE_LIMIT,), (operation_id,), (), (), ()))

    # Inside

    def _forget(self) -> None:
        self._index = None

    def _built(self) -> ConditionIndex:
        if self._index is None:
            index = self._index = ConditionIndex()
            self._changed = True
            for fault in self._faults:
                self._add(index, fault)
        return self._index

    def _add(self, index: ConditionIndex, fault: FaultRow) -> None:
        self._changed = True
        if not is_spent(fault):
            index.add(_conditions(fault), self._item(fault))

    def _item(self, fault: FaultRow) -> tuple[int, str]:
        return self._faults.id_of(fault["id"]) or 0, fault["id"]

    def _left(self, lists: Iterator[list[tuple[int, str]]]) -> Iterator[FaultRow]:
        found = list(lists)
        for items in found:
            left = next((place for place, (_, id) in enumerate(items) if self._row(id) is not None), len(items))
            if left:
                del items[:left]
                self._changed = True
        for _, fault_id in merge(*found):
            fault = self._row(fault_id)
            if fault is not None:
                yield fault

    def _row(self, fault_id: str) -> FaultRow | None:
        """The row of a fault that is not spent; None for one that is, or was cleared."""
        fault = self._faults.row(fault_id)
        return None if fault is None or is_spent(fault) else fault


def _conditions(fault: FaultRow) -> tuple[str, str | None, str | None, str | None, int | None]:
    kind = fault["kind"]
    group = kind if kind in HOLDING_KINDS or kind == RATE_LIMIT else SENDING
    return group, fault["operation"], fault["event"], fault["charge"], fault["attempt"]
