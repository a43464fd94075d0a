"""All tables' rows in memory, and the promise that a group of changes happens whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping
from types import TracebackType
from typing import Any, Protocol, cast

from tinydb.storages import Storage

from leyden.server.errors import StoreError
from leyden.server.store.table_data import Row, Shelf, ShelfState

Snapshot = Mapping[str, ShelfState]


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
                storage.doomed = True
            return
        try:
            if error is None:
                if storage.doomed:
                    raise StoreError(
                        "a commit inside this one failed and its exception was caught, so nothing of this commit was"
                        " kept; let the exception through, or make the two commits separate"
                    )
                # It stands when this returns and not when this raises.
                if storage.touched:
                    if storage.last_words is not None:
                        storage.last_words()
                    storage.write_down(storage.touched)
        except BaseException as refused:
            error = refused
            raise
        finally:
            # What interrupts here (Ctrl-C comes between any two calls) waits: half kept or half taken back, the rows
            # would no longer be what the file says. Doing either again does no harm.
            end = storage.keep if error is None else storage.roll_back
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
        storage.settled()


class RowStorage(Storage):
    """Tables in memory, with commits. It is a complete TinyDB storage; the file storage adds what is durable.

    `depth` counts the commits open inside one another, `touched` lists the shelves the open commit has changed;
    `last_words` is what `before_seal` was given.
    """

    def __init__(self, state: Snapshot | None = None) -> None:
        super().__init__()
        self.depth = 0
        self.doomed = False
        self.touched: list[Shelf] = []
        self.shelves: dict[str, Shelf] = {
            name: Shelf(self, name, shelf_state) for name, shelf_state in (state or {}).items()
        }
        self._commit = Commit(self)
        self._after_rollback: list[Callable[[], None]] = []
        self.last_words: Callable[[], None] | None = None
        self.watcher: CommitParticipant | None = None

    def shelf(self, name: str) -> Shelf:
        """The table's shelf; an empty one when there is none."""
        shelf = self.shelves.get(name)
        if shelf is None:
            shelf = self.shelves[name] = Shelf(self, name)
        return shelf

    def snapshot(self) -> Snapshot:
        """Every table as it stands, as data. Raises `StoreError` inside a commit, which may yet be taken back."""
        if self.depth:
            raise StoreError("a snapshot inside a commit would hold what may yet be taken back: take it outside")
        return {name: shelf.state() for name, shelf in self.shelves.items()}

    # Commits

    def commit(self) -> Commit:
        """Group the writes of a `with` block."""
        return self._commit

    def on_rollback(self, callback: Callable[[], None]) -> None:
        """Have `callback` called after every rollback: whoever keeps something derived from rows throws it away."""
        self._after_rollback.append(callback)

    def before_seal(self, callback: Callable[[], None] | None) -> None:
        """Have `callback` add what belongs to every commit that changed something, just before it is written down."""
        self.last_words = callback

    def keep(self) -> None:
        """End the commit that was written down."""
        for shelf in self.touched:
            shelf.keep()
        self.touched.clear()
        self.depth = 0

    def roll_back(self) -> None:
        """Take back what the open commit did."""
        self.depth, self.doomed = 0, True  # should this be interrupted, the next commit comes to nothing and ends it
        for shelf in self.touched:
            shelf.undo()
        self.touched.clear()
        self.doomed = False
        for callback in self._after_rollback:
            callback()

    # What a durable storage adds

    def write_down(self, touched: list[Shelf]) -> None:
        """Make the changes of these shelves last; raise when that is impossible."""

    def settled(self) -> None:
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
        tables = {name: _Shown(shelf) for name, shelf in self.shelves.items() if shelf.made}
        return cast("dict[str, dict[str, Any]]", tables) or None

    def write(self, data: Mapping[str, Mapping[Any, Mapping[str, Any]]]) -> None:
        """Make the data what TinyDB says it is, as one commit; tables that `read` returned are left as they are."""
        with self._commit:
            for name, shelf in self.shelves.items():
                if shelf.made and name not in data:
                    shelf.drop()
            for name, table in data.items():
                shelf = self.shelf(name)
                if not (isinstance(table, _Shown) and table.shelf is shelf):
                    _bring_to(shelf, {int(doc_id): dict(row) for doc_id, row in table.items()})


class _Shown(Mapping[str, Row]):
    """A table as TinyDB's stock classes expect it. Rows are copies, because those classes change them in place."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf

    def __getitem__(self, doc_id: str) -> Row:
        number = as_id(doc_id)
        if number is None:
            raise KeyError(doc_id)
        return thawed(self.shelf.rows[number])

    def __iter__(self) -> Iterator[str]:
        return iter([str(doc_id) for doc_id in self.shelf.rows])

    def __len__(self) -> int:
        return len(self.shelf.rows)

    def items(self) -> ItemsView[str, Row]:
        """All of them as they are now: the table may change while they are walked."""
        return {str(doc_id): thawed(row) for doc_id, row in self.shelf.rows.items()}.items()


def as_id(doc_id: object) -> int | None:
    """A document id as a number; None for what TinyDB would not find."""
    # TinyDB compares ids by their text: "7" is 7, and True is not 1.
    if type(doc_id) is int:
        return doc_id
    text = str(doc_id)
    try:
        return number if str(number := int(text)) == text else None
    except ValueError:
        return None


def thawed(row: Row) -> Row:
    """A copy that may be changed at any depth."""
    return {field: _thawed(value) for field, value in row.items()}


def _thawed(value: Any) -> Any:
    if isinstance(value, dict):
        return thawed(value)
    if isinstance(value, list):
        return [_thawed(item) for item in value]
    return value


def _bring_to(shelf: Shelf, rows: dict[int, Row]) -> None:
    staying = [doc_id for doc_id in shelf.rows if doc_id in rows]
    if staying != list(rows)[: len(staying)]:
        shelf.wipe()  # the rows changed places: say them all again, in their new order
    shelf.make()
    for doc_id in [doc_id for doc_id in shelf.rows if doc_id not in rows]:
        shelf.delete(doc_id)
    for doc_id, row in rows.items():
        # By their text: 1, 1.0 and True are equal, and so would a change from one to another be lost.
        if doc_id not in shelf.rows or repr(shelf.rows[doc_id]) != repr(row):
            shelf.set(doc_id, row)
