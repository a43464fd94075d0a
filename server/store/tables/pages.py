"""Pages: the ids of a table in order, in portions, for a list that is read page by page."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from leyden.server.store.tables.table_data import TableData

_FIRST_PORTION, _LARGEST_PORTION = 256, 8_192


def id_portions(
    data: TableData, wanted: Mapping[str, Any], after: int | None, *, oldest_first: bool = False
) -> Iterator[list[int]]:
    """The ids beyond `after` of rows that may have the values `wanted`, from the highest down, or from the lowest up
    with `oldest_first`, in growing portions.

    When an index leaves at most a quarter of the rows, those are sorted; otherwise the list of all ids is read from
    `after`. So the most expensive page costs a small fixed amount for each row of the table, and the usual page does
    not depend on the size of the table.
    """
    groups = [
        data.with_value(field, value)
        for field, value in wanted.items()
        if (index := data.indexes.get(field)) is not None and index.count(value) is not None
    ]
    groups.sort(key=len)
    if groups and len(groups[0]) <= len(data.rows) // 4:
        ids = sorted(doc_id for doc_id in groups[0] if all(doc_id in group for group in groups[1:]))
    else:
        ids = data.order.ids(data.rows)
    portion = _FIRST_PORTION
    if oldest_first:
        start = 0 if after is None else bisect_right(ids, after)
        while start < len(ids):
            yield ids[start : start + portion]
            start, portion = start + portion, min(2 * portion, _LARGEST_PORTION)
        return
    end = len(ids) if after is None else bisect_left(ids, after)
    while end > 0:
        start = max(end - portion, 0)
        yield ids[start:end][::-1]
        end, portion = start, min(2 * portion, _LARGEST_PORTION)
