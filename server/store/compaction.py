"""Compaction: a new journal without outdated rows, written in small steps after commits, replaces the old one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from leyden.server.store.end_mark import Mark
from leyden.server.store.journal import COMPACTED, encode_body, encode_line, header_line
from leyden.server.store.lock import NOFOLLOW, lock_journal
from leyden.server.store.tables.table_data import TableData

ROWS_PER_STEP = 128
RETIRED_BYTES_PER_STEP = 1 << 20  # bytes


class Compaction:
    """A new journal file that is being written. The old journal stays valid until the swap.

    Each `step` writes at most 128 rows as they are at that moment, in a fraction of a millisecond. The commits of the
    meantime are collected by `add_commit` and written last. They repeat every change they made, so it does not matter
    that some of it was written already. The kernel is asked to write each piece to the disk at once, so that the one
    wait, at the end, is short.
    """

    def __init__(self, path: Path, tables: Iterable[TableData]) -> None:
        """Raises `OSError` when the file cannot be created."""
        self.path = path
        self.records = 0
        self._tail: list[tuple[bytes, int]] = []
        self._pieces = _pieces([(table, list(table.rows)) for table in tables if table.exists])
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | NOFOLLOW, 0o600)
        self.size = self._lines = 0
        line, self.chain = header_line()
        try:
            lock_journal(self._fd, path)  # before it has the name of the journal
            self._write(line)
        except BaseException:
            self.abort()
            raise

    @property
    def fd(self) -> int:
        """The descriptor of the new file."""
        return self._fd

    @property
    def end(self) -> Mark:
        """The end of what is written."""
        return Mark(self.size, self._lines, self.chain)

    def step(self) -> bool:
        """Write the next rows; True when every row is written. Raises `OSError`."""
        piece = next(self._pieces, None)
        if piece is None:
            return True
        body, records = piece
        self._add(body, records)
        return False

    def add_commit(self, body: bytes, records: int) -> None:
        """Add a commit that was made since the start."""
        self._tail.append((body, records))

    def swap(self, target: Path, announce: Callable[[Mark], None]) -> int:
        """Finish the new journal, call `announce` with its end, and give it the name `target`, atomically.

        Returns the descriptor of the new file, open for appending. Its content is on the disk; the directory is still
        to be synced. When this raises `OSError`, nothing has changed.
        """
        for body, records in self._tail:
            self._add(body, records)
        self._add(COMPACTED, 0)
        os.fsync(self._fd)
        announce(self.end)
        os.replace(self.path, target)
        fd, self._fd = self._fd, -1
        return fd

    def abort(self) -> None:
        """Delete the new file; the old journal stays in use."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        self.path.unlink(missing_ok=True)

    def _add(self, body: bytes, records: int) -> None:
        line, self.chain = encode_line(body, self.chain)
        self._write(line)
        self.records += records

    def _write(self, line: bytes) -> None:
        write_all(self._fd, line)
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError):  # only a hint; some file systems do not support it
                os.posix_fadvise(self._fd, self.size, len(line), os.POSIX_FADV_DONTNEED)
        self.size += len(line)
        self._lines += 1


class RetiredFile:
    """An open file without a name. Freeing a big file at once would block for long, so it is shortened in pieces."""

    def __init__(self, fd: int, size: int) -> None:
        self._fd = fd
        self._size = size

    def shrink(self) -> bool:
        """Free one piece; True when nothing is left. Raises `OSError`."""
        self._size -= RETIRED_BYTES_PER_STEP
        if self._size <= 0:
            self.close()
            return True
        os.ftruncate(self._fd, self._size)
        return False

    def close(self) -> None:
        """Free the rest. A second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):  # its content is not needed, and the kernel has released it even so
                os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write every byte. Raises `OSError`, after which some may have been written."""
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, data[written:])


def _pieces(tables: Iterable[tuple[TableData, list[int]]]) -> Iterator[tuple[bytes, int]]:
    for table, ids in tables:
        for start in range(0, len(ids) or 1, ROWS_PER_STEP):  # once for an empty table: it exists
            rows = table.rows
            piece = [(doc_id, rows[doc_id]) for doc_id in ids[start : start + ROWS_PER_STEP] if doc_id in rows]
            yield encode_body({table.name: piece}), len(piece)
