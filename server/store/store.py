"""The store: every row the service has, found fast, changed all together or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import cast

from tinydb import TinyDB

from leyden.server.errors import StoreError
from leyden.server.store import tinydb_export as interchange
from leyden.server.store.rows import Commit, CommitParticipant, RowStorage, Snapshot
from leyden.server.store.storage import JournalStorage, Policy
from leyden.server.store.table import IndexedTable


class Database(TinyDB):
    """TinyDB with our table: `store.db.table("charges").search(where("status") == "pending")`."""

    table_class = IndexedTable


class Store:
    """Tables behind one TinyDB, in memory (`Store.memory`) or in a directory (`Store.open`).

    Rows are plain dicts of JSON values and are never changed in place: put a new one. Every write belongs to a
    commit, its own if no other is open.
    """

    def __init__(self, storage: RowStorage) -> None:
        self.storage = storage
        self.db: TinyDB = Database(storage=lambda: storage)

    @classmethod
    def memory(cls) -> Store:
        """A store that lives as long as this object."""
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
        """A store in memory that begins where the snapshot was taken, and shares nothing that changes with it."""
        return cls(RowStorage(state))

    def table(self, name: str, key: str | None = "id", indexes: Iterable[str] = ()) -> IndexedTable:
        """The table, the same object each time; `key` and `indexes` are kept from now on if they were not.

        Raises `ValueError` when the table has another unique key, or rows that share one.
        """
        table = cast(IndexedTable, self.db.table(name))
        table.declare(key, indexes)
        return table

    def commit(self) -> Commit:
        """`with store.commit(): ...` makes all writes to all tables in it one: one journal line, or nothing.

        An exception takes everything back and goes on; so does a disk that refuses the line (`StorageUnavailable`).
        A commit inside another joins it.
        """
        return self.storage.commit()

    @property
    def is_durable(self) -> bool:
        """Whether the rows outlive this object: a store in a directory."""
        return isinstance(self.storage, JournalStorage)

    def set_pre_commit_hook(self, callback: Callable[[], None] | None) -> None:
        """Call `callback` at the end of each commit that changed something: what it puts is part of the commit."""
        self.storage.set_pre_commit_hook(callback)

    def watch(self, watcher: CommitParticipant) -> None:
        """From now on tell `watcher` of every outermost commit: that it begins, that it is kept or taken back."""
        self.storage.watcher = watcher

    def drop_tables(self) -> None:
        """Take away every table, in one commit."""
        with self.commit():
            self.db.drop_tables()

    def on_rollback(self, callback: Callable[[], None]) -> None:
        """Call `callback` after each rollback."""
        self.storage.on_rollback(callback)

    def snapshot(self) -> Snapshot:
        """Everything, as data for `from_snapshot`. It costs a copy of the outer dicts; the rows are shared.

        Raises `StoreError` inside a commit.
        """
        return self.storage.snapshot()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the operator should know about how the data was found."""
        return self.storage.notes

    @property
    def unsynced(self) -> bool:
        """Whether a power cut now would lose something committed."""
        return self.storage.unsynced

    def flush(self) -> None:
        """Wait until all commits so far are on the disk; may be called from another thread."""
        self.storage.flush()

    def maybe_sync(self, now_ms: int) -> bool:
        """Under policy `interval`, flush if it is time to; True if it did."""
        return self.storage.maybe_sync(now_ms)

    def compact(self) -> None:
        """Write the journal anew without what is no longer there."""
        self.storage.compact()

    def export_tinydb(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file that stock TinyDB opens, with the same documents and ids."""
        interchange.export_tinydb(self.storage, path)

    def import_tinydb(self, path: str | os.PathLike[str]) -> dict[str, int]:
        """Take in a TinyDB JSON file, into tables that are empty; returns how many documents each received."""
        return interchange.import_tinydb(self.storage, path)

    def close(self) -> None:
        """Bring everything to the disk and let the directory go. Raises `StoreError` inside a commit."""
        if self.storage.depth:
            raise StoreError("the store cannot be closed inside a commit: leave the commit first")
        self.db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
