"""The store: all rows of the service in TinyDB tables, in memory or in a directory, changed in atomic commits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import cast

from tinydb import TinyDB

from leyden.server.errors import StoreError
from leyden.server.store.rows import Commit, CommitParticipant, RowStorage, Snapshot
from leyden.server.store.storage import JournalStorage, Policy
from leyden.server.store.tinydb import export
from leyden.server.store.tinydb.table import IndexedTable


class Database(TinyDB):
    """TinyDB with our table: `store.db.table("charges").search(where("status") == "pending")`."""

    table_class = IndexedTable


class Store:
    """The tables of one TinyDB, in memory (`Store.memory`) or in a directory (`Store.open`).

    Rows are plain dicts of JSON values. A row is never changed in place: put a new one. Every write belongs to a
    commit; a write outside one is a commit of its own.
    """

    def __init__(self, storage: RowStorage) -> None:
        self.storage = storage
        self.db: TinyDB = Database(storage=lambda: storage)

    @classmethod
    def memory(cls) -> Store:
        """A store in memory. Its rows are lost with this object."""
        return cls(RowStorage())

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        policy: Policy = "os",
        interval_ms: int = 1_000,
        group_commit: bool = False,
    ) -> Store:
        """A store in a directory. Options and errors (`StoreError`) are those of `JournalStorage`."""
        return cls(JournalStorage(directory, policy, interval_ms, group_commit))

    @classmethod
    def from_snapshot(cls, state: Snapshot) -> Store:
        """A store in memory with the rows of the snapshot. The two share nothing that changes."""
        return cls(RowStorage(state))

    def table(self, name: str, key: str | None = "id", indexes: Iterable[str] = ()) -> IndexedTable:
        """The table, the same object each time. `key` and `indexes` are maintained from now on.

        Raises `ValueError` when the table has another unique key, or rows that share one.
        """
        table = cast(IndexedTable, self.db.table(name))
        table.declare(key, indexes)
        return table

    def commit(self) -> Commit:
        """`with store.commit(): ...` makes all writes in it one commit: one journal line, or nothing.

        An exception rolls the commit back and is raised again; so is `StorageUnavailable` when the disk refuses the
        line. A commit inside another joins it.
        """
        return self.storage.commit()

    @property
    def is_durable(self) -> bool:
        """Whether the rows are kept in a directory."""
        return isinstance(self.storage, JournalStorage)

    def set_pre_commit_hook(self, callback: Callable[[], None] | None) -> None:
        """Call `callback` before each commit with changes is written; the rows that it puts belong to that commit."""
        self.storage.set_pre_commit_hook(callback)

    def register(self, *participants: CommitParticipant) -> None:
        """Let these, and no others, take part in every outermost commit, in this order.

        Called inside a commit, it holds for the end of that commit if it succeeds; if it fails, those are rolled back
        that took part in its start.
        """
        self.storage.participants = participants

    def drop_tables(self) -> None:
        """Remove every table, in one commit."""
        with self.commit():
            self.db.drop_tables()

    def on_rollback(self, callback: Callable[[], None]) -> None:
        """Call `callback` after every rollback."""
        self.storage.on_rollback(callback)

    def snapshot(self) -> Snapshot:
        """All tables as data for `from_snapshot`. The cost is a copy of the outer dicts; the rows are shared.

        Raises `StoreError` inside a commit.
        """
        return self.storage.snapshot()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the operator should know about the state in which the data was found."""
        return self.storage.notes

    @property
    def unsynced(self) -> bool:
        """Whether a power cut would lose a commit now."""
        return self.storage.unsynced

    def flush(self) -> None:
        """Wait until every commit so far is on the disk. It may be called from another thread."""
        self.storage.flush()

    def maybe_sync(self, now_ms: int) -> bool:
        """Under the policy `interval`, flush when it is due; True if it did."""
        return self.storage.maybe_sync(now_ms)

    def compact(self) -> None:
        """Rewrite the journal without outdated rows."""
        self.storage.compact()

    def export_tinydb(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file that TinyDB opens, with the same documents and ids."""
        export.export_tinydb(self.storage, path)

    def import_tinydb(self, path: str | os.PathLike[str]) -> dict[str, int]:
        """Add a TinyDB JSON file to empty tables. Returns the number of documents for each table."""
        return export.import_tinydb(self.storage, path)

    def close(self) -> None:
        """Write everything to the disk and release the directory. Raises `StoreError` inside a commit."""
        if self.storage.depth:
            raise StoreError("the store cannot be closed inside a commit: leave the commit first")
        self.db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
