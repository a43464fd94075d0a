"""Tables in memory with commits: the changes of a commit are kept together or undone together.

How a rollback works. While a commit is open, each table that it touches records, for every id that it changes, the
row before the commit (`TableData.before`). A rollback puts those rows back one by one, with the same functions that
every write uses for the key and the indexes. Each step compares with the row that is there now, so a rollback that was
interrupted (Ctrl-C) can be repeated from its start, and `Commit` repeats it once. When an interrupt came in the middle
of one write, the key and the indexes may not match the rows; a flag says so, the commit can only be rolled back, and
the rollback builds them again from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Protocol

from leyden.server.errors import StoreError
from leyden.server.store.tables.table_data import TableData
from leyden.server.store.tables.table_snapshot import TableSnapshot
from leyden.server.store.tinydb.storage import TinyDBStorage

Snapshot = Mapping[str, TableSnapshot]


class CommitParticipant(Protocol):
    """Something that changes together with the rows and is undone with them, such as timers and random streams."""

    def begin(self) -> None:
        """A commit starts: record what it may change."""

    def commit(self) -> None:
        """The commit is written: drop the record."""

    def rollback(self, error: BaseException) -> None:
        """The commit failed with `error`: undo what it changed."""


class Commit:
    """A group of changes: `with storage.commit(): ...`. Inside another it joins that one.

    Leaving it normally writes the changes; leaving it by an exception rolls them back, in every table. When an inner
    commit failed and its exception was caught, the outer one rolls everything back and raises `StoreError`: a commit
    is never kept in part.
    """

    __slots__ = ("_storage",)

    def __init__(self, storage: RowStorage) -> None:
        self._storage = storage

    def __enter__(self) -> None:
        storage = self._storage
        if not storage.depth:
            storage.participating = storage.participants
            for participant in storage.participating:
                participant.begin()
        storage.depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        storage = self._storage
        if storage.depth > 1:
            storage.depth -= 1
            if kind is not None:
                storage.rollback_only = True
            return
        try:
            if error is None:
                if storage.rollback_only:
                    raise StoreError(
                        "a commit inside this one failed and its exception was caught, so nothing of this commit was"
                        " kept; let the exception through, or make the two commits separate"
                    )
                # The commit is written if this returns, and is not if this raises.
                if storage.touched:
                    if storage.pre_commit_hook is not None:
                        storage.pre_commit_hook()
                    storage.write_commit(storage.touched)
        except BaseException as refused:
            error = refused
            raise
        finally:
            # Ctrl-C can come between any two calls. The end of the commit is then repeated before the interrupt goes
            # on, because half of it would leave rows that differ from the file. Both ends can be repeated safely.
            end = storage.finish_commit if error is None else storage.rollback
            try:
                end()
            except BaseException:
                end()
                raise
            finally:
                if error is None:
                    for participant in storage.participants:
                        participant.commit()
                else:
                    for participant in storage.participating:
                        participant.rollback(error)
        storage.after_commit()


class RowStorage(TinyDBStorage):
    """Tables in memory, with commits. `JournalStorage` adds the file.

    `depth` counts the commits that are open inside one another. `touched` lists the tables that the open commit has
    changed. After `rollback_only` is set, the open commit can only be rolled back. `pre_commit_hook` is called before
    each commit with changes is written; the rows that it puts belong to that commit. `is_durable` says whether the rows
    are kept in a directory, `is_as_written` whether they are those that a process wrote: the directory is new, or its
    journal ends at the mark that the process before kept beside it. `warning` is what the operator should mend now.
    """

    is_durable = False
    is_as_written = True
    warning = ""

    def __init__(self, state: Snapshot | None = None) -> None:
        super().__init__()
        self.depth = 0
        self.rollback_only = False
        self.touched: list[TableData] = []
        self.tables: dict[str, TableData] = {
            name: TableData(self, name, table) for name, table in (state or {}).items()
        }
        self._commit = Commit(self)
        self.pre_commit_hook: Callable[[], object] | None = None
        self.participants: tuple[CommitParticipant, ...] = ()
        self.participating: tuple[CommitParticipant, ...] = ()  # those that were registered when the commit started

    def table_data(self, name: str) -> TableData:
        """The data of a table; empty when the table does not exist."""
        data = self.tables.get(name)
        if data is None:
            data = self.tables[name] = TableData(self, name)
        return data

    def snapshot(self, *, indexes: bool = True) -> Snapshot:
        """Every table as plain data, with or without its `indexes`. The cost is a copy of the outer dicts; the rows are
        shared.

        Raises `StoreError` inside a commit, which may still be rolled back.
        """
        if self.depth:
            raise StoreError("a snapshot inside a commit would hold changes that may be rolled back: take it outside")
        return {name: table.snapshot(indexes=indexes) for name, table in self.tables.items()}

    # Commits

    def commit(self) -> Commit:
        """`with store.commit(): ...` makes all writes in it one commit: one journal line, or nothing.

        An exception rolls the commit back and is raised again; so is `StorageUnavailable` when the disk refuses the
        line. A commit inside another joins it.
        """
        return self._commit

    def register(self, *participants: CommitParticipant) -> None:
        """Replace the participants in commits: these, in this order, take part in every outermost commit from now on.

        Inside a commit, the new participants get its `commit` if it succeeds, although they did not get its `begin`; if
        it fails, the former ones get its `rollback`.
        """
        self.participants = participants

    def finish_commit(self) -> None:
        """End a commit that was written."""
        for table in self.touched:
            table.end_commit()
        self.touched.clear()
        self.depth = 0

    def rollback(self) -> None:
        """Undo what the open commit did. It can be repeated after an interrupt."""
        # If both attempts are interrupted, the next commit cannot be kept, and its rollback completes this one.
        self.depth = 0
        self.rollback_only = True
        for table in self.touched:
            table.rollback()
        self.touched.clear()
        self.rollback_only = False

    # What a durable storage adds

    def place_of(self, table: str, doc_id: int) -> str:
        """The file and the line from which a row was read."""
        return "the memory"

    def write_commit(self, touched: list[TableData]) -> None:
        """Write the changes of these tables; raise when that is impossible."""

    def after_commit(self) -> None:
        """Do a step of housekeeping after a commit. It does not fail."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the operator about the state in which the data was found."""
        return ()

    @property
    def unsynced(self) -> bool:
        """Whether a crash of the machine (not only of the process) would lose a commit now."""
        return False

    def flush(self) -> None:
        """Wait until every commit so far is on the disk. It may be called from another thread."""

    def note_flushed(self) -> None:
        """Note which commits the last flush wrote. It is called in the thread of the store, also by each commit."""

    def maybe_sync(self, now_ms: int) -> bool:
        """Under the policy `interval`, flush when it is due; True if it did."""
        return False

    def compact(self, *, gradually: bool = False) -> None:
        """Rewrite the journal without outdated rows, at once or step by step: then the next commits continue it."""

    def close(self) -> None:
        """Write everything to the disk and release the directory. Raises `StoreError` inside a commit."""
        if self.depth:
            raise StoreError("the store cannot be closed inside a commit: leave the commit first")
