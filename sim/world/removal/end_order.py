"""The order in which the rows of a table ended, kept in the store: after a restart it is the same."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from typing import TypedDict, cast

from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable

TABLE = "ended"
_IDS_OF_ROW = 50


class EndedRow(TypedDict):
    """Table `ended`: document ids of rows of one table, in the order in which they ended. `id` is the name of that
    table and the `number` of this row, `charges/3`."""

    id: str
    number: int
    ids: list[int]


class EndOrder:
    """The document ids of the rows of one table that have ended, oldest first.

    Each is written when its row ends, in the same commit. A row that ends again has its last place. Rows that ended
    before a bound was set have no place: they come first, in the order of their creation.
    """

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name
        self._number = 0  # of the row that gets the next id
        self._number_of: OrderedDict[int, int] = OrderedDict()  # 0: it has no place in the store
        self._live: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._number_of)

    def read(self, ended: Sequence[int]) -> None:
        """Read the order of these rows, which have ended, from the store. They are in the order of their creation."""
        listed: OrderedDict[int, int] = OrderedDict()
        self._number = 1
        for row in self._written():
            self._number = max(self._number, row["number"])
            for doc_id in row["ids"]:
                listed[doc_id] = row["number"]
                listed.move_to_end(doc_id)
        self._number_of = OrderedDict((doc_id, 0) for doc_id in ended if doc_id not in listed)
        present = frozenset(ended)
        self._number_of.update((doc_id, number) for doc_id, number in listed.items() if doc_id in present)
        self._live = Counter(self._number_of.values())

    def add(self, doc_id: int) -> None:
        """This row ended now."""
        self.discard(doc_id)
        rows = self._rows()
        row = rows.row(f"{self._name}/{self._number}")
        if row is not None and len(row["ids"]) >= _IDS_OF_ROW:
            row = None
            self._number += 1
        ids = [] if row is None else row["ids"]
        rows.put({"id": f"{self._name}/{self._number}", "number": self._number, "ids": [*ids, doc_id]})
        self._number_of[doc_id] = self._number
        self._live[self._number] += 1

    def discard(self, doc_id: int) -> None:
        """This row is removed, or has not ended any more."""
        number = self._number_of.pop(doc_id, None)
        if number is None:
            return
        self._live[number] -= 1
        if number and not self._live[number] and number != self._number:
            del self._live[number]
            self._rows().delete(f"{self._name}/{number}")

    def oldest(self) -> int:
        """The row that ended longest ago; there is one."""
        return next(iter(self._number_of))

    def _written(self) -> Iterable[EndedRow]:
        if TABLE not in self._store.tables:
            return ()
        return [row for row in self._rows() if row["id"].startswith(f"{self._name}/")]

    def _rows(self) -> TypedTable[EndedRow]:
        return cast(TypedTable[EndedRow], self._store.table(TABLE, key="id"))
