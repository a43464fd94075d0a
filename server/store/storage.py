"""The storage in a directory: each commit is appended to a journal file, which is read again at the next start."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Literal

from leyden.server.errors import StorageUnavailable, StoreError
from leyden.server.store.compaction import Compaction, RetiredFile, write_all
from leyden.server.store.disk_errors import not_accepted, not_closed, not_compacted, not_opened, not_synced
from leyden.server.store.end_mark import EndMark, Mark
from leyden.server.store.journal import (
    JOURNAL_NAME,
    LoadedJournal,
    encode_body,
    encode_line,
    header_line,
    last_line_of,
    load,
    make_directory,
    notes_of_recovery,
    sync_directory,
)
from leyden.server.store.journal_name import Fault, JournalName
from leyden.server.store.lock import Lock, after_fork_in_child, notes_of_access, open_journal
from leyden.server.store.rows import RowStorage
from leyden.server.store.tables.row_map import RowMap
from leyden.server.store.tables.table_data import TableData
from leyden.server.store.tables.table_snapshot import TableSnapshot

Policy = Literal["os", "interval", "always"]

# A charge is written twice and its deliveries more often; a journal of up to three times its rows is normal.
GARBAGE_FACTOR = 3
GARBAGE_FLOOR = 4_096


class JournalStorage(RowStorage):
    """Tables in a directory: `charges.journal`; `charges.end`, the expected end of the journal; and `charges.lock`,
    which one process at a time holds.

    `policy` says when a commit is complete: `os`, when the kernel has it (it survives the process, not a power cut);
    `interval`, the same, and `maybe_sync` writes it to the disk every `interval_ms`; `always`, when it is on the disk.
    With `group_commit`, `always` leaves the wait to the caller: before it answers, and if `unsynced`, the caller calls
    `flush` once for all waiting requests, from another thread if it prefers.

    No commit is complete and no flush succeeds while the file's name leads elsewhere, or its length is not what was
    written. The file can be put back; otherwise `compact` and `close` write it again, unless it is another or longer.

    A compaction starts when the journal has more than three row changes for each current row (plus 4096). It continues
    with 128 rows at the end of each commit until the new file replaces the old one; the last step waits for the disk.
    """

    is_durable = True

    def __init__(
        self,
        directory: str | os.PathLike[str],
        policy: Policy = "os",
        interval_ms: int = 1_000,
        group_commit: bool = False,
    ) -> None:
        """Open the directory, and create it if it does not exist.

        Raises `StoreError` when it is in use, cannot be read or written, is damaged or shortened, or of a newer format.
        """
        super().__init__()
        if policy not in ("os", "interval", "always"):
            raise StoreError(f"there is no store policy {policy!r}: choose os, interval or always")
        self._sync_each = policy == "always" and not group_commit
        self._interval_ms = interval_ms if policy == "interval" else None
        self._last_sync_ms: int | None = None
        self._fd = -1
        self._size = self._chain = self._records = self._limit = self._lines = 0
        self._commits = self._synced = 0  # since the store was opened
        self._compaction: Compaction | None = None
        self._retired: RetiredFile | None = None
        # What the next commit must do first: `_torn`, cut off half a line at the end of the file; `_must_rewrite`,
        # write the whole file again, because the disk failed once and the kernel may have dropped what it held.
        self._torn = self._must_rewrite = False
        make_directory(Path(directory))
        # The working directory or a link may change before a compaction uses the path again.
        self.directory = Path(os.path.realpath(directory))
        self.path = self.directory / JOURNAL_NAME
        self._draft = self.path.with_suffix(".journal.new")  # the compacted journal, until it is complete
        self._lock = Lock(self.directory)
        self._name, self._end = JournalName(self.path), EndMark(self.directory)
        after_fork_in_child(self.release)
        try:
            self._open()
        except BaseException as error:
            self.release()
            if isinstance(error, OSError):
                raise not_opened(self.path, error) from error
            raise

    def _open(self) -> None:
        new = not self.path.exists()
        self._fd = -1 if new else open_journal(self.path)  # no other process may write to it while it is read
        self._draft.unlink(missing_ok=True)
        loaded = LoadedJournal() if new else load(self.path, self._end.sizes)
        for name, rows in loaded.tables.items():
            self.tables[name] = TableData(self, name, TableSnapshot(RowMap(rows), None, True, None, {}, {}))
        found = self._end.check(self.path, loaded.end, loaded.chains, is_torn=bool(loaded.note))
        found = found or (loaded.note and loaded.note + self._end.unfinished_text(loaded.end))
        self._end.notes += filter(None, [found])
        self.is_as_written = new or self._end.is_at(loaded.end)
        (self._size, self._lines, self._chain), self._records = loaded.end, loaded.records
        if new:
            self._fd = open_journal(self.path, new=True)
        if os.fstat(self._fd).st_size != self._size:
            os.ftruncate(self._fd, self._size)
        if self._size == 0:
            line, self._chain = header_line()
            write_all(self._fd, line)
            os.fsync(self._fd)
            self._size, self._lines, new = len(line), 1, True
        self._name.expect(self._fd)
        self._end.start(self._mark, is_synced=new)
        sync_directory(self.directory)  # the process that created the file may have died before this
        self._limit = self._garbage_limit()

    def place_of(self, table: str, doc_id: int) -> str:
        """The file and the line from which a row was read. Reads the file again."""
        line = last_line_of(self.path, table, doc_id)
        return str(self.path) if line is None else f"{self.path}, line {line}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the start: an interrupted commit, commits that a crash lost, a recovery, file modes."""
        return (*notes_of_recovery(self.path), *self._end.notes, *notes_of_access(self.directory))

    @property
    def _mark(self) -> Mark:
        return Mark(self._size, self._lines, self._chain)

    # Appending

    def write_commit(self, touched: list[TableData]) -> None:
        """Append the line of the commit.

        Raises `StorageUnavailable` when the disk refuses it, or the name leads to another file; the file then ends
        where it did before, and later commits may succeed. Raises `TypeError` for a value that JSON cannot express.
        """
        changes_by_table = {}
        records = 0
        for table in touched:
            changes = table.changes()
            if changes or table.existence_changed():
                changes_by_table[table.name] = changes
                records += len(changes or ())
        if not changes_by_table:
            return
        body = encode_body(changes_by_table)
        if self._fd < 0:
            raise StoreError(f"{self.path} is closed: open the store again to write to it")
        if self._must_rewrite:
            self._write_by_rewrite()
            return
        try:
            if self._torn:
                self._truncate()
            self._name.check(self._size)
            line, chain = encode_line(body, self._chain)
            size = self._size + len(line)
            self._torn = True  # until the end: after an interrupt here the line must not stay
            if (written := os.write(self._fd, line)) < len(line):
                write_all(self._fd, line[written:])
            if self._sync_each:
                self._sync()
            if self._compaction is not None:
                self._compaction.add_commit(body, records)
        except BaseException as error:
            with suppress(OSError):
                self._truncate()
            if isinstance(error, OSError):
                raise not_accepted(self.path, error) from error
            self._abort_compaction()  # it may include this commit
            raise
        self._records += records
        self._commits += 1
        self._synced = self._commits if self._sync_each else self._synced
        self._size, self._lines, self._chain, self._torn = size, self._lines + 1, chain, False

    def _write_by_rewrite(self) -> None:
        """Write a commit by writing the whole file again from the rows in memory."""
        try:
            self._name.check()
            self._rewrite()
            if self._sync_each and self._must_rewrite:
                raise OSError(errno.EIO, "the directory was not written to the disk")
        except BaseException as error:
            self._must_rewrite = True  # the new file may be in place already, with changes that are now rolled back
            if isinstance(error, OSError):
                raise not_accepted(self.path, error) from error
            raise
        self._commits += 1
        if not self._must_rewrite:
            self._synced = self._commits

    def _truncate(self) -> None:
        if self._torn:
            os.ftruncate(self._fd, self._size)
            self._torn = False

    # Writing to the disk

    @property
    def unsynced(self) -> bool:
        """Whether a commit is in the kernel only, not on the disk."""
        return self._synced < self._commits

    def flush(self) -> None:
        """Wait until every commit so far is on the disk. It may be called from another thread.

        Raises `StorageUnavailable` when the disk fails: a crash of the machine may lose the commits since the last
        flush. The next commit writes the whole journal again, because the kernel drops what it failed to write. Raises
        it too when the name leads to another file.
        """
        # No lock is needed, because the count is read before the descriptor. If a compaction swaps the files in
        # between or during the wait, it has written these commits to the disk itself, or set `_must_rewrite`.
        flushed, commits, fd = self._end.begin_flush(), self._commits, self._fd
        if self._synced >= commits or fd < 0:
            return
        try:
            if not self._must_rewrite:
                os.fsync(fd)
        except OSError as error:
            self._must_rewrite = self._must_rewrite or fd == self._fd
            if self._must_rewrite:
                raise not_synced(self.path, error) from error
        if self._must_rewrite:  # set before or meanwhile: the number `fd` may have been that of another file
            raise StorageUnavailable("the disk failed before: the next commit writes the whole journal again")
        self._name.check()
        self._synced = max(self._synced, commits)
        self._end.end_flush(flushed)

    def note_flushed(self) -> None:  # described in `RowStorage`
        self._end.note_flushed()

    def _sync(self) -> None:
        try:
            os.fsync(self._fd)
        except OSError:
            self._must_rewrite = True
            raise
        self._name.check()

    def maybe_sync(self, now_ms: int) -> bool:
        """Under the policy `interval`, flush when `interval_ms` have passed since the last time. `now_ms` is the
        caller's clock. Raises what `flush` raises."""
        last_ms, interval_ms = self._last_sync_ms, self._interval_ms
        if interval_ms is None or not self.unsynced or (last_ms is not None and 0 <= now_ms - last_ms < interval_ms):
            return False
        self._last_sync_ms = now_ms
        self.flush()
        return True

    # Compaction

    def after_commit(self) -> None:
        """Note the end of the journal, and continue or start a compaction. The old one stays if the disk refuses."""
        self._end.note_written(self._mark, is_synced=self._sync_each)
        is_idle = self._compaction is None and self._retired is None and self._records <= self._limit
        if is_idle or self._fd < 0:  # another process may have the directory now
            return
        try:
            if self._retired is not None:
                if self._retired.shrink():
                    self._retired = None
            elif self._compaction is None:
                self._limit = self._garbage_limit()
                if self._records > self._limit:
                    self._compaction = Compaction(self._draft, self.tables.values())
            elif self._compaction.step():
                self._swap_files()
        except BaseException as error:
            if self._retired is None:  # otherwise it succeeded, and the old file could not be freed in steps
                self.warning = not_compacted(self.path, error)
            self._abort_compaction()
            self._close_retired()
            self._limit = self._records + self._garbage_limit()  # do not try again with every commit
            if not isinstance(error, Exception):  # the commit is kept in any case
                raise

    def compact(self, *, gradually: bool = False) -> None:
        """Compact the journal, or with `gradually` start it: commits continue it. Raises `StorageUnavailable`."""
        if self.depth:
            raise StoreError("a compaction inside a commit would write changes that may be rolled back: do it outside")
        if self._fd < 0:
            raise StoreError(f"{self.path} is closed: open the store again to write to it")
        try:
            self._rewrite(complete=not gradually)
        except OSError as error:
            raise not_synced(self.path, error) from error

    def close(self) -> None:
        """Write everything to the disk and release the directory. A second call does nothing.

        Raises `StoreError` inside a commit, and `StorageUnavailable` when the disk refuses, or when the file lost its
        name and cannot get it back: its detail says what may be lost."""
        super().close()
        fault: Fault | None = None
        try:
            self._abort_compaction()
            if self._fd >= 0:
                with suppress(OSError):
                    self._truncate()
                fault = self._name.fault(self._size)
                if self._torn or self._must_rewrite or fault is not None:
                    self._rewrite()
                self.flush()
                if self._commits:  # otherwise nothing was synced, and the marks are those of the start
                    self._end.note_synced(self._mark)
        except (OSError, StorageUnavailable) as error:
            raise not_closed(self.path, fault, error) from error
        finally:
            self.release()

    def release(self) -> None:
        """Close the files without writing: everything is on the disk, or a forked process leaves it to its parent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)
        self._compaction = None
        self._close_retired()
        self._end.close()
        self._lock.close()

    def _garbage_limit(self) -> int:
        rows = sum(len(table.rows) for table in self.tables.values())
        return GARBAGE_FACTOR * rows + GARBAGE_FLOOR

    def _rewrite(self, *, complete: bool = True) -> None:
        self._abort_compaction()
        self._name.check_replaceable(None if self._torn else self._size)
        self._compaction = Compaction(self._draft, self.tables.values())
        try:
            while complete and not self._compaction.step():
                pass
            if complete:
                self._swap_files()
        except BaseException:
            self._abort_compaction()
            raise

    def _swap_files(self) -> None:
        compaction = self._compaction
        if compaction is None:
            return
        self._close_retired()
        self._name.check_replaceable(None if self._torn else self._size)
        named = False
        try:
            self._name.begin_replacement(compaction.fd)
            fd = compaction.swap(self.path, self._end.begin_replacement)
            try:
                sync_directory(self.directory)
                named = True
            except OSError:
                # After a power cut either of the two complete files may have the name, so neither is shortened.
                self._must_rewrite = True
            # Not earlier: a flush that waits must not count the new file as safe before its name is on the disk.
            old, self._fd = self._fd, fd
            self._retired = RetiredFile(old, self._size)
            self._size, self._lines, self._chain = compaction.end
            self._name.end_replacement(done=True)
            self._records = compaction.records
            self._compaction = None
            self._torn, self.warning = False, ""
            self._limit = self._garbage_limit()
        except OSError:
            self._name.end_replacement(done=False)
            raise
        except BaseException:
            self._must_rewrite = True  # it is unknown which file has the name: the next commit writes another
            self._end.forget()
            raise
        if named:
            self._synced, self._must_rewrite = self._commits, False
            self._end.note_synced(self._mark)
        else:
            self._close_retired()
            self._end.forget()

    def _abort_compaction(self) -> None:
        if self._compaction is not None:
            with suppress(OSError):
                self._compaction.abort()
            self._compaction = None

    def _close_retired(self) -> None:
        if self._retired is not None:
            self._retired.close()
            self._retired = None
