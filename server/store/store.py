"""The store: all rows of the service in TinyDB tables, in memory or in a directory, changed in atomic commits."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import cast

from tinydb import TinyDB

from leyden.server.gc_pause import unlink
from leyden.server.store.rows import RowStorage, Snapshot
from leyden.server.store.storage import JournalStorage, Policy
from leyden.server.store.tables.fill import fill
from leyden.server.store.tables.row_map import RowMap
from leyden.server.store.tinydb import export
from leyden.server.store.tinydb.table import IndexedTable


class Database(TinyDB):
    """TinyDB with our table: `store.db.table("charges").search(where("status") == "pending")`."""

    table_class = IndexedTable


class Store(RowStorage):
    """The tables of one TinyDB, in memory (`Store.memory`) or in a directory (`Store.open`).

    Rows are plain dicts of JSON values. A row is never changed in place: put a new one. Every write belongs to a
    commit; a write outside one is a commit of its own.
    """

    def __init__(self, state: Snapshot | None = None) -> None:
        super().__init__(state)
        self.db: TinyDB = Database(storage=lambda: self)

    @classmethod
    def memory(cls) -> Store:
        """A store in memory. Its rows are lost with this object."""
        return Store()

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        policy: Policy = "os",
        interval_ms: int = 1_000,
        group_commit: bool = False,
    ) -> Store:
        """A store in a directory. Options and errors (`StoreError`) are those of `JournalStorage`."""
        return _DurableStore(directory, policy, interval_ms, group_commit)

    @classmethod
    def from_snapshot(cls, state: Snapshot) -> Store:
        """A store in memory with the rows of the snapshot. The two share nothing that changes."""
        return Store(state)

    def table(
        self,
        name: str,
        key: str | None = "id",
        indexes: Iterable[str] = (),
        tallies: Iterable[tuple[str, ...]] = (),
    ) -> IndexedTable:
        """The table, the same object each time. `key`, `indexes` and `tallies` are maintained from now on.

        Raises `ValueError` when the table has another unique key, or rows that share one.
        """
        table = cast(IndexedTable, self.db.table(name))
        table.declare(key, indexes, tallies)
        return table

    def drop_tables(self) -> None:
        """Remove every table, in one commit."""
        with self.commit():
            self.db.drop_tables()

    def discard(self) -> None:
        """Free the memory of a store that nobody uses any more. Its tables are empty."""
        for data in self.tables.values():
            data.rows, data.keys, data.indexes, data.tallies = RowMap(), {}, {}, {}
        unlink((self.db, self))

    def load(self, state: Snapshot | Store) -> None:
        """Fill empty tables with the rows of the snapshot, under their ids, in one commit. The rows of another store,
        which must not be used afterwards, are taken over and not copied."""
        with self.commit():
            for name, table in (state.tables if isinstance(state, Store) else state).items():
                data = self.table_data(name)
                if fill(data, table):
                    continue
                for doc_id, row in table.rows.items():
                    data.set(doc_id, row)
                if table.exists:
                    data.create()
                    data.next_id = table.next_id

    def export_tinydb(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file that TinyDB opens, with the same documents and ids."""
        export.export_tinydb(self, path)

    def import_tinydb(self, path: str | os.PathLike[str]) -> dict[str, int]:
        """Add a TinyDB JSON file to empty tables. Returns the number of documents for each table."""
        return export.import_tinydb(self, path)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _DurableStore(JournalStorage, Store):
    """A store whose commits are lines of a journal file."""
