"""The file storage appends each commit to a journal, so that what was answered is there again after a restart."""

from __future__ import annotations

import errno
import os
import weakref
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

from leyden.server.errors import StorageUnavailable, StoreError
from leyden.server.store.compaction import Compaction, RetiredFile, write_all
from leyden.server.store.journal import JOURNAL_NAME, encode_body, encode_line, header_line, load, sync_directory
from leyden.server.store.lock import Lock
from leyden.server.store.rows import RowStorage
from leyden.server.store.table_data import TableData, TableSnapshot

Policy = Literal["os", "interval", "always"]

# A charge is written twice in its life and its deliveries more often; a journal up to three times its rows is healthy.
GARBAGE_FACTOR = 3
GARBAGE_FLOOR = 4_096


class JournalStorage(RowStorage):
    """Tables in a directory: `charges.journal`, and `charges.lock`, which one process at a time holds.

    `policy` says when a commit counts as done: `os`, when the kernel has it (it outlives the process, not a power
    cut); `interval`, the same, and `maybe_sync` brings it to the disk every `interval_ms`; `always`, when it is on
    the disk. With `group_commit`, `always` leaves the waiting to the caller: before it answers, and if `unsynced`, it
    calls `flush` once for all that wait; from another thread if it likes.

    Compaction starts when the journal holds more than three row changes per living row (and 4096 to spare), and
    goes on by 128 rows at the end of each commit until the new file replaces the old. A row is so rewritten at most
    about once for every two changes, and no commit waits for more than such a step; the last one waits for the disk.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        policy: Policy = "os",
        interval_ms: int = 1_000,
        group_commit: bool = False,
    ) -> None:
        """Open the directory, which is made if need be.

        Raises `StoreError` when it is in use, cannot be read or written, is damaged, or is of a newer format.
        """
        super().__init__()
        if policy not in ("os", "interval", "always"):
            raise StoreError(f"there is no store policy {policy!r}: choose os, interval or always")
        self._sync_each = policy == "always" and not group_commit
        self._interval_ms = interval_ms if policy == "interval" else None
        self._last_sync_ms: int | None = None
        self._fd = -1
        self._size = self._chain = self._records = self._limit = 0
        self._commits = self._synced = 0  # counted since opening
        self._compaction: Compaction | None = None
        self._retired: RetiredFile | None = None
        # Why the next commit must first do something else: `torn`, the file ends in half a line; `suspect`, the disk
        # once failed to take what the kernel held, which the kernel may have forgotten since.
        self._torn = self._must_rewrite = False
        self._note: str | None = None
        try:
            wanted = Path(directory)
            absent = [place for place in (wanted, *wanted.parents) if not place.exists()]
            wanted.mkdir(parents=True, exist_ok=True)
            for place in absent:
                sync_directory(place.parent)
        except OSError as error:
            raise StoreError(f"{directory} cannot be made ({error.strerror}): choose another place") from error
        # Its whole name: the program may go elsewhere, or a link be moved, before a compaction names it again.
        self.directory = Path(os.path.realpath(wanted))
        self.path = self.directory / JOURNAL_NAME
        self._lock = Lock(self.directory)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_after_fork_in_child, weakref.ref(self)))
        try:
            self._open()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise StoreError(
                    f"{self.path} cannot be opened ({error.strerror}): let this user read and write it,"
                    " and see that the disk has room"
                ) from error
            raise

    def _open(self) -> None:
        self._compacting_path().unlink(missing_ok=True)
        new = not self.path.exists()
        if not new:
            loaded = load(self.path)
            for name, rows in loaded.tables.items():
                self.tables[name] = TableData(self, name, TableSnapshot(rows, None, True, None, {}, {}))
            self._chain, self._records, self._note = loaded.chain, loaded.records, loaded.note
            self._size = loaded.size
        # A new one must not be there: what is not read here would be cut off below. It holds keys and secrets.
        self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | (os.O_CREAT | os.O_EXCL if new else 0), 0o600)
        if os.fstat(self._fd).st_size != self._size:
            os.ftruncate(self._fd, self._size)
        if self._size == 0:
            line, self._chain = header_line()
            write_all(self._fd, line)
            os.fsync(self._fd)
            self._size = len(line)
        sync_directory(self.directory)  # whoever gave the file its name may have died before doing this
        self._limit = self._garbage_limit()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found at opening: a commit cut short by a crash."""
        return () if self._note is None else (self._note,)

    # Appending

    def write_commit(self, touched: list[TableData]) -> None:
        """Append the commit's line.

        Raises `StorageUnavailable` when the disk refuses it; the file then ends where it did before, and later
        commits may succeed. Raises `TypeError` for a value JSON has no word for.
        """
        said = {}
        records = 0
        for table in touched:
            changes = table.changes()
            if changes or table.existence_changed():
                said[table.name] = changes
                records += len(changes or ())
        if not said:
            return
        body = encode_body(said)
        if self._fd < 0:
            raise self._closed_error()
        if self._must_rewrite:
            self._write_by_rewrite()
            return
        try:
            if self._torn:
                self._truncate()
            line, chain = encode_line(body, self._chain)
            size = self._size + len(line)
            self._torn = True  # until all is done: whatever interrupts here, the line is not to stand
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
                raise self._unavailable(error) from error
            self._abort_compaction()  # it may have taken note of this commit
            raise
        self._records += records
        self._commits += 1
        if self._sync_each:
            self._synced = self._commits
        self._size, self._chain, self._torn = size, chain, False

    def _write_by_rewrite(self) -> None:
        """Write a commit down by writing everything anew, from the rows in memory: its changes are among them."""
        try:
            self._rewrite()
            if self._sync_each and self._must_rewrite:
                raise OSError(errno.EIO, "its new name did not reach the disk")
        except BaseException as error:
            self._must_rewrite = True  # the new file may stand there already, with what is now taken back
            if isinstance(error, OSError):
                raise self._unavailable(error) from error
            raise
        self._commits += 1
        if not self._must_rewrite:
            self._synced = self._commits

    def _truncate(self) -> None:
        if self._torn:
            os.ftruncate(self._fd, self._size)
            self._torn = False

    def _closed_error(self) -> StoreError:
        return StoreError(f"{self.path} is closed: open the store again to write to it")

    def _unavailable(self, error: OSError) -> StorageUnavailable:
        return StorageUnavailable(
            f"{self.path.name} could not be written ({error.strerror}), and nothing was accepted:"
            " give its disk room and write permission, then repeat the request"
        )

    # Reaching the disk

    @property
    def unsynced(self) -> bool:
        """Whether something committed is so far only in the kernel's hands."""
        return self._synced < self._commits

    def flush(self) -> None:
        """Wait until everything committed so far is on the disk. May be called from another thread.

        Raises `StorageUnavailable` when the disk fails: what was committed since the last flush may be lost with the
        machine. The next commit writes the whole journal anew, because the kernel forgets what it failed to write.
        """
        # Without a lock: the count is read before the file. Should a compaction swap files in between, or while this
        # waits, then it has itself brought all these commits to the disk, in the new file, or left the store suspect.
        commits = self._commits
        fd = self._fd
        if self._synced >= commits or fd < 0:
            return
        try:
            if not self._must_rewrite:
                os.fsync(fd)
        except OSError as error:
            self._must_rewrite = self._must_rewrite or fd == self._fd
            if self._must_rewrite:
                raise self._unavailable(error) from error
        if self._must_rewrite:  # before, or since: then the number `fd` may have been another file's
            raise StorageUnavailable(
                "the disk failed before; the next commit writes everything anew: repeat the request"
            )
        self._synced = max(self._synced, commits)

    def _sync(self) -> None:
        try:
            os.fsync(self._fd)
        except OSError:
            self._must_rewrite = True
            raise

    def maybe_sync(self, now_ms: int) -> bool:
        """Under policy `interval`: flush when `interval_ms` have passed since it last did. Times as the caller has
        them, in ms. Raises what `flush` does."""
        if self._interval_ms is None or not self.unsynced:
            return False
        if self._last_sync_ms is not None and 0 <= now_ms - self._last_sync_ms < self._interval_ms:
            return False
        self._last_sync_ms = now_ms
        self.flush()
        return True

    # Compaction

    def after_commit(self) -> None:
        """Go on with a compaction, or start one when it is due. When the disk refuses, the old journal goes on."""
        if self._compaction is None and self._records <= self._limit and self._retired is None:
            return
        if self._fd < 0:
            return  # the directory may be another's by now
        try:
            if self._retired is not None:
                if self._retired.shrink():
                    self._retired = None
            elif self._compaction is None:
                self._limit = self._garbage_limit()
                if self._records > self._limit:
                    self._compaction = Compaction(self._compacting_path(), self.tables.values())
            elif self._compaction.step():
                self._swap_files()
        except BaseException as error:
            self._abort_compaction()
            self._close_retired()
            self._limit = self._records + self._garbage_limit()  # no use in trying again with every commit
            if not isinstance(error, Exception):  # the commit stands, whatever becomes of this
                raise

    def compact(self) -> None:
        """Do a whole compaction now. Raises `StorageUnavailable` when the disk refuses; the old journal goes on."""
        if self.depth:
            raise StoreError("a compaction inside a commit would keep what may yet be taken back: do it outside")
        if self._fd < 0:
            raise self._closed_error()
        try:
            self._rewrite()
        except OSError as error:
            raise self._unavailable(error) from error

    def close(self) -> None:
        """Bring everything to the disk and let the directory go; doing it twice does no harm.

        Raises `StorageUnavailable` when the disk refuses: what was committed last may be lost with the machine.
        """
        try:
            self._abort_compaction()
            if self._fd >= 0:
                with suppress(OSError):
                    self._truncate()
                if (self._torn or self._must_rewrite) and not self.depth:
                    self._rewrite()
                self.flush()
        except OSError as error:
            raise self._unavailable(error) from error
        finally:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                with suppress(OSError):  # everything is on the disk, or it was said that it is not
                    os.close(fd)
            self._close_retired()
            self._lock.release()

    def release_in_child(self) -> None:
        """Let everything go as it is: somebody else goes on with it."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        self._compaction = None
        self._close_retired()
        self._lock.release()

    def _garbage_limit(self) -> int:
        rows = sum(len(table.rows) for table in self.tables.values())
        return GARBAGE_FACTOR * rows + GARBAGE_FLOOR

    def _compacting_path(self) -> Path:
        return self.path.with_suffix(".journal.new")

    def _rewrite(self) -> None:
        self._abort_compaction()
        self._compaction = Compaction(self._compacting_path(), self.tables.values())
        try:
            while not self._compaction.step():
                pass
            self._swap_files()
        except BaseException:
            self._abort_compaction()
            raise

    def _swap_files(self) -> None:
        compaction = self._compaction
        if compaction is None:
            return
        self._close_retired()
        named = False
        try:
            fd = compaction.swap(self.path)
            try:
                sync_directory(self.directory)
                named = True
            except OSError:
                # A power cut decides which of the two, both whole, will have the name: so neither is shrunk.
                self._must_rewrite = True
            # Only now: a flush that waits meanwhile must not take the new file for safe before its name is.
            old, self._fd = self._fd, fd
            self._retired = RetiredFile(old, self._size)
            self._size, self._chain, self._records = compaction.size, compaction.chain, compaction.records
            self._compaction = None
            self._torn = False
            self._limit = self._garbage_limit()
        except OSError:
            raise
        except BaseException:
            self._must_rewrite = True  # nobody knows which file has the name: the next commit writes another
            raise
        if named:
            self._synced, self._must_rewrite = self._commits, False
        else:
            self._close_retired()

    def _abort_compaction(self) -> None:
        if self._compaction is not None:
            with suppress(OSError):
                self._compaction.abort()
            self._compaction = None

    def _close_retired(self) -> None:
        if self._retired is not None:
            self._retired.close()
            self._retired = None


def _after_fork_in_child(kept: weakref.ref[JournalStorage]) -> None:
    # A process made by fork has the files and the lock too. Both writing, neither would find its line where it left it;
    # and a child that lives on would hold the directory of a parent that was killed.
    storage = kept()
    if storage is not None:
        storage.release_in_child()
