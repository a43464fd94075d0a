"""The former content of tables, which is freed in steps, because freeing a large dict at once takes long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from leyden.server.store.tables.table_data import TableData

ITEMS_PER_STEP = 500


class FormerContent:
    """Keeps the present dicts of tables, so that nothing frees them when the tables get other ones."""

    def __init__(self, tables: Iterable[TableData]) -> None:
        self._tables = [*tables]
        self._dicts = _dicts(self._tables)

    def free(self) -> Iterator[None]:
        """Empty the dicts that no table has any more, step by step. Nothing else may use these dicts."""
        in_use = {id(one) for one in _dicts(self._tables)}
        while self._dicts:
            one = self._dicts.pop()
            while id(one) not in in_use and one:
                for _ in range(min(ITEMS_PER_STEP, len(one))):
                    one.popitem()
                yield


def _dicts(tables: Iterable[TableData]) -> list[dict[Any, Any]]:
    found: list[dict[Any, Any]] = []
    for table in tables:
        found += [*table.rows.contents, table.keys, *(index.groups for index in table.indexes.values())]
    return found
