"""Compaction writes a journal anew without what is no longer there, a little after each commit, and then swaps."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from leyden.server.store.journal import encode_body, encode_line, header_line
from leyden.server.store.table_data import TableData

ROWS_PER_STEP = 128
RETIRED_BYTES_PER_STEP = 1 << 20  # bytes


class Compaction:
    """A new journal in the making, beside the old one, which stays the truth until the swap.

    Each `step` writes at most 128 rows as they stand at that moment, a fraction of a millisecond's work. The commits
    made meanwhile are remembered with `follow` and written last: whatever they changed they say again, so it does not
    matter that some of it was written already. The kernel is asked to send each piece to the disk at once, so that
    the one wait, at the end, is short.
    """

    def __init__(self, path: Path, tables: Iterable[TableData]) -> None:
        """Raises `OSError` when the file cannot be made."""
        self.path = path
        self.records = 0
        self._tail: list[tuple[bytes, int]] = []
        self._pieces = _pieces([(table, list(table.rows)) for table in tables if table.exists])
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        self.size = 0
        line, self.chain = header_line()
        try:
            self._write(line)
        except BaseException:
            self.abort()
            raise

    def step(self) -> bool:
        """Write some more; True once every row is written. Raises `OSError`."""
        piece = next(self._pieces, None)
        if piece is None:
            return True
        body, records = piece
        self._add(body, records)
        return False

    def add_commit(self, body: bytes, records: int) -> None:
        """Take note of a commit made since the start."""
        self._tail.append((body, records))

    def swap(self, target: Path) -> int:
        """Finish, and put the new journal in the old one's place: afterwards either the one or the other is there.

        Returns the new file, open for appending, its content on the disk; its name in the directory is still to be
        synced. When this raises `OSError` nothing has changed.
        """
        for body, records in self._tail:
            self._add(body, records)
        os.fsync(self._fd)
        os.replace(self.path, target)
        fd, self._fd = self._fd, -1
        return fd

    def abort(self) -> None:
        """Give up: the old journal goes on."""
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
            with suppress(OSError):  # a wish: a file system that cannot grant it is as good as any
                os.posix_fadvise(self._fd, self.size, len(line), os.POSIX_FADV_DONTNEED)
        self.size += len(line)


class RetiredFile:
    """A file that no longer has a name. Giving back a big one at once would block for long: it is done by pieces."""

    def __init__(self, fd: int, size: int) -> None:
        self._fd = fd
        self._size = size

    def shrink(self) -> bool:
        """Give back a piece; True once nothing is left. Raises `OSError`."""
        self._size -= RETIRED_BYTES_PER_STEP
        if self._size <= 0:
            self.close()
            return True
        os.ftruncate(self._fd, self._size)
        return False

    def close(self) -> None:
        """Give back what is left; doing it twice does no harm."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):  # nobody needs what it holds, and the kernel has let go of it even so
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
