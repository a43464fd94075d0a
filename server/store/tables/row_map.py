"""The rows of a table by document id. Rows that were replaced a while ago are kept packed, and read as before."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from leyden.server.store.tables.packed import pack_with_summary, summary_of, unpack_after_summary

Row = dict[str, Any]
Summarize = Callable[[Any], tuple[Any, ...]]  # some facts of a row as a tuple of plain values

# A row takes about four times as much memory as a dict as it does in a block.
UNPACKED_ROWS = 192  # at least so many of the rows that were replaced last are dicts
BLOCK_ROWS = 16
_CACHED_BLOCKS = 16
REPLACED_TOGETHER = 64  # ids of replaced rows that are given to `pack` together


class RowMap(Mapping[int, Row]):
    """Rows by document id, in the order in which they were inserted.

    A row is an exact `dict` of plain values that is replaced and never changed. The table packs the rows that were
    replaced longest ago, sixteen in one `bytes` object; each of their ids refers to that object, and reading one of
    them unpacks the sixteen. A row that was never replaced stays a dict, because what is pending is changed when it
    ends, unless the table says that its rows are final; so does a row with a value that is not plain. A block has the
    summaries of its rows beside them, so that a reading of the whole table need not unpack it.

    `_cells` has the block of each id, or None for a row that is a dict in `_dicts`: the garbage collector of CPython
    does not go through a dict of plain values, up to Python 3.13.
    """

    __slots__ = ("_cells", "_dicts", "_oldest", "_unpacked", "_written")

    def __init__(self, rows: Mapping[int, Row] | None = None) -> None:
        """The map keeps the rows themselves."""
        self._dicts: dict[int, Row] = dict(rows or {})
        self._cells: dict[int, bytes | None] = dict.fromkeys(self._dicts)
        self._written: deque[tuple[int, Row]] | None = None  # what was replaced since, oldest first
        self._oldest: dict[int, Row] = {}  # what is packed next
        self._unpacked: dict[bytes, dict[int, Row]] = {}  # the blocks that were read last

    def __getitem__(self, doc_id: int) -> Row:
        block = self._cells[doc_id]
        return self._dicts[doc_id] if block is None else self._row(doc_id, block)

    def get(self, doc_id: int, default: Any = None) -> Any:
        """The row, or `default`."""
        block = self._cells.get(doc_id)
        return self._dicts.get(doc_id, default) if block is None else self._row(doc_id, block)

    def __contains__(self, doc_id: object) -> bool:
        return doc_id in self._cells

    def __iter__(self) -> Iterator[int]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)

    @property
    def contents(self) -> tuple[dict[int, bytes | None], dict[int, Row]]:
        """The blocks in which rows are packed, and the rows that are not, by document id. `sort` replaces the first;
        both are shared with nothing."""
        return self._cells, self._dicts

    def copy(self) -> RowMap:
        """A map with the same rows. The rows and blocks are shared."""
        copy = RowMap()
        copy._cells, copy._dicts = self._cells.copy(), self._dicts.copy()
        return copy

    def set(self, doc_id: int, row: Row) -> None:
        """Insert or replace a row."""
        self._dicts[doc_id] = row
        self._cells[doc_id] = None

    def remove(self, doc_id: int) -> None:
        """Delete a row. Raises `KeyError` when there is none."""
        del self._cells[doc_id]
        self._dicts.pop(doc_id, None)

    def sort(self, ids: Iterable[int]) -> None:
        """Bring the rows into the order of `ids`. Rows with other ids are removed."""
        cells = self._cells
        self._cells = {doc_id: cells[doc_id] for doc_id in ids if doc_id in cells}
        for doc_id in [doc_id for doc_id in self._dicts if doc_id not in self._cells]:
            del self._dicts[doc_id]

    # Packing

    def pack(self, replaced: Iterable[int], summarize: Summarize | None = None) -> None:
        """Note the ids of rows that a commit has replaced, and pack the same number of rows: those that were replaced
        longest ago.

        `summarize` gives the summaries that a block has.
        """
        dicts, queue = self._dicts, self._written
        for doc_id in replaced:
            if (row := dicts.get(doc_id)) is not None:
                if queue is None:
                    # Most tables of a small store never replace a row, and an empty deque takes 600 bytes.
                    queue = self._written = deque()
                queue.append((doc_id, row))
        while queue is not None and len(queue) > UNPACKED_ROWS:
            doc_id, row = queue.popleft()
            if dicts.get(doc_id) is row:
                self._oldest[doc_id] = row
                if len(self._oldest) == BLOCK_ROWS:
                    rows = {doc_id: row for doc_id, row in self._oldest.items() if dicts.get(doc_id) is row}
                    self._pack_rows(rows, summarize)
                    self._oldest = {}

    def summaries(self, summarize: Summarize, ids: Iterable[int] | None = None) -> dict[int, tuple[Any, ...]]:
        """`summarize(row)` of each row by document id, in the order of the rows; or of those with these ids, in their
        order.

        It is read from the blocks that have it. `summarize` is the function that `pack` was given.
        """
        dicts = self._dicts
        cells = self._cells if ids is None else {doc_id: self._cells[doc_id] for doc_id in ids}
        blocks = dict.fromkeys([block for block in cells.values() if block is not None])
        found: dict[int, tuple[Any, ...]] = {}
        of_blocks = []
        for block in blocks:
            summary = summary_of(block)
            if summary is None:  # it was packed before the table had a summary
                summary = {row_id: summarize(row) for row_id, row in unpack_after_summary(block).items()}
            of_blocks.append(summary)
            found.update(summary)
        if sum(map(len, of_blocks)) > len(found):  # a row is in two blocks, because it was replaced
            found = {row_id: one[row_id] for one, block in zip(of_blocks, blocks, strict=True)
                     for row_id in one if cells.get(row_id) is block}  # fmt: skip
        return {doc_id: summarize(dicts[doc_id]) if block is None else found[doc_id] for doc_id, block in cells.items()}

    def _pack_rows(self, rows: dict[int, Row], summarize: Summarize | None) -> None:
        if not rows:
            return
        summary = None if summarize is None else {doc_id: summarize(row) for doc_id, row in rows.items()}
        block = pack_with_summary(rows, summary)
        if block is not None:
            self._cells.update(dict.fromkeys(rows, block))
            for doc_id in rows:
                del self._dicts[doc_id]

    def _row(self, doc_id: int, block: bytes) -> Row:
        rows = self._unpacked.get(block)
        if rows is None:
            rows = unpack_after_summary(block)
            if len(self._unpacked) == _CACHED_BLOCKS:
                self._unpacked.clear()
            self._unpacked[block] = rows
        return rows[doc_id]
