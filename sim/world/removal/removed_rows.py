"""The number of rows that a sandbox with a bound has removed since its directory was created."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypedDict, cast

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leyden.server.printable import quoted
from leyden.server.store.store import Store
from leyden.server.store.typed_table import TypedTable
from leyden.world.event_journal import HashedEventJournal

TABLE = "last_ids"
DIRECTORIES = "spill_directories"
HEADER = "Leyden-Removed"
# What the responses count, by table. Responses for idempotency keys are deleted after 24 hours in any case.
_SHOWN = {
    "charges": "charges",
    "static_charges": "staticCharges",
    "payments": "payments",
    "deliveries": "deliveries",
}


class LastIdRow(TypedDict):
    """Table `last_ids`: the highest document id that the table `id` ever had, when the row with it was removed."""

    id: str
    last_id: int


class DirectoryRow(TypedDict):
    """Table `spill_directories`: a directory that `run(spill=)` wrote, by its absolute path, and how many Charges had
    been removed before the first that it has. Former versions wrote no such table."""

    id: str
    charges_before: int


class RemovedRows:
    """Counts what is missing below the highest document id of a table.

    A journal file has no such id apart from the rows. So the row with the highest one leaves it behind when it is
    removed, and a store that is opened again continues from it, with or without a bound.

    `is_bounded`: a bound removes rows. The directories of `run(spill=)` are rows, too; the process that wrote one shows
    its path as it was given.
    """

    def __init__(self, store: Store, journal: HashedEventJournal, *, is_bounded: bool = False) -> None:
        self._store = store
        self._journal = journal
        self._is_bounded = is_bounded
        self._given: dict[str, Path] = {}  # directories as they were given, by their absolute paths
        self._unnoted: DirectoryRow | None = None  # the directory that has nothing yet
        self._left: set[Path] = set()  # those with rows of a later instant, before a return to an earlier one
        if TABLE in store.tables:
            for row in self._last_ids():
                data = store.table_data(row["id"])
                data.max_id = max(data.max_id, row["last_id"])
                data.next_id = data.max_id + 1

    def note(self) -> None:
        """At the end of a commit that may have removed rows, inside of it: note the highest ids that no row has."""
        for name in _SHOWN:
            data = self._store.table_data(name)
            if data.max_id and data.max_id not in data.rows:
                data.next_id = data.max_id + 1  # a table that was opened has none until a row is put
                rows = self._last_ids()
                last = rows.row(name)
                if last is None or last["last_id"] != data.max_id:
                    rows.put({"id": name, "last_id": data.max_id})
        if self._unnoted is not None and self._unnoted["charges_before"] < self._of_tables()["charges"]:
            self._directories().put(self._unnoted)
            self._unnoted = None

    def counts(self) -> dict[str, int]:
        """The number of removed rows of each kind; for journal entries, the number of those of this process that can no
        longer be read."""
        return {**self._of_tables(), "journalEntries": self._journal.dropped}

    def nothing(self, name: str, text: str, of: str = "") -> str:
        """`text`, which says that there is nothing of this kind (a name of `counts`), and of what was removed."""
        count = self.counts()[name]
        return f"{text} is kept: {count}{of} removed{self._where()}" if count else text

    def without(self, name: str, of: str = "") -> str:
        """That rows of this kind (a name of `counts`) are missing because they were removed, and where they are; empty
        if none is. Whatever counts, draws or lists rows says it. `of` says of what the number is."""
        count = self.counts()[name]
        return f"without {count}{of} that were removed from the sandbox{self._where()}" if count else ""

    def unknown(self, *names: str) -> str:
        """What an error about an id that no row of these kinds has adds: that it may be one of those that were removed;
        empty if none was."""
        counts = self.counts()
        count = sum(counts[name] for name in names)
        return f"; {count} that ended were removed from the sandbox{self._where()}" if count else ""

    def hint(self, *, is_public: bool = False) -> str:
        """The end of an error about an id that no row has, where some were removed. One that `is_public` is read by
        people who have no API key, and names no directory."""
        if names := self._named():
            where = "" if is_public else f" ({_with_them(names)})"
            return f"; run(spill=) has removed some that ended{where}"
        return f"; {'' if self._is_bounded else 'run(spill=) or '}--keep has removed some that ended"

    def write_to(self, directory: Path, charges_before: int) -> None:
        """From now on rows that are removed are in this directory, until another is given. `charges_before` of the
        Charges were removed before those that it has. Call it inside a commit."""
        row: DirectoryRow = {"id": _absolute(directory), "charges_before": charges_before}
        self._given.setdefault(row["id"], directory)
        self._unnoted = None if row["id"] in self._named() else row
        self.note()

    def is_left(self, directory: Path) -> bool:
        """Whether the sandbox wrote this directory before it returned to an earlier instant."""
        return directory.resolve() in self._left

    def continue_from(self, former: RemovedRows, *, is_return: bool = False) -> None:
        """The world whose rows these are too showed its directories as they were given; with `is_return` that world was
        at a later instant."""
        self._given = former._given.copy()
        if is_return:
            self._left = former._left | {path.resolve() for path in former._given.values()}

    def _where(self) -> str:
        """Where the removed rows are, or what removed them."""
        if names := self._named():
            return f" ({_with_them(names)})"
        return " by --keep" if self._is_bounded else " by run(spill=) or --keep, before it was opened"

    def _named(self) -> dict[str, str]:
        """The directories that have removed rows, as they are shown, by their absolute paths."""
        if DIRECTORIES not in self._store.tables:
            return {}
        return {row["id"]: str(self._given.get(row["id"], row["id"])) for row in self._directories()}

    def any_row(self) -> bool:
        """Whether a row was ever removed."""
        return any(self._of_tables().values())

    def _of_tables(self) -> dict[str, int]:
        tables = {shown: self._store.table_data(name) for name, shown in _SHOWN.items()}
        return {shown: max(data.max_id, (data.next_id or 1) - 1) - len(data.rows) for shown, data in tables.items()}

    def _last_ids(self) -> TypedTable[LastIdRow]:
        return cast(TypedTable[LastIdRow], self._store.table(TABLE))

    def _directories(self) -> TypedTable[DirectoryRow]:
        return cast(TypedTable[DirectoryRow], self._store.table(DIRECTORIES))


def _absolute(directory: Path) -> str:
    """The absolute path as a text that can be written as JSON, whatever bytes it has."""
    return os.fsencode(directory.resolve()).decode("utf-8", "backslashreplace")


def _with_them(names: dict[str, str]) -> str:
    calls = [f"leyden.read({quoted(name, 120)})" for name in names.values()]
    return f"{' and '.join(calls)} {'has' if len(calls) == 1 else 'have'} them"


class RemovedHeader:
    """Says in the header `Leyden-Removed` of every response how many of each kind were removed, once some were."""

    def __init__(self, app: ASGIApp, removed: RemovedRows) -> None:
        self._app = app
        self._removed = removed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does."""

        async def with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                counts = [f"{name}={count}" for name, count in self._removed.counts().items() if count]
                if counts:
                    MutableHeaders(scope=message)[HEADER] = ", ".join(counts)
            await send(message)

        await self._app(scope, receive, with_header)
