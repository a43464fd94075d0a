"""Pages: the ids of a table in order, in portions, for a list that is read page by page."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from leyden.server.store.tables.id_set import IdSet
from leyden.server.store.tables.table_data import TableData

_FIRST_PORTION, _LARGEST_PORTION = 256, 8_192


def id_portions(
    data: TableData,
    wanted: Mapping[str, Any],
    above: int | None = None,
    below: int | None = None,
    *,
    oldest_first: bool = False,
) -> Iterator[list[int]]:
    """The ids above `above` and below `below` (None: no bound) that may be those of rows with the values `wanted`, from
    the highest down, or from the lowest up with `oldest_first`, in portions of which none is empty.

    An id that is not in the index of a value is left out, so that no row is read for it. When an index leaves at most a
    quarter of the rows, its ids are sorted; otherwise the list of all ids is read from the bound on, in growing
    portions. So the most expensive page costs a small fixed amount for each id of the table, and the usual page does
    not depend on the size of the table.
    """
    groups = [
        data.with_value(field, value)
        for field, value in wanted.items()
        if (index := data.indexes.get(field)) is not None and index.count(value) is not None
    ]
    groups.sort(key=len)
    ids: Sequence[int]
    if groups and len(groups[0]) <= len(data.rows) // 4:
        ids, groups = sorted(in_all(groups[0], groups[1:])), []
    else:
        ids = data.order.ids(data.rows)
    start = 0 if above is None else bisect_right(ids, above)
    end = len(ids) if below is None else bisect_left(ids, below)
    portion = _FIRST_PORTION
    while start < end:
        if oldest_first:
            part = [*ids[start : min(start + portion, end)]]
            start += portion
        else:
            part = [*ids[max(end - portion, start) : end][::-1]]
            end -= portion
        if groups:
            part = [*in_all(part, groups)]
        if part:
            yield part
        portion = min(2 * portion, _LARGEST_PORTION)


def in_all(ids: Collection[int], groups: Iterable[Container[int]]) -> Collection[int]:
    """Those of the ids that are in every group, in the same order."""
    for group in groups:
        ids = group.among(ids) if isinstance(group, IdSet) else [doc_id for doc_id in ids if doc_id in group]
    return ids
