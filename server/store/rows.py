"""All tables' rows in memory, and the promise that a group of changes happens whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping
from types import TracebackType
from typing import Any, Protocol, cast

from tinydb.storages import Storage

from leyden.server.errors import StoreError
from leyden.server.store.table_data import Row, TableData, TableSnapshot

Snapshot = Mapping[str, TableSnapshot]


class CommitParticipant(Protocol):
    """Whoever has more to do and to undo in a commit than rows: timers, luck, posts."""

    def begin(self) -> None:
        """A commit begins: remember what it may change besides rows."""

    def commit(self) -> None:
        """The commit is written down."""

    def rollback(self, error: BaseException) -> None:
        """The commit came to nothing: undo what it changed besides rows."""


class Commit:
    """A group of changes: `with storage.commit(): ...`. Inside another it joins that one.

    Leaving it normally writes the changes down; leaving it by an exception takes them back, in every table. When an
    inner one failed and the exception was caught on the way, the outer one takes everything back and raises
    `StoreError`: half of what was meant together is never kept.
    """

    __slots__ = ("_storage",)

    def __init__(self, storage: RowStorage) -> None:
        self._storage = storage

    def __enter__(self) -> None:
        storage = self._storage
        if not storage.depth and storage.watcher is not None:
            storage.watcher.begin()
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
                # It stands when this returns and not when this raises.
                if storage.touched:
                    if storage.pre_commit_hook is not None:
                        storage.pre_commit_hook()
                    storage.write_commit(storage.touched)
        except BaseException as refused:
            error = refused
            raise
        finally:
            # What interrupts here (Ctrl-C comes between any two calls) waits: half kept or half taken back, the rows
            # would no longer be what the file says. Doing either again does no harm.
            end = storage.finish_commit if error is None else storage.rollback
            watcher = storage.watcher
            try:
                end()
            except BaseException:
                end()
                raise
            finally:
                if watcher is not None:
                    if error is None:
                        watcher.commit()
                    else:
                        watcher.rollback(error)
        storage.after_commit()


class RowStorage(Storage):
    """Tables in memory, with commits. It is a complete TinyDB storage; the file storage adds what is durable.

    `depth` counts the commits open inside one another, `touched` lists the tables the open commit has changed;
    `last_words` is what `before_seal` was given.
    """

    def __init__(self, state: Snapshot | None = None) -> None:
        super().__init__()
        self.depth = 0
        self.rollback_only = False
        self.touched: list[TableData] = []
        self.tables: dict[str, TableData] = {
            name: TableData(self, name, shelf_state) for name, shelf_state in (state or {}).items()
        }
        self._commit = Commit(self)
        self._after_rollback: list[Callable[[], None]] = []
        self.pre_commit_hook: Callable[[], None] | None = None
        self.watcher: CommitParticipant | None = None

    def table_data(self, name: str) -> TableData:
        """The table's table_data; an empty one when there is none."""
        table_data = self.tables.get(name)
        if table_data is None:
            table_data = self.tables[name] = TableData(self, name)
        return table_data

    def snapshot(self) -> Snapshot:
        """Every table as it stands, as data. Raises `StoreError` inside a commit, which may yet be taken back."""
        if self.depth:
            raise StoreError("a snapshot inside a commit would hold what may yet be taken back: take it outside")
        return {name: table_data.snapshot() for name, table_data in self.tables.items()}

    # Commits

    def commit(self) -> Commit:
        """Group the writes of a `with` block."""
        return self._commit

    def on_rollback(self, callback: Callable[[], None]) -> None:
        """Have `callback` called after every rollback: whoever keeps something derived from rows throws it away."""
        self._after_rollback.append(callback)

    def set_pre_commit_hook(self, callback: Callable[[], None] | None) -> None:
        """Have `callback` add what belongs to every commit that changed something, just before it is written down."""
        self.pre_commit_hook = callback

    def finish_commit(self) -> None:
        """End the commit that was written down."""
        for table_data in self.touched:
            table_data.end_commit()
        self.touched.clear()
        self.depth = 0

    def rollback(self) -> None:
        """Take back what the open commit did."""
        self.depth, self.rollback_only = (
            0,
            True,
        )  # should this be interrupted, the next commit comes to nothing and ends it
        for table_data in self.touched:
            table_data.rollback()
        self.touched.clear()
        self.rollback_only = False
        for callback in self._after_rollback:
            callback()

    # What a durable storage adds

    def write_commit(self, touched: list[TableData]) -> None:
        """Make the changes of these tables last; raise when that is impossible."""

    def after_commit(self) -> None:
        """A commit is over; there is time for a little housekeeping, which may not fail."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the operator should know about how the data was found."""
        return ()

    @property
    def unsynced(self) -> bool:
        """Whether something committed would be lost if the machine, not just the process, stopped now."""
        return False

    def flush(self) -> None:
        """Wait until everything committed so far is on the disk."""

    def maybe_sync(self, now_ms: int) -> bool:
        """Under policy `interval`: flush if it is time to; True if it did."""
        return False

    def compact(self) -> None:
        """Leave out of the file what is no longer there."""

    # TinyDB's own interface: every row of every table, each time. Our table does not use it.

    def read(self) -> dict[str, dict[str, Any]] | None:
        """TinyDB's form of the data, made as it is looked at: tables by name, rows by their id as text."""
        tables = {name: _TableView(table_data) for name, table_data in self.tables.items() if table_data.exists}
        return cast("dict[str, dict[str, Any]]", tables) or None

    def write(self, data: Mapping[str, Mapping[Any, Mapping[str, Any]]]) -> None:
        """Make the data what TinyDB says it is, as one commit; tables that `read` returned are left as they are."""
        with self._commit:
            for name, table_data in self.tables.items():
                if table_data.exists and name not in data:
                    table_data.drop()
            for name, table in data.items():
                table_data = self.table_data(name)
                if not (isinstance(table, _TableView) and table.table_data is table_data):
                    _replace_rows(table_data, {int(doc_id): dict(row) for doc_id, row in table.items()})


class _TableView(Mapping[str, Row]):
    """A table as TinyDB's stock classes expect it. Rows are copies, because those classes change them in place."""

    def __init__(self, table_data: TableData) -> None:
        self.table_data = table_data

    def __getitem__(self, doc_id: str) -> Row:
        number = parse_doc_id(doc_id)
        if number is None:
            raise KeyError(doc_id)
        return deep_copy(self.table_data.rows[number])

    def __iter__(self) -> Iterator[str]:
        return iter([str(doc_id) for doc_id in self.table_data.rows])

    def __len__(self) -> int:
        return len(self.table_data.rows)

    def items(self) -> ItemsView[str, Row]:
        """All of them as they are now: the table may change while they are walked."""
        return {str(doc_id): deep_copy(row) for doc_id, row in self.table_data.rows.items()}.items()


def parse_doc_id(doc_id: object) -> int | None:
    """A document id as a number; None for what TinyDB would not find."""
    # TinyDB compares ids by their text: "7" is 7, and True is not 1.
    if type(doc_id) is int:
        return doc_id
    text = str(doc_id)
    try:
        return number if str(number := int(text)) == text else None
    except ValueError:
        return None


def deep_copy(row: Row) -> Row:
    """A copy that may be changed at any depth."""
    return {field: _copy_value(value) for field, value in row.items()}


def _copy_value(value: Any) -> Any:
    if isinstance(value, dict):
        return deep_copy(value)
    if isinstance(value, list):
        return [_copy_value(item) for item in value]
    return value


def _replace_rows(table_data: TableData, rows: dict[int, Row]) -> None:
    staying = [doc_id for doc_id in table_data.rows if doc_id in rows]
    if staying != list(rows)[: len(staying)]:
        table_data.clear()  # the rows changed places: say them all again, in their new order
    table_data.create()
    for doc_id in [doc_id for doc_id in table_data.rows if doc_id not in rows]:
        table_data.delete(doc_id)
    for doc_id, row in rows.items():
        # By their text: 1, 1.0 and True are equal, and so would a change from one to another be lost.
        if doc_id not in table_data.rows or repr(table_data.rows[doc_id]) != repr(row):
            table_data.set(doc_id, row)
